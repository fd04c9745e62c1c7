//! The bytes of a connection in both directions, with buffers.
//!
//! Clients send requests ahead. Those that have arrived together are read by one call of the system,
//! and their replies are sent together, up to a few, so that the client goes on meanwhile. Nothing is
//! waited for while a reply is not sent.

use std::io::{self, Read, Write};

/// The size of the buffer of requests, as long as no request is larger.
const INPUT_SIZE: usize = 256 * 1024;
/// The maximum number of replies, and of their bytes, that are sent together.
const REPLIES_MAX: usize = 4;
const OUTPUT_MAX: usize = 16 * 1024;
/// The size from which on the buffer of replies is given back.
const OUTPUT_KEPT: usize = 1024 * 1024;

/// A connection with its buffers.
pub(super) struct Pipe<'a, S> {
    stream: &'a mut S,
    /// Bytes that have arrived: those in `start..end`.
    input: Vec<u8>,
    start: usize,
    end: usize,
    /// Bytes that are to be sent: those before `output_end`.
    output: Vec<u8>,
    output_end: usize,
    reply_count: usize,
}

impl<'a, S: Read + Write> Pipe<'a, S> {
    pub(super) fn new(stream: &'a mut S) -> Pipe<'a, S> {
        Pipe {
            stream,
            input: Vec::new(),
            start: 0,
            end: 0,
            output: Vec::new(),
            output_end: 0,
            reply_count: 0,
        }
    }

    /// Takes the next `len` bytes, or returns `None` if the client has closed the connection before
    /// the first one.
    pub(super) fn take_or_end(&mut self, len: usize) -> io::Result<Option<&[u8]>> {
        if self.start == self.end {
            self.fill(len)?;
        }
        if self.start == self.end { Ok(None) } else { self.take(len).map(Some) }
    }

    /// Takes the next `len` bytes.
    pub(super) fn take(&mut self, len: usize) -> io::Result<&[u8]> {
        while self.end - self.start < len {
            if self.fill(len)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        let start = self.start;
        self.start += len;
        Ok(&self.input[start..start + len])
    }

    /// Skips the next `len` bytes.
    pub(super) fn skip(&mut self, len: usize) -> io::Result<()> {
        let mut rest = len;
        while rest > 0 {
            let part = rest.min(INPUT_SIZE);
            self.take(part)?;
            rest -= part;
        }
        Ok(())
    }

    /// Reads what has arrived, behind what is there of the next `len` bytes, and returns the number of
    /// bytes; 0 at the end of the connection.
    fn fill(&mut self, len: usize) -> io::Result<usize> {
        self.flush()?;
        self.input.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        if self.end == 0 && self.input.len() > INPUT_SIZE && len <= INPUT_SIZE {
            self.input = Vec::new();
        }
        // The buffer grows with what has arrived, and not with what was announced.
        let size = INPUT_SIZE.max(len.min(2 * self.end));
        if self.input.len() < size {
            self.input.resize(size, 0);
        }
        loop {
            match self.stream.read(&mut self.input[self.end..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
                Ok(read) => {
                    self.end += read;
                    return Ok(read);
                }
            }
        }
    }

    /// Returns the place for `len` more bytes of replies, with any contents.
    pub(super) fn room(&mut self, len: usize) -> &mut [u8] {
        let end = self.output_end + len;
        if self.output.len() < end {
            self.output.resize(end, 0);
        }
        &mut self.output[self.output_end..end]
    }

    /// Sends the first `len` bytes of the place as a reply.
    pub(super) fn send_room(&mut self, len: usize) -> io::Result<()> {
        self.output_end += len;
        self.reply_count += 1;
        if self.reply_count >= REPLIES_MAX || self.output_end >= OUTPUT_MAX {
            self.flush()?;
        }
        Ok(())
    }

    /// Sends a reply.
    pub(super) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.room(bytes.len()).copy_from_slice(bytes);
        self.send_room(bytes.len())
    }

    /// Sends all replies.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        if self.output_end > 0 {
            self.stream.write_all(&self.output[..self.output_end])?;
            self.stream.flush()?;
        }
        self.output_end = 0;
        self.reply_count = 0;
        if self.output.len() > OUTPUT_KEPT {
            self.output = Vec::new();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    /// A client: its bytes as they arrive, each of which is sent once the client has got a number of
    /// bytes.
    struct Client {
        arrivals: VecDeque<(usize, Vec<u8>)>,
        got: Vec<u8>,
        write_count: usize,
    }

    impl Read for Client {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let Some((needed, bytes)) = self.arrivals.pop_front() else { return Ok(0) };
            assert!(self.got.len() >= needed, "waits for a client that waits for replies");
            let (now, later) = bytes.split_at(bytes.len().min(buffer.len()));
            buffer[..now.len()].copy_from_slice(now);
            if !later.is_empty() {
                self.arrivals.push_front((needed, later.to_vec()));
            }
            Ok(now.len())
        }
    }

    impl Write for Client {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.write_count += 1;
            self.got.extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn client(arrivals: &[(usize, &[u8])]) -> Client {
        let arrivals = arrivals.iter().map(|(needed, bytes)| (*needed, bytes.to_vec()));
        Client { arrivals: arrivals.collect(), got: Vec::new(), write_count: 0 }
    }

    #[test]
    fn bytes_are_taken_however_they_arrive() {
        let bytes: Vec<u8> = (0..=255).cycle().take(600_000).collect();
        for part in [1, 27, 4096, 600_000] {
            let arrivals: Vec<_> = bytes.chunks(part).map(|bytes| (0, bytes)).collect();
            let mut client = client(&arrivals);
            let mut pipe = Pipe::new(&mut client);
            let mut at = 0;
            for len in [28, 1, 300_000, 28, 65_536, 200_000] {
                assert!(pipe.take(len).expect("arrived") == &bytes[at..at + len], "{part}, {len}");
                at += len;
            }
            pipe.skip(600_000 - at - 5).expect("arrived");
            assert_eq!(pipe.take_or_end(5).expect("arrived"), Some(&bytes[599_995..]));
            assert_eq!(pipe.take_or_end(5).expect("the end"), None);
        }
    }

    #[test]
    fn end_within_a_request_is_an_error() {
        let mut client = client(&[(0, &[1; 27])]);
        let mut pipe = Pipe::new(&mut client);
        let error = pipe.take_or_end(28).expect_err("27 bytes");
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn announced_bytes_take_no_memory_before_they_arrive() {
        let mut client = client(&[(0, &[1; 100])]);
        let mut pipe = Pipe::new(&mut client);
        pipe.take(32 << 20).expect_err("100 bytes");
        assert!(pipe.input.len() <= INPUT_SIZE);
    }

    #[test]
    fn replies_are_sent_before_anything_is_waited_for() {
        // The second request comes after the reply to the first one.
        let mut client = client(&[(0, &[1; 28]), (16, &[2; 28])]);
        let mut pipe = Pipe::new(&mut client);
        for number in [1, 2] {
            assert_eq!(pipe.take(28).expect("arrived"), [number; 28]);
            pipe.send(&[number; 16]).expect("sent");
        }
        pipe.flush().expect("sent");
        assert_eq!(client.got, [[1; 16], [2; 16]].concat());
    }

    #[test]
    fn replies_to_requests_that_arrived_together_are_sent_together() {
        let mut client = client(&[(0, &[0; 280])]);
        let mut pipe = Pipe::new(&mut client);
        while pipe.take_or_end(28).expect("arrived").is_some() {
            pipe.send(&[7; 16]).expect("sent");
        }
        assert_eq!(client.got, [7; 160]);
        assert_eq!(client.write_count, 10_usize.div_ceil(REPLIES_MAX));
    }
}
