//! The way to a server: a network, or the pipes of `rclone`.

use std::sync::Arc;

use futures_util::{StreamExt, TryStreamExt};
use object_store::ClientOptions;
use object_store::client::{HttpClient, HttpErrorKind, HttpRequest};

use super::address::{RestSettings, Server};
use super::answer::Answer;
use super::failure::{Failure, Meaning};
use super::rclone::Rclone;
use crate::error::{Error, Result as StoreResult};
use crate::remote::unanswered::Unanswered;
use crate::remote::{http, http::deepest, network::CONNECT_MAX};
use crate::throttle::Throttle;

/// The way to a server.
#[derive(Debug)]
pub(super) enum Client {
    /// A network.
    Network(HttpClient),
    /// A process.
    Rclone {
        command: String,
        remote: String,
        throttle: Throttle,
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
                throttle: settings.throttle.clone(),
                running: tokio::sync::Mutex::default(),
            }),
            Server::Url(url) => {
                let options = ClientOptions::new()
                    .with_timeout_disabled()
                    .with_connect_timeout(CONNECT_MAX)
                    .with_allow_http(url.starts_with("http://"));
                let connected = http::connect(&options, &settings.throttle);
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
        let has_tls = request.uri().scheme_str() == Some("https");
        let answer = client.execute(request).await.map_err(|error| {
            let unanswered = Unanswered::of(&error, has_tls);
            Failure::of_network(error.kind() == HttpErrorKind::Connect, unanswered)
        })?;
        let (parts, body) = answer.into_parts();
        let pieces = body.bytes_stream().map_err(|error| {
            Failure::new(Meaning::TryAgain, format!("the answer was cut: {}", deepest(&error)))
        });
        Ok(Answer { status: parts.status.as_u16(), headers: parts.headers, body: pieces.boxed() })
    }

    async fn running(&self) -> Result<Arc<Rclone>, Failure> {
        let Client::Rclone { command, remote, throttle, running } = self else {
            return Err(Failure::new(Meaning::Final, "no process"));
        };
        let mut running = running.lock().await;
        if let Some(rclone) = running.as_ref().filter(|rclone| !rclone.is_lost()) {
            return Ok(rclone.clone());
        }
        let started = Arc::new(Rclone::start(command, remote, throttle).await?);
        *running = Some(started.clone());
        Ok(started)
    }

    /// Returns the lines that rclone has printed about `path`, if it is rclone that answers.
    pub(super) async fn printed(&self, path: &str) -> String {
        let Client::Rclone { running, .. } = self else { return String::new() };
        let rclone = running.lock().await.clone();
        match rclone {
            Some(rclone) => rclone.take_printed_about(path).await,
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
