//! The contents of files.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, PoisonError};

use cutpoint_repository::format::recipe::{Segment, range_in_chunk};
use cutpoint_repository::{Content, Entry, EntryKind};
use cutpoint_storage::Result;
use rustix::fs::{OFlags, Stat};
use rustix::io::Errno;

use super::failure::Failure;
use super::links::{FirstName, LinkOwner};
use super::options::PIECE_LEN;
use super::partial_file::{MODE_AT_FIRST, PartialFile, name_new, open_existing, open_partial};
use super::piece::{Piece, Pieces, wrong_size};
use super::place::{EXISTS, Occupant, Place};
use super::present_bytes::PresentBytes;
use super::restore_state::{RestoreState, count, count_replaced};
use super::snapshot_reader::SnapshotReader;
use crate::platform;
use crate::source::folder::{self, Identity};
use crate::source::size;

/// The approximate number of bytes in which large files are written. Bytes decoded a moment ago are
/// still in the cache then, and nothing larger is gathered.
const STEP_LEN: usize = 1 << 20;

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
        for (offset, segment) in &piece.segments {
            if let Segment::Chunk { fingerprint, offset: start, length } = segment {
                let chunk = reader.chunk(fingerprint)?;
                let range = range_in_chunk(fingerprint, chunk.len() as u64, *start, *length)?;
                self.push(*offset, &chunk[range]);
                if self.bytes.len() >= STEP_LEN {
                    write(self);
                }
            }
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
    /// The temporary name of a large file, under which a later restore finds it again.
    Partial(Vec<u8>),
    /// The final name, which is that of the existing file that is changed.
    InPlace,
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
    present: PresentBytes,
    failure: Mutex<Option<Failure>>,
    link: Option<LinkOwner>,
    data_len: AtomicU64,
}

impl NewFile {
    /// Creates the file of `entry`.
    pub(super) fn create(
        state: &RestoreState<'_>,
        place: Place,
        entry: Entry,
        occupant: Occupant,
        link: Option<LinkOwner>,
    ) -> std::result::Result<NewFile, Box<(Place, Entry, Failure)>> {
        match NewFile::open(state, &place, &entry, &occupant) {
            Ok((file, name, present)) => {
                let identity = match rustix::fs::fstat(&file) {
                    Ok(stat) => Identity::of(&stat),
                    Err(error) => return Err(Box::new((place, entry, error.into()))),
                };
                Ok(NewFile {
                    place,
                    entry,
                    file,
                    identity,
                    occupant,
                    name,
                    present,
                    failure: Mutex::new(None),
                    link,
                    data_len: AtomicU64::new(0),
                })
            }
            Err(failure) => Err(Box::new((place, entry, failure))),
        }
    }

    fn open(
        state: &RestoreState<'_>,
        place: &Place,
        entry: &Entry,
        occupant: &Occupant,
    ) -> std::result::Result<(File, Name, PresentBytes), Failure> {
        let nothing = PresentBytes::default();
        let replaces = *occupant == Occupant::Replace;
        if replaces && state.options.in_place && is_in_pieces(entry, true) {
            match open_existing(place, &entry.name, true) {
                Ok(Some(file)) => {
                    let present = PresentBytes { in_file: true, existing: None };
                    return Ok((file, Name::InPlace, present));
                }
                Ok(None) => {}
                Err(error) => {
                    let message =
                        format!("replaced, because it cannot be changed in place: {error}");
                    state.warn(&place.path(entry), &message);
                }
            }
        }
        if entry.size > PIECE_LEN
            && let Some(PartialFile { name, file, is_resumed }) = open_partial(place, &entry.name)?
        {
            let existing = match replaces {
                // A file that cannot be read gives no bytes.
                true => open_existing(place, &entry.name, false).unwrap_or(None),
                false => None,
            };
            let shares = !is_resumed
                && existing.as_ref().is_some_and(|existing| platform::clone_bytes(&file, existing));
            let existing = existing.filter(|_| !shares);
            let present = PresentBytes { in_file: is_resumed || shares, existing };
            return Ok((file, Name::Partial(name), present));
        }
        let create = |name: &[u8]| {
            let flags =
                OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::WRONLY | OFlags::CLOEXEC;
            rustix::fs::openat(&place.handle, name, flags, MODE_AT_FIRST)
        };
        // A large file gets its name once it is complete.
        if replaces || entry.size > PIECE_LEN {
            let (spare, fd) = place.make_spare(create)?;
            return Ok((File::from(fd), Name::Spare(spare), nothing));
        }
        let fd = place.make(&entry.name, occupant, create).map_err(refused_if_exists)?;
        Ok((File::from(fd), Name::Own, nothing))
    }

