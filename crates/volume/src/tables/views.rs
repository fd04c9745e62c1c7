//! HeadDT, TailDT and the table of features.

use cutpoint_delta::burst::Side;

use super::totals::adjust;
use super::{Known, Tables, keys};
use crate::error::Result;
use crate::format::cursor::{Cursor, put_varint};
use crate::format::edge::{EdgeKey, Features};
use crate::format::position::Seq;
use crate::rules;

/// An entry of HeadDT or TailDT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EdgeEntry {
    pub(crate) reference: Seq,
    /// The number of live bursts that the entry has found.
    pub(crate) burst_count: u64,
}

impl EdgeEntry {
    fn encode(self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(12);
        put_varint(&mut bytes, self.reference);
        put_varint(&mut bytes, self.burst_count);
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<EdgeEntry> {
        let mut rest = Cursor(bytes);
        let entry = EdgeEntry { reference: rest.varint()?, burst_count: rest.varint()? };
        rest.0.is_empty().then_some(entry)
    }
}

impl Tables {
    /// Returns the entry of a head or a tail.
    ///
    /// # Errors
    ///
    /// Fails if the tables cannot be read.
    pub(crate) fn edge(&self, side: Side, key: &EdgeKey) -> Result<Option<EdgeEntry>> {
        self.get(&keys::edge(side, key), EdgeEntry::decode)
    }

    /// Returns the full block of a feature.
    ///
    /// # Errors
    ///
    /// Fails if the tables cannot be read.
    pub(crate) fn feature(&self, index: usize, feature: u64) -> Result<Option<Seq>> {
        self.seq_at(&keys::feature(index, feature))
    }

    /// Makes head, tail and features of a full block lead to it.
    pub(super) fn enter_views(
        &mut self,
        edges: &[Option<EdgeKey>; 2],
        features: Option<&Features>,
        seq: Seq,
        known: &Known<'_>,
    ) -> Result<()> {
        for (side, key) in Side::ALL.into_iter().zip(edges) {
            let Some(key) = key else { continue };
            let is_absent = known.absent.edges[side as usize];
            let is_there = !is_absent && self.edge(side, key)?.is_some();
            self.counters.replaced_count[side as usize] += u64::from(is_there);
            adjust(&mut self.totals.edge_counts[side as usize], u64::from(!is_there), true);
            if !is_there || rules::takes_over_entries() {
                let entry = EdgeEntry { reference: seq, burst_count: 0 };
                self.tree.put(keys::edge(side, key), &entry.encode());
            }
        }
        for (index, feature) in features.into_iter().flatten().enumerate() {
            let key = keys::feature(index, *feature);
            let is_there = !known.absent.features[index] && self.has(&key)?;
            adjust(&mut self.totals.feature_count, u64::from(!is_there), true);
            self.put_seq(key, seq);
        }
        Ok(())
    }

    /// Removes the entries that still lead to a full block.
    pub(super) fn leave_views(
        &mut self,
        edges: &[Option<EdgeKey>; 2],
        features: Option<&Features>,
        seq: Seq,
    ) -> Result<()> {
        for (side, key) in Side::ALL.into_iter().zip(edges) {
            let Some(key) = key else { continue };
            if self.edge(side, key)?.is_some_and(|entry| entry.reference == seq) {
                self.tree.delete(keys::edge(side, key));
                adjust(&mut self.totals.edge_counts[side as usize], 1, false);
            }
        }
        for (index, feature) in features.into_iter().flatten().enumerate() {
            if self.feature(index, *feature)? == Some(seq) {
                self.tree.delete(keys::feature(index, *feature));
                adjust(&mut self.totals.feature_count, 1, false);
            }
        }
        Ok(())
    }

    /// Counts a burst, or no longer, at the entry that has found it, if that still leads to the
    /// reference block.
    pub(super) fn count_at_edge(
        &mut self,
        side: Side,
        key: Option<EdgeKey>,
        reference: Seq,
        is_there: bool,
    ) -> Result<()> {
        let Some(key) = key else { return Ok(()) };
        let entry = self.edge(side, &key)?;
        if let Some(mut entry) = entry.filter(|entry| entry.reference == reference) {
            adjust(&mut entry.burst_count, 1, is_there);
            self.tree.put(keys::edge(side, &key), &entry.encode());
        }
        Ok(())
    }
}
