//! A place behind restic's REST protocol: a remote of `rclone`, which this process starts and talks
//! to over pipes, or a server on a network.
//!
//! The crate's runtime is confined to this module: calls block their thread
//! (`docs/decisions/0001`).
//!
//! The protocol has no put that fails if the name exists, and `rclone` replaces an existing object.
//! A put therefore looks for the name first. Threads of one process take turns at a name; between
//! processes there is no promise, which [`Storage::weaknesses`] says. After an attempt with an
//! unknown outcome the stored object is compared. Many remotes show an object while it arrives, so
//! that a beginning of the bytes is a remnant of the put itself, and is replaced.
//!
//! Old versions of `rclone` answer "not found" to any failure of their remote. That an object is
//! missing is therefore confirmed by a listing of its folder; before a put, for objects whose names
//! other clients use, too.

mod address;
mod answer;
mod client;
mod failure;
mod listing;
mod names;
mod rclone;
mod requests;
mod turns;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use self::failure::{Failure, Meaning};
use self::requests::{About, Requests, require_path};
use self::turns::Turns;
use crate::environment::Environment;
use crate::error::{Error, Kind, Result};
use crate::remote::{Link, Passing, settle};
use crate::storage::{ObjectRange, Put, Storage, Weakness, too_short};

pub use address::RestSettings;

/// Maximum number of attempts of one request that end with an answer.
const TRIES_MAX: u32 = 12;
/// Number of ranges that are requested before they are needed. A range of a restore is often as short
/// as a region, 128 KiB, so that many are needed to hide the distance to a remote.
const REQUESTS_AHEAD_MAX: usize = 32;
/// Number of names of one folder from which on a listing is cheaper than a request for each.
const HEADS_MAX: usize = 256;
/// The maximum time for the process that serves to end.
const END_MAX: Duration = Duration::from_secs(3);

/// The folders of objects that several clients may want to create under one name. The first one
/// decides, so that a put must not replace it.
const DECIDING: [&str; 4] = ["commits", "config", "keys", "prunes"];

/// A place behind restic's REST protocol.
#[derive(Debug)]
pub struct Rest {
    requests: Requests,
    environment: Arc<dyn Environment>,
    /// The names that are being put.
    turns: Turns,
    link: Link,
}

impl Drop for Rest {
    fn drop(&mut self) {
        let end = async { tokio::time::timeout(END_MAX, self.requests.end()).await };
        self.link.finish(end).ok();
    }
}

/// An object of the name that is to be put.
enum Found {
    Nothing,
    /// A beginning of the bytes, which an earlier attempt has left.
    Part,
    /// All bytes.
    Own,
    Other,
}

impl Rest {
    /// Opens the place that `settings` describe. No request is made yet, and no process started.
    ///
    /// # Errors
    ///
    /// Returns an `Invalid` error if the settings make no sense, and `Storage` if threads cannot be
    /// started.
    pub fn open(settings: &RestSettings, environment: Arc<dyn Environment>) -> Result<Rest> {
        let link = Link::new(settings.describe(), "rest", environment.clone(), TRIES_MAX)?;
        // The client's own tasks belong to the runtime.
        let entered = link.enter();
        let requests = Requests::open(settings)?;
        drop(entered);
        Ok(Rest { requests, environment, turns: Turns::default(), link })
    }

    /// Requires that a new repository may be created here.
    ///
    /// # Errors
    ///
    /// Returns a `Storage` error if the place holds a repository of restic, or if the server fails.
    pub fn require_free(&self) -> Result<()> {
        let ask = || self.link.block_on(self.requests.is_of_restic());
        match self.link.tries("look for a repository", "config", ask)? {
            true => Err(self.link.error("create a repository", "config", 1, Failure::of_restic())),
            false => Ok(()),
        }
    }

    /// Makes `count` requests, several at a time, each of them once.
    fn at_once<T>(
        &self,
        count: usize,
        requests: impl Iterator<Item = impl Future<Output = Result<T, Failure>>>,
    ) -> Vec<Result<T, Failure>> {
        let answered = self.link.at_once(count, requests);
        if answered.iter().any(Result::is_ok) {
            self.link.patience.worked();
        }
        answered
    }

