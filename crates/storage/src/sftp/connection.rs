//! A connection: the command `ssh`, and the SFTP session over its standard input and output.
//!
//! Each request is a future of its own, and the answers come in any order. The bytes that are under
//! way, and the open handles, are limited.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use futures_util::future::{Either, join3, select};
use russh_sftp::client::RawSftpSession;
use russh_sftp::client::error::Error as ClientError;
use russh_sftp::protocol::{FileAttributes, OpenFlags, Version};
use tokio::runtime::Handle as RuntimeHandle;
use tokio::sync::{Mutex as AsyncMutex, OnceCell, OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;

use super::address::SftpSettings;
use super::failure::{Failure, Meaning};
use crate::remote::{RunningCommand, lock};
use crate::throttle::Throttle;

/// The maximum time for the start of a session, in seconds. A user may type a passphrase meanwhile.
const START_S_MAX: u64 = 120;
/// The maximum time from the end of the command to the answer that is still on its way.
const LAST_ANSWER_MAX: Duration = Duration::from_secs(1);
/// The maximum time for the answer to a request, in seconds. It includes the transfer of up to
/// [`BYTES_MAX`] of other requests, and of short ones, which do not count.
const ANSWER_S_MAX: u64 = 120;
/// The maximum number of bytes in requests and answers that are under way: twice what the window of
/// an SSH channel holds, so that the window is always full. Requests of at most half a piece neither
/// count nor wait: a table of contents would otherwise wait for all containers that are requested
/// ahead.
const BYTES_MAX: usize = 4 * 1024 * 1024;
/// The maximum number of bytes in one request or answer; a packet of OpenSSH has 256 KiB. Half of it
/// lets a server write to its disk while the next request arrives.
const PIECE_MAX: usize = 128 * 1024;
/// The number of bytes in one request or answer that every server supports.
const PIECE_MIN: usize = 32 * 1024;
/// The maximum number of open handles besides those of puts. Servers have a limit, and
/// `russh_sftp` takes handles for texts, so that OpenSSH may not count beyond 127.
const HANDLES_MAX: usize = 48;

/// The extensions of a server that puts depend on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Extensions {
    /// `fsync@openssh.com`
    pub(super) has_fsync: bool,
    /// `hardlink@openssh.com`
    pub(super) has_links: bool,
    /// `posix-rename@openssh.com`
    pub(super) has_replace: bool,
    /// `statvfs@openssh.com`
    pub(super) has_space: bool,
}

/// A session with a server.
pub(super) struct Connection {
    pub(super) session: RawSftpSession,
    pub(super) extensions: Extensions,
    /// The maximum number of bytes of a read or write.
    piece_len: AtomicUsize,
    /// The folder of the repository.
    pub(super) root: String,
    pub(super) throttle: Throttle,
    bytes: Arc<Semaphore>,
    handles: Arc<Semaphore>,
    is_lost: AtomicBool,
    /// Set once the server has answered.
    has_answered: AtomicBool,
    /// Number of bytes that ssh had printed when the last answer came.
    printed_before: AtomicUsize,
    /// Whether the server syncs folders, once that is known.
    syncs_folders: Arc<AsyncMutex<Option<bool>>>,
    /// The permissions of the repository's folder, once they are known.
    mode: OnceLock<u32>,
    /// The files that are being read in ranges, by path.
    opened: Mutex<HashMap<String, Weak<SharedHandle>>>,
    ssh: RunningCommand,
    /// Requests whose answers nobody waits for: closed handles, removed files.
    background: Mutex<JoinSet<()>>,
    runtime: RuntimeHandle,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").field("extensions", &self.extensions).finish_non_exhaustive()
    }
}

