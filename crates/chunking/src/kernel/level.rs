//! The instruction sets by name, and the selection among them.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

#[cfg(target_arch = "aarch64")]
use super::aarch64::Neon;
use super::aes::{Bitsliced, Cipher, CipherTask};
#[cfg(target_arch = "x86_64")]
use super::x86_64::{AesNi, Avx2, Avx512, Avx512Vbmi, Sse41, Vaes512};
use super::{Columns, ColumnsKind, ColumnsTask, Emulated, Scalar, Task};

/// An instruction set that this CPU has. The level affects the speed of finding cut-points, never
/// their positions.
///
/// A value is a proof that this CPU has the instruction set: only [`Level::available`],
/// [`Level::best`] and [`Level::named`] return one, besides the levels of every CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level(Any);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Any {
    Scalar(Scalar),
    Emulated(Emulated),
    #[cfg(target_arch = "aarch64")]
    Neon(Neon),
    #[cfg(target_arch = "x86_64")]
    Sse41(Sse41),
    #[cfg(target_arch = "x86_64")]
    Avx2(Avx2),
    #[cfg(target_arch = "x86_64")]
    Avx512(Avx512),
    /// The level includes the proof of the level below, whose kernel it uses.
    #[cfg(target_arch = "x86_64")]
    Avx512Vbmi(Avx512Vbmi, Avx512),
}

/// The names of all levels of all CPUs, slowest first; no CPU has all of them.
pub(crate) const NAMES: [&str; 6] = ["scalar", "neon", "sse4.1", "avx2", "avx512", "avx512vbmi"];

impl Level {
    /// The level of portable Rust, on every CPU.
    pub const SCALAR: Level = Level(Any::Scalar(Scalar));

    /// The level that runs the code of every other level over vectors emulated in plain Rust, on
    /// every CPU. It serves for tests and is slow. [`Level::available`] does not include it.
    pub const EMULATED: Level = Level(Any::Emulated(Emulated));

    /// Returns every level of this CPU, slowest first, beginning with the scalar one.
    pub fn available() -> Vec<Level> {
        NAMES.iter().filter_map(|name| Level::detect(name)).collect()
    }

    /// Returns the fastest level of this CPU.
    pub fn best() -> Level {
        NAMES.iter().rev().find_map(|name| Level::detect(name)).unwrap_or(Level::SCALAR)
    }

    /// Returns the level of this name: `scalar`; on x86-64 `sse4.1`, `avx2`, `avx512` or
    /// `avx512vbmi`; on AArch64 `neon`; and `emulated`, for tests.
    ///
    /// # Errors
    ///
    /// Returns [`LevelError`] if no level has this name, or if this CPU lacks it.
    pub fn named(name: &str) -> Result<Level, LevelError> {
        Level::detect(name)
            .ok_or_else(|| LevelError { name: name.into(), is_known: NAMES.contains(&name) })
    }

