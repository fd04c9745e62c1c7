//! The walk through the snapshot: one thread creates the folders, in the order of the trees, and
//! sends everything else to the other threads.

use std::collections::HashMap;
use std::iter;
use std::sync::Arc;

use crossbeam_channel::Receiver;
use cutpoint_repository::format::recipe::Segment;
use cutpoint_repository::format::tree::check_name;
use cutpoint_repository::{Content, Entry, EntryKind, Time};
use cutpoint_storage::{Error, Result};
use rustix::fs::{AtFlags, FileType, Mode};
use rustix::io::Errno;

use super::ahead::{Ahead, Planned};
use super::file::{Buffer, NewFile, PIECE_SEGMENTS_MAX, Pieces, ends_in_hole, gather};
use super::job::{Job, Role};
use super::links::{Link, LinkOwner, Written};
use super::place::{EXISTS, Folder, PathNode, Place, Standing, TWIN, Taken};
use super::run::{Failure, Run, count};
use super::selection::{Choice, Selection};
use super::{Overwrite, PIECE_LEN, metadata};
use crate::source::folder::{self, Access, FolderStack, Handle, Identity};

/// A folder that is being filled, and the entries that remain.
struct Frame<'a> {
    folder: Arc<Folder>,
    entries: Box<dyn Iterator<Item = Result<Entry>> + 'a>,
    /// The previous name, because names must ascend.
    last: Option<Vec<u8>>,
    /// The node of the folder in the selection; `None` if everything in it is selected.
    way: Option<usize>,
}

/// The properties in which all names of one file agree. The inode number alone is not enough,
/// because it is reused when its file is deleted, and some file systems give the same number to
/// several files.
#[derive(PartialEq, Eq, Hash)]
struct LinkKey {
    device: u64,
    inode: u64,
    kind: EntryKind,
    mode: u32,
    user_id: u32,
    group_id: u32,
    user: String,
    group: String,
    mtime: Time,
    device_number: u64,
    size: u64,
    content: Content,
    xattrs: Vec<(Vec<u8>, Vec<u8>)>,
}

impl LinkKey {
    fn of(entry: &Entry) -> LinkKey {
        LinkKey {
            device: entry.device,
            inode: entry.inode,
            kind: entry.kind,
            mode: entry.mode,
            user_id: entry.user_id,
            group_id: entry.group_id,
            user: entry.user.clone(),
            group: entry.group.clone(),
            mtime: entry.mtime,
            device_number: entry.device_number,
            size: entry.size,
            content: entry.content.clone(),
            xattrs: entry.xattrs.clone(),
        }
    }
}

/// A file with names that are still to come.
struct Known {
    link: Arc<Link>,
    /// The number of names that may still come.
    rest: u64,
}

/// The walk through one tree.
pub(super) struct Walker<'r, 'a> {
    run: &'r Run<'a>,
    jobs: Ahead<'r>,
    selection: Selection,
    links: HashMap<LinkKey, Known>,
}

impl<'r, 'a> Walker<'r, 'a> {
    pub(super) fn new(run: &'r Run<'a>, jobs: Ahead<'r>, selection: Selection) -> Walker<'r, 'a> {
        Walker { run, jobs, selection, links: HashMap::new() }
    }

