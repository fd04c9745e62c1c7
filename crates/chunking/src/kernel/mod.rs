//! Queries about bytes that an instruction set answers for many bytes at a time.
//!
//! The files of this folder deal with blocks of bytes and masks of bits, not with chunks. The rules
//! are written once, in [`algorithm`](crate::algorithm), over any [`Kernel`]. [`Scalar`] is plain
//! Rust, and defines the answers of the others (`conformance.rs`).
//!
//! The crate contains three kinds of `unsafe` code, all of them in this module: entering code that
//! was compiled for an instruction set, calling one of its functions, and loading from a reference.

#[cfg(target_arch = "aarch64")]
#[expect(unsafe_code, reason = "instruction sets are entered, called and loaded from")]
mod aarch64;
mod aes;
#[cfg_attr(
    not(target_arch = "x86_64"),
    expect(dead_code, reason = "some tables are for instruction sets of x86-64")
)]
mod columns;
#[cfg(test)]
mod columns_conformance;
#[cfg(test)]
mod conformance;
mod emulated;
mod level;
mod scalar;
#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "instruction sets are entered, called and loaded from")]
mod x86_64;

pub(crate) use aes::{AesKeys, Cipher, CipherTask, WindowSize, Windows};
pub(crate) use columns::{
    ByteTable, Columns, ColumnsKind, ColumnsTask, ColumnsWork, Matrix, PairTable, ROW_COUNT_MAX,
};
pub(crate) use emulated::Emulated;
pub(crate) use level::LevelCipher;
pub use level::{Level, LevelError};
pub(crate) use scalar::Scalar;

/// The number of bytes in a block.
pub(crate) const BLOCK_SIZE: usize = 64;

/// A block of bytes.
pub(crate) type Block = [u8; BLOCK_SIZE];

/// The bytes of a block and 3 more, so that a number of 32 bits begins at each byte of the block.
pub(crate) type NumberBlock = [u8; BLOCK_SIZE + 3];

/// The largest size of a value in bytes.
pub(crate) const VALUE_SIZE_MAX: usize = 8;

/// The number of bytes in a block of which a value of up to 8 bytes begins at each byte, with those
/// of the last values.
pub(crate) const VALUE_BLOCK_SIZE: usize = BLOCK_SIZE + VALUE_SIZE_MAX - 1;

/// The bytes of a block and 7 more.
pub(crate) type ValueBlock = [u8; VALUE_BLOCK_SIZE];

/// The number of bytes in a span, of which [`Kernel::next_extreme`] compares all values at once.
pub(crate) const SPAN_SIZE: usize = 4 * BLOCK_SIZE;

/// The number of bytes behind the last block of bytes of which all values are compared at once.
pub(crate) const TAIL_SIZE: usize = 16;

/// The number of blocks in a span.
const SPAN_BLOCK_COUNT: usize = SPAN_SIZE / BLOCK_SIZE;

/// The bytes of a span and 16 more, so that a value of up to 8 bytes begins at each byte of the
/// span.
pub(crate) type ValueSpan = [u8; SPAN_SIZE + TAIL_SIZE];

/// The positions of the most extreme values of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extremes {
    /// The first of the most extreme values.
    pub(crate) first: usize,
    /// The last of the most extreme values, which equals the first one.
    pub(crate) last: usize,
    /// The end of the range of values that were compared.
    pub(crate) end: usize,
}

impl Extremes {
    /// Returns the value at `index` as the most extreme one of a range that ends there.
    #[inline(always)]
    pub(crate) fn single(index: usize) -> Extremes {
        Extremes { first: index, last: index, end: index + 1 }
    }

    /// Returns the positions moved by `offset`.
    #[inline(always)]
    pub(crate) fn behind(self, offset: usize) -> Extremes {
        let Extremes { first, last, end } = self;
        Extremes { first: offset + first, last: offset + last, end: offset + end }
    }
}

/// The number of bytes in a long block.
pub(crate) const LONG_BLOCK_SIZE: usize = 2 * BLOCK_SIZE;

/// The bytes of a long block and 3 more, so that a number of 32 bits begins at each byte of the
/// long block.
pub(crate) type LongNumberBlock = [u8; LONG_BLOCK_SIZE + 3];

/// The number of lanes of [`Kernel::least_numbers`].
pub(crate) const LANE_COUNT: usize = 16;

/// Returns the bits of a number of 64 bits that belong to a value of `size` bytes, which the number
/// begins with.
#[inline(always)]
fn value_bits(size: usize) -> u64 {
    u64::MAX << (8 * (VALUE_SIZE_MAX - size))
}

/// A mapping of little-endian numbers of 32 bits: times `factor`, plus `summand`, modulo 2^32.
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

