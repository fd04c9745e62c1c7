//! The behaviour of the S3 storage on answers that well-behaved servers seldom give. A small server
//! in this file gives them.

use std::collections::{BTreeMap, VecDeque};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use bytes::Bytes;
use cutpoint_storage::{
    Deletion, Error, Kind, Put, Refusal, S3, S3Limits, S3Settings, Storage, System,
};

/// The reaction of the server to one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Odd {
    /// Gives this answer, and does nothing.
    Answer(u16, &'static str),
    /// Does what was asked for, and still gives this answer.
    DoneBut(u16, &'static str),
    /// Hangs up without an answer, and does nothing.
    HangsUp,
    /// Does what was asked for, and hangs up.
    DoneHangsUp,
    /// Hangs up, and does what was asked for after the next request.
    LateHangsUp,
    /// Puts what another client has sent at the same moment, and gives this answer.
    AnotherWins(u16, &'static str),
    /// Answers with half of the body.
    HalfAnswer,
    /// Answers with half of the body, and stays connected in silence.
    HalfAnswerAndSilence,
    /// Answers with a body that continues behind its end.
    LongAnswer,
    /// Gives this status without a text.
    Status(u16),
    /// Stays connected in silence, and does nothing.
    Silence,
    /// Does what was asked for, and stays connected in silence.
    DoneSilence,
    /// Redirects to a page that exists.
    Redirect(u16),
}

#[derive(Debug, Default)]
struct State {
    objects: BTreeMap<String, Vec<u8>>,
    /// The reactions to the next requests with each method.
    odd: BTreeMap<&'static str, VecDeque<Odd>>,
    late: Option<(String, Vec<u8>)>,
    requests: Vec<String>,
    /// Whether each put had a checksum.
    checksums: Vec<bool>,
}

/// A status and a body.
type Answer = (u16, Vec<u8>);

impl State {
    /// Returns the answer to a request, or `None` to hang up.
    fn react(&mut self, request: &Request, odd: Option<Odd>) -> Option<Answer> {
        if let Some(Odd::AnotherWins(..)) = odd {
            self.objects.insert(request.path.clone(), b"another's".to_vec());
        }
        let late = self.late.take();
        let error = |code: &str| format!("<Error><Code>{code}</Code></Error>").into_bytes();
        let answer = match odd {
            Some(Odd::Silence) => (200, Vec::new()),
            None | Some(Odd::HalfAnswer | Odd::HalfAnswerAndSilence | Odd::DoneSilence) => {
                self.execute(request)
            }
            Some(Odd::LongAnswer) => {
                let (status, mut answer) = self.execute(request);
                answer.extend_from_slice(b"more");
                (status, answer)
            }
            Some(Odd::Status(status) | Odd::Redirect(status)) => (status, Vec::new()),
            Some(Odd::Answer(status, code) | Odd::AnotherWins(status, code)) => {
                (status, error(code))
            }
            Some(Odd::DoneBut(status, code)) => {
                self.execute(request);
                (status, error(code))
            }
            Some(Odd::HangsUp) => return None,
            Some(Odd::DoneHangsUp) => {
                self.execute(request);
                return None;
            }
            Some(Odd::LateHangsUp) => {
                self.late = Some((request.path.clone(), request.body.clone()));
                return None;
            }
        };
        if let Some((path, body)) = late {
            self.objects.entry(path).or_insert(body);
        }
        Some(answer)
    }

    /// Does what was asked for.
    fn execute(&mut self, request: &Request) -> Answer {
        let path = &request.path;
        match request.method.as_str() {
            "PUT" if request.is_conditional && self.objects.contains_key(path) => {
                (412, "PreconditionFailed".into())
            }
            "PUT" => {
                self.objects.insert(path.clone(), request.body.clone());
                (200, Vec::new())
            }
            // Several objects, each of which the answer names.
            "POST" => {
                let body = String::from_utf8_lossy(&request.body);
                let keys = body.split("<Key>").skip(1).filter_map(|rest| rest.split_once("</Key>"));
                let bucket = path.split('?').next().unwrap_or_default();
                let answer = keys.map(|(key, _)| {
                    if key.ends_with("locked") {
                        return format!("<Error><Key>{key}</Key><Code>AccessDenied</Code><Message>denied</Message></Error>");
                    }
                    self.objects.remove(&format!("{bucket}/{key}"));
                    format!("<Deleted><Key>{key}</Key></Deleted>")
                });
                let answer: String = answer.collect();
                (200, format!("<DeleteResult>{answer}</DeleteResult>").into_bytes())
            }
            "DELETE" if path.ends_with("locked") => {
                (403, b"<Error><Code>AccessDenied</Code></Error>".to_vec())
            }
            "DELETE" => (self.objects.remove(path).map_or(404, |_| 204), Vec::new()),
            _ => match self.objects.get(path) {
                Some(found) => (200, found.clone()),
                None => (404, b"<Error><Code>NoSuchKey</Code></Error>".to_vec()),
            },
        }
    }
}

/// A request for an object.
#[derive(Debug)]
struct Request {
    method: String,
    path: String,
    is_conditional: bool,
    has_checksum: bool,
    body: Vec<u8>,
}

impl Request {
    fn read(reader: &mut impl BufRead) -> Option<Request> {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let mut words = line.split_whitespace().map(str::to_owned);
        let (method, path) = (words.next()?, words.next()?);
        let (mut len, mut is_conditional, mut has_checksum) = (0, false, false);
        loop {
            let mut header = String::new();
            reader.read_line(&mut header).ok()?;
            let Some((name, value)) = header.trim_end().split_once(": ") else { break };
            match name.to_ascii_lowercase().as_str() {
                "content-length" => len = value.parse().ok()?,
                "if-none-match" => is_conditional = value == "*",
                "x-amz-checksum-sha256" => has_checksum = true,
                _ => {}
            }
        }
        let mut body = vec![0; len];
        reader.read_exact(&mut body).ok()?;
        Some(Request { method, path, is_conditional, has_checksum, body })
    }
}

#[derive(Clone, Debug)]
struct Server {
    state: Arc<Mutex<State>>,
    address: String,
}

impl Server {
    fn start() -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = format!("http://{}", listener.local_addr().expect("it listens"));
        let server = Server { state: Arc::default(), address };
        let serving = server.clone();
        // The thread ends with the process.
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let serving = serving.clone();
                std::thread::spawn(move || serving.serve(stream));
            }
        });
        server
    }

    fn with(method: &'static str, odd: &[Odd]) -> Server {
        let server = Server::start();
        server.state().odd.insert(method, odd.iter().copied().collect());
        server
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics")
    }

    fn storage(&self) -> S3 {
        self.storage_with(S3Limits::default())
    }

    fn storage_with(&self, limits: S3Limits) -> S3 {
        let keys = [("AWS_ACCESS_KEY_ID", "a"), ("AWS_SECRET_ACCESS_KEY", "b")];
        let mut settings = S3Settings::parse("s3://bucket/repo").expect("an address");
        settings.endpoint = Some(self.address.clone());
        settings.variables = keys.map(|(k, v)| (k.to_owned(), v.to_owned())).to_vec();
        settings.limits = limits;
        S3::open(&settings, Arc::new(System)).expect("it opens")
    }

    fn put(&self, bytes: &'static [u8]) -> Result<Put, Error> {
        self.storage().put_new("commits/x", Bytes::from_static(bytes))
    }

    fn object(&self) -> Option<Vec<u8>> {
        self.state().objects.get("/bucket/repo/commits/x").cloned()
    }

    fn methods(&self) -> Vec<String> {
        self.state().requests.clone()
    }

    fn serve(&self, mut stream: TcpStream) -> Option<()> {
        let mut reader = BufReader::new(stream.try_clone().ok()?);
        let request = Request::read(&mut reader)?;
        let mut state = self.state();
        state.requests.push(request.method.clone());
        if request.method == "PUT" {
            state.checksums.push(request.has_checksum);
        }
        let odd = state.odd.get_mut(request.method.as_str()).and_then(VecDeque::pop_front);
        let (status, answer) = state.react(&request, odd)?;
        let location = match odd {
            Some(Odd::Redirect(_)) => format!("Location: {}/bucket/login?secret\r\n", self.address),
            _ => String::new(),
        };
        let head = format!(
            "HTTP/1.1 {status} x\r\nContent-Length: {}\r\nETag: \"e\"\r\nLast-Modified: Sat, 21 Nov 2026 16:00:00 GMT\r\n\
             {location}Connection: close\r\n\r\n",
            answer.len()
        );
        let sent = match (request.method.as_str(), odd) {
            ("HEAD", _) => 0,
            (_, Some(Odd::HalfAnswer | Odd::HalfAnswerAndSilence)) => answer.len() / 2,
            _ => answer.len(),
        };
        drop(state);
        if let Some(Odd::Silence | Odd::DoneSilence) = odd {
            // Until the client hangs up.
            reader.read_to_end(&mut Vec::new()).ok()?;
            return None;
        }
        stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&answer[..sent])).ok()?;
        if odd == Some(Odd::HalfAnswerAndSilence) {
            // Until the client hangs up.
            reader.read_to_end(&mut Vec::new()).ok()?;
        }
        Some(())
    }
}

