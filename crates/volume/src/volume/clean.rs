//! The cleaner: moves the live blocks of segments with many dead bytes, so that these can be deleted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use super::Volume;
use super::read::DamagedBlock;
use crate::error::{Kind, Result};
use crate::format::names;
use crate::format::position::{Place, Seq};
use crate::format::record::Body;
use crate::log::read_headers;
use crate::tables::Form;

/// The bytes of all segments, in percent of the live bytes, up to which nothing is cleaned.
const SIZE_PERCENT: u64 = 115;
/// The same while clients write much and there is space: each byte that is freed costs about half
/// of the writes that it would cost down to the lower limit.
const SIZE_PERCENT_BUSY: u64 = 150;

/// The minimum number of bytes that a cleaning in use must free, in sizes of a segment: each ends with a
/// checkpoint.
const FREED_SEGMENTS_MIN: u64 = 4;

/// The same while no client writes, in percent of the live bytes, if that is less.
const FREED_PERCENT_MIN: u64 = 5;

/// The number of bytes after which a cleaning frees segments, in sizes of a segment.
const MOVED_SEGMENTS_MAX: u64 = 1;

/// The segments that a cleaning frees.
#[derive(Debug, Default)]
struct Dirt {
    /// The segments with live blocks.
    segments: BTreeSet<u64>,
    /// The number of bytes of all segments to be freed, without live records.
    freed_bytes: u64,
    /// The number of live bytes of all segments.
    live_bytes: u64,
}

impl Volume {
    /// Folds layers that are not needed, frees blocks that only few bursts need, moves the live blocks
    /// of segments with the most dead bytes to the end of the log until all segments together have
    /// little more than what is live, and merges runs. Blocks that are damaged stay, with their segment. Reads and writes go on meanwhile.
    ///
    /// # Errors
    ///
    /// Fails if the volume cannot be written.
    pub fn clean(&self) -> Result<()> {
        let _one_at_a_time = self.cleaning.lock().unwrap_or_else(PoisonError::into_inner);
        self.fold_layers_alone(&|| false)?;
        self.rewrite_pinning(&|| false)?;
        let dirt = self.dirt(SIZE_PERCENT)?;
        self.clean_segments(&dirt, &|| false)?;
        self.delete_spares()?;
        self.merge_runs(&|| false).map(drop)
    }

    /// Does the part of [`Volume::clean`] that is worth its cost while the volume is in use: less if
    /// clients have written much since the last call and the storage has room, and all of it once they
    /// have written nothing since the last call. Returns `true` if there was one. To be called now and
    /// then. Returns early if `is_asked_to_stop` returns `true`.
    ///
    /// # Errors
    ///
    /// Fails if the volume cannot be written.
    pub fn clean_if_due(&self, is_asked_to_stop: &dyn Fn() -> bool) -> Result<bool> {
        if self.is_read_only {
            return Ok(false);
        }
        let _one_at_a_time = self.cleaning.lock().unwrap_or_else(PoisonError::into_inner);
        let is_done = self.merge_runs(is_asked_to_stop)?
            && self.fold_layers_alone(is_asked_to_stop)?
            && self.rewrite_pinning(is_asked_to_stop)?;
        if !is_done {
            return Ok(true);
        }
        let appended = || self.read_state().log.mark().bytes;
        let since = appended() - self.cleaned_at.load(Ordering::Relaxed);
        if since == 0 {
            self.delete_spares()?;
            if self.is_settled.load(Ordering::Relaxed) {
                return Ok(false);
            }
        }
        let is_busy = since >= u64::from(self.core.segment_size) && !self.is_short_of_space();
        let dirt = self.dirt(if is_busy { SIZE_PERCENT_BUSY } else { SIZE_PERCENT })?;
        let mut freed_min = FREED_SEGMENTS_MIN * u64::from(self.core.segment_size);
        if since == 0 {
            freed_min = freed_min.min(dirt.live_bytes / 100 * FREED_PERCENT_MIN).max(1);
        }
        let is_due = dirt.freed_bytes >= freed_min;
        if is_due {
            self.clean_segments(&dirt, is_asked_to_stop)?;
        }
        self.cleaned_at.store(appended(), Ordering::Relaxed);
        // Segments with damaged blocks stay, however often they are cleaned.
        self.is_settled.store(since == 0, Ordering::Relaxed);
        Ok(is_due)
    }

    /// Checks that a client may write `len` bytes, and cleans as long as it may not: the writes of
    /// clients are quicker than the cleaner beside them.
    ///
    /// # Errors
    ///
    /// Fails with [`Kind::Full`] if nothing is left that can be freed.
    pub(super) fn make_room(&self, len: u64) -> Result<()> {
        loop {
            let Err(full) = self.check_room(len) else { return Ok(()) };
            let is_full = full.kind() == Kind::Full;
            if !is_full || !(self.delete_spares()? || self.clean_for_room(len)?) {
                return Err(full);
            }
        }
    }

