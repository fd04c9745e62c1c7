//! What an instruction set of some width supplies to the forms.
//!
//! The forms are written once, over any [`Vector`]. [`Emulated`] is plain Rust, of any width, and the
//! definition of what the others must answer (`conformance.rs`); so the logic of a form can be tested
//! where its instructions are missing.
//!
//! `unsafe` has three shapes here, and nowhere else in the crate: entering code that was compiled for
//! an instruction set, calling a function of it, and moving data between it and a reference.

#[cfg(test)]
mod conformance;
mod emulated;
#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "instruction sets are entered, called and loaded from")]
mod x86_64;

pub(crate) use emulated::Emulated;
#[cfg(target_arch = "x86_64")]
use x86_64::{Avx2, Avx512, Sse2};

/// The widest register, in bytes.
pub(crate) const SIZE_MAX: usize = 64;

/// How far apart gathered words may be at most, in bytes: offsets of lanes are 32-bit and signed.
pub(crate) const STRIDE_MAX: usize = i32::MAX as usize / LANES_MAX;

/// The most words in a register.
const LANES_MAX: usize = SIZE_MAX / 4;

/// A table with an entry for each byte.
pub(crate) type Table = [u32; 256];

/// Registers of one width, as bytes or as words of 32 bits, little-endian.
///
/// Bit `k` of a mask is about byte `k`. A value of an implementing type is a proof that this CPU has
/// the instructions: that is why the methods are safe. They are `#[inline(always)]`, to be inlined
/// into the one function of their instruction set that [`Machine::dispatch`] enters.
pub(crate) trait Vector: Copy {
    /// A register.
    type Register: Copy;

    /// Its bytes.
    const SIZE: usize;

    /// Its words.
    const LANES: usize = Self::SIZE / 4;

    /// Loads the first bytes, of which there must be enough.
    fn load(self, bytes: &[u8]) -> Self::Register;

    /// The bytes of a register; those behind its size are zeros.
    fn store(self, a: Self::Register) -> [u8; SIZE_MAX];

    /// The same byte everywhere.
    fn splat(self, byte: u8) -> Self::Register;

    /// The greater of each two bytes.
    fn max(self, a: Self::Register, b: Self::Register) -> Self::Register;

    /// The lesser of each two bytes.
    fn min(self, a: Self::Register, b: Self::Register) -> Self::Register;

    /// Which bytes of `a` are greater than those of `b`.
    fn greater(self, a: Self::Register, b: Self::Register) -> u64;

    /// Which bytes of `a` are not less than those of `b`.
    fn at_least(self, a: Self::Register, b: Self::Register) -> u64;

    /// The index of the one bit of `mask` that has `n` one bits below it, `n` below 64; 64 where there
    /// is none.
    fn nth_one(self, mask: u64, n: u32) -> u32;

    /// The same word everywhere.
    fn splat_word(self, word: u32) -> Self::Register;

    /// Gathers words: that of lane `k` is the four bytes of `data` from `start + k * stride` on. All of
    /// them must be there, and `stride` at most [`STRIDE_MAX`].
    fn gather(self, data: &[u8], start: usize, stride: usize) -> Self::Register;

    /// Gathers the entries for the lowest byte of each word.
    fn look_up(self, table: &Table, words: Self::Register) -> Self::Register;

    /// The sum of each two words, without what overflows.
    fn add(self, a: Self::Register, b: Self::Register) -> Self::Register;

    /// The exclusive or.
    fn xor(self, a: Self::Register, b: Self::Register) -> Self::Register;

    /// Each word twice, without what overflows.
    fn double(self, words: Self::Register) -> Self::Register;

    /// Each word without its lowest byte, the next one in its place.
    fn next_byte(self, words: Self::Register) -> Self::Register;

    /// `marks`, and the bits of `bit` in each word where that of `words` has none of the bits of
    /// `mask`.
    fn mark_zeros(
        self,
        marks: Self::Register,
        words: Self::Register,
        mask: Self::Register,
        bit: Self::Register,
    ) -> Self::Register;
}

/// Work that is written once for every width: a closure cannot be generic, so it is a struct.
pub(crate) trait Task {
    /// What it results in.
    type Output;

    /// Does the work; `#[inline(always)]`, for the reason given at [`Vector`].
    fn run<V: Vector>(self, vector: V) -> Self::Output;
}

/// Registers of one width that can be used here.
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
    /// The registers of 128, 256 or 512 bits that this CPU has; `None` where it has none.
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

    /// The same in plain Rust; `None` for other widths.
    pub(crate) fn emulated(bits: usize) -> Option<Machine> {
        match bits {
            128 => Some(Machine::Emulated128(Emulated)),
            256 => Some(Machine::Emulated256(Emulated)),
            512 => Some(Machine::Emulated512(Emulated)),
            _ => None,
        }
    }

    /// Runs `task` on it.
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
