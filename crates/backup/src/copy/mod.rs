//! Copies: snapshots of another repository, and snapshots without some of their entries.
//!
//! [`plan_copies`] finds the snapshots that a repository lacks, and [`copy`] saves them there, by
//! the pipeline of a backup. Files and folders that are equal in a snapshot that was copied before
//! are taken over from its copy (rule W3). If both repositories cut and fingerprint data alike,
//! chunks are copied as they are, and those that the target has are not read. Otherwise the bytes of
//! files are cut anew.
//!
//! [`plan_imports`] finds the snapshots of a [`ForeignRepository`] that a repository lacks, and
//! [`copy`] saves them as well.
//!
//! [`plan_rewrites`] finds the snapshots that have an entry to leave out, and [`rewrite`] saves them
//! again without it, in the same repository.
//!
//! [`ForeignRepository`]: crate::save::ForeignRepository

mod lost;
mod monitor;
mod plan;
mod rewrite;
mod run;
mod sample;
mod survey;
mod totals;

pub use monitor::CopyMonitor;
pub use plan::{CopyPlan, CopyRules, ForeignSnapshot, PlannedCopy, plan_copies, plan_imports};
pub use rewrite::{PlannedRewrite, RewritePlan, plan_rewrites, rewrite};
pub use run::{CopyReport, copy};