/// A put that follows a redirect becomes a get, whose success says nothing.
#[test]
fn redirect_is_an_error_and_not_followed() {
    for status in [301, 302, 303, 307, 308] {
        let server = Server::with("PUT", &[Odd::Redirect(status)]);
        server.state().objects.insert("/bucket/login?secret".to_owned(), b"log in".to_vec());
        let error = server.put(b"new").expect_err("nothing is stored");
        let text = format!("answered {status}, a redirect to {}/bucket/login", server.address);
        assert!(error.to_string().contains(&text), "{error}");
        assert!(!error.to_string().contains("secret"), "{error}");
        assert_eq!((server.object(), server.methods()), (None, vec!["PUT".to_owned()]), "{status}");
    }
}

/// Whatever happened to the first attempt: if the stored object has our bytes, the put has created
/// it.
#[test]
fn unknown_outcome_of_a_put_is_resolved() {
    let unknown: [(&[Odd], usize); 9] = [
        // Not the storage's own answer, but one of something on the way.
        (&[Odd::Answer(501, "")], 2),
        (&[Odd::Answer(503, "SlowDown")], 2),
        (&[Odd::Answer(409, "ConditionalRequestConflict")], 2),
        (&[Odd::HangsUp], 2),
        (&[Odd::HangsUp, Odd::Answer(500, "InternalError")], 3),
        (&[Odd::DoneBut(500, "InternalError")], 1),
        (&[Odd::DoneBut(409, "ConditionalRequestConflict")], 1),
        (&[Odd::DoneHangsUp], 1),
        // The first put arrives between the read and the second attempt, which is told that the
        // object exists.
        (&[Odd::LateHangsUp], 2),
    ];
    for (odd, put_count) in unknown {
        let server = Server::with("PUT", odd);
        assert_eq!(server.put(b"ours").expect("an answer"), Put::Created, "{odd:?}");
        assert_eq!(server.object().as_deref(), Some(&b"ours"[..]), "{odd:?}");
        let puts = server.methods().iter().filter(|method| *method == "PUT").count();
        assert_eq!(puts, put_count, "{odd:?}: {:?}", server.methods());
    }
}

