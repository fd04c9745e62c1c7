//! What each chunk takes in its container, by the tables of contents.

use std::collections::HashMap;

use cutpoint_repository::format::segment::ContainerRecord;
use cutpoint_repository::format::toc::{ChunkRecord, Form, Toc};
use cutpoint_repository::index::Copies;
use cutpoint_repository::{Class, Fingerprint, Reader, View};
use cutpoint_storage::Result;

use super::{CHUNKS_MAX, Space};

/// The space that a chunk takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cost {
    /// The length of the chunk.
    pub(super) len: u32,
    /// The share of its container.
    pub(super) stored: u32,
}

/// The costs of chunks, by the first 8 bytes of their fingerprints. Chunks beyond a limit are left out
/// by the last bits of these, so that a sample remains.
#[derive(Debug, Default)]
pub(super) struct Costs {
    chunks: HashMap<u64, Cost>,
    /// The bits that are 0 in each fingerprint of the sample.
    mask: u64,
    chunks_max: usize,
}

impl Costs {
    pub(super) fn new(chunks_max: usize) -> Costs {
        Costs { chunks_max, ..Costs::default() }
    }

    /// Reads the costs of all chunks of files, and adds the sizes of all steps to `space`.
    ///
    /// # Errors
    ///
    /// Returns any error of the index and of `step`.
    pub(super) fn read(
        reader: &Reader,
        view: &View,
        space: &mut Space,
        step: &dyn Fn(u64) -> Result<()>,
    ) -> Result<Costs> {
        let condemned = view.condemned();
        // Condemned containers will be deleted or are gone.
        let counts = |it: &ContainerRecord| !condemned.contains(&(it.class, it.name));
        let copies = reader.index().copies(counts)?;
        let containers = reader.index().containers().into_iter().filter(counts);
        let wanted = containers.map(|container| (container, Some(container)));
        let mut costs = Costs::new(CHUNKS_MAX);
        let mut done = 0;
        reader.index().each_toc(wanted, |container, toc| {
            step(done)?;
            done += 1;
            match toc.transpose() {
                Ok(Some(toc)) => costs.container(&container, &toc.toc, &copies, space),
                Ok(None) => {}
                Err(_) => space.unreadable_count += 1,
            }
            Ok(())
        })?;
        Ok(costs)
    }

    /// Adds the chunks of a container.
    fn container(
        &mut self,
        container: &ContainerRecord,
        toc: &Toc,
        copies: &Copies,
        space: &mut Space,
    ) {
        let totals = &mut space.totals;
        if container.class == Class::Meta {
            totals.metadata_bytes += u64::from(container.stored_len);
            return;
        }
        let is_copy = |chunk: &ChunkRecord| copies.is_copy(container, &chunk.fingerprint);
        let mut regions = vec![RegionUse::default(); toc.regions.len()];
        for chunk in &toc.chunks {
            let Some(region) = regions.get_mut(usize::from(chunk.region)) else { continue };
            let payload_len = u64::from(chunk.payload_len);
            if is_copy(chunk) {
                region.copied += payload_len;
                continue;
            }
            match chunk.form {
                Form::Full => totals.unique_bytes += u64::from(chunk.chunk_len),
                Form::Delta => {
                    totals.unique_bytes += u64::from(chunk.chunk_len);
                    region.delta += u64::from(chunk.chunk_len);
                }
                Form::Literal => region.literal += payload_len,
            }
        }
        for (region, used) in toc.regions.iter().zip(&regions) {
            let raw_len = u64::from(region.raw_len);
            let counted = raw_len.saturating_sub(used.copied);
            totals.matched_bytes += counted;
            // The share of the copies, as if all chunks of a region shrank alike.
            totals.compressed_bytes += share(u64::from(region.stored_len), counted, raw_len);
        }
        for chunk in toc.chunks.iter().filter(|it| it.form != Form::Literal && !is_copy(it)) {
            let place = usize::from(chunk.region);
            let (Some(region), Some(used)) = (toc.regions.get(place), regions.get(place)) else {
                continue;
            };
            let mut payload_len = u64::from(chunk.payload_len);
            if chunk.form == Form::Delta {
                // The new bytes of all delta chunks of a region lie together.
                payload_len += share(used.literal, u64::from(chunk.chunk_len), used.delta);
            }
            let stored = share(u64::from(region.stored_len), payload_len, region.raw_len.into());
            let stored = u32::try_from(stored).unwrap_or(u32::MAX);
            self.add(&chunk.fingerprint, Cost { len: chunk.chunk_len, stored });
        }
    }

