//! The cleaner: moves the live blocks of segments that are mostly dead, so that they can be deleted.

use std::collections::BTreeSet;
use std::sync::PoisonError;

use super::Volume;
use super::read::DamagedBlock;
use crate::error::Result;
use crate::format::names;
use crate::format::record::{Body, Seq};
use crate::tables::Form;

/// The maximum share of live bytes of a segment that is cleaned, in percent.
const LIVE_PERCENT_MAX: u64 = 50;

/// The minimum number of bytes that a cleaning in use must free, in sizes of a segment: each ends with a
/// checkpoint.
const FREED_SEGMENTS_MIN: u64 = 4;
/// The minimum number of bytes that a cleaning in use must free, in sizes of a checkpoint.
const FREED_CHECKPOINTS_MIN: u64 = 8;

/// The segments that a cleaning frees.
struct Dirt {
    /// The segments with live blocks.
    segments: BTreeSet<u64>,
    /// The number of bytes of all segments to be freed, without live records.
    freed_bytes: u64,
}

impl Volume {
    /// Moves the live blocks of all segments that are mostly dead to the end of the log, and deletes
    /// the segments. Blocks that are damaged stay, with their segment. Reads and writes go on
    /// meanwhile.
    ///
    /// # Errors
    ///
    /// Fails if the volume cannot be written.
    pub fn clean(&self) -> Result<()> {
        let dirt = self.dirt()?;
        self.clean_segments(&dirt)
    }

    /// Cleans as [`Volume::clean`] does, if that frees enough to be worth a checkpoint. Returns `true`
    /// if so. To be called now and then while the volume is in use.
    ///
    /// # Errors
    ///
    /// Fails if the volume cannot be written.
    pub fn clean_if_due(&self) -> Result<bool> {
        let dirt = self.dirt()?;
        let checkpoint_size = self.checkpoints.lock().unwrap_or_else(PoisonError::into_inner).size;
        let of_segments = FREED_SEGMENTS_MIN * u64::from(self.core.segment_size);
        let of_checkpoints = FREED_CHECKPOINTS_MIN.saturating_mul(checkpoint_size);
        let is_due = dirt.freed_bytes >= of_segments.max(of_checkpoints);
        if is_due && !self.is_read_only {
            self.clean_segments(&dirt)?;
        }
        Ok(is_due)
    }

    fn clean_segments(&self, dirt: &Dirt) -> Result<()> {
        for seq in self.live_blocks(&dirt.segments) {
            self.move_block(seq)?;
        }
        self.checkpoint()
    }

    /// Finds the segments that are mostly or entirely dead.
    fn dirt(&self) -> Result<Dirt> {
        let folder = &self.core.folder;
        let listed = self.core.names()?;
        let state = self.read_state();
        let current = state.log.position()?.segment;
        let live_bytes = &state.tables.live_bytes;
        let mut dirt = Dirt { segments: BTreeSet::new(), freed_bytes: 0 };
        for name in &listed {
            let Some(number) = names::parse_segment(name).filter(|it| *it < current) else {
                continue;
            };
            // A segment may have been deleted meanwhile.
            let Ok(size) = folder.size(name) else { continue };
            let live = live_bytes.get(&number).copied().unwrap_or_default();
            if live.saturating_mul(100) > size.saturating_mul(LIVE_PERCENT_MAX) {
                continue;
            }
            dirt.freed_bytes += size.saturating_sub(live);
            dirt.segments.extend((live > 0).then_some(number));
        }
        Ok(dirt)
    }

    /// Returns the stored blocks in segments, in the order of their places.
    fn live_blocks(&self, segments: &BTreeSet<u64>) -> Vec<Seq> {
        let state = self.read_state();
        let stored = state.tables.stored.iter();
        let mut blocks: Vec<_> = stored
            .filter(|(_, stored)| segments.contains(&stored.place.segment))
            .map(|(seq, stored)| (stored.place, *seq))
            .collect();
        blocks.sort_unstable();
        blocks.into_iter().map(|(_, seq)| seq).collect()
    }

    /// Moves a stored block, unless it is gone meanwhile or damaged.
    fn move_block(&self, seq: Seq) -> Result<()> {
        let mut state = self.write_state()?;
        let mut block = vec![0; self.block_size()];
        if let Err(DamagedBlock { .. }) = self.read_stored(&state.tables, seq, &mut block) {
            return Ok(());
        }
        let Some(stored) = state.tables.stored.get(&seq) else { return Ok(()) };
        let payload = match stored.form {
            Form::Full { .. } => block,
            Form::Burst { patch, .. } => patch.payload(&block),
        };
        state.append(&self.core, Body::Move { target: seq }, &payload)
    }
}
