//! A small S3 server that gives answers which well-behaved servers seldom give.

use std::collections::{BTreeMap, VecDeque};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use cutpoint_storage::{Error, Put, S3, S3Limits, S3Settings, Storage, System};

use crate::listener::accept;

/// The reaction of the server to one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Odd {
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
pub(crate) struct State {
    pub(crate) objects: BTreeMap<String, Vec<u8>>,
    /// The reactions to the next requests with each method.
    pub(crate) odd: BTreeMap<&'static str, VecDeque<Odd>>,
    pub(crate) late: Option<(String, Vec<u8>)>,
    pub(crate) requests: Vec<String>,
    /// Whether each put had a checksum.
    pub(crate) checksums: Vec<bool>,
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
pub(crate) struct Server {
    pub(crate) state: Arc<Mutex<State>>,
    pub(crate) address: String,
}

impl Server {
    pub(crate) fn start() -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = format!("http://{}", listener.local_addr().expect("it listens"));
        let server = Server { state: Arc::default(), address };
        let serving = server.clone();
        accept(listener, move |stream| serving.serve(stream));
        server
    }

    pub(crate) fn with(method: &'static str, odd: &[Odd]) -> Server {
        let server = Server::start();
        server.state().odd.insert(method, odd.iter().copied().collect());
        server
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics")
    }

    pub(crate) fn storage(&self) -> S3 {
        self.storage_with(S3Limits::default())
    }

    pub(crate) fn storage_with(&self, limits: S3Limits) -> S3 {
        let keys = [("AWS_ACCESS_KEY_ID", "a"), ("AWS_SECRET_ACCESS_KEY", "b")];
        let mut settings = S3Settings::parse("s3://bucket/repo").expect("an address");
        settings.endpoint = Some(self.address.clone());
        settings.variables = keys.map(|(k, v)| (k.to_owned(), v.to_owned())).to_vec();
        settings.limits = limits;
        S3::open(&settings, Arc::new(System)).expect("it opens")
    }

    pub(crate) fn put(&self, bytes: &'static [u8]) -> Result<Put, Error> {
        self.storage().put_new("commits/x", Bytes::from_static(bytes))
    }

    pub(crate) fn object(&self) -> Option<Vec<u8>> {
        self.state().objects.get("/bucket/repo/commits/x").cloned()
    }

    pub(crate) fn methods(&self) -> Vec<String> {
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
