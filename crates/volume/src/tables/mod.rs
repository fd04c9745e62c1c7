//! The tables of a volume in memory: DT and BT, HeadDT and TailDT, and the block map.
//!
//! [`Tables::apply`] is the only way in which they change, for a record that was just written and
//! for one that is read after a crash. The rules of deletion are those of `docs/notes/burst.md`.

mod audit;
mod block_map;
mod counters;
mod saved;
mod stored;

use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;

use cutpoint_delta::burst::{Side, Views};

use self::block_map::BlockMap;
pub(crate) use self::block_map::{LOST, ZERO};
pub use self::counters::Counters;
pub(crate) use self::stored::{Form, Stored};
use crate::format::checkpoint::Place;
use crate::format::record::{Body, Record, Seq, Settings, Span};
use crate::keys::Fingerprint;
use crate::rules;

/// The tables of a volume.
#[derive(Debug)]
pub(crate) struct Tables {
    pub(crate) block_size: usize,
    pub(crate) settings: Settings,
    pub(crate) map: BlockMap,
    pub(crate) stored: HashMap<Seq, Stored>,
    /// DT and BT: the form of a stored block tells which of the two it is in.
    pub(crate) by_fingerprint: HashMap<Fingerprint, Seq>,
    /// HeadDT and TailDT.
    pub(crate) views: Views<u64, Seq>,
    /// The bytes of live stored blocks of each segment that has any.
    pub(crate) live_bytes: BTreeMap<u64, u64>,
    pub(crate) counters: Counters,
}

impl Tables {
    /// Creates empty tables.
    pub(crate) fn new(block_size: usize, settings: Settings) -> Tables {
        let c_max = settings.mode.burst().unwrap_or_default().c_max;
        Tables {
            block_size,
            settings,
            map: BlockMap::default(),
            stored: HashMap::new(),
            by_fingerprint: HashMap::new(),
            views: Views::new(c_max),
            live_bytes: BTreeMap::new(),
            counters: Counters::default(),
        }
    }

    /// Applies a record of the log.
    pub(crate) fn apply(&mut self, record: &Record, place: Place) {
        let seq = record.seq;
        self.counters.count(&record.body, self.block_size);
        match record.body {
            Body::Full { block, fingerprint, is_indexed, keys, .. } => {
                let form = Form::Full { is_indexed, keys, burst_count: 0 };
                self.insert(seq, Stored::new(place, fingerprint, form), is_indexed);
                self.enter_views(&keys, seq);
                self.assign(block, seq);
            }
            Body::Burst { block, fingerprint, reference, side, patch, .. } => {
                if self.count_burst(reference, side) {
                    let form = Form::Burst { reference, side, patch };
                    self.insert(seq, Stored::new(place, fingerprint, form), true);
                    self.assign(block, seq);
                } else {
                    self.lose(record.span());
                }
            }
            Body::Duplicate { block, target } => match self.stored.get(&target) {
                Some(stored) => {
                    let is_burst = matches!(stored.form, Form::Burst { .. });
                    self.counters.duplicate_count += u64::from(!is_burst);
                    self.counters.burst_duplicate_count += u64::from(is_burst);
                    self.assign(block, target);
                }
                None => self.lose(record.span()),
            },
            Body::Zero(span) => {
                self.counters.zero_count += self.set_all(span, ZERO);
            }
            Body::Move { target } => self.move_to(target, place),
            Body::Settings(settings) => self.set(settings),
        }
    }

    /// Makes blocks unreadable whose record is damaged.
    pub(crate) fn lose(&mut self, span: Span) {
        let end = span.first.saturating_add(span.count.into()).min(self.block_count());
        for block in span.first..end {
            let before = self.map.set(block, LOST);
            self.release(before);
        }
    }

    /// Stops later writes from using a stored block that was found damaged.
    pub(crate) fn distrust(&mut self, seq: Seq) {
        if !rules::must_distrust_damaged() {
            return;
        }
        let Some(stored) = self.stored.get_mut(&seq) else { return };
        stored.is_trusted = false;
        let fingerprint = stored.fingerprint;
        if let Form::Full { keys, .. } = stored.form {
            self.views.remove_full_chunk(&keys, seq);
        }
        self.remove_fingerprint(&fingerprint, seq);
    }

    /// Returns the stored block that a block with this fingerprint equals.
    pub(crate) fn find_equal(&self, fingerprint: &Fingerprint) -> Option<Seq> {
        self.by_fingerprint.get(fingerprint).copied()
    }

    /// Returns the number of blocks of the disk.
    pub(crate) fn block_count(&self) -> u64 {
        self.settings.size / self.block_size as u64
    }

    fn set(&mut self, settings: Settings) {
        self.settings = settings;
        if let Some(burst) = settings.mode.burst() {
            self.views.set_c_max(burst.c_max);
        }
    }

    fn insert(&mut self, seq: Seq, stored: Stored, is_indexed: bool) {
        *self.live_bytes.entry(stored.place.segment).or_default() +=
            stored.log_len(self.block_size);
        if is_indexed {
            self.by_fingerprint.insert(stored.fingerprint, seq);
        }
        self.stored.insert(seq, stored);
    }

