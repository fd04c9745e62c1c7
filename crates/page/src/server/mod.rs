//! A page for the browser of this machine, served over HTTP.
//!
//! [`Page`] answers from a reader of the repository; nothing is written, except that
//! [`PageOptions::may_restore`] lets the page restore files to this machine. The server has a thread of
//! its own ([`Page::start`]); requests that read the repository run in threads beside it.
//!
//! # Files
//!
//! - `access.rs`: tokens, cookies, and names of hosts. `headers.rs`: the headers of every answer.
//! - `routes.rs`: which request is answered by which file, after `access.rs` allows it.
//! - `shared.rs`: the reader, the newest view, folders that were listed (`listing.rs`), and what runs in
//!   the background (`measurement.rs`, `restore_run.rs`). `query.rs`: parameters. `text.rs`: names.
//!   `failure.rs`: refusals.
//! - `snapshots.rs`, `folder.rs`, `file.rs`, `download.rs`, `archive.rs`, `search.rs`, `versions.rs`,
//!   `difference.rs`, `space_views.rs`, `restore.rs`: the questions of the page. `dav.rs`: WebDAV.
//! - `assets.rs`: the page itself, its script and its style.

mod access;
mod archive;
mod assets;
mod dav;
mod difference;
mod download;
mod failure;
mod file;
mod folder;
mod headers;
mod listing;
mod measurement;
mod query;
mod restore;
mod restore_run;
mod routes;
mod search;
mod shared;
mod snapshots;
mod space_views;
mod text;
mod versions;

use std::io;
use std::net::TcpListener;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use cutpoint_repository::Reader;
use tokio::sync::oneshot;

use self::access::Access;
use self::shared::Shared;
pub use self::shared::{PageOptions, ViewSource};

/// A page that is not served yet.
pub struct Page(Arc<Shared>);

impl std::fmt::Debug for Page {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Page").finish_non_exhaustive()
    }
}

impl Page {
    /// Creates a page that reads by `reader`, and lists snapshots by `source`.
    ///
    /// # Errors
    ///
    /// Fails if the system has no randomness for its secrets.
    pub fn new(
        reader: Arc<Reader>,
        source: Box<dyn ViewSource>,
        options: PageOptions,
    ) -> io::Result<Page> {
        let access = Access::new(options.has_dav).map_err(io::Error::other)?;
        Ok(Page(Arc::new(Shared::new(reader, source, access, options))))
    }

    /// Serves the page to clients of `listener`, in threads of its own.
    ///
    /// # Errors
    ///
    /// Fails if `listener` is not bound to the loopback interface, or if no thread can be started.
    pub fn start(self, listener: TcpListener) -> io::Result<ServedPage> {
        let address = listener.local_addr()?;
        if !address.ip().is_loopback() {
            return Err(io::Error::other(format!("{address} is no address of this machine alone")));
        }
        listener.set_nonblocking(true)?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("page")
            .enable_io()
            .enable_time()
            .build()?;
        let (stop, stopped) = oneshot::channel::<()>();
        let router = routes::router(Arc::clone(&self.0));
        let thread = std::thread::Builder::new().name("page".into()).spawn(move || {
            let served = runtime.block_on(async {
                let listener = tokio::net::TcpListener::from_std(listener)?;
                tokio::select! {
                    served = axum::serve(listener, router) => served,
                    _ = stopped => Ok(()),
                }
            });
            // Transfers that still run are cut off: their clients see that they are not complete.
            runtime.shutdown_background();
            served
        })?;
        Ok(ServedPage { shared: self.0, address, stop, thread })
    }
}

/// A page that is served until it is stopped.
pub struct ServedPage {
    shared: Arc<Shared>,
    address: std::net::SocketAddr,
    stop: oneshot::Sender<()>,
    thread: JoinHandle<io::Result<()>>,
}

impl std::fmt::Debug for ServedPage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServedPage").field("address", &self.address).finish_non_exhaustive()
    }
}

impl ServedPage {
    /// Returns the address that opens the page once, with its token.
    pub fn url(&self) -> String {
        let token = self.shared.access.token().unwrap_or_default();
        format!("http://{}/?token={token}", self.address)
    }

    /// Returns the address for WebDAV clients, their user name and their password, if there may be any.
    pub fn dav(&self) -> Option<(String, &'static str, String)> {
        let password = self.shared.access.dav_password()?;
        Some((format!("http://{}/dav/", self.address), access::DAV_USER, password.to_owned()))
    }

    /// Returns `true` if the server has ended by itself, because of an error.
    pub fn has_ended(&self) -> bool {
        self.thread.is_finished()
    }

    /// Stops the server.
    ///
    /// # Errors
    ///
    /// Returns the error that has ended the server.
    pub fn stop(self) -> io::Result<()> {
        self.shared.restores.cancel();
        self.shared.space.cancel();
        // Without a receiver, the server has ended.
        self.stop.send(()).ok();
        self.thread.join().unwrap_or_else(|_| Err(io::Error::other("the server has panicked")))
    }
}

/// Locks a value that no panic leaves in a state that must not be used.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
