//! The command `rclone`, which serves a remote over HTTP/2 on its standard input and output.

use std::process::ExitStatus;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt};
use http_body_util::BodyExt;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use object_store::client::HttpRequest;

use super::address::RestSettings;
use super::answer::Answer;
use super::failure::{Failure, Meaning};
use crate::remote::{RunningCommand, ThrottledBody, http::whole, lock};
use crate::throttle::{Direction, Throttle};

/// The time within which rclone prints the reason of an answer that it has given.
const PRINT_MAX: Duration = Duration::from_millis(50);
/// The maximum number of bytes of one answer, and of all, that arrive before they are wanted.
const STREAM_WINDOW: u32 = 4 * 1024 * 1024;
const CONNECTION_WINDOW: u32 = 32 * 1024 * 1024;
/// The same if the rate of what is received has a limit, which these bytes would exceed.
const LIMITED_STREAM_WINDOW: u32 = 128 * 1024;
const LIMITED_CONNECTION_WINDOW: u32 = 512 * 1024;
/// The maximum number of bytes of an answer in one frame.
const FRAME_MAX: u32 = 256 * 1024;
/// The variable that forbids rclone to ask for the password of its configuration: it would read the
/// requests as the answer.
const ASK_PASSWORD: (&str, &str) = ("RCLONE_ASK_PASSWORD", "false");

/// A running rclone, and the connection to it.
#[derive(Debug)]
pub(super) struct Rclone {
    /// `None` once rclone is told to end.
    requests: Mutex<Option<SendRequest<ThrottledBody>>>,
    command: RunningCommand,
    is_lost: AtomicBool,
    throttle: Throttle,
    /// Set once a request was answered.
    has_answered: AtomicBool,
    /// Parameters of the remote, which no message shows.
    secrets: Vec<String>,
}

impl Rclone {
    /// Starts the command for `remote`. It sees what other clients put and delete, because it does not
    /// remember listings. Requests keep the limit of `throttle`. Must be called in a runtime.
    pub(super) async fn start(
        command: &str,
        remote: &str,
        throttle: &Throttle,
    ) -> Result<Rclone, Failure> {
        let failed = |error: std::io::Error| {
            Failure::new(Meaning::Final, format!("cannot start {command}: {error}"))
        };
        // Where deletions hide objects by default, rclone removes them instead, as the caller expects.
        let arguments = [
            "serve",
            "restic",
            "--stdio",
            "--cache-objects=false",
            "--b2-hard-delete",
            "--",
            remote,
        ];
        let variables = match std::env::var_os(ASK_PASSWORD.0) {
            None => &[ASK_PASSWORD][..],
            Some(_) => &[],
        };
        let started = RunningCommand::start(command, &arguments, variables);
        let (running, output, input) = started.map_err(failed)?;
        let (stream_window, connection_window) = match throttle.piece_len(Direction::Download) {
            Some(_) => (LIMITED_STREAM_WINDOW, LIMITED_CONNECTION_WINDOW),
            None => (STREAM_WINDOW, CONNECTION_WINDOW),
        };
        let handshake = http2::Builder::new(TokioExecutor::new())
            .initial_stream_window_size(stream_window)
            .initial_connection_window_size(connection_window)
            .max_frame_size(FRAME_MAX)
            .handshake(TokioIo::new(tokio::io::join(output, input)))
            .await;
        let (command, is_lost) = (running, AtomicBool::new(false));
        let (requests, throttle) = (Mutex::default(), throttle.clone());
        let has_answered = AtomicBool::new(false);
        let secrets = RestSettings::parameters(remote);
        let rclone = Rclone { requests, command, is_lost, throttle, has_answered, secrets };
        let (requests, connection) = match handshake {
            Ok(connected) => connected,
            Err(_) => return Err(rclone.loss().await),
        };
        tokio::spawn(connection);
        *lock(&rclone.requests) = Some(requests);
        Ok(rclone)
    }

