//! A folder on an SSH server, over SFTP.
//!
//! The system's `ssh` connects, so that its configuration, agents and known hosts apply; the crate
//! `russh_sftp` speaks SFTP over its standard input and output. The crate's runtime is confined to
//! this module: calls block their thread (`docs/decisions/0001`).
//!
//! The folder has the same files as a local one ([`Local`](crate::Local)), so that a repository can
//! be used in both ways. An object is written to a file `name#NUMBER`, synced by
//! `fsync@openssh.com`, and linked to its name by `hardlink@openssh.com`, which fails if the name
//! exists. A connection that is cut is made again, and a put begins again. If the link may have been
//! made, the existing object is compared.

mod address;
mod connection;
mod failure;
mod put;
mod reading;
mod staged;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;

use self::connection::Connection;
use self::failure::{Failure, Meaning};
use self::put::Upload;
use self::reading::{About, EntryRoom, Listed};
use self::staged::StagedUpload;
use crate::environment::Environment;
use crate::error::{Error, Kind, Result};
use crate::kind::ObjectKind;
use crate::remote::{Link, Passing, lock, settle};
use crate::storage::{
    ObjectRange, Put, Staged, Stamped, Storage, Weakness, count_max, is_staged, too_short,
};

pub use address::SftpSettings;

/// Maximum number of attempts of one request that end with an answer.
const TRIES_MAX: u32 = 12;
/// Number of ranges that are requested before they are needed. A range of a restore is often as short
/// as a region, 128 KiB, and takes two answers of the server, so that many are needed to fill the
/// window of an SSH channel, 2 MiB.
const REQUESTS_AHEAD_MAX: usize = 32;
/// Number of names of one folder from which on a listing is cheaper than a request for each.
const HEADS_MAX: usize = 512;
/// Number of folders that are made at a time. Each takes some bytes of the window of an SSH channel, and
/// no handle.
const MADE_MAX: usize = 256;
/// Maximum number of folders, links and files on their way in a listing, besides objects.
const FOLDERS_MAX: usize = 10_000;
/// The maximum time for what is still under way at the end: closed handles, removed files.
const END_MAX: Duration = Duration::from_secs(2);

/// A folder on an SSH server. Clones share the connection.
#[derive(Clone, Debug)]
pub struct Sftp(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    settings: SftpSettings,
    environment: Arc<dyn Environment>,
    /// The connection, once there is one.
    connection: Mutex<Option<Arc<Connection>>>,
    link: Link,
}

impl Drop for Inner {
    fn drop(&mut self) {
        let connection = lock(&self.connection).take();
        if let Some(connection) = connection.filter(|connection| !connection.is_lost()) {
            let settled = async { tokio::time::timeout(END_MAX, connection.settle()).await };
            self.link.finish(settled).ok();
        }
    }
}

impl Sftp {
    /// Opens the folder that `settings` describe. No connection is made yet.
    ///
    /// # Errors
    ///
    /// Returns a `Storage` error if threads cannot be started.
    pub fn open(settings: &SftpSettings, environment: Arc<dyn Environment>) -> Result<Sftp> {
        let link = Link::new(settings.describe(), "sftp", environment.clone(), TRIES_MAX)?;
        let (connection, settings) = (Mutex::default(), settings.clone());
        Ok(Sftp(Arc::new(Inner { settings, environment, connection, link })))
    }

    /// Creates the folder with its missing parents, for their owner only. An existing folder keeps
    /// its permissions.
    ///
    /// # Errors
    ///
    /// Returns a `Storage` error if the folder cannot be created.
    pub fn create_folder(&self) -> Result<()> {
        let path = &self.0.settings.path;
        self.tries("create the folder", path, |connection| {
            self.0.link.block_on(async {
                let ends = path.match_indices('/').map(|(at, _)| at).chain([path.len()]);
                let paths = ends.filter(|end| *end > 0).map(|end| &path[..end]);
                let paths: Vec<&str> = paths.collect();
                let about = paths.iter().map(|path| connection.about(path));
                let found = futures_util::future::try_join_all(about).await?;
                for (path, found) in paths.into_iter().zip(found) {
                    if found.is_none() {
                        connection.make_folder(path, 0o700).await?;
                        let above = path.rsplit_once('/').map_or(".", |(above, _)| above);
                        let above = if above.is_empty() { "/" } else { above };
                        let is_last = path.len() == self.0.settings.path.len();
                        connection.sync_above(above, is_last).await?;
                    }
                }
                Ok(())
            })
        })
    }

