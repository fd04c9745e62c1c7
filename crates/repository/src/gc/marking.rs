//! P2 and S3: collects the chunks that snapshots reach.

use std::path::Path;

use cutpoint_storage::{Error, Kind, Result};

use super::locate::{LIVE_CHUNK_LEN, LiveSet};
use crate::format::fingerprint::{Class, Fingerprint};
use crate::format::names::TicketId;
use crate::format::recipe::Content;
use crate::read::{ChunkBytes, ReadPlan, ReadStep, Reader};
use crate::snapshots::mark::{MarkSink, Marker};
use crate::util::extsort::SortedRecords;

/// Maximum size of the regions of trees and recipes that are fetched at once, in bytes.
const PLANNED_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Maximum number of trees and recipes that are fetched at once.
const NODES_AT_ONCE: usize = 256;
/// Maximum number of snapshots of a remote storage that are marked at once. Small snapshots lie in
/// containers of their own, so that one alone needs one request after another.
const ROOTS_AT_ONCE: usize = 256;

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
    mark_for(reader, roots, folder, progress, ", without which nothing is deleted")
}

/// Marks like [`mark`], for a caller that deletes nothing.
///
/// # Errors
///
/// Returns any error of [`mark`].
pub(super) fn mark_to_count(
    reader: &Reader,
    roots: &[(TicketId, Content)],
    folder: Option<&Path>,
    progress: &dyn Fn(u64) -> Result<()>,
) -> Result<SortedRecords<LIVE_CHUNK_LEN>> {
    mark_for(reader, roots, folder, progress, "")
}

/// Marks for a caller for which an unreadable snapshot has this `consequence`.
fn mark_for(
    reader: &Reader,
    roots: &[(TicketId, Content)],
    folder: Option<&Path>,
    progress: &dyn Fn(u64) -> Result<()>,
    consequence: &'static str,
) -> Result<SortedRecords<LIVE_CHUNK_LEN>> {
    let plan = reader.plan(PLANNED_BYTES_MAX);
    let is_far = plan.fetcher_count() > 0;
    let mut builder = LiveSetBuilder {
        reader,
        plan,
        step: None,
        live_set: LiveSet::new(folder),
        roots: &[],
        root: 0,
        done: 0,
        progress,
        consequence,
    };
    let mut marker = Marker::default();
    for roots in roots.chunks(if is_far { ROOTS_AT_ONCE } else { 1 }) {
        progress(builder.done)?;
        builder.roots = roots;
        let contents: Vec<&Content> = roots.iter().map(|(_, root)| root).collect();
        marker.mark(&contents, &mut builder)?;
        builder.done += roots.len() as u64;
    }
    progress(builder.done)?;
    Ok(builder.live_set.finish())
}

struct LiveSetBuilder<'a> {
    reader: &'a Reader,
    plan: ReadPlan<'a>,
    /// The trees and recipes that were fetched and are being read.
    step: Option<ReadStep>,
    live_set: LiveSet,
    /// The snapshots that are being marked.
    roots: &'a [(TicketId, Content)],
    /// The number of the snapshot that reaches what is reported.
    root: usize,
    done: u64,
    progress: &'a dyn Fn(u64) -> Result<()>,
    /// The consequence of an unreadable snapshot, for the error about it.
    consequence: &'static str,
}

impl MarkSink for LiveSetBuilder<'_> {
    fn ahead_max(&self) -> usize {
        if self.plan.fetcher_count() > 0 { NODES_AT_ONCE } else { 0 }
    }

    fn prepare(&mut self, next: &[Fingerprint]) -> usize {
        self.step = None;
        let (step, count) = self.plan.fetch_meta(next);
        self.step = Some(step);
        count
    }

    fn enter_root(&mut self, root: usize) {
        self.root = root;
    }

    fn meta(&mut self, fingerprint: &Fingerprint) -> Result<ChunkBytes> {
        (self.progress)(self.done)?;
        self.live_set.push(Class::Meta, fingerprint)?;
        self.reader.chunk(Class::Meta, fingerprint)
    }

    fn data(&mut self, fingerprint: &Fingerprint, _: u64, _: u64) -> Result<()> {
        self.live_set.push(Class::Data, fingerprint)
    }

    fn unreadable(&mut self, _: &Fingerprint, error: Error) -> Result<()> {
        let snapshot = self.roots.get(self.root).map_or_else(String::new, |(id, _)| id.short());
        Err(match error.kind() {
            Kind::Corrupt | Kind::Missing => {
                error.of(format!("snapshot {snapshot}{}", self.consequence))
            }
            _ => error,
        })
    }
}
