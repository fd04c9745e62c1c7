//! Containers, and the records that stay in them.

use std::collections::{BTreeSet, HashMap};

use cutpoint_storage::{Error, ObjectKind, Result};

use super::live_set::LiveChunk;
use crate::format::fingerprint::{Class, Fingerprint};
use crate::format::names::{ObjectName, PartName};
use crate::format::segment::ContainerRecord;
use crate::format::toc::{ChunkRecord, Form, Toc};
use crate::repo::repository::Repository;

/// A container that the index or the caller names.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Container {
    /// The location and length of the container.
    pub(crate) record: ContainerRecord,
    /// Set if the container exists with the length that its record says.
    pub(crate) is_there: bool,
    /// Set if a prune of the view has condemned the container.
    pub(crate) is_condemned: bool,
    /// Number of distinct hints that lead to the container.
    pub(crate) hint_count: u32,
    /// Wrapping sum of the distinct hints that lead to the container.
    pub(crate) hint_sum: u64,
    /// Number of live chunks that stay in the container.
    pub(crate) live_count: u32,
    /// Number of these chunks that stay only because delta chunks refer to them.
    pub(crate) pinned_count: u32,
}

impl Container {
    /// Returns `true` if chunks can stay in the container.
    pub(crate) fn is_usable(&self) -> bool {
        self.is_there && !self.is_condemned
    }

    /// Checks that the hints that lead to the container are those of its table of contents. If a
    /// hint is missing, its chunk may be live and not be found anywhere else.
    ///
    /// # Errors
    ///
    /// Returns `Corrupt`, naming the container, if they differ.
    pub(crate) fn require_hints(&self, toc: &Toc) -> Result<()> {
        let chunks = toc.chunks.iter();
        let hints: BTreeSet<u64> = chunks.map(|chunk| chunk.fingerprint.hint()).collect();
        let sum = hints.iter().fold(0_u64, |sum, hint| sum.wrapping_add(*hint));
        if hints.len() as u64 == u64::from(self.hint_count) && sum == self.hint_sum {
            return Ok(());
        }
        let (class, part) = self.name();
        Err(Error::corrupt(
            ObjectName::Container(class, part),
            "chunks differ from the index; `cutpoint repair index` rebuilds the index",
        ))
    }

    /// Returns the class and the name of the container.
    pub(crate) fn name(&self) -> (Class, PartName) {
        (self.record.class, self.record.name)
    }
}

/// The class, the container and the number of a region.
pub(super) type RegionName = (Class, PartName, u16);

/// The chunks that stay in one container.
pub(crate) type LiveChunks = HashMap<Fingerprint, LiveChunk>;

/// Returns the records that stay in a container, in the order in which they lie: one of each chunk
/// in `live`, a full chunk if there is one. A chunk that the container does not have in the form
/// that it needs has no record.
pub(crate) fn staying<'a>(toc: &'a Toc, live: &LiveChunks) -> Vec<&'a ChunkRecord> {
    let numbers = staying_numbers(toc, live).into_iter();
    numbers.map(|number| &toc.chunks[number]).collect()
}

/// Returns the numbers of the records that [`staying`] returns.
pub(crate) fn staying_numbers(toc: &Toc, live: &LiveChunks) -> Vec<usize> {
    let mut best: HashMap<Fingerprint, usize> = HashMap::with_capacity(live.len());
    for (number, chunk) in toc.chunks.iter().enumerate() {
        if live.get(&chunk.fingerprint).is_some_and(|live| live.accepts(chunk.form)) {
            let known = best.entry(chunk.fingerprint).or_insert(number);
            if toc.chunks[*known].form == Form::Delta && chunk.form != Form::Delta {
                *known = number;
            }
        }
    }
    let mut numbers: Vec<usize> = best.into_values().collect();
    numbers.sort_unstable();
    numbers
}

/// The containers that exist, with their lengths. Sorted by name, which takes half of the memory of
/// a map.
#[derive(Debug, Default)]
pub(crate) struct ContainerLens(Vec<((Class, PartName), u64)>);

impl ContainerLens {
    /// Returns the length of a container, if it exists.
    pub(crate) fn get(&self, name: &(Class, PartName)) -> Option<&u64> {
        let place = self.0.binary_search_by_key(name, |(name, _)| *name).ok()?;
        self.0.get(place).map(|(_, len)| len)
    }

    /// Returns `true` if a container exists.
    pub(crate) fn contains_key(&self, name: &(Class, PartName)) -> bool {
        self.get(name).is_some()
    }

    /// Returns the names and lengths of the containers, sorted by name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&(Class, PartName), &u64)> {
        self.0.iter().map(|(name, len)| (name, len))
    }

    /// Returns the names of the containers, sorted.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &(Class, PartName)> {
        self.0.iter().map(|(name, _)| name)
    }

    /// Removes the containers for which `is_kept` returns `false`.
    pub(crate) fn retain(&mut self, is_kept: impl Fn(&(Class, PartName)) -> bool) {
        self.0.retain(|(name, _)| is_kept(name));
    }
}

impl FromIterator<((Class, PartName), u64)> for ContainerLens {
    fn from_iter<I: IntoIterator<Item = ((Class, PartName), u64)>>(lens: I) -> ContainerLens {
        let mut lens = Vec::from_iter(lens);
        lens.sort_unstable();
        ContainerLens(lens)
    }
}

/// Returns the containers that exist, with their lengths.
///
/// # Errors
///
/// Returns any error of the storage.
pub(crate) fn list_containers(repository: &Repository) -> Result<ContainerLens> {
    let mut found = Vec::new();
    for kind in [ObjectKind::Data, ObjectKind::Meta] {
        repository.storage().for_each(kind.folder(), &mut |path, length| {
            if let Ok(ObjectName::Container(class, part)) = ObjectName::parse(path) {
                found.push(((class, part), length));
            }
        })?;
    }
    Ok(found.into_iter().collect())
}
