//! A cache of recently used tables of contents. Chunks that are stored together are mostly looked
//! up together.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use super::container_toc::ContainerToc;
use super::location::Location;
use crate::crypto::HEADER_LEN;
use crate::format::fingerprint::{Class, FINGERPRINT_LEN, Fingerprint};
use crate::format::names::PartName;

/// The maximum size of the cache, in bytes, by the constants below.
const BYTES_MAX: u64 = 16 * 1024 * 1024;
/// The size of a chunk in the cache: its record, and its entry in the map.
const CHUNK_BYTES: u64 = 56 + 24;
/// The size of a table of contents in the cache without its chunks.
const TOC_BYTES: u64 = 512;

/// Number of uses from which a table of contents is mapped. Before that, searching it costs less.
const MAPPED_FROM: u32 = 4;

/// Number of full chunks in each of the two generations that are remembered individually.
const FULL_CHUNKS_MAX: usize = 8192;
/// The size of each such full chunk in the cache.
const FULL_CHUNK_BYTES: u64 = 8 + size_of::<Location>() as u64;

/// A bounded cache of tables of contents, with a map from the hints of those that are used often.
/// The oldest table of contents is dropped first. Full chunks that were found outlast their tables
/// of contents, because the additions of many versions of a file are in as many containers, with
/// few chunks in each, and all of them are looked up repeatedly.
#[derive(Debug, Default)]
pub(super) struct TocCache {
    /// The tables of contents by slot number. Slot numbers rise, and are not reused.
    slots: HashMap<u32, Slot>,
    by_name: HashMap<(Class, PartName), u32>,
    order: VecDeque<u32>,
    next_slot: u32,
    chunks: HashMap<u64, (u32, u32)>,
    bytes: u64,
    /// The remembered full chunks, by hint. When this generation is full, it becomes the previous
    /// one.
    full_chunks: HashMap<u64, Location>,
    full_chunks_before: HashMap<u64, Location>,
}

#[derive(Debug)]
struct Slot {
    loaded: Arc<ContainerToc>,
    use_count: u32,
}

impl Slot {
    fn is_mapped(&self) -> bool {
        self.use_count >= MAPPED_FROM
    }
}

impl TocCache {
    pub(super) fn find(&mut self, fingerprint: &Fingerprint) -> Option<Location> {
        let hint = fingerprint.hint();
        if let Some((slot, chunk)) = self.chunks.get(&hint)
            && let Some(Slot { loaded, .. }) = self.slots.get(slot)
            && let Some(record) = loaded.toc.chunks.get(*chunk as usize)
            && record.fingerprint == *fingerprint
        {
            return Some(Location::new(loaded, *chunk as usize));
        }
        if !self.full_chunks.contains_key(&hint)
            && let Some(location) = self.full_chunks_before.remove(&hint)
        {
            self.remember(&location);
        }
        let location = self.full_chunks.get(&hint)?;
        (location.chunk().fingerprint == *fingerprint).then(|| location.clone())
    }

    /// Remembers a full chunk that was found.
    pub(super) fn remember(&mut self, location: &Location) {
        if self.full_chunks.len() >= FULL_CHUNKS_MAX {
            self.full_chunks_before = std::mem::take(&mut self.full_chunks);
        }
        self.full_chunks.insert(location.chunk().fingerprint.hint(), location.without_toc());
    }

    pub(super) fn get(&mut self, name: PartName, class: Class) -> Option<Arc<ContainerToc>> {
        let number = *self.by_name.get(&(class, name))?;
        let slot = self.slots.get_mut(&number)?;
        slot.use_count = slot.use_count.saturating_add(1);
        if slot.use_count == MAPPED_FROM {
            for (chunk_number, chunk) in (0..).zip(&slot.loaded.toc.chunks) {
                self.chunks.insert(chunk.fingerprint.hint(), (number, chunk_number));
            }
        }
        Some(slot.loaded.clone())
    }

    /// Returns the header of a container, which is no use of its table of contents.
    pub(super) fn header(&self, name: PartName, class: Class) -> Option<[u8; HEADER_LEN]> {
        let slot = self.slots.get(self.by_name.get(&(class, name))?)?;
        slot.loaded.header
    }

    pub(super) fn insert(&mut self, loaded: Arc<ContainerToc>) {
        let name = (loaded.container.class, loaded.container.name);
        if self.by_name.contains_key(&name) {
            return; // Two threads have read it at once.
        }
        let number = self.next_slot;
        self.next_slot = self.next_slot.wrapping_add(1);
        self.bytes += cost(&loaded);
        self.by_name.insert(name, number);
        self.order.push_back(number);
        self.slots.insert(number, Slot { loaded, use_count: 1 });
        while self.bytes > BYTES_MAX && self.order.len() > 1 {
            self.remove_oldest();
        }
    }

