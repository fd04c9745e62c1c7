//! Saves a stream as one file of the root folder.

use std::ffi::OsStr;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use cutpoint_repository::Entry;
use cutpoint_storage::{Error, Kind};

use super::batch::Event;
use super::batch_filler::interrupted;
use super::comparison::{Comparison, warn_not_compared};
use super::cutter::{CutEnd, Cutter};
use super::monitor::BackupMonitor;
use super::run_state::RunState;
use super::shutdown::Result;
use super::source_counts::SourceCounts;

/// The part of a stream that earlier attempts of a backup have read, because a stream cannot be
/// read twice.
#[derive(Debug, Default)]
pub(super) struct StreamState {
    /// The number of bytes in the checkpoint.
    size: u64,
    /// The bytes read after these, which are in no chunk yet.
    tail: Vec<u8>,
}

/// Turns a stream into events.
pub(super) struct StreamSaver<'r, 'a> {
    pub(super) comparison: Comparison<'a>,
    pub(super) cutter: &'r mut Cutter<'a>,
    pub(super) monitor: &'a dyn BackupMonitor,
    pub(super) state: &'a RunState,
}

impl StreamSaver<'_, '_> {
    /// Saves the stream `reader` as the file `entry`. Continues after the bytes of `begun`, and
    /// records the new state there if the ticket becomes old.
    pub(super) fn save(
        mut self,
        entry: Entry,
        reader: &mut dyn Read,
        begun: &mut StreamState,
    ) -> Result<SourceCounts> {
        let mut counts = SourceCounts::default();
        self.state.add_read_file();
        let path = PathBuf::from(OsStr::from_bytes(&entry.name));
        self.monitor.reading(&path);
        let before = match self.comparison.entry_in_root(&entry.name) {
            // The previous version would only have made the new one smaller.
            Err(error) if begun.size == 0 => {
                warn_not_compared(self.monitor, &path, &error);
                None
            }
            before => before?,
        };
        self.cutter.begin_file(before.as_ref())?;
        if begun.size > 0 {
            self.copy_checkpoint(before.as_ref(), begun.size)?;
        }
        let (monitor, state) = (self.monitor, self.state);
        let read = |buffer: &mut [u8]| {
            let mut filled = 0;
            // Buffers are filled completely, because cut-points must not depend on the portions of
            // a pipe.
            while filled < buffer.len() && !state.is_old() && !state.shutdown.is_over() {
                match reader.read(&mut buffer[filled..]) {
                    Ok(0) => return Ok((filled, false)),
                    Ok(count) => filled += count,
                    Err(error) if is_patient(&error) && !monitor.cancelled() => {}
                    Err(error) => return Err(error),
                }
            }
            Ok((filled, true))
        };
        // A stream that breaks off must not become a snapshot that looks complete.
        let tail = std::mem::take(&mut begun.tail);
        let end = self.cutter.cut(&tail, read, |_| true)?.map_err(|error| {
            if is_patient(&error) {
                return interrupted();
            }
            Error::new(Kind::Invalid, "standard input", error.to_string())
        })?;
        match end {
            CutEnd::End | CutEnd::Short | CutEnd::Stopped => {
                self.cutter.batches.push(Event::File(Box::new(entry)))?;
            }
            CutEnd::TicketOld(tail) => {
                *begun = StreamState { size: self.cutter.covered_len(), tail };
                counts.partial = true;
                self.cutter.end_part(entry)?;
            }
        }
        Ok(counts)
    }

    /// Begins the file with the `size` bytes of the stream that the checkpoint has in `before`.
    fn copy_checkpoint(&mut self, before: Option<&Entry>, size: u64) -> Result<()> {
        if let (Some(before), Some(reader)) = (before, self.comparison.reader())
            && self.cutter.copy_segments(reader, &before.content, size)?
        {
            return Ok(());
        }
        let message = "the checkpoint lacks data that was read before";
        Err(Error::corrupt("standard input", message).into())
    }
}

/// Returns `true` if the stream has no bytes at the moment.
pub(super) fn is_patient(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut};
    matches!(error.kind(), Interrupted | TimedOut)
}