/// Returns the parts of a long block.
#[inline(always)]
fn parts(bytes: &LongNumberBlock) -> Option<[&NumberBlock; 2]> {
    Some([bytes.first_chunk()?, bytes.last_chunk()?])
}

/// Returns the least byte at which a number of four masks begins: bit k of mask i is byte 4k + i.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn first_byte(masks: [u64; 4]) -> usize {
    let byte = |i: usize| 4 * masks[i].trailing_zeros() as usize + i;
    byte(0).min(byte(1)).min(byte(2)).min(byte(3))
}

/// Returns the blocks of the numbers that begin at bytes 0, 4, 8 and so on; at 1, 5, 9; at 2, 6,
/// 10; at 3, 7, 11.
#[inline(always)]
fn number_blocks(bytes: &NumberBlock) -> Option<[&Block; 4]> {
    Some([
        bytes.first_chunk()?,
        bytes[1..].first_chunk()?,
        bytes[2..].first_chunk()?,
        bytes.last_chunk()?,
    ])
}

/// Returns block `k` of a span, with the 16 bytes behind it.
#[inline(always)]
fn span_block(bytes: &ValueSpan, k: usize) -> &[u8; BLOCK_SIZE + TAIL_SIZE] {
    bytes[k * BLOCK_SIZE..].first_chunk().expect("there are 16 bytes behind the last block")
}

/// Returns block `k` of a span, with the bytes of its last values.
#[inline(always)]
fn value_block(bytes: &ValueSpan, k: usize) -> &ValueBlock {
    span_block(bytes, k).first_chunk().expect("there are 16 bytes behind a block")
}

/// Returns the first position of a span at which a value of `size` bytes, 2, 4 or 8, begins that is
/// not less extreme than that of the first bytes of `bound`; less values are more extreme if `LEAST`
/// is set, and greater ones if not.
#[inline(always)]
fn first_reaching<K: Kernel, const LEAST: bool>(
    kernel: K,
    bytes: &ValueSpan,
    bound: [u8; VALUE_SIZE_MAX],
    size: usize,
) -> Option<usize> {
    for k in 0..SPAN_BLOCK_COUNT {
        let block = value_block(bytes, k);
        let (pairs, pair) = (block.first_chunk()?, [bound[0], bound[1]]);
        let reaching_pairs =
            || if LEAST { kernel.pairs_to(pairs, pair) } else { kernel.pairs_from(pairs, pair) };
        // The first two bytes of a value decide nearly everywhere. All bytes are compared in a
        // branch of its own: compilers turn masks that meet into vectors of single bits.
        if reaching_pairs() == 0 {
            continue;
        }
        let reaching = match size {
            2 => reaching_pairs(),
            // Constant sizes, so that the loop over the bytes of a value is unrolled.
            4 => reaching_values::<K, LEAST>(kernel, block, bound, 4),
            _ => reaching_values::<K, LEAST>(kernel, block, bound, VALUE_SIZE_MAX),
        };
        if reaching != 0 {
            return Some(k * BLOCK_SIZE + reaching.trailing_zeros() as usize);
        }
    }
    None
}

/// Returns the mask of the values of 4 or 8 bytes that are not less extreme than that of the first
/// bytes of `bound`.
#[inline(always)]
fn reaching_values<K: Kernel, const LEAST: bool>(
    kernel: K,
    bytes: &ValueBlock,
    bound: [u8; VALUE_SIZE_MAX],
    size: usize,
) -> u64 {
    if LEAST {
        kernel.values_to(bytes, bound, size)
    } else {
        kernel.values_from(bytes, bound, size)
    }
}

/// The tables of [`Kernel::sift`].
pub(crate) type Tables = [[u8; 16]; 4];

/// The operations that an instruction set supplies to the rules. Bit `k` of a mask belongs to byte
/// `k`.
///
/// A value of an implementing type is a proof that this CPU has the instruction set, which makes
/// the methods safe. The methods are `#[inline(always)]`, to be inlined into the one function of
/// their instruction set that [`Level::dispatch`] enters.
pub(crate) trait Kernel: Copy {
    /// Compares each of the 65 bytes but the last with the next one. The first mask has the pairs
    /// whose first byte is less, the second those whose first byte is greater.
    fn compare(self, bytes: &[u8; BLOCK_SIZE + 1]) -> (u64, u64);

    /// Returns the mask of the bytes greater than `value`.
    fn above(self, block: &Block, value: u8) -> u64;

    /// Returns the mask of the bytes less than `value`.
    fn below(self, block: &Block, value: u8) -> u64;

    /// Returns the mask of the first 64 bytes that, followed by the byte behind them, are not below
    /// `pair`. The first byte of a pair is the more significant one.
    fn pairs_from(self, bytes: &[u8; BLOCK_SIZE + 1], pair: [u8; 2]) -> u64;

