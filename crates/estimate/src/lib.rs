#![doc = include_str!("../README.md")]
//!
//! # Counting chunks
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

mod clock;
mod counter;
mod error;
mod estimate;
mod files;
mod sampler;
mod savings;
pub mod scan;
#[cfg(unix)]
mod scratch;

pub use counter::{Counter, FINGERPRINT_LEN, Fingerprint};
pub use error::EstimateError;
pub use estimate::{
    Bursts, CHUNK_COST, ConfigurationResult, DEFAULT_SPECS, EstimateOptions, EstimateReport, Times,
    estimate,
};
pub use sampler::{Estimate, Options as SampleOptions, Sampler};
pub use savings::Savings;
pub use scan::{Monitor, Progress, ScanCounts, ScanOptions};
#[cfg(unix)]
pub use scratch::{ScratchBackup, ScratchOptions, ScratchRepository, StoredSizes};
