//! The way to a server: a network, or the pipes of `rclone`.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::stream::BoxStream;
use futures_util::{StreamExt, TryStreamExt};
use http::HeaderMap;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpErrorKind, HttpRequest, ReqwestConnector,
};

use super::address::{RestSettings, Server};
use super::failure::{Failure, Meaning};
use super::rclone::Rclone;
use crate::error::{Error, Result as StoreResult};

/// The maximum time for establishing a connection.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// The minimum speed of an answer, in bytes per second; a slower one is given up.
const BYTES_PER_S_MIN: u64 = 10_000;
/// The maximum allocation before bytes arrive, in bytes.
const CAPACITY_MAX: u64 = 16 * 1024 * 1024;

/// The beginning of an answer, and the bytes that follow.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    pub(super) body: BoxStream<'static, Result<Bytes, Failure>>,
}

impl Answer {
    /// Returns the value of a header.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// Returns the number of bytes that the answer announces.
    pub(super) fn len(&self) -> Option<u64> {
        self.header("content-length")?.parse().ok()
    }

    /// Reads at most `len_max` bytes, each piece within `silence`. Returns `None` if more bytes
    /// follow.
    pub(super) async fn read(
        mut self,
        len_max: u64,
        silence: Duration,
    ) -> Result<Option<Bytes>, Failure> {
        let announced = self.len();
        let capacity = announced.unwrap_or(0).min(len_max).min(CAPACITY_MAX);
        let mut bytes = BytesMut::with_capacity(usize::try_from(capacity).unwrap_or(0));
        let limit = silence + Duration::from_secs(len_max / BYTES_PER_S_MIN);
        let pieces = async {
            while let Some(piece) = within(silence, self.body.try_next()).await? {
                if (bytes.len() + piece.len()) as u64 > len_max {
                    return Ok(false);
                }
                bytes.extend_from_slice(&piece);
            }
            Ok(true)
        };
        if !within(limit, pieces).await? {
            return Ok(None);
        }
        if announced.is_some_and(|announced| announced != bytes.len() as u64) {
            let text = format!("received {} of {} bytes", bytes.len(), announced.unwrap_or(0));
            return Err(Failure::new(Meaning::TryAgain, text));
        }
        Ok(Some(bytes.freeze()))
    }
}

/// Waits for `future`, at most for `limit`.
pub(super) async fn within<T>(
    limit: Duration,
    future: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    match tokio::time::timeout(limit, future).await {
        Ok(done) => done,
        Err(_) => {
            let text = format!("no answer within {} s", limit.as_secs_f64());
            Err(Failure::new(Meaning::TryAgain, text))
        }
    }
}

/// The way to a server.
#[derive(Debug)]
pub(super) enum Client {
    /// A network.
    Network(HttpClient),
    /// A process.
    Rclone {
        command: String,
        remote: String,
        /// The process, once there is one.
        running: tokio::sync::Mutex<Option<Arc<Rclone>>>,
    },
}

impl Client {
    /// Creates the client. No request is made, and no process started.
    ///
    /// # Errors
    ///
    /// Returns an `Invalid` error if no HTTP client can be made.
    pub(super) fn open(settings: &RestSettings) -> StoreResult<Client> {
        match &settings.server {
            Server::Rclone(remote) => Ok(Client::Rclone {
                command: settings.command.clone(),
                remote: remote.clone(),
                running: tokio::sync::Mutex::default(),
            }),
            Server::Url(url) => {
                let options = ClientOptions::new()
                    .with_timeout_disabled()
                    .with_connect_timeout(CONNECT_MAX)
                    .with_allow_http(url.starts_with("http://"));
                let connected = ReqwestConnector::default().connect(&options);
                connected.map(Client::Network).map_err(|error| {
                    Error::invalid(settings.describe(), "invalid settings").with_source(error)
                })
            }
        }
    }

    /// Makes a request. Starts the process if there is none, or no longer.
    pub(super) async fn call(&self, request: HttpRequest) -> Result<Answer, Failure> {
        let Client::Network(client) = self else {
            return self.running().await?.call(request).await;
        };
        let answer = client.execute(request).await.map_err(|error| {
            Failure::of_network(error.kind() == HttpErrorKind::Connect, deepest(&error))
        })?;
        let (parts, body) = answer.into_parts();
        let pieces = body.bytes_stream().map_err(|error| {
            Failure::new(Meaning::TryAgain, format!("the answer was cut: {}", deepest(&error)))
        });
        Ok(Answer { status: parts.status.as_u16(), headers: parts.headers, body: pieces.boxed() })
    }

    async fn running(&self) -> Result<Arc<Rclone>, Failure> {
        let Client::Rclone { command, remote, running } = self else {
            return Err(Failure::new(Meaning::Final, "no process"));
        };
        let mut running = running.lock().await;
        if let Some(rclone) = running.as_ref().filter(|rclone| !rclone.is_lost()) {
            return Ok(rclone.clone());
        }
        let started = Arc::new(Rclone::start(command, remote).await?);
        *running = Some(started.clone());
        Ok(started)
    }

    /// Returns what rclone has printed on the failure of a request, if it is rclone that answers.
    pub(super) async fn printed(&self) -> String {
        let Client::Rclone { running, .. } = self else { return String::new() };
        let rclone = running.lock().await.clone();
        match rclone {
            Some(rclone) => rclone.take_printed().await,
            None => String::new(),
        }
    }

    /// Ends the process, if there is one.
    pub(super) async fn end(&self) {
        let Client::Rclone { running, .. } = self else { return };
        let rclone = running.lock().await.take();
        if let Some(rclone) = rclone.filter(|rclone| !rclone.is_lost()) {
            rclone.end().await;
        }
    }
}

/// Returns the root cause of an error as a text.
fn deepest(error: &(dyn std::error::Error + 'static)) -> String {
    let mut deepest = error;
    while let Some(source) = deepest.source() {
        deepest = source;
    }
    deepest.to_string()
}