    /// Restores everything, or stops when the run stops. `made` says that the target is new.
    ///
    /// # Errors
    ///
    /// Returns an error if nothing can be read or entered at all.
    pub(super) fn walk(mut self, root: &Content, made: bool) -> Result<()> {
        let base = self.run.base.clone();
        let options = self.run.options;
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
            taken: Taken::new(options.overwrite),
        };
        let frame =
            Frame { folder: Arc::new(folder), entries: self.entries(root)?, last: None, way };
        let mut stack = FolderStack::new(base, Identity::of(&stat), frame);
        while !self.run.stopped() {
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
                        self.tell_defect(&place, &entry);
                    }
                    if let Some((name, handle, identity, frame)) = self.enter(place, entry, way) {
                        stack.push(name, handle, identity, frame);
                    }
                }
                Ok(Some((entry, None))) => {
                    let place = Place { folder: Arc::clone(&frame.folder), handle };
                    self.tell_defect(&place, &entry);
                    self.item(place, entry);
                }
                // Something other than a folder stands on the way to a selected path.
                Ok(Some((_, Some(_))) | None) => {}
                Err(error) => {
                    frame.entries = Box::new(iter::empty());
                    if let Some(way) = frame.way {
                        self.selection.settle(way);
                    }
                    let path = frame.folder.path.path();
                    self.run.fail(&path, &Failure::Snapshot(error.of("its tree")));
                }
            }
        }
        if !self.run.stopped() {
            let missing = Failure::Refused("not in the snapshot");
            self.selection.for_each_missing(|path| self.run.fail(path, &missing));
        }
        self.jobs.end(self.run.stopped());
        // Releases the deepest folder first, for the sake of long paths.
        while stack.pop().is_some() {}
        Ok(())
    }

    fn entries(&self, content: &Content) -> Result<Box<dyn Iterator<Item = Result<Entry>> + 'a>> {
        match content {
            Content::Empty => Ok(Box::new(iter::empty())),
            Content::Raw(_) => Err(Error::corrupt("", "a tree without chunks")),
            Content::Segments(_) | Content::Recipe(_) => self.run.reader.tree(content),
        }
    }

    /// Checks the order of the names and whether the entry is selected. Returns `None` if it is not
    /// selected. Otherwise, returns the entry, with its node in the selection if it is only on the
    /// way to a selected path.
    fn check(
        &mut self,
        frame: &mut Frame<'_>,
        entry: Entry,
    ) -> Result<Option<(Entry, Option<usize>)>> {
        check_name(&entry.name)?;
        if frame.last.as_ref().is_some_and(|last| *last >= entry.name) {
            let name = String::from_utf8_lossy(&entry.name);
            return Err(Error::corrupt("", format!("{name:?} is out of order or a duplicate")));
        }
        match &mut frame.last {
            Some(last) => last.clone_from(&entry.name),
            None => frame.last = Some(entry.name.clone()),
        }
        let Some(way) = frame.way else { return Ok(Some((entry, None))) };
        Ok(match self.selection.choose(way, &entry.name) {
            Choice::All => Some((entry, None)),
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
    ) -> Option<(Vec<u8>, Handle, Identity, Frame<'a>)> {
        let keeps_its_own = self.run.options.overwrite == Overwrite::Never || way.is_some();
        let made = self.make_folder(&place, &entry.name, keeps_its_own);
        let (handle, identity, made) = match made {
            Ok(made) => made,
            Err(failure) => {
                if let Some(way) = way {
                    self.selection.settle(way);
                }
                self.run.fail(&place.path(&entry), &failure);
                return None;
            }
        };
        let mut inherits = false;
        if made {
            count(&self.run.counts.made_folders, 1);
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
                self.selection.settle(way);
            }
            self.run.fail(&path.path(), &Failure::Snapshot(error.of("its tree")));
            Box::new(iter::empty())
        });
        let name = entry.name.clone();
        let entry = Some(entry).filter(|_| made || !keeps_its_own);
        let taken = Taken::new(self.run.options.overwrite);
        let folder = Arc::new(Folder { path, entry, made, inherits, taken });
        Some((name, handle, identity, Frame { folder, entries, last: None, way }))
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
                if place.folder.taken.has(Identity::of(&stat)) {
                    return Err(Failure::Refused(TWIN));
                }
                if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
                    false
                } else if self.run.options.overwrite == Overwrite::Never {
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
        place.folder.taken.insert(identity);
        if !made && !keeps_its_own && metadata::open_to_owner(&handle, &stat) {
            return Ok((folder::open_best(&handle, b".")?, identity, made));
        }
        Ok((handle, identity, made))
    }

    fn leave(&self, frame: Frame<'_>, handle: Option<Handle>) {
        match handle {
            Some(handle) => self.run.release(frame.folder, &handle),
            None => {
                let failure = Failure::Refused("the folder was moved or removed meanwhile");
                self.run.fail(&frame.folder.path.path(), &failure);
            }
        }
    }

    /// Warns of an entry that the snapshot does not hold as it was at the source.
    fn tell_defect(&self, place: &Place, entry: &Entry) {
        if let Some(defect) = entry.defect {
            self.run.warn(&place.path(entry), defect.message());
        }
    }

    /// Sends anything but a folder to the threads.
    fn item(&mut self, place: Place, entry: Entry) {
        let role = self.role(&entry);
        let large = entry.kind == EntryKind::File
            && entry.size > PIECE_LEN
            && !matches!(role, Role::Further(_));
        if large {
            let link = match role {
                Role::First(owner) => Some(owner),
                Role::Only | Role::Further(_) => None,
            };
            let Some((file, pieces)) = begin_large(self.run, place, entry, link) else { return };
            let file = Arc::new(file);
            for piece in pieces {
                match piece {
                    Ok(piece) => {
                        let segments = piece.segments.clone();
                        let job = Job::Piece { file: Arc::clone(&file), piece };
                        if self.run.stopped() || !self.jobs.send(job, &segments) {
                            break;
                        }
                    }
                    Err(error) => file.fail(Failure::Snapshot(error)),
                }
                if file.failed() {
                    break;
                }
            }
            release_file(self.run, file);
            return;
        }
        let segments = self.segments_ahead(&place, &entry, &role);
        self.jobs.send(Job::Item { place, entry, role }, &segments);
    }

    /// Returns the segments that a job for a file no larger than a piece will read, as far as they
    /// can be predicted.
    fn segments_ahead(&self, place: &Place, entry: &Entry, role: &Role) -> Vec<Segment> {
        let is_written = || match standing(self.run, place, entry) {
            Ok(Standing::Nothing | Standing::Replace) => true,
            Ok(Standing::Same(..) | Standing::Refused(_)) | Err(_) => false,
        };
        let is_read = self.jobs.is_planned()
            && entry.kind == EntryKind::File
            && !matches!(role, Role::Further(_))
            && is_written();
        match &entry.content {
            Content::Segments(segments) if is_read => segments.clone(),
            Content::Recipe(_) if is_read => match self.run.reader.segments(&entry.content) {
                // An error here is reported when the job reads the segments again.
                Ok(segments) => segments.map_while(Result::ok).take(PIECE_SEGMENTS_MAX).collect(),
                Err(_) => Vec::new(),
            },
            _ => Vec::new(),
        }
    }

    /// Returns the role of the name of `entry` among the names of its file.
    fn role(&mut self, entry: &Entry) -> Role {
        if !entry.is_hard_link() {
            return Role::Only;
        }
        let key = LinkKey::of(entry);
        if let Some(known) = self.links.get_mut(&key) {
            known.rest = known.rest.saturating_sub(1);
            let link = Arc::clone(&known.link);
            if known.rest == 0 {
                self.links.remove(&key);
            }
            return Role::Further(link);
        }
        let (link, owner) = LinkOwner::new();
        self.links.insert(key, Known { link, rest: entry.links - 1 });
        Role::First(owner)
    }
}

