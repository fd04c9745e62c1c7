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

use crate::s3_signature::Signer;
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
    /// The name of the bucket that exists from the beginning.
    pub bucket: &'static str,
    /// The folder with the objects of the bucket, as files of their names.
    pub bucket_folder: PathBuf,
    program: PathBuf,
}

/// The abilities of a new bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bucket {
    /// Keeps no versions.
    Plain,
    /// Keeps deleted and replaced objects as older versions.
    Versioned,
    /// Keeps versions, and can lock objects.
    Locking,
}

const ACCESS_KEY: &str = "tester";
const SECRET_KEY: &str = "testersecret";
const BUCKET: &str = "bucket";
const REGION: &str = "us-east-1";

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
        self.variables_of(self.access_key, self.secret_key)
    }

    /// Returns the environment variables for a client with another access key.
    pub fn variables_of(&self, access_key: &str, secret: &str) -> [(&'static str, String); 4] {
        [
            ("AWS_ACCESS_KEY_ID", access_key.to_owned()),
            ("AWS_SECRET_ACCESS_KEY", secret.to_owned()),
            ("AWS_ENDPOINT_URL", self.endpoint.clone()),
            ("AWS_REGION", REGION.to_owned()),
        ]
    }

    /// Makes a request as the owner of all buckets. `path` begins with `/`, and needs no encoding.
    ///
    /// # Panics
    ///
    /// Panics if the server does not answer.
    pub fn request(
        &self,
        method: &str,
        path: &str,
        query: &[(&str, &str)],
        headers: &[(&str, &str)],
        body: &str,
    ) -> (u16, String) {
        let host = self.endpoint.trim_start_matches("http://");
        let signer =
            Signer { access_key: ACCESS_KEY, secret_key: SECRET_KEY, region: REGION, host };
        let request = signer.sign(method, path, query, headers, body);
        exchange(host, &request).unwrap_or_else(|error| panic!("{method} {path}: {error}"))
    }

    /// Makes a request as [`S3Server::request`] does.
    ///
    /// # Panics
    ///
    /// Panics if the server refuses the request.
    pub fn expect(
        &self,
        method: &str,
        path: &str,
        query: &[(&str, &str)],
        headers: &[(&str, &str)],
        body: &str,
    ) -> String {
        let (status, answer) = self.request(method, path, query, headers, body);
        assert!((200..300).contains(&status), "{method} {path} {query:?}: {status} {answer}");
        answer
    }

    /// Creates a bucket.
    ///
    /// # Panics
    ///
    /// Panics if the server refuses to.
    pub fn create_bucket(&self, name: &str, bucket: Bucket) {
        let path = format!("/{name}");
        let locking = [("x-amz-bucket-object-lock-enabled", "true")];
        let headers = if bucket == Bucket::Locking { &locking[..] } else { &[] };
        self.expect("PUT", &path, &[], headers, "");
        if bucket == Bucket::Versioned {
            let body =
                "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>";
            self.expect("PUT", &path, &[("versioning", "")], &[], body);
        }
    }

    /// Creates a user, whose access key is `name`, with these permissions for a bucket and for the
    /// objects in it. Returns the environment variables for this user.
    ///
    /// # Panics
    ///
    /// Panics if the server refuses to.
    pub fn create_user(
        &self,
        name: &str,
        bucket: &str,
        of_bucket: &[&str],
        of_objects: &[&str],
    ) -> [(&'static str, String); 4] {
        let secret = format!("{name}secret");
        let created = Command::new(&self.program)
            .args(["admin", "--endpoint-url", &self.endpoint, "--access", ACCESS_KEY])
            .args(["--secret", SECRET_KEY, "create-user", "--role", "user"])
            .args(["--access", name, "--secret", &secret])
            .stdin(Stdio::null())
            .output();
        let created = created.expect("the program of the server runs");
        assert!(created.status.success(), "{}", String::from_utf8_lossy(&created.stderr));
        self.permit(name, bucket, of_bucket, of_objects);
        self.variables_of(name, &secret)
    }

    /// Gives a user these permissions for a bucket and for the objects in it, and no others.
    ///
    /// # Panics
    ///
    /// Panics if the server refuses to.
    pub fn permit(&self, name: &str, bucket: &str, of_bucket: &[&str], of_objects: &[&str]) {
        let list = |actions: &[&str]| {
            actions.iter().map(|action| format!("\"s3:{action}\"")).collect::<Vec<_>>().join(",")
        };
        let statement = |actions: &[&str], resource: &str| {
            let actions = list(actions);
            format!(
                r#"{{"Effect":"Allow","Principal":{{"AWS":["{name}"]}},"Action":[{actions}],"Resource":"arn:aws:s3:::{resource}"}}"#
            )
        };
        let statements =
            [statement(of_bucket, bucket), statement(of_objects, &format!("{bucket}/*"))];
        let policy =
            format!(r#"{{"Version":"2012-10-17","Statement":[{}]}}"#, statements.join(","));
        self.expect("PUT", &format!("/{bucket}"), &[("policy", "")], &[], &policy);
    }
}

/// Sends a request, and returns the status and the body of the answer.
fn exchange(host: &str, request: &str) -> io::Result<(u16, String)> {
    let mut stream = TcpStream::connect(host)?;
    stream.set_read_timeout(Some(START_LIMIT))?;
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status = status.ok_or_else(|| io::Error::other(format!("no answer: {head}")))?;
    Ok((status, body.to_owned()))
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
    let make = || -> io::Result<()> {
        fs::create_dir_all(folder.join("data").join(BUCKET))?;
        fs::create_dir_all(folder.join("versions"))?;
        fs::create_dir_all(folder.join("users"))
    };
    make().map_err(|error| error.to_string())?;
    let mut failure = String::new();
    for _ in 0..STARTS {
        let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let address = port.map_err(|error| error.to_string())?.to_string();
        // The shell ends the server when this process, and with it the other end of the pipe, is
        // gone.
        let script = r#""$1" --quiet --port "$2" --iam-dir "$3/users" posix --versioning-dir "$3/versions" "$3/data" >/dev/null 2>&1 & read end; kill $!; wait; rm -rf "$3""#;
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
                    bucket_folder: folder.join("data").join(BUCKET),
                    program: program.to_owned(),
                });
            }
            Err(error) => failure = error,
        }
        make().map_err(|error| error.to_string())?;
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
