//! Listeners, and a thread for each connection.

use std::collections::HashMap;
use std::fmt;
use std::fs;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::Mode;
use rustix::process::umask;
use rustls::{ServerConnection, StreamOwned};

use super::exports::Exports;
use super::handshake::{Negotiated, Security, negotiate, options};
use super::socket_path::SocketPath;
use super::tls::Tls;
use super::transmission;

/// The maximum number of connections at a time. Another one is closed at once.
const CONNECTIONS_MAX: usize = 64;
/// The maximum time of a handshake, between two messages.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(30);
/// The maximum time until a request to stop is noticed.
const LOOK_EVERY: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// The maximum time for the last replies when the server stops.
const END_TIMEOUT: Duration = Duration::from_secs(5);
/// The interval at which the end of the last connections is looked for.
const END_LOOK_EVERY: Duration = Duration::from_millis(5);

/// An address at which a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A socket in the file system, which only its owner can use.
    Unix(PathBuf),
    /// A port of an interface. Without TLS it must be one of the loopback interface, to which every user
    /// of the machine can connect.
    Tcp(SocketAddr),
}

/// An error of parsing an [`Address`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseAddressError(String);

impl fmt::Display for ParseAddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ParseAddressError {}

impl FromStr for Address {
    type Err = ParseAddressError;

    /// Parses `unix:PATH`, `tcp:PORT`, a port of the loopback interface, or `tcp:ADDRESS:PORT` with the
    /// IP address of an interface.
    ///
    /// # Errors
    ///
    /// Fails if the text is none of them, or the port is no number up to 65,535.
    fn from_str(text: &str) -> Result<Address, ParseAddressError> {
        if let Some(path) = text.strip_prefix("unix:").filter(|path| !path.is_empty()) {
            return Ok(Address::Unix(path.into()));
        }
        let tcp = text.strip_prefix("tcp:").unwrap_or_default();
        let loopback = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
        let address = tcp.parse().map(loopback).ok().or_else(|| tcp.parse().ok());
        let expected = "must be unix:PATH, tcp:PORT or tcp:ADDRESS:PORT";
        address.map(Address::Tcp).ok_or_else(|| ParseAddressError(format!("{text}: {expected}")))
    }
}

impl fmt::Display for Address {
    /// Writes the address as a URI of NBD clients.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Unix(path) => write!(f, "nbd+unix:///?socket={}", path.display()),
            Address::Tcp(address) => write!(f, "nbd://{address}"),
        }
    }
}

/// A server that listens, and accepts connections once it runs.
#[derive(Debug)]
pub struct Server {
    listener: Listener,
    tls: Option<Tls>,
    connections: Arc<Mutex<Connections>>,
}

#[derive(Debug, Default)]
struct Connections {
    next_number: u64,
    /// The connections, to be closed when the server stops.
    open: HashMap<u64, Connection>,
}

