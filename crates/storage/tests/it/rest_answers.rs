//! The behaviour of the REST storage on answers that `rclone` seldom gives. A small server in this
//! file gives them.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use cutpoint_storage::{Error, Kind, Put, Rest, RestSettings, Storage, System};

use crate::listener::accept;

/// An answer that is not that of a well-behaved server.
#[derive(Clone, Copy, Debug)]
enum Odd {
    /// A status with a text.
    Answer(u16, &'static str),
    /// A redirect to a page that exists.
    Redirect(u16),
    /// A body of spaces without an end.
    Endless,
}

#[derive(Debug, Default)]
struct State {
    objects: BTreeMap<String, Vec<u8>>,
    /// The answers to the next requests of a method for a path.
    odd: Vec<(&'static str, &'static str, Odd)>,
    /// The requests so far: method and path.
    requests: Vec<String>,
    /// Number of bytes of endless answers that were sent.
    endless_bytes: usize,
}

#[derive(Clone, Debug)]
struct Server {
    state: Arc<Mutex<State>>,
    address: String,
}

impl Server {
    fn with(odd: &[(&'static str, &'static str, Odd)]) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = format!("rest:http://{}/", listener.local_addr().expect("it listens"));
        let server = Server { state: Arc::default(), address };
        server.state().odd = odd.to_vec();
        let serving = server.clone();
        accept(listener, move |stream| serving.serve(stream));
        server
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics")
    }

    fn storage(&self) -> Rest {
        let settings = RestSettings::parse(&self.address).expect("an address");
        Rest::open(&settings, Arc::new(System)).expect("threads start")
    }

    fn put(&self, name: &str) -> Result<Put, Error> {
        self.storage().put_new(name, Bytes::from_static(b"new"))
    }

    fn serve(&self, mut stream: TcpStream) -> Option<()> {
        let mut reader = BufReader::new(stream.try_clone().ok()?);
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let mut words = line.split_whitespace();
        let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
        let mut len = 0;
        loop {
            let mut header = String::new();
            reader.read_line(&mut header).ok()?;
            let Some((name, value)) = header.trim_end().split_once(": ") else { break };
            if name.eq_ignore_ascii_case("content-length") {
                len = value.parse().ok()?;
            }
        }
        let mut body = vec![0; len];
        reader.read_exact(&mut body).ok()?;
        let mut state = self.state();
        state.requests.push(format!("{method} {path}"));
        let odd = state.odd.iter().position(|(m, p, _)| (*m, *p) == (&method, &path));
        let odd = odd.map(|at| state.odd.remove(at).2);
        let mut headers = "";
        let (status, answer) = match odd {
            Some(Odd::Answer(status, text)) => (status, text.as_bytes().to_vec()),
            Some(Odd::Redirect(status)) => {
                headers = "Location: /login?secret\r\n";
                (status, Vec::new())
            }
            Some(Odd::Endless) => {
                drop(state);
                return self.send_spaces(&mut stream);
            }
            None => state.execute(&method, &path, body),
        };
        drop(state);
        let head = format!(
            "HTTP/1.1 {status} x\r\nContent-Length: {}\r\n{headers}Connection: close\r\n\r\n",
            answer.len()
        );
        stream.write_all(head.as_bytes()).ok()?;
        if method == "HEAD" { Some(()) } else { stream.write_all(&answer).ok() }
    }

    /// Sends spaces until the client hangs up, at most 64 MiB.
    fn send_spaces(&self, stream: &mut TcpStream) -> Option<()> {
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n";
        stream.write_all(head.as_bytes()).ok()?;
        let piece = format!("10000\r\n{}\r\n", " ".repeat(0x10000));
        for _ in 0..1024 {
            stream.write_all(piece.as_bytes()).ok()?;
            self.state().endless_bytes += 0x10000;
        }
        Some(())
    }
}

