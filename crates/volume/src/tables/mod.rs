//! The tables of a volume: DT and BT, HeadDT and TailDT, features, the map of blocks, and the catalog.
//!
//! [`Tables::apply`] is the only way in which they change, for a record that is written and for one that
//! is read after a crash. What records of a transaction have changed can be rolled back. The rules of deletion are those of `docs/notes/burst.md`.

mod audit;
mod batch;
mod catalog;
mod counters;
mod keys;
mod known;
mod map;
mod prefetch;
mod saved;
mod stored;
mod totals;
mod transaction;
mod views;

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use cutpoint_delta::burst::Side;

pub(crate) use self::catalog::Catalog;
pub use self::counters::Counters;
pub(crate) use self::known::{Absent, Known};
pub(crate) use self::map::{LOST, ZERO};
pub(crate) use self::stored::{Form, Stored};
pub(crate) use self::totals::Totals;
use self::totals::adjust;
use self::transaction::Transaction;
use crate::core::Core;
use crate::error::{Error, Kind, Result};
use crate::format::change::Change;
use crate::format::cursor::{Cursor, put_varint};
use crate::format::patch::Patch;
use crate::format::position::{Place, Seq};
use crate::format::record::{Body, Record};
use crate::format::settings::Settings;
use crate::format::span::{BlockId, Span};
use crate::keys::Fingerprint;
use crate::rules;
use crate::tree::{Key, Tree};

/// The bytes of each table on disk, in whole pages, without those of changes in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableBytes {
    /// The stored block of each block.
    pub map: u64,
    /// The values of DT and BT: the stored blocks by their numbers.
    pub stored: u64,
    /// The keys of DT and BT: the stored blocks by their fingerprints.
    pub fingerprints: u64,
    /// HeadDT.
    pub heads: u64,
    /// TailDT.
    pub tails: u64,
    /// The full blocks by their features.
    pub features: u64,
}

/// The tables of a volume.
#[derive(Clone, Debug)]
pub(crate) struct Tables {
    core: Arc<Core>,
    pub(crate) tree: Tree,
    pub(crate) catalog: Catalog,
    pub(crate) counters: Counters,
    pub(crate) totals: Totals,
    /// The bytes of live stored blocks of each segment that has any.
    pub(crate) live_bytes: BTreeMap<u64, u64>,
    /// The stored blocks that were found damaged since the volume was opened.
    untrusted: HashSet<Seq>,
    transaction: Transaction,
}

impl Tables {
    /// Creates empty tables.
    pub(crate) fn new(core: Arc<Core>, settings: Settings) -> Tables {
        Tables {
            tree: Tree::new(Arc::clone(&core), Vec::new()),
            core,
            catalog: Catalog::new(settings),
            counters: Counters::default(),
            totals: Totals::default(),
            live_bytes: BTreeMap::new(),
            untrusted: HashSet::new(),
            transaction: Transaction::default(),
        }
    }

    /// Applies a record of the log.
    ///
    /// # Errors
    ///
    /// Fails if the tables cannot be read, or if the record contradicts them. Part of it may have
    /// been applied then.
    pub(crate) fn apply(&mut self, record: &Record, place: Place, known: &Known<'_>) -> Result<()> {
        let block_size = self.core.shape.block_size;
        self.counters.count(&record.body, block_size);
        match record.body {
            Body::Full { id, fingerprint, is_indexed, keys, features, .. } => {
                let form = Form::Full { is_indexed, keys, features, dependent_count: 0 };
                self.insert(record, place, fingerprint, form, known)?;
                self.enter_views(&keys, features.as_ref(), record.seq, known)?;
                self.set(id, record.seq)
            }
            Body::Burst { id, fingerprint, reference, side, patch, .. } => {
                if !self.count_burst(reference, side)? {
                    return self.lose(record.body.written());
                }
                let form = Form::Burst { reference, side, patch };
                self.insert(record, place, fingerprint, form, known)?;
                self.set(id, record.seq)
            }
            Body::Delta { id, fingerprint, bases } => {
                if !self.count_delta(bases.seqs())? {
                    return self.lose(record.body.written());
                }
                self.insert(record, place, fingerprint, Form::Delta { bases }, known)?;
                self.set(id, record.seq)
            }
            Body::Duplicate { id, target } => match self.stored(target)? {
                Some(mut stored) => {
                    let is_full = matches!(stored.form, Form::Full { .. });
                    self.counters.count_duplicate(is_full);
                    let count = u64::from(rules::counts_duplicate());
                    self.change_stored(target, &mut stored, |stored| stored.use_count += count);
                    self.set(id, target)
                }
                None => self.lose(record.body.written()),
            },
            Body::Zero(span) => {
                self.counters.zero_count += self.set_used(span, ZERO)?;
                Ok(())
            }
            Body::Move { target } => self.move_to(target, record, place),
            Body::Change { .. } => self.change(known.changes),
            Body::Fold { span, into, .. } => self.fold(span, into),
            Body::Rewrite { target, burst } => self.rewrite(target, burst, record, place),
            Body::Summary { .. } => Ok(()),
        }
    }