impl Connection {
    /// Connects to the server. Must be called in a runtime.
    pub(super) async fn open(settings: &SftpSettings) -> Result<Arc<Connection>, Failure> {
        let arguments = settings.arguments();
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let started = RunningCommand::start(&settings.command, &arguments, &[]);
        let started = started.map_err(|error| {
            Failure::new(Meaning::Final, format!("cannot start {}: {error}", settings.command))
        });
        let (ssh, output, input) = started?;
        let session = RawSftpSession::new(tokio::io::join(output, input));
        let mut connection = Connection {
            session,
            extensions: Extensions::default(),
            piece_len: AtomicUsize::new(PIECE_MIN),
            root: settings.path.clone(),
            throttle: settings.throttle.clone(),
            bytes: Arc::new(Semaphore::new(BYTES_MAX)),
            handles: Arc::new(Semaphore::new(HANDLES_MAX)),
            is_lost: AtomicBool::new(false),
            has_answered: AtomicBool::new(false),
            printed_before: AtomicUsize::new(0),
            syncs_folders: Arc::default(),
            mode: OnceLock::new(),
            opened: Mutex::default(),
            ssh,
            background: Mutex::default(),
            runtime: RuntimeHandle::current(),
        };
        connection.session.set_timeout(START_S_MAX);
        let version = connection.ask(connection.first_answer()).await?;
        connection.session.set_timeout(ANSWER_S_MAX);
        connection.extensions = Extensions::of(&version.extensions);
        let has_limits = version.extensions.contains_key("limits@openssh.com");
        let connection = Arc::new(connection);
        // These requests do not depend on each other, and the folder is the first that is opened.
        let limits = async {
            match has_limits {
                true => connection.ask(connection.session.limits()).await.map(Some),
                false => Ok(None),
            }
        };
        let root = connection.open_root();
        let about = connection.about(&connection.root);
        let (limits, root, about) = join3(limits, root, about).await;
        match about {
            Err(failure) if failure.meaning == Meaning::TryAgain => return Err(failure),
            // A put asks again, and fails then.
            Err(_) => {}
            Ok(about) => {
                about.and_then(|about| about.mode).map(|mode| connection.mode.set(mode));
            }
        }
        connection.sync_root_later(root?);
        if let Some(limits) = limits? {
            let len = usize::try_from(limits.max_read_len.min(limits.max_write_len));
            let len = len.unwrap_or(PIECE_MAX).clamp(PIECE_MIN, PIECE_MAX);
            connection.piece_len.store(len, Ordering::Relaxed);
        }
        Ok(connection)
    }

    /// Waits for the answer to the first request. A session waits in vain for it if the command has ended
    /// before the request was made.
    async fn first_answer(&self) -> Result<Version, ClientError> {
        let ended = async {
            self.ssh.end().await;
            tokio::time::sleep(LAST_ANSWER_MAX).await;
        };
        match select(pin!(self.session.init()), pin!(ended)).await {
            Either::Left((answer, _)) => answer,
            Either::Right(((), _)) => Err(ClientError::IO("the command has ended".to_owned())),
        }
    }

    /// Waits for the answer to a request.
    pub(super) async fn ask<T>(
        &self,
        request: impl Future<Output = Result<T, ClientError>>,
    ) -> Result<T, Failure> {
        match request.await {
            Ok(answer) => {
                self.answered();
                Ok(answer)
            }
            Err(ClientError::Status(status)) => {
                self.answered();
                Err(Failure::of_status(&status))
            }
            Err(error) => Err(self.loss(&error).await),
        }
    }

    /// Notes that the server has answered, so that what ssh has printed was no reason to fail.
    fn answered(&self) {
        self.has_answered.store(true, Ordering::Relaxed);
        self.printed_before.store(self.ssh.printed().len(), Ordering::Relaxed);
    }

    /// Returns the failure of a request that has no answer. The connection is of no further use.
    async fn loss(&self, error: &ClientError) -> Failure {
        self.is_lost.store(true, Ordering::Relaxed);
        if matches!(error, ClientError::Timeout) {
            let text = format!("no answer within {ANSWER_S_MAX} s");
            return Failure::outage(text);
        }
        if let ClientError::UnexpectedPacket = error {
            return Failure::new(Meaning::Final, "the answer is not one of SFTP");
        }
        // The reason is what ssh prints before its end.
        let status = self.ssh.wait().await;
        let printed = self.ssh.printed().since(self.printed_before.load(Ordering::Relaxed));
        // If ssh itself fails, it says so, and ends with 255.
        let is_of_ssh = status.and_then(|status| status.code()) == Some(255);
        let is_first = !self.has_answered.load(Ordering::Relaxed);
        if is_first && !is_of_ssh && printed.trim().is_empty() {
            return Failure::new(Meaning::Final, "the first answer is not one of SFTP").with_remedy(
                "`ssh HOST true` has to print nothing: the text of a login script (.bashrc), or of \
                 an account without a shell, is taken for an answer",
            );
        }
        Failure::of_command(status, &printed, is_first)
    }

