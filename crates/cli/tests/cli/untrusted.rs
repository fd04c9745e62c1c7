//! A lying storage: an S3 look-alike over a folder, with endless bodies and listings, and with
//! false lengths. The memory and the time of the program are limited.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use cutpoint_testing::SplitMix64;

use crate::rollback::{copy, elsewhere};
use crate::sandbox::{Run, Sandbox, make_source, run};

/// The maximum data segment of a client, in KiB, which is less than any of the attacks would take.
const MEMORY_KIB_MAX: u64 = 300_000;
/// The maximum time of a client, whatever the answers are.
const TIME_MAX: Duration = Duration::from_secs(60);
/// A length that no client may believe.
const HUGE: u64 = 1 << 44;

/// The misbehavior of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lie {
    /// The server behaves.
    None,
    /// The body of a key is endless and announced as such, while the listing gives its true length.
    EndlessBody,
    /// A listing gives the keys a length of 2^44 bytes, and the bodies have it.
    HugeObjects,
    /// The first bodies of keys are shorter than announced.
    ShortBody,
    /// Each page of the listing of keys refers to another page, by a new token.
    EndlessPages,
    /// Each page of the listing of keys refers to another page, by the same token.
    RepeatedToken,
    /// Each page of the listing of keys is empty and refers to another page.
    EmptyPages,
    /// A page of the listing is endless.
    EndlessPage,
    /// From the first listing of commits on, another folder is served.
    Switches,
    /// Requests of this method for objects of this folder are not answered. With `is_half`, half of
    /// the body of the first one is sent.
    Silent { method: &'static str, folder: &'static str, is_half: bool },
}

/// The number of bodies that [`Lie::ShortBody`] cuts short.
const SHORT_COUNT: u64 = 3;

/// A server over a folder, which runs until the process ends.
pub(crate) struct Server {
    address: String,
    serving: Arc<Serving>,
}

struct Serving {
    folder: Mutex<PathBuf>,
    later: PathBuf,
    lie: Lie,
    short_count: AtomicU64,
    is_silent: AtomicBool,
}

impl Server {
    pub(crate) fn start(folder: PathBuf, later: PathBuf, lie: Lie) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = format!("http://{}", listener.local_addr().expect("it listens"));
        let serving = Arc::new(Serving {
            folder: Mutex::new(folder),
            later,
            lie,
            short_count: AtomicU64::new(0),
            is_silent: AtomicBool::new(false),
        });
        let shared = serving.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let serving = shared.clone();
                std::thread::spawn(move || serving.serve(stream));
            }
        });
        Server { address, serving }
    }

    /// Returns the URL of the server.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Returns `true` once the server has fallen silent.
    pub(crate) fn is_silent(&self) -> bool {
        self.serving.is_silent()
    }
}

/// A request for an object or a listing.
struct Request {
    method: String,
    /// The name of the object in the repository; empty if the path is another one.
    name: String,
    query: String,
    is_conditional: bool,
    /// The first and the last byte of the requested range.
    range: Option<(usize, usize)>,
    body: Vec<u8>,
}

impl Request {
    fn read(reader: &mut impl BufRead) -> Option<Request> {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let mut words = line.split_whitespace();
        let (method, target) = (words.next()?.to_owned(), words.next()?);
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let name = path.strip_prefix("/bucket/repo/").unwrap_or_default().to_owned();
        let (mut len, mut is_conditional, mut range) = (0, false, None);
        loop {
            let mut header = String::new();
            reader.read_line(&mut header).ok()?;
            let Some((name, value)) = header.trim_end().split_once(": ") else { break };
            match name.to_ascii_lowercase().as_str() {
                "content-length" => len = value.parse().ok()?,
                "if-none-match" => is_conditional = value == "*",
                "range" => range = value.strip_prefix("bytes=").and_then(bounds),
                _ => {}
            }
        }
        let mut body = vec![0; len];
        reader.read_exact(&mut body).ok()?;
        Some(Request { method, name, query: query.to_owned(), is_conditional, range, body })
    }

