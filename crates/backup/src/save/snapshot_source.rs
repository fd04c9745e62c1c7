//! The source of a copy: a snapshot of another repository, of this or another program, or of the
//! same repository.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use cutpoint_repository::format::commit::{CopyCoverage, Origin, OriginId, OriginKey};
use cutpoint_repository::{Class, Content, Repository, Snapshot, Statistics, TicketId, View};
use cutpoint_storage::{Error, Kind, Result};

use super::source_reader::SourceRepository;

/// The smallest distance between the start of a snapshot and that of a later form of it, in
/// nanoseconds. The nanoseconds before are those of repaired snapshots.
const LATER_NS: i64 = 3;

/// A snapshot that is saved again: in another repository, or without some of its entries.
#[derive(Debug)]
pub struct SnapshotSource {
    /// The repository that has the snapshot.
    pub repository: SourceRepository,
    /// The identifier of the snapshot in that repository.
    pub id: OriginId,
    /// The snapshot, with its current tags and description.
    pub snapshot: Snapshot,
    /// The form of the result.
    pub form: CopyForm,
}

/// The form in which a snapshot is saved again.
#[derive(Debug)]
pub enum CopyForm {
    /// A copy in another repository.
    Copy {
        /// The repository in which a backup has made the snapshot, and its identifier there.
        origin: OriginKey,
        /// Earlier snapshots, by their origins, and their root folders at the source, best first.
        /// The first one of which the target has a copy is compared with the snapshot, so that
        /// unchanged files and folders need not be read.
        bases: Vec<(OriginKey, Content)>,
    },
    /// A snapshot of the same repository, without the entries that these patterns match. No file is
    /// read.
    Rewrite {
        /// Patterns by the rules of a `.gitignore` file in the root folder.
        exclude: Vec<String>,
    },
}

/// The snapshot of the target that a copy is compared with.
pub(super) struct CopyBase {
    pub(super) id: TicketId,
    pub(super) snapshot: Box<Snapshot>,
    /// The root folder, at the source, of the snapshot that this one was made from.
    pub(super) source_root: Content,
    /// The part of that snapshot that this one has. A checkpoint is one of this copy.
    pub(super) coverage: CopyCoverage,
}

impl SnapshotSource {
    /// Chooses the snapshot of `view` to compare with: a checkpoint of this copy, an earlier copy of
    /// the same snapshot, or a copy of an earlier snapshot. Its files may be taken over by rule W3.
    ///
    /// # Errors
    ///
    /// Returns `Missing` if a snapshot that is rewritten is not in the view any more.
    pub(super) fn base(&self, view: &View) -> Result<Option<CopyBase>> {
        let (origin, bases) = match &self.form {
            CopyForm::Copy { origin, bases } => (origin, bases),
            CopyForm::Rewrite { .. } => {
                let own = self.id.ticket().filter(|id| view.may_take_over(*id));
                let own = own.and_then(|id| Some((id, view.commits.get(&id)?.snapshot()?)));
                let (id, snapshot) = own.ok_or_else(|| {
                    let object = format!("snapshot {}", self.id.short());
                    Error::missing(object, "removed by a prune of another client")
                })?;
                return Ok(Some(CopyBase {
                    id,
                    snapshot: Box::new(snapshot.clone()),
                    source_root: self.snapshot.root.clone(),
                    coverage: CopyCoverage::Complete,
                }));
            }
        };
        let copies = copies(view);
        let find = |wanted: &OriginKey, is_own: bool| {
            let found = copies.get(wanted)?.iter().filter(|(id, _, coverage)| {
                (is_own || *coverage != CopyCoverage::Begun) && view.may_be_parent(*id)
            });
            // All checkpoints of a copy have the times of the original, and tickets have no order,
            // but each continues one before, so that the newest has the most.
            found.max_by_key(|(id, copy, coverage)| {
                (*coverage == CopyCoverage::Complete, copy.statistics.size, *id)
            })
        };
        let own = std::iter::once((origin, &self.snapshot.root, true));
        let earlier = bases.iter().map(|(origin, root)| (origin, root, false));
        Ok(own.chain(earlier).find_map(|(origin, root, is_own)| {
            let (id, snapshot, coverage) = *find(origin, is_own)?;
            let snapshot = Box::new(snapshot.clone());
            Some(CopyBase { id, snapshot, source_root: root.clone(), coverage })
        }))
    }

    /// Returns the path of an entry with the snapshot before it, as commands take it.
    pub(super) fn named(&self, path: &Path) -> PathBuf {
        let mut name = OsString::from(format!("{}:", self.id.short()));
        name.push(path);
        PathBuf::from(name)
    }

