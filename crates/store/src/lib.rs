//! Cutpoint's repository: the object format, the write rules, the reader, and the checker.
#![forbid(unsafe_code)]

pub mod access;
pub mod calendar;
pub mod check;
pub mod describe;
pub mod environment;
pub mod error;
pub mod fingerprint;
pub mod format;
pub mod index;
pub mod lifecycle;
pub mod liveness;
pub mod media;
#[cfg(feature = "mutants")]
pub mod mutant;
pub mod name;
mod parity;
mod places;
pub mod prune;
mod reach;
pub mod reader;
mod recent;
pub mod record;
pub mod repair;
pub mod repository;
pub mod retention;
pub mod seal;
mod sorted;
pub mod stop;
pub mod sweep;
pub mod view;
pub mod wait;
pub mod writer;
