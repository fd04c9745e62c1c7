//! The parts of the clients that `object_store` has for clouds: options, and what stands between it and
//! the network.

use std::fmt;

use futures_util::StreamExt;
use object_store::client::{
    HttpClient, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpResponseBody,
};
use object_store::{ClientOptions, RetryConfig};

use super::network::{self, CONNECT_MAX};
use super::unanswered::Unanswered;
use crate::throttle::{Direction, Throttle};

/// Maximum number of bytes of an error's text that are read.
const ERROR_LEN_MAX: usize = 64 * 1024;

/// Returns the options of a client that makes one attempt, and leaves further ones to its caller.
pub(crate) fn once() -> RetryConfig {
    RetryConfig { max_retries: 0, ..RetryConfig::default() }
}

/// Returns the options of an HTTP client for `address`, which leaves time-outs to its caller.
pub(crate) fn client_options(address: &str) -> ClientOptions {
    ClientOptions::new()
        .with_timeout_disabled()
        .with_connect_timeout(CONNECT_MAX)
        .with_allow_http(address.starts_with("http://"))
}

/// Returns host and port of an address.
pub(crate) fn host_of(address: &str) -> String {
    let host = address.split_once("://").map_or(address, |(_, rest)| rest);
    host.split('/').next().unwrap_or_default().to_ascii_lowercase()
}

/// The failure of a service that should provide credentials.
#[derive(Debug)]
pub(crate) struct CredentialsFailure {
    /// The HTTP status of its answer, if there is one.
    status: Option<u16>,
    text: String,
}

impl CredentialsFailure {
    /// Creates the failure of a service at `host` that has answered with `status`.
    pub(crate) fn of_answer(host: &str, status: u16, answer: &impl fmt::Display) -> HttpError {
        let text = format!("{host}: {answer}");
        let failure = CredentialsFailure { status: Some(status), text };
        HttpError::new(HttpErrorKind::Unknown, failure)
    }

    /// Returns `true` if the service has refused the request, so that further ones would be refused as
    /// well. Otherwise it may be busy. If there is none, that is soon known.
    pub(crate) fn is_final(&self) -> bool {
        let is_busy = |status| matches!(status, 408 | 425 | 429 | 500..=599);
        self.status.is_some_and(|status| !is_busy(status))
    }

    /// Returns `true` if the service is not available.
    pub(crate) fn is_outage(&self) -> bool {
        self.status.is_none_or(network::is_outage)
    }
}

impl fmt::Display for CredentialsFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for CredentialsFailure {}

/// Returns host and port of a request.
pub(crate) fn host_of_request(request: &HttpRequest) -> String {
    let host = request.uri().authority().map(|host| host.as_str().to_ascii_lowercase());
    host.unwrap_or_default()
}

/// A request that the storage has not answered.
#[derive(Debug)]
pub(crate) struct NoAnswer {
    /// The reason, with the host, which may come from a variable or a profile.
    text: String,
    pub(crate) remedy: Option<&'static str>,
}

impl fmt::Display for NoAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for NoAnswer {}

/// Makes a request to `host`. All hosts but that of the storage provide credentials.
pub(crate) async fn execute(
    client: &HttpClient,
    request: HttpRequest,
    (host, is_storage): (&str, bool),
) -> Result<HttpResponse, HttpError> {
    let has_tls = request.uri().scheme_str() == Some("https");
    client.execute(request).await.map_err(|error| {
        let Unanswered { text, remedy } = Unanswered::of(&error, has_tls);
        if is_storage {
            let text = format!("{host}: {text}");
            return HttpError::new(error.kind(), NoAnswer { text, remedy });
        }
        let text = format!("{host} does not answer: {text}");
        HttpError::new(error.kind(), CredentialsFailure { status: None, text })
    })
}

/// Reads an answer that is not an object; `None` if it has more than `len_max` bytes.
pub(crate) async fn gather(
    body: HttpResponseBody,
    len_max: usize,
    throttle: &Throttle,
) -> Result<Option<Vec<u8>>, HttpError> {
    let mut bytes = Vec::new();
    let mut body = body.bytes_stream();
    while let Some(piece) = body.next().await {
        // The kind tells this failure from those of requests without an answer.
        let piece = piece.map_err(|error| HttpError::new(HttpErrorKind::Decode, error))?;
        throttle.pass(Direction::Download, piece.len()).await;
        bytes.extend_from_slice(&piece);
        if bytes.len() > len_max {
            return Ok(None);
        }
    }
    Ok(Some(bytes))
}

/// Reads the text of a refusal, or the beginning of it.
pub(crate) async fn text_of(body: HttpResponseBody) -> String {
    let mut text = Vec::new();
    let mut body = body.bytes_stream();
    // A part of the text is sufficient if the rest cannot be read.
    while let Some(Ok(piece)) = body.next().await
        && text.len() < ERROR_LEN_MAX
    {
        text.extend_from_slice(&piece);
    }
    String::from_utf8_lossy(&text).into_owned()
}
