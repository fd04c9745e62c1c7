//! The verification of restored files: they are read back and compared with the snapshot.

use std::fs::File;
use std::path::{Path, PathBuf};

use crossbeam_channel::{Receiver, Sender};
use cutpoint_repository::format::recipe::Segment;
use cutpoint_repository::{Content, Entry, EntryKind, thread_count};
use rustix::fs::{Mode, OFlags};

use super::failure::Failure;
use super::piece::{Pieces, read};
use super::place::Place;
use super::restore_state::{RestoreState, count};
use super::snapshot_reader::{SnapshotReader, is_chunk};
use super::snapshot_walk::SnapshotWalk;
use super::target_visit::{Standing, Visitor, visit};
use crate::platform;
use crate::source::folder;
use crate::source::{kind, size};

/// The maximum number of bytes of a hole that are read at once.
const ZEROS_STEP_LEN: u64 = 1 << 20;

/// The maximum length of a segment, in bytes, that is read before its chunk. It bounds the memory,
/// because lengths come from the snapshot.
const SEGMENT_LEN_MAX: u64 = 64 << 20;

/// A file to compare.
type Job = (PathBuf, Place, Entry);

/// Compares everything that `walk` finds, and that was not reported before, with the target. Each
/// difference is a problem.
pub(super) fn verify(state: &RestoreState<'_>, mut walk: SnapshotWalk<'_>) {
    let threads = thread_count(state.options.threads);
    // Bytes that are only in memory would be read back from there.
    if let Some(base) = &state.base
        && let Err(error) = platform::sync_file_system(base)
    {
        state.report(Path::new(""), &format!("cannot be written to the disk: {error}"));
    }
    let (sender, receiver) = crossbeam_channel::bounded::<Job>(threads * 4);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            let receiver: Receiver<Job> = receiver.clone();
            scope.spawn(move || {
                let mut buffer = Vec::new();
                for (path, place, entry) in receiver {
                    if !state.stopped() {
                        compare(state, &path, (&place, &entry), &mut buffer);
                    }
                }
            });
        }
        let mut verification = Verification { state, jobs: sender };
        visit(state, &mut walk, state.base.clone(), &mut verification);
    });
}

struct Verification<'r, 'a> {
    state: &'r RestoreState<'a>,
    jobs: Sender<Job>,
}

impl Visitor for Verification<'_, '_> {
    fn folder(&mut self, path: &Path, _entry: &Entry, standing: Standing) -> bool {
        if self.state.has_failed(path) {
            return false;
        }
        let problem = match standing {
            Standing::Folder => return true,
            Standing::Nothing => "missing when it was read back",
            Standing::SomethingElse => "not a folder when it was read back",
        };
        self.state.report(path, problem);
        false
    }

    fn item(&mut self, path: &Path, place: Option<Place>, entry: Entry) {
        let Some(place) = place.filter(|_| !self.state.has_failed(path)) else { return };
        let found = folder::stat(&place.handle, &entry.name);
        let problem = match &found {
            Err(error) => Some(format!("cannot be read back: {error}")),
            Ok(stat) if kind(stat) != Some(entry.kind) => {
                Some("of another kind when it was read back".to_owned())
            }
            Ok(stat) if entry.kind != EntryKind::File && !place.is_same(&entry, stat) => {
                Some("differs from the snapshot".to_owned())
            }
            Ok(_) => None,
        };
        if let Some(problem) = problem {
            self.state.report(path, &problem);
        } else if entry.kind == EntryKind::File {
            // There are receivers unless a thread has panicked, which the caller will see.
            self.jobs.send((path.to_path_buf(), place, entry)).ok();
        }
    }

    /// The restore itself has reported what cannot be read from the snapshot.
    fn problem(&mut self, path: &Path, failure: Failure) {
        if let Failure::Target(error) = failure {
            self.state.report(path, &format!("cannot be read back: {error}"));
        }
    }
}

