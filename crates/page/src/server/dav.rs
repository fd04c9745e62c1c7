//! WebDAV, for reading: hosts, their snapshots by time, and the folders and files in them.
//!
//! Class 1 of RFC 4918 without the methods that write: `OPTIONS`, `PROPFIND` (depth 0 and 1), `GET` with
//! ranges and `HEAD`. Whatever properties a client asks for, it gets those that there are. Symbolic
//! links, devices and pipes, which WebDAV does not know, are left out.

use std::fmt::Write as _;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use chrono::{DateTime, Local, TimeZone, Utc};
use cutpoint_repository::{Content, Entry, EntryKind, Snapshot, TicketId, View};
use cutpoint_terminal::page::escaped;
use http::{HeaderValue, Method, StatusCode, header};
use tokio::sync::mpsc::Sender;

use super::download::{self, Piece, stream};
use super::failure::Failure;
use super::headers;
use super::query::{encoded, names};
use super::shared::Shared;

/// The path at which WebDAV clients begin.
pub(super) const ROOT: &str = "/dav";
const METHODS: &str = "OPTIONS, GET, HEAD, PROPFIND";
/// The number of bytes that are sent at a time.
const PIECE_LEN: usize = 64 << 10;
/// The beginning of an answer to `PROPFIND`.
const BEGIN: &str =
    "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<D:multistatus xmlns:D=\"DAV:\">\n";

/// Something that a path names.
enum Resource {
    /// The folder of hosts, or that of a host's snapshots, with their names and times.
    Names(Vec<(String, i64)>),
    Entry(Box<Entry>, i64),
}

/// Answers a WebDAV client.
pub(super) async fn answer(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    let answered = tokio::task::spawn_blocking(move || {
        let path: Vec<u8> = percent_encoding::percent_decode_str(parts.uri.path()).collect();
        let path: Vec<&[u8]> = names(&path).skip(1).collect();
        match parts.method.as_str() {
            "OPTIONS" => Ok(options()),
            "PROPFIND" => {
                let depth = parts.headers.get("depth").map(HeaderValue::as_bytes);
                propfind(&shared, &path, depth)
            }
            _ => match resource(&shared, &path)? {
                Resource::Entry(entry, _) if entry.kind == EntryKind::File => {
                    let has_body = parts.method == Method::GET;
                    Ok(download::respond(&shared, *entry, &parts.headers, has_body))
                }
                _ => Err(Failure::refused("this is a folder; open it with a WebDAV client")),
            },
        }
    });
    let answered = answered.await;
    let answered = answered.unwrap_or_else(|_| Err(Failure::internal("the request has failed")));
    let mut response = answered.unwrap_or_else(Failure::into_response);
    headers::add_content(&mut response);
    response
}

/// Returns `true` for a method that is answered.
pub(super) fn is_known(method: &Method) -> bool {
    METHODS.split(", ").any(|known| known == method.as_str())
}

/// Returns the answer to a client without the password.
pub(super) fn unauthorized() -> Response {
    let challenge = "Basic realm=\"cutpoint\", charset=\"UTF-8\"";
    (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, challenge)]).into_response()
}

/// Returns the answer to a method that is not answered.
pub(super) fn read_only() -> Response {
    (StatusCode::METHOD_NOT_ALLOWED, [(header::ALLOW, METHODS)]).into_response()
}

fn options() -> Response {
    let mut response = Body::empty().into_response();
    response.headers_mut().insert("dav", HeaderValue::from_static("1"));
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(METHODS));
    response
}

/// Returns the name of a host as a folder.
fn host_name(host: &str) -> String {
    match host.replace(['/', '\\'], "_") {
        name if name.is_empty() || name == "." || name == ".." => format!("{name}_"),
        name => name,
    }
}

/// Returns the name of a snapshot as a folder. It has no colons, which some systems do not take.
fn snapshot_name(id: TicketId, snapshot: &Snapshot) -> String {
    let seconds = snapshot.started_ns.div_euclid(1_000_000_000);
    let time = Local.timestamp_opt(seconds, 0).single();
    let time = time.map_or_else(String::new, |time| time.format("%Y-%m-%d %H.%M.%S ").to_string());
    format!("{time}{}", id.short())
}

/// Returns the snapshots of a host, newest first.
fn of_host<'a>(view: &'a View, host: &[u8]) -> Vec<(TicketId, &'a Snapshot)> {
    let is_of_host = |it: &(TicketId, &Snapshot)| host_name(&it.1.host).as_bytes() == host;
    let mut found: Vec<_> = view.snapshots().into_iter().filter(is_of_host).collect();
    found.sort_by_key(|(id, snapshot)| (std::cmp::Reverse(snapshot.started_ns), *id));
    found
}

/// Returns what a path names.
fn resource(shared: &Shared, path: &[&[u8]]) -> Result<Resource, Failure> {
    let view = shared.view();
    let missing = || Failure::missing("there is no such path");
    let [host, rest @ ..] = path else {
        let mut hosts: Vec<(String, i64)> = Vec::new();
        for (_, snapshot) in view.snapshots() {
            let name = host_name(&snapshot.host);
            match hosts.iter_mut().find(|(known, _)| *known == name) {
                Some((_, time)) => *time = (*time).max(snapshot.started_ns),
                None => hosts.push((name, snapshot.started_ns)),
            }
        }
        return Ok(Resource::Names(hosts));
    };
    let snapshots = of_host(&view, host);
    if snapshots.is_empty() {
        return Err(missing());
    }
    let [name, rest @ ..] = rest else {
        let named = snapshots.iter().map(|(id, it)| (snapshot_name(*id, it), it.started_ns));
        return Ok(Resource::Names(named.collect()));
    };
    let is_named = |(id, it): &&(TicketId, &Snapshot)| snapshot_name(*id, it).as_bytes() == *name;
    let (_, snapshot) = snapshots.iter().find(is_named).ok_or_else(missing)?;
    let entry = shared.contents.find(&snapshot.root, rest)?.ok_or_else(missing)?;
    match entry.kind {
        EntryKind::File | EntryKind::Folder => {
            Ok(Resource::Entry(Box::new(entry), snapshot.started_ns))
        }
        _ => Err(missing()),
    }
}