    /// Writes the contents of `buffer`.
    pub(super) fn write(&self, state: &RestoreState<'_>, buffer: &Buffer) {
        state.monitor.writing(&self.place.path(&self.entry));
        match buffer.write(&self.file) {
            Ok(()) => {
                self.data_len.fetch_add(buffer.bytes.len() as u64, Relaxed);
                state.monitor.progress(0, buffer.bytes.len() as u64);
            }
            Err(error) => self.fail(error.into()),
        }
    }

    /// Gives the file its full size, so that ranges that are not written are holes. A file that is
    /// changed in place is not shortened before it is complete.
    pub(super) fn set_size(&self) {
        let is_longer = |stat: Stat| size(&stat) > self.entry.size;
        if matches!(self.name, Name::InPlace) && rustix::fs::fstat(&self.file).is_ok_and(is_longer)
        {
            return;
        }
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

    /// Returns the part of `piece` that is not in the target yet.
    pub(super) fn missing(&self, state: &RestoreState<'_>, piece: Piece) -> Piece {
        let length = piece.data_len();
        match self.present.missing(state, &self.file, piece) {
            Ok(missing) => {
                let present = length - missing.data_len();
                self.data_len.fetch_add(present, Relaxed);
                state.monitor.progress(0, present);
                missing
            }
            Err(error) => {
                self.fail(error.into());
                Piece { segments: Vec::new() }
            }
        }
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
            let goes_on = stopped || failure.as_ref().is_some_and(Failure::is_full);
            match &self.name {
                Name::Own => self.place.remove(&self.entry.name, self.identity),
                // The next restore goes on with the file.
                Name::Partial(_) if goes_on => {}
                Name::Spare(spare) | Name::Partial(spare) => {
                    self.place.remove(spare, self.identity);
                }
                Name::InPlace => {
                    let message = "partly overwritten, because it is changed in place";
                    state.warn(&self.place.path(&self.entry), message);
                }
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
        if matches!(self.name, Name::InPlace) {
            self.file.set_len(self.entry.size)?;
        }
        state.set_open(&self.file, &self.place, &self.entry);
        let own = self.entry.name.as_slice();
        match &self.name {
            Name::Own => Ok(()),
            Name::InPlace => {
                self.place.folder.restored.insert(self.identity);
                Ok(())
            }
            Name::Spare(spare) | Name::Partial(spare) => {
                let stat = folder::stat(&self.place.handle, spare)?;
                if Identity::of(&stat) != self.identity {
                    return Err(Failure::Refused("its temporary file was replaced meanwhile"));
                }
                match &self.occupant {
                    Occupant::Replace => self.place.rename(spare, own),
                    occupant => {
                        self.place.make(own, occupant, |name| name_new(&self.place, spare, name))
                    }
                }
                .map_err(refused_if_exists)
            }
        }
    }
}

/// Returns `true` if the file `entry` is restored in pieces. `is_changed` says that an existing file
/// is changed in place.
pub(super) fn is_in_pieces(entry: &Entry, is_changed: bool) -> bool {
    let has_segments = matches!(entry.content, Content::Segments(_) | Content::Recipe(_));
    entry.kind == EntryKind::File && (entry.size > PIECE_LEN || is_changed && has_segments)
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
