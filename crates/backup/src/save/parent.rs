//! The parents of a backup: the snapshots that its source is compared with.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use cutpoint_repository::format::commit::CopyCoverage;
use cutpoint_repository::{Content, Index, Reader, Snapshot, TicketId, View};
use cutpoint_storage::{Error, Result};

use super::copy_steps::CopyComparison;
use super::options::{BackupOptions, Parent};
use super::previous_version::PreviousVersion;
use super::snapshot_source::SnapshotSource;
use super::source::Source;

/// The snapshots that the source of an attempt is compared with.
pub(super) struct Parents {
    /// The parent.
    pub(super) parent: Option<(TicketId, Box<Snapshot>)>,
    /// The snapshots of sources that the parent lacks.
    source_parents: Vec<SourceParent>,
    /// The snapshots of sources that are gone, and may have become folders of other sources.
    moved_parents: Vec<SourceParent>,
    /// Set if the parent is a checkpoint of this backup.
    pub(super) continues: bool,
    /// The root folder, at the source of a copy, of the snapshot that the parent was made from, and
    /// the part of that snapshot that the parent has.
    copied: Option<(Content, CopyCoverage)>,
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
    /// Chooses the parents of `source` from `view`: `checkpoint`, if there is one, or as `options`
    /// say. `sources` are its paths. A snapshot that is copied chooses its parent itself.
    ///
    /// # Errors
    ///
    /// Returns any error of [`choose_parent`] and of [`SnapshotSource::base`]. An error about a
    /// checkpoint is only returned if the source is a stream.
    pub(super) fn choose(
        view: &View,
        options: &BackupOptions,
        source: &Source,
        sources: &[Vec<u8>],
        checkpoint: Option<TicketId>,
    ) -> Result<Parents> {
        if let Source::Snapshot(source) = source {
            return Parents::of_copy(view, source);
        }
        let is_stream = source.is_stream();
        let own = newest_first(view, &options.host);
        let choose = |choice| choose_parent(view, choice, &own, sources);
        let (parent, continues) = match checkpoint.map(|own| choose(Parent::Snapshot(own))) {
            Some(Err(error)) if is_stream => return Err(error),
            Some(Ok(parent)) => (parent, true),
            // The checkpoint was forgotten meanwhile, but files can be read again.
            Some(Err(_)) | None => (choose(options.parent)?, false),
        };
        let source_parents = match &parent {
            Some((_, parent)) => source_parents(view, &own, sources, parent),
            None => Vec::new(),
        };
        let moved_parents = match options.parent {
            Parent::Newest if !is_stream => moved_parents(view, &own, sources),
            _ => Vec::new(),
        };
        Ok(Parents { parent, source_parents, moved_parents, continues, copied: None })
    }

    /// Chooses the parent of a copy: a checkpoint of it, or a copy of an earlier snapshot.
    fn of_copy(view: &View, source: &SnapshotSource) -> Result<Parents> {
        let (parent, copied) = match source.base(view)? {
            Some(base) => (Some((base.id, base.snapshot)), Some((base.source_root, base.coverage))),
            None => (None, None),
        };
        Ok(Parents {
            parent,
            source_parents: Vec::new(),
            moved_parents: Vec::new(),
            continues: false,
            copied,
        })
    }

    /// Returns the comparison of a copy, if `previous_versions`, those of these parents, have one.
    pub(super) fn copy_comparison<'v>(
        &self,
        previous_versions: &[PreviousVersion<'v>],
    ) -> Option<CopyComparison<'v>> {
        let ((source_root, coverage), target) =
            self.copied.clone().zip(previous_versions.first())?;
        let mut target = target.clone();
        // Folders of such a copy may lack entries.
        target.partial |= coverage != CopyCoverage::Complete;
        let continues = coverage == CopyCoverage::Begun;
        Some(CopyComparison { source_root, target: Some(target), continues })
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
        let previous = |id: TicketId, snapshot: &Snapshot, is_own: bool, sources| PreviousVersion {
            reader: readers.reader,
            index: readers.index,
            root: snapshot.root.clone(),
            cut: snapshot.cut.clone(),
            read_since_ns: snapshot.read_since_ns.unwrap_or(snapshot.started_ns),
            is_own,
            file_systems: snapshot.file_systems.clone(),
            damaged: view.damaged_since(id),
            index_is_complete: readers.index_is_complete,
            ignored: options.ignored,
            partial: snapshot.partial,
            sources,
        };
        let mut previous_versions = Vec::new();
        // This backup itself has read the files in a checkpoint.
        if let Some((id, snapshot)) = &self.parent
            && (!force_read || self.continues)
        {
            previous_versions.push(previous(*id, snapshot, self.continues, HashSet::new()));
        }
        if !force_read {
            let parents = self.source_parents.iter().chain(&self.moved_parents);
            previous_versions
                .extend(parents.map(|it| previous(it.id, &it.snapshot, false, it.sources.clone())));
        }
        previous_versions
    }
}

/// The maximum number of snapshots that are searched because their sources are gone.
const MOVED_PARENTS_MAX: usize = 4;

/// The maximum number of sources of a snapshot that are examined for that.
const SOURCES_EXAMINED_MAX: usize = 100;

/// The maximum number of snapshots that are read because the parent lacks sources.
const SOURCE_PARENTS_MAX: usize = 16;

