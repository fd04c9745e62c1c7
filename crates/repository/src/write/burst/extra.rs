//! The addition of BURST to similarity objects.

use cutpoint_delta::burst::{Side, Tau};

use crate::crypto::Keys;
use crate::format::bursts::{BurstHints, has_sub_chunks};
use crate::format::edges::Edges;
use crate::format::map::Extra;
use crate::format::toc::Form;
use crate::write::strategy::{SimilarityExtra, StrategyRecord};

/// Collects heads and tails by the definition of tau.
#[derive(Debug)]
pub(in crate::write) struct BurstExtra {
    tau: Tau,
    /// The heads and tails of the open container.
    open: Vec<Edges>,
    hints: BurstHints,
}

impl BurstExtra {
    pub(in crate::write) fn new(tau: Tau) -> BurstExtra {
        BurstExtra { tau, open: Vec::new(), hints: BurstHints::default() }
    }
}

impl SimilarityExtra for BurstExtra {
    fn add(&mut self, keys: &Keys, form: Form, chunk_len: u32, payload: Option<&[u8]>) {
        if has_sub_chunks(self.tau, form, chunk_len) {
            let edge = |side| {
                let sub_chunk = payload.and_then(|chunk| self.tau.sub_chunk(side, chunk));
                sub_chunk.map_or(0, |sub_chunk| keys.edge(sub_chunk))
            };
            self.open.push(Side::ALL.map(edge));
        }
    }

    fn open_count(&self) -> usize {
        self.open.len()
    }

    fn close(&mut self) {
        self.hints.edges.push(std::mem::take(&mut self.open));
    }

    fn record(&mut self, record: StrategyRecord) {
        self.hints.counts = record.bursts;
    }

    fn has_record(&self) -> bool {
        !self.hints.counts.is_empty()
    }

    fn count(&self) -> usize {
        self.hints.edges.iter().map(Vec::len).sum()
    }

    fn take(&mut self) -> Extra {
        let hints = std::mem::take(&mut self.hints);
        BurstHints { tau: self.tau.to_string(), ..hints }.encode()
    }
}
