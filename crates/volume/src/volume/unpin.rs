//! Frees full blocks that nothing but bursts and deltas need: these are stored anew.

use std::collections::BTreeMap;

use cutpoint_delta::common_edges;

use super::Volume;
use super::read::DamagedBlock;
use crate::error::Result;
use crate::format::patch::Patch;
use crate::format::position::Seq;
use crate::format::record::Body;
use crate::tables::Tables;

/// The bytes of pinned blocks, in percent of all stored bytes, up to which they stay.
const PINNED_PERCENT: u64 = 5;

/// The maximum number of bursts and deltas that are found at a time.
const FOUND_MAX: usize = 64 * 1024;

/// The maximum bytes of the new forms of the dependents of one block, which are in memory at a time.
const REWRITTEN_BYTES_MAX: u64 = 64 << 20;

/// Bursts and deltas by the pinned reference block that they need.
type Pinning = BTreeMap<Seq, Vec<Seq>>;

/// A block that pins others is stored in this form instead.
struct Rewrite {
    target: Seq,
    burst: Option<(Seq, Patch)>,
    content: Vec<u8>,
}

impl Volume {
    /// Stores bursts and deltas anew whose reference blocks nothing else needs, where that takes less
    /// space, if such blocks take much. Returns `false` if `is_asked_to_stop` returned `true`.
    ///
    /// # Errors
    ///
    /// Fails if the volume cannot be read or written.
    pub(super) fn rewrite_pinning(&self, is_asked_to_stop: &dyn Fn() -> bool) -> Result<bool> {
        let mut from = 0;
        while self.has_many_pinned() {
            let (pinning, next) = self.pinning(from)?;
            for (reference, dependents) in pinning {
                if is_asked_to_stop() {
                    return Ok(false);
                }
                self.unpin(reference, &dependents)?;
                self.after_write()?;
            }
            let Some(next) = next else { break };
            from = next;
        }
        Ok(true)
    }

    fn has_many_pinned(&self) -> bool {
        let state = self.read_state();
        let totals = &state.tables.totals;
        let stored: u64 = totals.form_bytes.iter().sum();
        let pinned = totals.pinned_count * self.block_size() as u64;
        pinned.saturating_mul(100) > stored.saturating_mul(PINNED_PERCENT)
    }

    /// Returns bursts and deltas from a number on with pinned reference blocks, by these, and the number
    /// from which on there may be more.
    fn pinning(&self, from: Seq) -> Result<(Pinning, Option<Seq>)> {
        let state = self.read_state();
        let tables = &state.tables;
        let mut pinning = Pinning::new();
        let mut count = 0;
        for entry in tables.stored_from(from) {
            let (seq, stored) = entry?;
            if count >= FOUND_MAX {
                return Ok((pinning, Some(seq)));
            }
            for reference in stored.references() {
                if tables.stored(*reference)?.is_some_and(|it| it.is_pinned()) {
                    pinning.entry(*reference).or_default().push(seq);
                    count += 1;
                }
            }
        }
        Ok((pinning, None))
    }

    /// Stores the dependents of a pinned block without it, if this takes less space than now: the first one
    /// whole, and each other one as a burst on that one or whole.
    fn unpin(&self, reference: Seq, dependents: &[Seq]) -> Result<()> {
        let mut state = self.write_state()?;
        let tables = &state.tables;
        let mut before = 0;
        let mut targets = Vec::with_capacity(dependents.len());
        // A delta may keep other blocks as well. Those that only these dependents need are freed with this one.
        let mut needed: BTreeMap<Seq, u64> = BTreeMap::new();
        for seq in dependents {
            // It may have been stored anew for another pinned block.
            let stored = tables.stored(*seq)?.filter(|it| it.references().contains(&reference));
            let Some(stored) = stored else { continue };
            targets.push(*seq);
            before += u64::from(stored.payload_len);
            stored.references().iter().for_each(|base| *needed.entry(*base).or_default() += 1);
        }
        let mut is_freed = false;
        for (base, count) in needed {
            let pinned = tables.stored(base)?.filter(|it| it.is_pinned());
            if pinned.is_some_and(|it| it.dependent_count() == count) {
                before += self.block_size() as u64;
                is_freed |= base == reference;
            }
        }
        if !is_freed {
            // It is no longer pinned, there are new dependents, or others were not found yet.
            return Ok(());
        }
        let budget = before.min(REWRITTEN_BYTES_MAX);
        let Some(rewrites) = self.rewrites(tables, &targets, budget)? else { return Ok(()) };
        for Rewrite { target, burst, content } in rewrites {
            state.append(&self.core, Body::Rewrite { target, burst }, &content)?;
        }
        Ok(())
    }

    /// Returns the new forms of blocks: the first one whole, the others as bursts on it, or whole as well.
    /// Returns `None` if one is damaged, or if they do not take less than `budget` bytes.
    fn rewrites(
        &self,
        tables: &Tables,
        targets: &[Seq],
        mut budget: u64,
    ) -> Result<Option<Vec<Rewrite>>> {
        let mut first: Option<(Seq, Vec<u8>)> = None;
        let mut rewrites = Vec::with_capacity(targets.len());
        for target in targets {
            let mut block = vec![0; self.block_size()];
            if let Err(DamagedBlock { .. }) = self.read_stored(tables, *target, &mut block) {
                return Ok(None);
            }
            let target = *target;
            let burst = first.as_ref().and_then(|(whole, bytes)| {
                let (prefix, suffix) = common_edges(bytes, &block);
                let len = |len: usize| u32::try_from(len).expect("a block has at most 64 KiB");
                let patch = Patch { prefix: len(prefix), suffix: len(suffix) };
                patch.is_possible(block.len()).then_some((*whole, patch))
            });
            let content = match &burst {
                Some((_, patch)) => patch.content(&block),
                None => block.clone(),
            };
            budget = budget.saturating_sub(content.len() as u64);
            if budget == 0 {
                return Ok(None);
            }
            rewrites.push(Rewrite { target, burst, content });
            first.get_or_insert((target, block));
        }
        Ok(Some(rewrites))
    }
}
