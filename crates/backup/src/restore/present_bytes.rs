//! The bytes of a file that are in the target already, and need not be fetched.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use cutpoint_repository::format::recipe::Segment;
use cutpoint_repository::thread_count;

use super::piece::{Piece, read};
use super::restore_state::{RestoreState, count};
use super::snapshot_reader::is_chunk;
use crate::platform;

/// The maximum length of a segment that is compared, in bytes. It bounds the memory, because
/// lengths come from the snapshot. The repository cuts no longer chunks.
const SEGMENT_LEN_MAX: u64 = 64 << 20;
/// The number of bytes that are compared with zeros at once.
const STEP_LEN: u64 = 1 << 20;
/// The maximum number of threads that compare a piece.
const THREADS_MAX: usize = 4;

/// The files that may have bytes of a new one.
#[derive(Debug, Default)]
pub(super) struct PresentBytes {
    /// Set if the new file itself is not empty: an earlier restore has written a part of it, it is
    /// changed in place, or it shares the bytes of the existing file.
    pub(super) in_file: bool,
    /// The existing file that is replaced.
    pub(super) existing: Option<File>,
}

/// The number of bytes of a piece that are in the target already.
#[derive(Clone, Copy, Debug, Default)]
struct Found {
    reused: u64,
    copied: u64,
}

impl PresentBytes {
    /// Returns the segments of `piece` that are not in the target. All others are in `file` now.
    pub(super) fn missing(
        &self,
        state: &RestoreState<'_>,
        file: &File,
        piece: Piece,
    ) -> io::Result<Piece> {
        if !self.in_file && self.existing.is_none() {
            return Ok(piece);
        }
        let threads = thread_count(state.options.threads).min(THREADS_MAX);
        let part_len = piece.segments.len().div_ceil(threads).max(1);
        let parts = std::thread::scope(|scope| {
            let parts = piece.segments.chunks(part_len);
            let running: Vec<_> = parts
                .map(|part| scope.spawn(move || self.missing_of_part(state, file, part)))
                .collect();
            let ended = running.into_iter().map(|part| part.join());
            ended.collect::<Result<Vec<_>, _>>()
        });
        let parts = parts.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let mut segments = Vec::new();
        for part in parts {
            let (missing, found) = part?;
            segments.extend(missing);
            count(&state.counts.reused_bytes, found.reused);
            count(&state.counts.copied_bytes, found.copied);
        }
        Ok(Piece { segments })
    }

    fn missing_of_part(
        &self,
        state: &RestoreState<'_>,
        file: &File,
        segments: &[(u64, Segment)],
    ) -> io::Result<(Vec<(u64, Segment)>, Found)> {
        let (mut missing, mut found, mut buffer) = (Vec::new(), Found::default(), Vec::new());
        for &(offset, segment) in segments {
            let length = segment.length();
            if !matches!(segment, Segment::Chunk { .. }) {
                if self.in_file {
                    make_zero(file, offset, length, &mut buffer)?;
                }
                continue;
            }
            let mut is_in = |file: &File| {
                length <= SEGMENT_LEN_MAX
                    && read(file, offset, length, &mut buffer).is_ok()
                    && is_chunk(state.reader, &segment, &buffer)
            };
            if self.in_file && is_in(file) {
                found.reused += length;
            } else if self.existing.as_ref().is_some_and(is_in) {
                file.write_all_at(&buffer, offset)?;
                found.reused += length;
                found.copied += length;
            } else {
                missing.push((offset, segment));
            }
        }
        Ok((missing, found))
    }
}

/// Makes a range of `file` read as zeros, as a hole if possible.
fn make_zero(file: &File, offset: u64, length: u64, buffer: &mut Vec<u8>) -> io::Result<()> {
    if platform::make_hole(file, offset, length) {
        return Ok(());
    }
    let mut done = 0;
    while done < length {
        let step = (length - done).min(STEP_LEN);
        read(file, offset + done, step, buffer)?;
        if buffer.iter().any(|&byte| byte != 0) {
            buffer.fill(0);
            file.write_all_at(buffer, offset + done)?;
        }
        done += step;
    }
    Ok(())
}
