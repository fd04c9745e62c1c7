//! The traversal of a snapshot: one thread creates the folders, in the order of the trees, and
//! sends everything else to the workers.

use std::sync::Arc;

use cutpoint_repository::Entry;
use cutpoint_storage::{Error, Result};
use rustix::fs::{AtFlags, FileType, Mode};
use rustix::io::Errno;

use super::dispatcher::Dispatcher;
use super::failure::Failure;
use super::metadata;
use super::options::Overwrite;
use super::place::{EXISTS, Folder, PathNode, Place, RestoredNames, TWIN};
use super::restore_state::{RestoreState, count};
use super::snapshot_walk::{SnapshotWalk, Step};
use crate::source::folder::{self, Access, FolderStack, Handle, Identity};

/// The traversal of one tree.
pub(super) struct Traversal<'r, 'a> {
    state: &'r RestoreState<'a>,
    dispatcher: Dispatcher<'r, 'a>,
    walk: SnapshotWalk<'a>,
}

impl<'r, 'a> Traversal<'r, 'a> {
    pub(super) fn new(
        state: &'r RestoreState<'a>,
        dispatcher: Dispatcher<'r, 'a>,
        walk: SnapshotWalk<'a>,
    ) -> Traversal<'r, 'a> {
        Traversal { state, dispatcher, walk }
    }

    /// Restores everything, or ends early when the restore is stopped. `made` says that the target
    /// is new.
    ///
    /// # Errors
    ///
    /// Returns an error if nothing can be entered at all.
    pub(super) fn traverse(mut self, made: bool) -> Result<()> {
        let Some(base) = self.state.base.clone() else { return Ok(()) };
        let stat = rustix::fs::fstat(&base)
            .map_err(|error| Error::invalid("target", error).with_source(error))?;
        let folder = self.base_folder(&base, made);
        let mut stack = FolderStack::new(base, Identity::of(&stat), Arc::new(folder));
        while !self.state.stopped() {
            let Some(step) = self.walk.next() else {
                if let Some((folder, handle)) = stack.pop() {
                    self.leave(folder, handle);
                }
                break;
            };
            // Another reference would keep a folder that is left from being released.
            let place = match &step {
                Step::Enter { .. } | Step::Item(_) => stack.top().and_then(|(folder, handle)| {
                    Some(Place { folder: Arc::clone(folder), handle: handle?.clone() })
                }),
                Step::Skipped(_) | Step::Leave | Step::Problem { .. } => None,
            };
            match (step, place) {
                (Step::Enter { entry, role }, Some(place)) => {
                    // Defects of a folder on the way to the selection say nothing about the
                    // selected paths.
                    if !role.is_way() {
                        self.warn_of_defect(&place, &entry);
                    }
                    match self.enter(place, entry, role.is_way()) {
                        Some((name, handle, identity, folder)) => {
                            stack.push(name, handle, identity, folder);
                        }
                        None => self.walk.skip(),
                    }
                }
                (Step::Item(entry), Some(place)) => {
                    self.warn_of_defect(&place, &entry);
                    place.folder.restored.announce(&entry.name);
                    self.dispatcher.send(place, entry);
                }
                // The folder was moved, which is reported when it is left.
                (Step::Enter { .. }, None) => {
                    self.walk.skip();
                    self.walk.end_folder();
                }
                (Step::Item(_), None) => self.walk.end_folder(),
                (Step::Leave, _) => {
                    if let Some((folder, handle)) = stack.pop() {
                        self.leave(folder, handle);
                    }
                }
                (Step::Skipped(_), _) => {}
                (Step::Problem { path, error }, _) => {
                    self.state.fail(&path, &Failure::Snapshot(error));
                }
            }
        }
        self.state.report_idle(&self.walk);
        self.dispatcher.end();
        // Releases the deepest folder first, for the sake of long paths.
        while stack.pop().is_some() {}
        Ok(())
    }

