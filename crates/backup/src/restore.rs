//! From a snapshot to files.
//!
//! # What a restored file is like
//!
//! It has the bytes, the size, the time of the last change, the permission bits, the extended
//! attributes (POSIX ACLs are such), and, on request, the owner and group of the original. Holes
//! stay holes, and runs of zeros that were stored become holes too: the size and the bytes are
//! the same, the space that it takes may be less. Several names of one file are made so again.
//! The time of the last access, the inode number, and the time of the last change of metadata
//! are the system's own.
//!
//! # What a snapshot cannot do
//!
//! Whatever its trees say, nothing outside of the target is written, nor read: names are checked,
//! every system call has one name below an open folder, and no symbolic link is followed, whether
//! it was there before or comes from the snapshot itself. A tree whose names are not in rising
//! order is refused from there on, so no name is restored twice.
//!
//! # What a failure leaves
//!
//! A file of which a chunk is damaged or missing is not restored at all: it is named and counted,
//! the others follow. Files of up to [`PIECE_LEN`] bytes are created once all of their bytes are
//! at hand, larger ones get their name once they are complete; where the file system has no
//! nameless files, they are written under their name and removed if they fail. A file that is
//! replaced is removed last, but where a large file is written under its name, first.
//!
//! A full target ends the restore, since nothing else would fit either. A file that is larger than
//! the target's file system or a limit of the process allows is a problem of that file alone.

mod ahead;
mod file;
mod job;
mod links;
mod metadata;
mod place;
mod run;
mod selection;
mod walker;

use std::num::NonZero;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use cutpoint_store::error::{Error, Kind, Result};
use cutpoint_store::fingerprint::Fingerprint;
use cutpoint_store::format::recipe::{Content, Segment};
use cutpoint_store::format::tree::Entry;
use cutpoint_store::reader::Plan;
use rustix::fs::{Mode, OFlags};

use self::ahead::Ahead;
use self::run::Run;
use self::selection::Selection;
use self::walker::Walker;
use crate::files::Handle;

/// Larger files than this, in bytes, are written in pieces of about this size, several at once.
pub const PIECE_LEN: u64 = 8 << 20;

/// How much a restore holds of what it will need soon, if it is told nothing else, in bytes.
const PLAN_BYTES_MAX: usize = 48 << 20;

/// So many jobs wait at most for each thread. Each can keep a folder of the target open.
const JOBS_PER_THREAD: usize = 16;

/// Restores the tree `root` of a snapshot into the folder `target`, which is made if it does not
/// exist. The tree's entries come to lie directly in `target`, which itself gets the metadata of
/// [`RestoreOptions::folder`] where it is made, or may be overwritten.
///
/// What cannot be restored is told to `monitor` and counted, and the rest is restored; look at
/// [`RestoreStats::failed_entries`].
///
/// # Errors
///
/// `Interrupted` when the monitor wants it: what was restored until then stays, and can be
/// completed with [`Overwrite::Changed`]. `Full` when the target is. `Invalid` for a selection
/// with `..` in it; `Media` for a target that cannot be used; and whatever makes the root of the
/// snapshot unreadable.
///
/// # Panics
///
/// If the reader or the monitor does.
pub fn restore(
    reader: &dyn SnapshotReader,
    root: &Content,
    target: &Path,
    options: &RestoreOptions,
    monitor: &dyn RestoreMonitor,
) -> Result<RestoreStats> {
    let selection = Selection::new(&options.selection)?;
    let (base, made) = open_target(target, options.folder.is_some())
        .map_err(|error| Error::new(Kind::Media, target.display(), &error).with_source(error))?;
    let run = Run::new(reader, options, monitor, base);
    let threads = match options.threads {
        0 => std::thread::available_parallelism().map_or(1, NonZero::get),
        threads => threads,
    };
    let queue_len = (threads * JOBS_PER_THREAD).min(256);
    let plan = reader.plan(options.plan_bytes_max);
    let (sender, receiver) = crossbeam_channel::bounded(queue_len);
    std::thread::scope(|fetchers| {
        let plan = plan.as_ref();
        if let Some(plan) = plan {
            for _ in 0..plan.fetcher_count() {
                fetchers.spawn(|| plan.fetch());
            }
        }
        // They end when all is restored, or when this panics.
        let _ending = plan.map(Ending);
        std::thread::scope(|scope| {
            for _ in 0..threads {
                let (run, receiver) = (&run, receiver.clone());
                scope.spawn(move || walker::work(run, &receiver));
            }
            drop(receiver);
            Walker::new(&run, Ahead::new(plan, sender), selection).walk(root, made)
        })
    })?;
    run.finish()
}

/// Ends a plan.
struct Ending<'a>(&'a Plan<'a>);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// Opens `target`; it may be a symbolic link to a folder. Returns whether it was made: if it is to
/// get metadata of its own, nobody else may look into it until then.
fn open_target(target: &Path, private: bool) -> std::io::Result<(Handle, bool)> {
    let made = !target.exists();
    if made && private {
        if let Some(parent) = target.parent() {
            std::fs::create_dir_all(parent)?;
        }
        std::fs::DirBuilder::new().mode(0o700).create(target)?;
    } else {
        std::fs::create_dir_all(target)?;
    }
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
    let fd = rustix::fs::open(target, flags | OFlags::RDONLY, Mode::empty())
        .or_else(|_| rustix::fs::open(target, flags | OFlags::PATH, Mode::empty()))?;
    Ok((Handle::from(fd), made))
}

