//! The stored blocks.

use cutpoint_delta::burst::Side;

use crate::format::checkpoint::Place;
use crate::format::record::{Patch, Seq, UNIT};
use crate::keys::Fingerprint;

/// A stored block: an entry of DT or BT.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    pub(crate) place: Place,
    pub(crate) fingerprint: Fingerprint,
    /// The number of blocks of the disk that have this content.
    pub(crate) use_count: u64,
    /// Cleared if the block was found damaged since the volume was opened.
    pub(crate) is_trusted: bool,
    pub(crate) form: Form,
}

/// The form of a stored block.
#[derive(Clone, Debug)]
pub(crate) enum Form {
    /// The block as it is.
    Full {
        /// Set if equal blocks find this one.
        is_indexed: bool,
        /// The keys of HeadDT and TailDT that led to the block when it was stored.
        keys: [Option<u64>; 2],
        /// The number of bursts that need the block.
        burst_count: u64,
    },
    /// The difference to a full block.
    Burst { reference: Seq, side: Side, patch: Patch },
}

impl Stored {
    /// Returns the length of the payload in bytes.
    pub(crate) fn payload_len(&self, block_size: usize) -> usize {
        match self.form {
            Form::Full { .. } => block_size,
            Form::Burst { patch, .. } => patch.padded_len(block_size),
        }
    }

    /// Returns the number of bytes in the log, with the header.
    pub(crate) fn log_len(&self, block_size: usize) -> u64 {
        (UNIT + self.payload_len(block_size).next_multiple_of(UNIT)) as u64
    }

    /// Returns the offset of the payload in its segment.
    pub(crate) fn payload_offset(&self) -> u64 {
        u64::from(self.place.offset) + UNIT as u64
    }
}
