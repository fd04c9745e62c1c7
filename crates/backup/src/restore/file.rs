//! The contents of files.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::FileExt;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, PoisonError};

use cutpoint_repository::format::recipe::Segment;
use cutpoint_repository::{Content, Entry};
use cutpoint_storage::{Error, Result};
use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;

use super::failure::Failure;
use super::links::{FirstName, LinkOwner};
use super::options::PIECE_LEN;
use super::place::{EXISTS, Occupant, Place};
use super::restore_state::{RestoreState, count, count_replaced};
use super::snapshot_reader::SnapshotReader;
use crate::source::folder::Identity;

/// The maximum number of segments in a piece, however short they are.
pub(super) const PIECE_SEGMENTS_MAX: usize = 8192;

/// The approximate number of bytes in which large files are written. Bytes decoded a moment ago are
/// still in the cache then, and nothing larger is gathered.
const STEP_LEN: usize = 1 << 20;

/// The mode of a file until its metadata is set: accessible to its owner only.
const MODE_AT_FIRST: Mode = Mode::RUSR.union(Mode::WUSR);

/// A run of segments of a file.
#[derive(Debug)]
pub(super) struct Piece {
    /// The offset of the first segment, in bytes from the start of the file.
    pub(super) offset: u64,
    pub(super) segments: Vec<Segment>,
}

/// An iterator over the segments of a file, in pieces.
pub(super) struct Pieces<'a> {
    segments: Box<dyn Iterator<Item = Result<Segment>> + 'a>,
    offset: u64,
    size: u64,
    ended: bool,
}

impl<'a> Pieces<'a> {
    /// Begins with the content of the file `entry`. For `Raw`, there are no pieces.
    pub(super) fn open(reader: &'a dyn SnapshotReader, entry: &Entry) -> Result<Pieces<'a>> {
        let segments: Box<dyn Iterator<Item = Result<Segment>> + 'a> = match &entry.content {
            Content::Segments(segments) => Box::new(segments.clone().into_iter().map(Ok)),
            Content::Recipe(_) => reader.segments(&entry.content)?,
            Content::Empty | Content::Raw(_) => Box::new(std::iter::empty()),
        };
        Ok(Pieces { segments, offset: 0, size: entry.size, ended: false })
    }

    fn read(&mut self) -> Result<Option<Piece>> {
        let mut piece = Piece { offset: self.offset, segments: Vec::new() };
        let mut data_len = 0;
        while data_len < PIECE_LEN && piece.segments.len() < PIECE_SEGMENTS_MAX {
            let Some(segment) = self.segments.next() else {
                self.ended = true;
                break;
            };
            let segment = segment?;
            let length = segment.length();
            let end = self.offset.checked_add(length).filter(|&end| end <= self.size);
            self.offset = match end {
                Some(end) if length > 0 => end,
                _ => return Err(wrong_size(self.size, "other")),
            };
            if matches!(segment, Segment::Chunk { .. }) {
                data_len += length;
            }
            piece.segments.push(segment);
        }
        if self.ended && self.offset != self.size {
            return Err(wrong_size(self.size, "fewer"));
        }
        Ok((!piece.segments.is_empty()).then_some(piece))
    }
}

fn wrong_size(size: u64, what: &str) -> Error {
    Error::corrupt("", format!("the file has {size} bytes, but its recipe has {what}"))
}

impl Iterator for Pieces<'_> {
    type Item = Result<Piece>;

    fn next(&mut self) -> Option<Result<Piece>> {
        if self.ended {
            return None;
        }
        let piece = self.read().transpose();
        self.ended |= !matches!(piece, Some(Ok(_)));
        piece
    }
}

/// The bytes of a piece and their offsets in the file. Reused from piece to piece.
#[derive(Debug, Default)]
pub(super) struct Buffer {
    bytes: Vec<u8>,
    /// Offsets in the file and lengths. Adjacent spans are merged.
    spans: Vec<(u64, usize)>,
}

