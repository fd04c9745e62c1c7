//! Verification: finding damage, repairing it, and describing objects as text.
//!
//! - `original.rs`: the original bytes of an object, as far as they follow from what is left.
//! - `check/`: finds and records damage.
//! - `repair/`: repairs what a check has found.
//! - `describe.rs`: any object as text.

pub mod check;
pub mod describe;
pub(crate) mod original;
pub mod repair;
