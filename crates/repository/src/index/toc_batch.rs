//! Tables of contents of many containers, read several requests at a time.
//!
//! The table of contents lies behind the regions, and the header, which opens it, before them. On a
//! storage with a long way, all of a small container up to the end of its table of contents is
//! therefore read by one request. That is its *front*, which has all regions as well.

use bytes::Bytes;
use cutpoint_storage::{ObjectRange, Result, Storage};

use super::container_toc::{ContainerToc, open_toc, record_of_trailer, require_inside};
use crate::crypto::{HEADER_LEN, TRAILER_LEN};
use crate::format::fingerprint::Class;
use crate::format::names::{ObjectName, PartName};
use crate::format::segment::ContainerRecord;
use crate::format::toc::Toc;
use crate::repo::refuse_longer;
use crate::repo::repository::Repository;

/// Maximum length of a front that is read by one request, in bytes. Its transfer should not take
/// longer than a request.
const FRONT_LEN_MAX: u64 = 128 * 1024;
/// Maximum number of containers in a batch.
const BATCH_COUNT_MAX: usize = 256;
/// Maximum total length of the fronts and tables of contents that are read in a batch, in bytes,
/// unless a single one is longer.
const BATCH_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// A table of contents that was read.
pub(super) struct FetchedToc {
    pub(super) toc: Toc,
    /// The first bytes of the container: at least the header.
    pub(super) header: Bytes,
    /// The front of the container, if the table of contents was read with it.
    pub(super) front: Option<Bytes>,
}

/// A batch of containers that is being gathered.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) containers: Vec<ContainerRecord>,
    bytes: u64,
}

impl Batch {
    /// Adds a container.
    pub(super) fn push(&mut self, storage: &dyn Storage, container: ContainerRecord) {
        let has_front = has_front(storage, &container);
        self.bytes += if has_front { toc_end(&container) } else { u64::from(container.toc_len) };
        self.containers.push(container);
    }

    /// Returns `true` if the batch should be read before more containers are added. On near
    /// storage, a batch has one container.
    pub(super) fn is_full(&self, storage: &dyn Storage) -> bool {
        let count_max = if is_far(storage) { BATCH_COUNT_MAX } else { 1 };
        self.containers.len() >= count_max || self.bytes >= BATCH_BYTES_MAX
    }
}

/// Returns `true` if several requests at a time are faster than one after another.
pub(super) fn is_far(storage: &dyn Storage) -> bool {
    storage.requests_ahead_max() > 0
}

/// Returns the offset at which the table of contents of a container ends.
fn toc_end(container: &ContainerRecord) -> u64 {
    u64::from(container.toc_offset) + u64::from(container.toc_len)
}

/// Returns `true` if the front of a container is read by one request.
fn has_front(storage: &dyn Storage, container: &ContainerRecord) -> bool {
    is_far(storage) && toc_end(container) <= FRONT_LEN_MAX
}

/// Reads the tables of contents of containers whose places the index knows. Each has a result of
/// its own: that of [`load_toc`](super::load_toc).
pub(super) fn fetch(
    repository: &Repository,
    containers: &[ContainerRecord],
) -> Vec<Result<FetchedToc>> {
    let storage = &**repository.storage();
    let mut ranges = Vec::new();
    let mut places = Vec::new();
    for container in containers {
        places.push(require_inside(container).map(|()| ranges.len()));
        if places.last().is_some_and(Result::is_err) {
            continue;
        }
        let name = ObjectName::Container(container.class, container.name).to_string();
        let (offset, len) = (u64::from(container.toc_offset), container.toc_len as usize);
        if has_front(storage, container) {
            let len = len + container.toc_offset as usize;
            ranges.push(ObjectRange { name, offset: 0, len });
        } else {
            ranges.push(ObjectRange { name: name.clone(), offset: 0, len: HEADER_LEN });
            ranges.push(ObjectRange { name, offset, len });
        }
    }
    let mut read = storage.get_ranges(&ranges).into_iter();
    let mut next = || read.next().unwrap_or_else(|| Ok(Bytes::new()));
    let mut fetched = Vec::new();
    for (container, place) in containers.iter().zip(places) {
        let opened = place.and_then(|_| {
            if has_front(storage, container) {
                let front = next()?;
                let part = front.get(container.toc_offset as usize..).unwrap_or_default();
                let toc = open_toc(repository, container, &front, part.to_vec())?;
                return Ok(FetchedToc { toc, header: front.clone(), front: Some(front) });
            }
            let (header, part) = (next(), next());
            let header = header?;
            let toc = open_toc(repository, container, &header, part?.to_vec())?;
            Ok(FetchedToc { toc, header, front: None })
        });
        fetched.push(opened);
    }
    fetched
}

/// Reads the tables of contents of containers of which only the names and lengths are known, and
/// calls `accept` for each, in order.
///
/// # Errors
///
/// Returns any error of `accept`. The result of a container is that of [`ContainerToc::read`].
pub(crate) fn read_unlisted(
    repository: &Repository,
    containers: &[(Class, PartName, u64)],
    mut accept: impl FnMut(Class, PartName, Result<ContainerToc>) -> Result<()>,
) -> Result<()> {
    let storage = &**repository.storage();
    if !is_far(storage) {
        for (class, part, stored_len) in containers.iter().copied() {
            accept(class, part, ContainerToc::read(repository, class, part, stored_len))?;
        }
        return Ok(());
    }
    for containers in containers.chunks(BATCH_COUNT_MAX) {
        let trailers = containers.iter().map(|(class, part, stored_len)| ObjectRange {
            name: ObjectName::Container(*class, *part).to_string(),
            offset: stored_len.saturating_sub(TRAILER_LEN as u64),
            len: TRAILER_LEN,
        });
        let trailers = storage.get_ranges(&trailers.collect::<Vec<_>>());
        let mut open = Batch::default();
        let mut waiting = Vec::new();
        for ((class, part, stored_len), trailer) in containers.iter().copied().zip(trailers) {
            let record = refuse_longer(ObjectName::Container(class, part), stored_len)
                .and_then(|()| record_of_trailer(class, part, stored_len, &trailer?));
            if let Ok(record) = &record {
                open.push(storage, *record);
            }
            waiting.push((class, part, record));
            if open.is_full(storage) {
                finish(repository, std::mem::take(&mut open), &mut waiting, &mut accept)?;
            }
        }
        finish(repository, open, &mut waiting, &mut accept)?;
    }
    Ok(())
}

/// Reads a batch, and calls `accept` for each of the `waiting` containers.
fn finish(
    repository: &Repository,
    batch: Batch,
    waiting: &mut Vec<(Class, PartName, Result<ContainerRecord>)>,
    accept: &mut impl FnMut(Class, PartName, Result<ContainerToc>) -> Result<()>,
) -> Result<()> {
    let mut fetched = fetch(repository, &batch.containers).into_iter();
    for (class, part, record) in waiting.drain(..) {
        let loaded = record.and_then(|record| match fetched.next() {
            Some(fetched) => Ok(ContainerToc::of(record, fetched?.toc)),
            None => ContainerToc::at(repository, record),
        });
        accept(class, part, loaded)?;
    }
    Ok(())
}
