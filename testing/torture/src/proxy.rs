//! An HTTP proxy in front of an S3 server that injects faults ("lies"): the proxy fails requests
//! before and after they were carried out, loses answers, cuts them short, delays them, and carries
//! requests out late.
//!
//! All faults are within the assumptions of the ordering rules: a put that was answered with
//! success has happened, and any other put may have happened or not, at once or later.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use cutpoint_testing::SplitMix64;

/// The maximum length of the head of a request, in bytes.
const HEAD_LEN_MAX: u64 = 64 << 10;
/// The maximum length of the body of a request in bytes, which is more than any object has.
const BODY_LEN_MAX: usize = 256 << 20;
/// The maximum time by which a request is delayed or carried out late, in milliseconds.
const DELAY_MS_MAX: usize = 2000;

/// The numbers of requests and of lies.
#[derive(Debug, Default)]
pub(crate) struct Lies {
    pub(crate) requests: AtomicU64,
    pub(crate) lies: AtomicU64,
}

/// The ways in which the proxy handles a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    /// The connection ends before the request is carried out.
    DropsRequest,
    /// The request is carried out, and the connection ends without an answer.
    LosesAnswer,
    /// The answer is 500, and nothing is carried out.
    Refuses,
    /// The answer is 500 although the request is carried out.
    RefusesDone,
    /// The answer is 500, and the request is carried out later.
    CarriesOutLate,
    /// The answer ends in the middle.
    CutsAnswer,
    /// The request is delayed.
    Delays,
}

const FAULTS: [Fault; 7] = [
    Fault::DropsRequest,
    Fault::LosesAnswer,
    Fault::Refuses,
    Fault::RefusesDone,
    Fault::CarriesOutLate,
    Fault::CutsAnswer,
    Fault::Delays,
];

/// A running proxy, whose threads end with the process.
#[derive(Debug)]
pub(crate) struct Proxy {
    pub(crate) endpoint: String,
    pub(crate) lies: Arc<Lies>,
    /// The rate of lies: one request in this number is lied about; 0 for none.
    one_in: Arc<AtomicU64>,
}

impl Proxy {
    /// Starts a proxy in front of `server`, an address such as `127.0.0.1:9000`. The proxy injects
    /// no faults until [`Proxy::lie`] is called.
    pub(crate) fn start(server: &str, seed: u64) -> io::Result<Proxy> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let endpoint = format!("http://{}", listener.local_addr()?);
        let lies = Arc::new(Lies::default());
        let one_in = Arc::new(AtomicU64::new(0));
        let random = Arc::new(Mutex::new(SplitMix64::new(seed)));
        let (server, shared, rate) = (server.to_owned(), lies.clone(), one_in.clone());
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let one_in = rate.load(Ordering::Relaxed);
                shared.requests.fetch_add(1, Ordering::Relaxed);
                let (fault, delay) = {
                    let mut random = random.lock().expect("no thread panics");
                    let lies = one_in > 0 && random.next().is_multiple_of(one_in);
                    let fault = if lies { FAULTS[random.below(FAULTS.len())] } else { Fault::None };
                    (fault, Duration::from_millis(random.below(DELAY_MS_MAX) as u64))
                };
                if fault != Fault::None {
                    shared.lies.fetch_add(1, Ordering::Relaxed);
                }
                let server = server.clone();
                // A connection that fails is a fault like the others, which the client notices.
                thread::spawn(move || serve(client, &server, fault, delay).ok());
            }
        });
        Ok(Proxy { endpoint, lies, one_in })
    }

    /// Lies about one request in `one_in` from now on, or about none if `one_in` is 0.
    pub(crate) fn lie(&self, one_in: u64) {
        self.one_in.store(one_in, Ordering::Relaxed);
    }
}

/// Serves the one request of a connection.
fn serve(client: TcpStream, server: &str, fault: Fault, delay: Duration) -> io::Result<()> {
    client.set_nodelay(true)?;
    let mut reader = BufReader::new(client.try_clone()?);
    let Some(request) = read_request(&mut reader, &client)? else { return Ok(()) };
    let mut client = client;
    let refuse = |client: &mut TcpStream| -> io::Result<()> {
        let body = "<Error><Code>InternalError</Code><Message>a lie</Message></Error>";
        write!(
            client,
            "HTTP/1.1 500 Internal Server Error\r\nContent-Type: application/xml\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        )
    };
    match fault {
        Fault::DropsRequest => return client.shutdown(Shutdown::Both),
        Fault::Refuses => return refuse(&mut client),
        Fault::CarriesOutLate => {
            refuse(&mut client)?;
            client.shutdown(Shutdown::Both).ok();
            thread::sleep(delay);
            return forward(server, &request).map(drop);
        }
        Fault::Delays => thread::sleep(delay),
        Fault::None | Fault::LosesAnswer | Fault::RefusesDone | Fault::CutsAnswer => {}
    }
    let answer = forward(server, &request)?;
    match fault {
        Fault::LosesAnswer => client.shutdown(Shutdown::Both),
        Fault::RefusesDone => refuse(&mut client),
        Fault::CutsAnswer => client.write_all(&answer[..answer.len() / 2]),
        _ => client.write_all(&answer),
    }
}

/// Reads a request in the form in which it is forwarded: its head, with `Connection: close`, and
/// its body.
fn read_request(
    reader: &mut BufReader<TcpStream>,
    mut client: &TcpStream,
) -> io::Result<Option<Vec<u8>>> {
    let mut head = Vec::new();
    let mut body_len = 0_usize;
    let mut expects = false;
    loop {
        let mut line = Vec::new();
        if reader.by_ref().take(HEAD_LEN_MAX).read_until(b'\n', &mut line)? == 0 {
            return Ok(None);
        }
        if line == b"\r\n" {
            break;
        }
        let text = String::from_utf8_lossy(&line).to_ascii_lowercase();
        if let Some(value) = text.strip_prefix("content-length:") {
            body_len = value.trim().parse().map_err(|_| io::ErrorKind::InvalidData)?;
        }
        expects |= text.starts_with("expect:");
        if !text.starts_with("connection:") && !text.starts_with("expect:") {
            head.extend_from_slice(&line);
        }
    }
    if body_len > BODY_LEN_MAX {
        return Err(io::ErrorKind::InvalidData.into());
    }
    head.extend_from_slice(b"Connection: close\r\n\r\n");
    if expects {
        client.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
    }
    let begin = head.len();
    head.resize(begin + body_len, 0);
    reader.read_exact(&mut head[begin..])?;
    Ok(Some(head))
}

/// Sends a request to the server and returns the whole answer.
fn forward(server: &str, request: &[u8]) -> io::Result<Vec<u8>> {
    let mut upstream = TcpStream::connect(server)?;
    upstream.set_nodelay(true)?;
    upstream.write_all(request)?;
    let mut answer = Vec::new();
    upstream.read_to_end(&mut answer)?;
    Ok(answer)
}
