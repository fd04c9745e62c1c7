//! The lab: measures chunking algorithms on data sets by one method, and reports the results next
//! to the figures of the papers.
//!
//! A [`Definition`] lists data sets, algorithms and measurements. [`Run`] measures one cell of the
//! definition after another and appends [`Row`]s to a folder of [`Results`]: a growing file of
//! comma-separated values, and the same rows in Parquet at the end. Cells with results are not
//! measured again, so that an interrupted run can be resumed. [`claims`] compares the claims of the
//! papers with the rows, and [`report`] makes one page of all results.
//!
//! Two other tools look at the files of a user: [`trace`] writes a row for each chunk, and [`tune`]
//! searches for parameters.
//!
//! `docs/lab.md` describes the method and its limits.
//!
//! # Reading order
//!
//! [`Definition`], [`data`] (the data to cut), [`algorithm`] (the algorithms and their parameters),
//! [`measure`] (one file for each kind of measurement), [`Row`], [`Run`], [`claims`], [`report`].
#![forbid(unsafe_code)]

pub mod algorithm;
pub mod claims;
mod counters;
pub mod data;
mod definition;
mod error;
mod kind;
pub mod law;
pub mod made;
pub mod measure;
mod parquet_file;
pub mod report;
mod results;
mod row;
mod run;
mod searched;
mod size;
mod template;
pub mod trace;
pub mod tune;
mod until;

pub use definition::{AlgorithmPart, DataPart, Definition, Levels, MeasurePart, Text};
pub use error::LabError;
pub use results::Results;
pub use row::{Row, Spread};
pub use run::{Progress, Run, Setting};
