//! Questions about bytes that an instruction set answers many at a time.
//!
//! A file of this folder knows blocks of bytes and masks of bits. It does not know what a chunk is:
//! the rules are written once, in [`algorithm`](crate::algorithm), over any [`Kernel`]. [`Scalar`]
//! is plain Rust, and the definition of what the others must answer (`conformance.rs`).
//!
//! There are three shapes of `unsafe` here, and nowhere else in the crate: entering code that was
//! compiled for an instruction set, calling a function of it, and loading from a reference.

#[cfg(target_arch = "aarch64")]
#[expect(unsafe_code, reason = "instruction sets are entered, called and loaded from")]
mod aarch64;
mod aes;
mod columns;
#[cfg(test)]
mod conformance;
mod emulated;
mod level;
mod scalar;
#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "instruction sets are entered, called and loaded from")]
mod x86_64;

pub(crate) use aes::{AesKeys, Cipher, CipherTask, WindowSize, Windows};
pub(crate) use columns::{ByteTable, Columns, ColumnsTask, ColumnsWork, ROW_COUNT};
pub(crate) use emulated::Emulated;
pub(crate) use level::LevelCipher;
pub use level::{Level, LevelError};
pub(crate) use scalar::Scalar;

/// How many bytes are asked about at once.
pub(crate) const BLOCK_SIZE: usize = 64;

/// As many bytes.
pub(crate) type Block = [u8; BLOCK_SIZE];

/// So many bytes that a number of 32 bits begins at each of a block.
pub(crate) type NumberBlock = [u8; BLOCK_SIZE + 3];

/// A little-endian number of 32 bits, times `factor`, plus `summand`, modulo 2^32.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mapping {
    pub(crate) factor: u32,
    pub(crate) summand: u32,
}

impl Mapping {
    #[inline(always)]
    pub(crate) fn map(self, number: [u8; 4]) -> u32 {
        u32::from_le_bytes(number).wrapping_mul(self.factor).wrapping_add(self.summand)
    }
}

/// The numbers that begin at bytes 0, 4, 8 and so on; at 1, 5, 9; at 2, 6, 10; at 3, 7, 11.
#[inline(always)]
fn number_blocks(bytes: &NumberBlock) -> Option<[&Block; 4]> {
    Some([
        bytes.first_chunk()?,
        bytes[1..].first_chunk()?,
        bytes[2..].first_chunk()?,
        bytes.last_chunk()?,
    ])
}

/// The tables of [`Kernel::sift`].
pub(crate) type Tables = [[u8; 16]; 4];

/// What an instruction set supplies to the rules. Bit `k` of a mask is about byte `k`.
///
/// A value of an implementing type is a proof that this CPU has the instruction set: that is why
/// the methods are safe. They are `#[inline(always)]`, to be inlined into the one function of their
/// instruction set that [`Level::dispatch`] enters.
pub(crate) trait Kernel: Copy {
    /// Compares each of the 65 bytes but the last with the one after. The first mask says where the
    /// first of the two is less, the second where it is greater.
    fn compare(self, bytes: &[u8; BLOCK_SIZE + 1]) -> (u64, u64);

    /// Which bytes are greater than `value`.
    fn above(self, block: &Block, value: u8) -> u64;

    /// Which bytes are less than `value`.
    fn below(self, block: &Block, value: u8) -> u64;

    /// The least of the 64 numbers that begin at each of the first 64 bytes, as `mapping` maps them.
    fn least_number(self, bytes: &NumberBlock, mapping: Mapping) -> u32;

    /// Whether any of these is less than `bound`.
    fn has_number_below(self, bytes: &NumberBlock, mapping: Mapping, bound: u32) -> bool;

    /// Which of the 64 pairs of neighbours may be wanted, by four tables of sets of up to 8 things:
    /// those for which a set of each table has a thing in common. The first table is asked by the
    /// lower half of the first byte, the second by its upper half; the others by those of the second
    /// byte.
    fn sift(self, bytes: &[u8; BLOCK_SIZE + 1], tables: &Tables) -> u64;

    /// Keeps the bits of `bits` at which `kept` has a one, and moves them together at the low end.
    fn squeeze(self, bits: u64, kept: u64) -> u64;

    /// The index of the one bit of `mask` that has `n` one bits below it; 64 where there is none.
    fn nth_one(self, mask: u64, n: u32) -> u32;

    /// Asks for the cache line of byte `offset` of `data`, which may lie behind its end.
    fn prefetch(self, data: &[u8], offset: usize);
}

/// Work that is written once for every kernel: a closure cannot be generic, so it is a struct.
pub(crate) trait Task {
    /// What it results in.
    type Output;

    /// Does the work; `#[inline(always)]`, for the reason given at [`Kernel`].
    fn run<K: Kernel>(self, kernel: K) -> Self::Output;
}
