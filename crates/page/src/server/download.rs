//! Contents of files, complete or a range of them.

use std::io;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::response::{IntoResponse, Response};
use cutpoint_repository::{Entry, EntryKind};
use futures_util::stream::poll_fn;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use tokio::sync::mpsc;

use super::failure::Failure;
use super::headers::attachment;
use super::query::Query;
use super::shared::Shared;

/// The number of bytes that are read at a time.
const PIECE_LEN: usize = 1 << 20;
/// The maximum number of pieces that wait for the client.
const WAITING_MAX: usize = 4;

/// A part of a body, or the error that cuts it off.
pub(super) type Piece = Result<Bytes, io::Error>;

/// Returns a file, to be saved.
pub(super) fn download(
    shared: &Arc<Shared>,
    query: &Query,
    asked: &HeaderMap,
) -> Result<Response, Failure> {
    let named = shared.named(query)?;
    if named.entry.kind != EntryKind::File {
        return Err(Failure::refused("only files can be downloaded; folders as zip"));
    }
    let name = attachment(&named.entry.name, "");
    let mut response = respond(shared, named.entry, asked, true);
    response.headers_mut().insert(header::CONTENT_DISPOSITION, name);
    Ok(response)
}

/// Returns a file or the range of it that is asked for. Without `has_body`, only the headers.
pub(super) fn respond(
    shared: &Arc<Shared>,
    entry: Entry,
    asked: &HeaderMap,
    has_body: bool,
) -> Response {
    let tag = etag(&entry);
    let size = entry.size;
    let range = match range(asked, size, &tag) {
        Ok(range) => range,
        Err(()) => {
            let range = format!("bytes */{size}");
            let headers = [(header::CONTENT_RANGE, range)];
            return (StatusCode::RANGE_NOT_SATISFIABLE, headers).into_response();
        }
    };
    let (start, end) = range.unwrap_or((0, size));
    let body = if has_body { body(shared, entry, start, end) } else { Body::empty() };
    let mut response = body.into_response();
    if range.is_some() {
        *response.status_mut() = StatusCode::PARTIAL_CONTENT;
    }
    let headers = response.headers_mut();
    let mut set = |name, value: String| {
        if let Ok(value) = HeaderValue::from_str(&value) {
            headers.insert(name, value);
        }
    };
    set(header::CONTENT_TYPE, "application/octet-stream".to_owned());
    set(header::ACCEPT_RANGES, "bytes".to_owned());
    set(header::ETAG, tag);
    set(header::CONTENT_LENGTH, (end - start).to_string());
    if range.is_some() {
        set(header::CONTENT_RANGE, format!("bytes {start}-{}/{size}", end - 1));
    }
    response
}

/// Returns a body with the bytes `start..end` of a file. It is cut off if they cannot be read.
fn body(shared: &Arc<Shared>, entry: Entry, start: u64, end: u64) -> Body {
    let (pieces, body) = stream();
    let shared = Arc::clone(shared);
    tokio::task::spawn_blocking(move || {
        let reading = shared.new_reading();
        let mut offset = start;
        while offset < end {
            let len = usize::try_from(end - offset).unwrap_or(PIECE_LEN).min(PIECE_LEN);
            let piece = shared.contents.read(reading, &entry, offset, len);
            let piece = match piece {
                Ok(piece) if piece.is_empty() => {
                    Err("the file is shorter than its size".to_owned())
                }
                Ok(piece) => Ok(piece),
                Err(error) => Err(error.to_string()),
            };
            offset += piece.as_ref().map_or(0, |piece| piece.len() as u64);
            let piece = piece.map_err(|message| {
                let name = super::text::shown(&entry.name);
                shared.problem(format!("{name}: the transfer was cut off: {message}"));
                io::Error::other(message)
            });
            let is_last = piece.is_err();
            // Without a receiver, the client has gone.
            if pieces.blocking_send(piece.map(Bytes::from)).is_err() || is_last {
                return;
            }
        }
    });
    body
}

/// Returns a body, and the end of a channel that fills it.
pub(super) fn stream() -> (mpsc::Sender<Piece>, Body) {
    let (sender, mut receiver) = mpsc::channel(WAITING_MAX);
    (sender, Body::from_stream(poll_fn(move |context| receiver.poll_recv(context))))
}

/// Returns a tag that tells contents apart.
pub(super) fn etag(entry: &Entry) -> String {
    let text = format!("{:?} {}", entry.content, entry.size);
    format!("\"{}\"", &blake3::hash(text.as_bytes()).to_hex()[..24])
}

/// Returns the range that is asked for, start and end; `None` for the complete file. Several ranges
/// count as none.
///
/// # Errors
///
/// Fails if the range begins behind the end of the file.
fn range(asked: &HeaderMap, size: u64, tag: &str) -> Result<Option<(u64, u64)>, ()> {
    let text = |name| asked.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    if text(header::IF_RANGE).is_some_and(|known| known != tag) {
        return Ok(None);
    }
    let given = text(header::RANGE).and_then(|range| range.strip_prefix("bytes="));
    let Some((first, last)) = given.and_then(|range| range.split_once('-')) else {
        return Ok(None);
    };
    let (start, end) = match (first.trim().parse::<u64>(), last.trim().parse::<u64>()) {
        (Ok(first), Ok(last)) if first <= last => (first, last.saturating_add(1).min(size)),
        (Ok(first), Err(_)) if last.trim().is_empty() => (first, size),
        (Err(_), Ok(len)) if first.trim().is_empty() => (size.saturating_sub(len), size),
        _ => return Ok(None),
    };
    if start < end { Ok(Some((start, end))) } else { Err(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn range_is_what_is_asked_for() {
        let asked = |text: &str, known: Option<&str>| {
            let mut headers = HeaderMap::new();
            headers.insert(header::RANGE, text.parse().expect("a value"));
            if let Some(known) = known {
                headers.insert(header::IF_RANGE, known.parse().expect("a value"));
            }
            range(&headers, 100, "\"a\"")
        };
        assert_eq!(asked("bytes=0-9", None), Ok(Some((0, 10))), "from and to");
        assert_eq!(asked("bytes=90-", None), Ok(Some((90, 100))), "to the end");
        assert_eq!(asked("bytes=-10", None), Ok(Some((90, 100))), "the end");
        assert_eq!(asked("bytes=-1000", None), Ok(Some((0, 100))), "all of it");
        assert_eq!(asked("bytes=50-1000", None), Ok(Some((50, 100))), "beyond the end");
        assert_eq!(asked("bytes=100-", None), Err(()), "behind the end");
        assert_eq!(asked("bytes=0-1,5-6", None), Ok(None), "several");
        assert_eq!(asked("bytes=9-0", None), Ok(None), "reversed");
        assert_eq!(asked("lines=0-9", None), Ok(None), "another unit");
        assert_eq!(asked("bytes=0-9", Some("\"a\"")), Ok(Some((0, 10))), "the same content");
        assert_eq!(asked("bytes=0-9", Some("\"b\"")), Ok(None), "another content");
    }
}
