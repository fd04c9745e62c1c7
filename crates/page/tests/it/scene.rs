//! A repository in memory, and its page.

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use cutpoint_backup::{BackupOptions, Source, WalkOptions, backup};
use cutpoint_page::server::{Page, PageOptions, ServedPage, ViewSource};
use cutpoint_repository::{CipherSuite, InitOptions, Reader, Repository, TicketId, Unlock, View};
use cutpoint_storage::{Environment, Memory, Process, Result, System};

use crate::client::{Answer, ask};

/// The clock of this machine, moved by some days.
#[derive(Debug, Default)]
struct MovedClock(AtomicI64);

impl Environment for MovedClock {
    fn now_ns(&self) -> i64 {
        System.now_ns() + self.0.load(Ordering::SeqCst) * 86_400_000_000_000
    }

    fn elapsed_ns(&self) -> u64 {
        System.elapsed_ns()
    }

    fn random(&self, bytes: &mut [u8]) -> Result<()> {
        System.random(bytes)
    }

    fn process(&self) -> Process {
        System.process()
    }

    fn machine_id(&self) -> Option<[u8; 16]> {
        System.machine_id()
    }

    fn may_be_alive(&self, process: &Process) -> bool {
        System.may_be_alive(process)
    }
}

/// A repository in memory, and a folder to save.
pub(crate) struct Scene {
    pub(crate) scratch: tempfile::TempDir,
    pub(crate) repository: Arc<Repository>,
    clock: Arc<MovedClock>,
}

/// The views of a repository.
struct Views(Arc<Reader>);

impl ViewSource for Views {
    fn view(&self) -> std::result::Result<View, String> {
        self.0.refresh().map_err(|error| error.to_string())
    }
}

/// The page of a scene, and a client that it knows.
pub(crate) struct Served {
    pub(crate) page: ServedPage,
    pub(crate) address: SocketAddr,
    pub(crate) host: String,
    pub(crate) cookie: String,
}

impl Scene {
    pub(crate) fn new() -> Scene {
        let settings = InitOptions {
            suite: CipherSuite::None,
            cut: "fastcdc:level=1,min=2048,normal=8192,max=65536,seed=0".to_owned(),
            region_size: 256 * 1024,
            container_size: 4 * 1024 * 1024,
            ..InitOptions::default()
        };
        let clock = Arc::new(MovedClock::default());
        let environment: Arc<dyn Environment> = clock.clone();
        let repository =
            Repository::init(Arc::new(Memory::new()), environment, &Unlock::Nothing, &settings);
        let scratch = tempfile::tempdir().unwrap();
        Scene { scratch, repository: Arc::new(repository.unwrap()), clock }
    }

    /// Returns the folder to save.
    pub(crate) fn folder(&self) -> PathBuf {
        let folder = self.scratch.path().canonicalize().unwrap().join("data");
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    /// Writes a file into the folder to save.
    pub(crate) fn write(&self, path: &str, bytes: impl AsRef<[u8]>) {
        let path = self.folder().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    /// Saves the folder as the host `host`, some days from now.
    pub(crate) fn back_up(&self, host: &str, days: i64) -> TicketId {
        self.clock.0.store(days, Ordering::SeqCst);
        let source = Source::Files { paths: vec![self.folder()], options: WalkOptions::default() };
        let options = BackupOptions { host: host.to_owned(), ..BackupOptions::default() };
        let report = backup(&self.repository, source, &options, &()).unwrap();
        self.clock.0.store(0, Ordering::SeqCst);
        report.snapshot.unwrap()
    }

    pub(crate) fn reader(&self) -> Arc<Reader> {
        let view = View::list(&self.repository).unwrap();
        Arc::new(Reader::open(Arc::clone(&self.repository), view).unwrap())
    }

    /// Serves the page, without a cookie.
    pub(crate) fn start(&self, options: PageOptions) -> (ServedPage, SocketAddr) {
        let reader = self.reader();
        let page = Page::new(Arc::clone(&reader), Box::new(Views(reader)), options).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        (page.start(listener).unwrap(), address)
    }

    /// Serves the page, and exchanges its token.
    pub(crate) fn serve(&self, options: PageOptions) -> Served {
        let (page, address) = self.start(options);
        let url = page.url();
        let path = url.strip_prefix(&format!("http://{address}")).unwrap();
        let host = format!("Host: {address}");
        let answer = ask(address, &format!("GET {path}"), &[&host], "");
        assert_eq!(answer.status, 200, "{}", answer.text());
        let cookie = answer.header("set-cookie").split(';').next().unwrap();
        let cookie = format!("Cookie: {cookie}");
        Served { page, address, host, cookie }
    }
}

impl Served {
    /// Asks for something with the cookie.
    pub(crate) fn get(&self, path: &str) -> Answer {
        self.get_with(path, &[])
    }

    /// Asks for something with the cookie and further headers.
    pub(crate) fn get_with(&self, path: &str, headers: &[&str]) -> Answer {
        let headers = [&[self.host.as_str(), self.cookie.as_str()], headers].concat();
        ask(self.address, &format!("GET {path}"), &headers, "")
    }

    /// Sends a change with everything that the page sends.
    pub(crate) fn post(&self, path: &str, body: &str) -> Answer {
        let proof = self.get("/api/session").json()["proof"].as_str().unwrap().to_owned();
        let origin = format!("Origin: http://{}", self.address);
        let proof = format!("X-Cutpoint-Proof: {proof}");
        let headers = [&self.host, &self.cookie, &origin, &proof].map(String::as_str);
        ask(self.address, &format!("POST {path}"), &headers, body)
    }
}

/// Returns a path as the page escapes it.
pub(crate) fn link(path: &Path) -> String {
    use std::os::unix::ffi::OsStrExt as _;
    let escaped = |byte: &u8| match byte {
        b'/' | b'-' | b'.' | b'_' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => {
            char::from(*byte).to_string()
        }
        byte => format!("%{byte:02X}"),
    };
    path.as_os_str().as_bytes().iter().map(escaped).collect()
}
