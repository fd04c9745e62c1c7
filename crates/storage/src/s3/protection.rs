//! What a deletion does in a bucket, and which objects are locked.
//!
//! In a bucket with versions, the deletion of an object succeeds and hides it, whether the object is
//! locked or not. Whether the bucket can lock objects is asked once. If it can, the answers to head
//! requests have the locks. They have none, either, if the client may not see locks, so that the
//! first object is asked for its retention and its legal hold by requests of their own.

use std::future::Future;
use std::time::Duration;

use bytes::Bytes;
use object_store::aws::AwsAuthorizer;
use object_store::client::{HttpError, HttpRequest, HttpRequestBody};
use object_store::path::Path as StorePath;
use object_store::signer::Signer;
use object_store::{GetOptions, ObjectMeta, ObjectStore};

use super::S3;
use super::failure::{Failure, Meaning, Refusal};
use super::headers::LockHeaders;
use super::service::Question;
use super::xml::element;
use crate::error::{Error, Kind, Result};
use crate::storage::{Deletion, Lock};

/// Maximum number of objects whose locks are asked for before the next look at the clock.
const LOCKS_MAX: usize = 1000;

/// The answer to a question about a bucket or an object.
enum Told {
    /// The document of the answer.
    Text(String),
    /// There is no such setting, or the storage does not know the question.
    Nothing,
    /// The credentials may not ask.
    Denied(u32, Failure),
}

/// A question, by the query of its request, and the permission that it needs.
struct Asked {
    query: &'static str,
    subject: &'static str,
    permission: &'static str,
}

const OBJECT_LOCK: Asked = Asked {
    query: "object-lock",
    subject: "get the object lock configuration",
    permission: "s3:GetBucketObjectLockConfiguration",
};
const VERSIONING: Asked = Asked {
    query: "versioning",
    subject: "get the versioning of the bucket",
    permission: "s3:GetBucketVersioning",
};
const RETENTION: Asked =
    Asked { query: "retention", subject: "get the retention", permission: "s3:GetObjectRetention" };
const LEGAL_HOLD: Asked = Asked {
    query: "legal-hold",
    subject: "get the legal hold",
    permission: "s3:GetObjectLegalHold",
};

impl S3 {
    /// Returns the effect of a deletion. The bucket is asked once.
    pub(super) fn protection(&self) -> Result<Deletion> {
        if let Some(known) = self.protection.get() {
            return Ok(*known);
        }
        let asked = self.ask_protection()?;
        Ok(*self.protection.get_or_init(|| asked))
    }

    fn ask_protection(&self) -> Result<Deletion> {
        let versioning = self.ask("", &VERSIONING)?;
        let is_told = !matches!(versioning, Told::Denied(..));
        let shown = self.versions.shown();
        let hides = shown == Some(true)
            || matches!(&versioning, Told::Text(text) if element(text, "Status").is_some());
        let may_be_locked = match self.ask("", &OBJECT_LOCK)? {
            Told::Text(text) => {
                element(&text, "ObjectLockEnabled").is_some_and(|state| state == "Enabled")
            }
            Told::Nothing => false,
            // Without versions, a bucket locks nothing.
            Told::Denied(..) if !hides && (is_told || shown.is_some()) => false,
            Told::Denied(tries, failure) => {
                return Err(self.denied("", &OBJECT_LOCK, tries, failure));
            }
        };
        Ok(Deletion { hides, may_be_locked })
    }

    /// Returns the locks of objects, in the same order. Makes no request for an object if the
    /// bucket cannot lock any.
    pub(super) fn find_locks(&self, names: &[String]) -> Result<Vec<Option<Lock>>> {
        let Some(first) = names.first() else { return Ok(Vec::new()) };
        if !self.protection()?.may_be_locked {
            return Ok(vec![None; names.len()]);
        }
        if self.may_see_locks.get().is_none() {
            for asked in [RETENTION, LEGAL_HOLD] {
                if let Told::Denied(tries, failure) = self.ask(first, &asked)? {
                    return Err(self.denied(first, &asked, tries, failure));
                }
            }
            self.may_see_locks.get_or_init(|| ());
        }
        let mut locks = Vec::with_capacity(names.len());
        for names in names.chunks(LOCKS_MAX) {
            let asked =
                self.link.at_once(names.len(), names.iter().map(|name| self.lock_at_once(name)));
            let again = |at: usize| {
                let lock = || self.link.block_on(self.lock_at_once(&names[at]));
                self.link.tries("get the lock", &names[at], lock)
            };
            for lock in self.settle(asked, |at| &names[at], again) {
                locks.push(lock?);
            }
        }
        Ok(locks)
    }

