//! What deduplication would save: counted from chunks as they come, before anything is stored.
//!
//! [`Savings`] is what comes of a count, with the two figures that the field uses, and [`Counter`]
//! counts chunks by their fingerprints.
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
mod savings;

pub use counter::{Counter, FINGERPRINT_LEN, Fingerprint};
pub use savings::Savings;