    /// Returns the target as a folder to fill.
    fn base_folder(&self, base: &Handle, made: bool) -> Folder {
        let options = self.state.options;
        let keeps_its_own =
            !made && (options.overwrite == Overwrite::Never || self.walk.root_role().is_way());
        if made && options.folder.is_some() {
            metadata::remove_acls(base);
        }
        Folder {
            path: Arc::default(),
            entry: options.folder.clone().filter(|_| !keeps_its_own),
            made,
            inherits: metadata::has_default_acl(base),
            restored: RestoredNames::new(options.overwrite),
        }
    }

    /// Creates or enters the folder `entry`. Returns `None` if that fails, which is reported.
    fn enter(
        &mut self,
        place: Place,
        entry: Entry,
        is_way: bool,
    ) -> Option<(Vec<u8>, Handle, Identity, Arc<Folder>)> {
        let keeps_its_own = self.state.options.overwrite == Overwrite::Never || is_way;
        let made = self.make_folder(&place, &entry.name, keeps_its_own);
        let (handle, identity, made) = match made {
            Ok(made) => made,
            Err(failure) => {
                self.state.fail(&place.path(&entry), &failure);
                return None;
            }
        };
        let mut inherits = false;
        if made {
            count(&self.state.counts.made_folders, 1);
            if place.folder.inherits {
                metadata::remove_acls(&handle);
            }
        } else {
            inherits = metadata::has_default_acl(&handle);
        }
        let path = PathNode::below(&place.folder.path, &entry.name);
        let name = entry.name.clone();
        let entry = Some(entry).filter(|_| made || !keeps_its_own);
        let restored = RestoredNames::new(self.state.options.overwrite);
        let folder = Arc::new(Folder { path, entry, made, inherits, restored });
        Some((name, handle, identity, folder))
    }

    /// Creates the folder `name`, or opens it if it exists. An existing folder becomes writable for
    /// its owner unless it keeps its own metadata. Also returns `true` if the folder was created.
    fn make_folder(
        &self,
        place: &Place,
        name: &[u8],
        keeps_its_own: bool,
    ) -> std::result::Result<(Handle, Identity, bool), Failure> {
        let make = || rustix::fs::mkdirat(&place.handle, name, Mode::RWXU);
        let made = match make() {
            Ok(()) => true,
            Err(Errno::EXIST) => {
                let stat = folder::stat(&place.handle, name)?;
                if place.folder.restored.has(Identity::of(&stat)) {
                    return Err(Failure::Refused(TWIN));
                }
                if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
                    false
                } else if self.state.options.overwrite == Overwrite::Never {
                    return Err(Failure::Refused(EXISTS));
                } else {
                    rustix::fs::unlinkat(&place.handle, name, AtFlags::empty())?;
                    make()?;
                    count(&self.state.counts.replaced_entries, 1);
                    true
                }
            }
            Err(error) => return Err(error.into()),
        };
        let handle = if made {
            folder::open(&place.handle, name, Access::List)?
        } else {
            folder::open_best(&place.handle, name)?
        };
        let stat = rustix::fs::fstat(&handle)?;
        let identity = Identity::of(&stat);
        place.folder.restored.insert(identity);
        if !made && !keeps_its_own && metadata::open_to_owner(&handle, &stat) {
            return Ok((folder::open_best(&handle, b".")?, identity, made));
        }
        Ok((handle, identity, made))
    }

    fn leave(&self, folder: Arc<Folder>, handle: Option<Handle>) {
        match handle {
            Some(handle) => self.state.release(folder, &handle),
            None => {
                let failure = Failure::Refused("the folder was moved or removed meanwhile");
                self.state.fail(&folder.path.path(), &failure);
            }
        }
    }

    /// Warns of an entry that the snapshot does not hold as it was at the source.
    fn warn_of_defect(&self, place: &Place, entry: &Entry) {
        if let Some(defect) = entry.defect {
            self.state.warn(&place.path(entry), defect.message());
        }
    }
}
