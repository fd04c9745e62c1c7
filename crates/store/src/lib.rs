//! Cutpoint's repository: its format, its write rules, its reader and checker.
#![forbid(unsafe_code)]
pub mod error;
pub mod fingerprint;
pub mod format;
