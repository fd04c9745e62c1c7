//! A folder that shows snapshots, by FUSE. Nothing else in the program knows of it.

mod file_system;
mod guard;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use std::{fs, io};

use anyhow::{Context, Result};
use cutpoint_backup::browse::Browser;
use cutpoint_repository::thread_count;
use fuser::{BackgroundSession, Config, INodeNo, MountOption, Notifier, Session, SessionACL};
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};

use self::file_system::SnapshotFileSystem;
use self::guard::Guard;
use crate::exit::Failure;
use crate::heap;

/// The device by which the kernel asks.
const DEVICE: &str = "/dev/fuse";
/// The programs that mount and unmount for users other than root, the newer one first.
const HELPERS: [&str; 2] = ["fusermount3", "fusermount"];
/// The number of threads that answer, at least. Most of them wait for the storage, and one may wait
/// for the answers of others.
const THREADS_MIN: usize = 4;
/// The maximum number of threads that answer.
const THREADS_MAX: usize = 16;
/// The maximum number of nodes that the kernel should remember. Each takes about 150 bytes here.
const NODES_MAX: usize = 100_000;
/// The interval at which their number is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// The end of an attempt to unmount a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unmounted {
    /// Nothing uses the folder any more.
    Entirely,
    /// The folder is gone, but programs still use what they had opened.
    InUse,
}

/// Tests whether a folder can show snapshots, and prepares the process, which has not started the
/// threads that answer yet.
///
/// # Errors
///
/// Fails with exit code 2 if it cannot.
pub(crate) fn prepare(folder: &Path) -> Result<()> {
    let shown = folder.display();
    let refuse = |problem: &str, remedy: String| {
        Err(Failure::failed(format!("{shown}: {problem}")).with_remedy(remedy).into())
    };
    let mut entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if Errno::from_io_error(&error) == Some(Errno::NOTCONN) => {
            return refuse(
                "left mounted by a program that was killed",
                format!("unmount it with `fusermount3 -u {shown}`"),
            );
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return refuse("does not exist", format!("create it with `mkdir {shown}`"));
        }
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
            return refuse("not a folder", "name an empty folder".to_owned());
        }
        Err(error) => return Err(error).context(shown.to_string()),
    };
    if entries.next().is_some() {
        return refuse("not empty", "name an empty folder".to_owned());
    }
    if !Path::new(DEVICE).exists() {
        return Err(Failure::failed(format!("{DEVICE} does not exist, so nothing can be mounted"))
            .with_remedy(
                "load the kernel module with `modprobe fuse` as root; a container needs `--device \
                 /dev/fuse --cap-add SYS_ADMIN`",
            )
            .into());
    }
    if !rustix::process::geteuid().is_root() && helper().is_none() {
        return Err(Failure::failed("fusermount3 not found, which mounts for users except root")
            .with_remedy("install the package `fuse3`")
            .into());
    }
    heap::bound();
    Ok(())
}

/// Returns the program that mounts for users other than root, if it is installed.
fn helper() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    folders.extend(["/usr/bin", "/bin", "/sbin"].map(PathBuf::from));
    let found = |name: &&str| folders.iter().map(|it| it.join(name)).find(|it| it.is_file());
    HELPERS.iter().find_map(found)
}

/// A mounted folder. It is unmounted when dropped.
#[derive(Debug)]
pub(crate) struct Mounted {
    folder: PathBuf,
    session: BackgroundSession,
    guard: Guard,
    is_ending: Arc<AtomicBool>,
    trimmer: JoinHandle<()>,
}

impl Mounted {
    /// Mounts `folder`, and answers by `browser`. With `allow_other`, all users can enter it.
    /// `threads` is the number of threads; 0 stands for as many as the machine has.
    ///
    /// # Errors
    ///
    /// Fails with exit code 2 if the system refuses.
    pub(crate) fn new(
        folder: &Path,
        browser: Browser,
        allow_other: bool,
        threads: usize,
    ) -> Result<Mounted> {
        let folder = folder.canonicalize().with_context(|| folder.display().to_string())?;
        let browser = Arc::new(browser);
        let mut config = Config::default();
        config.mount_options = vec![
            MountOption::RO,
            MountOption::NoSuid,
            MountOption::NoDev,
            MountOption::NoAtime,
            MountOption::FSName("cutpoint".to_owned()),
            MountOption::Subtype("cutpoint".to_owned()),
        ];
        config.n_threads = Some(thread_count(threads).clamp(THREADS_MIN, THREADS_MAX));
        if allow_other {
            config.acl = SessionACL::All;
            config.mount_options.push(MountOption::DefaultPermissions);
        }
        let file_system = SnapshotFileSystem::new(Arc::clone(&browser), allow_other);
        let notifier = file_system.notifier();
        let mounted = Session::new(file_system, &folder, &config);
        let session = mounted.and_then(Session::spawn).map_err(|error| explain(&folder, &error))?;
        notifier.set(session.notifier()).ok();
        let guard = Guard::new(&folder, helper().as_deref());
        let is_ending = Arc::new(AtomicBool::new(false));
        let trimmer = Trimmer { browser, notifier: session.notifier(), end: is_ending.clone() };
        let trimmer = thread::spawn(move || trimmer.run());
        Ok(Mounted { folder, session, guard, is_ending, trimmer })
    }