impl Buffer {
    /// Empties the buffer.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.spans.clear();
    }

    /// Appends `bytes`, which belong at `offset` of the file.
    pub(super) fn push(&mut self, offset: u64, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        match self.spans.last_mut() {
            Some((start, len)) if *start + *len as u64 == offset => *len += bytes.len(),
            _ => self.spans.push((offset, bytes.len())),
        }
    }

    /// Appends the bytes of `piece`, without holes and zeros. Calls `write` whenever [`STEP_LEN`]
    /// bytes are gathered; the function is to write the buffer and to clear it.
    fn fill(
        &mut self,
        reader: &dyn SnapshotReader,
        piece: &Piece,
        mut write: impl FnMut(&mut Buffer),
    ) -> Result<()> {
        let mut offset = piece.offset;
        for segment in &piece.segments {
            if let Segment::Chunk { fingerprint, offset: start, length } = segment {
                let chunk = reader.chunk(fingerprint)?;
                let end = start.checked_add(*length);
                let range = end.and_then(|end| {
                    Some(usize::try_from(*start).ok()?..usize::try_from(end).ok()?)
                });
                let bytes = range.and_then(|range| chunk.get(range)).ok_or_else(|| {
                    let message = format!(
                        "has {} bytes (expected {length} bytes at offset {start})",
                        chunk.len()
                    );
                    Error::corrupt(format!("chunk {fingerprint}"), message)
                })?;
                self.push(offset, bytes);
                if self.bytes.len() >= STEP_LEN {
                    write(self);
                }
            }
            offset += segment.length();
        }
        Ok(())
    }

    /// Writes all spans at their offsets.
    fn write(&self, file: &File) -> std::io::Result<()> {
        let mut bytes = self.bytes.as_slice();
        for &(offset, len) in &self.spans {
            let (now, rest) = bytes.split_at(len);
            file.write_all_at(now, offset)?;
            bytes = rest;
        }
        Ok(())
    }

    /// Returns `true` if the last span ends at `size`, so that writing the buffer gives the file
    /// this size.
    fn reaches(&self, size: u64) -> bool {
        self.spans.last().map_or(0, |&(offset, len)| offset + len as u64) == size
    }
}

/// The present name of a file that is not complete yet.
#[derive(Debug)]
enum Name {
    /// The final name.
    Own,
    /// A temporary name, because the file that has the final name stays until this one is complete.
    Spare(Vec<u8>),
    /// No name.
    Nameless,
}

/// A file in the target that is not complete yet.
#[derive(Debug)]
pub(super) struct NewFile {
    pub(super) place: Place,
    pub(super) entry: Entry,
    file: File,
    identity: Identity,
    /// The existing entry in the place of the file.
    occupant: Occupant,
    name: Name,
    failure: Mutex<Option<Failure>>,
    link: Option<LinkOwner>,
    data_len: AtomicU64,
}

impl NewFile {
    /// Creates the file of `entry`. A large file has no name at first if the file system supports
    /// that.
    pub(super) fn create(
        state: &RestoreState<'_>,
        place: Place,
        entry: Entry,
        occupant: Occupant,
        link: Option<LinkOwner>,
    ) -> std::result::Result<NewFile, Box<(Place, Entry, Failure)>> {
        match NewFile::open(state, &place, &entry, &occupant) {
            Ok((file, identity, name)) => Ok(NewFile {
                place,
                entry,
                file,
                identity,
                occupant,
                name,
                failure: Mutex::new(None),
                link,
                data_len: AtomicU64::new(0),
            }),
            Err(failure) => Err(Box::new((place, entry, failure))),
        }
    }