impl State {
    fn execute(&mut self, method: &str, path: &str, body: Vec<u8>) -> (u16, Vec<u8>) {
        match method {
            "GET" if path == "/login" => (200, b"log in".to_vec()),
            "GET" if path.ends_with('/') => {
                let names = self.objects.iter().filter_map(|(name, bytes)| {
                    let file = name.strip_prefix(path)?;
                    Some(format!(r#"{{"name":"{file}","size":{}}}"#, bytes.len()))
                });
                (200, format!("[{}]", names.collect::<Vec<_>>().join(",")).into_bytes())
            }
            "GET" | "HEAD" => self.objects.get(path).map_or((404, vec![]), |b| (200, b.clone())),
            "POST" => {
                self.objects.insert(path.to_owned(), body);
                (200, Vec::new())
            }
            _ => (self.objects.remove(path).map_or(404, |_| 200), Vec::new()),
        }
    }
}

/// A put that follows a redirect becomes a get, whose success says nothing.
#[test]
fn rest_redirect_is_an_error_and_not_followed() {
    for status in [301, 302, 303, 307, 308] {
        let server = Server::with(&[("POST", "/tickets/a", Odd::Redirect(status))]);
        let error = server.put("tickets/a").expect_err("nothing is stored");
        let text = error.to_string();
        assert!(text.contains(&format!("{status}, a redirect to /login")), "{error}");
        assert!(!text.contains("secret"), "{error}");
        assert!(error.remedy().is_some_and(|remedy| remedy.contains("redirects")), "{error}");
        let state = server.state();
        assert!(!state.requests.iter().any(|request| request.contains("login")), "{state:?}");
    }
    let server = Server::with(&[("DELETE", "/tickets/a", Odd::Redirect(303))]);
    server.put("tickets/a").expect("a put");
    server.storage().delete("tickets/a").expect_err("nothing is deleted");
}

/// Old versions of rclone answer "not found" to any failure of their remote.
#[test]
fn rest_put_of_a_deciding_object_confirms_that_none_exists() {
    for name in ["commits/a", "prunes/00000001", "config/a", "keys/a"] {
        let path: &'static str = String::leak(format!("/{name}"));
        let server = Server::with(&[("HEAD", path, Odd::Answer(404, ""))]);
        server.state().objects.insert(path.to_owned(), b"of another client".to_vec());
        assert_eq!(server.put(name).expect("a put"), Put::Exists, "{name}");
        assert_eq!(server.state().objects[path], b"of another client", "{name} stays");
    }
}

/// The memory that a listing takes depends on its folder.
#[test]
fn rest_endless_listing_is_refused_early() {
    let server = Server::with(&[("GET", "/keys/", Odd::Endless)]);
    let error = server.storage().list("keys").expect_err("it has no end");
    assert!(error.to_string().contains("not a listing: more than"), "{error}");
    let sent = server.state().endless_bytes;
    assert!(sent < 16 << 20, "{sent} bytes were sent, for at most 10,000 keys");
}

/// Answers of a server or remote that is busy are no reason to give up.
#[test]
fn rest_transient_refusals_are_tried_again() {
    for (status, text) in [
        (503, "upstream node-7: not found, retry later"),
        (
            500,
            "googleapi: Error 403: Quota exceeded for quota metric 'Queries' and limit 'Queries per \
             minute' of service 'drive.googleapis.com', rateLimitExceeded",
        ),
        (429, "quotaExceeded"),
        (502, "permission denied by the balancer"),
    ] {
        let server = Server::with(&[("POST", "/tickets/a", Odd::Answer(status, text))]);
        assert_eq!(server.put("tickets/a").expect(text), Put::Created, "{text}");
    }
    for text in ["storageQuotaExceeded", "write x: no space left on device", "disk quota exceeded"]
    {
        let server = Server::with(&[("POST", "/tickets/a", Odd::Answer(500, text))]);
        let error = server.put("tickets/a").expect_err(text);
        assert_eq!(error.kind(), Kind::Full, "{error}");
    }
}