/// The number of requests after which a storage knows their usual time.
const USUAL_COUNT: usize = 32;

/// Puts objects that a server takes at once, and then one by whose puts the server does `odd`. Returns
/// the result and the methods of the requests for that one.
fn put_after_others(name: &str, odd: &[Odd]) -> (Result<Put, Error>, Vec<String>) {
    let server = Server::start();
    let storage = server.storage_with(S3Limits { silence: Duration::from_secs(5), tries_max: 2 });
    for number in 0..USUAL_COUNT {
        let put = storage.put_new(&format!("data/{number}"), Bytes::from_static(b"other"));
        assert_eq!(put.expect("it is put"), Put::Created, "{number}");
    }
    server.state().requests.clear();
    server.state().odd.insert("PUT", odd.iter().copied().collect());
    let put = storage.put_new(name, Bytes::from_static(b"ours"));
    let object = server.state().objects.get(&format!("/bucket/repo/{name}")).cloned();
    assert_eq!(object.as_deref(), Some(&b"ours"[..]), "{name}: {odd:?}");
    (put, server.methods())
}

/// A name of a container belongs to one writer, so that its put may be made twice.
#[test]
fn stalled_put_of_a_container_is_made_twice() {
    let (put, methods) = put_after_others("data/x", &[Odd::Silence]);
    let expected = (Put::Created, vec!["PUT".into(); 2]);
    assert_eq!((put.expect("the second one"), methods), expected, "after silence");
    // The second one is told of the object that the first has put, so the object is compared.
    let (put, methods) = put_after_others("index/x", &[Odd::DoneSilence]);
    assert_eq!(put.expect("the first one"), Put::Created, "the object is its own");
    assert_eq!(methods, ["PUT", "PUT", "HEAD", "GET"], "the object is read");
}