/// A snapshot to compare some of the sources with, because the parent does not contain them.
struct SourceParent {
    id: TicketId,
    snapshot: Box<Snapshot>,
    /// The positions of these sources in the list of all sources.
    sources: HashSet<usize>,
}

/// Chooses the parent by rule W3: a snapshot may be taken over if the view has it, no prune of the
/// view has taken it, and no key epoch has begun after it. `own` are the snapshots of this host.
fn choose_parent(
    view: &View,
    choice: Parent,
    own: &[(TicketId, &Snapshot)],
    sources: &[Vec<u8>],
) -> Result<Option<(TicketId, Box<Snapshot>)>> {
    let parent = match choice {
        Parent::None => None,
        Parent::Newest => {
            let same = own.iter().filter(|(_, snapshot)| snapshot.sources == sources);
            let known: HashSet<&Vec<u8>> = sources.iter().collect();
            let similar = own.iter().filter(|(_, snapshot)| {
                !snapshot.partial && snapshot.sources.iter().any(|source| known.contains(source))
            });
            same.chain(similar).find(|(id, _)| view.may_be_parent(*id)).copied()
        }
        Parent::Snapshot(wanted) => {
            let object = || format!("snapshot {}", wanted.short());
            let snapshots = view.snapshots();
            let parent = snapshots.into_iter().find(|(id, _)| *id == wanted);
            let parent = parent
                .filter(|_| view.may_take_over(wanted))
                .ok_or_else(|| Error::missing(object(), "not found, and cannot be the parent"))?;
            if !view.may_be_parent(wanted) {
                return Err(Error::invalid(
                    object(),
                    "cannot be the parent: created before the newest key epoch, or compared with a \
                     snapshot from before that; a holder of the old keys could have written it",
                ));
            }
            Some(parent)
        }
    };
    Ok(parent.map(|(id, snapshot)| (id, Box::new(snapshot.clone()))))
}

/// Returns the snapshots of `host` that may be taken over, newest first.
fn newest_first<'v>(view: &'v View, host: &str) -> Vec<(TicketId, &'v Snapshot)> {
    let mut snapshots = view.snapshots();
    snapshots.retain(|(id, snapshot)| snapshot.host == host && view.may_take_over(*id));
    snapshots.sort_by_key(|(id, snapshot)| std::cmp::Reverse((snapshot.started_ns, *id)));
    snapshots
}

/// Returns, for the sources that `parent` lacks, because they did not exist or were no sources, the
/// newest snapshots of this host that have them. Rule W3 holds for each of these snapshots.
fn source_parents(
    view: &View,
    own: &[(TicketId, &Snapshot)],
    sources: &[Vec<u8>],
    parent: &Snapshot,
) -> Vec<SourceParent> {
    let missing: HashSet<&[u8]> = parent.missing_sources().collect();
    let known: HashSet<&[u8]> = parent.sources.iter().map(Vec::as_slice).collect();
    let mut lacking: HashMap<&[u8], Vec<usize>> = HashMap::new();
    for (number, source) in sources.iter().enumerate() {
        if missing.contains(&**source) || !known.contains(&**source) {
            lacking.entry(source).or_default().push(number);
        }
    }
    let mut parents = Vec::new();
    if lacking.is_empty() {
        return parents;
    }
    for &(id, snapshot) in own {
        if lacking.is_empty() || parents.len() == SOURCE_PARENTS_MAX {
            break;
        }
        let missing: HashSet<&[u8]> = snapshot.missing_sources().collect();
        let mut found = snapshot.sources.iter().map(Vec::as_slice).collect::<Vec<_>>();
        found.retain(|source| lacking.contains_key(source) && !missing.contains(source));
        if found.is_empty() || snapshot.partial || !view.may_be_parent(id) {
            continue;
        }
        let numbers = found.iter().filter_map(|source| lacking.remove(source)).flatten();
        let sources = numbers.collect();
        parents.push(SourceParent { id, snapshot: Box::new(snapshot.clone()), sources });
    }
    parents
}

/// Returns the newest complete snapshots of other sources of this host of which a source is gone:
/// it may have been moved into one of `sources`, or have become one. Rule W3 holds for each of these
/// snapshots.
fn moved_parents(
    view: &View,
    own: &[(TicketId, &Snapshot)],
    sources: &[Vec<u8>],
) -> Vec<SourceParent> {
    let is_gone = |source: &Vec<u8>| {
        let path = Path::new(OsStr::from_bytes(source));
        let found = path.is_absolute().then(|| path.symlink_metadata());
        matches!(found, Some(Err(error)) if error.kind() == io::ErrorKind::NotFound)
    };
    let mut seen: HashSet<&[Vec<u8>]> = HashSet::from([sources]);
    let mut parents = Vec::new();
    for &(id, snapshot) in own {
        if parents.len() == MOVED_PARENTS_MAX {
            break;
        }
        let is_candidate = !snapshot.partial && seen.insert(&snapshot.sources);
        if is_candidate
            && snapshot.sources.iter().take(SOURCES_EXAMINED_MAX).any(is_gone)
            && view.may_be_parent(id)
        {
            let snapshot = Box::new(snapshot.clone());
            parents.push(SourceParent { id, snapshot, sources: HashSet::new() });
        }
    }
    parents
}
