//! The way of an object to the server: a file under a name that listings hide, which is synced and
//! then linked to the name of the object. A link fails if the name exists.

use std::sync::Arc;

use tokio::task::JoinHandle;

use super::connection::{Connection, Handle};
use super::failure::{FULL, Failure, Meaning, UNNAMED};
use crate::error::Kind;
use crate::storage::Put;
use crate::throttle::Direction;

/// The mode of new folders and files if that of the repository's folder is not known.
const PRIVATE_MODE: u32 = 0o700;

/// A file on its way. The file is removed when this is dropped.
#[derive(Debug)]
pub(super) struct Upload {
    connection: Arc<Connection>,
    /// The paths of the file, of the object, and of the folder of both.
    staged: String,
    target: String,
    folder: String,
    handle: Handle,
    /// Number of bytes that were sent, or are to be sent as a whole.
    len: usize,
    writes: Vec<JoinHandle<Result<(), Failure>>>,
    /// All bytes of an object of one piece, which is sent together with the request for its sync.
    whole: Option<Vec<u8>>,
    /// Set once the file has another name only.
    is_moved: bool,
}

impl Upload {
    /// Creates the file for the object `name`, and its folder if there is none. `mark` distinguishes
    /// the file from others. `mode` is that of the repository's folder.
    pub(super) async fn begin(
        connection: &Arc<Connection>,
        name: &str,
        mark: &str,
        mode: Option<u32>,
    ) -> Result<Upload, Failure> {
        let target = connection.path(name);
        let staged = format!("{target}{mark}");
        let mode = mode.unwrap_or(PRIVATE_MODE);
        let create = || connection.create(&staged, mode & 0o666);
        let handle = match create().await {
            Err(failure) if failure.meaning == Meaning::Missing => {
                make_folders(connection, name, mode).await?;
                create().await
            }
            handle => handle,
        };
        let handle = match handle {
            Ok(handle) => handle,
            Err(failure) => return Err(named(connection, failure).await),
        };
        let folder = target.rsplit_once('/').map_or("", |(folder, _)| folder).to_owned();
        let (connection, writes, whole) = (connection.clone(), Vec::new(), None);
        let (len, is_moved) = (0, false);
        Ok(Upload { connection, staged, target, folder, handle, len, writes, whole, is_moved })
    }

    /// Returns `true` if the connection is cut.
    pub(super) fn is_lost(&self) -> bool {
        self.connection.is_lost()
    }

    /// Sends the whole pieces of `bytes`, of which an earlier call has sent the first ones.
    pub(super) async fn send_pieces(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let piece_len = self.connection.piece_len();
        while bytes.len() - self.len >= piece_len {
            let end = self.len + piece_len;
            self.send(&bytes[self.len..end]).await;
        }
        if self.is_lost() {
            return Err(Failure::outage("the connection was cut"));
        }
        Ok(())
    }

    /// Sends the rest of `bytes`, which are the whole object. A single piece is sent by the sync.
    pub(super) async fn send_rest(&mut self, bytes: &[u8]) {
        if self.len == 0 && !bytes.is_empty() && bytes.len() <= self.connection.piece_len() {
            self.connection.throttle.pass(Direction::Upload, bytes.len()).await;
            (self.len, self.whole) = (bytes.len(), Some(bytes.to_vec()));
        }
        while self.len < bytes.len() {
            let end = (self.len + self.connection.piece_len()).min(bytes.len());
            self.send(&bytes[self.len..end]).await;
        }
    }

    /// Sends one piece once the limit of the rate and the bytes under way leave room for it. The answer is awaited at the
    /// end.
    async fn send(&mut self, piece: &[u8]) {
        self.connection.throttle.pass(Direction::Upload, piece.len()).await;
        let moving = self.connection.may_move(piece.len()).await;
        let (connection, handle) = (self.connection.clone(), self.handle.name().to_owned());
        let (offset, piece) = (self.len as u64, piece.to_vec());
        self.len += piece.len();
        self.writes.push(tokio::spawn(async move {
            let written = connection.ask(connection.session.write(handle, offset, piece)).await;
            drop(moving);
            written.map(|_| ())
        }));
    }

    /// Waits until all bytes have reached the disk. The folder is opened meanwhile, for a sync of
    /// its own.
    ///
    /// An object of one piece is written and synced by two requests, the second of which is sent
    /// before the answer to the first: a server handles requests for one file in their order (section
    /// 3.1 of draft-ietf-secsh-filexfer-02).
    async fn sync(&mut self) -> Result<Option<Handle>, Failure> {
        for write in std::mem::take(&mut self.writes) {
            let written = write.await.unwrap_or_else(|error| {
                Err(Failure::outage(format!("a write was cut off: {error}")))
            });
            if let Err(failure) = written {
                return Err(named(&self.connection, failure).await);
            }
        }
        let whole = self.whole.take().unwrap_or_default();
        let connection = &self.connection;
        let _moving = connection.may_move(whole.len()).await;
        let (session, handle) = (&connection.session, self.handle.name());
        let write = async {
            match whole.is_empty() {
                true => Ok(()),
                false => connection.ask(session.write(handle, 0, whole)).await.map(drop),
            }
        };
        if !connection.extensions.has_fsync {
            return match write.await {
                Err(failure) => Err(named(connection, failure).await),
                Ok(()) => Ok(None),
            };
        }
        let file = connection.ask(session.fsync(handle));
        let folder = connection.open_folder_to_sync(&self.folder);
        // The requests are sent in the order of the arguments: each is sent when its future is polled
        // for the first time.
        let (written, file, folder) = futures_util::future::join3(write, file, folder).await;
        match written.and(file.map(drop)) {
            Err(failure) => Err(named(connection, failure).await),
            Ok(()) => folder,
        }
    }