/// A second put of a commit would be told that another client has put one.
#[test]
fn stalled_put_of_a_commit_waits() {
    std::thread::scope(|scope| {
        for name in ["commits/x", "tickets/x", "prunes/x", "config/x"] {
            scope.spawn(move || {
                let (put, methods) = put_after_others(name, &[Odd::DoneSilence]);
                assert_eq!(put.expect("it was put"), Put::Created, "{name}");
                assert_eq!(methods, ["PUT", "HEAD", "GET"], "{name}");
            });
        }
    });
}

#[test]
fn stalled_read_is_made_twice() {
    let server = Server::start();
    let storage = server.storage();
    storage.put_new("data/x", Bytes::from_static(b"ours")).expect("it is put");
    for _ in 0..USUAL_COUNT {
        storage.get_at_most("data/x", 4).expect("it is there");
    }
    server.state().requests.clear();
    for odd in [Odd::Silence, Odd::HalfAnswerAndSilence] {
        server.state().odd.insert("GET", [odd].into());
        let began = Instant::now();
        let read = storage.get_at_most("data/x", 4).expect("the second one");
        assert_eq!(read, &b"ours"[..], "{odd:?}");
        assert!(began.elapsed() < Duration::from_secs(30), "the server is silent for 60 s");
        // At most one read of twenty is made twice.
        for _ in 0..USUAL_COUNT {
            storage.get_at_most("data/x", 4).expect("it is there");
        }
    }
    assert_eq!(server.methods().len(), 2 * (2 + USUAL_COUNT), "each stalled read is made twice");
}

/// An object of another client was there before.
#[test]
fn object_of_another_client_is_never_taken_for_own() {
    let another = [
        Odd::AnotherWins(412, "PreconditionFailed"),
        Odd::AnotherWins(409, "ConditionalRequestConflict"),
        Odd::AnotherWins(503, "SlowDown"),
    ];
    for odd in another {
        let server = Server::with("PUT", &[odd]);
        assert_eq!(server.put(b"ours").expect("an answer"), Put::Exists, "{odd:?}");
        assert_eq!(server.object().as_deref(), Some(&b"another's"[..]), "{odd:?}");
    }
    let server = Server::with("PUT", &[Odd::AnotherWins(412, "PreconditionFailed")]);
    server.put(b"ours").expect("an answer");
    assert_eq!(server.methods(), ["PUT"], "a refused first try needs no second look");
    // As long as the own object.
    let server = Server::with("PUT", &[Odd::AnotherWins(503, "SlowDown")]);
    assert_eq!(server.put(b"not yours").expect("an answer"), Put::Exists, "the same length");
}

