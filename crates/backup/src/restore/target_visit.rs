//! A walk through a snapshot beside what exists in the target, which creates nothing.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cutpoint_repository::Entry;
use rustix::fs::FileType;
use rustix::io::Errno;

use super::failure::Failure;
use super::place::{Folder, PathNode, Place, RestoredNames};
use super::restore_state::RestoreState;
use super::snapshot_walk::{FolderRole, SnapshotWalk, Step};
use crate::source::folder::{self, FolderStack, Handle, Identity};

/// The state of the place of a folder in the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    Nothing,
    Folder,
    SomethingElse,
}

/// Receives the steps of a visit. Paths are relative to the target.
pub(super) trait Visitor {
    /// Visits a folder. Returns `false` to skip everything in it.
    fn folder(&mut self, path: &Path, entry: &Entry, standing: Standing) -> bool;

    /// Begins a folder that exists in the target.
    fn enter(&mut self, role: FolderRole) {
        let _ = role;
    }

    /// Visits anything but a folder. `place` is `None` if its folder does not exist.
    fn item(&mut self, path: &Path, place: Option<Place>, entry: Entry);

    /// Records a name of the current folder that is in the snapshot but not restored. The folder
    /// exists in the target.
    fn skipped(&mut self, name: &[u8]) {
        let _ = name;
    }

    /// Reports that the snapshot cannot be read, or the target not be entered, at `path`. The
    /// current folder may have more entries in the snapshot.
    fn problem(&mut self, path: &Path, failure: Failure);

    /// Ends a folder that was begun by [`Visitor::enter`]. `place` is `None` if the folder was moved
    /// meanwhile.
    fn leave(&mut self, walk: &mut SnapshotWalk<'_>, place: Option<&Place>) {
        let _ = (walk, place);
    }
}

/// Visits everything that `walk` finds. `target` is the folder of the target, if it exists.
pub(super) fn visit(
    state: &RestoreState<'_>,
    walk: &mut SnapshotWalk<'_>,
    target: Option<Handle>,
    visitor: &mut dyn Visitor,
) {
    let mut position = Position::new(state, target);
    if position.absent == 0 {
        visitor.enter(walk.root_role());
    }
    while !state.stopped() {
        let Some(step) = walk.next() else {
            if position.absent == 0 {
                visitor.leave(walk, position.place().as_ref());
            }
            return;
        };
        match step {
            Step::Enter { entry, role } => match position.enter(state, visitor, &entry) {
                Ok(Entered::Existing) => visitor.enter(role),
                Ok(Entered::Absent) => {}
                Ok(Entered::Skipped) => walk.skip(),
                Err(failure) => {
                    visitor.problem(&position.path_of(&entry.name), failure);
                    walk.skip();
                }
            },
            Step::Item(entry) => {
                visitor.item(&position.path_of(&entry.name), position.place(), entry);
            }
            Step::Skipped(name) if position.absent == 0 => visitor.skipped(&name),
            Step::Skipped(_) => {}
            Step::Problem { path, error } => visitor.problem(&path, Failure::Snapshot(error)),
            Step::Leave => {
                if position.absent == 0 {
                    visitor.leave(walk, position.place().as_ref());
                }
                position.leave();
            }
        }
    }
}

/// The result of entering a folder.
enum Entered {
    Existing,
    Absent,
    Skipped,
}

/// The current folder of a visit.
struct Position {
    /// The folders that exist in the target.
    stack: Option<FolderStack<Arc<Folder>>>,
    /// The number of folders below them that do not exist.
    absent: usize,
    path: PathBuf,
}

impl Position {
    fn new(state: &RestoreState<'_>, target: Option<Handle>) -> Position {
        let stack = target.and_then(|handle| {
            let stat = rustix::fs::fstat(&handle).ok()?;
            let folder = existing(state, Arc::default());
            Some(FolderStack::new(handle, Identity::of(&stat), folder))
        });
        let absent = usize::from(stack.is_none());
        Position { stack, absent, path: PathBuf::new() }
    }

    fn path_of(&self, name: &[u8]) -> PathBuf {
        self.path.join(OsStr::from_bytes(name))
    }

    /// Returns the current folder, if it exists.
    fn place(&mut self) -> Option<Place> {
        let stack = self.stack.as_mut().filter(|_| self.absent == 0)?;
        let (folder, handle) = stack.top()?;
        Some(Place { folder: Arc::clone(folder), handle: handle?.clone() })
    }

    /// Enters the folder `entry`, unless the visitor skips it.
    fn enter(
        &mut self,
        state: &RestoreState<'_>,
        visitor: &mut dyn Visitor,
        entry: &Entry,
    ) -> Result<Entered, Failure> {
        let path = self.path_of(&entry.name);
        let place = self.place();
        let standing = match &place {
            None => Standing::Nothing,
            Some(place) => match folder::stat(&place.handle, &entry.name) {
                Err(Errno::NOENT) => Standing::Nothing,
                Err(error) => return Err(error.into()),
                Ok(stat) => match FileType::from_raw_mode(stat.st_mode) {
                    FileType::Directory => Standing::Folder,
                    _ => Standing::SomethingElse,
                },
            },
        };
        if !visitor.folder(&path, entry, standing) {
            return Ok(Entered::Skipped);
        }
        let (Some(place), Some(stack), Standing::Folder) = (place, &mut self.stack, standing)
        else {
            self.path = path;
            self.absent += 1;
            return Ok(Entered::Absent);
        };
        let handle = folder::open_best(&place.handle, &entry.name)?;
        let identity = Identity::of(&rustix::fs::fstat(&handle)?);
        let node = PathNode::below(&place.folder.path, &entry.name);
        stack.push(entry.name.clone(), handle, identity, existing(state, node));
        self.path = path;
        Ok(Entered::Existing)
    }

    fn leave(&mut self) {
        self.path.pop();
        if self.absent > 0 {
            self.absent -= 1;
        } else if let Some(stack) = &mut self.stack {
            stack.pop();
        }
    }
}

/// Returns a folder of the target that stays as it is.
fn existing(state: &RestoreState<'_>, path: Arc<PathNode>) -> Arc<Folder> {
    let restored = RestoredNames::new(state.options.overwrite);
    Arc::new(Folder { path, entry: None, made: false, inherits: false, restored })
}