    /// Answers with an error. The answer to a HEAD request has no body.
    fn refuse(&self, stream: &mut TcpStream, status: &str, code: &str) -> Option<()> {
        let text = format!("<Error><Code>{code}</Code></Error>");
        head(stream, status, text.len() as u64, "");
        if self.method == "HEAD" { Some(()) } else { stream.write_all(text.as_bytes()).ok() }
    }
}

fn bounds(range: &str) -> Option<(usize, usize)> {
    let (from, to) = range.split_once('-')?;
    Some((from.parse().ok()?, to.parse().ok()?))
}

impl Serving {
    /// Answers one request and closes the connection.
    fn serve(&self, mut stream: TcpStream) -> Option<()> {
        let mut reader = BufReader::new(stream.try_clone().ok()?);
        let request = Request::read(&mut reader)?;
        let mut sends_half = false;
        if let Lie::Silent { method, folder, is_half } = self.lie
            && request.method == method
            && request.name.starts_with(folder)
        {
            sends_half = !self.is_silent.swap(true, Ordering::SeqCst) && is_half;
            if !sends_half {
                return wait_for_end(reader);
            }
        }
        if request.query.contains("list-type=2") {
            return self.list(&mut stream, &request.query);
        }
        let file = self.folder.lock().expect("no panic").join(&request.name);
        let is_key = request.method == "GET" && request.name.starts_with("keys/");
        if is_key && self.sends_wrong_key(&mut stream, &file) {
            return Some(());
        }
        match request.method.as_str() {
            "PUT" => self.put(&mut stream, &request, &file),
            "DELETE" => {
                fs::remove_file(&file).ok();
                head(&mut stream, "204 No Content", 0, "");
                Some(())
            }
            _ => send(&mut stream, &request, &file, sends_half),
        }
    }

    /// Answers a request for a key with a wrong body, if the server misbehaves so. Returns `false`
    /// if nothing was sent.
    fn sends_wrong_key(&self, stream: &mut TcpStream, file: &Path) -> bool {
        match self.lie {
            Lie::EndlessBody | Lie::HugeObjects => {
                endless(stream, HUGE, b"\0");
                true
            }
            Lie::ShortBody if self.short_count.fetch_add(1, Ordering::SeqCst) < SHORT_COUNT => {
                let stored = fs::read(file).unwrap_or_default();
                head(stream, "200 OK", stored.len() as u64, "");
                stream.write_all(&stored[..stored.len() / 2]).ok();
                true
            }
            _ => false,
        }
    }

    fn put(&self, stream: &mut TcpStream, request: &Request, file: &Path) -> Option<()> {
        {
            // The lock makes the creation atomic.
            let _one = self.folder.lock().expect("no panic");
            if request.is_conditional && file.exists() {
                return request.refuse(stream, "412 Precondition Failed", "PreconditionFailed");
            }
            fs::create_dir_all(file.parent()?).ok()?;
            fs::write(file, &request.body).ok()?;
        }
        head(stream, "200 OK", 0, "");
        Some(())
    }

    fn is_silent(&self) -> bool {
        self.is_silent.load(Ordering::SeqCst)
    }

