//! P2 and S3: collects the chunks that snapshots reach.

use std::path::Path;

use cutpoint_storage::{Error, Kind, Result};

use super::locate::{LIVE_CHUNK_LEN, LiveSet};
use crate::format::fingerprint::{Class, Fingerprint};
use crate::format::names::TicketId;
use crate::format::recipe::Content;
use crate::read::{ChunkBytes, Reader};
use crate::snapshots::mark::{MarkSink, Marker};
use crate::util::extsort::SortedRecords;

/// Marks everything that the snapshots `roots` reach, and returns the chunks. `progress` receives
/// the number of snapshots that are done.
///
/// # Errors
///
/// Returns `Corrupt` or `Missing` if a tree or recipe cannot be read, and any error of `progress`.
pub(crate) fn mark(
    reader: &Reader,
    roots: &[(TicketId, Content)],
    folder: Option<&Path>,
    progress: &dyn Fn(u64) -> Result<()>,
) -> Result<SortedRecords<LIVE_CHUNK_LEN>> {
    let mut builder = LiveSetBuilder {
        reader,
        live_set: LiveSet::new(folder),
        snapshot: String::new(),
        done: 0,
        progress,
    };
    let mut marker = Marker::default();
    for (id, root) in roots {
        progress(builder.done)?;
        builder.snapshot = id.short();
        marker.mark(root, &mut builder)?;
        builder.done += 1;
    }
    progress(builder.done)?;
    Ok(builder.live_set.finish())
}

struct LiveSetBuilder<'a> {
    reader: &'a Reader,
    live_set: LiveSet,
    snapshot: String,
    done: u64,
    progress: &'a dyn Fn(u64) -> Result<()>,
}

impl MarkSink for LiveSetBuilder<'_> {
    fn meta(&mut self, fingerprint: &Fingerprint) -> Result<ChunkBytes> {
        (self.progress)(self.done)?;
        self.live_set.push(Class::Meta, fingerprint)?;
        self.reader.chunk(Class::Meta, fingerprint)
    }

    fn data(&mut self, fingerprint: &Fingerprint, _: u64, _: u64) -> Result<()> {
        self.live_set.push(Class::Data, fingerprint)
    }

    fn unreadable(&mut self, _: &Fingerprint, error: Error) -> Result<()> {
        Err(match error.kind() {
            Kind::Corrupt | Kind::Missing => {
                error.of(format!("snapshot {}, without which nothing is deleted", self.snapshot))
            }
            _ => error,
        })
    }
}
