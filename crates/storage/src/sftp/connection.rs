//! A connection: the command `ssh`, and the SFTP session over its standard input and output.
//!
//! Each request is a future of its own, and the answers come in any order. The bytes that are under
//! way, and the open handles, are limited.

use std::collections::HashMap;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use russh_sftp::client::RawSftpSession;
use russh_sftp::client::error::Error as ClientError;
use russh_sftp::protocol::{FileAttributes, OpenFlags};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::runtime::Handle as RuntimeHandle;
use tokio::sync::{OnceCell, OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;

use super::address::SftpSettings;
use super::failure::{Failure, Meaning};
use crate::throttle::Throttle;

/// The maximum time for the start of a session, in seconds. A user may type a passphrase meanwhile.
const START_S_MAX: u64 = 120;
/// The maximum time for the answer to a request, in seconds. It includes the transfer of up to
/// [`BYTES_MAX`] of other requests.
const ANSWER_S_MAX: u64 = 120;
/// The maximum time for ssh to end after its output has ended.
const END_MAX: Duration = Duration::from_secs(2);
/// The maximum number of bytes in requests and answers that are under way: twice what the window of
/// an SSH channel holds, so that the window is always full.
const BYTES_MAX: usize = 4 * 1024 * 1024;
/// The maximum number of bytes in one request or answer; a packet of OpenSSH has 256 KiB. Half of it
/// lets a server write to its disk while the next request arrives.
const PIECE_MAX: usize = 128 * 1024;
/// The number of bytes in one request or answer that every server supports.
const PIECE_MIN: usize = 32 * 1024;
/// The maximum number of open handles besides those of puts. Servers have a limit, and
/// `russh_sftp` takes handles for texts, so that OpenSSH may not count beyond 127.
const HANDLES_MAX: usize = 48;
/// The maximum number of bytes of what ssh prints that are kept.
const PRINTED_MAX: usize = 16 * 1024;

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
    pub(super) piece_len: usize,
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
    syncs_folders: OnceCell<bool>,
    printed: Arc<Mutex<Printed>>,
    ssh: Mutex<Ssh>,
    /// Requests whose answers nobody waits for: closed handles, removed files.
    background: Mutex<JoinSet<()>>,
    runtime: RuntimeHandle,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").field("extensions", &self.extensions).finish_non_exhaustive()
    }
}

/// The process of the command.
struct Ssh {
    child: Child,
    printed: Arc<Mutex<Printed>>,
}

/// The end of what ssh has printed.
#[derive(Debug, Default)]
struct Printed {
    kept: Vec<u8>,
    /// The number of bytes that were printed, with those that are not kept.
    len: usize,
}

impl Printed {
    fn add(&mut self, piece: &[u8]) {
        self.len += piece.len();
        self.kept.extend_from_slice(piece);
        let excess = self.kept.len().saturating_sub(PRINTED_MAX);
        self.kept.drain(..excess);
    }

    /// Returns what was printed after the first `len` bytes, as far as it is kept.
    fn since(&self, len: usize) -> String {
        let count = self.len.saturating_sub(len).min(self.kept.len());
        String::from_utf8_lossy(&self.kept[self.kept.len() - count..]).into_owned()
    }
}

