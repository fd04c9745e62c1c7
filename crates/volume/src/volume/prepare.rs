//! The part of a write that is done before the state is locked, while other connections write: hashes, and heads,
//! tails and features of the blocks that equal no stored one.

use cutpoint_delta::burst::Side;
use cutpoint_delta::super_features;

use super::Volume;
use super::pieces::pieces;
use crate::format::edge::{EdgeKey, Features};
use crate::keys::Fingerprint;
use crate::mode::{Burst, Mode};
use crate::tables::Absent;
use crate::zeros::is_zeros;

/// A block of a write, as far as it was examined before the state was locked.
#[derive(Clone, Copy, Debug)]
pub(super) struct PreparedBlock {
    /// `None` if the block is zeros.
    pub(super) fingerprint: Option<Fingerprint>,
    /// `None` if the block equals a stored one, and in a mode that needs none.
    pub(super) marks: Option<Marks>,
}

/// Marks that a block has in common with those that resemble it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Marks {
    /// The mode for which they were computed.
    mode: Mode,
    /// The keys of head and tail.
    pub(super) edges: [Option<EdgeKey>; 2],
    /// The features, in mode `delta` only.
    pub(super) features: Option<Features>,
}

impl Volume {
    /// Prepares the whole blocks of a write.
    pub(super) fn prepare_blocks(&self, offset: u64, bytes: &[u8]) -> Vec<PreparedBlock> {
        let mut rest = bytes;
        let mut blocks: Vec<&[u8]> = Vec::new();
        for piece in pieces(offset, bytes.len() as u64, self.block_size()) {
            let (part, behind) = rest.split_at(piece.range.len());
            rest = behind;
            blocks.extend((part.len() == self.block_size()).then_some(part));
        }
        let is_zero: Vec<bool> = blocks.iter().map(|block| is_zeros(block)).collect();
        let mut hashed: Vec<&[u8]> = Vec::with_capacity(blocks.len());
        hashed.extend(blocks.iter().zip(&is_zero).filter(|it| !*it.1).map(|it| *it.0));
        let mut fingerprints = self.core.keys.fingerprints(&hashed).into_iter();
        let fingerprints =
            is_zero.into_iter().map(|zero| if zero { None } else { fingerprints.next() });
        let mut prepared: Vec<PreparedBlock> =
            fingerprints.map(|fingerprint| PreparedBlock { fingerprint, marks: None }).collect();
        let (mode, is_new) = self.look_up(&prepared);
        for ((block, bytes), is_new) in prepared.iter_mut().zip(blocks).zip(is_new) {
            block.marks = is_new.then(|| self.marks(mode, bytes));
        }
        prepared
    }

    /// Prepares a block.
    pub(super) fn prepare_block(&self, bytes: &[u8]) -> PreparedBlock {
        let fingerprint = (!is_zeros(bytes)).then(|| self.core.keys.fingerprint(bytes));
        PreparedBlock { fingerprint, marks: None }
    }

    /// Returns the mode, and which of the blocks equal no stored one; none if that makes no difference.
    fn look_up(&self, blocks: &[PreparedBlock]) -> (Mode, Vec<bool>) {
        let state = self.read_state();
        let mode = state.tables.catalog.settings.mode;
        if matches!(mode, Mode::Off | Mode::Exact) {
            return (mode, Vec::new());
        }
        let is_new = |fingerprint: &Fingerprint| {
            // The write meets an error again.
            let found = state.tables.find_equal(fingerprint, &mut Absent::default());
            found.is_ok_and(|found| found.is_none())
        };
        (mode, blocks.iter().map(|it| it.fingerprint.as_ref().is_some_and(is_new)).collect())
    }

    /// Returns the marks of a block: those that were computed ahead, unless the mode has changed since.
    pub(super) fn marks_of(&self, ahead: Option<Marks>, mode: Mode, bytes: &[u8]) -> Marks {
        ahead.filter(|marks| marks.mode == mode).unwrap_or_else(|| self.marks(mode, bytes))
    }

    fn marks(&self, mode: Mode, bytes: &[u8]) -> Marks {
        let (burst, features) = match mode {
            Mode::Off | Mode::Exact => (None, None),
            Mode::Burst(burst) => (Some(burst), None),
            Mode::Delta => (Some(Burst::default()), super_features(bytes)),
        };
        let edges = burst.map_or([None; 2], |burst| self.edge_keys(burst, bytes));
        Marks { mode, edges, features }
    }

    /// Returns the keys of head and tail of a block.
    fn edge_keys(&self, burst: Burst, bytes: &[u8]) -> [Option<EdgeKey>; 2] {
        let options = burst.options();
        let is_raw = burst.is_raw();
        Side::ALL.map(|side| {
            let edge = options.sub_chunk(side, bytes)?;
            Some(match edge.try_into().ok().filter(|_| is_raw) {
                Some(raw) => EdgeKey::Raw(raw),
                None => EdgeKey::Hash(self.core.keys.edge(edge)),
            })
        })
    }
}
