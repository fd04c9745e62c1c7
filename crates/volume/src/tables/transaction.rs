//! Changes that are kept or rolled back together.

use super::totals::Totals;
use super::{Counters, Tables};
use crate::format::span::LayerId;

/// The state of the tables before a transaction, apart from the tree.
#[derive(Clone, Debug, Default)]
pub(super) struct Transaction {
    is_open: bool,
    counters: Counters,
    totals: Totals,
    /// The segments whose number of live bytes was changed, in that order, with the numbers that they
    /// had.
    live_bytes: Vec<(u64, u64)>,
    /// The layers whose number of blocks was changed, in that order, with the numbers that they had.
    used_counts: Vec<(LayerId, u64)>,
}

impl Tables {
    /// Begins a transaction, in which the catalog does not change.
    pub(crate) fn begin(&mut self) {
        self.tree.begin();
        self.transaction.is_open = true;
        self.transaction.counters = self.counters;
        self.transaction.totals = self.totals;
    }

    /// Keeps the changes of the transaction.
    pub(crate) fn commit(&mut self) {
        self.tree.commit();
        self.transaction.is_open = false;
        self.transaction.live_bytes.clear();
        self.transaction.used_counts.clear();
    }

    /// Takes the changes of the transaction back.
    pub(crate) fn roll_back(&mut self) {
        self.tree.roll_back();
        self.transaction.is_open = false;
        self.counters = self.transaction.counters;
        self.totals = self.transaction.totals;
        while let Some((segment, bytes)) = self.transaction.live_bytes.pop() {
            self.set_live_bytes(segment, bytes);
        }
        while let Some((layer, count)) = self.transaction.used_counts.pop() {
            self.set_used_count(layer, count);
        }
    }

    /// Sets the number of bytes of live stored blocks of a segment.
    pub(super) fn set_live_bytes(&mut self, segment: u64, bytes: u64) {
        let before = if bytes == 0 {
            self.live_bytes.remove(&segment)
        } else {
            self.live_bytes.insert(segment, bytes)
        };
        if self.transaction.is_open {
            self.transaction.live_bytes.push((segment, before.unwrap_or_default()));
        }
    }

    /// Sets the number of blocks of a layer that are not zeros.
    pub(super) fn set_used_count(&mut self, layer: LayerId, count: u64) {
        let Some(changed) = self.catalog.layers.get_mut(&layer) else { return };
        let before = std::mem::replace(&mut changed.used_count, count);
        if self.transaction.is_open {
            self.transaction.used_counts.push((layer, before));
        }
    }
}
