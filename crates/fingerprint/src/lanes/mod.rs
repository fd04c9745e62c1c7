//! Instruction sets and the choice among them: vectors of 32-bit words here, streams of blocks in
//! [`streams`].

pub(crate) mod compress;
mod emulated;
#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "instructions are entered and loaded for")]
mod sha_ni;
pub(crate) mod streams;
#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "instruction sets are entered, called and loaded from")]
mod x86_64;

use emulated::Emulated;
#[cfg(target_arch = "x86_64")]
use x86_64::{Avx2, Avx512};

/// The maximum number of lanes of any instruction set.
pub(crate) const LANES_MAX: usize = 16;

/// The vector operations of an instruction set, on one 32-bit word per lane.
///
/// A value of an implementing type proves that this CPU has the instruction set. The methods are
/// `#[inline(always)]`, so that they are inlined into the one function that [`Level::dispatch`]
/// enters.
pub(crate) trait Lanes: Copy {
    /// A word in each lane.
    type Vector: Copy;

    /// The number of lanes, at most [`LANES_MAX`].
    const COUNT: usize;

    /// Returns a vector with the same word in each lane.
    fn splat(self, word: u32) -> Self::Vector;

    /// Returns a vector with the word that `word` returns for each lane.
    fn each(self, word: impl Fn(usize) -> u32) -> Self::Vector;

    /// The sum, modulo 2^32.
    fn add(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;

    /// The exclusive or.
    fn xor(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;

    /// Rotates to the right by 16 bits.
    fn rotate_16(self, a: Self::Vector) -> Self::Vector;

    /// Rotates to the right by 12 bits.
    fn rotate_12(self, a: Self::Vector) -> Self::Vector;

    /// Rotates to the right by 8 bits.
    fn rotate_8(self, a: Self::Vector) -> Self::Vector;

    /// Rotates to the right by 7 bits.
    fn rotate_7(self, a: Self::Vector) -> Self::Vector;

    /// Returns the bits of `a` where `mask` has ones, and the bits of `b` elsewhere.
    fn select(self, mask: Self::Vector, a: Self::Vector, b: Self::Vector) -> Self::Vector;

    /// Loads the sixteen little-endian words of each lane's block. Vector `w` has word `w` of every
    /// lane.
    fn load<'a>(self, block: impl Fn(usize) -> &'a [u8; 64]) -> [Self::Vector; 16];

    /// Returns the words of eight vectors, lane by lane. Entries beyond [`Lanes::COUNT`] are
    /// unspecified.
    fn words(self, vectors: &[Self::Vector; 8]) -> [[u32; LANES_MAX]; 8];

    /// Prefetches the cache line of byte `offset` of each lane's bytes. The offset may lie beyond
    /// the end of the bytes.
    fn prefetch<'a>(self, bytes: impl Fn(usize) -> &'a [u8], offset: usize);
}

/// Work that is written once for every instruction set.
pub(crate) trait Task {
    /// The result of the work.
    type Output;

    /// Does the work. Implementations are `#[inline(always)]`, for the reason given at [`Lanes`].
    fn run<L: Lanes>(self, lanes: L) -> Self::Output;
}

/// The levels of a hash function: its crate, and the instruction sets that it can run on.
pub(crate) trait Levels: Sized {
    /// The names of the levels of all CPUs, slowest first.
    const NAMES: &'static [&'static str];

    /// The crate of the hash function, which runs on any CPU.
    const CRATE: Self;

    /// Returns the level of this name, if this CPU has it.
    fn named(name: &str) -> Option<Self>;

    /// Returns the fastest level of this CPU.
    fn best() -> Self {
        Self::NAMES.iter().rev().find_map(|name| Self::named(name)).unwrap_or(Self::CRATE)
    }

    /// Returns the names of all levels of this CPU, slowest first.
    fn available() -> Vec<&'static str> {
        Self::NAMES.iter().copied().filter(|name| Self::named(name).is_some()).collect()
    }
}

/// An instruction set that this CPU has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    /// The crate `blake3`, without lanes.
    Crate,
    Emulated(Emulated),
    #[cfg(target_arch = "x86_64")]
    Avx2(Avx2),
    #[cfg(target_arch = "x86_64")]
    Avx512(Avx512),
}

impl Levels for Level {
    const NAMES: &'static [&'static str] = &["emulated", "crate", "avx2", "avx512"];
    const CRATE: Level = Level::Crate;

    fn named(name: &str) -> Option<Level> {
        match name {
            "emulated" => Some(Level::Emulated(Emulated)),
            "crate" => Some(Level::Crate),
            #[cfg(target_arch = "x86_64")]
            "avx2" => Avx2::detect().map(Level::Avx2),
            #[cfg(target_arch = "x86_64")]
            "avx512" => Avx512::detect().map(Level::Avx512),
            _ => None,
        }
    }
}

impl Level {
    /// Runs `task` at this level. Returns `None` if the level has no lanes.
    pub(crate) fn dispatch<T: Task>(self, task: T) -> Option<T::Output> {
        match self {
            Level::Crate => None,
            Level::Emulated(lanes) => Some(task.run(lanes)),
            #[cfg(target_arch = "x86_64")]
            Level::Avx2(lanes) => Some(lanes.enter(task)),
            #[cfg(target_arch = "x86_64")]
            Level::Avx512(lanes) => Some(lanes.enter(task)),
        }
    }
}
