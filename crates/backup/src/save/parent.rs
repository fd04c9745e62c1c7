//! The parents of a backup: the snapshots that its source is compared with.

use std::collections::HashSet;

use cutpoint_repository::{Index, Reader, Snapshot, TicketId, View};
use cutpoint_storage::{Error, Result};

use super::options::{BackupOptions, Parent};
use super::previous_version::PreviousVersion;

/// The snapshots that the source of an attempt is compared with.
pub(super) struct Parents {
    /// The parent.
    pub(super) parent: Option<(TicketId, Box<Snapshot>)>,
    /// The snapshots of sources that the parent lacks, because they did not exist when it was made.
    source_parents: Vec<SourceParent>,
    /// Set if the parent is a checkpoint of this backup.
    pub(super) continues: bool,
}

/// The repository as an attempt reads it.
#[derive(Clone, Copy)]
pub(super) struct Readers<'v> {
    pub(super) reader: &'v Reader,
    /// The index of the chunks that may be referenced.
    pub(super) index: &'v Index,
    pub(super) index_is_complete: bool,
}

impl Parents {
    /// Chooses the parents of `sources` from `view`: `checkpoint`, if there is one, or as `options`
    /// say.
    ///
    /// # Errors
    ///
    /// Returns any error of [`choose_parent`]. An error about a checkpoint is only returned if the
    /// source `is_stream`.
    pub(super) fn choose(
        view: &View,
        options: &BackupOptions,
        sources: &[Vec<u8>],
        checkpoint: Option<TicketId>,
        is_stream: bool,
    ) -> Result<Parents> {
        let choose = |choice| choose_parent(view, choice, &options.host, sources);
        let (parent, continues) = match checkpoint.map(|own| choose(Parent::Snapshot(own))) {
            Some(Err(error)) if is_stream => return Err(error),
            Some(Ok(parent)) => (parent, true),
            // The checkpoint was forgotten meanwhile, but files can be read again.
            Some(Err(_)) | None => (choose(options.parent)?, false),
        };
        let source_parents = match &parent {
            Some((_, parent)) => source_parents(view, &options.host, sources, parent),
            None => Vec::new(),
        };
        Ok(Parents { parent, source_parents, continues })
    }

    /// Returns the snapshots to compare with: the parent, followed by the snapshots of sources that
    /// the parent lacks.
    pub(super) fn previous_versions<'v>(
        &self,
        view: &View,
        options: &BackupOptions,
        readers: Readers<'v>,
    ) -> Vec<PreviousVersion<'v>> {
        let force_read = options.force_read;
        let previous =
            |id: TicketId, snapshot: &Snapshot, is_own: bool, sources: &[usize]| PreviousVersion {
                reader: readers.reader,
                index: readers.index,
                root: snapshot.root.clone(),
                read_since_ns: snapshot.read_since_ns.unwrap_or(snapshot.started_ns),
                is_own,
                file_systems: snapshot.file_systems.clone(),
                damaged: view.damaged_since(id),
                index_is_complete: readers.index_is_complete,
                ignored: options.ignored,
                partial: snapshot.partial,
                sources: sources.to_vec(),
            };
        let mut previous_versions = Vec::new();
        // This backup itself has read the files in a checkpoint.
        if let Some((id, snapshot)) = &self.parent
            && (!force_read || self.continues)
        {
            previous_versions.push(previous(*id, snapshot, self.continues, &[]));
        }
        if !previous_versions.is_empty() && !force_read {
            let parents = self.source_parents.iter();
            previous_versions
                .extend(parents.map(|it| previous(it.id, &it.snapshot, false, &it.sources)));
        }
        previous_versions
    }
}

/// A snapshot to compare some of the sources with, because the parent does not contain them.
struct SourceParent {
    id: TicketId,
    snapshot: Box<Snapshot>,
    /// The positions of these sources in the list of all sources.
    sources: Vec<usize>,
}

/// Chooses the parent by rule W3: a snapshot may be taken over if the view has it, no prune of the
/// view has taken it, and no key epoch has begun after it.
fn choose_parent(
    view: &View,
    choice: Parent,
    host: &str,
    sources: &[Vec<u8>],
) -> Result<Option<(TicketId, Box<Snapshot>)>> {
    let snapshots = view.snapshots();
    let mut snapshots = snapshots.into_iter().filter(|(id, _)| view.may_take_over(*id));
    let parent = match choice {
        Parent::None => return Ok(None),
        Parent::Newest => {
            let is_own = |snapshot: &Snapshot| snapshot.host == host && snapshot.sources == sources;
            let mut own: Vec<_> = snapshots.filter(|(_, snapshot)| is_own(snapshot)).collect();
            own.sort_by_key(|(id, snapshot)| std::cmp::Reverse((snapshot.started_ns, *id)));
            own.into_iter().find(|(id, _)| view.may_be_parent(*id))
        }
        Parent::Snapshot(wanted) => match snapshots.find(|(id, _)| *id == wanted) {
            Some((id, _)) if !view.may_be_parent(id) => {
                return Err(Error::invalid(
                    format!("snapshot {}", wanted.short()),
                    "cannot be the parent: created before the newest key epoch, or compared with a \
                     snapshot from before that; a holder of the old keys could have written it",
                ));
            }
            Some(parent) => Some(parent),
            None => {
                return Err(Error::missing(
                    format!("snapshot {}", wanted.short()),
                    "not found, and cannot be the parent",
                ));
            }
        },
    };
    Ok(parent.map(|(id, snapshot)| (id, Box::new(snapshot.clone()))))
}

/// Returns, for each source that `parent` lacks because it did not exist, the newest snapshot of
/// this host that has it, if there is one. Rule W3 holds for each of these snapshots.
fn source_parents(
    view: &View,
    host: &str,
    sources: &[Vec<u8>],
    parent: &Snapshot,
) -> Vec<SourceParent> {
    let mut parents: Vec<SourceParent> = Vec::new();
    let missing: HashSet<&[u8]> = parent.missing_sources().collect();
    for (number, source) in sources.iter().enumerate() {
        if !missing.contains(source.as_slice()) {
            continue;
        }
        let has_it = |snapshot: &Snapshot| {
            snapshot.host == host
                && !snapshot.partial
                && snapshot.sources.contains(source)
                && !snapshot.missing_sources().any(|missing| missing == source)
        };
        let snapshots = view.snapshots();
        let newest = snapshots
            .into_iter()
            .filter(|(id, snapshot)| has_it(snapshot) && view.may_be_parent(*id))
            .max_by_key(|(id, snapshot)| (snapshot.started_ns, *id));
        let Some((id, snapshot)) = newest else { continue };
        match parents.iter_mut().find(|parent| parent.id == id) {
            Some(parent) => parent.sources.push(number),
            None => parents.push(SourceParent {
                id,
                snapshot: Box::new(snapshot.clone()),
                sources: vec![number],
            }),
        }
    }
    parents
}