    /// Opens the folder of the repository for a sync. Is called while no other handle is open, so that
    /// a failure is not that of a handle too many.
    async fn open_root(self: &Arc<Self>) -> Result<Option<Result<Handle, Failure>>, Failure> {
        if !self.extensions.has_fsync {
            return Ok(None);
        }
        match self.open_to_read(&self.root).await {
            Err(failure) if failure.meaning == Meaning::TryAgain => Err(failure),
            opened => Ok(Some(opened)),
        }
    }

    /// Finds out whether the server syncs folders, by that of the repository, as [`open_root`] has
    /// opened it. It remains unknown if the folder cannot be opened for a reason of its own, such as
    /// that it does not exist yet.
    ///
    /// [`open_root`]: Connection::open_root
    async fn sync_root(
        &self,
        root: Option<Result<Handle, Failure>>,
        syncs_folders: &mut Option<bool>,
    ) -> Result<(), Failure> {
        let synced = match root {
            None => return Ok(()),
            Some(Ok(folder)) => self.ask(self.session.fsync(folder.name())).await.map(|_| true),
            Some(Err(failure)) if failure.is_of_folder() => Ok(false),
            Some(Err(failure)) => Err(failure),
        };
        match synced {
            Ok(syncs) => *syncs_folders = Some(syncs),
            Err(failure) if failure.meaning == Meaning::TryAgain => return Err(failure),
            Err(failure) if matches!(failure.meaning, Meaning::Invalid | Meaning::Unknown) => {
                *syncs_folders = Some(false);
            }
            Err(_) => {}
        }
        Ok(())
    }

    /// Does what [`Connection::sync_root`] does while other requests are made. Those that need the
    /// result wait for it.
    fn sync_root_later(self: &Arc<Self>, root: Option<Result<Handle, Failure>>) {
        // The lock is free, because the connection is new.
        let locked = self.syncs_folders.clone().try_lock_owned().ok();
        let connection = self.clone();
        self.later(async move {
            if let Some(mut syncs_folders) = locked {
                // A connection that is lost fails the request that needs the result.
                connection.sync_root(root, &mut syncs_folders).await.ok();
            }
        });
    }

    /// Returns `true` if the server syncs folders, and `false` if it does not; `None` if that is not
    /// known, because the repository has no folder yet.
    pub(super) async fn syncs_folders(self: &Arc<Self>) -> Result<Option<bool>, Failure> {
        let mut syncs_folders = self.syncs_folders.lock().await;
        if syncs_folders.is_none() {
            let root = self.open_root().await?;
            self.sync_root(root, &mut syncs_folders).await?;
        }
        Ok(*syncs_folders)
    }

    /// Returns the permissions of the repository's folder, which new files get.
    pub(super) async fn mode(&self) -> Result<Option<u32>, Failure> {
        if let Some(mode) = self.mode.get() {
            return Ok(Some(*mode));
        }
        let mode = self.about(&self.root).await?.and_then(|about| about.mode);
        Ok(mode.map(|mode| *self.mode.get_or_init(|| mode)))
    }

    /// Returns the maximum number of bytes of a read or write.
    pub(super) fn piece_len(&self) -> usize {
        self.piece_len.load(Ordering::Relaxed)
    }

