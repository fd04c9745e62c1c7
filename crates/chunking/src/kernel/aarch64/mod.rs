//! The instruction sets of AArch64.

mod neon;

pub(super) use neon::Neon;
