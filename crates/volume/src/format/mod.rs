//! The bytes of a volume: `docs/volume-format.md`. Every decoder checks all that it reads.

pub(crate) mod change;
pub(crate) mod checkpoint;
pub(crate) mod cursor;
pub(crate) mod edge;
pub(crate) mod names;
pub(crate) mod patch;
pub(crate) mod position;
pub(crate) mod record;
pub(crate) mod run;
pub(crate) mod segment;
pub(crate) mod settings;
pub(crate) mod span;
pub(crate) mod summary;
pub(crate) mod superblock;

/// The version of the format.
pub(crate) const VERSION: u16 = 1;

/// The identity of a volume: random bytes.
pub(crate) type VolumeId = [u8; 16];

#[cfg(test)]
pub(crate) mod tests;
