//! Lookups of several entries at a time.

use std::ops::Range;

use super::map::{ZERO, decode};
use super::{Stored, Tables, keys};
use crate::error::Result;
use crate::format::position::Seq;
use crate::format::span::{BlockId, LayerId};

/// The maximum distance of the numbers of stored blocks that are looked up by one pass.
const DISTANCE_MAX: Seq = 8;

impl Tables {
    /// Returns the stored block of each block of a range as it is seen through a layer.
    ///
    /// # Errors
    ///
    /// Fails if the tables cannot be read.
    pub(crate) fn lookup_range(&self, layer: LayerId, blocks: Range<u64>) -> Result<Vec<Seq>> {
        let count = usize::try_from(blocks.end - blocks.start).expect("a request is in memory");
        let mut found: Vec<Option<Seq>> = vec![None; count];
        for layer in self.catalog.chain(layer) {
            let range = [blocks.start, blocks.end].map(|block| keys::map(BlockId { layer, block }));
            let place = |key: &_| {
                let block = keys::block_of(key)?.block;
                usize::try_from(block.checked_sub(blocks.start)?).ok()
            };
            let own = self.tree.get_range(range, count, place, decode)?;
            for (found, own) in found.iter_mut().zip(own) {
                *found = found.or(Tables::decoded(own)?);
            }
            if found.iter().all(Option::is_some) {
                break;
            }
        }
        Ok(found.into_iter().map(|seq| seq.unwrap_or(ZERO)).collect())
    }

    /// Returns stored blocks by their numbers. Blocks that were written one after the other are found
    /// fastest.
    ///
    /// # Errors
    ///
    /// Fails if the tables cannot be read.
    pub(crate) fn stored_blocks(&self, seqs: &[Seq]) -> Result<Vec<Option<Stored>>> {
        let mut all = Vec::with_capacity(seqs.len());
        for group in seqs.chunk_by(|one, next| next > one && next - one <= DISTANCE_MAX) {
            let [first, .., last] = *group else {
                all.push(self.stored(group[0])?);
                continue;
            };
            let range = [first, last.saturating_add(1)].map(keys::stored);
            let place = |key: &_| group.binary_search(&keys::seq_of(key)?).ok();
            match self.tree.get_range(range, group.len(), place, Stored::decode) {
                Ok(found) => {
                    for stored in found {
                        all.push(Tables::decoded(stored)?);
                    }
                }
                // The page that cannot be read may be one that none of the blocks needs.
                Err(_) => {
                    for seq in group {
                        all.push(self.stored(*seq)?);
                    }
                }
            }
        }
        Ok(all)
    }
}
