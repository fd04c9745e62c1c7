//! Azure Blob Storage and Google Cloud Storage, on top of the crate `object_store`.
//!
//! The crate's runtime is confined to this module: calls block their thread
//! (`docs/decisions/0001`). This module handles attempts, pauses and time-outs itself, as that of S3
//! does, and for the same reasons.
//!
//! A put is one request with a condition: `If-None-Match: *` in Azure,
//! `x-goog-if-generation-match: 0` in Google's. The answer "exists" (409 `BlobAlreadyExists`, or 412)
//! counts if there was no earlier attempt. After an attempt with an unknown outcome, the stored
//! object is read and compared.

mod failure;
mod service;
mod settings;

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use object_store::path::Path as StorePath;
use object_store::{
    GetOptions, GetRange, ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload,
};

use self::failure::{Failure, Meaning};
use self::settings::Service;
use crate::environment::Environment;
use crate::error::{Error, Kind, Result};
use crate::remote::{self, Link, Passing, settle};
use crate::storage::{
    Deletion, ObjectRange, Put, Stamped, Storage, Visibility, count_max, require_count, too_long,
    too_short,
};
use crate::throttle::{Direction, Throttle};

pub use settings::CloudSettings;

/// Maximum number of attempts of one request that end with an answer.
const TRIES_MAX: u32 = 12;
/// The maximum time of silence of a server before it is considered gone.
const SILENCE_MAX: Duration = Duration::from_secs(60);
/// The minimum speed of a put, in bytes per second; it extends the time limit for large objects.
const UPLOAD_BYTES_PER_S_MIN: u64 = 100_000;
/// The minimum speed of an answer, in bytes per second; a slower one is given up.
const DOWNLOAD_BYTES_PER_S_MIN: u64 = 10_000;
/// The maximum allocation before bytes arrive, in bytes.
const CAPACITY_MAX: u64 = 16 * 1024 * 1024;
/// Number of ranges that are requested before they are needed.
const REQUESTS_AHEAD_MAX: usize = 8;
/// Number of names of one folder from which on a listing is cheaper than a request for each.
const HEADS_MAX: usize = 256;

/// A container of Azure or a bucket of Google, or the part of it below a prefix.
#[derive(Debug)]
pub struct Cloud {
    service: Service,
    root: StorePath,
    store: Arc<dyn ObjectStore>,
    link: Link,
    throttle: Throttle,
    /// Set once an answer has shown that the place keeps versions.
    keeps_versions: AtomicBool,
}

impl Cloud {
    /// Opens the place that `settings` describe. No request is made yet.
    ///
    /// # Errors
    ///
    /// Returns an `Invalid` error if the settings make no sense or lack credentials, and `Storage` if
    /// threads cannot be started.
    pub fn open(settings: &CloudSettings, environment: Arc<dyn Environment>) -> Result<Cloud> {
        let link = Link::new(settings.describe(), "cloud", environment, TRIES_MAX)?;
        // The client's own tasks belong to the runtime.
        let entered = link.enter();
        let store = settings.client()?;
        drop(entered);
        Ok(Cloud {
            service: settings.service,
            root: StorePath::from(settings.prefix.as_str()),
            store,
            link,
            throttle: settings.throttle.clone(),
            keeps_versions: AtomicBool::new(false),
        })
    }

    fn path(&self, name: &str) -> StorePath {
        self.root.parts().chain(StorePath::from(name).parts()).collect()
    }

    /// Waits for the answer to a request, at most for `limit`. Waits for the rate in `direction` do
    /// not count.
    async fn within<T>(
        &self,
        limit: Duration,
        direction: Direction,
        request: impl Future<Output = object_store::Result<T>>,
    ) -> Result<T, Failure> {
        match remote::within(limit, &self.throttle, direction, request).await {
            Some(done) => done.map_err(|error| Failure::of(&error, self.service)),
            None => Err(Failure::outage(format!("no answer within {} s", limit.as_secs_f64()))),
        }
    }

    /// Waits for the answer to a request without a large body.
    async fn ask<T>(
        &self,
        request: impl Future<Output = object_store::Result<T>>,
    ) -> Result<T, Failure> {
        self.within(SILENCE_MAX, Direction::Download, request).await
    }