    async fn lock_at_once(&self, name: &str) -> Result<Option<Lock>, Failure> {
        let options = GetOptions { head: true, ..GetOptions::default() };
        let path = self.path(name);
        match self.within(self.limits.silence, self.store.get_opts(&path, options)).await {
            Ok(found) => Ok(found
                .extensions
                .get::<LockHeaders>()
                .map(|headers| lock(headers, &found.meta))
                .filter(|lock| *lock > Lock::Until(self.link.patience.wall_ns()))),
            Err(failure) if failure.meaning == Meaning::Missing => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// Asks the object `name`, or the bucket if the name is empty.
    fn ask(&self, name: &str, asked: &Asked) -> Result<Told> {
        match self.link.patience.attempts(|| self.link.block_on(self.ask_once(name, asked.query))) {
            Ok(text) => Ok(Told::Text(text)),
            Err((tries, failure)) => match (&failure.refusal, failure.meaning) {
                (Some(Refusal::Denied), _) => Ok(Told::Denied(tries, failure)),
                // A storage answers in different ways that it has no such setting.
                (None | Some(Refusal::NotS3), Meaning::Final | Meaning::Missing)
                | (_, Meaning::NoConditions)
                    if failure.kind == Kind::Storage =>
                {
                    Ok(Told::Nothing)
                }
                _ => Err(self.link.error(asked.subject, name, tries, failure)),
            },
        }
    }

    fn denied(&self, name: &str, asked: &Asked, tries: u32, failure: Failure) -> Error {
        let refusal = Some(Refusal::Lacks(asked.permission));
        self.link.error(asked.subject, name, tries, Failure { refusal, ..failure })
    }

    async fn ask_once(&self, name: &str, query: &str) -> Result<String, Failure> {
        let ask = async {
            let path = if name.is_empty() { StorePath::default() } else { self.path(name) };
            let mut request = HttpRequest::new(HttpRequestBody::empty());
            // Only the address is used, because not every storage accepts signatures in it.
            let signed =
                self.store.signed_url(request.method().clone(), &path, Duration::from_secs(60));
            let address = signed.await?.to_string();
            let address = without_query(&address);
            *request.uri_mut() = format!("{address}?{query}").parse().map_err(|error| {
                object_store::Error::Generic { store: "S3", source: Box::new(error) }
            })?;
            if self.has_signatures {
                let credential = self.store.credentials().get_credential().await?;
                AwsAuthorizer::new(&credential, "s3", &self.region)
                    .try_authorize(&mut request, None)?;
            }
            request.extensions_mut().insert(Question);
            let answer = received(self.asker.execute(request)).await?;
            received(answer.into_body().bytes()).await
        };
        let text: Bytes = self.within(self.limits.silence, ask).await?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }
}

/// Returns the address of a bucket or an object without its query. The path of a bucket has no `/`
/// at its end.
fn without_query(address: &str) -> &str {
    let address = address.split('?').next().unwrap_or_default();
    let trimmed = address.trim_end_matches('/');
    let host = trimmed.split_once("://").map_or(trimmed, |(_, rest)| rest);
    if host.contains('/') { trimmed } else { address }
}

/// Converts the error of an HTTP client into one of `object_store`.
async fn received<T>(
    request: impl Future<Output = Result<T, HttpError>>,
) -> object_store::Result<T> {
    let received = request.await;
    received.map_err(|error| object_store::Error::Generic { store: "S3", source: Box::new(error) })
}

/// Returns the lock that the headers of an object describe. An end that cannot be read never comes.
fn lock(headers: &LockHeaders, meta: &ObjectMeta) -> Lock {
    let Some(until) = headers.until.as_ref().filter(|_| !headers.is_held) else {
        return Lock::Held;
    };
    // A time of the same type is parsed.
    let mut meta = meta.clone();
    match until.parse() {
        Ok(until) => meta.last_modified = until,
        Err(_) => return Lock::Held,
    }
    Lock::Until(meta.last_modified.timestamp_nanos_opt().unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn query_and_slash_of_a_bucket_are_cut_off() {
        let cases = [
            ("http://h:1/bucket/?X-Amz-Date=1", "http://h:1/bucket"),
            ("https://bucket.h/?X-Amz-Date=1", "https://bucket.h/"),
            ("http://h/bucket/a%20b/data/x?y", "http://h/bucket/a%20b/data/x"),
        ];
        for (address, expected) in cases {
            assert_eq!(without_query(address), expected);
        }
    }

    #[test]
    fn lock_that_cannot_be_read_never_ends() {
        let meta = ObjectMeta {
            location: StorePath::default(),
            last_modified: "2026-11-23T18:00:00Z".parse().expect("a time"),
            size: 0,
            e_tag: None,
            version: None,
        };
        let of = |until: Option<&str>, is_held| {
            lock(&LockHeaders { until: until.map(str::to_owned), is_held }, &meta)
        };
        assert_eq!(of(Some("1970-01-01T00:00:01Z"), false), Lock::Until(1_000_000_000));
        assert_eq!(of(Some("1970-01-01T00:00:01.5Z"), false), Lock::Until(1_500_000_000));
        assert_eq!(of(Some("1970-01-01T00:00:01Z"), true), Lock::Held, "a legal hold");
        assert_eq!(of(Some("tomorrow"), false), Lock::Held);
    }
}
