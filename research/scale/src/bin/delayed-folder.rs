//! Shows a folder as a file system that answers each request after a delay, for `research/scale/cold.py`.
//!
//! Usage: `delayed-folder SOURCE MOUNTPOINT MICROSECONDS`. The file system can only be read. It keeps its
//! answers about names and metadata for a second, as others over a network do, and lets as many
//! requests wait at a time as the caller sends. It ends when it is unmounted.
#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, SystemTime};

use fuser::{
    Config, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, InitFlags,
    KernelConfig, LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory,
    ReplyEmpty, ReplyEntry, ReplyOpen, ReplyXattr, Request, Session,
};

/// The time for which the kernel keeps names and metadata.
const TTL: Duration = Duration::from_secs(1);
/// The number of requests that can wait at a time.
const THREAD_COUNT: usize = 128;

/// The state of the file system.
#[derive(Debug)]
struct DelayedFolder {
    delay: Duration,
    /// The inode number of the source, which the kernel calls 1.
    root: u64,
    /// The paths of all nodes that were looked up.
    paths: Mutex<HashMap<u64, PathBuf>>,
    files: Mutex<HashMap<u64, File>>,
    next_handle: AtomicU64,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl DelayedFolder {
    fn new(source: &Path, delay: Duration) -> io::Result<DelayedFolder> {
        let root = fs::symlink_metadata(source)?.ino();
        let paths = HashMap::from([(INodeNo::ROOT.0, source.to_owned())]);
        let (paths, files) = (Mutex::new(paths), Mutex::default());
        Ok(DelayedFolder { delay, root, paths, files, next_handle: AtomicU64::new(1) })
    }

    fn wait(&self) {
        thread::sleep(self.delay);
    }

    fn path(&self, node: INodeNo) -> io::Result<PathBuf> {
        let path = locked(&self.paths).get(&node.0).cloned();
        path.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
    }

    fn attr(&self, found: &Metadata) -> FileAttr {
        let is_root = found.ino() == self.root;
        let kind = if found.is_dir() {
            FileType::Directory
        } else if found.is_symlink() {
            FileType::Symlink
        } else {
            FileType::RegularFile
        };
        let time = |seconds: i64, nanoseconds: i64| {
            let nanoseconds = u32::try_from(nanoseconds).unwrap_or(0);
            SystemTime::UNIX_EPOCH + Duration::new(u64::try_from(seconds).unwrap_or(0), nanoseconds)
        };
        FileAttr {
            ino: if is_root { INodeNo::ROOT } else { INodeNo(found.ino()) },
            size: found.size(),
            blocks: found.blocks(),
            atime: time(found.atime(), found.atime_nsec()),
            mtime: time(found.mtime(), found.mtime_nsec()),
            ctime: time(found.ctime(), found.ctime_nsec()),
            crtime: SystemTime::UNIX_EPOCH,
            kind,
            perm: u16::try_from(found.mode() & 0o7777).unwrap_or(0),
            nlink: u32::try_from(found.nlink()).unwrap_or(1),
            uid: found.uid(),
            gid: found.gid(),
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }

    fn find(&self, parent: INodeNo, name: &OsStr) -> io::Result<FileAttr> {
        let path = self.path(parent)?.join(name);
        let attr = self.attr(&fs::symlink_metadata(&path)?);
        locked(&self.paths).insert(attr.ino.0, path);
        Ok(attr)
    }

    fn open_file(&self, node: INodeNo) -> io::Result<FileHandle> {
        let file = File::open(self.path(node)?)?;
        let handle = self.next_handle.fetch_add(1, Ordering::Relaxed);
        locked(&self.files).insert(handle, file);
        Ok(FileHandle(handle))
    }

    fn bytes(&self, handle: FileHandle, offset: u64, size: u32) -> io::Result<Vec<u8>> {
        let file = locked(&self.files).get(&handle.0).map(File::try_clone);
        let file = file.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))??;
        let mut bytes = vec![0; usize::try_from(size).unwrap_or(0)];
        let mut filled = 0;
        while filled < bytes.len() {
            match file.read_at(&mut bytes[filled..], offset + filled as u64)? {
                0 => break,
                count => filled += count,
            }
        }
        bytes.truncate(filled);
        Ok(bytes)
    }

