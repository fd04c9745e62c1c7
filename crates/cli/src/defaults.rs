//! Every default that a measurement decided, in one place.

use cutpoint_store::seal::Suite;

/// How a new repository cuts its data.
pub(crate) const DEFAULT_CUT: &str = "fastcdc:avg=64k";

/// What a mode sets. `docs/modes.md` has the figures.
pub(crate) struct Preset {
    /// How many bytes of chunks a region gathers before it is compressed.
    pub(crate) region_size: u32,
    /// The size at which a container is put, in bytes.
    pub(crate) container_size: u32,
    /// The zstd level.
    pub(crate) compression_level: i32,
}

/// What is set without a word about it.
pub(crate) const DEFAULT: Preset =
    Preset { region_size: 2 * 1024 * 1024, container_size: 16 * 1024 * 1024, compression_level: 3 };

/// Half the time for what is new, and a tenth more space. Without matching nothing is saved faster
/// where files change: what is not matched is compressed.
pub(crate) const FAST: Preset = Preset { compression_level: 1, ..DEFAULT };

/// The least space. Higher levels take four times the time again, for a twentieth less.
pub(crate) const MAX: Preset = Preset {
    region_size: 4 * 1024 * 1024,
    container_size: 48 * 1024 * 1024,
    compression_level: 12,
};

/// Little has to be read and decoded for a piece from the middle of a file.
pub(crate) const RANDOM: Preset = Preset { region_size: 128 * 1024, ..DEFAULT };

/// How much parity a new repository asks for, in percent: none.
pub(crate) const PARITY_PERCENT: u32 = 0;

/// How a new repository is sealed: what is fastest on this machine.
pub(crate) fn suite() -> Suite {
    Suite::fastest()
}

/// So many digits of a snapshot's id are asked for at least.
pub(crate) const ID_DIGITS_MIN: usize = 4;