/// Does jobs until there are no more.
pub(super) fn work(run: &Run<'_>, jobs: &Receiver<Planned>) {
    let mut buffer = Buffer::default();
    // The step of the plan is held until the job is done.
    for (job, _step) in jobs {
        match job {
            Job::Item { place, entry, role } => item(run, place, entry, role, &mut buffer),
            Job::Piece { file, piece } => {
                file.write_piece(run, &piece, &mut buffer);
                release_file(run, file);
            }
        }
    }
}

fn release_file(run: &Run<'_>, file: Arc<NewFile>) {
    if let Some(file) = Arc::into_inner(file) {
        file.finish(run);
    }
}

/// Restores anything but a folder.
fn item(run: &Run<'_>, place: Place, entry: Entry, role: Role, buffer: &mut Buffer) {
    if run.stopped() {
        run.release(place.folder, &place.handle);
        return;
    }
    let link = match role {
        Role::Only => None,
        Role::First(owner) => Some(owner),
        Role::Further(link) => match link.wait() {
            Ok(written) => match make_link(run, &place, &entry, &written) {
                Ok(true) => {
                    run.release(place.folder, &place.handle);
                    return;
                }
                Ok(false) => None,
                Err(failure) => {
                    run.fail(&place.path(&entry), &failure);
                    run.release(place.folder, &place.handle);
                    return;
                }
            },
            Err(owner) => Some(owner),
        },
    };
    if entry.kind == EntryKind::File && entry.size > PIECE_LEN {
        if let Some((file, pieces)) = begin_large(run, place, entry, link) {
            for piece in pieces {
                match piece {
                    Ok(piece) => file.write_piece(run, &piece, buffer),
                    Err(error) => file.fail(Failure::Snapshot(error)),
                }
                if file.failed() || run.stopped() {
                    break;
                }
            }
            file.finish(run);
        }
        return;
    }
    let standing = match standing(run, &place, &entry) {
        Ok(Standing::Same(identity, names)) => {
            unchanged(run, place, &entry, link, identity, names);
            return;
        }
        Ok(Standing::Refused(reason)) => Err(Failure::Refused(reason)),
        Ok(standing) => Ok(standing),
        Err(failure) => Err(failure),
    };
    match (standing, entry.kind) {
        (Ok(standing), EntryKind::File) => small_file(run, place, entry, standing, link, buffer),
        (Ok(standing), _) => {
            match make_special(run, &place, &entry, &standing) {
                Ok(identity) => {
                    let counter = match entry.kind {
                        EntryKind::Symlink => &run.counts.made_symlinks,
                        _ => &run.counts.made_specials,
                    };
                    count(counter, 1);
                    done(&place, &entry, link, identity);
                }
                Err(failure) => run.fail(&place.path(&entry), &failure),
            }
            run.release(place.folder, &place.handle);
        }
        (Err(failure), _) => {
            run.fail(&place.path(&entry), &failure);
            run.release(place.folder, &place.handle);
        }
    }
}

