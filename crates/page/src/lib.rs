//! The snapshots of a repository and what takes its space, as web pages.
//!
//! [`space`] measures what takes the space, [`chart`] draws it as SVG, and [`report`] puts the drawings
//! into one file. [`server`] (feature `server`) shows snapshots to a browser of the same machine: folders,
//! files, differences, downloads, searches and the same drawings.
//!
//! Nothing here asks another machine for anything, and names and contents of files are never markup:
//! the drawings escape them, and the script of the page sets them as text.
#![forbid(unsafe_code)]

pub mod chart;
pub mod report;
#[cfg(feature = "server")]
pub mod server;
pub mod space;
