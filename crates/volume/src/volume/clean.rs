//! The cleaner: moves the live blocks of segments that are mostly dead, so that they can be deleted.

use super::Volume;
use super::read::DamagedBlock;
use crate::error::Result;
use crate::format::names;
use crate::format::record::{Body, Seq};

/// The maximum share of live bytes of a segment that is cleaned, in percent.
const LIVE_PERCENT_MAX: u64 = 50;

impl Volume {
    /// Moves the live blocks of all segments that are mostly dead to the end of the log, and deletes
    /// the segments. Blocks that are damaged stay, with their segment.
    ///
    /// # Errors
    ///
    /// Fails if the volume cannot be written.
    pub fn clean(&self) -> Result<()> {
        for segment in self.mostly_dead_segments()? {
            for seq in self.live_blocks(segment) {
                self.move_block(seq)?;
            }
        }
        self.checkpoint()
    }

    fn mostly_dead_segments(&self) -> Result<Vec<u64>> {
        let state = self.read_state();
        let current = state.log.position()?.segment;
        let is_mostly_dead = |segment: u64, live_bytes: u64| {
            let size = self.core.folder.size(&names::segment(segment)).unwrap_or_default();
            live_bytes.saturating_mul(100) <= size.saturating_mul(LIVE_PERCENT_MAX)
        };
        let old = state.tables.live_bytes.range(..current);
        Ok(old.filter(|(it, live)| is_mostly_dead(**it, **live)).map(|(it, _)| *it).collect())
    }

    fn live_blocks(&self, segment: u64) -> Vec<Seq> {
        let state = self.read_state();
        let stored = state.tables.stored.iter();
        let mut blocks: Vec<_> = stored
            .filter(|(_, stored)| stored.place.segment == segment)
            .map(|(seq, stored)| (stored.place, *seq))
            .collect();
        blocks.sort_unstable();
        blocks.into_iter().map(|(_, seq)| seq).collect()
    }

    /// Moves a stored block, unless it is gone meanwhile or damaged.
    fn move_block(&self, seq: Seq) -> Result<()> {
        let mut state = self.write_state()?;
        let mut buffer = vec![0; self.block_size()];
        if let Err(DamagedBlock { .. }) = self.read_stored(&state.tables, seq, &mut buffer) {
            return Ok(());
        }
        let Some(stored) = state.tables.stored.get(&seq) else { return Ok(()) };
        let mut payload = vec![0; stored.payload_len(self.block_size())];
        let name = names::segment(stored.place.segment);
        let read = self.core.folder.read_at(&name, stored.payload_offset(), &mut payload);
        if read.is_err() {
            return Ok(());
        }
        state.append(&self.core, Body::Move { target: seq }, &payload)
    }
}