    /// Returns an error if the snapshot is not there any more.
    ///
    /// # Errors
    ///
    /// Returns `Missing` if a prune has removed the snapshot from the newest view of the reader.
    pub(super) fn check_exists(&self) -> Result<()> {
        let own = self.repository.own().zip(self.id.ticket());
        if own.is_none_or(|(reader, id)| reader.view().may_take_over(id)) {
            return Ok(());
        }
        let message = "forgotten, and removed by a prune meanwhile";
        Err(Error::missing(format!("snapshot {}", self.id.short()), message))
    }

    /// Returns `true` if a chunk of the source is the same chunk, with the same fingerprint, in
    /// `target`.
    pub(super) fn keeps_chunks(&self, target: &Repository) -> bool {
        let Some(source) = self.repository.own() else { return false };
        let source = source.repository();
        let (ours, theirs) = (source.keys(), target.keys());
        let is_keyed = target.config().cut_is_keyed;
        let probe = |keys: &cutpoint_repository::Keys| {
            (keys.fingerprint(Class::Data, b"chunk"), keys.cut_material::<32>())
        };
        self.snapshot.cut == target.config().cut
            && source.config().cut == target.config().cut
            && source.config().cut_is_keyed == is_keyed
            && probe(ours) == probe(theirs)
    }

    /// The patterns of the entries to leave out.
    pub(super) fn exclude(&self) -> &[String] {
        match &self.form {
            CopyForm::Copy { .. } => &[],
            CopyForm::Rewrite { exclude } => exclude,
        }
    }

    /// Returns `true` if a run was in vain: it has stored nothing, and `made`, its result, has the
    /// tree of `parent`, a copy of the same snapshot. Another client has made that copy meanwhile, or
    /// the same entries cannot be read as before.
    pub(super) fn is_vain(&self, made: (&Content, &Statistics), parent: &Snapshot) -> bool {
        let (CopyForm::Copy { origin, .. }, Some(of)) = (&self.form, parent.origin.as_deref())
        else {
            return false;
        };
        let (root, statistics) = made;
        let is_no_better = match of.coverage {
            CopyCoverage::Complete => true,
            CopyCoverage::Begun => false,
            CopyCoverage::Reduced | CopyCoverage::Lossy => statistics.problem_count > 0,
        };
        let is_same = of.key == *origin && parent.root == *root;
        is_same && is_no_better && statistics.stored_bytes == 0
    }

    /// Returns `true` if another client has completed the same copy since `view` was listed. Two
    /// runs that commit within the lag of a listing still make two copies.
    ///
    /// # Errors
    ///
    /// Returns any error of the listing.
    pub(super) fn is_copied_since(&self, view: &View, target: &Repository) -> Result<bool> {
        let CopyForm::Copy { origin, .. } = &self.form else { return Ok(false) };
        let now = view.list_again(target)?;
        Ok(now.snapshots().into_iter().any(|(id, snapshot)| {
            let is_copy = snapshot.copied_from().is_some_and(|of| of.key == *origin);
            is_copy && !view.commits.contains_key(&id)
        }))
    }

    /// Returns an error if this is a rewrite, which has no checkpoints, because it reads trees only
    /// and could not continue without reading files.
    ///
    /// # Errors
    ///
    /// Returns `Unsupported` for a rewrite.
    pub(super) fn require_checkpoints(&self) -> Result<()> {
        match &self.form {
            CopyForm::Copy { .. } => Ok(()),
            CopyForm::Rewrite { .. } => {
                let object = format!("snapshot {}", self.id.short());
                let message = "not rewritten within 20 hours, the maximum for one run";
                Err(Error::new(Kind::Unsupported, object, message))
            }
        }
    }

