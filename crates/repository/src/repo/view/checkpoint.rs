//! The view checkpoint: the objects `views/<p>-<v>`, which hold the stored bytes of many commits
//! and prune records, so that a client without a cache need not request each of them.
//!
//! A prune puts it. The listing of the storage determines which objects exist; an object of the
//! checkpoint that is not listed does not count, and only proves that it existed. Each object is
//! opened and verified under its own name. A part that is missing, damaged or of another repository
//! is ignored, which costs requests.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use cutpoint_storage::{ObjectKind, Result};

use crate::crypto::claimed_view_name;
use crate::format::commit::Commit;
use crate::format::names::{ObjectName, TicketId};
use crate::format::prune::Prune;
use crate::format::view_part::ViewPart;
use crate::repo::repository::Repository;

/// Minimum number of objects to request for which a part is read instead.
const MISSING_COUNT_MIN: usize = 64;
/// The length of a part, in bytes, that is worth one request for a single object.
const REQUEST_BYTES: u64 = 64 << 10;

/// Objects that existed when a checkpoint was made, whether or not they still exist.
#[derive(Clone, Debug, Default)]
pub(crate) struct Attested {
    /// Commits that were not listed when the checkpoint was read.
    pub(super) commits: BTreeSet<TicketId>,
    /// The highest number of a prune record.
    pub(super) prune: u64,
}

impl Attested {
    /// Adds what `other` attests.
    pub(super) fn extend(&mut self, other: &Attested) {
        self.commits.extend(&other.commits);
        self.prune = self.prune.max(other.prune);
    }
}

/// The parts that a listing of `views/` shows, by position, each with its version and length.
#[derive(Clone, Debug, Default)]
pub(crate) struct PartListing(BTreeMap<u32, BTreeMap<u32, u64>>);

impl PartListing {
    /// Lists the parts of the storage.
    ///
    /// # Errors
    ///
    /// Returns any error of the storage.
    pub(crate) fn of_storage(repository: &Repository) -> Result<PartListing> {
        Ok(repository.list_objects(ObjectKind::View)?.into_iter().collect())
    }

    /// Returns the newest version of each part and its length, highest position first.
    pub(crate) fn current(&self) -> impl Iterator<Item = (ObjectName, u64)> {
        self.0.iter().rev().filter_map(|(&position, versions)| {
            let (&version, &len) = versions.last_key_value()?;
            Some((ObjectName::View { position, version }, len))
        })
    }

    /// Returns the parts of which there is a newer version.
    pub(crate) fn superseded(&self) -> impl Iterator<Item = ObjectName> {
        self.0.iter().flat_map(|(&position, versions)| {
            let old = versions.keys().rev().skip(1);
            old.map(move |&version| ObjectName::View { position, version })
        })
    }
}

impl FromIterator<(ObjectName, u64)> for PartListing {
    fn from_iter<I: IntoIterator<Item = (ObjectName, u64)>>(listed: I) -> PartListing {
        let mut parts = PartListing::default();
        for (name, len) in listed {
            if let ObjectName::View { position, version } = name {
                parts.0.entry(position).or_default().insert(version, len);
            }
        }
        parts
    }
}

/// Reads a part from the view cache or from the storage, and keeps it in the cache.
///
/// # Errors
///
/// Returns any error of reading, opening and decoding the part.
pub(crate) fn read_part(repository: &Repository, name: ObjectName, len: u64) -> Result<ViewPart> {
    if let Some(part) = cached_part(repository, name, len) {
        return Ok(part);
    }
    let len_max = len.min(name.kind().len_max());
    let bytes = repository.storage().get_at_most(&name.to_string(), len_max)?;
    let part = open_part(repository, name, &bytes)?;
    repository.view_cache().keep_part(name, &bytes);
    Ok(part)
}

/// Reads a part from the view cache; `None` if there is no file that opens.
fn cached_part(repository: &Repository, name: ObjectName, len: u64) -> Option<ViewPart> {
    let bytes = repository.view_cache().bytes(name, len)?;
    open_part(repository, name, &bytes).ok()
}

fn open_part(repository: &Repository, name: ObjectName, bytes: &Bytes) -> Result<ViewPart> {
    let decode = |body: Vec<u8>| ViewPart::decode(&Bytes::from(body));
    repository.open_owned(name, bytes, decode)
}

/// The reading of the checkpoint for one listing.
pub(super) struct CheckpointReader<'a> {
    repository: &'a Repository,
    /// The commits that the storage has listed, sorted.
    listed: &'a [(ObjectName, u64)],
    /// The parts that were read.
    read: BTreeSet<ObjectName>,
    /// The prune records that the parts have, each with its stored length.
    records: BTreeMap<u64, (u64, Arc<Prune>)>,
    pub(super) attested: Attested,
}

/// The objects that are still to be read, sorted, with their listed lengths.
pub(super) type Wanted = Vec<(ObjectName, u64)>;

