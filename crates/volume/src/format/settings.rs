//! The settings of a volume, as numbers.

use cutpoint_delta::burst::Tau;

use crate::mode::{Burst, Compression, Mode};

/// The settings of all disks of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) mode: Mode,
    pub(crate) compression: Compression,
    /// Set if a block is compared with the stored one before it counts as a duplicate.
    pub(crate) verifies_duplicates: bool,
}

/// The bit of tau that tells bytes from a fraction.
const TAU_BYTES: u64 = 1 << 63;
/// The tau of the raw variants.
const TAU_RAW: u64 = u64::MAX;

impl Settings {
    /// Returns the settings as four numbers.
    pub(crate) fn numbers(self) -> [u64; 4] {
        let [code, tau] = mode_numbers(self.mode);
        let compression = match self.compression {
            Compression::None => 0,
            Compression::Lz4 => 1,
            Compression::Zstd(level) => 2 | u64::from(level) << 32,
        };
        [code, tau, compression, u64::from(self.verifies_duplicates)]
    }

    /// Returns the settings of four numbers, or `None` if they are those of none.
    pub(crate) fn of_numbers([code, tau, compression, verifies]: [u64; 4]) -> Option<Settings> {
        let compression = match compression {
            0 => Compression::None,
            1 => Compression::Lz4,
            zstd if zstd & u64::from(u32::MAX) == 2 => {
                let level = u8::try_from(zstd >> 32).ok()?;
                Compression::zstd(level)?
            }
            _ => return None,
        };
        let verifies_duplicates = match verifies {
            0 => false,
            1 => true,
            _ => return None,
        };
        Some(Settings { mode: mode_of(code, tau)?, compression, verifies_duplicates })
    }
}

/// Returns a mode as two numbers: its code, the variant and `c_max`; and tau, whose highest bit means
/// bytes.
fn mode_numbers(mode: Mode) -> [u64; 2] {
    match mode {
        Mode::Off => [0, 0],
        Mode::Exact => [1, 0],
        Mode::Delta => [3, 0],
        Mode::Burst(Burst { tau, c_max, has_tails }) => {
            let tau = match tau {
                Tau::Fraction(divisor) => divisor as u64,
                Tau::Bytes(len) => len as u64 | TAU_BYTES,
                Tau::Raw => TAU_RAW,
            };
            [2 | u64::from(!has_tails) << 8 | u64::from(c_max) << 32, tau]
        }
    }
}

/// Returns the mode of two numbers, or `None` if they are those of none.
fn mode_of(code: u64, tau: u64) -> Option<Mode> {
    match (code, tau) {
        (0, 0) => Some(Mode::Off),
        (1, 0) => Some(Mode::Exact),
        (3, 0) => Some(Mode::Delta),
        _ => {
            let has_tails = match code & u64::from(u32::MAX) {
                2 => true,
                0x102 => false,
                _ => return None,
            };
            let tau = if tau == TAU_RAW {
                Tau::Raw
            } else {
                let len = usize::try_from(tau & !TAU_BYTES).ok().filter(|len| *len > 0)?;
                if tau & TAU_BYTES == 0 { Tau::Fraction(len) } else { Tau::Bytes(len) }
            };
            Some(Mode::Burst(Burst { tau, c_max: u32::try_from(code >> 32).ok()?, has_tails }))
        }
    }
}
