//! The requests of the protocol, each of which is one attempt.

use std::ops::Range;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use chrono::DateTime;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, RANGE};
use http::{HeaderValue, Method, Request};
use object_store::client::HttpRequestBody;

use super::address::RestSettings;
use super::answer::{Answer, within, within_for};
use super::client::Client;
use super::failure::{Failure, Meaning};
use super::listing;
use super::names::path_of;
use crate::error::Result as StoreResult;
use crate::storage::count_max;
use crate::throttle::{Direction, Throttle};

/// The media type of listings with sizes, version 2 of the protocol.
const LISTING_TYPE: &str = "application/vnd.x.restic.rest.v2";
/// The maximum length of any listing in bytes: 60 bytes for each of 16 million names.
const LISTING_LEN_MAX: u64 = 1024 * 1024 * 1024;
/// The length of a listing of no objects, and of the entry of an object, at most, in bytes.
const LISTING_LEN_MIN: u64 = 64 * 1024;
const LISTED_LEN_MAX: u64 = 100;
/// The maximum number of bytes of a refusal's text that are read.
const REFUSAL_LEN_MAX: u64 = 64 * 1024;
/// The maximum time of silence of a server before it is considered gone. Behind it, a remote may
/// make a client wait that asks too often.
const SILENCE_MAX: Duration = Duration::from_secs(120);
/// The maximum time of silence before a listing, which begins when the remote has told all names.
const LISTING_SILENCE_MAX: Duration = Duration::from_secs(900);
/// The minimum speed of a put, in bytes per second; it extends the time limit for large objects.
const UPLOAD_BYTES_PER_S_MIN: u64 = 100_000;

/// An object that a server describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct About {
    pub(super) len: u64,
    /// The time of the put, in nanoseconds since 1970, if the server tells it.
    pub(super) stamp_ns: Option<i64>,
}

/// The server of a repository.
#[derive(Debug)]
pub(super) struct Requests {
    client: Client,
    url: String,
    authorization: Option<HeaderValue>,
    throttle: Throttle,
}

impl Requests {
    /// Creates the client for `settings`. No request is made.
    ///
    /// # Errors
    ///
    /// Returns any error of [`Client::open`].
    pub(super) fn open(settings: &RestSettings) -> StoreResult<Requests> {
        let authorization = settings.user.as_ref().and_then(|user| {
            let password = settings.password.as_deref().unwrap_or_default();
            let account = BASE64_STANDARD.encode(format!("{user}:{password}"));
            let mut value = HeaderValue::try_from(format!("Basic {account}")).ok()?;
            value.set_sensitive(true);
            Some(value)
        });
        let client = Client::open(settings)?;
        let (url, throttle) = (settings.url().to_owned(), settings.throttle.clone());
        Ok(Requests { client, url, authorization, throttle })
    }

    /// Makes a request for `path`, and returns the answer, which may report a failure.
    async fn ask(
        &self,
        method: Method,
        path: &str,
        header: Option<(http::HeaderName, String)>,
        body: Bytes,
    ) -> Result<Answer, Failure> {
        let mut request = Request::builder().method(&method).uri(format!("{}/{path}", self.url));
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        if let Some((name, value)) = header {
            request = request.header(name, value);
        }
        if method == Method::POST {
            request = request.header(CONTENT_LENGTH, body.len());
            request = request.header(CONTENT_TYPE, "application/octet-stream");
        }
        let request = request
            .body(HttpRequestBody::from(body))
            .map_err(|error| Failure::new(Meaning::Final, error.to_string()))?;
        self.client.call(request).await
    }

    /// Returns an answer of the status `expected` to a request for `path`, or the failure that the
    /// answer reports.
    async fn require(
        &self,
        path: &str,
        answer: Answer,
        expected: &[u16],
    ) -> Result<Answer, Failure> {
        let status = answer.status;
        if expected.contains(&status) {
            return Ok(answer);
        }
        if (300..=399).contains(&status) {
            return Err(Failure::of_redirect(status, answer.header("location")));
        }
        // A part of the text is sufficient, and none if it cannot be read.
        let text = answer.read(REFUSAL_LEN_MAX, SILENCE_MAX, &self.throttle).await.ok().flatten();
        let text = text.unwrap_or_default();
        let printed = if status >= 500 { self.client.printed(path).await } else { String::new() };
        Err(Failure::of_answer(status, &String::from_utf8_lossy(&text), &printed))
    }

