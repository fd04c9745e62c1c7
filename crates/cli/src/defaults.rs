//! All defaults that were chosen by measurement.

use cutpoint_repository::CipherSuite;

/// The default cut specification of a new repository.
pub(crate) const DEFAULT_CUT: &str = "fastcdc:avg=64k";

/// The settings of a mode. `docs/modes.md` has the measurements.
pub(crate) struct Preset {
    /// The number of bytes of chunks that a region gathers before it is compressed.
    pub(crate) region_size: u32,
    /// The size at which a container is put, in bytes.
    pub(crate) container_size: u32,
    /// The compression level of zstd.
    pub(crate) compression_level: i32,
}

/// The preset that is used if none is named.
pub(crate) const DEFAULT: Preset =
    Preset { region_size: 2 * 1024 * 1024, container_size: 16 * 1024 * 1024, compression_level: 3 };

/// The preset for speed: half the time for new data, and a tenth more space. Turning matching off
/// would not save time if files change, because chunks that are not matched are compressed.
pub(crate) const FAST: Preset = Preset { compression_level: 1, ..DEFAULT };

/// The preset for the least space. Higher levels take four times as long again, for a twentieth
/// less space.
pub(crate) const MAX: Preset = Preset {
    region_size: 4 * 1024 * 1024,
    container_size: 48 * 1024 * 1024,
    compression_level: 12,
};

/// The preset for random access: little must be read and decoded for a part from the middle of a
/// file.
pub(crate) const RANDOM: Preset = Preset { region_size: 128 * 1024, ..DEFAULT };

/// The default parity of a new repository, in percent: none.
pub(crate) const PARITY_PERCENT: u32 = 0;

/// Returns the default cipher suite of a new repository, the fastest one on this machine.
pub(crate) fn suite() -> CipherSuite {
    CipherSuite::fastest()
}

/// The minimum number of digits that identify a snapshot.
pub(crate) const ID_DIGITS_MIN: usize = 4;
