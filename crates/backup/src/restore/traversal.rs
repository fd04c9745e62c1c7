//! The traversal of a snapshot: one thread creates the folders, in the order of the trees, and
//! sends everything else to the workers.

use std::iter;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use cutpoint_repository::format::tree::check_name;
use cutpoint_repository::{Content, Entry, EntryKind, name_text};
use cutpoint_storage::{Error, Result};
use rustix::fs::{AtFlags, FileType, Mode};
use rustix::io::Errno;

use super::dispatcher::Dispatcher;
use super::failure::Failure;
use super::metadata;
use super::options::Overwrite;
use super::place::{EXISTS, Folder, PathNode, Place, RestoredNames, TWIN};
use super::restore_state::{RestoreState, count};
use super::selection::{Choice, Selection};
use crate::source::folder::{self, Access, FolderStack, Handle, Identity};

/// A folder that is being filled, and the entries that remain.
struct FolderEntries<'a> {
    folder: Arc<Folder>,
    entries: Box<dyn Iterator<Item = Result<Entry>> + 'a>,
    /// The previous name, because names must ascend.
    last: Option<Vec<u8>>,
    /// The node of the folder in the selection; `None` if everything in it is selected.
    way: Option<usize>,
}

/// The traversal of one tree.
pub(super) struct Traversal<'r, 'a> {
    state: &'r RestoreState<'a>,
    dispatcher: Dispatcher<'r, 'a>,
    selection: Selection,
}

impl<'r, 'a> Traversal<'r, 'a> {
    pub(super) fn new(
        state: &'r RestoreState<'a>,
        dispatcher: Dispatcher<'r, 'a>,
        selection: Selection,
    ) -> Traversal<'r, 'a> {
        Traversal { state, dispatcher, selection }
    }

    /// Restores everything, or ends early when the restore is stopped. `made` says that the target
    /// is new.
    ///
    /// # Errors
    ///
    /// Returns an error if nothing can be read or entered at all.
    pub(super) fn traverse(mut self, root: &Content, made: bool) -> Result<()> {
        let base = self.state.base.clone();
        let options = self.state.options;
        let way = self.selection.root();
        let keeps_its_own = !made && (options.overwrite == Overwrite::Never || way.is_some());
        if made && options.folder.is_some() {
            metadata::remove_acls(&base);
        }
        let stat = rustix::fs::fstat(&base)
            .map_err(|error| Error::invalid("target", error).with_source(error))?;
        let folder = Folder {
            path: Arc::default(),
            entry: options.folder.clone().filter(|_| !keeps_its_own),
            made,
            inherits: metadata::has_default_acl(&base),
            restored: RestoredNames::new(options.overwrite),
        };
        let frame = FolderEntries {
            folder: Arc::new(folder),
            entries: self.entries(root)?,
            last: None,
            way,
        };
        let mut stack = FolderStack::new(base, Identity::of(&stat), frame);
        while !self.state.stopped() {
            let Some((frame, handle)) = stack.top() else { break };
            let handle = handle.cloned();
            let (next, handle) = match (frame.entries.next(), handle) {
                (Some(next), Some(handle)) => (next, handle),
                (None, _) => {
                    if let Some((frame, handle)) = stack.pop() {
                        self.leave(frame, handle);
                    }
                    continue;
                }
                (Some(_), None) => {
                    frame.entries = Box::new(iter::empty());
                    continue;
                }
            };
            match next.and_then(|entry| self.check(frame, entry)) {
                Ok(Some((entry, way))) if entry.kind == EntryKind::Folder => {
                    let place = Place { folder: Arc::clone(&frame.folder), handle };
                    // Defects of a folder on the way to the selection say nothing about the
                    // selected paths.
                    if way.is_none() {
                        self.warn_of_defect(&place, &entry);
                    }
                    if let Some((name, handle, identity, frame)) = self.enter(place, entry, way) {
                        stack.push(name, handle, identity, frame);
                    }
                }
                Ok(Some((entry, None))) => {
                    let place = Place { folder: Arc::clone(&frame.folder), handle };
                    self.warn_of_defect(&place, &entry);
                    self.dispatcher.send(place, entry);
                }
                // Something other than a folder stands on the way to a selected path.
                Ok(Some((_, Some(_))) | None) => {}
                Err(error) => {
                    frame.entries = Box::new(iter::empty());
                    if let Some(way) = frame.way {
                        self.selection.mark_found(way);
                    }
                    let path = frame.folder.path.path();
                    self.state.fail(&path, &Failure::Snapshot(error.of("its tree")));
                }
            }
        }
        if !self.state.stopped() {
            let missing = Failure::Refused("not in the snapshot");
            self.selection.for_each_missing(|path| self.state.fail(path, &missing));
        }
        self.dispatcher.end();
        // Releases the deepest folder first, for the sake of long paths.
        while stack.pop().is_some() {}
        Ok(())
    }