/// Compares a file with the snapshot, and reports the first difference.
fn compare(
    state: &RestoreState<'_>,
    path: &Path,
    (place, entry): (&Place, &Entry),
    buffer: &mut Vec<u8>,
) {
    match find_difference(state, place, entry, buffer) {
        Ok(None) => {
            count(&state.counts.verified_files, 1);
            count(&state.counts.verified_bytes, entry.size);
        }
        Ok(Some(difference)) => {
            state.report(path, &format!("differs from the snapshot: {difference}"));
        }
        Err(Failure::Target(error)) => {
            state.report(path, &format!("cannot be read back: {error}"));
        }
        Err(failure) => state.fail(path, &failure),
    }
}

/// Returns the first difference between the file in the target and `entry`.
fn find_difference(
    state: &RestoreState<'_>,
    place: &Place,
    entry: &Entry,
    buffer: &mut Vec<u8>,
) -> std::result::Result<Option<String>, Failure> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(folder::without_atime(|noatime| {
        rustix::fs::openat(&place.handle, entry.name.as_slice(), flags | noatime, Mode::empty())
    })?);
    let stat = rustix::fs::fstat(&file)?;
    if kind(&stat) != Some(EntryKind::File) {
        return Ok(Some("not a file".to_owned()));
    }
    let found = size(&stat);
    if found != entry.size {
        return Ok(Some(format!("{found} bytes (expected {})", entry.size)));
    }
    // The bytes are to come from the disk.
    platform::drop_from_memory(&file);
    let at = |offset: u64| Some(format!("other bytes from byte {offset} on"));
    if let Content::Raw(bytes) = &entry.content {
        read(&file, 0, bytes.len() as u64, buffer)?;
        return Ok(first_other(buffer, bytes).and_then(at));
    }
    for piece in Pieces::open(state.reader, entry)? {
        let piece = piece?;
        for &(offset, segment) in &piece.segments {
            if state.stopped() {
                return Ok(None);
            }
            if let Some(at_byte) = other_byte(state.reader, &file, (offset, &segment), buffer)? {
                return Ok(at(at_byte));
            }
        }
    }
    Ok(None)
}

/// Returns the offset of the first byte of `file` that differs from `segment`, which begins at `offset`, or
/// `None` if all are equal.
fn other_byte(
    reader: &dyn SnapshotReader,
    file: &File,
    (offset, segment): (u64, &Segment),
    buffer: &mut Vec<u8>,
) -> std::result::Result<Option<u64>, Failure> {
    let length = segment.length();
    if let Segment::Chunk { fingerprint, offset: start, .. } = segment {
        if length <= SEGMENT_LEN_MAX {
            read(file, offset, length, buffer)?;
            if is_chunk(reader, segment, buffer) {
                return Ok(None);
            }
        }
        // A segment may be a part of a chunk, whose fingerprint says nothing about the part.
        let chunk = reader.chunk(fingerprint)?;
        let end = start.checked_add(length).and_then(|end| usize::try_from(end).ok());
        let start = usize::try_from(*start).ok();
        let range = start.zip(end).map(|(start, end)| start..end);
        let Some(part) = range.and_then(|range| chunk.get(range)) else { return Ok(Some(offset)) };
        read(file, offset, length, buffer)?;
        return Ok(first_other(buffer, part).map(|at| offset + at));
    }
    let mut done = 0;
    while done < length {
        let step = (length - done).min(ZEROS_STEP_LEN);
        read(file, offset + done, step, buffer)?;
        if let Some(at) = buffer.iter().position(|&byte| byte != 0) {
            return Ok(Some(offset + done + at as u64));
        }
        done += step;
    }
    Ok(None)
}

/// Returns the offset of the first byte in which two texts of one length differ.
fn first_other(found: &[u8], expected: &[u8]) -> Option<u64> {
    // Equal bytes are compared faster as a whole.
    let position = || found.iter().zip(expected).position(|(one, other)| one != other);
    if found == expected { None } else { Some(position().unwrap_or_default() as u64) }
}
