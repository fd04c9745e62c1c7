//! Searches for a chunk by tables of contents, which decide where hints do not.

use std::collections::HashMap;
use std::sync::Arc;

use cutpoint_storage::{Error, Result};

use super::container::{ContainerLens, RegionName};
use super::live_set::LiveChunk;
use crate::format::fingerprint::{Class, Fingerprint};
use crate::format::names::PartName;
use crate::format::segment::Segment;
use crate::index::{ContainerToc, Index, Location, Scope};
use crate::repo::repository::Repository;

/// Maximum number of regions for which it is remembered whether all their references exist: 5 MB.
const MET_MAX: usize = 64 * 1024;

/// The containers that are searched.
#[derive(Clone, Copy)]
pub(super) struct TocSearch<'a> {
    pub(super) repository: &'a Repository,
    pub(super) index: &'a Index,
    /// Containers that no segment names, and their hints.
    pub(super) orphans: &'a Segment,
    /// The containers that exist.
    pub(super) there: &'a ContainerLens,
}

impl TocSearch<'_> {
    /// Returns a container that has a record of `live` by its table of contents and that `accepts`
    /// admits. A container with a full chunk is preferred. If a delta chunk suffices, its
    /// references must all exist, because the references of unreached delta chunks in staying
    /// containers may have been deleted long ago. Among several delta chunks, the one in `first` is
    /// preferred, so that what was stored together stays together.
    pub(super) fn locate(
        &self,
        live: &LiveChunk,
        first: Option<(Class, PartName)>,
        accepts: &dyn Fn(&Location) -> bool,
        met: &mut HashMap<RegionName, bool>,
    ) -> Result<Option<(Class, PartName)>> {
        let LiveChunk { class, fingerprint, .. } = live;
        let full = self.find(*class, fingerprint, |location| {
            let full = LiveChunk { is_full: true, ..*live };
            Ok(full.accepts(location.chunk().form) && accepts(location))
        })?;
        if full.is_some() || live.is_full {
            return Ok(full.as_ref().map(name_of));
        }
        for only in [first, None] {
            let found = self.find(*class, fingerprint, |location| {
                Ok(only.is_none_or(|only| only == name_of(location))
                    && !location.is_full()
                    && accepts(location)
                    && self.has_references(location, met)?)
            })?;
            if found.is_some() {
                return Ok(found.as_ref().map(name_of));
            }
        }
        Ok(None)
    }

    /// Returns `true` if everything exists to which delta chunks of this region refer.
    fn has_references(
        &self,
        delta_chunk: &Location,
        met: &mut HashMap<RegionName, bool>,
    ) -> Result<bool> {
        let (class, part) = name_of(delta_chunk);
        let region = (class, part, delta_chunk.chunk().region);
        if let Some(is_met) = met.get(&region) {
            return Ok(*is_met);
        }
        let mut is_met = true;
        for reference in delta_chunk.references() {
            let found = self.find(class, reference, |location| {
                Ok(location.is_full() && self.there.contains_key(&name_of(location)))
            })?;
            if found.is_none() {
                is_met = false;
                break;
            }
        }
        if met.len() >= MET_MAX {
            met.clear();
        }
        met.insert(region, is_met);
        Ok(is_met)
    }

    /// Returns a place of the chunk, by a table of contents, that `accepts` admits.
    pub(super) fn find(
        &self,
        class: Class,
        fingerprint: &Fingerprint,
        mut accepts: impl FnMut(&Location) -> Result<bool>,
    ) -> Result<Option<Location>> {
        match self.index.find_where(class, fingerprint, Scope::Read, &mut accepts) {
            Ok(Some(location)) => return Ok(Some(location)),
            Ok(None) => {}
            Err(error) => absent(error)?,
        }
        let hint = fingerprint.hint();
        let start = self.orphans.hints.partition_point(|(each, _)| *each < hint);
        let same = self.orphans.hints[start..].iter().take_while(|(each, _)| *each == hint);
        for (_, number) in same {
            let record = self.orphans.containers[*number as usize];
            if record.class != class {
                continue;
            }
            let loaded = match ContainerToc::at(self.repository, record) {
                Ok(loaded) => Arc::new(loaded),
                Err(error) => {
                    absent(error)?;
                    continue;
                }
            };
            for (chunk, each) in loaded.toc.chunks.iter().enumerate() {
                let location = Location::new(&loaded, chunk);
                if each.fingerprint == *fingerprint && accepts(&location)? {
                    return Ok(Some(location));
                }
            }
        }
        Ok(None)
    }
}