impl Server {
    /// Begins to listen at an address. With `tls`, clients must begin TLS.
    ///
    /// # Errors
    ///
    /// Fails with `AddrInUse` if another process listens there, with `PermissionDenied` if other
    /// machines could connect without TLS, and if the address cannot be used.
    pub fn listen(address: &Address, tls: Option<Tls>) -> io::Result<Server> {
        if let Address::Tcp(address) = address
            && !address.ip().is_loopback()
            && tls.is_none()
        {
            let problem = "other machines may connect by TLS only";
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, problem));
        }
        let listener = match address {
            Address::Tcp(address) => Listener::Tcp(TcpListener::bind(address)?),
            Address::Unix(path) => {
                let listener = bind_unix(path)?;
                Listener::Unix(SocketPath::of(path), listener)
            }
        };
        match &listener {
            Listener::Tcp(listener) => listener.set_nonblocking(true)?,
            Listener::Unix(_, listener) => listener.set_nonblocking(true)?,
        }
        Ok(Server { listener, tls, connections: Arc::default() })
    }

    /// Returns the address, with the port that the system has chosen if port 0 was asked for.
    ///
    /// # Errors
    ///
    /// Fails if the system does not tell the port.
    pub fn address(&self) -> io::Result<Address> {
        Ok(match &self.listener {
            Listener::Tcp(listener) => Address::Tcp(listener.local_addr()?),
            Listener::Unix(path, _) => Address::Unix(path.path().to_owned()),
        })
    }

    /// Serves disks until `is_asked_to_stop` returns `true`, which is asked at least every 100 ms.
    /// Requests that have arrived by then are answered.
    ///
    /// # Errors
    ///
    /// Fails if connections can no longer be accepted.
    pub fn run(
        &self,
        exports: &dyn Exports,
        is_asked_to_stop: &dyn Fn() -> bool,
    ) -> io::Result<()> {
        std::thread::scope(|scope| {
            let accepted = self.accept(is_asked_to_stop, &|connection| {
                let Some(number) = self.enter(&connection) else { return };
                let run = move || {
                    // Only the peer is told, by the end of the connection.
                    self.serve(connection, exports).ok();
                    self.connections().open.remove(&number);
                };
                let spawned = std::thread::Builder::new().name("nbd".to_owned());
                if spawned.spawn_scoped(scope, run).is_err() {
                    self.connections().open.remove(&number);
                }
            });
            self.end_connections();
            accepted
        })
    }

    /// Passes connections on until the server is asked to stop.
    fn accept(
        &self,
        is_asked_to_stop: &dyn Fn() -> bool,
        serve: &dyn Fn(Connection),
    ) -> io::Result<()> {
        while !is_asked_to_stop() {
            let mut waiting = [match &self.listener {
                Listener::Tcp(listener) => {
                    PollFd::from_borrowed_fd(listener.as_fd(), PollFlags::IN)
                }
                Listener::Unix(_, listener) => {
                    PollFd::from_borrowed_fd(listener.as_fd(), PollFlags::IN)
                }
            }];
            match poll(&mut waiting, Some(&LOOK_EVERY)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            let accepted = match &self.listener {
                Listener::Tcp(listener) => listener.accept().map(|it| Connection::Tcp(it.0)),
                Listener::Unix(_, listener) => listener.accept().map(|it| Connection::Unix(it.0)),
            };
            // An error is no connection, one that has ended, or too many files: the next look tells.
            if let Ok(connection) = accepted {
                serve(connection);
            }
        }
        Ok(())
    }

    /// Lists a connection, and returns its number, unless there are too many.
    fn enter(&self, connection: &Connection) -> Option<u64> {
        let clone = connection.prepare().ok()?;
        let mut connections = self.connections();
        if connections.open.len() >= CONNECTIONS_MAX {
            return None;
        }
        let number = connections.next_number;
        connections.next_number += 1;
        connections.open.insert(number, clone);
        Some(number)
    }

    fn serve(&self, mut connection: Connection, exports: &dyn Exports) -> io::Result<()> {
        connection.set_timeout(Some(HANDSHAKE_TIMEOUT))?;
        let Some(tls) = &self.tls else {
            return match negotiate(&mut connection, exports, Security::Clear)? {
                Negotiated::Begin(agreed, device) => {
                    connection.set_timeout(None)?;
                    transmission::serve(&mut connection, &*device, agreed)
                }
                Negotiated::StartTls(_) | Negotiated::End => Ok(()),
            };
        };
        let negotiated = negotiate(&mut connection, exports, Security::NeedsTls)?;
        let Negotiated::StartTls(greeted) = negotiated else { return Ok(()) };
        let session = ServerConnection::new(Arc::clone(&tls.0)).map_err(io::Error::other)?;
        let mut stream = StreamOwned::new(session, connection);
        match options(&mut stream, exports, Security::Tls, greeted)? {
            Negotiated::Begin(agreed, device) => {
                stream.sock.set_timeout(None)?;
                transmission::serve(&mut stream, &*device, agreed)
            }
            Negotiated::StartTls(_) | Negotiated::End => Ok(()),
        }
    }

    /// Lets each connection answer what has arrived. A peer that does not take its replies is not
    /// waited for.
    fn end_connections(&self) {
        self.connections().open.values().for_each(|connection| connection.end(Shutdown::Read));
        let asked = Instant::now();
        while !self.connections().open.is_empty() && asked.elapsed() < END_TIMEOUT {
            std::thread::sleep(END_LOOK_EVERY);
        }
        self.connections().open.values().for_each(|connection| connection.end(Shutdown::Both));
    }

    fn connections(&self) -> MutexGuard<'_, Connections> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug)]
enum Listener {
    Tcp(TcpListener),
    Unix(SocketPath, UnixListener),
}

/// Binds a socket that only its owner can use. Replaces one that no process listens at.
fn bind_unix(path: &Path) -> io::Result<UnixListener> {
    let is_socket = fs::symlink_metadata(path).is_ok_and(|it| it.file_type().is_socket());
    if is_socket {
        match UnixStream::connect(path) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                fs::remove_file(path)?
            }
            _ => return Err(io::ErrorKind::AddrInUse.into()),
        }
    }
    let before = umask(Mode::RWXG | Mode::RWXO);
    let bound = UnixListener::bind(path);
    umask(before);
    bound
}

/// A connection.
#[derive(Debug)]
enum Connection {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Connection {
    /// Sets the options of a new connection, and returns a second handle, to close it.
    fn prepare(&self) -> io::Result<Connection> {
        match self {
            Connection::Tcp(stream) => {
                stream.set_nonblocking(false)?;
                stream.set_nodelay(true)?;
                Ok(Connection::Tcp(stream.try_clone()?))
            }
            Connection::Unix(stream) => {
                stream.set_nonblocking(false)?;
                Ok(Connection::Unix(stream.try_clone()?))
            }
        }
    }

    /// Ends one or both directions of the connection.
    fn end(&self, direction: Shutdown) {
        // A connection that has ended already is as good.
        match self {
            Connection::Tcp(stream) => stream.shutdown(direction).ok(),
            Connection::Unix(stream) => stream.shutdown(direction).ok(),
        };
    }

    /// Limits the time of a read; `None` is no limit.
    fn set_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        match self {
            Connection::Tcp(stream) => stream.set_read_timeout(timeout),
            Connection::Unix(stream) => stream.set_read_timeout(timeout),
        }
    }
}

impl Read for Connection {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Connection::Tcp(stream) => stream.read(buffer),
            Connection::Unix(stream) => stream.read(buffer),
        }
    }
}

impl Write for Connection {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Connection::Tcp(stream) => stream.write(bytes),
            Connection::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
