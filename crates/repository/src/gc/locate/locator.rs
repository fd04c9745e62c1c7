//! Locates the live chunks: merges them with the hints, resolves what is ambiguous, and adds the
//! references of the delta chunks that stay.

use std::collections::HashSet;
use std::path::Path;

use cutpoint_storage::{Kind, Result};

use super::container::{Container, ContainerLens, RegionName};
use super::delta_regions::{DeltaRegions, Inlining};
use super::join::HintJoin;
use super::live_set::{LIVE_CHUNK_LEN, LiveChunk, LiveSet, MergedLive, SORTER_BYTES};
use super::placement::Placement;
use super::record::{NO_CONTAINER, encode_placed};
use super::resolve::resolve;
use super::toc_search::TocSearch;
use crate::format::commit::Damage;
use crate::format::fingerprint::Class;
use crate::format::names::PartName;
use crate::format::segment::Segment;
use crate::index::Index;
use crate::repo::repository::Repository;
use crate::rules;
use crate::util::extsort::{ExternalSort, SortedRecords};

/// Maximum number of repairs of the cached index before its error is returned.
const REPLACED_MAX: u32 = 32;

/// Locates live chunks.
pub(crate) struct Locator<'a> {
    pub(crate) repository: &'a Repository,
    pub(crate) index: &'a Index,
    /// The containers in which nothing stays.
    pub(crate) condemned: &'a HashSet<(Class, PartName)>,
    /// The records that checks have found damaged, which are chosen last.
    pub(crate) damaged: &'a HashSet<Damage>,
    /// Containers that no segment names, and their hints.
    pub(crate) orphans: &'a Segment,
    /// The containers that exist.
    pub(crate) there: &'a ContainerLens,
    /// The folder for temporary files.
    pub(crate) folder: Option<&'a Path>,
    /// Maximum total size of delta chunks that may be stored again as full chunks, in bytes.
    pub(crate) inlined_bytes_max: u64,
    /// Returns an error if the operation was cancelled. Called often.
    pub(crate) stop_if_cancelled: &'a dyn Fn() -> Result<()>,
}

