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
//! - `file`: the format of a run file.
//! - `folder`: the run files of a repository, which are created, merged and opened.

mod block;
mod file;
mod filter;
mod folder;
mod merge;
mod run;

pub(super) use folder::{create, merge_tiers, open_all};
pub(super) use merge::MergedHints;
pub(super) use run::Run;
