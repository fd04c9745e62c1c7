//! The parts of the clients that `object_store` has for clouds: options, and what stands between it and
//! the network.

use std::fmt;

use futures_util::StreamExt;
use object_store::client::{
    HttpClient, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpResponseBody,
};
use object_store::{ClientOptions, RetryConfig};

use super::http::deepest;
use super::network::CONNECT_MAX;
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
pub(crate) struct CredentialsFailure(pub(crate) String);

impl fmt::Display for CredentialsFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for CredentialsFailure {}

/// Returns host and port of a request.
pub(crate) fn host_of_request(request: &HttpRequest) -> String {
    let host = request.uri().authority().map(|host| host.as_str().to_ascii_lowercase());
    host.unwrap_or_default()
}

/// The failure to connect to the storage, with its host.
#[derive(Debug)]
struct ConnectFailure(String);

impl fmt::Display for ConnectFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ConnectFailure {}

/// Makes a request to `host`. All hosts but that of the storage provide credentials. A failure to
/// connect names the host, which may come from a variable or a profile.
pub(crate) async fn execute(
    client: &HttpClient,
    request: HttpRequest,
    (host, is_storage): (&str, bool),
) -> Result<HttpResponse, HttpError> {
    client.execute(request).await.map_err(|error| match is_storage {
        true if error.kind() == HttpErrorKind::Connect => {
            let text = format!("{host}: {}", deepest(&error));
            HttpError::new(error.kind(), ConnectFailure(text))
        }
        true => error,
        false => {
            let text = format!("{host} does not answer: {}", deepest(&error));
            HttpError::new(error.kind(), CredentialsFailure(text))
        }
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
        let piece = piece?;
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