    /// Makes blocks unreadable whose record is damaged.
    ///
    /// # Errors
    ///
    /// Fails if the tables cannot be read.
    pub(crate) fn lose(&mut self, span: Span) -> Result<()> {
        if span.count == 1 {
            return self.set(BlockId { layer: span.layer, block: span.first }, LOST);
        }
        // Only zeros are written to several blocks by one record: those that were zeros are.
        self.set_used(span, LOST).map(drop)
    }

    /// Stops later writes from using a stored block that was found damaged.
    pub(crate) fn distrust(&mut self, seq: Seq) {
        if rules::must_distrust_damaged() {
            self.untrusted.insert(seq);
        }
    }

    /// Returns `true` if the stored block was not found damaged.
    pub(crate) fn trusts(&self, seq: Seq) -> bool {
        !self.untrusted.contains(&seq)
    }

    /// Returns the stored block that a block with this fingerprint equals, and notes if there is no entry
    /// of the fingerprint.
    ///
    /// # Errors
    ///
    /// Fails if the tables cannot be read.
    pub(crate) fn find_equal(
        &self,
        fingerprint: &Fingerprint,
        absent: &mut Absent,
    ) -> Result<Option<Seq>> {
        let seq = self.seq_at(&keys::fingerprint(fingerprint))?;
        absent.fingerprint = seq.is_none();
        let Some(seq) = seq.filter(|seq| self.trusts(*seq)) else { return Ok(None) };
        // The key is the beginning of the fingerprint.
        let stored = self.stored(seq)?;
        Ok(stored.filter(|stored| stored.fingerprint == *fingerprint).map(|_| seq))
    }

    /// Returns a stored block.
    ///
    /// # Errors
    ///
    /// Fails if the tables cannot be read.
    pub(crate) fn stored(&self, seq: Seq) -> Result<Option<Stored>> {
        self.get(&keys::stored(seq), Stored::decode)
    }

    /// Returns all stored blocks, by rising number.
    pub(crate) fn all_stored(&self) -> impl Iterator<Item = Result<(Seq, Stored)>> {
        self.stored_from(0)
    }

    /// Returns the stored blocks from a number on, by rising number.
    pub(crate) fn stored_from(&self, from: Seq) -> impl Iterator<Item = Result<(Seq, Stored)>> {
        self.tree.range(keys::stored(from), keys::stored_end()).map(|entry| {
            let (key, value) = entry?;
            let stored = value.and_then(|value| Stored::decode(&value));
            keys::seq_of(&key).zip(stored).ok_or_else(Tables::damaged)
        })
    }

    /// Returns the number of entries of all tables, zeros that hide what is below not counted.
    pub(crate) fn entry_count(&self) -> u64 {
        let Totals { form_counts, edge_counts, feature_count, fingerprint_count, .. } = self.totals;
        let blocks: u64 = self.catalog.layers.values().map(|layer| layer.used_count).sum();
        let stored: u64 = form_counts.iter().sum();
        let edges: u64 = edge_counts.iter().sum();
        blocks + stored + edges + feature_count + fingerprint_count
    }

    /// Returns the bytes of each table in the runs, in whole pages.
    pub(crate) fn bytes(&self) -> TableBytes {
        let parts = self.tree.runs().iter().flat_map(|run| run.parts());
        let bytes = keys::of_tables()
            .map(|[from, to]| parts.clone().map(|part| part.page_bytes(&from, &to)).sum());
        let [map, stored, fingerprints, heads, tails, features] = bytes;
        TableBytes { map, stored, fingerprints, heads, tails, features }
    }

    /// Returns the error that an entry of a table has a value that it never has.
    fn damaged() -> Error {
        Error::new(Kind::Corrupt, "tables", "an entry has a value that it never has")
    }

    /// Returns the value of a key, of which `decode` returns `None` for bytes that are none.
    fn get<T>(&self, key: &Key, decode: impl Fn(&[u8]) -> Option<T>) -> Result<Option<T>> {
        Tables::decoded(self.tree.get(key, decode)?)
    }

    /// Returns a value that was found, or an error if its bytes were none.
    fn decoded<T>(value: Option<Option<T>>) -> Result<Option<T>> {
        value.map(|value| value.ok_or_else(Tables::damaged)).transpose()
    }

