//! Estimates of the savings of deduplication, computed before anything is stored.
//!
//! [`estimate()`] reads files once, and computes the savings and the costs of several ways to cut
//! them. [`Savings`] is the result of a count, with the two figures that the field uses.
//! [`Counter`] counts chunks by their fingerprints exactly, and [`Sampler`] in bounded memory.
//! [`trace()`] writes a trace of chunks for other programs, and [`read_trace`] reads such traces.
//! [`tune()`] searches for parameters. `docs/estimate.md` gives the accuracy.
//!
//! ```
//! use cutpoint_estimate::Counter;
//!
//! let mut counter = Counter::new();
//! assert!(counter.add(&[1; 16], 1000), "new");
//! assert!(!counter.add(&[1; 16], 1000), "known");
//! let savings = counter.savings();
//! assert_eq!(savings.space_savings(), Some(0.5));
//! assert_eq!(savings.dedup_ratio(), Some(2.0));
//! ```
#![forbid(unsafe_code)]

mod counter;
mod estimate;
mod sampler;
mod savings;
mod scan;
mod trace;
mod tune;

pub use counter::{Counter, FINGERPRINT_LEN, Fingerprint};
pub use estimate::{
    Bursts, Configured, EstimateError, EstimateOptions, Estimated, Times, estimate,
};
pub use sampler::{Estimate, Options as SampleOptions, Sampler};
pub use savings::Savings;
pub use scan::{Monitor, Progress, ScanCounts, ScanOptions};
pub use trace::{Format, Row, TraceOptions, TraceSavings, Traced, read_trace, trace};
pub use tune::{Origin, TuneOptions, Tuned, Tuning, tune};
