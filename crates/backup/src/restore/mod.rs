//! Restore: from a snapshot to files.
//!
//! # Restored files
//!
//! A restored file has the bytes, the size, the modification time, the permission bits, the
//! extended attributes (which include POSIX ACLs) and, on request, the owner and group of the
//! original. Holes stay holes, and stored runs of zeros become holes, too. The size and the bytes
//! are the same then, but the file may take less space. Several names of one file become hard links
//! again. The access time, the inode number, and the time of the last metadata change are set by
//! the system.
//!
//! # Hostile snapshots
//!
//! Whatever the trees of a snapshot say, a restore neither writes nor reads anything outside of the
//! target. Names are checked, every system call names one component below an open folder, and no
//! symbolic link is followed, whether it existed before or comes from the snapshot itself. A tree
//! is rejected from the first name that is out of ascending order, so no name is restored twice.
//!
//! # Failures
//!
//! A file with a damaged or missing chunk is not restored at all: the problem is reported and
//! counted, and the restore continues with the other files. A file of up to [`PIECE_LEN`] bytes is
//! created once all of its bytes are in memory. A larger file gets its name once it is complete. On
//! a file system without nameless files, a larger file is written under a name and removed if it
//! fails. A file that is replaced stays in place until the new one is complete.
//!
//! A full target ends the restore, because nothing else would fit either. A file that exceeds the
//! limits of the target's file system or of the process is a problem of that file alone.

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
use cutpoint_repository::format::recipe::Segment;
use cutpoint_repository::read::Plan;
use cutpoint_repository::{Content, Entry, Fingerprint};
use cutpoint_storage::{Error, Kind, Result};
use rustix::fs::{Mode, OFlags};

use self::ahead::Ahead;
use self::run::Run;
use self::selection::Selection;
use self::walker::Walker;
use crate::source::Handle;

/// The size in bytes above which a file is written in pieces of about this size, several of them in
/// parallel.
pub const PIECE_LEN: u64 = 8 << 20;

/// The default of [`RestoreOptions::plan_bytes_max`], in bytes.
const PLAN_BYTES_MAX: usize = 48 << 20;

/// The maximum number of jobs that wait for each thread. Each job can keep a folder of the target
/// open.
const JOBS_PER_THREAD: usize = 16;

/// Restores the tree `root` of a snapshot into the folder `target`, which is created if it does not
/// exist. The entries of the tree become entries of `target`. The target itself gets the metadata
/// of [`RestoreOptions::folder`] if it is created or may be overwritten.
///
/// An entry that cannot be restored is reported to `monitor` and counted in
/// [`RestoreStats::failed_entries`]; the restore continues with the others.
///
/// # Errors
///
/// Returns `Interrupted` if the monitor cancels the restore. Everything restored until then stays,
/// and [`Overwrite::Changed`] can complete it. Returns `Full` if the target is full, `Invalid` if a
/// path of the selection contains `..`, and `Storage` if the target cannot be used. Returns any error
/// that makes the root of the snapshot unreadable.
///
/// # Panics
///
/// Panics if the reader or the monitor panics.
pub fn restore(
    reader: &dyn SnapshotReader,
    root: &Content,
    target: &Path,
    options: &RestoreOptions,
    monitor: &dyn RestoreMonitor,
) -> Result<RestoreStats> {
    let selection = Selection::new(&options.selection)?;
    let (base, made) = open_target(target, options.folder.is_some())
        .map_err(|error| Error::new(Kind::Storage, target.display(), &error).with_source(error))?;
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
        // The fetchers end when everything is restored, or when this thread panics.
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

/// Ends a plan when dropped.
struct Ending<'a>(&'a Plan<'a>);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// Opens `target`, which may be a symbolic link to a folder. Also returns `true` if it was created.
/// With `private`, a new folder is accessible to its owner only, until it gets metadata of its own.
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

/// The source of a restore: a reader of one snapshot's trees, recipes and chunks.
pub trait SnapshotReader: Sync {
    /// Returns the entries of the folder with the content `content`, which is not `Raw`.
    ///
    /// # Errors
    ///
    /// Returns an error at the start, or yields one in place of an entry. The caller does not ask
    /// for the entries after an error.
    fn tree<'a>(
        &'a self,
        content: &Content,
    ) -> Result<Box<dyn Iterator<Item = Result<Entry>> + 'a>>;

    /// Returns the segments of the file with the content `content`, in order. `content` is a
    /// `Recipe`, because the other kinds need no reader.
    ///
    /// # Errors
    ///
    /// Returns an error at the start, or yields one in place of a segment. The caller does not ask
    /// for the segments after an error.
    fn segments<'a>(
        &'a self,
        content: &Content,
    ) -> Result<Box<dyn Iterator<Item = Result<Segment>> + 'a>>;

    /// Returns the verified bytes of the data chunk `fingerprint`. Called from several threads at
    /// once.
    ///
    /// # Errors
    ///
    /// Returns `Corrupt`, `Missing` or `Storage`. The file that needs the chunk fails, and the others
    /// are restored.
    fn chunk(&self, fingerprint: &Fingerprint) -> Result<Bytes>;

    /// Returns a plan, which learns in advance which chunks will be requested and may hold up to
    /// `bytes_max` bytes for them. Without a plan, each chunk is read when it is requested.
    fn plan(&self, bytes_max: usize) -> Option<Plan<'_>> {
        let _ = bytes_max;
        None
    }
}

