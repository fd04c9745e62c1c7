//! The table of contents of one container: reading it, and searching it for chunks.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use cutpoint_storage::{Error, Result};

use crate::crypto::{HEADER_LEN, Opener, PartKind, TRAILER_LEN, Trailer};
use crate::format::fingerprint::{Class, Fingerprint};
use crate::format::names::{ObjectName, PartName};
use crate::format::segment::{ContainerRecord, Segment};
use crate::format::toc::Toc;
use crate::repo::refuse_longer;
use crate::repo::repository::Repository;

/// The opened table of contents of a container, and the place of the container.
#[derive(Debug)]
pub struct ContainerToc {
    /// The record of the container.
    pub container: ContainerRecord,
    /// The contents of the container.
    pub toc: Toc,
    /// The header by which the contents were opened, if they were read ahead. It opens the regions, too.
    pub(super) header: Option<[u8; HEADER_LEN]>,
    /// The numbers of the chunks sorted by fingerprint, created if the table of contents is
    /// searched often.
    sorted: OnceLock<Vec<u32>>,
    lookup_count: AtomicU32,
}

/// Maximum number of linear searches of a table of contents; more of them would take longer than
/// sorting it.
const UNSORTED_LOOKUPS_MAX: u32 = 8;

impl ContainerToc {
    /// Reads the table of contents of a container of `stored_len` bytes.
    ///
    /// # Errors
    ///
    /// Returns a `Missing` or `Corrupt` error that names the container.
    pub(crate) fn read(
        repository: &Repository,
        class: Class,
        part: PartName,
        stored_len: u64,
    ) -> Result<ContainerToc> {
        ContainerToc::at(repository, read_record(repository, class, part, stored_len)?)
    }

    /// Reads the table of contents of a container whose place the index knows.
    ///
    /// # Errors
    ///
    /// Returns any error of [`ContainerToc::read`].
    pub(crate) fn at(repository: &Repository, container: ContainerRecord) -> Result<ContainerToc> {
        Ok(ContainerToc::of(container, load_toc(repository, &container)?))
    }

    /// Creates the table of contents `toc`, which tells whether `container` has delta chunks.
    pub(super) fn of(container: ContainerRecord, toc: Toc) -> ContainerToc {
        let has_delta_chunks = toc.has_delta_chunks();
        ContainerToc::new(ContainerRecord { has_delta_chunks, ..container }, toc)
    }

    pub(super) fn new(container: ContainerRecord, toc: Toc) -> ContainerToc {
        let (sorted, lookup_count) = (OnceLock::new(), AtomicU32::new(0));
        ContainerToc { container, toc, header: None, sorted, lookup_count }
    }

    /// Adds the header of the container, the first bytes of `front`.
    pub(super) fn with_header(self, front: &[u8]) -> ContainerToc {
        ContainerToc { header: front.first_chunk().copied(), ..self }
    }

    /// Returns the numbers of the records of a chunk, in the order of the table of contents.
    pub(super) fn records(&self, fingerprint: &Fingerprint) -> Vec<usize> {
        let chunks = &self.toc.chunks;
        if self.sorted.get().is_none()
            && self.lookup_count.fetch_add(1, Ordering::Relaxed) < UNSORTED_LOOKUPS_MAX
        {
            let found = chunks.iter().enumerate();
            let found = found.filter(|(_, chunk)| chunk.fingerprint == *fingerprint);
            return found.map(|(number, _)| number).collect();
        }
        let sorted = self.sorted.get_or_init(|| {
            let mut numbers: Vec<u32> = (0..).take(chunks.len()).collect();
            numbers.sort_by_key(|number| chunks[*number as usize].fingerprint);
            numbers
        });
        let numbers = sorted.iter().map(|number| *number as usize);
        let start = sorted.partition_point(|at| chunks[*at as usize].fingerprint < *fingerprint);
        let found = numbers.skip(start);
        found.take_while(|number| chunks[*number].fingerprint == *fingerprint).collect()
    }

    /// Returns the index segment of this container.
    pub(crate) fn segment(&self) -> Segment {
        let chunks = self.toc.chunks.iter();
        let hints = chunks.map(|chunk| (chunk.fingerprint.hint(), 0)).collect();
        Segment { containers: vec![self.container], hints, ..Segment::default() }
    }
}

/// Returns the index record of a container of `stored_len` bytes, as far as its trailer tells. The
/// trailer does not tell whether the container has delta chunks.
///
/// # Errors
///
/// Returns a `Missing` or `Corrupt` error that names the container.
pub(crate) fn read_record(
    repository: &Repository,
    class: Class,
    part: PartName,
    stored_len: u64,
) -> Result<ContainerRecord> {
    let name = ObjectName::Container(class, part);
    refuse_longer(name, stored_len)?;
    let offset = stored_len.saturating_sub(TRAILER_LEN as u64);
    let bytes = repository.storage().get_range(&name.to_string(), offset, TRAILER_LEN)?;
    record_of_trailer(class, part, stored_len, &bytes)
}

/// Returns the index record of a container of `stored_len` bytes that ends with `bytes`.
///
/// # Errors
///
/// Returns a `Corrupt` error that names the container.
pub(super) fn record_of_trailer(
    class: Class,
    part: PartName,
    stored_len: u64,
    bytes: &[u8],
) -> Result<ContainerRecord> {
    let name = ObjectName::Container(class, part);
    let trailer = Trailer::decode(&name, bytes, stored_len)?;
    let number = |number: u64| {
        u32::try_from(number).map_err(|_| Error::corrupt(name, format!("{number} is too large")))
    };
    Ok(ContainerRecord {
        name: part,
        class,
        has_delta_chunks: false,
        stored_len: number(stored_len)?,
        toc_offset: number(trailer.offset)?,
        toc_len: trailer.length,
    })
}

/// Reads and opens the table of contents of a container.
///
/// # Errors
///
/// Returns a `Missing` or `Corrupt` error that names the container.
pub fn load_toc(repository: &Repository, container: &ContainerRecord) -> Result<Toc> {
    let name = ObjectName::Container(container.class, container.name);
    let path = name.to_string();
    let storage = repository.storage();
    let header = storage.get_range(&path, 0, HEADER_LEN)?;
    require_inside(container)?;
    let (offset, len) = (u64::from(container.toc_offset), container.toc_len as usize);
    let part = storage.get_range(&path, offset, len)?;
    open_toc(repository, container, &header, part.to_vec())
}

/// Checks that a table of contents ends inside of its container.
///
/// # Errors
///
/// Returns a `Corrupt` error that names the container.
pub(super) fn require_inside(container: &ContainerRecord) -> Result<()> {
    let end = u64::from(container.toc_offset) + u64::from(container.toc_len);
    if end <= u64::from(container.stored_len) {
        return Ok(());
    }
    Err(Error::corrupt(
        ObjectName::Container(container.class, container.name),
        "the index lists a table of contents beyond the end of its container",
    ))
}

/// Opens the table of contents `part` of a container that begins with `header`.
///
/// # Errors
///
/// Returns a `Corrupt` error that names the container.
pub(super) fn open_toc(
    repository: &Repository,
    container: &ContainerRecord,
    header: &[u8],
    mut part: Vec<u8>,
) -> Result<Toc> {
    let name = ObjectName::Container(container.class, container.name);
    let opener = Opener::new(repository.keys(), name, header)?;
    opener.open(PartKind::Toc, &mut part)?;
    Toc::decode(&part, u64::from(container.toc_offset)).map_err(|error| error.of(name))
}
