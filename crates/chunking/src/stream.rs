//! Cutting a reader's bytes.

use std::fmt;
use std::io::{self, ErrorKind, Read};

use crate::Chunker;

/// The least number of bytes that the buffer can take beyond one largest chunk.
const READ_SIZE: usize = 256 * 1024;

/// Cuts what a reader gives into chunks, one at a time, in one buffer.
///
/// The chunks are those of the whole stream, however the reader portions it. A chunk is handed out
/// when the buffer holds as many bytes as a largest chunk, or all that are left: a slow source is
/// read ahead by that much.
///
/// ```
/// use cutpoint_chunking::{Chunks, Spec};
///
/// let spec: Spec = "fixed:size=4".parse()?;
/// let mut chunks = Chunks::new(spec.chunker(), &b"abcdefghij"[..]);
/// let mut sizes = Vec::new();
/// while let Some(chunk) = chunks.next()? {
///     sizes.push(chunk.len());
/// }
/// assert_eq!(sizes, [4, 4, 2]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Chunks<R, C = Box<dyn Chunker>> {
    chunker: C,
    reader: R,
    /// `buffer[start..end]` are the bytes that were read and not yet handed out.
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    reader_ended: bool,
    /// Where `start` is in the stream, in bytes.
    offset: u64,
}

impl<R: Read, C: Chunker> Chunks<R, C> {
    /// Begins at the reader's present position, which becomes offset 0.
    ///
    /// The buffer takes 256 KiB and a largest chunk; it grows where an algorithm has no largest.
    pub fn new(chunker: C, reader: R) -> Chunks<R, C> {
        let buffer = vec![0; chunker.chunk_size_max().unwrap_or(0).saturating_add(READ_SIZE)];
        Chunks { chunker, reader, buffer, start: 0, end: 0, reader_ended: false, offset: 0 }
    }

    /// Begins anew with another reader, in the same buffer, and returns the one before.
    ///
    /// Bytes that were read from that one and not handed out are dropped.
    pub fn restart(&mut self, reader: R) -> R {
        (self.start, self.end, self.reader_ended, self.offset) = (0, 0, false, 0);
        std::mem::replace(&mut self.reader, reader)
    }

    /// Returns the next chunk, or `None` at the end of the stream.
    ///
    /// The bytes stay valid until the next call: this is no [`Iterator`], because they lie in the
    /// one buffer.
    ///
    /// # Errors
    ///
    /// The reader's, except [`ErrorKind::Interrupted`], which is tried again. Nothing is lost by an
    /// error: a later call goes on where the reader stopped.
    #[expect(clippy::should_implement_trait, reason = "an iterator cannot lend")]
    pub fn next(&mut self) -> io::Result<Option<&[u8]>> {
        let mut wanted = self.chunker.chunk_size_max().unwrap_or(READ_SIZE);
        let cut = loop {
            self.fill(wanted)?;
            let data = &self.buffer[self.start..self.end];
            if data.is_empty() {
                return Ok(None);
            }
            match self.chunker.next_cut(data, !self.reader_ended) {
                Some(cut) => break cut,
                None if self.reader_ended => break data.len(),
                None => wanted = data.len().saturating_mul(2),
            }
        };
        let chunk = self.start..self.start + cut;
        self.start = chunk.end;
        self.offset += cut as u64;
        Ok(Some(&self.buffer[chunk]))
    }

    /// Returns where the next chunk starts: the number of bytes handed out.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the reader; bytes that it gave and that were not handed out are dropped.
    pub fn into_reader(self) -> R {
        self.reader
    }

    /// Reads until `wanted` bytes are in the buffer or the reader has ended.
    fn fill(&mut self, wanted: usize) -> io::Result<()> {
        while self.end - self.start < wanted && !self.reader_ended {
            if self.start + wanted > self.buffer.len() {
                // Less than `wanted` bytes move, and only after most of the buffer was handed out.
                self.buffer.copy_within(self.start..self.end, 0);
                self.end -= self.start;
                self.start = 0;
                if wanted > self.buffer.len() {
                    self.buffer.resize(wanted, 0);
                }
            }
            match self.reader.read(&mut self.buffer[self.end..]) {
                Ok(0) => self.reader_ended = true,
                Ok(count) => self.end += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl<R, C: fmt::Debug> fmt::Debug for Chunks<R, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chunks")
            .field("chunker", &self.chunker)
            .field("buffered_bytes", &(self.end - self.start))
            .field("reader_ended", &self.reader_ended)
            .field("offset", &self.offset)
            .finish_non_exhaustive()
    }
}