    /// Turns the failures "missing" of objects that a listing of their folder shows into failures
    /// after which another attempt may succeed.
    fn confirm<T>(&self, names: &[&str], answered: &mut [Result<T, Failure>]) {
        let is_missing = |answer: &Result<T, Failure>| {
            answer.as_ref().is_err_and(|failure| failure.meaning == Meaning::Missing)
        };
        let missing = names.iter().zip(&*answered).filter(|(_, answer)| is_missing(answer));
        let folders: BTreeSet<&str> = missing.map(|(name, _)| folder_of(name)).collect();
        let listed: BTreeMap<&str, Result<BTreeSet<String>, Failure>> = folders
            .into_iter()
            .map(|folder| {
                let listed = self.link.block_on(self.requests.list(folder));
                (folder, listed.map(|listed| listed.into_iter().map(|(name, _)| name).collect()))
            })
            .collect();
        for (name, answer) in names.iter().zip(answered) {
            if !is_missing(answer) {
                continue;
            }
            match listed.get(folder_of(name)) {
                Some(Ok(listed)) if listed.contains(*name) => {
                    let text = "the server does not find an object that it lists";
                    *answer = Err(Failure::new(Meaning::TryAgain, text));
                }
                Some(Err(failure)) => *answer = Err(failure.clone()),
                _ => {}
            }
        }
    }

    /// Requires that the listing of its folder does not show `name` either.
    fn require_missing(&self, name: &str) -> Result<(), Failure> {
        let mut answer = [Err::<(), Failure>(Failure::new(Meaning::Missing, "not found"))];
        self.confirm(&[name], &mut answer);
        let [answer] = answer;
        match answer {
            Err(failure) if failure.meaning == Meaning::Missing => Ok(()),
            answer => answer,
        }
    }

    /// Makes one request for `name`, of which a failure "missing" is confirmed.
    fn ask_of<T>(
        &self,
        name: &str,
        request: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let mut answer = [self.link.block_on(request)];
        self.confirm(&[name], &mut answer);
        let [answer] = answer;
        answer
    }

    fn about(&self, verb: &str, name: &str) -> Result<Option<About>> {
        let path = require_path(name)?;
        let ask = || self.ask_of(name, self.head(&path));
        match self.link.tries(verb, name, ask) {
            Err(error) if error.kind() == Kind::Missing => Ok(None),
            about => about.map(Some),
        }
    }

    async fn head(&self, path: &str) -> Result<About, Failure> {
        let missing = || Failure::new(Meaning::Missing, "not found");
        self.requests.head(path).await?.ok_or_else(missing)
    }

    /// Reads a range; `None` if the object ends before it.
    async fn range(&self, path: &str, offset: u64, len: usize) -> Result<Option<Bytes>, Failure> {
        let Some(end) = offset.checked_add(len as u64).filter(|end| i64::try_from(*end).is_ok())
        else {
            return Ok(None);
        };
        // Even a range of no bytes has to lie within an object that exists.
        if len == 0 {
            return Ok((self.head(path).await?.len >= end).then(Bytes::new));
        }
        let failure = match self.requests.read(path, Some(offset..end), len as u64).await {
            Ok(bytes) if bytes.len() == len => return Ok(Some(bytes)),
            Ok(bytes) => {
                let text = format!("received {} of {len} bytes", bytes.len());
                Failure::new(Meaning::TryAgain, text)
            }
            Err(failure) if failure.meaning == Meaning::Missing => return Err(failure),
            Err(failure) => failure,
        };
        // A range behind the end is answered in many ways.
        match self.head(path).await?.len < end {
            true => Ok(None),
            false => Err(failure),
        }
    }

    /// Looks for an object of the name that is to be put. `is_unsure` is set if an earlier attempt
    /// may have stored the bytes, or a beginning of them.
    async fn look(&self, path: &str, bytes: &Bytes, is_unsure: bool) -> Result<Found, Failure> {
        let Some(About { len, .. }) = self.requests.head(path).await? else {
            return Ok(Found::Nothing);
        };
        if !is_unsure || len > bytes.len() as u64 {
            return Ok(Found::Other);
        }
        let stored = match self.requests.read(path, None, bytes.len() as u64).await {
            Err(failure) if failure.meaning == Meaning::Missing => return Ok(Found::Nothing),
            stored => stored?,
        };
        Ok(match bytes.starts_with(&stored) {
            true if stored.len() == bytes.len() => Found::Own,
            true => Found::Part,
            false => Found::Other,
        })
    }

