//! The events of `volume`.

use cutpoint_terminal::event::PathText;
use serde::{Deserialize, Serialize};

/// A virtual disk that is served from now on.
#[derive(Serialize)]
pub(crate) struct Serving<'a> {
    #[serde(flatten)]
    pub(crate) path: PathText,
    /// The address as a URI of NBD clients.
    pub(crate) address: &'a str,
    pub(crate) size_bytes: u64,
    pub(crate) block_size_bytes: u64,
    pub(crate) mode: &'a str,
    pub(crate) read_only: bool,
}

/// A disk that is a device of this machine now.
#[derive(Serialize)]
pub(crate) struct Connected<'a> {
    /// The path of the device, or of a file.
    pub(crate) path: &'a str,
}

/// A volume that was created with a disk.
#[derive(Serialize)]
pub(crate) struct VolumeCreated<'a> {
    pub(crate) size_bytes: u64,
    pub(crate) block_size_bytes: u64,
    pub(crate) mode: String,
    pub(crate) disk: &'a str,
    pub(crate) encrypted: bool,
}

/// A disk of a volume.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct VolumeDisk {
    pub(crate) name: String,
    pub(crate) size_bytes: u64,
    /// The bytes of blocks that were written since the last snapshot.
    pub(crate) own_bytes: u64,
}

/// A snapshot of a disk.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct VolumeSnapshot {
    /// The name: `DISK@SNAPSHOT`.
    pub(crate) name: String,
    pub(crate) size_bytes: u64,
    /// The bytes of blocks that were written between the snapshot before and this one.
    pub(crate) own_bytes: u64,
    pub(crate) created_ns: i64,
}

/// A part of a disk that has changed.
#[derive(Debug, Serialize)]
pub(crate) struct VolumePart {
    pub(crate) offset: u64,
    pub(crate) size_bytes: u64,
}

/// An image that was imported.
#[derive(Debug, Serialize)]
pub(crate) struct VolumeImported {
    pub(crate) disk: String,
    pub(crate) size_bytes: u64,
    pub(crate) block_size_bytes: u64,
    /// `raw`, `qcow2` or `snapshot`.
    pub(crate) format: String,
    pub(crate) read_bytes: u64,
    pub(crate) physical_bytes: u64,
    pub(crate) elapsed_ns: u64,
}

/// A passphrase of an encrypted volume.
#[derive(Debug, Serialize)]
pub(crate) struct VolumeKeyEvent {
    pub(crate) number: u64,
    pub(crate) created_ns: i64,
    pub(crate) label: String,
}

/// The counts of a check of a volume.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct VolumeCheckCounts {
    pub(crate) finding_count: u64,
    pub(crate) damaged_block_count: u64,
    pub(crate) stored_count: u64,
    pub(crate) read_bytes: u64,
}

/// A volume that was read.
#[derive(Serialize)]
pub(crate) struct VolumeChecked {
    #[serde(flatten)]
    pub(crate) counts: VolumeCheckCounts,
    pub(crate) elapsed_ns: u64,
}

/// The sizes of a virtual disk, and the counts of its writes.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct VolumeStats {
    pub(crate) size_bytes: u64,
    pub(crate) block_size_bytes: u64,
    pub(crate) mode: String,
    pub(crate) compression: String,
    pub(crate) verifies_duplicates: bool,
    pub(crate) used_bytes: u64,
    pub(crate) full_count: u64,
    pub(crate) full_bytes: u64,
    pub(crate) burst_count: u64,
    pub(crate) burst_bytes: u64,
    pub(crate) delta_count: u64,
    pub(crate) delta_bytes: u64,
    pub(crate) pinned_count: u64,
    /// The ratio of the paper; `None` if nothing is stored.
    pub(crate) ratio: Option<f64>,
    pub(crate) live_bytes: u64,
    pub(crate) physical_bytes: u64,
    /// The free bytes of the storage, if it tells them.
    pub(crate) free_bytes: Option<u64>,
    /// The limit of the physical bytes, and the free bytes that writes leave, of the process that answers.
    pub(crate) limit_bytes: Option<u64>,
    pub(crate) reserve_bytes: u64,
    pub(crate) table_bytes: u64,
    pub(crate) table_memory_bytes: u64,
    /// The pages of each table on disk: the map of blocks, the values of DT and BT, their keys, HeadDT,
    /// TailDT, and the features.
    pub(crate) map_table_bytes: u64,
    pub(crate) stored_table_bytes: u64,
    pub(crate) fingerprint_table_bytes: u64,
    pub(crate) head_table_bytes: u64,
    pub(crate) tail_table_bytes: u64,
    pub(crate) feature_table_bytes: u64,
    pub(crate) lost_block_count: u64,
    pub(crate) layer_count: u64,
    pub(crate) fingerprint_entry_count: u64,
    pub(crate) head_entry_count: u64,
    pub(crate) tail_entry_count: u64,
    /// The number of bursts that HeadDT and TailDT have found.
    pub(crate) head_burst_count: u64,
    pub(crate) tail_burst_count: u64,
    pub(crate) feature_entry_count: u64,
    /// The counts of all writes since the volume was created.
    pub(crate) writes: VolumeWrites,
}

/// The counts of all writes to a virtual disk.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct VolumeWrites {
    pub(crate) full_count: u64,
    pub(crate) burst_count: u64,
    pub(crate) burst_data_bytes: u64,
    /// The number of bursts by the length of their new bytes, as a part of the block.
    pub(crate) burst_eighth_count: u64,
    pub(crate) burst_quarter_count: u64,
    pub(crate) burst_half_count: u64,
    pub(crate) burst_longer_count: u64,
    pub(crate) delta_count: u64,
    pub(crate) duplicate_count: u64,
    pub(crate) burst_duplicate_count: u64,
    pub(crate) zero_count: u64,
    pub(crate) head_hit_count: u64,
    pub(crate) tail_hit_count: u64,
    pub(crate) head_exhausted_count: u64,
    pub(crate) tail_exhausted_count: u64,
    pub(crate) head_replaced_count: u64,
    pub(crate) tail_replaced_count: u64,
    pub(crate) cancelled_count: u64,
    pub(crate) moved_count: u64,
    pub(crate) rewritten_count: u64,
}
