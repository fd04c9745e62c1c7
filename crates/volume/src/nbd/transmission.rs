//! Requests and replies, after the handshake.

use std::io::{self, Read, Write};

use super::handshake::Agreed;
use super::wire::{
    ALLOCATION_ID, CHUNK_MAGIC, Errno, HOLE_AND_ZERO, REQUEST_SIZE_MAX, Request,
    SIMPLE_REPLY_MAGIC, broken, chunk, command, flag, read_bytes,
};
use crate::device::Device;
use crate::volume::Extent;

/// The maximum number of extents in a reply.
const EXTENTS_MAX: usize = 4096;

/// Answers requests until the client disconnects.
pub(super) fn serve(
    stream: &mut (impl Read + Write),
    device: &dyn Device,
    agreed: Agreed,
) -> io::Result<()> {
    let mut session = Session { stream, device, agreed, buffer: Vec::new() };
    while let Some(request) = session.request()? {
        if request.command == command::DISCONNECT {
            return Ok(());
        }
        session.answer(&request)?;
    }
    Ok(())
}

struct Session<'a, S> {
    stream: &'a mut S,
    device: &'a dyn Device,
    agreed: Agreed,
    /// The bytes of the last read.
    buffer: Vec<u8>,
}

impl<S: Read + Write> Session<'_, S> {
    /// Reads the next request. Returns `None` if the client has closed the connection.
    fn request(&mut self) -> io::Result<Option<Request>> {
        let mut bytes = [0; Request::SIZE];
        let mut len = 0;
        while len < bytes.len() {
            match self.stream.read(&mut bytes[len..]) {
                Ok(0) if len == 0 => return Ok(None),
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(read) => len += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Request::decode(&bytes).map(Some).ok_or_else(|| broken("magic of a request"))
    }

    fn answer(&mut self, request: &Request) -> io::Result<()> {
        match request.command {
            command::READ => self.read(request),
            command::WRITE => self.write(request),
            command::BLOCK_STATUS => self.block_status(request),
            _ => {
                let done = self.change(request);
                self.reply(request, done)
            }
        }
    }

    fn read(&mut self, request: &Request) -> io::Result<()> {
        let len = request.len as usize;
        let is_short = request.len <= REQUEST_SIZE_MAX;
        let checked = self.check(request, flag::DONT_FRAGMENT);
        let checked = checked.and(is_short.then_some(()).ok_or(Errno::Overflow));
        if let Err(error) = checked {
            return self.reply(request, Err(error));
        }
        if self.agreed.has_structured_replies && len > 0 && self.is_zero(request) {
            let mut payload = request.offset.to_be_bytes().to_vec();
            payload.extend_from_slice(&request.len.to_be_bytes());
            return self.chunk(request, chunk::HOLE, &[&payload]);
        }
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.resize(len, 0);
        let replied = match self.device.read(request.offset, &mut buffer) {
            Err(error) => self.reply(request, Err(Errno::of(&error))),
            Ok(()) if self.agreed.has_structured_replies && len > 0 => {
                let offset = request.offset.to_be_bytes();
                self.chunk(request, chunk::DATA, &[&offset, &buffer])
            }
            Ok(()) if self.agreed.has_structured_replies => self.reply(request, Ok(())),
            Ok(()) => {
                let header = simple_reply(request, 0);
                self.stream.write_all(&header).and_then(|()| self.stream.write_all(&buffer))
            }
        };
        self.buffer = buffer;
        replied
    }

    /// Returns `true` if nothing is stored for the range of a read.
    fn is_zero(&self, request: &Request) -> bool {
        let extents = self.device.extents(request.offset, request.len.into(), 1);
        let whole = Extent { len: request.len.into(), is_zero: true };
        extents.is_ok_and(|extents| extents == [whole])
    }

    fn write(&mut self, request: &Request) -> io::Result<()> {
        if request.len > REQUEST_SIZE_MAX {
            // The payload is skipped, so that the next request is found.
            let skipped =
                io::copy(&mut Read::by_ref(self.stream).take(request.len.into()), &mut io::sink())?;
            if skipped < request.len.into() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            return self.reply(request, Err(Errno::Invalid));
        }
        let payload = read_bytes(self.stream, request.len)?;
        let done = self.check_writable(request, flag::FUA).and_then(|()| {
            self.device.write(request.offset, &payload).map_err(|error| Errno::of(&error))?;
            self.flush_if(request)
        });
        self.reply(request, done)
    }

    /// Carries out a request without data.
    fn change(&mut self, request: &Request) -> Result<(), Errno> {
        let (offset, len) = (request.offset, u64::from(request.len));
        let failed = |error| Errno::of(&error);
        match request.command {
            command::FLUSH => {
                let is_right = request.flags & !flag::FUA == 0 && (offset, len) == (0, 0);
                is_right.then_some(()).ok_or(Errno::Invalid)?;
                self.device.flush().map_err(failed)
            }
            command::TRIM => {
                self.check_writable(request, flag::FUA).map_err(trim_error)?;
                self.device.trim(offset, len).map_err(failed)?;
                self.flush_if(request)
            }
            command::WRITE_ZEROES => {
                self.check_writable(request, flag::FUA | flag::NO_HOLE)?;
                self.device.write_zeroes(offset, len).map_err(failed)?;
                self.flush_if(request)
            }
            _ => Err(Errno::Invalid),
        }
    }

    fn flush_if(&self, request: &Request) -> Result<(), Errno> {
        if request.flags & flag::FUA == 0 {
            return Ok(());
        }
        self.device.flush().map_err(|error| Errno::of(&error))
    }

    fn block_status(&mut self, request: &Request) -> io::Result<()> {
        let checked = self.check(request, flag::ONE_EXTENT);
        let is_right = self.agreed.has_allocation && request.len > 0;
        if let Err(error) = checked.and(is_right.then_some(()).ok_or(Errno::Invalid)) {
            return self.reply(request, Err(error));
        }
        let count_max = if request.flags & flag::ONE_EXTENT == 0 { EXTENTS_MAX } else { 1 };
        match self.device.extents(request.offset, request.len.into(), count_max) {
            Err(error) => self.reply(request, Err(Errno::of(&error))),
            Ok(extents) => {
                let mut payload = ALLOCATION_ID.to_be_bytes().to_vec();
                for extent in extents {
                    // Within a request, whose length has 32 bits.
                    let len = u32::try_from(extent.len).unwrap_or(u32::MAX);
                    payload.extend_from_slice(&len.to_be_bytes());
                    let status = if extent.is_zero { HOLE_AND_ZERO } else { 0 };
                    payload.extend_from_slice(&status.to_be_bytes());
                }
                self.chunk(request, chunk::BLOCK_STATUS, &[&payload])
            }
        }
    }

    /// Checks the flags and the range of a request.
    fn check(&self, request: &Request, allowed: u16) -> Result<(), Errno> {
        // A client may set FUA in any request.
        let has_right_flags = request.flags & !(allowed | flag::FUA) == 0;
        let end = request.offset.checked_add(request.len.into());
        let is_inside = end.is_some_and(|end| end <= self.device.size());
        (has_right_flags && is_inside).then_some(()).ok_or(Errno::Invalid)
    }

    /// Checks a request that changes the disk. A range behind its end has an error of its own.
    fn check_writable(&self, request: &Request, allowed: u16) -> Result<(), Errno> {
        if self.device.is_read_only() {
            return Err(Errno::NotPermitted);
        }
        if request.flags & !(allowed | flag::FUA) != 0 {
            return Err(Errno::Invalid);
        }
        self.check(request, allowed).map_err(|_| Errno::NoSpace)
    }

    /// Sends the reply to a request without data.
    fn reply(&mut self, request: &Request, done: Result<(), Errno>) -> io::Result<()> {
        let is_structured = self.agreed.has_structured_replies;
        match done {
            Ok(()) if is_structured && request.command == command::READ => {
                self.chunk(request, chunk::NONE, &[])
            }
            Err(error)
                if is_structured
                    && matches!(request.command, command::READ | command::BLOCK_STATUS) =>
            {
                let mut payload = (error as u32).to_be_bytes().to_vec();
                // There is no message.
                payload.extend_from_slice(&[0; 2]);
                self.chunk(request, chunk::ERROR, &[&payload])
            }
            Ok(()) => self.stream.write_all(&simple_reply(request, 0)),
            Err(error) => self.stream.write_all(&simple_reply(request, error as u32)),
        }
    }

    /// Sends the only chunk of a structured reply.
    fn chunk(&mut self, request: &Request, kind: u16, parts: &[&[u8]]) -> io::Result<()> {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        let len = u32::try_from(len).map_err(|_| broken("length of a reply"))?;
        let mut header = CHUNK_MAGIC.to_be_bytes().to_vec();
        header.extend_from_slice(&chunk::DONE.to_be_bytes());
        header.extend_from_slice(&kind.to_be_bytes());
        header.extend_from_slice(&request.cookie.to_be_bytes());
        header.extend_from_slice(&len.to_be_bytes());
        // A small part shares a packet with the header.
        for part in parts {
            if part.len() > 1024 {
                self.stream.write_all(&header)?;
                header.clear();
                self.stream.write_all(part)?;
            } else {
                header.extend_from_slice(part);
            }
        }
        self.stream.write_all(&header)
    }
}

/// Returns the error of a trim behind the end of the disk, which is not that of a write.
fn trim_error(error: Errno) -> Errno {
    if error == Errno::NoSpace { Errno::Invalid } else { error }
}

fn simple_reply(request: &Request, error: u32) -> Vec<u8> {
    let mut reply = SIMPLE_REPLY_MAGIC.to_be_bytes().to_vec();
    reply.extend_from_slice(&error.to_be_bytes());
    reply.extend_from_slice(&request.cookie.to_be_bytes());
    reply
}