/// Returns the properties of a resource and, with depth 1, of what is in it.
fn propfind(
    shared: &Arc<Shared>,
    path: &[&[u8]],
    depth: Option<&[u8]>,
) -> Result<Response, Failure> {
    let has_members = match depth {
        Some(b"0") => false,
        Some(b"1") => true,
        // RFC 4918, section 9.1: a server may refuse all levels at once.
        _ => {
            let body = "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n\
                        <D:error xmlns:D=\"DAV:\"><D:propfind-finite-depth/></D:error>\n";
            let headers = [(header::CONTENT_TYPE, "application/xml; charset=utf-8")];
            return Ok((StatusCode::FORBIDDEN, headers, body).into_response());
        }
    };
    let found = resource(shared, path)?;
    let link: String = path.iter().map(|name| format!("/{}", encoded(name))).collect();
    let link = format!("{ROOT}{link}");
    let (sender, body) = stream();
    let shared = Arc::clone(shared);
    tokio::task::spawn_blocking(move || {
        let mut output = Output { sender, text: BEGIN.to_owned(), has_gone: false };
        describe(&shared, &found, &link, has_members, &mut output);
        output.text.push_str("</D:multistatus>\n");
        output.send();
    });
    let headers = [(header::CONTENT_TYPE, "application/xml; charset=utf-8")];
    Ok((StatusCode::MULTI_STATUS, headers, body).into_response())
}

/// The body of an answer.
struct Output {
    sender: Sender<Piece>,
    text: String,
    /// Set if the client does not listen any more.
    has_gone: bool,
}

impl Output {
    fn send(&mut self) {
        let text = std::mem::take(&mut self.text);
        self.has_gone |= self.sender.blocking_send(Ok(Bytes::from(text))).is_err();
    }

    /// Adds a folder.
    fn folder(&mut self, link: &str, time_ns: i64) {
        let time = date(time_ns.div_euclid(1_000_000_000));
        self.add(link, &format!("<D:resourcetype><D:collection/></D:resourcetype>{time}"));
    }

    /// Adds an entry of a snapshot, with the time of the snapshot.
    fn entry(&mut self, link: &str, entry: &Entry, time_ns: i64) {
        if entry.kind == EntryKind::Folder {
            let is_above = entry.name.is_empty() || entry.is_above_sources();
            let own_ns = entry.mtime.seconds.saturating_mul(1_000_000_000);
            return self.folder(link, if is_above { time_ns } else { own_ns });
        }
        let tag = escaped(&download::etag(entry));
        let time = date(entry.mtime.seconds);
        self.add(
            link,
            &format!(
                "<D:resourcetype/><D:getcontentlength>{}</D:getcontentlength><D:getcontenttype>\
                 application/octet-stream</D:getcontenttype><D:getetag>{tag}</D:getetag>{time}",
                entry.size
            ),
        );
    }

    fn add(&mut self, link: &str, properties: &str) {
        // An address has no characters of markup.
        writeln!(
            self.text,
            "<D:response><D:href>{link}</D:href><D:propstat><D:prop>{properties}</D:prop>\
             <D:status>HTTP/1.1 200 OK</D:status></D:propstat></D:response>"
        )
        .ok();
        if self.text.len() >= PIECE_LEN {
            self.send();
        }
    }
}

fn date(seconds: i64) -> String {
    let time: DateTime<Utc> = DateTime::from_timestamp(seconds, 0).unwrap_or_default();
    format!("<D:getlastmodified>{}</D:getlastmodified>", time.format("%a, %d %b %Y %H:%M:%S GMT"))
}

fn describe(shared: &Shared, found: &Resource, link: &str, has_members: bool, output: &mut Output) {
    match found {
        Resource::Names(names) => {
            let newest = names.iter().map(|(_, time)| *time).max().unwrap_or(0);
            output.folder(&format!("{link}/"), newest);
            for (name, time) in names.iter().filter(|_| has_members) {
                output.folder(&format!("{link}/{}/", encoded(name.as_bytes())), *time);
            }
        }
        Resource::Entry(entry, time_ns) if entry.kind == EntryKind::Folder => {
            output.entry(&format!("{link}/"), entry, *time_ns);
            if has_members {
                members(shared, &entry.content, (link, *time_ns), output);
            }
        }
        Resource::Entry(entry, time_ns) => output.entry(link, entry, *time_ns),
    }
}

fn members(shared: &Shared, content: &Content, (link, time): (&str, i64), output: &mut Output) {
    for entry in shared.contents.reader().tree(content) {
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) => {
                shared.problem(format!("WebDAV: the rest of a folder cannot be read: {error}"));
                return;
            }
        };
        let slash = match entry.kind {
            EntryKind::File => "",
            EntryKind::Folder => "/",
            _ => continue,
        };
        output.entry(&format!("{link}/{}{slash}", encoded(&entry.name)), &entry, time);
        if output.has_gone {
            return;
        }
    }
}