impl Drop for Ssh {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

impl Ssh {
    /// Starts the command. It ignores the signals that a terminal or a service manager sends to all
    /// processes of a group, because this process may still have something to store.
    fn start(settings: &SftpSettings) -> std::io::Result<(Ssh, pipe::Receiver, pipe::Sender)> {
        let script = format!("trap '' HUP INT QUIT TERM; exec {} \"$@\"", settings.command);
        let mut child = Command::new("sh")
            .args(["-c", &script, "sh"])
            .args(settings.arguments())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let printed: Arc<Mutex<Printed>> = Arc::default();
        let ssh = Ssh { child, printed: Arc::clone(&printed) };
        let (Some(input), Some(output), Some(errors)) = pipes else {
            return Err(std::io::Error::other("no pipes"));
        };
        let input = pipe::Sender::from_owned_fd(input.into())?;
        let output = pipe::Receiver::from_owned_fd(output.into())?;
        let errors = pipe::Receiver::from_owned_fd(errors.into())?;
        tokio::spawn(gather(errors, printed));
        Ok((ssh, output, input))
    }
}

/// Keeps the end of what ssh prints.
async fn gather(mut errors: pipe::Receiver, printed: Arc<Mutex<Printed>>) {
    let mut piece = [0; 4096];
    while let Ok(len @ 1..) = errors.read(&mut piece).await {
        lock(&printed).add(&piece[..len]);
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Connection {
    /// Connects to the server. Must be called in a runtime.
    pub(super) async fn open(settings: &SftpSettings) -> Result<Arc<Connection>, Failure> {
        let started = Ssh::start(settings).map_err(|error| {
            Failure::new(Meaning::Final, format!("cannot start {}: {error}", settings.command))
        });
        let (ssh, output, input) = started?;
        let session = RawSftpSession::new(tokio::io::join(output, input));
        let mut connection = Connection {
            session,
            extensions: Extensions::default(),
            piece_len: PIECE_MIN,
            root: settings.path.clone(),
            throttle: settings.throttle.clone(),
            bytes: Arc::new(Semaphore::new(BYTES_MAX)),
            handles: Arc::new(Semaphore::new(HANDLES_MAX)),
            is_lost: AtomicBool::new(false),
            has_answered: AtomicBool::new(false),
            printed_before: AtomicUsize::new(0),
            syncs_folders: OnceCell::new(),
            printed: Arc::clone(&ssh.printed),
            ssh: Mutex::new(ssh),
            background: Mutex::default(),
            runtime: RuntimeHandle::current(),
        };
        connection.session.set_timeout(START_S_MAX);
        let version = connection.ask(connection.session.init()).await?;
        connection.session.set_timeout(ANSWER_S_MAX);
        connection.extensions = Extensions::of(&version.extensions);
        if version.extensions.contains_key("limits@openssh.com") {
            let limits = connection.ask(connection.session.limits()).await?;
            let len = usize::try_from(limits.max_read_len.min(limits.max_write_len));
            connection.piece_len = len.unwrap_or(PIECE_MAX).clamp(PIECE_MIN, PIECE_MAX);
        }
        let connection = Arc::new(connection);
        connection.try_folder_sync().await?;
        Ok(connection)
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
        self.printed_before.store(lock(&self.printed).len, Ordering::Relaxed);
    }

    /// Returns the failure of a request that has no answer. The connection is of no further use.
    async fn loss(&self, error: &ClientError) -> Failure {
        self.is_lost.store(true, Ordering::Relaxed);
        if matches!(error, ClientError::Timeout) {
            let text = format!("no answer within {ANSWER_S_MAX} s");
            return Failure::new(Meaning::TryAgain, text);
        }
        if let ClientError::UnexpectedPacket = error {
            return Failure::new(Meaning::Final, "the answer is not one of SFTP");
        }
        // The reason is what ssh prints before its end.
        let mut status = None;
        for _ in 0..END_MAX.as_millis() / 20 {
            status = lock(&self.ssh).child.try_wait().ok().flatten();
            if status.is_some() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let printed = lock(&self.printed).since(self.printed_before.load(Ordering::Relaxed));
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

    /// Finds out whether the server syncs folders, by that of the repository. Does not find out if it
    /// cannot be opened for a reason of its own, such as that it does not exist yet. Is called while
    /// no other handle is open, so that a failure is not that of a handle too many.
    async fn try_folder_sync(self: &Arc<Self>) -> Result<(), Failure> {
        if !self.extensions.has_fsync {
            return Ok(());
        }
        let synced = match self.open_to_read(&self.root).await {
            Ok(folder) => self.ask(self.session.fsync(folder.name())).await.map(|_| true),
            Err(failure) if failure.is_of_folder() => Ok(false),
            Err(failure) => Err(failure),
        };
        let syncs = match synced {
            Ok(syncs) => syncs,
            Err(failure) if failure.meaning == Meaning::TryAgain => return Err(failure),
            Err(failure) if matches!(failure.meaning, Meaning::Invalid | Meaning::Unknown) => false,
            Err(_) => return Ok(()),
        };
        self.syncs_folders.set(syncs).ok();
        Ok(())
    }

    /// Returns `true` if the server syncs folders, and `false` if it does not; `None` if that is not
    /// known, because the repository has no folder yet.
    pub(super) async fn syncs_folders(self: &Arc<Self>) -> Result<Option<bool>, Failure> {
        if self.syncs_folders.get().is_none() {
            self.try_folder_sync().await?;
        }
        Ok(self.syncs_folders.get().copied())
    }

    /// Returns `true` if a request had no answer.
    pub(super) fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Relaxed)
    }

    /// Waits until `len` more bytes may be under way.
    pub(super) async fn may_move(&self, len: usize) -> Option<OwnedSemaphorePermit> {
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