    fn put_once(&self, name: &str, bytes: &Bytes, mode: PutMode) -> Result<(), Failure> {
        let limit = SILENCE_MAX + Duration::from_secs(bytes.len() as u64 / UPLOAD_BYTES_PER_S_MIN);
        let path = self.path(name);
        let request = || async {
            let options = PutOptions { mode: mode.clone(), ..PutOptions::default() };
            let put = self.store.put_opts(&path, PutPayload::from_bytes(bytes.clone()), options);
            self.within(limit, Direction::Upload, put).await
        };
        let is_answer = |failure: &Failure| failure.meaning == Meaning::Exists;
        let object = (name, bytes.len() as u64);
        let put = self.link.block_on(async {
            match mode {
                PutMode::Create => self.link.put(&self.throttle, object, request, is_answer).await,
                _ => request().await,
            }
        });
        let put = put.map_err(|failure| match failure.meaning {
            // A put does not concern an existing object, so that nothing can be missing.
            Meaning::Missing => Failure {
                meaning: Meaning::Final,
                kind: Kind::Storage,
                remedy: Some(self.service.container_remedy()),
                ..failure
            },
            _ => failure,
        })?;
        // Every object of Google has a generation, also if old ones are not kept.
        if self.service == Service::Azure && put.version.is_some() {
            self.keeps_versions.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    async fn head_once(&self, name: &str) -> Result<Option<ObjectMeta>, Failure> {
        let path = self.path(name);
        match self.ask(self.store.head(&path)).await {
            Ok(meta) => Ok(Some(meta)),
            Err(failure) if failure.meaning == Meaning::Missing => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// Reads an object, or a range of it, of at most `len_max` bytes. A read that stalls is made twice
    /// ([`Link::read`]).
    async fn read(
        &self,
        name: &str,
        range: Option<Range<u64>>,
        len_max: u64,
    ) -> Result<Bytes, Failure> {
        let len = range.as_ref().map_or(len_max, |range| range.end - range.start);
        let request = || self.request(name, range.clone(), len_max);
        self.link.read(&self.throttle, len, request).await
    }

    /// Makes one request for an object, or for a range of it, of at most `len_max` bytes.
    async fn request(
        &self,
        name: &str,
        range: Option<Range<u64>>,
        len_max: u64,
    ) -> Result<Bytes, Failure> {
        let options = GetOptions { range: range.map(GetRange::Bounded), ..GetOptions::default() };
        let path = self.path(name);
        let answer = self.ask(self.store.get_opts(&path, options)).await?;
        let len = answer.range.end.saturating_sub(answer.range.start);
        if len > len_max {
            let text = too_long("", len, len_max).to_string();
            return Err(Failure { kind: Kind::Corrupt, ..Failure::new(Meaning::Final, text) });
        }
        let mut left = SILENCE_MAX + Duration::from_secs(len / DOWNLOAD_BYTES_PER_S_MIN);
        let capacity = usize::try_from(len.min(CAPACITY_MAX)).unwrap_or(0);
        let mut bytes = BytesMut::with_capacity(capacity);
        let mut pieces = answer.into_stream();
        loop {
            let began_ns = self.link.patience.now_ns();
            let next = async { pieces.next().await.transpose() };
            let piece = self.ask(next).await.map_err(Failure::of_begun_answer)?;
            let Some(piece) = piece else { break };
            let spent_ns = self.link.patience.now_ns().saturating_sub(began_ns);
            left = left.saturating_sub(Duration::from_nanos(spent_ns));
            self.throttle.pass(Direction::Download, piece.len()).await;
            bytes.extend_from_slice(&piece);
            if bytes.len() as u64 > len || left.is_zero() {
                break;
            }
        }
        if bytes.len() as u64 != len {
            let text = format!("received {} of {len} bytes", bytes.len());
            return Err(Failure::new(Meaning::TryAgain, text));
        }
        Ok(bytes.freeze())
    }

    /// Reads a range; `None` if the object ends before it.
    async fn range(&self, name: &str, offset: u64, len: usize) -> Result<Option<Bytes>, Failure> {
        let Some(end) = offset.checked_add(len as u64) else { return Ok(None) };
        if len == 0 {
            return Ok(Some(Bytes::new()));
        }
        match self.read(name, Some(offset..end), len as u64).await {
            Ok(bytes) => Ok(Some(bytes).filter(|bytes| bytes.len() == len)),
            Err(failure) if failure.meaning == Meaning::Range => Ok(None),
            Err(failure) if failure.meaning == Meaning::Final => {
                // A range that begins behind the end is refused in several ways.
                match self.head_once(name).await? {
                    Some(meta) if meta.size < end => Ok(None),
                    _ => Err(failure),
                }
            }
            Err(failure) => Err(failure),
        }
    }

    /// Returns `true` if the object `name` equals `bytes`; `None` if there is no object.
    fn is_there(&self, name: &str, bytes: &Bytes) -> Result<Option<bool>, Failure> {
        let len = bytes.len() as u64;
        match self.link.block_on(self.head_once(name))? {
            None => Ok(None),
            Some(meta) if meta.size != len => Ok(Some(false)),
            Some(_) => match self.link.block_on(self.read(name, None, len)) {
                Ok(found) => Ok(Some(found == *bytes)),
                Err(failure) if failure.meaning == Meaning::Missing => Ok(None),
                Err(failure) => Err(failure),
            },
        }
    }

    async fn remove(&self, name: &str) -> Result<(), Failure> {
        let path = self.path(name);
        match self.ask(self.store.delete(&path)).await {
            Err(failure) if failure.meaning == Meaning::Missing => Ok(()),
            other => other,
        }
    }

    async fn list_all(&self, prefix: &str) -> Result<Vec<ObjectMeta>, Failure> {
        let folder = self.path(prefix);
        let mut listing = self.store.list(Some(&folder));
        let mut found = Vec::new();
        loop {
            let next = async { listing.next().await.transpose() };
            let Some(meta) = self.ask(next).await? else { return Ok(found) };
            found.push(meta);
            if found.len() > count_max(prefix) {
                return Ok(found);
            }
        }
    }

    fn listed(&self, prefix: &str) -> Result<Vec<(String, ObjectMeta)>> {
        let found =
            self.link.tries("list", prefix, || self.link.block_on(self.list_all(prefix)))?;
        require_count(prefix, found.len())?;
        let named = found.into_iter().filter_map(|meta| {
            let name: StorePath = meta.location.prefix_match(&self.root)?.collect();
            Some((String::from(name), meta))
        });
        let mut named: Vec<_> = named.collect();
        named.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        named.dedup_by(|(one, _), (other, _)| one == other);
        Ok(named)
    }

    fn about(&self, verb: &str, name: &str) -> Result<Option<ObjectMeta>> {
        self.link.tries(verb, name, || self.link.block_on(self.head_once(name)))
    }
}

impl Storage for Cloud {
    fn put_new(&self, name: &str, bytes: Bytes) -> Result<Put> {
        // Set if an earlier attempt may have been carried out, so that an existing object may be
        // the one being put.
        let mut is_unsure = false;
        let put = self.link.tries("put", name, || {
            if is_unsure && let Some(is_own) = self.is_there(name, &bytes)? {
                return Ok(if is_own { Put::Created } else { Put::Exists });
            }
            match self.put_once(name, &bytes, PutMode::Create) {
                Ok(()) => Ok(Put::Created),
                Err(failure) if failure.meaning == Meaning::Exists && !is_unsure => Ok(Put::Exists),
                Err(failure) if failure.meaning == Meaning::Exists => {
                    // The earlier attempt was carried out after the look, so the loop has to look
                    // again.
                    Err(failure.again())
                }
                Err(failure) => {
                    is_unsure |= failure.meaning == Meaning::TryAgain;
                    Err(failure)
                }
            }
        });
        put.map_err(Error::of_put)
    }

    fn sync(&self, name: &str) -> Result<()> {
        // A storage that shows an object has stored it.
        self.about("sync", name)?.map(|_| ()).ok_or_else(|| Error::missing(name, "not found"))
    }

    fn get_at_most(&self, name: &str, len_max: u64) -> Result<Bytes> {
        self.link.tries("get", name, || self.link.block_on(self.read(name, None, len_max)))
    }

    fn get_many(&self, wanted: &[(String, u64)]) -> Vec<Result<Bytes>> {
        let reads = wanted.iter().map(|(name, len_max)| self.read(name, None, *len_max));
        let read = self.link.at_once(wanted.len(), reads);
        let fail = |at: usize, failure| self.link.error("get", &wanted[at].0, 1, failure);
        settle(read, fail, |at| self.get_at_most(&wanted[at].0, wanted[at].1))
    }

    fn get_range(&self, name: &str, offset: u64, len: usize) -> Result<Bytes> {
        let read = || self.link.block_on(self.range(name, offset, len));
        let read = self.link.tries("get a range", name, read)?;
        read.ok_or_else(|| too_short(name, offset, len))
    }

    fn get_ranges(&self, wanted: &[ObjectRange]) -> Vec<Result<Bytes>> {
        let reads = wanted.iter().map(|range| self.range(&range.name, range.offset, range.len));
        let read = self.link.at_once(wanted.len(), reads);
        let again = |at: usize| {
            let ObjectRange { name, offset, len } = &wanted[at];
            self.get_range(name, *offset, *len).map(Some)
        };
        let fail =
            |at: usize, failure| self.link.error("get a range", &wanted[at].name, 1, failure);
        let is_whole = |(read, range): (Result<Option<Bytes>>, &ObjectRange)| {
            read?.ok_or_else(|| too_short(&range.name, range.offset, range.len))
        };
        settle(read, fail, again).into_iter().zip(wanted).map(is_whole).collect()
    }

    fn requests_ahead_max(&self) -> usize {
        REQUESTS_AHEAD_MAX
    }

    fn head(&self, name: &str) -> Result<Option<u64>> {
        Ok(self.about("get the length", name)?.map(|meta| meta.size))
    }

    fn all_exist(&self, names: &[String]) -> Result<bool> {
        let folder = |name: &str| name.split('/').next().unwrap_or_default().to_owned();
        let folders: BTreeSet<String> = names.iter().map(|name| folder(name)).collect();
        let mut missing: Vec<&String> = names.iter().collect();
        if names.len() > HEADS_MAX {
            let mut listed = BTreeSet::new();
            for folder in folders {
                listed.extend(self.listed(&folder)?.into_iter().map(|(name, _)| name));
            }
            missing.retain(|name| !listed.contains(*name));
        }
        let heads = missing.iter().map(|name| self.head_once(name));
        let found = self.link.at_once(missing.len(), heads);
        let fail = |at: usize, failure| self.link.error("get the length", missing[at], 1, failure);
        let again = |at: usize| self.about("get the length", missing[at]);
        for about in settle(found, fail, again) {
            if about?.is_none() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn stamp_ns(&self, name: &str) -> Result<Option<i64>> {
        let about = self.about("get the time", name)?;
        Ok(about.and_then(|meta| meta.last_modified.timestamp_nanos_opt()))
    }

    fn list(&self, prefix: &str) -> Result<Vec<(String, u64)>> {
        Ok(self.listed(prefix)?.into_iter().map(|(name, meta)| (name, meta.size)).collect())
    }

    fn list_stamped(&self, prefix: &str) -> Result<Vec<Stamped>> {
        let stamped = |(name, meta): (String, ObjectMeta)| {
            let stamp_ns = meta.last_modified.timestamp_nanos_opt();
            Stamped { name, stamp_ns }
        };
        Ok(self.listed(prefix)?.into_iter().map(stamped).collect())
    }

    fn delete(&self, name: &str) -> Result<()> {
        self.link.tries("delete", name, || self.link.block_on(self.remove(name)))
    }

    fn delete_many(&self, names: &[String]) -> Vec<Result<()>> {
        let deletes = names.iter().map(|name| self.remove(name));
        let deleted = self.link.at_once(names.len(), deletes);
        let fail = |at: usize, failure| self.link.error("delete", &names[at], 1, failure);
        settle(deleted, fail, |at| self.delete(&names[at]))
    }

    fn deletion(&self) -> Result<Deletion> {
        let hides = self.keeps_versions.load(Ordering::Relaxed);
        Ok(Deletion { hides, ..Deletion::default() })
    }

    fn replace(&self, name: &str, bytes: Bytes) -> Result<()> {
        let put = || self.put_once(name, &bytes, PutMode::Overwrite);
        self.link.tries("replace", name, put).map_err(Error::of_put)
    }

    /// Both services promise this. An emulator, or another server in their place, may not.
    fn visibility(&self) -> Result<Visibility> {
        Ok(Visibility::IfProbed(match self.service {
            Service::Azure => "azure",
            Service::Gcs => "gs",
        }))
    }

    fn had_outage(&self) -> bool {
        self.link.patience.had_outage()
    }

    fn describe(&self) -> String {
        self.link.address().to_owned()
    }
}