    /// Returns `true` if the folder has been unmounted, and nothing uses it any more.
    pub(crate) fn has_ended(&self) -> bool {
        self.session.guard.is_finished()
    }

    /// Unmounts the folder.
    ///
    /// # Errors
    ///
    /// Returns an error if the system refuses although the folder is not in use.
    pub(crate) fn unmount(&self) -> io::Result<Unmounted> {
        let unmounted = self.detach()?;
        // What is mounted at the folder from now on is not this one.
        self.guard.end();
        Ok(unmounted)
    }

    fn detach(&self) -> io::Result<Unmounted> {
        match self.try_unmount(false) {
            Ok(()) => return Ok(Unmounted::Entirely),
            // The user has unmounted the folder.
            Err(Errno::INVAL | Errno::NOENT) => return Ok(Unmounted::Entirely),
            Err(_) => {}
        }
        self.try_unmount(true)?;
        Ok(Unmounted::InUse)
    }

    /// Unmounts the folder, even if it is in use if `is_lazy` is set.
    fn try_unmount(&self, is_lazy: bool) -> Result<(), Errno> {
        let flags = if is_lazy { UnmountFlags::DETACH } else { UnmountFlags::empty() };
        match unmount(&self.folder, flags | UnmountFlags::NOFOLLOW) {
            Err(Errno::PERM) => {}
            result => return result,
        }
        let mut command = Command::new(helper().ok_or(Errno::PERM)?);
        command.arg(if is_lazy { "-uz" } else { "-u" }).arg("--").arg(&self.folder);
        let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        match status.status() {
            Ok(status) if status.success() => Ok(()),
            Ok(_) => Err(Errno::BUSY),
            Err(error) => Err(Errno::from_io_error(&error).unwrap_or(Errno::IO)),
        }
    }

    /// Ends answering. If something still uses the folder, its accesses fail as soon as this process
    /// has ended.
    ///
    /// # Errors
    ///
    /// Returns the error with which answering has ended.
    pub(crate) fn end(self) -> io::Result<()> {
        self.is_ending.store(true, Ordering::Relaxed);
        self.guard.end();
        self.trimmer.join().ok();
        if !self.session.guard.is_finished() {
            // Its threads wait for the kernel. When dropped, it would unmount whatever is mounted at
            // the folder by now.
            std::mem::forget(self.session);
            return Ok(());
        }
        self.session.join()
    }
}

/// Adds a remedy to a failure of mounting.
fn explain(folder: &Path, error: &io::Error) -> anyhow::Error {
    let text = error.to_string();
    let failure =
        Failure::failed(format!("{}: cannot be mounted: {}", folder.display(), text.trim()));
    if text.contains("user_allow_other") {
        let remedy = "add the line `user_allow_other` to /etc/fuse.conf, or omit --allow-other";
        return failure.with_remedy(remedy).into();
    }
    if error.kind() == io::ErrorKind::NotFound {
        let remedy = "install the package `fuse3`; a container needs `--cap-add SYS_ADMIN`";
        return failure.with_remedy(remedy).into();
    }
    let remedy = "FUSE needs read and write access to /dev/fuse, and the folder must belong to the \
                  user; a container needs `--device /dev/fuse --cap-add SYS_ADMIN`";
    failure.with_remedy(remedy).into()
}

/// Has the kernel forget nodes if it remembers too many, because each takes memory here.
struct Trimmer {
    browser: Arc<Browser>,
    notifier: Notifier,
    end: Arc<AtomicBool>,
}

impl Trimmer {
    fn run(&self) {
        while !self.end.load(Ordering::Relaxed) {
            let count = self.browser.node_count();
            if count > NODES_MAX {
                for (parent, name) in self.browser.some_nodes(count - NODES_MAX / 2) {
                    // What is in use stays.
                    let name = std::os::unix::ffi::OsStrExt::from_bytes(&name);
                    self.notifier.inval_entry(INodeNo(parent), name).ok();
                }
            }
            thread::sleep(LOOK_EVERY);
        }
    }
}
