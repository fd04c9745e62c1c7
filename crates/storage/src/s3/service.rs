//! An HTTP client between `object_store` and the network. It keeps the details of a server's
//! refusal, which `object_store` passes to its callers only as a text.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
};

use super::headers::{LockHeaders, ShownVersions};
use super::xml::{element, is_answered};
use crate::remote::unanswered::tls_remedy;
use crate::remote::watched::{
    CredentialsFailure, execute, gather, host_of, host_of_request, text_of,
};
use crate::remote::{http, network};
use crate::throttle::Throttle;

/// The maximum length of an answer that is not an object, in bytes: a page of a listing (1000
/// names), or credentials. `object_store` gathers these in memory.
const ANSWER_LEN_MAX: usize = 8 * 1024 * 1024;

/// An answer that does not report success.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Answer {
    /// The HTTP status.
    pub(super) status: u16,
    /// The error code of S3; empty if the answer has none.
    pub(super) code: String,
    /// The human-readable message.
    pub(super) message: String,
    /// The region of the bucket, if the server names it.
    pub(super) region: Option<String>,
    /// The target of a redirect, which is not followed.
    pub(super) location: Option<String>,
    /// Set if the answer had a text of any kind.
    pub(super) has_text: bool,
    /// The next step, if the text is not one of a storage.
    pub(super) remedy: Option<&'static str>,
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the server answered {}", self.status)?;
        if !self.code.is_empty() {
            write!(f, " {}", self.code)?;
        }
        if !self.message.is_empty() {
            write!(f, " ({})", self.message.trim_end_matches('.'))?;
        }
        if let Some(location) = &self.location {
            write!(f, ", a redirect to {location}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Answer {}

/// Creates clients whose failures can be told apart.
#[derive(Debug)]
pub(super) struct WatchedConnector {
    /// Host and port of the storage; all other hosts provide credentials.
    host: String,
    /// Set if the client can go on without a token when a machine's metadata service refuses one.
    may_lack_token: bool,
    versions: Arc<ShownVersions>,
    throttle: Throttle,
}

impl WatchedConnector {
    /// Creates a connector for the storage at `address`. A machine's metadata service may refuse a
    /// token if `may_lack_token` is set. `versions` learns of versions that answers show. Requests
    /// keep the limits of `throttle`, and so do answers that are no objects.
    pub(super) fn new(
        address: &str,
        may_lack_token: bool,
        versions: Arc<ShownVersions>,
        throttle: Throttle,
    ) -> WatchedConnector {
        WatchedConnector { host: host_of(address), may_lack_token, versions, throttle }
    }
}

/// The mark of a request for the settings of a bucket or an object, whose answer is no object.
#[derive(Clone, Copy, Debug)]
pub(super) struct Question;

impl HttpConnector for WatchedConnector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let inner = http::connect(options, &self.throttle)?;
        let (host, may_lack_token) = (self.host.clone(), self.may_lack_token);
        let (versions, throttle) = (self.versions.clone(), self.throttle.clone());
        Ok(HttpClient::new(Watched { inner, host, may_lack_token, versions, throttle }))
    }
}

#[derive(Debug)]
struct Watched {
    inner: HttpClient,
    host: String,
    may_lack_token: bool,
    versions: Arc<ShownVersions>,
    throttle: Throttle,
}

impl HttpService for Watched {
    fn call<'a, 'b>(
        &'a self,
        request: HttpRequest,
    ) -> Pin<Box<dyn Future<Output = Result<HttpResponse, HttpError>> + Send + 'b>>
    where
        'a: 'b,
        Self: 'b,
    {
        Box::pin(self.watch(request))
    }
}

impl Watched {
    async fn watch(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let host = host_of_request(&request);
        let is_storage = host == self.host;
        let may_fail = self.may_lack_token && !is_storage && request.method().as_str() == "PUT";
        let is_page = request.uri().query().is_some_and(|query| query.contains("list-type=2"));
        let is_question = request.extensions().get::<Question>().is_some();
        let is_object =
            is_storage && !is_page && !is_question && request.method().as_str() == "GET";
        let is_put = is_storage && request.method().as_str() == "PUT";
        let is_head = is_storage && request.method().as_str() == "HEAD";
        let is_bulk_delete = is_storage
            && request.method().as_str() == "POST"
            && request.uri().query().is_some_and(|query| query.starts_with("delete"));
        let asked = request.body().as_bytes().filter(|_| is_bulk_delete).cloned();
        let mut response = execute(&self.inner, request, (&host, is_storage)).await?;
        if is_storage && response.status().is_success() {
            self.versions.learn(is_put, response.headers());
            if is_head && let Some(lock) = LockHeaders::of(response.headers()) {
                response.extensions_mut().insert(lock);
            }
        }
        if response.status().is_success() || may_fail {
            // No more of an object is read than was requested.
            if is_object {
                return Ok(response);
            }
            return gather_page(response, asked.as_deref(), &self.throttle).await;
        }
        let answer = read_answer(response).await;
        Err(match is_storage {
            true => HttpError::new(HttpErrorKind::Unknown, answer),
            false => CredentialsFailure::of_answer(&host, answer.status, &answer),
        })
    }
}

/// Reads an answer that is not an object, up to the maximum length. `bulk_delete` is the request to
/// delete several objects, if the answer is to one.
async fn gather_page(
    response: HttpResponse,
    bulk_delete: Option<&[u8]>,
    throttle: &Throttle,
) -> Result<HttpResponse, HttpError> {
    let (parts, body) = response.into_parts();
    let Some(bytes) = gather(body, ANSWER_LEN_MAX, throttle).await? else {
        return Err(HttpError::new(HttpErrorKind::Decode, TooLong));
    };
    if bulk_delete.is_some_and(|request| !is_answered(request, &bytes)) {
        let message = "the answer does not name each object of the request".to_owned();
        let answer = Answer { status: parts.status.as_u16(), message, ..Answer::default() };
        return Err(HttpError::new(HttpErrorKind::Unknown, answer));
    }
    Ok(HttpResponse::from_parts(parts, bytes.into()))
}

/// The error of an answer that is not an object and is longer than [`ANSWER_LEN_MAX`].
#[derive(Debug)]
pub(super) struct TooLong;

impl fmt::Display for TooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the answer has no end: more than {ANSWER_LEN_MAX} bytes")
    }
}

impl std::error::Error for TooLong {}

async fn read_answer(response: HttpResponse) -> Answer {
    let status = response.status().as_u16();
    let header = |name| response.headers().get(name).and_then(|value| value.to_str().ok());
    let region = header("x-amz-bucket-region").map(str::to_owned);
    let is_redirect = response.status().is_redirection();
    let location = header("location").filter(|_| is_redirect).map(network::shown_location);
    let text = text_of(response.into_body()).await;
    Answer {
        status,
        code: element(&text, "Code").unwrap_or_default(),
        message: element(&text, "Message").unwrap_or_default(),
        region: region.or_else(|| element(&text, "Region")),
        location,
        has_text: !text.trim().is_empty(),
        remedy: tls_remedy(status, &text),
    }
}
