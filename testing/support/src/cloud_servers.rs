//! Servers that stand for Azure Blob Storage and Google Cloud Storage in tests.

use std::io::{BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::http::{Connection, Request, Upstream, listen};
use crate::s3_signature::{base64, hmac};
use crate::services::{free_port, program};

/// The number of times that a server may fail to start, because another process has taken its port.
const STARTS_MAX: usize = 3;
/// The account of Azurite, and its key before it is encoded in Base64.
const ACCOUNT: &str = "tester";
const KEY: &[u8] = b"testersecret";
/// The container or bucket that a server has.
const CONTAINER: &str = "box";

/// A server with one empty container or bucket, `box`. It ends when it is dropped.
#[derive(Debug)]
pub struct CloudServer {
    child: Child,
    port: u16,
}

impl Drop for CloudServer {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

impl CloudServer {
    /// Starts Azurite, whose files are below `folder`. Also returns the environment variables for a
    /// client.
    ///
    /// # Panics
    ///
    /// Panics if Azurite is not installed, or does not start.
    pub fn azurite(folder: &Path) -> (CloudServer, Vec<(String, String)>) {
        let azurite = program("azurite-blob", "Azurite (npm install --global azurite)");
        let server = CloudServer::start(|port| {
            let mut command = Command::new(&azurite);
            command.args(["--blobPort", &port.to_string(), "--silent", "--disableTelemetry"]);
            command.args(["--disableProductStyleUrl", "--skipApiVersionCheck", "--location"]);
            command.arg(folder).env("AZURITE_ACCOUNTS", format!("{ACCOUNT}:{}", base64(KEY)));
            command
        });
        let (date, version) = ("Sat, 01 Jan 2022 00:00:00 GMT", "2021-12-02");
        let text = format!(
            "PUT\n\n\n\n\n\n\n\n\n\n\n\nx-ms-date:{date}\nx-ms-version:{version}\n\
             /{ACCOUNT}/{ACCOUNT}/{CONTAINER}\nrestype:container"
        );
        let signature = base64(&hmac(KEY, text.as_bytes()));
        let answer = server.request(&format!(
            "PUT /{ACCOUNT}/{CONTAINER}?restype=container HTTP/1.1\r\nHost: localhost\r\n\
             x-ms-date: {date}\r\nx-ms-version: {version}\r\n\
             Authorization: SharedKey {ACCOUNT}:{signature}\r\nContent-Length: 0\r\n\
             Connection: close\r\n\r\n"
        ));
        assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
        let variables = [
            ("AZURE_STORAGE_ACCOUNT", ACCOUNT.to_owned()),
            ("AZURE_STORAGE_KEY", base64(KEY)),
            ("AZURE_STORAGE_ENDPOINT", format!("http://127.0.0.1:{}/{ACCOUNT}", server.port)),
        ];
        (server, variables.map(|(name, value)| (name.to_owned(), value)).to_vec())
    }

    /// Starts fake-gcs-server, whose objects are in memory. Also returns the environment variables
    /// for a client.
    ///
    /// The server takes puts by Google's JSON interface only, and their condition with them. Clients
    /// put by the XML interface, so that a proxy translates these requests and their answers. It
    /// passes all others on.
    ///
    /// # Panics
    ///
    /// Panics if fake-gcs-server is not installed, or does not start.
    pub fn gcs() -> (CloudServer, Vec<(String, String)>) {
        let fake = "fake-gcs-server (go install github.com/fsouza/fake-gcs-server@latest)";
        let fake = program("fake-gcs-server", fake);
        let server = CloudServer::start(|port| {
            let mut command = Command::new(&fake);
            command.args(["-scheme", "http", "-host", "127.0.0.1", "-backend", "memory"]);
            command.args(["-log-level", "error", "-port", &port.to_string()]);
            command.args(["-public-host", &format!("127.0.0.1:{port}")]);
            command
        });
        let body = format!("{{\"name\":\"{CONTAINER}\"}}");
        let answer = server.request(&format!(
            "POST /storage/v1/b HTTP/1.1\r\nHost: 127.0.0.1:{}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            server.port,
            body.len()
        ));
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        let host = translate(server.port).expect("a free port");
        (server, vec![("STORAGE_EMULATOR_HOST".to_owned(), host)])
    }

    fn start(command: impl Fn(u16) -> Command) -> CloudServer {
        let started = (0..STARTS_MAX).find_map(|_| {
            let port = free_port();
            let mut command = command(port);
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            let mut server = CloudServer { child: command.spawn().expect("it runs"), port };
            // Node takes its time on a machine that is busy.
            for _ in 0..1200 {
                if server.child.try_wait().is_ok_and(|ended| ended.is_some()) {
                    return None;
                }
                if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                    return Some(server);
                }
                std::thread::sleep(Duration::from_millis(50));
            }
            None
        });
        started.expect("the server starts")
    }

    /// Makes a request, and returns the answer.
    fn request(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("it listens");
        stream.write_all(request.as_bytes()).expect("it takes the request");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("it answers");
        String::from_utf8_lossy(&answer).into_owned()
    }
}

/// Starts the proxy in front of fake-gcs-server at `port`. Returns its endpoint.
fn translate(port: u16) -> std::io::Result<String> {
    listen(move |mut client| {
        let host = format!("127.0.0.1:{port}");
        let mut reader = BufReader::new(client.try_clone()?);
        let mut upstream = Upstream::new(&host);
        while let Some(mut request) = Request::read(&mut reader, &mut client)? {
            let is_put = request.verb == "PUT";
            if is_put {
                let path = request.target.trim_start_matches('/');
                let (container, name) = path.split_once('/').unwrap_or_default();
                let condition = match request.has("x-goog-if-generation-match", "0") {
                    true => "&ifGenerationMatch=0",
                    false => "",
                };
                let target = format!(
                    "/upload/storage/v1/b/{container}/o?uploadType=media&name={}{condition}",
                    name.replace('/', "%2F")
                );
                request.redirect("POST", &target, &host);
            } else {
                let (verb, target) = (request.verb.clone(), request.target.clone());
                request.redirect(&verb, &target, &host);
            }
            let answer = upstream.exchange(&request, Connection::KeepAlive)?;
            let is_stored = is_put && answer.bytes.starts_with(b"HTTP/1.1 200");
            client.write_all(match is_stored {
                true => STORED,
                false => &answer.bytes,
            })?;
            if !is_stored && answer.connection == Connection::Close {
                return Ok(());
            }
        }
        Ok(())
    })
}

/// The answer of Google's XML interface to a put.
const STORED: &[u8] =
    b"HTTP/1.1 200 OK\r\nETag: \"1\"\r\nx-goog-generation: 1\r\nContent-Length: 0\r\n\r\n";