/// If conditional puts are refused, a backup can still be made.
#[test]
fn storage_without_conditional_puts_is_looked_at_first() {
    let server = Server::with("PUT", &[Odd::Answer(501, "NotImplemented")]);
    let storage = server.storage();
    let put = |bytes: &'static [u8]| storage.put_new("commits/x", Bytes::from_static(bytes));
    assert_eq!(put(b"ours").expect("an answer"), Put::Created);
    assert_eq!(put(b"second").expect("an answer"), Put::Exists);
    assert_eq!(server.object().as_deref(), Some(&b"ours"[..]), "the first stays");
    assert_eq!(server.methods(), ["PUT", "HEAD", "PUT", "HEAD"], "conditions are not tried again");
}

#[test]
fn truncated_answer_is_requested_again() {
    let server = Server::with("GET", &[Odd::HalfAnswer, Odd::HangsUp, Odd::Answer(500, "")]);
    server.put(b"all of it").expect("an answer");
    let storage = server.storage();
    // A first success, so that further attempts are worthwhile.
    storage.head("commits/x").expect("an answer");
    assert_eq!(storage.get("commits/x").expect("an answer"), "all of it");
}

/// A storage that gives no answer, or says that it is unavailable, is waited for. Other answers that
/// report a failure are limited in number.
#[test]
fn outage_is_not_limited_by_attempts() {
    let cases = [
        (Odd::HangsUp, true),
        (Odd::Answer(503, "SlowDown"), true),
        (Odd::Answer(502, ""), true),
        (Odd::Answer(429, ""), true),
        (Odd::Answer(500, "InternalError"), false),
        (Odd::Answer(409, "ConditionalRequestConflict"), false),
        (Odd::HalfAnswer, false),
    ];
    for (odd, is_waited_for) in cases {
        let server = Server::with("GET", &[odd; 4]);
        server.put(b"all of it").expect("an answer");
        let storage = server.storage_with(S3Limits { tries_max: 2, ..S3Limits::default() });
        // A first success, so that further attempts are worthwhile.
        storage.head("commits/x").expect("an answer");
        assert!(!storage.had_outage(), "{odd:?}");
        let read = storage.get("commits/x");
        assert_eq!(read.is_ok(), is_waited_for, "{odd:?}: {read:?}");
        assert_eq!(storage.had_outage(), is_waited_for, "{odd:?}");
    }
}

/// A storage whose answers always end early returns nothing, and costs no more than the attempts.
#[test]
fn endless_truncated_answers_are_given_up() {
    for (odd, tries_max) in [(Odd::HalfAnswer, 4), (Odd::HalfAnswerAndSilence, 2)] {
        let server = Server::with("GET", &[odd; 20]);
        server.put(b"all of it").expect("an answer");
        let silence = Duration::from_millis(500);
        let storage = server.storage_with(S3Limits { silence, tries_max });
        // A first success, so that further attempts are worthwhile.
        storage.head("commits/x").expect("an answer");
        let began = Instant::now();
        let error = storage.get("commits/x").expect_err("never whole");
        assert_eq!(error.kind(), Kind::Storage, "{odd:?}: {error}");
        assert!(error.to_string().contains(&format!("attempt {tries_max}")), "{odd:?}: {error}");
        let gets = server.methods().iter().filter(|method| *method == "GET").count();
        assert_eq!(gets, tries_max as usize, "{odd:?}: {:?}", server.methods());
        assert!(began.elapsed() < Duration::from_secs(10), "{odd:?}: {:?}", began.elapsed());
    }
}

/// A failed put is neither `Missing` nor `Corrupt`, whatever the answer, because some callers do
/// without an object that cannot be read.
#[test]
fn failed_put_is_never_a_loss() {
    let refused = [
        // With and without a text, like the answer for a missing object.
        (&[Odd::Answer(404, "NoSuchKey")][..], &[][..]),
        (&[Odd::Status(404)], &[]),
        (&[Odd::Answer(501, "NotImplemented"), Odd::Status(404)], &[]),
        // After an attempt of unknown outcome, the stored object is longer than its length says.
        (&[Odd::DoneBut(500, "InternalError")], &[Odd::LongAnswer]),
    ];
    for (puts, gets) in refused {
        let server = Server::with("PUT", puts);
        server.state().odd.insert("GET", gets.iter().copied().collect());
        let error = server.put(b"ours").expect_err("it fails");
        assert_eq!(error.kind(), Kind::Storage, "{puts:?}, {gets:?}: {error}");
        // Some replacements succeed at the second attempt.
        let replaced = Server::with("PUT", puts).storage().replace("commits/x", Bytes::new());
        let kind = replaced.map_or_else(|error| error.kind(), |()| Kind::Storage);
        assert_eq!(kind, Kind::Storage, "{puts:?}");
    }
}