    /// Returns the mask of the first 64 bytes that, followed by the byte behind them, are not above
    /// `pair`. The first byte of a pair is the more significant one.
    fn pairs_to(self, bytes: &[u8; BLOCK_SIZE + 1], pair: [u8; 2]) -> u64;

    /// Returns the mask of the first 64 bytes at which a value of 4 or 8 bytes, `size`, begins that
    /// is not below the value of the first bytes of `bound`. The first byte of a value is the most
    /// significant one.
    fn values_from(self, bytes: &ValueBlock, bound: [u8; VALUE_SIZE_MAX], size: usize) -> u64;

    /// Returns the mask of the first 64 bytes at which a value of 4 or 8 bytes, `size`, begins that
    /// is not above the value of the first bytes of `bound`. The first byte of a value is the most
    /// significant one.
    fn values_to(self, bytes: &ValueBlock, bound: [u8; VALUE_SIZE_MAX], size: usize) -> u64;

    /// The largest number of bytes for [`Kernel::extreme_at`]; 0 if the instruction set finds values
    /// faster one after the other.
    const START_SIZE_MAX: usize = 0;

    /// Searches the values of `size` bytes, 2, 4 or 8, that begin in the span for one not less
    /// extreme than that of the first bytes of `bound`. If there is one, returns the most extreme
    /// values of the span before an end somewhere behind that value. Less values are more extreme if
    /// `LEAST` is set, and greater ones if not.
    ///
    /// `by_prefix` is set at the first of the spans that are searched for one bound, and is cleared
    /// when the first bytes of a value turn out not to decide.
    #[inline(always)]
    fn next_extreme<const LEAST: bool>(
        self,
        bytes: &ValueSpan,
        bound: [u8; VALUE_SIZE_MAX],
        size: usize,
        _by_prefix: &mut bool,
    ) -> Option<Extremes> {
        first_reaching::<Self, LEAST>(self, bytes, bound, size).map(Extremes::single)
    }

    /// Returns the position of the most extreme of the values of `size` bytes, 2, 4 or 8, that begin
    /// in `bytes` before the last [`TAIL_SIZE`] bytes, without a branch for each of them: the last
    /// of equal ones if `LAST` is set, and the first one if not. The other bytes are whole blocks.
    #[inline(always)]
    fn extreme_at<const LEAST: bool, const LAST: bool>(
        self,
        _bytes: &[u8],
        _size: usize,
    ) -> Option<usize> {
        None
    }

    /// Returns the least of the 64 numbers that begin at each of the first 64 bytes, mapped by
    /// `mapping`.
    fn least_number(self, bytes: &NumberBlock, mapping: Mapping) -> u32;

    /// Returns `true` if any of these numbers is less than `bound`.
    fn has_number_below(self, bytes: &NumberBlock, mapping: Mapping, bound: u32) -> bool;

    /// Returns the least number of each lane, of the numbers that begin at each of the first 128
    /// bytes, mapped by `mapping`; the greatest number of 32 bits in lanes that are not used.
    fn least_numbers(self, bytes: &LongNumberBlock, mapping: Mapping) -> [u32; LANE_COUNT];

    /// Returns the first of the first 128 bytes at which `number` begins, among the numbers mapped
    /// by `mapping`; 128 or more if it does not.
    fn first_number(self, bytes: &LongNumberBlock, mapping: Mapping, number: u32) -> usize;

    /// Returns the mask of the pairs of neighbours, of 64, that pass four tables of sets of up to 8
    /// elements. A pair passes if a set of each table has an element in common. The lower half of
    /// the first byte selects a set of the first table and its upper half one of the second; the
    /// halves of the second byte select those of the other two.
    fn sift(self, bytes: &[u8; BLOCK_SIZE + 1], tables: &Tables) -> u64;

    /// Keeps the bits of `bits` at which `kept` has a one, and moves them together at the low end.
    fn squeeze(self, bits: u64, kept: u64) -> u64;

    /// Returns the index of the one bit of `mask` that has `n` one bits below it; 64 if there is
    /// none.
    fn nth_one(self, mask: u64, n: u32) -> u32;

    /// Prefetches the cache line of byte `offset` of `data`, which may lie behind the end of
    /// `data`.
    fn prefetch(self, data: &[u8], offset: usize);

    /// Prefetches like [`Kernel::prefetch`], but only into the second-level cache, so that the few
    /// lines for which the first-level cache can wait at once do not bound the speed.
    fn prefetch_far(self, data: &[u8], offset: usize);
}

/// Work that is written once for every kernel. It is a struct because a closure cannot be generic.
pub(crate) trait Task {
    /// The result of the work.
    type Output;

    /// Does the work. Implementations are `#[inline(always)]`, for the reason given at [`Kernel`].
    fn run<K: Kernel>(self, kernel: K) -> Self::Output;
}