    /// Completes the object, unless one of its name exists.
    pub(super) async fn finish(mut self) -> Result<Put, Failure> {
        let folder = self.sync().await?;
        let put = self.name().await?;
        if put == Put::Created {
            sync_folder(folder).await?;
        }
        Ok(put)
    }

    /// Gives the file its name.
    async fn name(&mut self) -> Result<Put, Failure> {
        let connection = self.connection.clone();
        let session = &connection.session;
        if connection.extensions.has_links {
            let link = session.hardlink(self.staged.as_str(), self.target.as_str());
            match connection.ask(link).await {
                Ok(_) => return Ok(Put::Created),
                Err(failure) if failure.meaning == Meaning::TryAgain => return Err(failure),
                // The answer does not tell why.
                Err(failure) => match connection.about(&self.target).await? {
                    Some(_) => return Ok(Put::Exists),
                    None if failure.meaning == Meaning::Unnamed => {
                        return Err(named(&connection, failure).await);
                    }
                    None if matches!(failure.meaning, Meaning::Denied | Meaning::Unknown) => {
                        return Err(failure.with_remedy(NO_LINKS));
                    }
                    None => return Err(failure),
                },
            }
        }
        if connection.about(&self.target).await?.is_some() {
            return Ok(Put::Exists);
        }
        let rename = session.rename(self.staged.as_str(), self.target.as_str());
        match connection.ask(rename).await {
            Ok(_) => {
                self.is_moved = true;
                Ok(Put::Created)
            }
            Err(failure) if failure.meaning == Meaning::TryAgain => Err(failure),
            Err(failure) => match connection.about(&self.target).await? {
                Some(_) => Ok(Put::Exists),
                None => Err(named(&connection, failure).await),
            },
        }
    }

    /// Completes the object in place of an existing one.
    pub(super) async fn replace(mut self) -> Result<(), Failure> {
        let folder = self.sync().await?;
        let paths = [&self.staged, &self.target];
        let mut names = Vec::new();
        for path in paths {
            names.extend_from_slice(&u32::try_from(path.len()).unwrap_or(u32::MAX).to_be_bytes());
            names.extend_from_slice(path.as_bytes());
        }
        let rename = self.connection.session.extended("posix-rename@openssh.com", names);
        self.connection.ask(rename).await?;
        self.is_moved = true;
        self.connection.forget(&self.target);
        sync_folder(folder).await
    }

    /// Returns the time of the server's clock at which the file was written last.
    pub(super) async fn stamp_ns(&self) -> Result<Option<i64>, Failure> {
        let about = self.connection.session.fstat(self.handle.name());
        let about = self.connection.ask(about).await?;
        Ok(super::reading::About::of(&about.attrs).stamp_ns)
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        let staged = std::mem::take(&mut self.staged);
        if self.is_moved || self.connection.is_lost() {
            return;
        }
        let writes = std::mem::take(&mut self.writes);
        let connection = Arc::downgrade(&self.connection);
        self.connection.later(async move {
            for write in writes {
                write.await.ok();
            }
            if let Some(connection) = connection.upgrade() {
                // A file that cannot be removed is cleaned up later.
                connection.session.remove(staged).await.ok();
            }
        });
    }
}

/// The remedy of a link that the server refuses.
const NO_LINKS: &str = "the file system of the server may have no hard links (exFAT, some network \
                        file systems): use a folder on another file system there";

/// Syncs an open folder, if there is one.
async fn sync_folder(folder: Option<Handle>) -> Result<(), Failure> {
    let Some(folder) = folder else { return Ok(()) };
    let connection = &folder.connection;
    match connection.ask(connection.session.fsync(folder.name())).await {
        // A folder above that of a repository that is being created.
        Err(failure)
            if matches!(failure.meaning, Meaning::Invalid | Meaning::Unknown)
                && connection.syncs_folders().await?.is_none() =>
        {
            Ok(())
        }
        synced => synced.map(|_| ()),
    }
}