impl Locator<'_> {
    /// Finds a place for each of `live_set`, and for the references of the delta chunks that stay
    /// for them.
    ///
    /// # Errors
    ///
    /// Returns `Corrupt` or `Missing` if the references of a container's delta chunks cannot be
    /// read, and any error of the storage or of a temporary file. A missing chunk is not an error.
    pub(crate) fn locate(&self, live_set: &SortedRecords<LIVE_CHUNK_LEN>) -> Result<Placement> {
        let mut replaced_count = 0;
        let mut is_rebuilt = false;
        loop {
            match self.locate_and_inline(live_set) {
                // A damaged cache must not be taken for a missing chunk.
                Ok(found) if found.missing_count > 0 && !is_rebuilt => {
                    is_rebuilt = true;
                    if !self.index.rebuild()? {
                        return Ok(found);
                    }
                }
                // A cached part of the index was damaged, and has been rebuilt.
                Err(error) if error.kind() == Kind::Conflict && replaced_count < REPLACED_MAX => {
                    replaced_count += 1;
                }
                found => return found,
            }
        }
    }

    fn locate_and_inline(&self, live_set: &SortedRecords<LIVE_CHUNK_LEN>) -> Result<Placement> {
        if !rules::must_mark_references() {
            return self.locate_once(live_set, &LiveSet::new(None).finish());
        }
        let placement = self.locate_with_references(live_set, &HashSet::new())?;
        let regions = self.delta_regions();
        let Inlining { inlined, released_bytes } =
            regions.choose_inlining(&placement, self.inlined_bytes_max)?;
        if inlined.is_empty() {
            return Ok(placement);
        }
        Ok(Placement { released_bytes, ..self.locate_with_references(live_set, &inlined)? })
    }

    /// Finds a place for each live chunk, and for the references of staying delta chunks, except
    /// for delta chunks in `inlined` regions, which are to be stored again as full chunks.
    ///
    /// One more round suffices for the references, because they are full chunks, which need nothing
    /// else. There is more to locate only if tables of contents answer differently the second time.
    /// The loop ends, because a reference that was found remains, and the number of references is
    /// finite.
    fn locate_with_references(
        &self,
        live_set: &SortedRecords<LIVE_CHUNK_LEN>,
        inlined: &HashSet<RegionName>,
    ) -> Result<Placement> {
        let mut references = LiveSet::new(None).finish();
        let mut count = 0;
        loop {
            let mut placement = self.locate_once(live_set, &references)?;
            if placement.missing_count > 0 {
                return Ok(placement);
            }
            let mut found = self.delta_regions().references(&placement, inlined)?;
            let mut iter = references.iter()?;
            while let Some(live) = iter.next()? {
                found.live_set.sorter.push(live)?;
            }
            let all = found.live_set.finish();
            let mut all_count = 0_u64;
            let mut iter = all.iter()?;
            while iter.next()?.is_some() {
                all_count += 1;
            }
            if all_count == count {
                if !found.inlined.is_empty() {
                    placement.inline(&found.inlined, self.folder)?;
                    placement.inlined_bytes = found.inlined_bytes;
                }
                return Ok(placement);
            }
            (references, count) = (all, all_count);
        }
    }

    fn locate_once(
        &self,
        live_set: &SortedRecords<LIVE_CHUNK_LEN>,
        references: &SortedRecords<LIVE_CHUNK_LEN>,
    ) -> Result<Placement> {
        let hints = self.index.hints(self.orphans)?;
        let mut containers = Vec::with_capacity(hints.container_count());
        containers.extend(hints.containers().map(|record| {
            let name = (record.class, record.name);
            Container {
                record,
                is_there: self.there.get(&name) == Some(&u64::from(record.stored_len)),
                is_condemned: self.condemned.contains(&name),
                hint_count: 0,
                hint_sum: 0,
                live_count: 0,
                pinned_count: 0,
            }
        }));
        let mut join = HintJoin {
            containers,
            damaged: self.damaged,
            clear: ExternalSort::new(self.folder, SORTER_BYTES),
            ambiguous: ExternalSort::new(self.folder, SORTER_BYTES / 4),
            hinted: Vec::new(),
            live_chunks: Vec::new(),
        };
        let mut live_set = MergedLive::new(live_set, references)?;
        let mut next_live = live_set.next()?;
        let mut last = None;
        hints.each(|hint, container| {
            if last != Some(hint) {
                join.end_of_hint(last.unwrap_or(0))?;
                (self.stop_if_cancelled)()?;
                // Live chunks without any hint come first.
                while let Some(live) = next_live
                    && LiveChunk::decode(&live).fingerprint.hint() <= hint
                {
                    if LiveChunk::decode(&live).fingerprint.hint() < hint {
                        join.ambiguous.push(encode_placed(NO_CONTAINER, &live))?;
                    } else {
                        join.live_chunks.push(live);
                    }
                    next_live = live_set.next()?;
                }
                last = Some(hint);
            }
            join.hinted.push(container);
            Ok(())
        })?;
        join.end_of_hint(last.unwrap_or(0))?;
        while let Some(live) = next_live {
            join.ambiguous.push(encode_placed(NO_CONTAINER, &live))?;
            next_live = live_set.next()?;
        }
        drop(hints);
        resolve(join, self.search(), self.stop_if_cancelled)
    }

    fn search(&self) -> TocSearch<'_> {
        let Locator { repository, index, orphans, there, .. } = *self;
        TocSearch { repository, index, orphans, there }
    }

    fn delta_regions(&self) -> DeltaRegions<'_> {
        let Locator { index, folder, stop_if_cancelled, .. } = *self;
        DeltaRegions { index, folder, stop_if_cancelled }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use cutpoint_storage::{Memory, System};
    use cutpoint_testing::SplitMix64;

    use super::*;
    use crate::crypto::{CipherSuite, Unlock};
    use crate::format::fingerprint::{FINGERPRINT_LEN, Fingerprint};
    use crate::format::names::TicketId;
    use crate::format::segment::ContainerRecord;
    use crate::repo::repository::InitOptions;
    use crate::repo::view::View;

    const CHUNKS_OF_CONTAINER: u64 = 250;
    const CHUNKS_OF_SEGMENT: u64 = 50_000;

    fn fingerprint(number: u64) -> Fingerprint {
        let mut fingerprint = Fingerprint([0; FINGERPRINT_LEN]);
        fingerprint.0.copy_from_slice(&SplitMix64::bytes(number, FINGERPRINT_LEN));
        fingerprint
    }

    fn container(number: u64) -> ContainerRecord {
        let count = u32::try_from(number).expect("few containers");
        ContainerRecord {
            name: PartName { ticket: TicketId([1; 12]), count },
            class: Class::Data,
            has_delta_chunks: false,
            stored_len: 1000,
            toc_offset: 100,
            toc_len: 100,
        }
    }

    /// Returns the peak memory of this process in KiB, or 0 if the system does not tell.
    fn peak_kib() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0)
    }

    /// Set `CUTPOINT_LOOKUPS=10000000` to look up that many chunks; the memory that it took is
    /// printed. Two of three chunks are live, and none of every tenth container.
    #[test]
    fn live_chunks_are_located() {
        let chunks = std::env::var("CUTPOINT_LOOKUPS").ok().and_then(|text| text.parse().ok());
        let chunks: u64 = chunks.unwrap_or(100_000);
        let folder = tempfile::tempdir().expect("a folder");
        let options = InitOptions {
            suite: CipherSuite::None,
            cut: "fixed".to_owned(),
            region_size: 1 << 17,
            container_size: 1 << 24,
            compression_level: 1,
            delta_chunks: false,
            parity_percent: 0,
            ..InitOptions::default()
        };
        let storage = Arc::new(Memory::new());
        let repository = Repository::init(storage, Arc::new(System), &Unlock::Nothing, &options);
        let repository = repository.expect("it is made").with_cache(folder.path().to_owned());
        let repository = Arc::new(repository);
        let index = Index::open(repository.clone(), &View::default()).expect("it opens");
        let mut there = Vec::new();
        for (number, first) in
            (0..).zip((0..chunks).step_by(usize::try_from(CHUNKS_OF_SEGMENT).expect("it fits")))
        {
            let mut segment = Segment::default();
            for chunk in first..chunks.min(first + CHUNKS_OF_SEGMENT) {
                if chunk % CHUNKS_OF_CONTAINER == 0 {
                    let record = container(chunk / CHUNKS_OF_CONTAINER);
                    there.push(((record.class, record.name), u64::from(record.stored_len)));
                    segment.containers.push(record);
                }
                let number = u32::try_from(segment.containers.len() - 1).expect("few containers");
                segment.hints.push((fingerprint(chunk).hint(), number));
            }
            segment.hints.sort_unstable();
            let name = PartName { ticket: TicketId([2; 12]), count: number };
            index.add(name, &segment).expect("it is taken up");
        }
        let is_live = |chunk: &u64| {
            !chunk.is_multiple_of(3) && !(chunk / CHUNKS_OF_CONTAINER).is_multiple_of(10)
        };
        let temporary = folder.path().join("tmp");
        let mut live_set = LiveSet::new(Some(&temporary));
        // In another order than they are stored, and some of them twice.
        for chunk in (0..chunks).rev().chain(0..chunks / 7).filter(is_live) {
            live_set.push(Class::Data, &fingerprint(chunk)).expect("a temporary file");
        }
        let live_set = live_set.finish();
        let there = there.into_iter().collect();
        let (condemned, damaged, orphans) = (HashSet::new(), HashSet::new(), Segment::default());
        let locator = Locator {
            repository: &repository,
            index: &index,
            condemned: &condemned,
            damaged: &damaged,
            orphans: &orphans,
            there: &there,
            folder: Some(&temporary),
            inlined_bytes_max: u64::MAX,
            stop_if_cancelled: &|| Ok(()),
        };
        let placement = locator.locate(&live_set).expect("all is found");
        assert_eq!(
            (placement.missing_count, placement.only_condemned.len()),
            (0, 0),
            "all is there"
        );
        let mut live = placement.live().expect("it is read");
        for (number, place) in (0..).zip(&placement.containers) {
            let first = u64::from(place.record.name.count) * CHUNKS_OF_CONTAINER;
            let chunks = first..chunks.min(first + CHUNKS_OF_CONTAINER);
            assert_eq!(u64::from(place.hint_count), chunks.end - chunks.start, "{place:?}");
            let expected: HashSet<Fingerprint> = chunks.filter(is_live).map(fingerprint).collect();
            assert_eq!(place.live_count as usize, expected.len(), "{place:?}");
            let found: HashSet<Fingerprint> =
                live.of(number).expect("it is read").into_keys().collect();
            assert_eq!(found, expected, "{place:?}");
        }
        live.end().expect("it is read to the end");
        println!("{chunks} chunks: at most {} MiB in this process", peak_kib() / 1024);
    }
}
