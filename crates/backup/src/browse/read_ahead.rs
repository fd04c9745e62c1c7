//! Read-ahead: regions that a sequential reader will need next are decoded by other threads.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crossbeam_channel::{Sender, bounded};
use cutpoint_repository::Fingerprint;
use cutpoint_repository::format::recipe::Segment;

use super::chunks::Chunks;

/// The distance up to which regions are decoded ahead, in bytes. The reader keeps more.
const DISTANCE: u64 = 8 << 20;
/// The distance of the chunks that are read ahead, in bytes. It is the size of a region, so that one
/// chunk has each region decoded, and threads decode different ones.
const STRIDE: u64 = 2 << 20;
/// The tolerance in which a read counts as the continuation of the one before, in bytes: several
/// threads answer at once, so that reads come out of order.
const TOLERANCE: u64 = 1 << 20;
/// The maximum number of files whose readers are watched.
const FILES_MAX: usize = 256;

/// The progress of the reader of a file.
#[derive(Clone, Copy, Debug)]
struct Run {
    /// The end of the read that went farthest.
    end: u64,
    /// The offset of the next chunk that is read ahead.
    ahead: u64,
}

/// The threads that read ahead, and the readers that are watched.
#[derive(Debug)]
pub(super) struct ReadAhead {
    runs: Mutex<HashMap<u64, Run>>,
    jobs: Sender<Fingerprint>,
}

impl ReadAhead {
    /// Starts `threads` threads, which end when the value is dropped.
    pub(super) fn new(chunks: &Arc<Chunks>, threads: usize) -> ReadAhead {
        let (jobs, receiver) = bounded::<Fingerprint>(threads * 2);
        for _ in 0..threads {
            let (chunks, receiver) = (Arc::clone(chunks), receiver.clone());
            std::thread::spawn(move || {
                for fingerprint in receiver {
                    chunks.prepare(&fingerprint);
                }
            });
        }
        ReadAhead { runs: Mutex::default(), jobs }
    }

    /// Returns the end of the channel that takes chunks to decode.
    pub(super) fn jobs(&self) -> Sender<Fingerprint> {
        self.jobs.clone()
    }

    /// Notes that `start..end` of the file `node` is read, and hands what follows to the threads if
    /// the file is read in sequence. `segment_at` returns the segment at an offset, with its start.
    pub(super) fn note(
        &self,
        node: u64,
        (start, end): (u64, u64),
        size: u64,
        segment_at: impl Fn(u64) -> Option<(u64, Segment)>,
    ) {
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        let known = runs.get(&node).copied();
        let is_next = |run: &Run| start.abs_diff(run.end) <= TOLERANCE;
        let Some(mut run) = known.filter(is_next) else {
            if runs.len() >= FILES_MAX {
                runs.clear();
            }
            // A file that is read in one piece needs nothing ahead.
            if end < size {
                runs.insert(node, Run { end, ahead: end });
            }
            return;
        };
        run.end = run.end.max(end);
        run.ahead = run.ahead.max(run.end);
        let target = (run.end + DISTANCE).min(size);
        while run.ahead < target {
            if let Some((_, Segment::Chunk { fingerprint, .. })) = segment_at(run.ahead)
                && self.jobs.try_send(fingerprint).is_err()
            {
                break;
            }
            run.ahead += STRIDE;
        }
        if run.end >= size {
            runs.remove(&node);
        } else {
            runs.insert(node, run);
        }
    }
}
