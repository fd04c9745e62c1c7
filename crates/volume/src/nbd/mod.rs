//! A server of the network block device protocol (NBD), for the disks of a volume.
//!
//! The server speaks the fixed newstyle handshake with `NBD_OPT_GO`, structured replies and the
//! metadata context `base:allocation`. Each connection has a thread, which answers one request after
//! the other. A flush covers the writes of all connections, so that a client may use several.
//!
//! A peer may send anything: every length is checked before memory is reserved for it, and a
//! connection whose peer breaks the protocol ends.
//!
//! Source: the protocol's page, `doc/proto.md` of the NBD project.

mod exports;
mod handshake;
mod pipe;
mod server;
mod socket_path;
mod tls;
mod transmission;
mod wire;

pub use self::exports::{Exports, VolumeExports};
pub use self::server::{Address, ParseAddressError, Server};
pub use self::socket_path::SocketPath;
pub use self::tls::{Clients, Tls};

use std::io::{Read, Write};

use self::handshake::{Negotiated, Security};

/// Serves one connection until the peer ends it or breaks the protocol.
///
/// # Errors
///
/// Fails if the peer breaks the protocol, and if the connection cannot be read or written. The disk
/// is not affected.
pub fn serve_connection(
    stream: &mut (impl Read + Write),
    exports: &dyn Exports,
) -> std::io::Result<()> {
    match handshake::negotiate(stream, exports, Security::Clear)? {
        Negotiated::Begin(agreed, device) => transmission::serve(stream, &*device, agreed),
        Negotiated::StartTls(_) | Negotiated::End => Ok(()),
    }
}