fn refusal(error: &Error) -> Option<&Refusal> {
    std::error::Error::source(error)?.downcast_ref()
}

/// A request that cannot work is not repeated, and the error says why.
#[test]
fn refused_request_is_not_retried() {
    let refused = [
        (403, "AccessDenied", Kind::Storage, Some(Refusal::Denied)),
        (403, "InvalidAccessKeyId", Kind::Storage, Some(Refusal::WrongCredentials)),
        (403, "SignatureDoesNotMatch", Kind::Storage, Some(Refusal::WrongCredentials)),
        (403, "RequestTimeTooSkewed", Kind::Storage, Some(Refusal::Clock)),
        (400, "ExpiredToken", Kind::Storage, Some(Refusal::Expired)),
        (404, "NoSuchBucket", Kind::Storage, Some(Refusal::NoBucket)),
        (301, "PermanentRedirect", Kind::Storage, Some(Refusal::Region(None))),
        (404, "Oops", Kind::Storage, Some(Refusal::NotS3)),
        (404, "NoSuchKey", Kind::Storage, Some(Refusal::NotS3)),
        (507, "", Kind::Full, None),
        (403, "QuotaExceeded", Kind::Full, None),
    ];
    for (status, code, kind, expected) in refused {
        let server = Server::with("PUT", &[Odd::Answer(status, code)]);
        let error = server.put(b"ours").expect_err("it is refused");
        assert_eq!(error.kind(), kind, "{status} {code}: {error}");
        assert_eq!(refusal(&error), expected.as_ref(), "{status} {code}");
        assert_eq!(server.methods(), ["PUT"], "{status} {code}: it is tried once");
        let text = error.to_string();
        for part in ["commits/x", "put", "s3://bucket/repo", "attempt 1", &status.to_string()] {
            assert!(text.contains(part), "{text:?} does not say {part:?}");
        }
    }
}

/// Before the first success three attempts are enough, because a user waits for the message.
#[test]
fn first_request_that_never_works_ends_soon() {
    let server = Server::with("PUT", &[Odd::Answer(500, "InternalError"); 20]);
    let error = server.put(b"ours").expect_err("it is refused");
    assert!(error.to_string().contains("attempt 3"), "{error}");
    let nobody = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = format!("http://{}", nobody.local_addr().expect("it listens"));
    drop(nobody);
    let host = address.trim_start_matches("http://").to_owned();
    let error = Server { address, ..server }.put(b"ours").expect_err("nobody is there");
    assert_eq!(refusal(&error), Some(&Refusal::Unreachable), "{error}");
    assert!(error.to_string().contains(&format!(": {host}: Connection refused")), "{error}");
}

/// An address where something else than a storage answers has no listing, and is not empty.
#[test]
fn unlistable_storage_is_not_empty() {
    for code in ["NoSuchKey", "Oops"] {
        let server = Server::with("GET", &[Odd::Answer(404, code)]);
        let error = server.storage().list("commits").expect_err("it is no storage");
        assert_eq!(error.kind(), Kind::Storage, "{error}");
        assert_eq!(refusal(&error), Some(&Refusal::NotS3), "{error}");
    }
}