    /// Makes a request.
    pub(super) async fn call(self: Arc<Self>, request: HttpRequest) -> Result<Answer, Failure> {
        let Some(mut requests) = lock(&self.requests).clone() else {
            return Err(self.loss().await);
        };
        if requests.ready().await.is_err() {
            return Err(self.loss().await);
        }
        let request = request.map(|body| ThrottledBody::new(whole(body), &self.throttle));
        let answer = match requests.send_request(request).await {
            Ok(answer) => answer,
            Err(_) => return Err(self.loss_or_refusal().await),
        };
        self.has_answered.store(true, Ordering::Relaxed);
        let (parts, body) = answer.into_parts();
        let pieces = body.into_data_stream().map_err(|error| {
            Failure::new(Meaning::TryAgain, format!("the answer was cut: {error}"))
        });
        Ok(Answer { status: parts.status.as_u16(), headers: parts.headers, body: pieces.boxed() })
    }

    /// Returns `true` if a request had no answer, so that the connection is of no further use.
    pub(super) fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Relaxed)
    }

    /// Takes what rclone has printed, after the time within which it prints the reason of a failure.
    async fn take_printed(&self) -> String {
        tokio::time::sleep(PRINT_MAX).await;
        hide(&self.secrets, &self.command.printed().take_lines(|_| true))
    }

    /// Takes the lines that rclone has printed about the object or folder at `path`. Those about
    /// others are left for the requests that fail at the same time.
    pub(super) async fn take_printed_about(&self, path: &str) -> String {
        tokio::time::sleep(PRINT_MAX).await;
        let about = self.command.printed().take_lines(|line| is_about(path, line));
        hide(&self.secrets, &about)
    }

    /// Returns the failure of a request without an answer. `status` is that of an rclone that has
    /// ended.
    async fn failure(&self, status: Option<ExitStatus>) -> Failure {
        let has_answered = self.has_answered.load(Ordering::Relaxed);
        Failure::of_command(status, &self.take_printed().await, has_answered)
    }

    /// Returns the failure of a request that was not answered: rclone has ended, or has refused this
    /// request alone.
    async fn loss_or_refusal(&self) -> Failure {
        if lock(&self.requests).as_ref().is_none_or(SendRequest::is_closed) {
            return self.loss().await;
        }
        self.failure(None).await
    }

    /// Returns the failure of a connection that is gone. The reason is what rclone prints before its
    /// end.
    async fn loss(&self) -> Failure {
        self.is_lost.store(true, Ordering::Relaxed);
        let status = self.command.wait().await;
        self.failure(status).await
    }

    /// Ends rclone, which has answered all requests.
    pub(super) async fn end(&self) {
        drop(lock(&self.requests).take());
        self.command.wait().await;
    }
}

/// Returns a text without secrets.
fn hide(secrets: &[String], text: &str) -> String {
    secrets.iter().fold(text.to_owned(), |text, secret| text.replace(secret.as_str(), "***"))
}

/// Returns `true` for a line that names the object or folder at `path`. rclone adds a sub-folder to the
/// path of a container, so that the last part counts.
fn is_about(path: &str, line: &str) -> bool {
    let name = path.trim_end_matches('/');
    line.contains(name.rsplit('/').next().unwrap_or(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_of_a_remote_are_not_shown() {
        let secrets = RestSettings::parameters(":webdav,url=\"https://h\",pass=hush5:a");
        let shown = hide(&secrets, "Failed for \":webdav,url=\"https://h\",pass=hush5:a\": hush5");
        assert!(!shown.contains("hush5") && shown.starts_with("Failed for"), "{shown}");
    }

    #[test]
    fn lines_about_an_object_are_told_from_others() {
        let line = "ERROR : data/ab/abcd: put: no space left on device\n";
        assert!(is_about("data/abcd", line) && !is_about("data/x", line));
        let line = "ERROR : commits/c: EOF\n";
        assert!(is_about("commits/", line) && !is_about("data/abcd", line));
    }
}