fn standing(run: &Run<'_>, place: &Place, entry: &Entry) -> std::result::Result<Standing, Failure> {
    Ok(place.standing(entry, run.options.overwrite)?)
}

/// Counts an entry that stays as it is.
fn unchanged(
    run: &Run<'_>,
    place: Place,
    entry: &Entry,
    link: Option<LinkOwner>,
    identity: Identity,
    names: u64,
) {
    // An entry with several names may also stand in the place of another of them.
    if names == 1 {
        place.folder.taken.insert(identity);
    }
    count(&run.counts.unchanged_entries, 1);
    if entry.kind == EntryKind::File {
        run.monitor.progress(1, entry.size);
    }
    done(&place, entry, link, identity);
    run.release(place.folder, &place.handle);
}

/// Passes the place of this name on to the other names of the file.
fn done(place: &Place, entry: &Entry, link: Option<LinkOwner>, identity: Identity) {
    if let Some(link) = link {
        let folder = Arc::clone(&place.folder.path);
        link.done(Written { folder, name: entry.name.clone(), identity });
    }
}

/// Creates a file larger than a piece. Returns `None` if there is nothing to write, because the
/// entry is unchanged or has failed; both are handled here.
fn begin_large<'a>(
    run: &Run<'a>,
    place: Place,
    entry: Entry,
    link: Option<LinkOwner>,
) -> Option<(NewFile, Pieces<'a>)> {
    let begin = || {
        if matches!(entry.content, Content::Raw(_)) {
            return Err(Error::corrupt("", "a large file without chunks").into());
        }
        match standing(run, &place, &entry)? {
            Standing::Refused(reason) => Err(Failure::Refused(reason)),
            standing => Ok((standing, Pieces::open(run.reader, &entry)?)),
        }
    };
    let failed = |place: Place, entry: &Entry, failure: &Failure| {
        run.fail(&place.path(entry), failure);
        run.release(place.folder, &place.handle);
    };
    match begin() {
        Ok((Standing::Same(identity, names), _)) => {
            unchanged(run, place, &entry, link, identity, names);
            None
        }
        Ok((standing, pieces)) => match NewFile::create(run, place, entry, standing, link) {
            Ok(file) => {
                file.set_size();
                Some((file, pieces))
            }
            Err(not_made) => {
                let (place, entry, failure) = *not_made;
                failed(place, &entry, &failure);
                None
            }
        },
        Err(failure) => {
            failed(place, &entry, &failure);
            None
        }
    }
}

/// Restores a file no larger than a piece.
fn small_file(
    run: &Run<'_>,
    place: Place,
    entry: Entry,
    standing: Standing,
    link: Option<LinkOwner>,
    buffer: &mut Buffer,
) {
    let gathered = gather(run, &entry, buffer).map_err(Failure::from);
    let file = match gathered {
        Ok(()) => NewFile::create(run, place, entry, standing, link),
        Err(failure) => Err(Box::new((place, entry, failure))),
    };
    match file {
        Ok(file) => {
            if ends_in_hole(&file.entry, buffer) {
                file.set_size();
            }
            file.write(run, buffer);
            file.finish(run);
        }
        Err(not_made) => {
            let (place, entry, failure) = *not_made;
            run.fail(&place.path(&entry), &failure);
            run.release(place.folder, &place.handle);
        }
    }
}