    /// Stores an object that does not exist, or of which a beginning is there. If `is_unsure` is
    /// set, the end of an earlier attempt may remove it, so that it is looked for afterwards.
    async fn store(&self, path: &str, bytes: &Bytes, is_unsure: bool) -> Result<Put, Failure> {
        match self.requests.post(path, bytes).await {
            // The answer of a server that permits no replacement.
            Err(failure) if failure.meaning == Meaning::Denied => {
                return match self.look(path, bytes, true).await? {
                    Found::Own if is_unsure => Ok(Put::Created),
                    Found::Own | Found::Other => Ok(Put::Exists),
                    Found::Nothing | Found::Part => Err(failure),
                };
            }
            stored => stored?,
        }
        if is_unsure && self.requests.head(path).await?.map(|a| a.len) != Some(bytes.len() as u64) {
            return Err(Failure::new(Meaning::TryAgain, "the object is gone after its put"));
        }
        Ok(Put::Created)
    }
}

fn folder_of(name: &str) -> &str {
    name.split('/').next().unwrap_or_default()
}

impl Storage for Rest {
    fn put_new(&self, name: &str, bytes: Bytes) -> Result<Put> {
        let path = require_path(name)?;
        let interrupted = || crate::wait::interrupted(name);
        let _turn = self.turns.take(name, &*self.environment).ok_or_else(interrupted)?;
        // Set if an earlier attempt may have been carried out, in part or completely.
        let mut is_unsure = false;
        let put = self.link.tries("put", name, || {
            match self.link.block_on(self.look(&path, &bytes, is_unsure))? {
                Found::Own => return Ok(Put::Created),
                Found::Other => return Ok(Put::Exists),
                Found::Nothing if DECIDING.contains(&folder_of(name)) => {
                    self.require_missing(name)?;
                }
                Found::Nothing | Found::Part => {}
            }
            let put = self.link.block_on(self.store(&path, &bytes, is_unsure));
            put.inspect_err(|failure| is_unsure |= failure.may_pass())
        });
        put.map_err(Error::of_put)
    }

    fn sync(&self, name: &str) -> Result<()> {
        // Nothing tells whether an object has reached a disk.
        let about = self.about("sync", name)?;
        about.map(|_| ()).ok_or_else(|| Error::missing(name, "not found"))
    }

    fn get_at_most(&self, name: &str, len_max: u64) -> Result<Bytes> {
        let path = require_path(name)?;
        self.link.tries("get", name, || self.ask_of(name, self.requests.read(&path, None, len_max)))
    }

    fn get_many(&self, wanted: &[(String, u64)]) -> Vec<Result<Bytes>> {
        let names: Vec<&str> = wanted.iter().map(|(name, _)| name.as_str()).collect();
        let reads = wanted.iter().map(|(name, len_max)| async move {
            self.requests.read(&path_in(name)?, None, *len_max).await
        });
        let mut read = self.at_once(wanted.len(), reads);
        self.confirm(&names, &mut read);
        let again = |at: usize| self.get_at_most(&wanted[at].0, wanted[at].1);
        settle(read, |at, failure| self.link.error("get", names[at], 1, failure), again)
    }

    fn get_range(&self, name: &str, offset: u64, len: usize) -> Result<Bytes> {
        let path = require_path(name)?;
        let read = || self.ask_of(name, self.range(&path, offset, len));
        let read = self.link.tries("get a range", name, read)?;
        read.ok_or_else(|| too_short(name, offset, len))
    }

    fn get_ranges(&self, wanted: &[ObjectRange]) -> Vec<Result<Bytes>> {
        let names: Vec<&str> = wanted.iter().map(|range| range.name.as_str()).collect();
        let reads = wanted.iter().map(|ObjectRange { name, offset, len }| async move {
            self.range(&path_in(name)?, *offset, *len).await
        });
        let mut read = self.at_once(wanted.len(), reads);
        self.confirm(&names, &mut read);
        let again = |at: usize| {
            let ObjectRange { name, offset, len } = &wanted[at];
            self.get_range(name, *offset, *len).map(Some)
        };
        let fail = |at: usize, failure| self.link.error("get a range", names[at], 1, failure);
        let is_whole = |(read, range): (Result<Option<Bytes>>, &ObjectRange)| {
            read?.ok_or_else(|| too_short(&range.name, range.offset, range.len))
        };
        settle(read, fail, again).into_iter().zip(wanted).map(is_whole).collect()
    }