    fn list(&self, stream: &mut TcpStream, query: &str) -> Option<()> {
        let value = |name: &str| {
            let pair = query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
            pair.unwrap_or_default().replace("%2F", "/")
        };
        let prefix = value("prefix");
        let folder = prefix.strip_prefix("repo/")?.trim_end_matches('/').to_owned();
        if self.lie == Lie::Switches && folder == "commits" {
            self.folder.lock().expect("no panic").clone_from(&self.later);
        }
        let root = self.folder.lock().expect("no panic").clone();
        let mut names = Vec::new();
        gather(&root, &root.join(&folder), &mut names);
        let mut token = None;
        if folder == "keys" {
            let page: u64 = value("continuation-token").parse().unwrap_or(0);
            match self.lie {
                Lie::HugeObjects => names.iter_mut().for_each(|(_, len)| *len = HUGE),
                Lie::EndlessPages => {
                    let first = page * 1000;
                    names =
                        (first..first + 1000).map(|n| (format!("keys/{n:032x}"), 256)).collect();
                    token = Some(page + 1);
                }
                Lie::RepeatedToken => token = Some(7),
                Lie::EmptyPages => {
                    names.clear();
                    token = Some(page + 1);
                }
                Lie::EndlessPage => {
                    head(stream, "200 OK", HUGE, "");
                    stream.write_all(b"<ListBucketResult>").ok()?;
                    return endless_bytes(stream, b"<Contents><Key>x</Key></Contents>");
                }
                _ => {}
            }
        }
        names.sort();
        let mut text = String::from("<ListBucketResult>");
        for (name, len) in names {
            text.push_str(&format!(
                "<Contents><Key>repo/{name}</Key><Size>{len}</Size><LastModified>\
                 2026-01-01T00:00:00.000Z</LastModified><ETag>x</ETag></Contents>"
            ));
        }
        let is_truncated = token.is_some();
        text.push_str(&format!("<IsTruncated>{is_truncated}</IsTruncated>"));
        if let Some(token) = token {
            text.push_str(&format!("<NextContinuationToken>{token}</NextContinuationToken>"));
        }
        text.push_str("</ListBucketResult>");
        head(stream, "200 OK", text.len() as u64, "");
        stream.write_all(text.as_bytes()).ok()
    }
}

/// Sends an object, or the requested range of it; with `sends_half`, the head and half of the body,
/// followed by silence.
fn send(stream: &mut TcpStream, request: &Request, file: &Path, sends_half: bool) -> Option<()> {
    let Ok(bytes) = fs::read(file) else {
        return request.refuse(stream, "404 Not Found", "NoSuchKey");
    };
    let part = match request.range {
        Some((from, to)) if from < bytes.len() => {
            let to = to.min(bytes.len() - 1);
            let about = format!("Content-Range: bytes {from}-{to}/{}\r\n", bytes.len());
            head(stream, "206 Partial Content", (to + 1 - from) as u64, &about);
            &bytes[from..=to]
        }
        Some(_) => return request.refuse(stream, "416 Range Not Satisfiable", "InvalidRange"),
        None => {
            head(stream, "200 OK", bytes.len() as u64, "");
            &bytes[..]
        }
    };
    if sends_half {
        stream.write_all(&part[..part.len() / 2]).ok()?;
        return wait_for_end(&*stream);
    }
    if request.method == "HEAD" { Some(()) } else { stream.write_all(part).ok() }
}

/// Waits until the client closes the connection.
fn wait_for_end(mut reader: impl Read) -> Option<()> {
    reader.read_to_end(&mut Vec::new()).ok().map(drop)
}

fn head(stream: &mut TcpStream, status: &str, len: u64, more: &str) {
    let text = format!(
        "HTTP/1.1 {status}\r\nContent-Length: {len}\r\nLast-Modified: Thu, 01 Jan 2026 00:00:00 GMT\
         \r\nETag: x\r\nConnection: close\r\n{more}\r\n"
    );
    stream.write_all(text.as_bytes()).ok();
}

fn endless(stream: &mut TcpStream, len: u64, piece: &[u8]) -> Option<()> {
    head(stream, "200 OK", len, "");
    endless_bytes(stream, piece)
}

/// Sends `piece` repeatedly until the client closes the connection.
fn endless_bytes(stream: &mut TcpStream, piece: &[u8]) -> Option<()> {
    let block = piece.repeat(65_536 / piece.len());
    while stream.write_all(&block).is_ok() {}
    Some(())
}