/// Makes `entry` another name of `written`. Returns `false` if that is impossible; everything is as
/// before then.
fn make_link(
    run: &Run<'_>,
    place: &Place,
    entry: &Entry,
    written: &Written,
) -> std::result::Result<bool, Failure> {
    let standing = standing(run, place, entry)?;
    match standing {
        Standing::Refused(reason) => return Err(Failure::Refused(reason)),
        Standing::Same(identity, _) if identity == written.identity => {
            count(&run.counts.unchanged_entries, 1);
            return Ok(true);
        }
        Standing::Same(..) | Standing::Nothing | Standing::Replace => {}
    }
    // The existing file is separate, although it is the same, and is replaced by a name of the
    // other.
    let standing = if standing == Standing::Nothing { standing } else { Standing::Replace };
    match link(run, place, entry, &standing, written) {
        Ok(()) => {
            count(&run.counts.linked_names, 1);
            if entry.kind == EntryKind::File {
                run.monitor.progress(1, entry.size);
            }
            Ok(true)
        }
        Err(Errno::EXIST) => Err(Failure::Refused(EXISTS)),
        Err(error) => {
            let first = written.folder.join(&written.name);
            let message = format!("no hard link to {}, copied instead: {error}", first.display());
            run.warn(&place.path(entry), &message);
            Ok(false)
        }
    }
}

fn link(
    run: &Run<'_>,
    place: &Place,
    entry: &Entry,
    standing: &Standing,
    written: &Written,
) -> Result<(), Errno> {
    let mut folder = run.base.clone();
    for name in written.folder.names() {
        folder = folder::open(&folder, name, Access::Pass)
            .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    }
    let old_name = written.name.as_slice();
    place.make(&entry.name, standing, |name| {
        rustix::fs::linkat(&folder, old_name, &place.handle, name, AtFlags::empty())?;
        // Another process with write access could have put a different file in the place of the
        // first name.
        let stat = folder::stat(&place.handle, name)?;
        if Identity::of(&stat) != written.identity {
            place.remove(name, Identity::of(&stat));
            return Err(Errno::STALE);
        }
        Ok(())
    })
}

/// Creates a symbolic link, a device, a pipe or a socket.
fn make_special(
    run: &Run<'_>,
    place: &Place,
    entry: &Entry,
    standing: &Standing,
) -> std::result::Result<Identity, Failure> {
    let handle = &place.handle;
    let node = |name: &[u8], file_type| {
        let device = match file_type {
            FileType::CharacterDevice | FileType::BlockDevice => {
                let [major, minor] = [entry.device_number >> 32, entry.device_number & 0xffff_ffff];
                let part = |number: u64| u32::try_from(number).map_err(|_| Errno::INVAL);
                rustix::fs::makedev(part(major)?, part(minor)?)
            }
            _ => 0,
        };
        rustix::fs::mknodat(handle, name, file_type, Mode::RUSR | Mode::WUSR, device)
    };
    let target = match &entry.content {
        Content::Raw(target) if !target.contains(&0) => target.as_slice(),
        _ if entry.kind == EntryKind::Symlink => {
            return Err(Error::corrupt("", "a symbolic link without a target").into());
        }
        _ => &[],
    };
    let made = place.make(&entry.name, standing, |name| match entry.kind {
        EntryKind::Symlink => rustix::fs::symlinkat(target, handle, name),
        EntryKind::CharDevice => node(name, FileType::CharacterDevice),
        EntryKind::BlockDevice => node(name, FileType::BlockDevice),
        EntryKind::Fifo => node(name, FileType::Fifo),
        EntryKind::Socket => node(name, FileType::Socket),
        EntryKind::File | EntryKind::Folder => Err(Errno::INVAL),
    });
    let name = entry.name.as_slice();
    match made {
        Ok(()) => {}
        Err(Errno::EXIST) => return Err(Failure::Refused(EXISTS)),
        Err(Errno::PERM)
            if matches!(entry.kind, EntryKind::CharDevice | EntryKind::BlockDevice) =>
        {
            return Err(Failure::Refused("a device, which only root can create"));
        }
        Err(error) => return Err(error.into()),
    }
    metadata::set_named(&run.owners, handle, entry, place.folder.inherits, &mut |message| {
        run.warn(&place.path(entry), &message);
    });
    Ok(Identity::of(&folder::stat(handle, name)?))
}