    /// Returns the names in the folder itself; none if there is no such folder.
    ///
    /// # Errors
    ///
    /// Returns a `Storage` error if the server fails.
    pub fn entries(&self) -> Result<Vec<String>> {
        let list = |connection: &Arc<Connection>| {
            let room = EntryRoom::new(count_max(""));
            self.0.link.block_on(connection.list_folder(String::new(), &room))
        };
        let entries = self.tries("list", &self.0.settings.path, list)?;
        Ok(entries.into_iter().map(|(name, _)| name).collect())
    }

    /// Returns the connection, which is made if there is none.
    fn connection(&self) -> Result<Arc<Connection>, Failure> {
        let mut connection = lock(&self.0.connection);
        if let Some(connection) = connection.as_ref().filter(|connection| !connection.is_lost()) {
            return Ok(connection.clone());
        }
        let opened = self.0.link.block_on(Connection::open(&self.0.settings))?;
        *connection = Some(opened.clone());
        Ok(opened)
    }

    /// Repeats `act`, which is one attempt, until it succeeds or must not be tried again.
    fn tries<T>(
        &self,
        verb: &str,
        name: &str,
        mut act: impl FnMut(&Arc<Connection>) -> Result<T, Failure>,
    ) -> Result<T> {
        self.0.link.tries(verb, name, || act(&self.connection()?))
    }

    /// Makes `count` requests, several at a time. Those that have no answer because the connection
    /// is cut are made by `again`, one after the other.
    fn at_once<T, F: Future<Output = Result<T, Failure>>>(
        &self,
        verb: &str,
        names: &[&str],
        request: impl Fn(Arc<Connection>, usize) -> F,
        again: impl Fn(usize) -> Result<T>,
    ) -> Vec<Result<T>> {
        let answered = match self.connection() {
            Ok(connection) => {
                let requests = (0..names.len()).map(|at| request(connection.clone(), at));
                self.0.link.at_once(names.len(), requests)
            }
            // One attempt to connect is that of all requests.
            Err(failure) => names.iter().map(|_| Err(failure.clone())).collect(),
        };
        if answered.iter().any(Result::is_ok) {
            self.0.link.patience.worked();
        }
        settle(answered, |at, failure| self.0.link.error(verb, names[at], 1, failure), again)
    }

    /// Lists the files below `prefix`, with those that are on their way.
    fn list_files(&self, prefix: &str) -> Result<Vec<Listed>> {
        let listed = self.tries("list", prefix, |connection| {
            let mut files = Vec::new();
            let take = |file: Listed| {
                files.push(file);
                if files.len() > count_max(prefix) {
                    let text = format!("more than {} objects", count_max(prefix));
                    return Err(Failure::new(Meaning::Final, text));
                }
                Ok(())
            };
            let room = EntryRoom::new(count_max(prefix).saturating_add(FOLDERS_MAX));
            self.0.link.block_on(connection.list(prefix, &room, take))?;
            Ok(files)
        });
        let mut files = listed?;
        files.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        Ok(files)
    }

    /// Returns the path suffix of a new file on its way, which listings hide.
    fn mark(&self) -> Result<String, Failure> {
        let mut random = [0; 8];
        let made = self.0.environment.random(&mut random);
        made.map_err(|error| Failure::new(Meaning::Final, error.to_string()))?;
        Ok(format!("#{}", u64::from_le_bytes(random)))
    }

    /// Begins the file of an object.
    async fn begin(
        &self,
        connection: &Arc<Connection>,
        name: &str,
        suffix: &str,
    ) -> Result<Upload, Failure> {
        let mode = connection.mode().await?;
        let mark = format!("{suffix}{}", self.mark()?);
        Upload::begin(connection, name, &mark, mode).await
    }