/// Failing credentials are not a failure of the storage.
#[test]
fn missing_credentials_are_not_a_storage_failure() {
    let refusing = Server::with("PUT", &[Odd::Answer(403, "Forbidden"); 9]);
    let server = Server::start();
    let mut settings = S3Settings::parse("s3://bucket/repo").expect("an address");
    settings.endpoint = Some(server.address.clone());
    settings.variables = vec![("AWS_METADATA_ENDPOINT".to_owned(), refusing.address.clone())];
    let storage = S3::open(&settings, Arc::new(System)).expect("it opens");
    let error = storage.head("commits/x").expect_err("nobody can ask");
    assert_eq!(refusal(&error), Some(&Refusal::NoCredentials), "{error}");
    assert!(error.to_string().contains("no credentials"), "{error}");
    assert!(server.methods().is_empty(), "the storage is not asked without credentials");
}

#[test]
fn deleting_a_missing_object_succeeds() {
    let server = Server::start();
    let storage = server.storage();
    storage.delete("commits/x").expect("nothing was there");
    server.put(b"ours").expect("an answer");
    storage.delete("commits/x").expect("it is deleted");
    assert_eq!(server.object(), None);
}

/// Puts objects and deletes them at once. Returns the results, and the methods of the
/// requests that deleted.
fn delete_objects(server: &Server, names: &[&str]) -> (Vec<Result<(), Error>>, Vec<String>) {
    let storage = server.storage_with(S3Limits { tries_max: 2, ..S3Limits::default() });
    for name in names {
        storage.put_new(name, Bytes::from_static(b"object")).expect("an answer");
    }
    server.state().requests.clear();
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    (storage.delete_many(&names), server.methods())
}

/// Objects count as deleted only if the answer names them.
#[test]
fn objects_that_an_answer_does_not_name_are_deleted_one_by_one() {
    let incomplete = [
        Odd::Answer(200, "InternalError"),
        Odd::Answer(501, "NotImplemented"),
        Odd::Answer(400, "MalformedXML"),
        Odd::Answer(405, "MethodNotAllowed"),
        Odd::DoneBut(200, "InternalError"),
        Odd::HalfAnswer,
    ];
    for odd in incomplete {
        let server = Server::with("POST", &[odd; 20]);
        let (results, methods) = delete_objects(&server, &["data/1", "data/2", "data/3"]);
        assert!(results.iter().all(Result::is_ok), "{odd:?}: {results:?}");
        assert!(server.state().objects.is_empty(), "{odd:?}: {:?}", server.state().objects);
        let singles = methods.iter().filter(|method| *method == "DELETE").count();
        assert_eq!(singles, 3, "{odd:?}: {methods:?}");
    }
}

#[test]
fn deletion_continues_after_an_object_that_may_not_be_deleted() {
    let server = Server::start();
    let (results, methods) = delete_objects(&server, &["data/1", "data/2-locked", "data/3"]);
    assert_eq!(methods, ["POST", "DELETE"], "one request for all, and one for the refused object");
    assert!(results[0].is_ok() && results[2].is_ok(), "{results:?}");
    let error = results[1].as_ref().expect_err("it is locked");
    assert!(error.to_string().contains("data/2-locked"), "{error}");
    let left: Vec<String> = server.state().objects.keys().cloned().collect();
    assert_eq!(left, ["/bucket/repo/data/2-locked"]);
}

/// A request that a server has not understood is not made again.
#[test]
fn server_without_bulk_delete_is_asked_once() {
    let server = Server::with("POST", &[Odd::Answer(501, "NotImplemented"); 20]);
    let storage = server.storage();
    for _ in 0..2 {
        let names = ["data/1", "data/2"].map(str::to_owned);
        storage.delete_many(&names);
    }
    let posts = server.methods().iter().filter(|method| *method == "POST").count();
    assert_eq!(posts, 1, "{:?}", server.methods());
}

#[test]
fn many_objects_are_read_in_their_order_in_spite_of_failures() {
    let server =
        Server::with("GET", &[Odd::Answer(503, "SlowDown"), Odd::HangsUp, Odd::HalfAnswer]);
    let storage = server.storage();
    for number in 0..40 {
        let bytes = Bytes::from(format!("object {number}"));
        storage.put_new(&format!("commits/{number}"), bytes).expect("an answer");
    }
    let wanted: Vec<(String, u64)> = (0..41)
        .map(|number| (format!("commits/{number}"), if number == 7 { 3 } else { 100 }))
        .collect();
    for (number, result) in storage.get_many(&wanted).into_iter().enumerate() {
        match number {
            7 => assert_eq!(result.expect_err("longer").kind(), Kind::Corrupt),
            40 => assert_eq!(result.expect_err("there is none").kind(), Kind::Missing),
            _ => assert_eq!(result.expect("an answer"), format!("object {number}").as_bytes()),
        }
    }
}

