//! An S3 server for tests: versitygw, built by `go install` into the target directory and run over
//! a folder there.
//!
//! If the server is not available (no Go, no network), tests that need it are skipped. They report
//! that at standard error, past the test harness, and in the file that `CUTPOINT_SKIPPED` names.
//! With `CUTPOINT_REQUIRE_S3=1` a missing server is a failure instead. `CUTPOINT_GO` names another
//! Go.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use crate::skipped;

/// The Go module of the server.
const MODULE: &str = "github.com/versity/versitygw/cmd/versitygw@v1.8.0";
/// The name of the folder for the build, which differs for each version.
const FOLDER: &str = "versitygw-v1.8.0";
/// The maximum duration of a build.
const BUILD_LIMIT: Duration = Duration::from_secs(20 * 60);
/// The maximum time until a started server answers.
const START_LIMIT: Duration = Duration::from_secs(30);
/// The maximum number of attempts to start the server, because another test may take the port
/// first.
const STARTS: usize = 5;

/// A running server. The server ends and its folder is removed with the process that started it,
/// however that process ends.
#[derive(Debug)]
pub struct S3Server {
    /// The address of the server, `http://127.0.0.1:PORT`.
    pub endpoint: String,
    /// The id of the access key.
    pub access_key: &'static str,
    /// The secret of the access key.
    pub secret_key: &'static str,
    /// The name of the only bucket.
    pub bucket: &'static str,
    /// The folder with the objects of the bucket, as files of their names.
    pub bucket_folder: PathBuf,
}

const ACCESS_KEY: &str = "tester";
const SECRET_KEY: &str = "testersecret";
const BUCKET: &str = "bucket";

impl S3Server {
    /// Returns the server of this process. The first call starts the server, and builds it below
    /// `target` if it is not built yet. `target` is a folder that outlives the process. Returns
    /// `None` if the server is not available, which the first call reports.
    ///
    /// # Panics
    ///
    /// Panics if `CUTPOINT_REQUIRE_S3=1` and the server is not available.
    pub fn shared(target: &Path) -> Option<&'static S3Server> {
        static SERVER: OnceLock<Option<S3Server>> = OnceLock::new();
        let start = || {
            let started = build(target).and_then(|program| start(&program, target));
            started.map_err(|why| skipped(&format!("the tests over S3 did not run: {why}"))).ok()
        };
        let server = SERVER.get_or_init(start).as_ref();
        let is_required = std::env::var("CUTPOINT_REQUIRE_S3").is_ok_and(|value| value == "1");
        assert!(
            server.is_some() || !is_required,
            "CUTPOINT_REQUIRE_S3=1, and there is no S3 server"
        );
        server
    }

    /// Returns the environment variables for a client.
    pub fn variables(&self) -> [(&'static str, String); 4] {
        [
            ("AWS_ACCESS_KEY_ID", self.access_key.to_owned()),
            ("AWS_SECRET_ACCESS_KEY", self.secret_key.to_owned()),
            ("AWS_ENDPOINT_URL", self.endpoint.clone()),
            ("AWS_REGION", "us-east-1".to_owned()),
        ]
    }
}

/// Builds the program, unless it exists, and returns its path.
fn build(target: &Path) -> Result<PathBuf, String> {
    let folder = target.join(FOLDER);
    let program = folder.join("bin").join("versitygw");
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    // One process builds, and the others wait for it.
    let lock = fs::File::create(folder.join("lock")).map_err(|error| error.to_string())?;
    lock.lock().map_err(|error| error.to_string())?;
    if program.exists() {
        return Ok(program);
    }
    let go = go().ok_or("Go is not installed")?;
    writeln!(io::stderr(), "building {MODULE} for the tests over S3: this takes some minutes").ok();
    let mut command = Command::new(&go);
    command
        .args(["install", MODULE])
        .env("GOBIN", folder.join("new"))
        .env("GOTOOLCHAIN", "local")
        .env("GOPROXY", proxies(&go))
        .stdin(Stdio::null());
    let result = within(&mut command, BUILD_LIMIT);
    result.map_err(|error| format!("`go install {MODULE}`: {error}"))?;
    // The folder is moved when it is complete.
    fs::rename(folder.join("new"), folder.join("bin")).map_err(|error| error.to_string())?;
    Ok(program)
}

