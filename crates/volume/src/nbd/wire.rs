//! Numbers and small messages of the protocol. All integers are big-endian.

use std::io::{self, Read};

use crate::error::{Error, Kind};

/// `NBDMAGIC`, the first bytes of a server.
pub(super) const MAGIC: u64 = 0x4e42_444d_4147_4943;
/// `IHAVEOPT`, before each option.
pub(super) const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
/// Before each reply to an option.
pub(super) const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// Before each request.
pub(super) const REQUEST_MAGIC: u32 = 0x2560_9513;
/// Before each simple reply.
pub(super) const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
/// Before each chunk of a structured reply.
pub(super) const CHUNK_MAGIC: u32 = 0x668e_33ef;

/// The only metadata context.
pub(super) const ALLOCATION: &str = "base:allocation";
/// The number of the metadata context.
pub(super) const ALLOCATION_ID: u32 = 1;

/// The maximum number of bytes of a read or a write. A client is told so.
pub(super) const REQUEST_SIZE_MAX: u32 = 32 * 1024 * 1024;

/// Options of the handshake.
pub(super) mod option {
    pub(in super::super) const EXPORT_NAME: u32 = 1;
    pub(in super::super) const ABORT: u32 = 2;
    pub(in super::super) const LIST: u32 = 3;
    pub(in super::super) const START_TLS: u32 = 5;
    pub(in super::super) const INFO: u32 = 6;
    pub(in super::super) const GO: u32 = 7;
    pub(in super::super) const STRUCTURED_REPLY: u32 = 8;
    pub(in super::super) const LIST_META_CONTEXT: u32 = 9;
    pub(in super::super) const SET_META_CONTEXT: u32 = 10;
}

/// Replies to options.
pub(super) mod reply {
    pub(in super::super) const ACK: u32 = 1;
    pub(in super::super) const SERVER: u32 = 2;
    pub(in super::super) const INFO: u32 = 3;
    pub(in super::super) const META_CONTEXT: u32 = 4;
    pub(in super::super) const ERR_UNSUPPORTED: u32 = 0x8000_0001;
    pub(in super::super) const ERR_INVALID: u32 = 0x8000_0003;
    pub(in super::super) const ERR_TLS_REQUIRED: u32 = 0x8000_0005;
    pub(in super::super) const ERR_UNKNOWN: u32 = 0x8000_0006;
}

/// Information about an export.
pub(super) mod info {
    pub(in super::super) const EXPORT: u16 = 0;
    pub(in super::super) const BLOCK_SIZE: u16 = 3;
}

/// Flags of an export: what a client may send.
pub(super) mod export {
    pub(in super::super) const HAS_FLAGS: u16 = 1;
    pub(in super::super) const READ_ONLY: u16 = 2;
    pub(in super::super) const FLUSH: u16 = 4;
    pub(in super::super) const FUA: u16 = 8;
    pub(in super::super) const TRIM: u16 = 32;
    pub(in super::super) const WRITE_ZEROES: u16 = 64;
    pub(in super::super) const DONT_FRAGMENT: u16 = 128;
    pub(in super::super) const MULTI_CONNECTION: u16 = 256;
}

/// Commands of requests.
pub(super) mod command {
    pub(in super::super) const READ: u16 = 0;
    pub(in super::super) const WRITE: u16 = 1;
    pub(in super::super) const DISCONNECT: u16 = 2;
    pub(in super::super) const FLUSH: u16 = 3;
    pub(in super::super) const TRIM: u16 = 4;
    pub(in super::super) const WRITE_ZEROES: u16 = 6;
    pub(in super::super) const BLOCK_STATUS: u16 = 7;
}

/// Flags of requests.
pub(super) mod flag {
    pub(in super::super) const FUA: u16 = 1;
    pub(in super::super) const NO_HOLE: u16 = 2;
    pub(in super::super) const DONT_FRAGMENT: u16 = 4;
    pub(in super::super) const ONE_EXTENT: u16 = 8;
}

/// Types of chunks of structured replies.
pub(super) mod chunk {
    pub(in super::super) const NONE: u16 = 0;
    pub(in super::super) const DATA: u16 = 1;
    pub(in super::super) const HOLE: u16 = 2;
    pub(in super::super) const BLOCK_STATUS: u16 = 5;
    pub(in super::super) const ERROR: u16 = 0x8001;
    /// The flag of the last chunk of a reply.
    pub(in super::super) const DONE: u16 = 1;
}

/// The flags of a block status: a hole that reads as zeros.
pub(super) const HOLE_AND_ZERO: u32 = 3;

/// An error as the protocol numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Errno {
    NotPermitted = 1,
    Io = 5,
    Invalid = 22,
    NoSpace = 28,
    Overflow = 75,
}

impl Errno {
    /// Returns the number for an error of the disk.
    pub(super) fn of(error: &Error) -> Errno {
        match error.kind() {
            Kind::Invalid => Errno::Invalid,
            Kind::Full => Errno::NoSpace,
            Kind::ReadOnly => Errno::NotPermitted,
            _ => Errno::Io,
        }
    }
}

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) flags: u16,
    pub(super) command: u16,
    /// A number of the client's, which the reply repeats.
    pub(super) cookie: u64,
    pub(super) offset: u64,
    pub(super) len: u32,
}

impl Request {
    /// The length of a request in bytes.
    pub(super) const SIZE: usize = 28;

    /// Decodes a request, or returns `None` if there is none.
    pub(super) fn decode(bytes: &[u8; Request::SIZE]) -> Option<Request> {
        let mut rest = Fields(bytes);
        (rest.u32()? == REQUEST_MAGIC).then_some(())?;
        Some(Request {
            flags: rest.u16()?,
            command: rest.u16()?,
            cookie: rest.u64()?,
            offset: rest.u64()?,
            len: rest.u32()?,
        })
    }
}

/// The rest of a message. Every read returns `None` at its end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fields<'a>(pub(super) &'a [u8]);

impl<'a> Fields<'a> {
    pub(super) fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const LEN: usize>(&mut self) -> Option<[u8; LEN]> {
        self.take(LEN)?.try_into().ok()
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    /// Returns a text behind its length.
    pub(super) fn text(&mut self) -> Option<&'a [u8]> {
        let len = usize::try_from(self.u32()?).ok()?;
        self.take(len)
    }
}

/// Reads `len` bytes. Memory grows with what has arrived, and not with what was announced.
pub(super) fn read_bytes(stream: &mut impl Read, len: u32) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = stream.by_ref().take(len.into()).read_to_end(&mut bytes)?;
    if read as u64 == u64::from(len) { Ok(bytes) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

/// Reads an array.
pub(super) fn read_array<const LEN: usize>(stream: &mut impl Read) -> io::Result<[u8; LEN]> {
    let mut bytes = [0; LEN];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// Returns the error of a peer that breaks the protocol.
pub(super) fn broken(problem: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, problem)
}