    /// Cleans unless there is room meanwhile. Returns `false` if that has freed nothing.
    fn clean_for_room(&self, len: u64) -> Result<bool> {
        let _one_at_a_time = self.cleaning.lock().unwrap_or_else(PoisonError::into_inner);
        if self.check_room(len).is_ok() {
            return Ok(true);
        }
        let dirt = self.dirt(SIZE_PERCENT)?;
        if dirt.freed_bytes < u64::from(self.core.segment_size) {
            return Ok(false);
        }
        let used = || self.core.used_bytes.load(Ordering::Relaxed);
        let before = used();
        match self.clean_segments(&dirt, &|| false).and_then(|()| self.delete_spares()) {
            Err(error) if error.kind() == Kind::Full => Ok(false),
            cleaned => cleaned.map(|_| used() < before),
        }
    }

    fn clean_segments(&self, dirt: &Dirt, is_asked_to_stop: &dyn Fn() -> bool) -> Result<()> {
        let mut moved_bytes = 0;
        for segment in &dirt.segments {
            for seq in self.live_blocks(*segment)? {
                if is_asked_to_stop() {
                    return Ok(());
                }
                moved_bytes += self.move_block(seq)?;
            }
            // The reserve must be enough for what is there twice.
            if moved_bytes >= MOVED_SEGMENTS_MAX * u64::from(self.core.segment_size) {
                self.checkpoint_in_use()?;
                moved_bytes = 0;
            }
        }
        self.checkpoint_in_use()
    }

    /// Finds the segments with the least live bytes, until the others have at most `percent` of what is
    /// live.
    fn dirt(&self, percent: u64) -> Result<Dirt> {
        let folder = &self.core.folder;
        let listed = self.core.names()?;
        let (end, live_bytes) = {
            let state = self.read_state();
            (state.log.position()?, state.tables.live_bytes.clone())
        };
        // A segment may have been deleted meanwhile.
        let numbers = listed.iter().filter_map(|name| names::parse_segment(name));
        let sized = numbers.filter_map(|it| Some((it, folder.size(&names::segment(it)).ok()?)));
        let mut sizes: BTreeMap<u64, u64> = sized.collect();
        for spare in self.core.spares().numbers() {
            sizes.remove(spare);
        }
        // Behind its end, the file of the current segment may have what is overwritten next.
        if let Some(size) = sizes.get_mut(&end.segment) {
            *size = end.offset.into();
        }
        let live = |segment: &u64| live_bytes.get(segment).copied().unwrap_or_default();
        let mut size: u64 = sizes.values().sum();
        let mut dirt = Dirt { live_bytes: live_bytes.values().sum(), ..Dirt::default() };
        let goal = dirt.live_bytes / 100 * percent;
        let mut candidates: Vec<(u64, u64)> =
            sizes.into_iter().filter(|(segment, _)| *segment < end.segment).collect();
        candidates.sort_by_key(|(segment, size)| live(segment).saturating_mul(1000) / size.max(&1));
        for (segment, len) in candidates {
            let (live, dead) = (live(&segment), len.saturating_sub(live(&segment)));
            if live > 0 && (size <= goal || dead == 0) {
                break;
            }
            size -= dead.min(size);
            dirt.freed_bytes += dead;
            dirt.segments.extend((live > 0).then_some(segment));
        }
        Ok(dirt)
    }

    /// Returns the stored blocks in a segment, in the order of their places.
    fn live_blocks(&self, segment: u64) -> Result<Vec<Seq>> {
        let read = read_headers(&self.core, segment);
        let state = self.read_state();
        if !state.tables.live_bytes.contains_key(&segment) {
            // It may have been deleted meanwhile.
            return Ok(Vec::new());
        }
        let records = read?;
        let mut live = Vec::new();
        let mut bytes = 0;
        for (offset, record) in records {
            let seq = match record.body {
                Body::Full { .. } | Body::Burst { .. } | Body::Delta { .. } => record.seq,
                Body::Move { target } | Body::Rewrite { target, .. } => target,
                Body::Duplicate { .. }
                | Body::Zero(_)
                | Body::Change { .. }
                | Body::Fold { .. }
                | Body::Summary { .. } => continue,
            };
            let stored = state.tables.stored(seq)?;
            if let Some(stored) = stored.filter(|it| it.place == Place { segment, offset }) {
                bytes += stored.log_len();
                live.push(seq);
            }
        }
        if state.tables.live_bytes.get(&segment).is_some_and(|expected| *expected > bytes) {
            // The header of a record is damaged. The tables know its place.
            let mut found = Vec::new();
            for entry in state.tables.all_stored() {
                let (seq, stored) = entry?;
                found.extend((stored.place.segment == segment).then_some((stored.place, seq)));
            }
            found.sort_unstable();
            live = found.into_iter().map(|(_, seq)| seq).collect();
        }
        Ok(live)
    }

    /// Moves a stored block, unless it is gone meanwhile or damaged, and returns the number of bytes.
    fn move_block(&self, seq: Seq) -> Result<u64> {
        let mut state = self.write_state()?;
        let mut block = vec![0; self.block_size()];
        if let Err(DamagedBlock { .. }) = self.read_stored(&state.tables, seq, &mut block) {
            return Ok(0);
        }
        let Some(stored) = state.tables.stored(seq)? else { return Ok(0) };
        let content = match stored.form {
            Form::Full { .. } => block,
            Form::Burst { patch, .. } => patch.content(&block),
            Form::Delta { .. } => self.core.content(&stored)?,
        };
        state.append(&self.core, Body::Move { target: seq }, &content)?;
        Ok(stored.log_len())
    }
}