/// Returns the Go that `CUTPOINT_GO` names, or the first of the one in the path and the one at the
/// default location of the installer.
fn go() -> Option<PathBuf> {
    let places = match std::env::var_os("CUTPOINT_GO") {
        Some(go) => vec![PathBuf::from(go)],
        None => vec![PathBuf::from("go"), PathBuf::from("/usr/local/go/bin/go")],
    };
    places.into_iter().find(|go| {
        let version = Command::new(go).arg("version").stdout(Stdio::null()).status();
        version.is_ok_and(|status| status.success())
    })
}

/// Returns the module proxies that Go is set to use, without direct access to repositories of
/// source code.
fn proxies(go: &Path) -> String {
    let set = Command::new(go).args(["env", "GOPROXY"]).output();
    let set = set.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    let set = set.unwrap_or_default();
    let proxies: Vec<&str> = set.split([',', '|']).filter(|each| *each != "direct").collect();
    if proxies.is_empty() { "off".to_owned() } else { proxies.join(",") }
}

/// Runs a command to its end. The error is the last line at its standard error.
fn within(command: &mut Command, limit: Duration) -> Result<(), String> {
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
    let mut child = child.map_err(|error| error.to_string())?;
    let mut words = child.stderr.take().ok_or("no pipe")?;
    let reader = std::thread::spawn(move || {
        let mut text = Vec::new();
        words.read_to_end(&mut text).ok();
        String::from_utf8_lossy(&text).into_owned()
    });
    let began = Instant::now();
    let status = loop {
        match child.try_wait().map_err(|error| error.to_string())? {
            Some(status) => break status,
            None if began.elapsed() > limit => {
                child.kill().ok();
                child.wait().ok();
                return Err(format!("not done within {} s", limit.as_secs()));
            }
            None => std::thread::sleep(Duration::from_millis(50)),
        }
    };
    let text = reader.join().unwrap_or_default();
    let last = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("no reason");
    if status.success() { Ok(()) } else { Err(format!("{status}: {last}")) }
}

/// Starts the server over a new folder below `target`.
fn start(program: &Path, target: &Path) -> Result<S3Server, String> {
    let folder = target.join(format!("s3-{}", std::process::id()));
    // An earlier process with the same id may have been killed together with its shell.
    fs::remove_dir_all(&folder).ok();
    fs::create_dir_all(folder.join(BUCKET)).map_err(|error| error.to_string())?;
    let mut failure = String::new();
    for _ in 0..STARTS {
        let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let address = port.map_err(|error| error.to_string())?.to_string();
        // The shell ends the server when this process, and with it the other end of the pipe, is
        // gone.
        let script = r#""$1" --quiet --port "$2" posix "$3" >/dev/null 2>&1 & read end; kill $!; wait; rm -rf "$3""#;
        let shell = Command::new("sh")
            .args(["-c", script, "sh"])
            .arg(program)
            .arg(&address)
            .arg(&folder)
            .env("ROOT_ACCESS_KEY", ACCESS_KEY)
            .env("ROOT_SECRET_KEY", SECRET_KEY)
            .stdin(Stdio::piped())
            .spawn();
        let shell = shell.map_err(|error| error.to_string())?;
        match answers(&address) {
            Ok(()) => {
                // The pipe stays open as long as the process lives.
                std::mem::forget(shell);
                return Ok(S3Server {
                    endpoint: format!("http://{address}"),
                    access_key: ACCESS_KEY,
                    secret_key: SECRET_KEY,
                    bucket: BUCKET,
                    bucket_folder: folder.join(BUCKET),
                });
            }
            Err(error) => failure = error,
        }
        fs::create_dir_all(folder.join(BUCKET)).map_err(|error| error.to_string())?;
    }
    Err(format!("the server does not start: {failure}"))
}

/// Waits until the server answers a request, even if it refuses the request.
fn answers(address: &str) -> Result<(), String> {
    let began = Instant::now();
    let ask = || -> io::Result<String> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        Ok(text)
    };
    loop {
        match ask() {
            Ok(text) if text.contains("VERSITYGW") => return Ok(()),
            Ok(_) => return Err(format!("another program answers at {address}")),
            Err(error) if began.elapsed() > START_LIMIT => return Err(error.to_string()),
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}