    fn add(&mut self, fingerprint: &Fingerprint, cost: Cost) {
        let key = fingerprint.hint();
        if key & self.mask != 0 {
            return;
        }
        self.chunks.insert(key, cost);
        while self.chunks.len() > self.chunks_max {
            self.mask = self.mask << 1 | 1;
            let mask = self.mask;
            self.chunks.retain(|key, _| key & mask == 0);
        }
    }

    /// Returns the number of chunks that each chunk of the sample stands for.
    pub(super) fn rate(&self) -> u64 {
        self.mask.saturating_add(1)
    }

    /// Takes the cost of `length` bytes of a chunk. Each byte counts once; small files share chunks.
    pub(super) fn take(&mut self, fingerprint: &Fingerprint, length: u64) -> Option<Cost> {
        let key = fingerprint.hint();
        let left = self.chunks.get_mut(&key)?;
        let len = u32::try_from(length).unwrap_or(u32::MAX);
        if len >= left.len {
            return self.chunks.remove(&key);
        }
        let stored = share(left.stored.into(), len.into(), left.len.into());
        let taken = Cost { len, stored: u32::try_from(stored).unwrap_or(left.stored) };
        left.len -= taken.len;
        left.stored -= taken.stored.min(left.stored);
        Some(taken)
    }
}

/// The payloads of a region, in bytes.
#[derive(Clone, Debug, Default)]
struct RegionUse {
    copied: u64,
    literal: u64,
    /// The length of its delta chunks.
    delta: u64,
}

/// Returns `whole * part / of`.
fn share(whole: u64, part: u64, of: u64) -> u64 {
    let product = u128::from(whole) * u128::from(part) / u128::from(of.max(1));
    u64::try_from(product).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sample_has_a_share_of_the_chunks_once() {
        let mut costs = Costs::new(100);
        let fingerprint = |number: u64| {
            let mut bytes = [0; 32];
            // Any order of the bytes has different ones at the place that is looked at.
            bytes[..8].copy_from_slice(&number.to_le_bytes());
            bytes[0] ^= bytes[7];
            Fingerprint(bytes)
        };
        let all: Vec<Fingerprint> =
            (0..1000).map(|it: u64| fingerprint(it.wrapping_mul(0x9e37_79b9_7f4a_7c15))).collect();
        for each in &all {
            costs.add(each, Cost { len: 10, stored: 5 });
        }
        let rate = costs.rate();
        assert!([16, 32].contains(&rate), "{rate}");
        let found = all.iter().filter(|it| costs.take(it, 10).is_some()).count() as u64;
        assert!((found * rate).abs_diff(1000) < 500, "{found} of one in {rate}");
        assert!(all.iter().all(|it| costs.take(it, 10).is_none()), "each once");
    }

    #[test]
    fn files_share_the_cost_of_a_chunk() {
        let mut costs = Costs::new(100);
        let chunk = Fingerprint([7; 32]);
        costs.add(&chunk, Cost { len: 100, stored: 50 });
        assert_eq!(costs.take(&chunk, 30), Some(Cost { len: 30, stored: 15 }), "a part");
        assert_eq!(costs.take(&chunk, 100), Some(Cost { len: 70, stored: 35 }), "the rest");
        assert_eq!(costs.take(&chunk, 30), None, "no more");
    }
}