    /// Puts an object, of which `upload` has a part already if there is one.
    fn publish(&self, name: &str, bytes: &Bytes, mut upload: Option<Upload>) -> Result<Put> {
        // Set if an earlier attempt may have linked the file, so that an existing object may be the
        // one being put.
        let mut is_unsure = false;
        let put = self.tries("put", name, |connection| {
            if is_unsure && let Some(is_own) = self.is_there(connection, name, bytes)? {
                return Ok(if is_own { Put::Created } else { Put::Exists });
            }
            // An upload over a connection that is cut cannot go on: what the server has not synced
            // may be lost.
            let begun = upload.take().filter(|upload| !upload.is_lost());
            let put = self.0.link.block_on(async {
                let mut upload = match begun {
                    Some(upload) => upload,
                    None => self.begin(connection, name, "").await?,
                };
                upload.send_rest(bytes).await;
                upload.finish().await
            });
            let put = put.inspect_err(|failure| is_unsure |= failure.may_pass())?;
            // The link of an earlier attempt may have been made after this one has looked for it.
            let is_late = is_unsure && put == Put::Exists;
            match is_late && self.is_there(connection, name, bytes)? == Some(true) {
                true => Ok(Put::Created),
                false => Ok(put),
            }
        });
        put.map_err(Error::of_put)
    }

    /// Returns `true` if the object `name` equals `bytes`, and has reached the disk; `None` if there
    /// is no object.
    fn is_there(
        &self,
        connection: &Arc<Connection>,
        name: &str,
        bytes: &Bytes,
    ) -> Result<Option<bool>, Failure> {
        let path = connection.path(name);
        self.0.link.block_on(async {
            match connection.about(&path).await? {
                None => return Ok(None),
                Some(about) if about.len != bytes.len() as u64 => return Ok(Some(false)),
                Some(_) => {}
            }
            if connection.read(name, bytes.len() as u64).await? != *bytes {
                return Ok(Some(false));
            }
            connection.sync_file(&path).await?;
            Ok(Some(true))
        })
    }

    fn about(&self, name: &str) -> Result<Option<About>> {
        let found = self.tries("get the length", name, |connection| {
            self.0.link.block_on(connection.about(&connection.path(name)))
        });
        Ok(found?.filter(|about| !about.is_folder))
    }
}

/// Refuses a name that is no path below the folder, or is that of a file on its way.
fn require_name(name: &str) -> Result<()> {
    let is_part = |part: &str| !matches!(part, "" | "." | "..") && !part.contains('\0');
    if !name.split('/').all(is_part) || is_staged(name) {
        return Err(Error::invalid(name, "not the name of an object"));
    }
    Ok(())
}

async fn remove(connection: Arc<Connection>, path: String) -> Result<(), Failure> {
    connection.forget(&path);
    let removed = connection.ask(connection.session.remove(path.clone())).await;
    // A read that has begun meanwhile may have opened the file.
    connection.forget(&path);
    match removed {
        Err(failure) if failure.meaning == Meaning::Missing => Ok(()),
        removed => removed.map(|_| ()),
    }
}

impl Storage for Sftp {
    fn put_new(&self, name: &str, bytes: Bytes) -> Result<Put> {
        require_name(name)?;
        self.publish(name, &bytes, None)
    }

    fn stage(&self, name: &str) -> Result<Option<Box<dyn Staged>>> {
        require_name(name)?;
        Ok(Some(Box::new(StagedUpload::new(self, name))))
    }

    fn sync(&self, name: &str) -> Result<()> {
        require_name(name)?;
        self.tries("sync", name, |connection| {
            self.0.link.block_on(connection.sync_file(&connection.path(name)))
        })
    }

    fn get_at_most(&self, name: &str, len_max: u64) -> Result<Bytes> {
        require_name(name)?;
        self.tries("get", name, |connection| self.0.link.block_on(connection.read(name, len_max)))
    }

    fn get_many(&self, wanted: &[(String, u64)]) -> Vec<Result<Bytes>> {
        let names: Vec<&str> = wanted.iter().map(|(name, _)| name.as_str()).collect();
        let read = |connection: Arc<Connection>, at: usize| {
            let (name, len_max) = &wanted[at];
            async move { connection.read(name, *len_max).await }
        };
        self.at_once("get", &names, read, |at| self.get_at_most(&wanted[at].0, wanted[at].1))
    }

    fn get_range(&self, name: &str, offset: u64, len: usize) -> Result<Bytes> {
        let range = ObjectRange { name: name.to_owned(), offset, len };
        let failed = || Error::new(Kind::Storage, name, "no answer");
        self.get_ranges(&[range]).pop().unwrap_or_else(|| Err(failed()))
    }

