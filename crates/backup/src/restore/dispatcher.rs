//! The dispatcher: sends the entries of a snapshot to the workers, large files in pieces.

use std::sync::Arc;

use cutpoint_repository::format::recipe::Segment;
use cutpoint_repository::{Content, Entry, EntryKind};

use super::existing;
use super::failure::Failure;
use super::job::{RestoreJob, Role};
use super::job_queue::JobQueue;
use super::large_file;
use super::link_names::LinkNames;
use super::piece::PIECE_SEGMENTS_MAX;
use super::place::{Occupant, Place};
use super::restore_state::RestoreState;

/// Sends everything but folders to the workers.
pub(super) struct Dispatcher<'r, 'a> {
    state: &'r RestoreState<'a>,
    jobs: JobQueue<'r>,
    names: LinkNames,
}

impl<'r, 'a> Dispatcher<'r, 'a> {
    pub(super) fn new(state: &'r RestoreState<'a>, jobs: JobQueue<'r>) -> Dispatcher<'r, 'a> {
        Dispatcher { state, jobs, names: LinkNames::default() }
    }

    /// Sends anything but a folder to the threads.
    pub(super) fn send(&mut self, place: Place, entry: Entry) {
        let role = self.names.role(&entry);
        let large =
            !matches!(role, Role::Further(_)) && large_file::is_large(self.state, &place, &entry);
        if large {
            let link = match role {
                Role::First(owner) => Some(owner),
                Role::Only | Role::Further(_) => None,
            };
            let Some((file, pieces)) = large_file::begin(self.state, place, entry, link) else {
                return;
            };
            let file = Arc::new(file);
            for piece in pieces {
                match piece {
                    Ok(piece) => {
                        if self.state.stopped() {
                            break;
                        }
                        let piece = file.missing(self.state, piece);
                        if piece.segments.is_empty() {
                            continue;
                        }
                        let segments: Vec<_> = piece.segments.iter().map(|it| it.1).collect();
                        let job = RestoreJob::Piece { file: Arc::clone(&file), piece };
                        if self.state.stopped() || !self.jobs.send(job, &segments) {
                            break;
                        }
                    }
                    Err(error) => file.fail(Failure::Snapshot(error)),
                }
                if file.failed() {
                    break;
                }
            }
            large_file::release(self.state, file);
            return;
        }
        let segments = self.segments_ahead(&place, &entry, &role);
        self.jobs.send(RestoreJob::Entry { place, entry, role }, &segments);
    }

    /// Returns the segments that a job for a file no larger than a piece will read, as far as they
    /// can be predicted.
    fn segments_ahead(&self, place: &Place, entry: &Entry, role: &Role) -> Vec<Segment> {
        let is_written = || match existing::occupant(self.state, place, entry) {
            Ok(Occupant::Nothing | Occupant::Replace) => true,
            Ok(Occupant::Same(..) | Occupant::Refused(_)) | Err(_) => false,
        };
        let is_read = self.jobs.is_planned()
            && entry.kind == EntryKind::File
            && !matches!(role, Role::Further(_))
            && is_written();
        match &entry.content {
            Content::Segments(segments) if is_read => segments.clone(),
            Content::Recipe(_) if is_read => match self.state.reader.segments(&entry.content) {
                // An error here is reported when the job reads the segments again.
                Ok(segments) => segments.map_while(Result::ok).take(PIECE_SEGMENTS_MAX).collect(),
                Err(_) => Vec::new(),
            },
            _ => Vec::new(),
        }
    }

    /// Sends the remaining jobs, and ends the queue.
    pub(super) fn end(self) {
        self.jobs.end(self.state.stopped());
    }
}