    /// Gives `made`, the result of a run, everything that the snapshot of the source records. Its
    /// start differs from those of the snapshots of `view`.
    pub(super) fn describe(&self, made: &mut Snapshot, view: &View) {
        let Snapshot { sources, host, user, tags, description, missing, .. } =
            self.snapshot.clone();
        let counted = made.statistics;
        let is_checkpoint = made.partial;
        let of_source = self.snapshot.statistics;
        let mut statistics = Statistics {
            new_chunk_count: counted.new_chunk_count,
            new_bytes: counted.new_bytes,
            stored_bytes: counted.stored_bytes,
            delta_chunk_count: counted.delta_chunk_count,
            delta_chunk_bytes: counted.delta_chunk_bytes,
            literal_bytes: counted.literal_bytes,
            problem_count: of_source.problem_count + counted.problem_count,
            ..of_source
        };
        // Whole folders of a copy can be taken over, which are not counted.
        if is_checkpoint || matches!(self.form, CopyForm::Rewrite { .. }) {
            statistics.file_count = counted.file_count;
            statistics.folder_count = counted.folder_count;
            statistics.other_count = counted.other_count;
            statistics.size = counted.size;
        }
        let started_ns = if is_checkpoint { self.snapshot.started_ns } else { self.free_ns(view) };
        let read_since_ns = match started_ns == self.snapshot.started_ns {
            true => self.snapshot.read_since_ns,
            false => self.snapshot.read_since_ns.or(Some(self.snapshot.started_ns)),
        };
        *made = Snapshot {
            root: made.root.clone(),
            cut: made.cut.clone(),
            program: made.program.clone(),
            parent: made.parent,
            partial: is_checkpoint || self.snapshot.partial,
            statistics,
            origin: self.origin(is_checkpoint, counted.problem_count),
            sources,
            host,
            user,
            started_ns,
            finished_ns: self.snapshot.finished_ns,
            tags,
            description,
            missing,
            file_systems: self.file_systems(),
            read_since_ns,
        };
    }

    /// Returns the start of the result: that of the snapshot, or later if the view has other forms
    /// of it. No two forms have the same start, and the result follows the forms that it replaces,
    /// in every list, for `latest` and for the rules of retention.
    fn free_ns(&self, view: &View) -> i64 {
        let own = &self.snapshot;
        let all = view.commits.iter().filter_map(|(id, commit)| Some((*id, commit.snapshot()?)));
        let forms: Vec<_> = all
            .filter(|(_, it)| {
                (it.partial, it.finished_ns) == (own.partial, own.finished_ns)
                    && (&it.host, &it.sources) == (&own.host, &own.sources)
            })
            .collect();
        let is_replaced = |id: TicketId, it: &Snapshot| match &self.form {
            CopyForm::Copy { origin, .. } => it.original().is_some_and(|of| of.key == *origin),
            CopyForm::Rewrite { .. } => {
                let old = self.id.ticket();
                old == Some(id) || (old.is_some() && it.parent == old)
            }
        };
        let replaced = forms.iter().filter(|(id, it)| is_replaced(*id, it));
        let newest_ns = replaced.map(|(_, it)| it.started_ns).max();
        let mut start_ns = newest_ns.map_or(own.started_ns, |ns| ns.saturating_add(LATER_NS));
        let taken: HashSet<i64> = forms.iter().map(|(_, it)| it.started_ns).collect();
        while taken.contains(&start_ns) && start_ns < i64::MAX {
            start_ns += 1;
        }
        start_ns
    }

    /// Returns the origin of the result, which is a checkpoint or has lost entries to problems.
    fn origin(&self, is_checkpoint: bool, problem_count: u64) -> Option<Box<Origin>> {
        let coverage = match (is_checkpoint, problem_count) {
            (true, _) => CopyCoverage::Begun,
            (false, 0) => CopyCoverage::Complete,
            (false, _) => CopyCoverage::Lossy,
        };
        match &self.form {
            CopyForm::Copy { origin, .. } => Some(Box::new(Origin { key: *origin, coverage })),
            // The next copy finds that its snapshot was here, and does not bring back what was
            // left out. The rest of a checkpoint is still to be copied.
            CopyForm::Rewrite { .. } => {
                let of_copy = self.snapshot.origin.as_deref();
                let origin = of_copy.filter(|it| it.coverage != CopyCoverage::Begun);
                let coverage = CopyCoverage::Reduced;
                origin.map(|origin| Box::new(Origin { coverage, ..*origin }))
            }
        }
    }

    /// Returns the identities of the file systems. If the snapshot may not be a parent at the
    /// source, no backup may take files over from its copy either (E2), so they have no identity.
    fn file_systems(&self) -> Vec<String> {
        let file_systems = &self.snapshot.file_systems;
        let own = self.repository.own().zip(self.id.ticket());
        match own.is_some_and(|(reader, id)| reader.view().may_be_parent(id)) {
            true => file_systems.clone(),
            false => vec![String::new(); file_systems.len()],
        }
    }
}

/// A listed copy, and the part of its original that it has.
type ListedCopy<'v> = (TicketId, &'v Snapshot, CopyCoverage);

/// Returns the listed copies of a view by their origins.
fn copies(view: &View) -> HashMap<OriginKey, Vec<ListedCopy<'_>>> {
    let mut copies: HashMap<_, Vec<_>> = HashMap::new();
    for (id, snapshot) in view.snapshots() {
        if let Some(origin) = snapshot.origin.as_deref() {
            let of_origin = copies.entry(origin.key).or_default();
            of_origin.push((id, snapshot, origin.coverage));
        }
    }
    copies
}