impl<'a> CheckpointReader<'a> {
    /// Creates a reader for a listing of commits, which must be sorted.
    pub(super) fn new(
        repository: &'a Repository,
        listed: &'a [(ObjectName, u64)],
    ) -> CheckpointReader<'a> {
        let (read, records) = (BTreeSet::new(), BTreeMap::new());
        CheckpointReader { repository, listed, read, records, attested: Attested::default() }
    }

    /// Returns the repository whose checkpoint is read.
    pub(super) fn repository(&self) -> &'a Repository {
        self.repository
    }

    /// Returns `true` if anything was read from the checkpoint.
    pub(super) fn has_read(&self) -> bool {
        !self.read.is_empty()
    }

    /// Takes `wanted` commits out of the parts in the view cache, and then out of those of the
    /// storage, as long as that saves requests. What is found is removed from `wanted`.
    pub(super) fn take_commits(
        &mut self,
        wanted: &mut Wanted,
        mut take: impl FnMut(TicketId, u32, Commit),
    ) {
        let cache = self.repository.view_cache();
        if !cache.reads_checkpoint() || wanted.len() < MISSING_COUNT_MIN {
            return;
        }
        for (name, len) in cache.parts().current() {
            if wanted.len() < MISSING_COUNT_MIN {
                return;
            }
            match cached_part(self.repository, name, len) {
                Some(part) => self.take_part(name, &part, wanted, &mut take),
                None => cache.remove(name),
            }
        }
        if wanted.len() < MISSING_COUNT_MIN {
            return;
        }
        // Nothing depends on the checkpoint. A storage that fails is reported by what follows.
        let Ok(parts) = PartListing::of_storage(self.repository) else { return };
        for (name, len) in parts.current() {
            let is_worth = |len: u64| wanted.len() as u64 * REQUEST_BYTES >= len;
            if wanted.len() < MISSING_COUNT_MIN || !is_worth(len) {
                return;
            }
            if !self.read.contains(&name)
                && let Ok(part) = read_part(self.repository, name, len)
            {
                self.take_part(name, &part, wanted, &mut take);
            }
        }
    }

    fn take_part(
        &mut self,
        name: ObjectName,
        part: &ViewPart,
        wanted: &mut Wanted,
        take: &mut impl FnMut(TicketId, u32, Commit),
    ) {
        self.read.insert(name);
        let mut is_found = vec![false; wanted.len()];
        for object in &part.objects {
            match claimed_view_name(object) {
                Some(name @ ObjectName::Commit(ticket)) => {
                    let Ok(at) = wanted.binary_search_by_key(&name, |(name, _)| *name) else {
                        self.attest(name, object);
                        continue;
                    };
                    // An object of another length than the stored one is not that object.
                    if is_found[at] || wanted[at].1 != object.len() as u64 {
                        continue;
                    }
                    let read = self.repository.open_bytes(name, object, Commit::decode);
                    if let Ok((epoch, commit)) = read {
                        is_found[at] = true;
                        take(ticket, epoch, commit);
                    }
                }
                Some(name @ ObjectName::Prune(number)) => {
                    let read = self.repository.open_bytes(name, object, Prune::decode);
                    if let Ok((_, prune)) = read {
                        let record = (object.len() as u64, Arc::new(prune));
                        self.records.entry(number).or_insert(record);
                        self.attested.prune = self.attested.prune.max(number);
                    }
                }
                _ => {}
            }
        }
        let mut is_found = is_found.into_iter();
        wanted.retain(|_| !is_found.next().unwrap_or_default());
    }

    /// Notes that a commit existed, if it is not listed and the object opens.
    fn attest(&mut self, name: ObjectName, object: &Bytes) {
        let is_listed = self.listed.binary_search_by_key(&name, |(name, _)| *name).is_ok();
        if let ObjectName::Commit(ticket) = name
            && !is_listed
            && self.repository.open_bytes(name, object, Commit::decode).is_ok()
        {
            self.attested.commits.insert(ticket);
        }
    }

    /// Reads every part of the storage, for what it attests.
    ///
    /// # Errors
    ///
    /// Returns any error of listing the parts. Parts that cannot be read attest nothing.
    pub(super) fn attest_all(mut self) -> Result<Attested> {
        for (name, len) in PartListing::of_storage(self.repository)?.current() {
            if let Ok(part) = read_part(self.repository, name, len) {
                self.take_part(name, &part, &mut Wanted::new(), &mut |_, _, _| {});
            }
        }
        Ok(self.attested)
    }

    /// Returns the prune record of this number if a part has it with the listed length.
    pub(super) fn record(&self, number: u64, len: u64) -> Option<Arc<Prune>> {
        let (stored_len, prune) = self.records.get(&number)?;
        (*stored_len == len).then(|| prune.clone())
    }
}