/// Collects the names and lengths of all files below `folder`, relative to `root`.
fn gather(root: &Path, folder: &Path, names: &mut Vec<(String, u64)>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            gather(root, &path, names);
        } else if let Ok(name) = path.strip_prefix(root) {
            let len = entry.metadata().map_or(0, |about| about.len());
            names.push((name.to_string_lossy().into_owned(), len));
        }
    }
}

/// Runs with limited memory. No run takes longer than [`TIME_MAX`].
fn bounded(mut command: Command) -> Run {
    let mut limited = Command::new("sh");
    limited.arg("-c").arg(format!("ulimit -d {MEMORY_KIB_MAX}; exec \"$@\"")).arg("sh");
    limited.arg(command.get_program()).args(command.get_args());
    limited.current_dir(command.get_current_dir().expect("the sandbox sets it")).env_clear();
    for (name, value) in command.get_envs() {
        limited.env(name, value.unwrap_or_default());
    }
    command = limited;
    let began = Instant::now();
    let run = run(&mut command);
    assert!(began.elapsed() < TIME_MAX, "{:?}: {}", began.elapsed(), run.stderr);
    run
}

/// Returns a command over `server`.
pub(crate) fn over_s3(sandbox: &Sandbox, server: &Server, arguments: &[&str]) -> Command {
    let mut command = sandbox.command(arguments);
    command.env("CUTPOINT_REPO", "s3://bucket/repo");
    command.env("AWS_ACCESS_KEY_ID", "a").env("AWS_SECRET_ACCESS_KEY", "b");
    command.env("AWS_ENDPOINT_URL", &server.address).env("AWS_REGION", "us-east-1");
    command
}

fn with_key_file() -> Sandbox {
    let sandbox = Sandbox::new();
    make_source(&sandbox.path("source"));
    sandbox.run(["init", "--key-file", "key"]).well();
    sandbox.run(["backup", "source", "--key-file", "key"]).well();
    sandbox
}

#[test]
fn lying_server_costs_a_client_little() {
    let sandbox = with_key_file();
    for (lie, code, text) in [
        (Lie::None, 0, ""),
        (Lie::EndlessBody, 11, "too long"),
        (Lie::HugeObjects, 11, "too long"),
        (Lie::ShortBody, 0, ""),
        (Lie::EndlessPages, 2, "more than 10000 names"),
        (Lie::RepeatedToken, 2, "the same continuation token came twice"),
        (Lie::EmptyPages, 2, "pages without a name"),
        (Lie::EndlessPage, 2, "the answer has no end"),
    ] {
        let server = Server::start(sandbox.path("repo"), sandbox.path("repo"), lie);
        let command = over_s3(&sandbox, &server, &["snapshots", "--key-file", "key"]);
        let run = bounded(command);
        assert_eq!(run.code, Some(code), "{lie:?}: {}", run.stderr);
        assert!(run.stderr.contains(text), "{lie:?}: {}", run.stderr);
    }
}

/// The folder has sparse objects of 1 TB, which are not read.
#[test]
fn lying_folder_costs_a_client_little() {
    let sandbox = with_key_file();
    for name in ["keys/00000000000000000000000000000000", "commits/000000000000000000000000"] {
        let file = fs::File::create(sandbox.path("repo").join(name)).expect("a file is made");
        file.set_len(1 << 40).expect("it is sparse");
    }
    let key = ["--key-file", "key"];
    let run = bounded(sandbox.command([&["snapshots"][..], &key].concat()));
    run.ended(1, &["commits/000000000000000000000000", "too long"]);
    bounded(sandbox.command([&["check"][..], &key].concat())).ended(1, &["too long"]);
}

fn junk(sandbox: &Sandbox, name: &str) {
    fs::write(sandbox.path("repo").join(name), SplitMix64::bytes(1, 256)).expect("written");
}