    fn open(
        state: &RestoreState<'_>,
        place: &Place,
        entry: &Entry,
        occupant: &Occupant,
    ) -> std::result::Result<(File, Identity, Name), Failure> {
        let nameless = if entry.size > PIECE_LEN && state.nameless.load(Relaxed) {
            let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
            match rustix::fs::openat(&place.handle, ".", flags, MODE_AT_FIRST) {
                Ok(fd) => Some(fd),
                Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::NOENT | Errno::INVAL) => {
                    state.nameless.store(false, Relaxed);
                    None
                }
                Err(error) => return Err(error.into()),
            }
        } else {
            None
        };
        let create = |name: &[u8]| {
            let flags =
                OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::WRONLY | OFlags::CLOEXEC;
            rustix::fs::openat(&place.handle, name, flags, MODE_AT_FIRST)
        };
        let (fd, name) = match (nameless, occupant) {
            (Some(fd), _) => (fd, Name::Nameless),
            (None, Occupant::Replace) => {
                let (spare, fd) = place.make_spare(create)?;
                (fd, Name::Spare(spare))
            }
            (None, occupant) => {
                (place.make(&entry.name, occupant, create).map_err(refused_if_exists)?, Name::Own)
            }
        };
        let identity = Identity::of(&rustix::fs::fstat(&fd)?);
        Ok((File::from(fd), identity, name))
    }

    /// Writes the contents of `buffer`.
    pub(super) fn write(&self, state: &RestoreState<'_>, buffer: &Buffer) {
        match buffer.write(&self.file) {
            Ok(()) => {
                self.data_len.fetch_add(buffer.bytes.len() as u64, Relaxed);
                state.monitor.progress(0, buffer.bytes.len() as u64);
            }
            Err(error) => self.fail(error.into()),
        }
    }

    /// Gives the file its full size, so that ranges that are not written are holes.
    pub(super) fn set_size(&self) {
        if let Err(error) = self.file.set_len(self.entry.size) {
            self.fail(error.into());
        }
    }

    /// Records that the file will not be complete. Only the first failure is kept.
    pub(super) fn fail(&self, failure: Failure) {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(failure);
    }

    pub(super) fn failed(&self) -> bool {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Fetches and writes one piece.
    pub(super) fn write_piece(&self, state: &RestoreState<'_>, piece: &Piece, buffer: &mut Buffer) {
        if self.failed() || state.stopped() {
            return;
        }
        buffer.clear();
        let filled = buffer.fill(state.reader, piece, |buffer| {
            self.write(state, buffer);
            buffer.clear();
        });
        match filled {
            Ok(()) => self.write(state, buffer),
            Err(error) => self.fail(error.into()),
        }
    }

    /// Sets the metadata and gives the file its name, or removes the file if it is not complete.
    pub(super) fn finish(mut self, state: &RestoreState<'_>) {
        let failure = self.failure.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        let stopped = state.stopped();
        let failure = failure.or_else(|| if stopped { None } else { self.complete(state).err() });
        if failure.is_some() || stopped {
            match &self.name {
                Name::Own => self.place.remove(&self.entry.name, self.identity),
                Name::Spare(spare) => self.place.remove(spare, self.identity),
                Name::Nameless => {}
            }
            if let Some(failure) = failure {
                state.fail(&self.place.path(&self.entry), &failure);
            }
        } else {
            let left_out = self.entry.size.saturating_sub(self.data_len.into_inner());
            count(&state.counts.written_files, 1);
            count_replaced(state, &self.occupant);
            count(&state.counts.written_bytes, self.entry.size);
            state.monitor.progress(1, left_out);
            if let Some(link) = self.link {
                link.done(FirstName {
                    folder: self.place.folder.path.clone(),
                    name: self.entry.name,
                    identity: self.identity,
                });
            }
        }
        state.release(self.place.folder, &self.place.handle);
    }

    fn complete(&self, state: &RestoreState<'_>) -> std::result::Result<(), Failure> {
        state.set_open(&self.file, &self.place, &self.entry);
        let own = self.entry.name.as_slice();
        match &self.name {
            Name::Own => Ok(()),
            Name::Spare(spare) => self.place.rename(spare, own).map_err(refused_if_exists),
            Name::Nameless => {
                let path = format!("/proc/self/fd/{}", self.file.as_fd().as_raw_fd());
                let link = |name: &[u8]| {
                    let folder = &self.place.handle;
                    rustix::fs::linkat(CWD, &path, folder, name, AtFlags::SYMLINK_FOLLOW)
                };
                self.place.make(own, &self.occupant, link).map_err(refused_if_exists)
            }
        }
    }
}

/// Maps an error for a taken name to a refusal.
fn refused_if_exists(error: Errno) -> Failure {
    if error == Errno::EXIST { Failure::Refused(EXISTS) } else { error.into() }
}

/// Fills `buffer` with all bytes of the file `entry`, which is no larger than a piece.
pub(super) fn gather(state: &RestoreState<'_>, entry: &Entry, buffer: &mut Buffer) -> Result<()> {
    buffer.clear();
    buffer.bytes.reserve_exact(usize::try_from(entry.size).unwrap_or(0));
    if let Content::Raw(bytes) = &entry.content {
        if bytes.len() as u64 != entry.size {
            return Err(wrong_size(entry.size, "other"));
        }
        buffer.push(0, bytes);
        return Ok(());
    }
    for piece in Pieces::open(state.reader, entry)? {
        buffer.fill(state.reader, &piece?, |_| ())?;
    }
    Ok(())
}

/// Returns `true` if writing the bytes does not give the file its size, so that the size must be
/// set separately.
pub(super) fn ends_in_hole(entry: &Entry, buffer: &Buffer) -> bool {
    !buffer.reaches(entry.size)
}
