//! Verification: finding damage, repairing it, and describing objects as text.

pub mod check;
pub mod describe;
pub(crate) mod original;
pub mod repair;
