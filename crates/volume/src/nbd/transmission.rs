//! Requests and replies, after the handshake.

use std::io::{self, Read, Write};

use super::handshake::Agreed;
use super::pipe::Pipe;
use super::wire::{
    ALLOCATION_ID, CHUNK_MAGIC, Errno, HOLE_AND_ZERO, REQUEST_SIZE_MAX, Request,
    SIMPLE_REPLY_MAGIC, broken, chunk, command, flag,
};
use crate::device::Device;
use crate::zeros::is_zeros;

/// The maximum number of extents in a reply.
const EXTENTS_MAX: usize = 4096;

/// Answers requests until the client disconnects.
pub(super) fn serve(
    stream: &mut (impl Read + Write),
    device: &dyn Device,
    agreed: Agreed,
) -> io::Result<()> {
    let mut session = Session { pipe: Pipe::new(stream), device, agreed };
    while let Some(request) = session.request()? {
        if request.command == command::DISCONNECT {
            return session.pipe.flush();
        }
        session.answer(&request)?;
    }
    session.pipe.flush()
}

struct Session<'a, S> {
    pipe: Pipe<'a, S>,
    device: &'a dyn Device,
    agreed: Agreed,
}

impl<S: Read + Write> Session<'_, S> {
    /// Reads the next request. Returns `None` if the client has closed the connection.
    fn request(&mut self) -> io::Result<Option<Request>> {
        let Some(bytes) = self.pipe.take_or_end(Request::SIZE)? else { return Ok(None) };
        let bytes = bytes.try_into().expect("the length was asked for");
        Request::decode(bytes).map(Some).ok_or_else(|| broken("magic of a request"))
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
        let is_structured = self.agreed.has_structured_replies;
        if len == 0 {
            return self.reply(request, Ok(()));
        }
        let header = match u32::try_from(len + size_of::<u64>()) {
            Ok(chunk_len) if is_structured => {
                let mut header = chunk_header(request, chunk::DATA, chunk_len);
                header.extend_from_slice(&request.offset.to_be_bytes());
                header
            }
            _ => simple_reply(request, 0),
        };
        // The bytes are read to their place behind the header, which is sent if there is no error.
        let room = self.pipe.room(header.len() + len);
        let (front, bytes) = room.split_at_mut(header.len());
        if let Err(error) = self.device.read(request.offset, bytes) {
            return self.reply(request, Err(Errno::of(&error)));
        }
        if is_structured && is_zeros(bytes) {
            let mut payload = request.offset.to_be_bytes().to_vec();
            payload.extend_from_slice(&request.len.to_be_bytes());
            return self.chunk(request, chunk::HOLE, &payload);
        }
        front.copy_from_slice(&header);
        self.pipe.send_room(header.len() + len)
    }

    fn write(&mut self, request: &Request) -> io::Result<()> {
        if request.len > REQUEST_SIZE_MAX {
            // The payload is skipped, so that the next request is found.
            self.pipe.skip(request.len as usize)?;
            return self.reply(request, Err(Errno::Invalid));
        }
        let checked = self.check_writable(request, flag::FUA);
        let payload = self.pipe.take(request.len as usize)?;
        let done = checked.and_then(|()| {
            self.device.write(request.offset, payload).map_err(|error| Errno::of(&error))?;
            flush_if(request, self.device)
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
                flush_if(request, self.device)
            }
            command::WRITE_ZEROES => {
                self.check_writable(request, flag::FUA | flag::NO_HOLE)?;
                self.device.write_zeroes(offset, len).map_err(failed)?;
                flush_if(request, self.device)
            }
            _ => Err(Errno::Invalid),
        }
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
                self.chunk(request, chunk::BLOCK_STATUS, &payload)
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
                self.chunk(request, chunk::ERROR, &payload)
            }
            Ok(()) => self.pipe.send(&simple_reply(request, 0)),
            Err(error) => self.pipe.send(&simple_reply(request, error as u32)),
        }
    }

    /// Sends the only chunk of a structured reply.
    fn chunk(&mut self, request: &Request, kind: u16, payload: &[u8]) -> io::Result<()> {
        let len = u32::try_from(payload.len()).map_err(|_| broken("length of a reply"))?;
        let mut bytes = chunk_header(request, kind, len);
        bytes.extend_from_slice(payload);
        self.pipe.send(&bytes)
    }
}

/// Returns the header of the only chunk of a structured reply.
fn chunk_header(request: &Request, kind: u16, len: u32) -> Vec<u8> {
    let mut header = CHUNK_MAGIC.to_be_bytes().to_vec();
    header.extend_from_slice(&chunk::DONE.to_be_bytes());
    header.extend_from_slice(&kind.to_be_bytes());
    header.extend_from_slice(&request.cookie.to_be_bytes());
    header.extend_from_slice(&len.to_be_bytes());
    header
}

/// Flushes if the request asks for it.
fn flush_if(request: &Request, device: &dyn Device) -> Result<(), Errno> {
    if request.flags & flag::FUA == 0 {
        return Ok(());
    }
    device.flush().map_err(|error| Errno::of(&error))
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