#[test]
fn junk_prune_excuses_nothing_and_is_not_remembered() {
    let sandbox = Sandbox::with_source();
    sandbox.backup("source");
    let second = sandbox.backup("source");
    let highest = "prunes/18446744073709551615";
    junk(&sandbox, highest);
    sandbox.run(["snapshots"]).ended(1, &[highest]);
    fs::remove_file(sandbox.path("repo").join(highest)).expect("it goes");
    let after = sandbox.run(["snapshots"]).well();
    assert!(after.stderr.is_empty(), "it has left nothing: {}", after.stderr);
    junk(&sandbox, "prunes/00000000000000000001");
    let commit = sandbox.path("repo/commits").join(&second);
    let bytes = fs::read(&commit).expect("it is read");
    fs::remove_file(&commit).expect("it goes");
    for arguments in [&["snapshots"][..], &["restore", "latest", "--to", "back"]] {
        sandbox.run(arguments).ended(12, &["older than at its last use", "--accept-rollback"]);
    }
    assert!(!sandbox.path("back").exists(), "nothing was restored");
    // The commit exists and does not open, which is reported as damage.
    junk(&sandbox, &format!("commits/{second}"));
    sandbox.run(["snapshots"]).ended(1, &["exists, but cannot be opened", &second[..8]]);
    sandbox.run(["snapshots"]).ended(1, &["exists, but cannot be opened"]);
    fs::write(&commit, bytes).expect("it comes back");
    sandbox.run(["snapshots"]).ended(1, &["prunes/00000000000000000001"]);
}

#[test]
fn junk_settings_are_damage_but_not_fatal() {
    let sandbox = Sandbox::with_source();
    let highest = "config/18446744073709551615";
    junk(&sandbox, highest);
    sandbox.run(["snapshots"]).ended(1, &[highest]);
    sandbox.run(["backup", "source"]).ended(1, &[highest]);
    sandbox.run(["config", "--compression-level", "7"]).ended(1, &[highest]);
    let check = sandbox.run(["check"]).ended(1, &[]);
    let told = format!("{}{}", check.stderr, check.text());
    assert_eq!(told.matches(&format!("corrupt: {highest}")).count(), 1, "named once: {told}");
    assert!(told.contains(&format!("repair objects --remove {highest}")), "with a remedy: {told}");
    fs::remove_file(sandbox.path("repo").join(highest)).expect("it goes");
    sandbox.run(["config"]).well();
    sandbox.run(["check"]).well();
    // Missing settings are an older state all the same.
    for copy in ["", ".copy"] {
        let name = format!("repo/config/00000000000000000001{copy}");
        fs::remove_file(sandbox.path(name)).expect("it goes");
    }
    junk(&sandbox, highest);
    sandbox.run(["snapshots"]).ended(12, &["Expected: settings 1", "Found: settings 0"]);
}

/// Old settings and keys are put back. A client without a remembered state must not write with the
/// keys that were given up.
#[test]
fn older_epoch_is_not_written_with() {
    let sandbox = with_key_file();
    copy(&sandbox.path("repo"), &sandbox.path("copy"));
    sandbox.run(["key", "rotate", "--key-file", "key"]).well();
    sandbox.run(["backup", "source", "--key-file", "key"]).well();
    for folder in ["config", "keys"] {
        copy(&sandbox.path("copy").join(folder), &sandbox.path("repo").join(folder));
    }
    let elsewhere =
        |arguments: &[&str]| elsewhere(&sandbox, &[arguments, &["--key-file", "key"]].concat());
    elsewhere(&["snapshots"]).ended(1, &["key of epoch 2"]);
    let texts = ["key of epoch 2", "commits/", "--ignore-newer"];
    elsewhere(&["backup", "source"]).ended(12, &texts);
    elsewhere(&["backup", "source", "--ignore-newer"]).ended(1, &["key of epoch 2"]);
    // Settings and keys are read again, earlier messages are not repeated, and no command is
    // started.
    let begin = ["backup", "--key-file", "key", "--stdin-from-command", "--"];
    let command = ["sh", "-c", "echo x >> started; echo data"];
    let dump = [&begin[..], &command].concat();
    let run = crate::rollback::elsewhere(&sandbox, &dump).ended(12, &texts);
    assert!(!sandbox.path("started").exists(), "the command was started");
    for line in run.stderr.lines().filter(|line| line.starts_with("problem: ")) {
        assert_eq!(run.stderr.matches(line).count(), 1, "{}", run.stderr);
    }
}