/// What a restore reads from.
pub trait SnapshotReader: Sync {
    /// The entries of the folder whose content is `content`, which is not `Raw`.
    ///
    /// # Errors
    ///
    /// At the start, or in place of an entry: the entries after it are not asked for.
    fn tree<'a>(
        &'a self,
        content: &Content,
    ) -> Result<Box<dyn Iterator<Item = Result<Entry>> + 'a>>;

    /// The segments of the file whose content is `content`, in order; `content` is a `Recipe`,
    /// since all others need no reader.
    ///
    /// # Errors
    ///
    /// At the start, or in place of a segment: the segments after it are not asked for.
    fn segments<'a>(
        &'a self,
        content: &Content,
    ) -> Result<Box<dyn Iterator<Item = Result<Segment>> + 'a>>;

    /// The verified bytes of the data chunk `fingerprint`. Called from several threads at once.
    ///
    /// # Errors
    ///
    /// `Corrupt`, `Missing` or `Media`: the file that needs it fails, the others are restored.
    fn chunk(&self, fingerprint: &Fingerprint) -> Result<Bytes>;

    /// A plan that is told ahead which chunks will be asked for, and may hold so many bytes for
    /// that. Without one each chunk is read when it is asked for.
    fn plan(&self, bytes_max: usize) -> Option<Plan<'_>> {
        let _ = bytes_max;
        None
    }
}

/// Hears of what a restore does. All methods can be called from several threads at once.
pub trait RestoreMonitor: Sync {
    /// So many more files and bytes of files are done.
    fn progress(&self, files: u64, bytes: u64) {
        let _ = (files, bytes);
    }

    /// `path` of the snapshot is not restored, or was left as it was. Each is reported once.
    fn problem(&self, path: &Path, message: &str) {
        let _ = (path, message);
    }

    /// `path` of the snapshot is restored, but lacks something: an attribute, an owner.
    fn warning(&self, path: &Path, message: &str) {
        let _ = (path, message);
    }

    /// Whether to stop. Asked often.
    fn cancelled(&self) -> bool {
        false
    }
}

/// A monitor that hears nothing.
impl RestoreMonitor for () {}

/// What to do where the target has something already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overwrite {
    /// It stays as it is, and is a problem; a folder is entered, but keeps its own metadata.
    #[default]
    Never,
    /// What is of the same kind, size and time (a symbolic link: target) stays as it is and is
    /// counted; all else is replaced, as by `Replace`. This continues an interrupted restore.
    Changed,
    /// Another takes its place, so that its other names and what a symbolic link leads to stay as
    /// they are; it stays itself until the other is whole. (A restore that is killed may leave a
    /// file `.cutpoint-restore-PROCESS-N` beside it.) A folder is entered and gets the snapshot's
    /// metadata.
    /// A folder in the place of something else is never removed: that is a problem.
    Replace,
}

/// How to restore.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoreOptions {
    /// How many threads write files; 0 is as many as the machine has.
    pub threads: usize,
    /// How much is held of what will be needed soon, in bytes, decoded. Less has things read more often;
    /// it makes no other difference.
    pub plan_bytes_max: usize,
    /// What to do where the target has something already.
    pub overwrite: Overwrite,
    /// Whether to set owners and groups.
    pub owners: bool,
    /// Whether owners and groups are found by their ids alone. Else by their names, and by their
    /// ids where this system does not know the name.
    pub numeric_owners: bool,
    /// Paths in the snapshot, to be restored with all that is below them; none means all. Each
    /// begins at the root of the snapshot, with or without a `/`. Folders on the way are made
    /// with their metadata, and left as they are where they exist.
    pub selection: Vec<PathBuf>,
    /// The folder of which `root` is the content, if it is one: its metadata is the target's.
    pub folder: Option<Entry>,
}

impl Default for RestoreOptions {
    /// All of the snapshot, overwriting nothing, with owners if the caller is root.
    fn default() -> RestoreOptions {
        RestoreOptions {
            threads: 0,
            plan_bytes_max: PLAN_BYTES_MAX,
            overwrite: Overwrite::Never,
            owners: rustix::process::geteuid().is_root(),
            numeric_owners: false,
            selection: Vec::new(),
            folder: None,
        }
    }
}

/// What a restore did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RestoreStats {
    /// Files written.
    pub written_files: u64,
    /// Bytes of these files, holes included.
    pub written_bytes: u64,
    /// Further names of files, symbolic links or others that had been restored.
    pub linked_names: u64,
    /// Folders made.
    pub made_folders: u64,
    /// Symbolic links made.
    pub made_symlinks: u64,
    /// Devices, pipes and sockets made.
    pub made_specials: u64,
    /// Things that were there and unchanged, with [`Overwrite::Changed`].
    pub unchanged_entries: u64,
    /// What could not be restored, or was not for what stood in its place; a folder counts once,
    /// with all below it.
    pub failed_entries: u64,
    /// What was restored, but lacks something.
    pub warnings: u64,
}
