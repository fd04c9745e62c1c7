//! The lab: chunking algorithms over data sets, measured by one method, and a report beside the papers'
//! figures.
//!
//! A [`Definition`] says which data sets, which algorithms, and what is measured. [`Run`] takes one cell
//! of it after the other and appends [`Row`]s to a folder of [`Results`]: a file of comma-separated
//! values that grows, and the same in Parquet in the end. What is there already is not measured again,
//! so an interrupted run goes on. [`claims`] holds what the papers say against the rows, and [`report`]
//! makes one page of all that.
//!
//! `docs/lab.md` has the method, and what speaks against it.
//!
//! # Reading order
//!
//! [`Definition`], [`data`] (what is cut), [`algorithm`] (by what), [`measure`] (one file for each kind of
//! measurement), [`Row`], [`Run`], [`claims`], [`report`].
#![forbid(unsafe_code)]

pub mod algorithm;
pub mod claims;
mod counters;
pub mod data;
mod definition;
mod error;
pub mod law;
pub mod measure;
mod parquet_file;
pub mod report;
mod results;
mod row;
mod run;

pub use definition::{AlgorithmPart, DataPart, Definition, Levels, MeasurePart, Text};
pub use error::LabError;
pub use results::Results;
pub use row::{Row, Spread};
pub use run::{Progress, Run, Setting};
