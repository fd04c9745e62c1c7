//! Sorted runs: the form in which this machine keeps index segments. A run may be deleted at any
//! time, because it is rebuilt from the segments that it covers.
//!
//! A run is never modified. Ten runs of similar size are merged into one, so that a lookup asks a
//! number of runs that grows with the logarithm of the number of hints.
//!
//! In the order in which the files build on each other:
//!
//! - `filter`: tells for most absent hints that a run does not have them.
//! - `block`: groups hints into blocks with a checksum.
//! - `run`: one run, in memory or in a file, and the search in it ([`Run::find`]).
//! - `merge`: the hints of several runs in rising order.
//! - `store`: the places where runs are kept.
//! - `file`: the format of a run file.
//! - `folder`: the run files of a repository, which are merged and opened.
//! - `builder`: makes runs of segments.

mod block;
mod builder;
mod file;
mod filter;
mod folder;
mod merge;
mod run;
mod store;

pub(super) use builder::{DAMAGED_RUNS_MAX, RunBuilder};
pub(super) use folder::{merge_tiers, open_all};
pub(super) use merge::MergedHints;
pub(super) use run::Run;
pub(super) use store::RunStore;
