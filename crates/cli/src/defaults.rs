//! All defaults that were chosen by measurement.

use cutpoint_repository::InitOptions;

/// The short form of [`InitOptions::DEFAULT_CUT`], the default cut specification of a new repository.
pub(crate) const DEFAULT_CUT: &str = "fastcdc:avg=64k";

/// The settings of a mode. `book/src/reference/modes.md` has the measurements.
pub(crate) struct Preset {
    /// The number of bytes of chunks that a region gathers before it is compressed.
    pub(crate) region_size: u32,
    /// The size at which a container is put, in bytes.
    pub(crate) container_size: u32,
    /// The compression level of zstd.
    pub(crate) compression_level: i32,
}

/// The preset that is used if none is named.
pub(crate) const DEFAULT: Preset = Preset {
    region_size: InitOptions::DEFAULT_REGION_SIZE,
    container_size: InitOptions::DEFAULT_CONTAINER_SIZE,
    compression_level: InitOptions::DEFAULT_COMPRESSION_LEVEL,
};

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

/// The minimum number of digits that identify a snapshot.
pub(crate) const ID_DIGITS_MIN: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::canonical_cut;

    #[test]
    fn short_form_of_cut_is_that_of_library_default() {
        for is_keyed in [false, true] {
            let cut = canonical_cut(DEFAULT_CUT, is_keyed).expect("the default is valid");
            assert_eq!(cut, InitOptions::DEFAULT_CUT);
        }
    }
}
