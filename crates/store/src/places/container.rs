//! Containers, and what of them stays.

use std::collections::{BTreeSet, HashMap};

use super::need::Need;
use crate::error::{Error, Result};
use crate::fingerprint::{Class, Fingerprint};
use crate::format::directory::{ChunkRecord, Directory, Form};
use crate::format::segment::ContainerRecord;
use crate::name::{ObjectKind, ObjectName, PartName};
use crate::repository::Repository;

/// A container that something names.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Container {
    /// Where and what it is.
    pub(crate) record: ContainerRecord,
    /// Whether it exists, with the length that it should have.
    pub(crate) is_there: bool,
    /// Whether a prune of the view has condemned it.
    pub(crate) is_condemned: bool,
    /// How many hints lead to it, each counted once.
    pub(crate) hint_count: u32,
    /// Their sum, without what overflows.
    pub(crate) hint_sum: u64,
    /// How many chunks of it stay because they are needed.
    pub(crate) kept_count: u32,
    /// How many of these only because composites refer to them.
    pub(crate) pinned_count: u32,
}

impl Container {
    /// Whether chunks may be said to stay in it.
    pub(crate) fn is_usable(&self) -> bool {
        self.is_there && !self.is_condemned
    }

    /// Whether the hints that lead to it are those of what its directory has. Where they are not, the
    /// chunk of a hint that is missing may be needed, and found nowhere else.
    ///
    /// # Errors
    ///
    /// `Corrupt`, naming the container.
    pub(crate) fn require_hints(&self, directory: &Directory) -> Result<()> {
        let chunks = directory.chunks.iter();
        let hints: BTreeSet<u64> = chunks.map(|chunk| chunk.fingerprint.hint()).collect();
        let sum = hints.iter().fold(0_u64, |sum, hint| sum.wrapping_add(*hint));
        if hints.len() as u64 == u64::from(self.hint_count) && sum == self.hint_sum {
            return Ok(());
        }
        let (class, part) = self.name();
        Err(Error::corrupt(
            ObjectName::Container(class, part),
            "has other chunks than the index says; `cutpoint repair index` makes that anew",
        ))
    }

    /// Its class and name.
    pub(crate) fn name(&self) -> (Class, PartName) {
        (self.record.class, self.record.name)
    }
}

/// The chunks that stay in one container.
pub(crate) type KeptChunks = HashMap<Fingerprint, Need>;

/// The records that stay in a container, in the order in which they lie: of each chunk that is `kept`
/// one, a whole if there is any. Of a chunk that it does not have as it is needed there is none.
pub(crate) fn staying<'a>(directory: &'a Directory, kept: &KeptChunks) -> Vec<&'a ChunkRecord> {
    let numbers = staying_numbers(directory, kept).into_iter();
    numbers.map(|number| &directory.chunks[number]).collect()
}

/// The numbers of what is [`staying`].
pub(crate) fn staying_numbers(directory: &Directory, kept: &KeptChunks) -> Vec<usize> {
    let mut best: HashMap<Fingerprint, usize> = HashMap::with_capacity(kept.len());
    for (number, chunk) in directory.chunks.iter().enumerate() {
        if kept.get(&chunk.fingerprint).is_some_and(|need| need.is_met_by(chunk.form)) {
            let known = best.entry(chunk.fingerprint).or_insert(number);
            if directory.chunks[*known].form == Form::Composite && chunk.form != Form::Composite {
                *known = number;
            }
        }
    }
    let mut numbers: Vec<usize> = best.into_values().collect();
    numbers.sort_unstable();
    numbers
}

/// The containers that exist, with their lengths.
///
/// # Errors
///
/// As the medium.
pub(crate) fn list_containers(repository: &Repository) -> Result<HashMap<(Class, PartName), u64>> {
    let mut found = HashMap::new();
    for kind in [ObjectKind::Data, ObjectKind::Meta] {
        for (path, length) in repository.media().list(kind.folder())? {
            if let Ok(ObjectName::Container(class, part)) = ObjectName::parse(&path) {
                found.insert((class, part), length);
            }
        }
    }
    Ok(found)
}