    fn entries(&self, content: &Content) -> Result<Box<dyn Iterator<Item = Result<Entry>> + 'a>> {
        match content {
            Content::Empty => Ok(Box::new(iter::empty())),
            Content::Raw(_) => Err(Error::corrupt("", "a tree without chunks")),
            Content::Segments(_) | Content::Recipe(_) => self.state.reader.tree(content),
        }
    }

    /// Checks the order of the names and whether the entry is selected. Returns `None` if it is not
    /// selected. Otherwise, returns the entry, with its node in the selection if it is only on the
    /// way to a selected path.
    fn check(
        &mut self,
        frame: &mut FolderEntries<'_>,
        mut entry: Entry,
    ) -> Result<Option<(Entry, Option<usize>)>> {
        check_name(&entry.name)?;
        if frame.last.as_ref().is_some_and(|last| *last >= entry.name) {
            let name = name_text(&entry.name);
            return Err(Error::corrupt("", format!("name {name}: out of order or a duplicate")));
        }
        match &mut frame.last {
            Some(last) => last.clone_from(&entry.name),
            None => frame.last = Some(entry.name.clone()),
        }
        let Some(way) = frame.way else { return Ok(Some((entry, None))) };
        Ok(match self.selection.choose(way, &entry.name) {
            Choice::All => {
                if let Some(name) = &self.state.options.new_name {
                    entry.name = name.as_bytes().to_vec();
                }
                Some((entry, None))
            }
            Choice::Way(way) => Some((entry, Some(way))),
            Choice::Skip => None,
            Choice::End => {
                frame.entries = Box::new(iter::empty());
                None
            }
        })
    }

    /// Creates or enters the folder `entry`. Returns `None` if that fails, which is reported.
    fn enter(
        &mut self,
        place: Place,
        mut entry: Entry,
        way: Option<usize>,
    ) -> Option<(Vec<u8>, Handle, Identity, FolderEntries<'a>)> {
        let keeps_its_own = self.state.options.overwrite == Overwrite::Never || way.is_some();
        let made = self.make_folder(&place, &entry.name, keeps_its_own);
        let (handle, identity, made) = match made {
            Ok(made) => made,
            Err(failure) => {
                if let Some(way) = way {
                    self.selection.mark_found(way);
                }
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
        let content = std::mem::replace(&mut entry.content, Content::Empty);
        let entries = self.entries(&content).unwrap_or_else(|error| {
            if let Some(way) = way {
                self.selection.mark_found(way);
            }
            self.state.fail(&path.path(), &Failure::Snapshot(error.of("its tree")));
            Box::new(iter::empty())
        });
        let name = entry.name.clone();
        let entry = Some(entry).filter(|_| made || !keeps_its_own);
        let restored = RestoredNames::new(self.state.options.overwrite);
        let folder = Arc::new(Folder { path, entry, made, inherits, restored });
        Some((name, handle, identity, FolderEntries { folder, entries, last: None, way }))
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

    fn leave(&self, frame: FolderEntries<'_>, handle: Option<Handle>) {
        match handle {
            Some(handle) => self.state.release(frame.folder, &handle),
            None => {
                let failure = Failure::Refused("the folder was moved or removed meanwhile");
                self.state.fail(&frame.folder.path.path(), &failure);
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