/// Receives the events of a restore. All methods can be called from several threads at once.
pub trait RestoreMonitor: Sync {
    /// Reports progress: the numbers of files and bytes of files completed since the last call.
    fn progress(&self, files: u64, bytes: u64) {
        let _ = (files, bytes);
    }

    /// Reports that `path` of the snapshot was not restored, or was left as it was. Each path is
    /// reported once.
    fn problem(&self, path: &Path, message: &str) {
        let _ = (path, message);
    }

    /// Reports that `path` of the snapshot was restored, but lacks something, such as an attribute
    /// or an owner.
    fn warning(&self, path: &Path, message: &str) {
        let _ = (path, message);
    }

    /// Returns `true` if the restore is to stop. Called often.
    fn cancelled(&self) -> bool {
        false
    }
}

/// The monitor that ignores every event.
impl RestoreMonitor for () {}

/// The treatment of entries that already exist in the target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overwrite {
    /// An existing entry stays as it is and is reported as a problem. A folder is entered, but
    /// keeps its own metadata.
    #[default]
    Never,
    /// An entry of the same kind, size and modification time (for a symbolic link: of the same
    /// target) stays as it is and is counted. Everything else is replaced, as by `Replace`. This
    /// continues an interrupted restore.
    Changed,
    /// A new file takes the place of the existing one, so other names of the existing file and the
    /// target of a symbolic link stay unchanged. The existing entry stays until the new one is
    /// complete. (A restore that is killed can leave a file `.cutpoint-restore-PROCESS-N` beside
    /// it.) A folder is entered and gets the metadata of the snapshot. A folder in the place of
    /// something else is never removed, but reported as a problem.
    Replace,
}

/// Options of a restore.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoreOptions {
    /// The number of threads that write files; 0 stands for as many as the machine has.
    pub threads: usize,
    /// The maximum number of decoded bytes held because they will be needed soon. A smaller value
    /// causes repeated reads and has no other effect.
    pub plan_bytes_max: usize,
    /// The treatment of entries that already exist in the target.
    pub overwrite: Overwrite,
    /// Sets owners and groups.
    pub owners: bool,
    /// Takes owners and groups by their ids alone. Otherwise, they are found by name, and by id if
    /// this system does not know the name.
    pub numeric_owners: bool,
    /// The paths in the snapshot to restore, each with everything below it; an empty list selects
    /// the whole snapshot. Each path begins at the root of the snapshot, with or without a `/`.
    /// Folders on the way to a selected path are created with their metadata, and left as they are
    /// if they exist.
    pub selection: Vec<PathBuf>,
    /// The folder that has `root` as its content, if there is one. The target gets its metadata.
    pub folder: Option<Entry>,
}

impl Default for RestoreOptions {
    /// Restores the whole snapshot, overwrites nothing, and sets owners if the caller is root.
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

/// The result of a restore.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RestoreStats {
    /// The number of files written.
    pub written_files: u64,
    /// The number of bytes of these files, including holes.
    pub written_bytes: u64,
    /// The number of further names given to files, symbolic links or other entries restored before.
    pub linked_names: u64,
    /// The number of folders created.
    pub made_folders: u64,
    /// The number of symbolic links created.
    pub made_symlinks: u64,
    /// The number of devices, pipes and sockets created.
    pub made_specials: u64,
    /// The number of existing entries found unchanged, with [`Overwrite::Changed`].
    pub unchanged_entries: u64,
    /// The number of entries that could not be restored, or were not restored because of what stood
    /// in their place. A folder counts once, with everything below it.
    pub failed_entries: u64,
    /// The number of warnings: entries that were restored, but lack something.
    pub warnings: u64,
}