    fn get_ranges(&self, wanted: &[ObjectRange]) -> Vec<Result<Bytes>> {
        let names: Vec<&str> = wanted.iter().map(|range| range.name.as_str()).collect();
        let read = |connection: Arc<Connection>, at: usize| {
            let ObjectRange { name, offset, len } = &wanted[at];
            async move { read_range(&connection, name, *offset, *len).await }
        };
        let again = |at: usize| {
            let ObjectRange { name, offset, len } = &wanted[at];
            self.tries("get a range", name, |connection| {
                self.0.link.block_on(read_range(connection, name, *offset, *len))
            })
        };
        let read = self.at_once("get a range", &names, read, again);
        let is_whole = |(read, range): (Result<Option<Bytes>>, &ObjectRange)| {
            read?.ok_or_else(|| too_short(&range.name, range.offset, range.len))
        };
        read.into_iter().zip(wanted).map(is_whole).collect()
    }

    fn requests_ahead_max(&self) -> usize {
        REQUESTS_AHEAD_MAX
    }

    fn head(&self, name: &str) -> Result<Option<u64>> {
        require_name(name)?;
        Ok(self.about(name)?.map(|about| about.len))
    }

    fn all_exist(&self, names: &[String]) -> Result<bool> {
        let mut folders: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for name in names {
            folders.entry(name.split('/').next().unwrap_or_default()).or_default().push(name);
        }
        let mut unlisted = Vec::new();
        for (folder, mut names) in folders {
            if names.len() > HEADS_MAX {
                let listed = self.list(folder)?;
                let is_listed = |name: &&str| {
                    listed.binary_search_by(|(found, _)| found.as_str().cmp(name)).is_ok()
                };
                names.retain(|name| !is_listed(name));
            }
            unlisted.append(&mut names);
        }
        let about = |connection: Arc<Connection>, at: usize| {
            let path = connection.path(unlisted[at]);
            async move { Ok(connection.about(&path).await?.is_some_and(|about| about.is_file)) }
        };
        let again = |at: usize| Ok(self.head(unlisted[at])?.is_some());
        for exists in self.at_once("get the length", &unlisted, about, again) {
            if !exists? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn stamp_ns(&self, name: &str) -> Result<Option<i64>> {
        require_name(name)?;
        Ok(self.about(name)?.and_then(|about| about.stamp_ns))
    }

    fn list(&self, prefix: &str) -> Result<Vec<(String, u64)>> {
        let files = self.list_files(prefix)?.into_iter().filter(|file| !is_staged(&file.name));
        Ok(files.map(|file| (file.name, file.len)).collect())
    }

    fn list_stamped(&self, prefix: &str) -> Result<Vec<Stamped>> {
        let files = self.list_files(prefix)?.into_iter().filter(|file| !is_staged(&file.name));
        Ok(files.map(|Listed { name, stamp_ns, .. }| Stamped { name, stamp_ns }).collect())
    }

    fn delete(&self, name: &str) -> Result<()> {
        require_name(name)?;
        self.tries("delete", name, |connection| {
            self.0.link.block_on(remove(connection.clone(), connection.path(name)))
        })
    }

    fn delete_many(&self, names: &[String]) -> Vec<Result<()>> {
        let texts: Vec<&str> = names.iter().map(String::as_str).collect();
        if let Some(error) = names.iter().find_map(|name| require_name(name).err()) {
            let object = error.object().to_owned();
            let refuse = |_: &String| Err(Error::invalid(&object, "not the name of an object"));
            return names.iter().map(refuse).collect();
        }
        let delete = |connection: Arc<Connection>, at: usize| {
            let path = connection.path(texts[at]);
            remove(connection, path)
        };
        self.at_once("delete", &texts, delete, |at| self.delete(texts[at]))
    }

    fn weaknesses(&self) -> Result<Vec<Weakness>> {
        let (extensions, syncs_folders) = self.tries("connect", "", |connection| {
            let syncs_folders = self.0.link.block_on(connection.syncs_folders())?;
            Ok((connection.extensions, syncs_folders))
        })?;
        let mut weaknesses = Vec::new();
        if !extensions.has_links {
            weaknesses.push(Weakness::CreatesInSteps(
                "the server lacks hardlink@openssh.com, so that an object is given its name by a \
                 rename, which may replace the object of another client",
            ));
        }
        if !extensions.has_fsync {
            weaknesses.push(Weakness::MayLoseNewest(
                "the server lacks fsync@openssh.com, so that nothing tells whether an object has \
                 reached its disk",
            ));
        }
        if syncs_folders == Some(false) {
            weaknesses.push(Weakness::MayLoseNewest(
                "the server does not sync folders, so that the name of an object may be lost",
            ));
        }
        Ok(weaknesses)
    }

    fn replace(&self, name: &str, bytes: Bytes) -> Result<()> {
        require_name(name)?;
        let replaced = self.tries("replace", name, |connection| {
            if !connection.extensions.has_replace {
                let text = "the server lacks posix-rename@openssh.com, which replaces objects";
                return Err(Failure::new(Meaning::Unknown, text));
            }
            self.0.link.block_on(async {
                // A file under the object's own name would look to a cleaning client like a remnant
                // of the object's writer, which has ended.
                let mut upload = self.begin(connection, name, ".anew").await?;
                upload.send_rest(&bytes).await;
                upload.replace().await
            })
        });
        replaced.map_err(Error::of_put)
    }

    fn prepare(&self) -> Result<()> {
        self.tries("create the folders", "", |connection| {
            self.0.link.block_on(async {
                let mode = connection.mode().await?.unwrap_or(0o700);
                let (mut folders, mut below) = (Vec::new(), Vec::new());
                for kind in ObjectKind::ALL {
                    folders.push(kind.folder().to_owned());
                    if matches!(kind, ObjectKind::Data | ObjectKind::Meta) {
                        below.extend(
                            (0..=0xff_u8).map(|byte| format!("{}/{byte:02x}", kind.folder())),
                        );
                    }
                }
                for folders in [&folders, &below] {
                    let make = folders.iter().map(|folder| async move {
                        connection.make_folder(&connection.path(folder), mode).await
                    });
                    let mut made = futures_util::stream::iter(make).buffer_unordered(MADE_MAX);
                    while let Some(made) = made.next().await {
                        made?;
                    }
                }
                let folders = folders.iter().map(|folder| connection.path(folder));
                let paths = folders.chain([self.0.settings.path.clone()]);
                let syncs = paths.map(|path| async move { connection.sync_folder(&path).await });
                futures_util::future::try_join_all(syncs).await.map(drop)
            })
        })
    }

    fn clean(&self, is_stale: &dyn Fn(&str, u64) -> bool) -> Result<usize> {
        // The age is relative to the server's own time.
        let now_name = format!("{}/now", ObjectKind::Ticket.folder());
        let now_ns = self.tries("get the time", &now_name, |connection| {
            self.0.link.block_on(async {
                connection.settle().await;
                let upload = self.begin(connection, &now_name, "").await?;
                let now_ns = upload.stamp_ns().await?;
                drop(upload);
                connection.settle().await;
                Ok(now_ns)
            })
        })?;
        let mut removed = 0;
        for kind in ObjectKind::ALL {
            for Listed { name, stamp_ns, .. } in self.list_files(kind.folder())? {
                let Some((object, _)) = name.rsplit_once('#').filter(|_| is_staged(&name)) else {
                    continue;
                };
                let age_ns =
                    now_ns.zip(stamp_ns).map_or(0, |(now, stamp)| now.saturating_sub(stamp));
                let age_s = u64::try_from(age_ns / 1_000_000_000).unwrap_or(0);
                if is_stale(object, age_s) {
                    let path = |connection: &Connection| connection.path(&name);
                    let deleted = self.tries("delete", &name, |connection| {
                        self.0.link.block_on(remove(connection.clone(), path(connection)))
                    });
                    removed += usize::from(deleted.is_ok());
                }
            }
        }
        Ok(removed)
    }

    fn had_outage(&self) -> bool {
        self.0.link.patience.had_outage()
    }

    fn describe(&self) -> String {
        self.0.link.address().to_owned()
    }
}

/// Reads a range; `None` if the object ends before it.
async fn read_range(
    connection: &Arc<Connection>,
    name: &str,
    offset: u64,
    len: usize,
) -> Result<Option<Bytes>, Failure> {
    // Even a range of no bytes has to lie within an object that exists.
    let Some(end) = offset.checked_add(len as u64).filter(|end| i64::try_from(*end).is_ok()) else {
        return Ok(None);
    };
    if len == 0 {
        let about = connection.about(&connection.path(name)).await?;
        let about = about.ok_or_else(|| Failure::new(Meaning::Missing, "not found"))?;
        return Ok((about.len >= end).then(Bytes::new));
    }
    match connection.read_range(name, offset..end).await {
        Err(failure) if failure.meaning == Meaning::Short => Ok(None),
        read => read.map(Some),
    }
}