    /// Returns the name, as accepted by [`Level::named`].
    pub fn name(self) -> &'static str {
        match self.0 {
            Any::Scalar(_) => "scalar",
            Any::Emulated(_) => "emulated",
            #[cfg(target_arch = "aarch64")]
            Any::Neon(_) => "neon",
            #[cfg(target_arch = "x86_64")]
            Any::Sse41(_) => "sse4.1",
            #[cfg(target_arch = "x86_64")]
            Any::Avx2(_) => "avx2",
            #[cfg(target_arch = "x86_64")]
            Any::Avx512(_) => "avx512",
            #[cfg(target_arch = "x86_64")]
            Any::Avx512Vbmi(..) => "avx512vbmi",
        }
    }

    fn detect(name: &str) -> Option<Level> {
        match name {
            "scalar" => Some(Level::SCALAR),
            "emulated" => Some(Level::EMULATED),
            #[cfg(target_arch = "aarch64")]
            "neon" => Neon::detect().map(|kernel| Level(Any::Neon(kernel))),
            #[cfg(target_arch = "x86_64")]
            "sse4.1" => Sse41::detect().map(|kernel| Level(Any::Sse41(kernel))),
            #[cfg(target_arch = "x86_64")]
            "avx2" => Avx2::detect().map(|kernel| Level(Any::Avx2(kernel))),
            #[cfg(target_arch = "x86_64")]
            "avx512" => Avx512::detect().map(|kernel| Level(Any::Avx512(kernel))),
            #[cfg(target_arch = "x86_64")]
            "avx512vbmi" => Avx512::detect().and_then(|kernel| {
                Avx512Vbmi::detect().map(|columns| Level(Any::Avx512Vbmi(columns, kernel)))
            }),
            _ => None,
        }
    }

    /// Returns this level, or the one below it that has its own [`Kernel`](super::Kernel).
    pub(crate) fn of_kernel(self) -> Level {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            Any::Avx512Vbmi(_, kernel) => Level(Any::Avx512(kernel)),
            _ => self,
        }
    }

    /// Returns the kind of this level's [`Columns`]; `None` if it has none.
    pub(crate) fn columns_kind(self) -> Option<ColumnsKind> {
        struct Kind;

        impl ColumnsTask for Kind {
            type Output = ColumnsKind;

            fn run<C: Columns>(self, _: C) -> ColumnsKind {
                C::KIND
            }
        }

        self.dispatch_columns(Kind)
    }

    /// Returns the fastest cipher of this level or below, with the level of the cipher. An
    /// instruction set with vectors may lack AES.
    pub(crate) fn cipher(self) -> (Level, LevelCipher) {
        #[cfg(target_arch = "x86_64")]
        {
            if let (Any::Avx512Vbmi(..), Some(cipher)) = (self.0, Vaes512::detect()) {
                return (self, LevelCipher::Vaes512(cipher));
            }
            let is_plain = matches!(self.0, Any::Scalar(_) | Any::Emulated(_));
            let level = if is_plain { None } else { Level::detect("sse4.1") };
            if let (Some(level), Some(cipher)) = (level, AesNi::detect()) {
                return (level, LevelCipher::AesNi(cipher));
            }
        }
        (Level::SCALAR, LevelCipher::Bitsliced(Bitsliced))
    }

    /// Runs `task` on this level; `None` if the level has no columns.
    #[inline]
    pub(crate) fn dispatch_columns<T: ColumnsTask>(self, task: T) -> Option<T::Output> {
        match self.0 {
            Any::Emulated(columns) => Some(task.run(columns)),
            #[cfg(target_arch = "x86_64")]
            Any::Avx2(columns) => Some(task.run(columns)),
            #[cfg(target_arch = "x86_64")]
            Any::Avx512(columns) => Some(task.run(columns)),
            #[cfg(target_arch = "x86_64")]
            Any::Avx512Vbmi(columns, _) => Some(task.run(columns)),
            _ => None,
        }
    }

    /// Runs `task` on this level.
    #[inline]
    pub(crate) fn dispatch<T: Task>(self, task: T) -> T::Output {
        match self.0 {
            Any::Scalar(kernel) => task.run(kernel),
            Any::Emulated(kernel) => task.run(kernel),
            #[cfg(target_arch = "aarch64")]
            Any::Neon(kernel) => kernel.enter(task),
            #[cfg(target_arch = "x86_64")]
            Any::Sse41(kernel) => kernel.enter(task),
            #[cfg(target_arch = "x86_64")]
            Any::Avx2(kernel) => kernel.enter(task),
            #[cfg(target_arch = "x86_64")]
            Any::Avx512(kernel) => kernel.enter(task),
            #[cfg(target_arch = "x86_64")]
            Any::Avx512Vbmi(_, kernel) => kernel.enter(task),
        }
    }
}

/// A cipher of a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LevelCipher {
    Bitsliced(Bitsliced),
    #[cfg(target_arch = "x86_64")]
    AesNi(AesNi),
    #[cfg(target_arch = "x86_64")]
    Vaes512(Vaes512),
}

impl LevelCipher {
    /// Runs `task` with this cipher.
    #[inline]
    pub(crate) fn dispatch<T: CipherTask>(self, task: T) -> T::Output {
        match self {
            LevelCipher::Bitsliced(cipher) => cipher.enter(task),
            #[cfg(target_arch = "x86_64")]
            LevelCipher::AesNi(cipher) => cipher.enter(task),
            #[cfg(target_arch = "x86_64")]
            LevelCipher::Vaes512(cipher) => cipher.enter(task),
        }
    }
}

/// The error for a level that does not exist or that this CPU lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LevelError {
    name: String,
    is_known: bool,
}

impl fmt::Display for LevelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LevelError { name, is_known } = self;
        if *is_known {
            let available: Vec<&str> = Level::available().into_iter().map(Level::name).collect();
            write!(
                f,
                "level {name:?}: not supported by this CPU (supported: {})",
                available.join(", ")
            )
        } else {
            write!(f, "level {name:?}: must be one of {}", NAMES.join(", "))
        }
    }
}

impl core::error::Error for LevelError {}