/// Many servers keep no versions, lock nothing, and do not know the questions. None of their
/// answers may hinder a deletion, and no object is asked for.
#[test]
fn server_that_does_not_know_locks_has_none() {
    let unknown = [
        Odd::Answer(404, "ObjectLockConfigurationNotFoundError"),
        Odd::Answer(404, "NoSuchKey"),
        Odd::Answer(405, "MethodNotAllowed"),
        Odd::Answer(400, "InvalidRequest"),
        Odd::Answer(501, "NotImplemented"),
        Odd::Answer(200, ""),
        Odd::Status(404),
    ];
    for odd in unknown {
        let server = Server::with("GET", &[odd; 2]);
        let storage = server.storage();
        let names = ["data/1".to_owned(), "data/2".to_owned()];
        assert_eq!(storage.locks(&names).expect("none"), [None, None], "{odd:?}");
        assert_eq!(storage.deletion().expect("an answer"), Deletion::default(), "{odd:?}");
        assert_eq!(server.methods(), ["GET", "GET"], "{odd:?}: the bucket is asked once");
    }
}

/// An answer that says nothing about the bucket is not taken for "no lock".
#[test]
fn failed_question_about_locks_is_an_error() {
    let failures = [
        (Odd::Answer(403, "AccessDenied"), Refusal::Lacks("s3:GetBucketObjectLockConfiguration")),
        (Odd::Answer(404, "NoSuchBucket"), Refusal::NoBucket),
        (Odd::Answer(403, "SignatureDoesNotMatch"), Refusal::WrongCredentials),
    ];
    for (odd, expected) in failures {
        let storage = Server::with("GET", &[odd; 4]).storage();
        let error = storage.deletion().expect_err("it is not known");
        assert_eq!(refusal(&error), Some(&expected), "{odd:?}: {error}");
        let error = storage.locks(&["data/1".to_owned()]).expect_err("it is not known");
        assert_eq!(error.kind(), Kind::Storage, "{odd:?}: {error}");
    }
    // A passing failure is no answer, either.
    let server = Server::with("GET", &[Odd::Answer(503, "SlowDown"), Odd::HangsUp]);
    assert_eq!(server.storage().deletion().expect("an answer"), Deletion::default());
    assert_eq!(server.methods().len(), 4, "{:?}", server.methods());
    // A put without a version shows that the bucket locks nothing.
    let server = Server::with("GET", &[Odd::Answer(403, "AccessDenied"); 2]);
    let storage = server.storage();
    storage.put_new("data/1", Bytes::new()).expect("it is put");
    assert_eq!(storage.deletion().expect("it is known"), Deletion::default());
}

/// AWS takes no object without a checksum in a bucket with a default retention.
#[test]
fn required_checksum_is_sent() {
    const REQUIRED: &str = "InvalidRequest</Code><Message>Content-MD5 OR x-amz-checksum- HTTP \
                            header is required for Put Object requests with Object Lock parameters\
                            </Message><Code>";
    let server = Server::with("PUT", &[Odd::Answer(400, REQUIRED)]);
    let storage = server.storage();
    let put = |bytes: &'static [u8]| storage.put_new("commits/x", Bytes::from_static(bytes));
    assert_eq!(put(b"ours").expect("an answer"), Put::Created);
    assert_eq!(put(b"second").expect("an answer"), Put::Exists);
    assert_eq!(server.methods(), ["PUT", "PUT", "PUT"], "it is learned once");
    assert_eq!(server.object().as_deref(), Some(&b"ours"[..]), "the first stays");
    let checksums = server.state().checksums.clone();
    assert_eq!(checksums, [false, true, true], "the second request has a checksum");
}