    /// Returns `true` if a request had no answer.
    pub(super) fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Relaxed)
    }

    /// Waits until `len` more bytes may be under way, unless they are few.
    pub(super) async fn may_move(&self, len: usize) -> Option<OwnedSemaphorePermit> {
        if len <= self.piece_len() / 2 {
            return None;
        }
        let len = u32::try_from(len.min(BYTES_MAX)).unwrap_or(u32::MAX);
        self.bytes.clone().acquire_many_owned(len).await.ok()
    }

    /// Opens a file or a folder for reading.
    pub(super) async fn open_to_read(self: &Arc<Self>, path: &str) -> Result<Handle, Failure> {
        let permit = self.handles.clone().acquire_owned().await.ok();
        let open = self.session.open(path, OpenFlags::READ, no_attributes());
        let handle = self.ask(open).await?.handle;
        Ok(Handle { handle, connection: self.clone(), _permit: permit })
    }

    /// Opens a file for reading, once for all reads that are under way at a time. So most ranges of a
    /// container need no request of their own for it.
    pub(super) async fn open_shared(
        self: &Arc<Self>,
        path: &str,
    ) -> Result<Arc<SharedHandle>, Failure> {
        let shared = {
            let mut opened = lock(&self.opened);
            match opened.get(path).and_then(Weak::upgrade) {
                Some(shared) => shared,
                None => {
                    opened.retain(|_, shared| shared.strong_count() > 0);
                    let shared = Arc::new(SharedHandle::default());
                    opened.insert(path.to_owned(), Arc::downgrade(&shared));
                    shared
                }
            }
        };
        let open = async || {
            // Another read may have waited for the same answer in vain.
            if self.is_lost() {
                return Err(Failure::outage("the connection was cut"));
            }
            self.open_to_read(path).await
        };
        shared.0.get_or_try_init(open).await?;
        Ok(shared)
    }

    /// Makes reads of `path` that begin from now on open the file anew.
    pub(super) fn forget(&self, path: &str) {
        lock(&self.opened).remove(path);
    }

    /// Opens a folder for listing.
    pub(super) async fn open_folder(self: &Arc<Self>, path: &str) -> Result<Handle, Failure> {
        let permit = self.handles.clone().acquire_owned().await.ok();
        let handle = self.ask(self.session.opendir(path)).await?.handle;
        Ok(Handle { handle, connection: self.clone(), _permit: permit })
    }

    /// Creates a file that must not exist yet, for writing.
    pub(super) async fn create(self: &Arc<Self>, path: &str, mode: u32) -> Result<Handle, Failure> {
        let flags = OpenFlags::WRITE | OpenFlags::CREATE | OpenFlags::EXCLUDE;
        let attributes = FileAttributes { permissions: Some(mode), ..no_attributes() };
        let handle = self.ask(self.session.open(path, flags, attributes)).await?.handle;
        Ok(Handle { handle, connection: self.clone(), _permit: None })
    }

    /// Makes requests whose answers nobody waits for.
    pub(super) fn later(self: &Arc<Self>, requests: impl Future<Output = ()> + Send + 'static) {
        let mut background = lock(&self.background);
        while background.try_join_next().is_some() {}
        background.spawn_on(requests, &self.runtime);
    }

    /// Waits for the answers to all requests of [`Connection::later`].
    pub(super) async fn settle(&self) {
        let background = std::mem::take(&mut *lock(&self.background));
        background.join_all().await;
    }
}

/// An open file or folder, which is closed in the background.
#[derive(Debug)]
pub(super) struct Handle {
    handle: String,
    pub(super) connection: Arc<Connection>,
    _permit: Option<OwnedSemaphorePermit>,
}

/// An open file that several reads share; empty until it is opened.
#[derive(Debug, Default)]
pub(super) struct SharedHandle(OnceCell<Handle>);

impl SharedHandle {
    /// Returns the handle, which is there once the file was opened.
    pub(super) fn get(&self) -> Result<&Handle, Failure> {
        self.0.get().ok_or_else(|| Failure::new(Meaning::Final, "the file is not open"))
    }
}

impl Handle {
    /// Returns the name of the handle in requests.
    pub(super) fn name(&self) -> &str {
        &self.handle
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let handle = std::mem::take(&mut self.handle);
        let permit = self._permit.take();
        // Not the connection itself, which would never be dropped by a task of its own.
        let connection = Arc::downgrade(&self.connection);
        self.connection.later(async move {
            if let Some(connection) = connection.upgrade().filter(|found| !found.is_lost()) {
                connection.session.close(handle).await.ok();
            }
            drop(permit);
        });
    }
}

impl Extensions {
    fn of(offered: &HashMap<String, String>) -> Extensions {
        let has = |name: &str| offered.contains_key(name);
        Extensions {
            has_fsync: has("fsync@openssh.com"),
            has_links: has("hardlink@openssh.com"),
            has_replace: has("posix-rename@openssh.com"),
            has_space: has("statvfs@openssh.com"),
        }
    }
}

/// Returns attributes that say nothing.
pub(super) fn no_attributes() -> FileAttributes {
    FileAttributes {
        size: None,
        uid: None,
        user: None,
        gid: None,
        group: None,
        permissions: None,
        atime: None,
        mtime: None,
    }
}