    fn requests_ahead_max(&self) -> usize {
        REQUESTS_AHEAD_MAX
    }

    fn head(&self, name: &str) -> Result<Option<u64>> {
        Ok(self.about("get the length", name)?.map(|about| about.len))
    }

    fn all_exist(&self, names: &[String]) -> Result<bool> {
        let mut folders: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for name in names {
            folders.entry(folder_of(name)).or_default().push(name);
        }
        for (folder, mut names) in folders {
            if names.len() > HEADS_MAX {
                let listed: BTreeSet<String> =
                    self.list(folder)?.into_iter().map(|(name, _)| name).collect();
                names.retain(|name| !listed.contains(*name));
            }
            let heads = names.iter().map(|name| async move { self.head(&path_in(name)?).await });
            let mut found = self.at_once(names.len(), heads);
            self.confirm(&names, &mut found);
            let fail =
                |at: usize, failure| self.link.error("get the length", names[at], 1, failure);
            let again = |at: usize| {
                let about = self.about("get the length", names[at])?;
                about.ok_or_else(|| Error::missing(names[at], "not found"))
            };
            for about in settle(found, fail, again) {
                match about {
                    Err(error) if error.kind() == Kind::Missing => return Ok(false),
                    about => drop(about?),
                }
            }
        }
        Ok(true)
    }

    fn stamp_ns(&self, name: &str) -> Result<Option<i64>> {
        Ok(self.about("get the time", name)?.and_then(|about| about.stamp_ns))
    }

    fn list(&self, prefix: &str) -> Result<Vec<(String, u64)>> {
        let folder = folder_of(prefix);
        let list = || self.link.block_on(self.requests.list(folder));
        let mut listed = self.link.tries("list", prefix, list)?;
        if folder != prefix {
            let is_below =
                |name: &str| name.strip_prefix(prefix).is_some_and(|rest| rest.starts_with('/'));
            listed.retain(|(name, _)| is_below(name));
        }
        Ok(listed)
    }

    fn delete(&self, name: &str) -> Result<()> {
        let path = require_path(name)?;
        let deleted = self.link.tries("delete", name, || self.ask_of(name, self.remove(&path)));
        match deleted {
            Err(error) if error.kind() == Kind::Missing => Ok(()),
            deleted => deleted,
        }
    }

    fn delete_many(&self, names: &[String]) -> Vec<Result<()>> {
        let texts: Vec<&str> = names.iter().map(String::as_str).collect();
        let deletes = texts.iter().map(|name| async move { self.remove(&path_in(name)?).await });
        let mut deleted = self.at_once(names.len(), deletes);
        self.confirm(&texts, &mut deleted);
        let fail = |at: usize, failure| self.link.error("delete", texts[at], 1, failure);
        let is_gone = |deleted: Result<()>| match deleted {
            Err(error) if error.kind() == Kind::Missing => Ok(()),
            deleted => deleted,
        };
        settle(deleted, fail, |at| self.delete(texts[at])).into_iter().map(is_gone).collect()
    }

    fn weaknesses(&self) -> Result<Vec<Weakness>> {
        Ok(vec![
            Weakness::CreatesInSteps(
                "restic's REST protocol has no put that fails if the name exists, so that two \
                 clients may create one object at a time",
            ),
            Weakness::MayLoseNewest(
                "restic's REST protocol does not tell whether an object has reached a disk, and a \
                 remote that is a folder may keep a beginning of an object",
            ),
        ])
    }

    fn had_outage(&self) -> bool {
        self.link.patience.had_outage()
    }

    fn describe(&self) -> String {
        self.link.address().to_owned()
    }
}

impl Rest {
    async fn remove(&self, path: &str) -> Result<(), Failure> {
        match self.requests.delete(path).await? {
            true => Ok(()),
            false => Err(Failure::new(Meaning::Missing, "not found")),
        }
    }
}

/// Returns the path of the object `name`.
fn path_in(name: &str) -> Result<String, Failure> {
    require_path(name).map_err(|error| Failure {
        kind: error.kind(),
        ..Failure::new(Meaning::Final, "not the name of an object")
    })
}
