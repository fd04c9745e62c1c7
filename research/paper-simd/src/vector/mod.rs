//! The operations of an instruction set of some width for the forms.
//!
//! The forms are written once, over any [`Vector`]. [`Emulated`] is plain Rust, of any width, and
//! defines the results of the others (`conformance.rs`), so that the logic of a form can be tested
//! on CPUs without its instructions.
//!
//! There are three forms of `unsafe` here, and none elsewhere in the crate: entering code that is
//! compiled for an instruction set, calling a function of the set, and moving data between a
//! register and a reference.

#[cfg(test)]
mod conformance;
mod emulated;
#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "instruction sets are entered, called and loaded from")]
mod x86_64;

#[cfg(target_arch = "x86_64")]
use x86_64::{Avx2, Avx512, Sse2};

pub(crate) use emulated::Emulated;

/// The maximum size of a register in bytes.
pub(crate) const SIZE_MAX: usize = 64;

/// The maximum distance between gathered words in bytes, because offsets of lanes are signed and
/// have 32 bits.
pub(crate) const STRIDE_MAX: usize = i32::MAX as usize / LANES_MAX;

/// The maximum number of words in a register.
const LANES_MAX: usize = SIZE_MAX / 4;

/// A table with an entry for each byte.
pub(crate) type Table = [u32; 256];

/// Registers of one width, as bytes or as words of 32 bits, little-endian.
///
/// Bit `k` of a mask belongs to byte `k`. A value of an implementing type proves that this CPU has
/// the instructions, so that the methods are safe. The methods are `#[inline(always)]`, so that
/// they are inlined into the one function of their instruction set that [`Machine::dispatch`]
/// enters.
pub(crate) trait Vector: Copy {
    /// A register.
    type Register: Copy;

    /// The size of a register in bytes.
    const SIZE: usize;

    /// The number of words in a register.
    const LANES: usize = Self::SIZE / 4;

    /// Loads a register from the start of `bytes`, which must have at least [`Vector::SIZE`] bytes.
    fn load(self, bytes: &[u8]) -> Self::Register;

    /// Returns the bytes of a register, padded with zeros.
    fn store(self, a: Self::Register) -> [u8; SIZE_MAX];

    /// Returns a register with the same byte everywhere.
    fn splat(self, byte: u8) -> Self::Register;

    /// The greater of each two bytes.
    fn max(self, a: Self::Register, b: Self::Register) -> Self::Register;

    /// The lesser of each two bytes.
    fn min(self, a: Self::Register, b: Self::Register) -> Self::Register;

    /// The mask of the bytes of `a` that are greater than those of `b`.
    fn greater(self, a: Self::Register, b: Self::Register) -> u64;

    /// The mask of the bytes of `a` that are not less than those of `b`.
    fn at_least(self, a: Self::Register, b: Self::Register) -> u64;

    /// The index of the set bit of `mask` that has `n` set bits below it, or 64 if there is none.
    /// `n` is below 64.
    fn nth_one(self, mask: u64, n: u32) -> u32;

    /// Returns a register with the same word everywhere.
    fn splat_word(self, word: u32) -> Self::Register;

    /// Gathers words. The word of lane `k` is the four bytes of `data` from `start + k * stride`
    /// on. All words must lie within `data`, and `stride` is at most [`STRIDE_MAX`].
    fn gather(self, data: &[u8], start: usize, stride: usize) -> Self::Register;

    /// Gathers the table entries for the lowest byte of each word.
    fn look_up(self, table: &Table, words: Self::Register) -> Self::Register;

    /// The sum of each two words, modulo 2^32.
    fn add(self, a: Self::Register, b: Self::Register) -> Self::Register;

    /// The exclusive or.
    fn xor(self, a: Self::Register, b: Self::Register) -> Self::Register;

    /// The double of each word, modulo 2^32.
    fn double(self, words: Self::Register) -> Self::Register;

    /// Each word shifted down by a byte, so that the next byte is the lowest.
    fn next_byte(self, words: Self::Register) -> Self::Register;

    /// Returns `marks` with the bits of `bit` set in each word for which `words` has none of the
    /// bits of `mask`.
    fn mark_zeros(
        self,
        marks: Self::Register,
        words: Self::Register,
        mask: Self::Register,
        bit: Self::Register,
    ) -> Self::Register;
}

/// Work that is written once for every width. A task is a struct, because a closure cannot be
/// generic.
pub(crate) trait Task {
    /// The result of the work.
    type Output;

    /// Does the work. Implementations are `#[inline(always)]`, for the reason given at [`Vector`].
    fn run<V: Vector>(self, vector: V) -> Self::Output;
}

/// The registers of one width that can be used on this CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Machine {
    Emulated128(Emulated<16>),
    Emulated256(Emulated<32>),
    Emulated512(Emulated<64>),
    #[cfg(target_arch = "x86_64")]
    Sse2(Sse2),
    #[cfg(target_arch = "x86_64")]
    Avx2(Avx2),
    #[cfg(target_arch = "x86_64")]
    Avx512(Avx512),
}

impl Machine {
    /// Returns the registers of 128, 256 or 512 bits, or `None` if this CPU lacks them.
    pub(crate) fn detect(bits: usize) -> Option<Machine> {
        match bits {
            #[cfg(target_arch = "x86_64")]
            128 => Sse2::detect().map(Machine::Sse2),
            #[cfg(target_arch = "x86_64")]
            256 => Avx2::detect().map(Machine::Avx2),
            #[cfg(target_arch = "x86_64")]
            512 => Avx512::detect().map(Machine::Avx512),
            _ => None,
        }
    }

    /// Returns emulated registers of 128, 256 or 512 bits, or `None` for other widths.
    pub(crate) fn emulated(bits: usize) -> Option<Machine> {
        match bits {
            128 => Some(Machine::Emulated128(Emulated)),
            256 => Some(Machine::Emulated256(Emulated)),
            512 => Some(Machine::Emulated512(Emulated)),
            _ => None,
        }
    }

    /// Runs `task` on these registers.
    pub(crate) fn dispatch<T: Task>(self, task: T) -> T::Output {
        match self {
            Machine::Emulated128(vector) => task.run(vector),
            Machine::Emulated256(vector) => task.run(vector),
            Machine::Emulated512(vector) => task.run(vector),
            #[cfg(target_arch = "x86_64")]
            Machine::Sse2(vector) => vector.enter(task),
            #[cfg(target_arch = "x86_64")]
            Machine::Avx2(vector) => vector.enter(task),
            #[cfg(target_arch = "x86_64")]
            Machine::Avx512(vector) => vector.enter(task),
        }
    }
}