/// Another client begins an epoch between the opening of the repository and its listing.
#[test]
fn epoch_begun_meanwhile_is_adopted_by_a_backup() {
    let sandbox = with_key_file();
    copy(&sandbox.path("repo"), &sandbox.path("before"));
    sandbox.run(["key", "rotate", "--key-file", "key"]).well();
    sandbox.run(["backup", "source", "--key-file", "key"]).well();
    for arguments in [&["backup", "source"][..], &["forget", "--keep-last", "1"]] {
        let server = Server::start(sandbox.path("before"), sandbox.path("repo"), Lie::Switches);
        let arguments = [arguments, &["--key-file", "key"]].concat();
        let mut command = over_s3(&sandbox, &server, &arguments);
        command.env("HOME", sandbox.path("other home"));
        run(&mut command).well();
        fs::remove_dir_all(sandbox.path("other home")).expect("it is forgotten");
    }
    let listed = sandbox.json(["snapshots", "--key-file", "key"]);
    let epochs: Vec<_> = listed.iter().map(|event| event["epoch"].clone()).collect();
    assert!(epochs.last().is_some_and(|epoch| epoch == 2), "{epochs:?}");
    sandbox.run(["check", "--key-file", "key"]).well();
}

/// The first backup after `key rotate` reads all files again, and stores nothing twice.
#[test]
fn first_backup_of_an_epoch_reads_all_and_stores_nothing_twice() {
    let sandbox = with_key_file();
    // A previous member can write a snapshot of the same sources with the old keys.
    copy(&sandbox.path("repo"), &sandbox.path("former"));
    let mut previous = sandbox.command(["backup", "source", "--key-file", "key"]);
    previous.env("CUTPOINT_REPO", sandbox.path("former")).env("HOME", sandbox.path("other home"));
    run(&mut previous).well();
    sandbox.run(["key", "rotate", "--key-file", "key"]).well();
    for kind in ["tickets", "commits", "index", "data", "meta", "similarity"] {
        let (from, to) = (sandbox.path("former").join(kind), sandbox.path("repo").join(kind));
        let mut names = Vec::new();
        gather(&from, &from, &mut names);
        for (name, _) in names {
            if !to.join(&name).exists() {
                fs::copy(from.join(&name), to.join(&name)).expect("copied");
            }
        }
    }
    let back_up = || {
        let events = sandbox.json(["backup", "source", "--key-file", "key"]);
        events.last().expect("a summary").clone()
    };
    let first = back_up();
    let statistics = |event: &serde_json::Value, name: &str| {
        event[name].as_u64().unwrap_or_else(|| panic!("{event}"))
    };
    assert!(first["parent"].is_null(), "{first}");
    assert!(statistics(&first, "read_file_count") > 0, "{first}");
    assert_eq!(statistics(&first, "new_chunk_count"), 0, "{first}");
    let second = back_up();
    assert_eq!(second["parent"], first["snapshot"], "{second}");
    let listed = sandbox.json(["snapshots", "--key-file", "key"]);
    let epochs: Vec<_> = listed.iter().map(|event| event["epoch"].as_u64()).collect();
    assert_eq!(epochs, [Some(1), Some(1), Some(2), Some(2)], "each says its epoch");
    let table = sandbox.run(["snapshots", "--key-file", "key"]).well();
    assert_eq!(table.text().matches("(key epoch 1)").count(), 2, "{}", table.text());
    let check = sandbox.run(["check", "--key-file", "key"]).well();
    let told = "Commits sealed with keys of epoch 1: 2.";
    assert!(check.stderr.contains(told), "{}", check.stderr);
}
