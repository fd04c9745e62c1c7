//! Folders as zip archives, which are written while they are sent.

use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use axum::body::Bytes;
use axum::response::{IntoResponse, Response};
use cutpoint_backup::RestoreMonitor;
use cutpoint_backup::archive::{ArchiveFormat, ArchiveOptions, write_archive};
use cutpoint_repository::Time;
use http::{HeaderMap, HeaderValue, header};
use tokio::sync::mpsc::Sender;

use super::download::{Piece, stream};
use super::failure::Failure;
use super::headers::attachment;
use super::query::Query;
use super::shared::{Shared, root};

/// The number of bytes that are sent at a time.
const PIECE_LEN: usize = 256 << 10;

/// Returns a folder, or a file, as a zip archive.
pub(super) fn zip(shared: &Arc<Shared>, query: &Query, _: &HeaderMap) -> Result<Response, Failure> {
    let named = shared.named(query)?;
    let snapshot = named.snapshot();
    let root = root(&named.view, named.id);
    let seconds = snapshot.map_or(0, |it| it.started_ns.div_euclid(1_000_000_000));
    let name = match named.entry.name.is_empty() {
        true => format!("snapshot-{}", named.id.short()).into_bytes(),
        false => named.entry.name.clone(),
    };
    let (sender, body) = stream();
    let shared = Arc::clone(shared);
    tokio::task::spawn_blocking(move || {
        let options = ArchiveOptions {
            format: ArchiveFormat::Zip,
            entry: (!named.entry.name.is_empty()).then_some(&named.entry),
            default_time: Time { seconds, nanoseconds: 0 },
        };
        let mut output = Output { sender, bytes: Vec::with_capacity(PIECE_LEN) };
        let reader = shared.contents.reader();
        let monitor = Monitor(&shared);
        let written = write_archive(&**reader, &root, &options, &mut output, &monitor);
        // Without a receiver, the browser has gone.
        if written.is_ok() {
            output.send().ok();
        }
    });
    let mut response = ([(header::CONTENT_TYPE, "application/zip")], body).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_DISPOSITION, attachment(&name, ".zip"));
    headers.insert(header::ACCEPT_RANGES, HeaderValue::from_static("none"));
    Ok(response)
}

/// The body of the answer.
struct Output {
    sender: Sender<Piece>,
    bytes: Vec<u8>,
}

impl Output {
    fn send(&mut self) -> io::Result<()> {
        let bytes = std::mem::replace(&mut self.bytes, Vec::with_capacity(PIECE_LEN));
        let sent = self.sender.blocking_send(Ok(Bytes::from(bytes)));
        sent.map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes.extend_from_slice(bytes);
        if self.bytes.len() >= PIECE_LEN {
            self.send()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Keeps the problems for the page, because an archive stays valid without what cannot be read.
struct Monitor<'a>(&'a Shared);

impl RestoreMonitor for Monitor<'_> {
    fn problem(&self, path: &Path, message: &str) {
        use std::os::unix::ffi::OsStrExt as _;
        let path = super::text::shown(path.as_os_str().as_bytes());
        self.0.problem(format!("zip archive: {path}: {message}"));
    }
}