    /// Returns `true` if there is an entry of a key.
    fn has(&self, key: &Key) -> Result<bool> {
        self.tree.get(key, |_| ()).map(|found| found.is_some())
    }

    /// Returns the stored block to which a key leads.
    fn seq_at(&self, key: &Key) -> Result<Option<Seq>> {
        self.get(key, |value| Cursor(value).varint())
    }

    fn put_seq(&mut self, key: Key, seq: Seq) {
        let mut bytes = Vec::with_capacity(10);
        put_varint(&mut bytes, seq);
        self.tree.put(key, &bytes);
    }

    /// Adds the stored block of a record, which one block has.
    fn insert(
        &mut self,
        record: &Record,
        place: Place,
        fingerprint: Fingerprint,
        form: Form,
        known: &Known<'_>,
    ) -> Result<()> {
        let is_indexed = !matches!(form, Form::Full { is_indexed: false, .. });
        let stored = Stored {
            place,
            has_long_header: record.body.header_len() > crate::format::record::UNIT,
            encoding: record.encoding,
            payload_len: record.payload_len,
            fingerprint,
            use_count: 1,
            form,
        };
        self.add_live_bytes(place.segment, stored.log_len());
        if is_indexed {
            let key = keys::fingerprint(&fingerprint);
            // One of a block that was found damaged may be there.
            let is_new = known.absent.fingerprint || !self.has(&key)?;
            adjust(&mut self.totals.fingerprint_count, u64::from(is_new), true);
            self.put_seq(key, record.seq);
        }
        self.totals.count(&stored, self.core.shape.seal_len, true);
        self.tree.put(keys::stored(record.seq), &stored.encode());
        Ok(())
    }

    /// Changes a stored block in its table.
    fn change_stored(&mut self, seq: Seq, stored: &mut Stored, change: impl FnOnce(&mut Stored)) {
        let was_pinned = stored.is_pinned();
        change(stored);
        let pinned_count = &mut self.totals.pinned_count;
        adjust(pinned_count, u64::from(stored.is_pinned()), true);
        adjust(pinned_count, u64::from(was_pinned), false);
        self.tree.put(keys::stored(seq), &stored.encode());
    }

    /// Counts a burst at its reference block, and at the entry that has found it if that still leads
    /// to the block. Returns `false` if there is no such full block.
    fn count_burst(&mut self, reference: Seq, side: Side) -> Result<bool> {
        let Some(mut stored) = self.stored(reference)? else { return Ok(false) };
        let Form::Full { keys, .. } = stored.form else { return Ok(false) };
        self.change_dependents(reference, &mut stored, true);
        self.count_at_edge(side, keys[side as usize], reference, true)?;
        Ok(true)
    }

    /// Counts a delta at its reference blocks. Returns `false` if one of them is no full block.
    fn count_delta(&mut self, bases: &[Seq]) -> Result<bool> {
        let mut found = Vec::with_capacity(bases.len());
        for seq in bases {
            let stored = self.stored(*seq)?.filter(|it| matches!(it.form, Form::Full { .. }));
            let Some(stored) = stored else { return Ok(false) };
            found.push((*seq, stored));
        }
        for (seq, stored) in &mut found {
            self.change_dependents(*seq, stored, true);
        }
        Ok(true)
    }

    /// Counts a burst or delta at a full block, or no longer.
    fn change_dependents(&mut self, seq: Seq, stored: &mut Stored, is_there: bool) {
        self.change_stored(seq, stored, |stored| {
            if let Form::Full { dependent_count, .. } = &mut stored.form {
                adjust(dependent_count, 1, is_there);
            }
        });
    }

    /// Records that one block no longer has the content of a stored block.
    fn release(&mut self, seq: Seq) -> Result<()> {
        if seq == ZERO || seq == LOST {
            return Ok(());
        }
        let Some(mut stored) = self.stored(seq)? else { return Ok(()) };
        let is_last = stored.use_count <= 1;
        let is_pinned = match stored.form {
            Form::Full { dependent_count, .. } => rules::is_pinned(dependent_count),
            Form::Burst { .. } | Form::Delta { .. } => false,
        };
        if is_last && !is_pinned {
            self.free(seq, &stored)?;
        } else {
            self.change_stored(seq, &mut stored, |stored| {
                stored.use_count = stored.use_count.saturating_sub(1);
            });
        }
        if rules::releases_reference(is_last) { self.release_references(&stored) } else { Ok(()) }
    }

    /// Records that a burst or a delta no longer needs its reference blocks.
    fn release_references(&mut self, stored: &Stored) -> Result<()> {
        let side = match stored.form {
            Form::Burst { side, .. } => Some(side),
            _ => None,
        };
        for reference in stored.references() {
            self.release_reference(*reference, side)?;
        }
        Ok(())
    }

