//! Cutpoint's repository: its format, its write rules, its reader and checker.
#![forbid(unsafe_code)]

pub mod check;
pub mod describe;
pub mod environment;
pub mod error;
pub mod fingerprint;
pub mod format;
pub mod index;
pub mod media;
pub mod name;
pub mod reader;
pub mod record;
pub mod repair;
pub mod repository;
pub mod seal;
pub mod view;
pub mod writer;
