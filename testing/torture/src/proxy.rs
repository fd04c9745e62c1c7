//! An HTTP proxy in front of an S3 server that injects faults ("lies"): the proxy fails requests
//! before and after they were carried out, loses answers, cuts them short, delays them, and carries
//! requests out late.
//!
//! All faults are within the assumptions of the ordering rules: a put that was answered with
//! success has happened, and any other put may have happened or not, at once or later.

use std::io::{self, BufReader, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use cutpoint_testing::SplitMix64;
use cutpoint_testing::http::{Connection, Request, Upstream, listen};

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
        let lies = Arc::new(Lies::default());
        let one_in = Arc::new(AtomicU64::new(0));
        let random = Mutex::new(SplitMix64::new(seed));
        let (server, shared, rate) = (server.to_owned(), lies.clone(), one_in.clone());
        let endpoint = listen(move |client| {
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
            serve(client, &server, fault, delay)
        })?;
        Ok(Proxy { endpoint, lies, one_in })
    }

    /// Lies about one request in `one_in` from now on, or about none if `one_in` is 0.
    pub(crate) fn lie(&self, one_in: u64) {
        self.one_in.store(one_in, Ordering::Relaxed);
    }
}

/// Serves the one request of a connection.
fn serve(mut client: TcpStream, server: &str, fault: Fault, delay: Duration) -> io::Result<()> {
    let mut reader = BufReader::new(client.try_clone()?);
    let Some(request) = Request::read(&mut reader, &mut client)? else { return Ok(()) };
    let mut upstream = Upstream::new(server);
    let mut forward = || upstream.exchange(&request, Connection::Close);
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
            return forward().map(drop);
        }
        Fault::Delays => thread::sleep(delay),
        Fault::None | Fault::LosesAnswer | Fault::RefusesDone | Fault::CutsAnswer => {}
    }
    let answer = forward()?.bytes;
    match fault {
        Fault::LosesAnswer => client.shutdown(Shutdown::Both),
        Fault::RefusesDone => refuse(&mut client),
        Fault::CutsAnswer => client.write_all(&answer[..answer.len() / 2]),
        _ => client.write_all(&answer),
    }
}