    /// Records that a burst or a delta no longer needs a reference block. `side` is that of a burst.
    fn release_reference(&mut self, reference: Seq, side: Option<Side>) -> Result<()> {
        let Some(mut stored) = self.stored(reference)? else { return Ok(()) };
        let Form::Full { keys, .. } = stored.form else { return Ok(()) };
        self.change_dependents(reference, &mut stored, false);
        if let Some(side) = side.filter(|_| rules::makes_room()) {
            self.count_at_edge(side, keys[side as usize], reference, false)?;
        }
        let is_needed = stored.use_count > 0 || stored.is_pinned();
        if is_needed { Ok(()) } else { self.free(reference, &stored) }
    }

    /// Removes a stored block from all tables.
    fn free(&mut self, seq: Seq, stored: &Stored) -> Result<()> {
        self.tree.delete(keys::stored(seq));
        self.totals.count(stored, self.core.shape.seal_len, false);
        self.remove_live_bytes(stored.place.segment, stored.log_len());
        if rules::must_remove_fingerprint() {
            self.remove_fingerprint(&stored.fingerprint, seq)?;
        }
        if let Form::Full { keys, features, .. } = &stored.form
            && rules::must_remove_entries()
        {
            self.leave_views(keys, features.as_ref(), seq)?;
        }
        Ok(())
    }

    /// Removes an entry of DT or BT, unless it leads to another stored block.
    fn remove_fingerprint(&mut self, fingerprint: &Fingerprint, seq: Seq) -> Result<()> {
        let key = keys::fingerprint(fingerprint);
        if self.seq_at(&key)? == Some(seq) {
            self.tree.delete(key);
            adjust(&mut self.totals.fingerprint_count, 1, false);
        }
        Ok(())
    }

    fn add_live_bytes(&mut self, segment: u64, len: u64) {
        let bytes = self.live_bytes.get(&segment).copied().unwrap_or_default();
        self.set_live_bytes(segment, bytes.saturating_add(len));
    }

    fn remove_live_bytes(&mut self, segment: u64, len: u64) {
        let bytes = self.live_bytes.get(&segment).copied().unwrap_or_default();
        self.set_live_bytes(segment, bytes.saturating_sub(len));
    }

    fn move_to(&mut self, target: Seq, record: &Record, place: Place) -> Result<()> {
        let Some(mut stored) = self.stored(target)? else { return Ok(()) };
        let seal_len = self.core.shape.seal_len;
        self.totals.count(&stored, seal_len, false);
        self.remove_live_bytes(stored.place.segment, stored.log_len());
        stored.place = place;
        stored.has_long_header = false;
        stored.encoding = record.encoding;
        stored.payload_len = record.payload_len;
        self.tree.put(keys::stored(target), &stored.encode());
        self.totals.count(&stored, seal_len, true);
        self.add_live_bytes(place.segment, stored.log_len());
        Ok(())
    }

    /// Stores a burst or a delta in another form. The reference blocks that it had are released.
    fn rewrite(
        &mut self,
        target: Seq,
        burst: Option<(Seq, Patch)>,
        record: &Record,
        place: Place,
    ) -> Result<()> {
        let Some(before) = self.stored(target)? else { return Ok(()) };
        let form = match burst {
            None => {
                Form::Full { is_indexed: true, keys: [None; 2], features: None, dependent_count: 0 }
            }
            Some((reference, patch)) => {
                // No entry has found the burst.
                if !self.count_delta(&[reference])? {
                    return Ok(());
                }
                Form::Burst { reference, side: Side::Head, patch }
            }
        };
        let after = Stored {
            place,
            has_long_header: false,
            encoding: record.encoding,
            payload_len: record.payload_len,
            form,
            ..before.clone()
        };
        let seal_len = self.core.shape.seal_len;
        self.totals.count(&before, seal_len, false);
        self.totals.count(&after, seal_len, true);
        self.remove_live_bytes(before.place.segment, before.log_len());
        self.add_live_bytes(place.segment, after.log_len());
        self.tree.put(keys::stored(target), &after.encode());
        self.release_references(&before)
    }

    fn change(&mut self, changes: &[Change]) -> Result<()> {
        for change in changes {
            if let Change::RemoveLayer(layer) = change
                && self.own_blocks(*layer, 0..u64::MAX).next().transpose()?.is_some()
            {
                let problem = "is removed, and has blocks";
                return Err(Error::new(Kind::Corrupt, format!("layer {layer}"), problem));
            }
            if !self.catalog.apply(change) {
                let problem = format!("{change:?} contradicts it");
                return Err(Error::new(Kind::Corrupt, "catalog", problem));
            }
        }
        Ok(())
    }
}