    fn remove_oldest(&mut self) {
        let Some(number) = self.order.pop_front() else { return };
        let Some(slot) = self.slots.remove(&number) else { return };
        self.bytes -= cost(&slot.loaded);
        let container = &slot.loaded.container;
        self.by_name.remove(&(container.class, container.name));
        if !slot.is_mapped() {
            return;
        }
        for chunk in &slot.loaded.toc.chunks {
            let hint = chunk.fingerprint.hint();
            if self.chunks.get(&hint).is_some_and(|(owner, _)| *owner == number) {
                self.chunks.remove(&hint);
            }
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        let full_chunk_count = self.full_chunks.len() + self.full_chunks_before.len();
        self.bytes + full_chunk_count as u64 * FULL_CHUNK_BYTES
    }
}

fn cost(loaded: &ContainerToc) -> u64 {
    let references = loaded.toc.regions.iter().map(|region| region.references.len() as u64);
    TOC_BYTES
        + loaded.toc.chunks.len() as u64 * CHUNK_BYTES
        + references.sum::<u64>() * FINGERPRINT_LEN as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::names::TicketId;
    use crate::format::segment::ContainerRecord;
    use crate::format::toc::{ChunkRecord, Codec, Form, RegionRecord, Toc};

    fn part(count: u32) -> PartName {
        PartName { ticket: TicketId([1; 12]), count }
    }

    /// Returns the fingerprint of chunk `chunk` of table of contents `toc`.
    fn fingerprint(toc: u32, chunk: u64) -> Fingerprint {
        let mut fingerprint = Fingerprint([0; FINGERPRINT_LEN]);
        let number = (u64::from(toc) << 32) + chunk;
        fingerprint.0[..8]
            .copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
        fingerprint
    }

    /// Returns a table of contents of `count` chunks, the last of which is in all tables of
    /// contents.
    fn loaded(number: u32, count: u64) -> Arc<ContainerToc> {
        let container = ContainerRecord {
            name: part(number),
            class: Class::Data,
            has_delta_chunks: false,
            stored_len: 1,
            toc_offset: 2,
            toc_len: 3,
        };
        let of_all = std::iter::once(fingerprint(u32::MAX, 0));
        let all = (0..count - 1).map(|chunk| fingerprint(number, chunk)).chain(of_all);
        let chunks = all.map(|fingerprint| ChunkRecord {
            fingerprint,
            form: Form::Full,
            region: 0,
            offset: 0,
            payload_len: 1,
            chunk_len: 1,
        });
        let region = RegionRecord {
            offset: 4096,
            stored_len: 1,
            raw_len: 1,
            codec: Codec::Store,
            references: vec![fingerprint(number, 0)],
        };
        let (regions, chunks) = (vec![region], chunks.collect());
        let toc = Toc { regions, chunks, ..Toc::default() };
        Arc::new(ContainerToc::new(container, toc))
    }

    fn use_much(tocs: &mut TocCache, number: u32) {
        for _ in 1..MAPPED_FROM {
            assert!(tocs.get(part(number), Class::Data).is_some(), "table of contents {number}");
        }
    }

    #[test]
    fn cache_over_limit_drops_oldest_toc_first() {
        let count = BYTES_MAX / CHUNK_BYTES / 3;
        let mut tocs = TocCache::default();
        for number in 0..5 {
            tocs.insert(loaded(number, count));
            use_much(&mut tocs, number);
            let kept = u64::from(number + 1).min(2);
            let kept_bytes = TOC_BYTES + count * CHUNK_BYTES + FINGERPRINT_LEN as u64;
            assert_eq!(tocs.bytes(), kept * kept_bytes);
            let found = tocs.find(&fingerprint(u32::MAX, 0)).expect("all have it");
            assert_eq!(found.container.name, part(number), "in the newest");
        }
        for number in 0..5 {
            let is_kept = number >= 3;
            let found = tocs.get(part(number), Class::Data);
            assert_eq!(found.is_some(), is_kept, "table of contents {number}");
            let found = tocs.find(&fingerprint(number, 0));
            assert_eq!(found.is_some(), is_kept, "of table of contents {number}");
        }
        assert!(tocs.get(part(4), Class::Meta).is_none(), "of another class");
        // A table of contents that exceeds the limit alone is useful all the same.
        tocs.insert(loaded(5, BYTES_MAX / CHUNK_BYTES + 1));
        assert!(tocs.find(&fingerprint(5, 0)).is_none(), "not used much");
        use_much(&mut tocs, 5);
        assert_eq!(tocs.order.len(), 1, "alone");
        assert!(tocs.find(&fingerprint(5, 0)).is_some(), "it is found");
        assert_eq!(tocs.chunks.len() as u64, BYTES_MAX / CHUNK_BYTES + 1, "nothing is left");
    }

    #[test]
    fn remembered_full_chunk_outlasts_its_toc() {
        let mut tocs = TocCache::default();
        let found = Location::new(&loaded(1, 3), 1);
        tocs.remember(&found);
        assert_eq!(tocs.bytes(), FULL_CHUNK_BYTES, "and hold nothing of them");
        for number in 0..3 * FULL_CHUNKS_MAX as u64 {
            if number % 1000 == 0 {
                let again = tocs.find(&fingerprint(1, 1)).expect("it is asked for");
                assert_eq!((again.key(), again.chunk()), (found.key(), found.chunk()));
                assert_eq!(again.region().offset, 4096);
            }
            let one = Location::new(&loaded(2, 2), 0);
            let chunk = ChunkRecord { fingerprint: fingerprint(3, number), ..*one.chunk() };
            tocs.remember(&Location { chunk, ..one });
            assert!(
                tocs.bytes() <= 2 * FULL_CHUNKS_MAX as u64 * FULL_CHUNK_BYTES,
                "no more are kept"
            );
        }
        assert!(tocs.find(&fingerprint(3, 0)).is_none(), "it was dropped");
    }
}