impl Connection {
    /// Opens a folder for a sync; `None` if the server does not sync folders, which
    /// [`Storage::weaknesses`](crate::Storage::weaknesses) says then. Any other failure is one of
    /// the put, such as that of a server with too many open handles.
    async fn open_folder_to_sync(self: &Arc<Self>, path: &str) -> Result<Option<Handle>, Failure> {
        match self.syncs_folders().await? {
            Some(true) => self.open_to_read(path).await.map(Some),
            Some(false) => Ok(None),
            None => match self.open_to_read(path).await {
                Err(failure) if failure.is_of_folder() => Ok(None),
                folder => folder.map(Some),
            },
        }
    }

    /// Syncs the folder at `path`, if the server can.
    pub(super) async fn sync_folder(self: &Arc<Self>, path: &str) -> Result<(), Failure> {
        if !self.extensions.has_fsync {
            return Ok(());
        }
        sync_folder(self.open_folder_to_sync(path).await?).await
    }

    /// Syncs the folder at `path`, above one that was created, if the server can. If that is the
    /// folder of the repository, finds out at the same time what later puts need to know of it.
    pub(super) async fn sync_above(
        self: &Arc<Self>,
        path: &str,
        is_repository: bool,
    ) -> Result<(), Failure> {
        if !self.extensions.has_fsync || !is_repository {
            return self.sync_folder(path).await;
        }
        let sync = async {
            let folder = match self.open_to_read(path).await {
                Err(failure) if failure.is_of_folder() => return Ok(()),
                folder => folder?,
            };
            self.ask(self.session.fsync(folder.name())).await.map(drop)
        };
        let (synced, mode, syncs_folders) =
            futures_util::future::join3(sync, self.mode(), self.syncs_folders()).await;
        mode?;
        match (synced, syncs_folders?) {
            // The server does not sync folders, or that is not known.
            (Err(failure), None | Some(false))
                if matches!(failure.meaning, Meaning::Invalid | Meaning::Unknown) =>
            {
                Ok(())
            }
            (synced, _) => synced,
        }
    }

    /// Syncs the file at `path` and its folder, if the server can. The file must exist in any case.
    pub(super) async fn sync_file(self: &Arc<Self>, path: &str) -> Result<(), Failure> {
        let file = self.open_to_read(path).await?;
        if !self.extensions.has_fsync {
            return Ok(());
        }
        self.ask(self.session.fsync(file.name())).await?;
        self.sync_folder(path.rsplit_once('/').map_or(".", |(folder, _)| folder)).await
    }

    /// Creates the folder at `path`. Returns `false` if it exists.
    pub(super) async fn make_folder(&self, path: &str, mode: u32) -> Result<bool, Failure> {
        let attributes = russh_sftp::protocol::FileAttributes {
            permissions: Some(mode),
            ..super::connection::no_attributes()
        };
        match self.ask(self.session.mkdir(path, attributes)).await {
            Ok(_) => Ok(true),
            Err(failure) if failure.meaning == Meaning::TryAgain => Err(failure),
            Err(failure) => match self.about(path).await? {
                Some(about) if about.is_folder => Ok(false),
                _ => Err(failure),
            },
        }
    }
}

/// Creates the folders of the object `name` below the root, which must exist.
async fn make_folders(connection: &Arc<Connection>, name: &str, mode: u32) -> Result<(), Failure> {
    for (at, _) in name.match_indices('/') {
        let path = connection.path(&name[..at]);
        if let Err(failure) = connection.make_folder(&path, mode).await {
            if failure.meaning == Meaning::Missing
                && connection.about(&connection.root).await?.is_none()
            {
                let text = format!("the folder {} does not exist on the server", connection.root);
                return Err(Failure::new(Meaning::Final, text).with_remedy(
                    "check the path: sftp://HOST/PATH is in the home folder, and sftp://HOST//PATH \
                     is absolute",
                ));
            }
            return Err(named(connection, failure).await);
        }
        let above = path.rsplit_once('/').map_or("", |(above, _)| above);
        connection.sync_folder(above).await?;
    }
    Ok(())
}

/// Looks for the reason of a bare "failure" of a server that was told to store something: its free
/// space.
async fn named(connection: &Connection, failure: Failure) -> Failure {
    if failure.meaning != Meaning::Unnamed {
        return failure;
    }
    if !connection.extensions.has_space {
        return failure.with_remedy(UNNAMED);
    }
    let space = connection.session.statvfs(connection.root.as_str());
    let Ok(space) = connection.ask(space).await else { return failure.with_remedy(UNNAMED) };
    let has_no_blocks = space.blocks > 0 && space.blocks_avail == 0;
    let has_no_inodes = space.inodes > 0 && space.inodes_avail == 0;
    if has_no_blocks || has_no_inodes {
        let what = if has_no_blocks { "space" } else { "inodes" };
        let text = format!("no {what} left on the server");
        return Failure { kind: Kind::Full, ..Failure::new(Meaning::Final, text) }
            .with_remedy(FULL);
    }
    let free_mib = space.blocks_avail.saturating_mul(space.fragment_size) >> 20;
    let text = format!(
        "{}, although its file system has {free_mib} MiB left: a quota of the account may be used \
         up",
        failure.text
    );
    Failure { text, ..failure }.with_remedy(UNNAMED)
}
