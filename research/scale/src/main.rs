//! An S3 server behind a proxy that counts and delays requests, for `research/scale/run.py`.
//!
//! Usage: `cutpoint-scale FOLDER`, where FOLDER outlives the process and has the server's build. The
//! first line at standard output is an object: `variables` for the environment of clients, `bucket`,
//! and `folder`, which has the objects as files. Exits with 77 if there is no server. Then each line
//! at standard input is a command, and each is answered with one line:
//!
//! - `latency MILLISECONDS`: the delay of each request from now on; the answer is `{}`.
//! - `take`: the counts since the previous `take`. Array `requests` has objects with `verb`, `folder`,
//!   `request_count`, `key_count` (names that bulk deletes have), `sent_len` and `received_len`
//!   (bytes of bodies sent by clients, and of answers).
//!
//! The process ends with its standard input.
#![forbid(unsafe_code)]

mod count;
mod target;

use std::io::{self, BufReader, Write};
use std::net::TcpStream;
use std::path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use cutpoint_testing::S3Server;
use cutpoint_testing::http::{Connection, Request, Upstream, listen};
use serde_json::json;

use crate::count::Counts;

/// The exit code without a server.
const NO_SERVER: u8 = 77;

/// The state that the connections of the proxy share.
#[derive(Debug)]
struct Proxy {
    server: String,
    counts: Counts,
    latency_ms: AtomicU64,
}

fn main() -> ExitCode {
    let Some(folder) = std::env::args().nth(1) else {
        eprintln!("usage: cutpoint-scale FOLDER");
        return ExitCode::from(2);
    };
    // The build of the server takes absolute paths only.
    let folder = path::absolute(&folder).unwrap_or_else(|_| folder.into());
    let Some(server) = S3Server::shared(&folder) else {
        return ExitCode::from(NO_SERVER);
    };
    match run(server) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cutpoint-scale: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Starts the proxy and answers commands until standard input ends.
fn run(server: &S3Server) -> io::Result<()> {
    let proxy = Arc::new(Proxy {
        server: server.endpoint.trim_start_matches("http://").to_owned(),
        counts: Counts::default(),
        latency_ms: AtomicU64::new(0),
    });
    let shared = proxy.clone();
    let endpoint = listen(move |client| serve(client, &shared))?;
    let mut variables: serde_json::Map<_, _> = server
        .variables()
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value.into()))
        .collect();
    variables.insert("AWS_ENDPOINT_URL".to_owned(), endpoint.into());
    let folder = server.bucket_folder.to_string_lossy();
    println!("{}", json!({ "variables": variables, "bucket": server.bucket, "folder": folder }));
    for line in io::stdin().lines() {
        let line = line?;
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["take"] => println!("{}", json!({ "requests": proxy.counts.take() })),
            ["latency", text] => {
                let latency_ms = text.parse().map_err(|_| io::ErrorKind::InvalidInput)?;
                proxy.latency_ms.store(latency_ms, Ordering::Relaxed);
                println!("{{}}");
            }
            _ => return Err(io::Error::other(format!("unknown command: {line}"))),
        }
        io::stdout().flush()?;
    }
    Ok(())
}

/// Serves the requests of a connection.
fn serve(mut client: TcpStream, proxy: &Proxy) -> io::Result<()> {
    let mut reader = BufReader::with_capacity(64 << 10, client.try_clone()?);
    let mut upstream = Upstream::new(&proxy.server);
    while let Some(request) = Request::read(&mut reader, &mut client)? {
        thread::sleep(Duration::from_millis(proxy.latency_ms.load(Ordering::Relaxed)));
        let answer = upstream.exchange(&request, Connection::KeepAlive)?;
        proxy.counts.add(&request, answer.bytes.len());
        client.write_all(&answer.bytes)?;
        if answer.connection == Connection::Close {
            break;
        }
    }
    Ok(())
}