    /// Returns the names from the position `offset` on.
    fn names(&self, node: INodeNo, offset: u64) -> io::Result<Vec<fs::DirEntry>> {
        let skipped = usize::try_from(offset).unwrap_or(usize::MAX);
        fs::read_dir(self.path(node)?)?.skip(skipped).collect()
    }
}

impl Filesystem for DelayedFolder {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        config.add_capabilities(InitFlags::FUSE_PARALLEL_DIROPS).ok();
        config.set_max_background(512).ok();
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.wait();
        match self.find(parent, name) {
            Ok(attr) => reply.entry(&TTL, &attr, Generation(0)),
            Err(error) => reply.error(error.into()),
        }
    }

    fn getattr(&self, _: &Request, node: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        self.wait();
        let found = self.path(node).and_then(fs::symlink_metadata);
        match found {
            Ok(found) => reply.attr(&TTL, &self.attr(&found)),
            Err(error) => reply.error(error.into()),
        }
    }

    fn open(&self, _: &Request, node: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        self.wait();
        match self.open_file(node) {
            Ok(handle) => reply.opened(handle, FopenFlags::empty()),
            Err(error) => reply.error(error.into()),
        }
    }

    // sizes: table, the library defines the parameters
    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        self.wait();
        match self.bytes(handle, offset, size) {
            Ok(bytes) => reply.data(&bytes),
            Err(error) => reply.error(error.into()),
        }
    }

    // sizes: table, the library defines the parameters
    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        locked(&self.files).remove(&handle.0);
        reply.ok();
    }

    fn opendir(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        self.wait();
        reply.opened(FileHandle(0), FopenFlags::empty());
    }

    fn readdir(
        &self,
        _: &Request,
        node: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        self.wait();
        let names = match self.names(node, offset) {
            Ok(names) => names,
            Err(error) => return reply.error(error.into()),
        };
        for (name, next) in names.iter().zip(offset + 1..) {
            let kind = match name.file_type() {
                Ok(kind) if kind.is_dir() => FileType::Directory,
                Ok(kind) if kind.is_symlink() => FileType::Symlink,
                _ => FileType::RegularFile,
            };
            // The number of the node in a listing is not used.
            if reply.add(INodeNo(u64::MAX), next, kind, name.file_name()) {
                break;
            }
        }
        reply.ok();
    }

    fn listxattr(&self, _: &Request, _: INodeNo, size: u32, reply: ReplyXattr) {
        self.wait();
        match size {
            0 => reply.size(0),
            _ => reply.data(&[]),
        }
    }
}

fn run(source: &Path, folder: &Path, delay: Duration) -> io::Result<()> {
    let mut config = Config::default();
    config.mount_options = vec![MountOption::RO, MountOption::FSName("delayed".to_owned())];
    config.n_threads = Some(THREAD_COUNT);
    config.clone_fd = true;
    Session::new(DelayedFolder::new(source, delay)?, folder, &config)?.spawn()?.join()
}

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let [source, folder, delay] = &arguments[..] else {
        eprintln!("usage: delayed-folder SOURCE MOUNTPOINT MICROSECONDS");
        return ExitCode::from(2);
    };
    let Some(delay) = delay.to_str().and_then(|text| text.parse().ok()) else {
        eprintln!("delayed-folder: MICROSECONDS: not a number");
        return ExitCode::from(2);
    };
    match run(source.as_ref(), folder.as_ref(), Duration::from_micros(delay)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("delayed-folder: {error}");
            ExitCode::FAILURE
        }
    }
}
