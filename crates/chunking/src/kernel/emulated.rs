//! Vectors in plain Rust, each operation by its definition: the code over vectors is tested by them on
//! a CPU that lacks the real ones.

use super::{BLOCK_SIZE, Block, Kernel, Scalar, Tables};

/// The kernel of every CPU that is slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Emulated;

impl Kernel for Emulated {
    fn compare(self, bytes: &[u8; BLOCK_SIZE + 1]) -> (u64, u64) {
        Scalar.compare(bytes)
    }

    fn above(self, block: &Block, value: u8) -> u64 {
        Scalar.above(block, value)
    }

    fn below(self, block: &Block, value: u8) -> u64 {
        Scalar.below(block, value)
    }

    fn sift(self, bytes: &[u8; BLOCK_SIZE + 1], tables: &Tables) -> u64 {
        Scalar.sift(bytes, tables)
    }

    fn squeeze(self, bits: u64, kept: u64) -> u64 {
        Scalar.squeeze(bits, kept)
    }

    fn nth_one(self, mask: u64, n: u32) -> u32 {
        Scalar.nth_one(mask, n)
    }

    fn prefetch(self, _: &[u8], _: usize) {}
}