pub(super) fn name_of(location: &Location) -> (Class, PartName) {
    (location.container.class, location.container.name)
}

/// Treats an unreadable object as absent. An error of the storage is returned.
pub(super) fn absent(error: Error) -> Result<()> {
    if error.is_loss() { Ok(()) } else { Err(error) }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use cutpoint_storage::{Fault, Faulty, Kind, Memory, Storage, System};
    use cutpoint_testing::SplitMix64;

    use super::*;
    use crate::crypto::{CipherSuite, Unlock};
    use crate::format::ticket::Purpose;
    use crate::gc::locate::list_containers;
    use crate::repo::repository::InitOptions;
    use crate::repo::view::View;
    use crate::write::{Inline, Writer};

    /// Containers that no segment names are searched by their own hints. A failing storage is
    /// reported, and not taken for a loss.
    #[test]
    fn orphan_containers_are_searched_by_their_own_hints() {
        let options = InitOptions {
            suite: CipherSuite::None,
            cut: "fixed".to_owned(),
            region_size: 1 << 14,
            container_size: 1 << 22,
            compression_level: 1,
            delta_chunks: false,
            parity_percent: 0,
            ..InitOptions::default()
        };
        let storage = Arc::new(Memory::new());
        Repository::init(storage.clone(), Arc::new(System), &Unlock::Nothing, &options)
            .expect("it is made");
        let open = |storage: Arc<dyn Storage>| {
            let opened = Repository::open(storage, Arc::new(System), &Unlock::Nothing);
            Arc::new(opened.expect("it opens"))
        };
        let repository = open(storage.clone());
        let chunks: Vec<Vec<u8>> = (0..20).map(|seed| SplitMix64::bytes(seed, 1000)).collect();
        let mut orphans = Segment::default();
        let mut stored = HashSet::new();
        for _ in 0..2 {
            let writer = Writer::begin(repository.clone(), Purpose::Backup).expect("it begins");
            let ticket = writer.ticket();
            let mut inline = Inline::restart(writer).expect("it begins");
            for chunk in &chunks {
                inline.store_data(chunk).expect("it stores");
            }
            inline.publish().expect("it publishes");
            stored.insert((Class::Data, PartName { ticket, count: 0 }));
        }
        let there = list_containers(&repository).expect("it lists");
        assert_eq!(there.keys().copied().collect::<HashSet<_>>(), stored, "one of each");
        for ((class, part), stored_len) in there.iter() {
            let loaded =
                ContainerToc::read(&repository, *class, *part, *stored_len).expect("it is well");
            orphans.append(&loaded.segment());
        }
        orphans.hints.sort_unstable();
        let look = |repository: &Arc<Repository>, class, fingerprint: &Fingerprint, agrees| {
            let index = Index::open(repository.clone(), &View::default()).expect("it opens");
            let search = TocSearch { repository, index: &index, orphans: &orphans, there: &there };
            let mut offered = HashSet::new();
            let found = search.find(class, fingerprint, |location| {
                assert_eq!(location.chunk().fingerprint, *fingerprint, "of that chunk");
                offered.insert(name_of(location));
                Ok(agrees)
            })?;
            assert!(found.as_ref().is_none_or(|found| offered == HashSet::from([name_of(found)])));
            Ok::<_, Error>((found.is_some(), offered))
        };
        let nothing = HashSet::new();
        for chunk in &chunks {
            let fingerprint = repository.keys().fingerprint(Class::Data, chunk);
            let look = |class, agrees| look(&repository, class, &fingerprint, agrees);
            assert!(look(Class::Data, true).expect("it looks").0, "it is found");
            assert_eq!(look(Class::Data, false).expect("it looks"), (false, stored.clone()));
            let other = look(Class::Meta, true).expect("it looks");
            assert_eq!(other, (false, nothing.clone()), "of another class");
        }
        let absent = repository.keys().fingerprint(Class::Data, b"an absent chunk");
        let found = look(&repository, Class::Data, &absent, true).expect("it looks");
        assert_eq!(found, (false, nothing), "no container has it");
        // The first read after those that opening makes.
        let counting = Arc::new(Faulty::new(storage.clone(), Fault::None));
        open(counting.clone());
        let fault = Fault::FailsAt(counting.calls());
        let failing = open(Arc::new(Faulty::new(storage, fault)));
        let fingerprint = repository.keys().fingerprint(Class::Data, &chunks[0]);
        let error = look(&failing, Class::Data, &fingerprint, true).expect_err("it fails");
        assert_eq!(error.kind(), Kind::Storage, "{error}");
    }
}