    /// Makes the head and the tail of a full block lead to it.
    fn enter_views(&mut self, keys: &[Option<u64>; 2], seq: Seq) {
        let mut entered = *keys;
        for (side, key) in Side::ALL.into_iter().zip(&mut entered) {
            let is_there = key.is_some_and(|key| self.views.has(side, key));
            self.counters.replaced_count[side as usize] += u64::from(is_there);
            if is_there && !rules::takes_over_entries() {
                *key = None;
            }
        }
        self.views.replace(&entered, seq);
    }

    /// Counts a burst at its reference block, and at the entry that has found it if that still leads
    /// to the block. Returns `false` if there is no such full block.
    fn count_burst(&mut self, reference: Seq, side: Side) -> bool {
        let Some(stored) = self.stored.get_mut(&reference) else { return false };
        let Form::Full { keys, burst_count, .. } = &mut stored.form else { return false };
        *burst_count += 1;
        let mut key = [None; 2];
        key[side as usize] = keys[side as usize];
        let is_reference = |_, found| Ok::<_, Infallible>((found == reference).then_some(()));
        let Ok(_) = self.views.find(&key, is_reference);
        true
    }

    /// Gives a block the content of a stored block.
    fn assign(&mut self, block: u64, seq: Seq) {
        if let Some(stored) = self.stored.get_mut(&seq) {
            stored.use_count += 1;
        }
        let before = self.map.set(block, seq);
        self.release(before);
    }

    /// Sets all blocks of a span that have another value, and returns their number.
    fn set_all(&mut self, span: Span, value: Seq) -> u64 {
        let end = span.first.saturating_add(span.count.into());
        let mut changed_count = 0;
        let mut from = span.first;
        while let Some((block, _)) = self.map.next_used(from).filter(|(block, _)| *block < end) {
            let before = self.map.set(block, value);
            self.release(before);
            changed_count += 1;
            from = block + 1;
        }
        changed_count
    }

    /// Records that one block of the disk no longer has the content of a stored block.
    fn release(&mut self, seq: Seq) {
        let Some(stored) = self.stored.get_mut(&seq) else { return };
        stored.use_count -= 1;
        let is_last = stored.use_count == 0;
        match stored.form {
            Form::Full { burst_count, .. } => {
                if is_last && !rules::is_pinned(burst_count) {
                    self.free(seq);
                }
            }
            Form::Burst { reference, side, .. } => {
                if is_last {
                    self.free(seq);
                }
                if rules::releases_reference(is_last) {
                    self.release_reference(reference, side);
                }
            }
        }
    }

    /// Records that a burst no longer needs its reference block.
    fn release_reference(&mut self, reference: Seq, side: Side) {
        let Some(stored) = self.stored.get_mut(&reference) else { return };
        let Form::Full { keys, burst_count, .. } = &mut stored.form else { return };
        *burst_count = burst_count.saturating_sub(1);
        let is_needed = stored.use_count > 0 || *burst_count > 0;
        if let Some(key) = keys[side as usize].filter(|_| rules::makes_room()) {
            self.views.remove_burst(side, key, reference);
        }
        if !is_needed {
            self.free(reference);
        }
    }

    /// Removes a stored block from all tables.
    fn free(&mut self, seq: Seq) {
        let Some(stored) = self.stored.remove(&seq) else { return };
        self.remove_live_bytes(stored.place.segment, stored.log_len(self.block_size));
        if rules::must_remove_fingerprint() {
            self.remove_fingerprint(&stored.fingerprint, seq);
        }
        if let Form::Full { keys, .. } = stored.form
            && rules::must_remove_entries()
        {
            self.views.remove_full_chunk(&keys, seq);
        }
    }

    /// Removes an entry of DT or BT, unless it leads to another stored block.
    fn remove_fingerprint(&mut self, fingerprint: &Fingerprint, seq: Seq) {
        if self.by_fingerprint.get(fingerprint) == Some(&seq) {
            self.by_fingerprint.remove(fingerprint);
        }
    }

    fn remove_live_bytes(&mut self, segment: u64, len: u64) {
        if let Some(bytes) = self.live_bytes.get_mut(&segment) {
            *bytes = bytes.saturating_sub(len);
            if *bytes == 0 {
                self.live_bytes.remove(&segment);
            }
        }
    }

    fn move_to(&mut self, target: Seq, place: Place) {
        let Some(stored) = self.stored.get_mut(&target) else { return };
        let len = stored.log_len(self.block_size);
        let before = std::mem::replace(&mut stored.place, place);
        self.remove_live_bytes(before.segment, len);
        *self.live_bytes.entry(place.segment).or_default() += len;
    }
}

impl Stored {
    pub(crate) fn new(place: Place, fingerprint: Fingerprint, form: Form) -> Stored {
        Stored { place, fingerprint, use_count: 0, is_trusted: true, form }
    }
}

#[cfg(test)]
mod tests;