    /// Describes the object at `path`; `None` if there is none.
    pub(super) async fn head(&self, path: &str) -> Result<Option<About>, Failure> {
        let answer = self.ask(Method::HEAD, path, None, Bytes::new());
        let answer = within(SILENCE_MAX, &self.throttle, answer).await?;
        let answer = match self.require(path, answer, &[200]).await {
            Err(failure) if failure.meaning == Meaning::Missing => return Ok(None),
            answer => answer?,
        };
        let unknown = || Failure::of_other_server("the answer does not tell the length");
        let stamp =
            answer.header("last-modified").and_then(|t| DateTime::parse_from_rfc2822(t).ok());
        let stamp_ns = stamp.and_then(|stamp| stamp.timestamp_nanos_opt());
        Ok(Some(About { len: answer.len().ok_or_else(unknown)?, stamp_ns }))
    }

    /// Reads an object, or a range of it, of at most `len_max` bytes.
    pub(super) async fn read(
        &self,
        path: &str,
        range: Option<Range<u64>>,
        len_max: u64,
    ) -> Result<Bytes, Failure> {
        let expected = if range.is_some() { [206] } else { [200] };
        let header = range.map(|range| {
            let last = range.end.saturating_sub(1);
            (RANGE, format!("bytes={}-{last}", range.start))
        });
        let answer =
            within(SILENCE_MAX, &self.throttle, self.ask(Method::GET, path, header, Bytes::new()))
                .await?;
        let answer = self.require(path, answer, &expected).await?;
        let announced = answer.len();
        match answer.read(len_max, SILENCE_MAX, &self.throttle).await? {
            Some(bytes) => Ok(bytes),
            None => {
                let len = announced.unwrap_or(len_max.saturating_add(1));
                let text = format!("too long ({len} bytes, expected at most {len_max})");
                Err(Failure::corrupt(text))
            }
        }
    }

    /// Stores an object, in the place of one that exists.
    pub(super) async fn post(&self, path: &str, bytes: &Bytes) -> Result<(), Failure> {
        let limit_s = bytes.len() as u64 / UPLOAD_BYTES_PER_S_MIN;
        let limit = SILENCE_MAX + Duration::from_secs(limit_s);
        let answer = within_for(
            Direction::Upload,
            limit,
            &self.throttle,
            self.ask(Method::POST, path, None, bytes.clone()),
        )
        .await?;
        match self.require(path, answer, &[200, 201, 204]).await {
            // A server that knows no such folder.
            Err(failure) if failure.meaning == Meaning::Missing => {
                Err(Failure::of_other_server("the server takes no object of this name"))
            }
            answer => answer.map(|_| ()),
        }
    }

    /// Removes an object. Returns `false` if the server does not find it.
    pub(super) async fn delete(&self, path: &str) -> Result<bool, Failure> {
        let answer = self.ask(Method::DELETE, path, None, Bytes::new());
        let answer = within(SILENCE_MAX, &self.throttle, answer).await?;
        match self.require(path, answer, &[200, 202, 204]).await {
            Err(failure) if failure.meaning == Meaning::Missing => Ok(false),
            answer => answer.map(|_| true),
        }
    }

    /// Lists the objects of a folder, with their lengths, sorted by name.
    pub(super) async fn list(&self, folder: &str) -> Result<Vec<(String, u64)>, Failure> {
        let accept = Some((ACCEPT, LISTING_TYPE.to_owned()));
        let path = format!("{folder}/");
        let answer = self.ask(Method::GET, &path, accept, Bytes::new());
        let answer = within(LISTING_SILENCE_MAX, &self.throttle, answer).await?;
        let answer = match self.require(&path, answer, &[200]).await {
            Err(failure) if failure.meaning == Meaning::Missing => {
                let is_of_restic = self.is_of_restic().await.unwrap_or(false);
                return Err(if is_of_restic {
                    Failure::of_restic()
                } else {
                    Failure::of_other_server(format!("the server lists no folder {folder}/"))
                });
            }
            answer => answer?,
        };
        let len_max = (count_max(folder) as u64 * LISTED_LEN_MAX).saturating_add(LISTING_LEN_MIN);
        let len_max = len_max.min(LISTING_LEN_MAX);
        let bytes = answer.read(len_max, SILENCE_MAX, &self.throttle).await?;
        let parsed = match bytes {
            Some(bytes) => listing::parse(folder, &bytes),
            None => Err(format!("more than {len_max} bytes")),
        };
        parsed.map_err(|text| Failure::of_other_server(format!("not a listing: {text}")))
    }

    /// Returns `true` if the place holds a repository of restic.
    pub(super) async fn is_of_restic(&self) -> Result<bool, Failure> {
        Ok(self.head("config").await?.is_some())
    }

    /// Ends the process that serves, if there is one.
    pub(super) async fn end(&self) {
        self.client.end().await;
    }
}

/// Returns the path of the object `name`.
///
/// # Errors
///
/// Returns an `Invalid` error if it is not the name of an object.
pub(super) fn require_path(name: &str) -> StoreResult<String> {
    let path = path_of(name).filter(|_| !crate::storage::is_staged(name));
    path.ok_or_else(|| crate::error::Error::invalid(name, "not the name of an object"))
}
