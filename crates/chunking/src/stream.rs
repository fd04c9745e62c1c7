//! Cutting the bytes of a reader.

use alloc::boxed::Box;
use core::fmt;
#[cfg(feature = "async")]
use core::{
    future::poll_fn,
    ops::Range,
    pin::Pin,
    task::{Context, Poll, ready},
};
use std::io::{self, ErrorKind, Read};

#[cfg(feature = "async")]
use futures_io::AsyncRead;

use crate::Chunker;
use crate::window::{Step, Window};

/// Cuts the bytes of a reader into chunks, one at a time, in one buffer.
///
/// The reader is a [`Read`], or with the feature `async` an `AsyncRead` of the crate `futures-io`.
/// The chunks are those of the whole stream, however the reader portions it. A chunk is returned
/// once the buffer holds the maximum chunk size, or the number of bytes that the chunker wants at
/// once ([`Chunker::batch_size`]), or all bytes that are left; a slow source is read ahead by this
/// number of bytes. If an algorithm has no maximum chunk size, it is asked first when 256 KiB or
/// its batch size have arrived, and again whenever the number of bytes has doubled, so the buffer
/// holds up to twice the chunk.
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
    window: Window,
}

impl<R, C: Chunker> Chunks<R, C> {
    /// Creates the chunks of `reader`. The reader's present position becomes offset 0.
    ///
    /// The size of the buffer is 256 KiB, or the chunker's batch size if that is larger, plus the
    /// maximum chunk size. If the algorithm has no maximum, 256 KiB take its place, and the buffer
    /// grows.
    pub fn new(chunker: C, reader: R) -> Chunks<R, C> {
        let window = Window::for_reading(&chunker);
        Chunks { chunker, reader, window }
    }

    /// Starts a new stream with another reader in the same buffer, and returns the previous reader.
    ///
    /// Bytes that were read from the previous reader and not returned as chunks are dropped.
    pub fn restart(&mut self, reader: R) -> R {
        self.window.restart();
        core::mem::replace(&mut self.reader, reader)
    }

    /// Returns the offset of the next chunk: the number of bytes returned so far.
    pub fn offset(&self) -> u64 {
        self.window.offset()
    }

    /// Returns the reader. Bytes that were read and not returned as chunks are dropped.
    pub fn into_reader(self) -> R {
        self.reader
    }

    /// Takes the result of a read into the room of the window.
    fn take(&mut self, read: io::Result<usize>) -> io::Result<()> {
        match read {
            Ok(0) => self.window.end(),
            Ok(count) => self.window.filled(count),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

impl<R: Read, C: Chunker> Chunks<R, C> {
    /// Returns the next chunk, or `None` at the end of the stream.
    ///
    /// The bytes stay valid until the next call. Because they lie in the one buffer, this is not an
    /// [`Iterator`].
    ///
    /// # Errors
    ///
    /// Returns any error of the reader except [`ErrorKind::Interrupted`], after which the read is
    /// retried. No bytes are lost by an error: a later call continues where the reader stopped.
    #[expect(clippy::should_implement_trait, reason = "an iterator cannot lend")]
    pub fn next(&mut self) -> io::Result<Option<&[u8]>> {
        loop {
            match self.window.step(&self.chunker) {
                Step::Chunk(chunk) => return Ok(Some(self.window.bytes(chunk))),
                Step::Ended => return Ok(None),
                Step::Need => {
                    let read = self.reader.read(self.window.room());
                    self.take(read)?;
                }
            }
        }
    }
}

/// Methods for asynchronous readers, with the feature `async`. No particular runtime is needed: a
/// reader of tokio is wrapped by `compat` of the crate `tokio-util`, and a reader that is not
/// [`Unpin`] is pinned in a box.
///
/// ```
/// use cutpoint_chunking::{Chunks, Spec};
///
/// # futures_executor::block_on(async {
/// let spec: Spec = "fixed:size=4".parse()?;
/// let mut chunks = Chunks::new(spec.chunker(), &b"abcdefghij"[..]);
/// let mut sizes = Vec::new();
/// while let Some(chunk) = chunks.next_async().await? {
///     sizes.push(chunk.len());
/// }
/// assert_eq!(sizes, [4, 4, 2]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[cfg(feature = "async")]
impl<R: AsyncRead + Unpin, C: Chunker> Chunks<R, C> {
    /// Returns the next chunk, or `None` at the end of the stream; waits only for the reader.
    ///
    /// The bytes stay valid until the next call. The future may be dropped at any time, as by a
    /// timeout or a `select`: no byte is lost, and the next call continues. Finding a cut-point
    /// takes one pass over at most the maximum chunk size, during which nothing else runs on the
    /// thread.
    ///
    /// # Errors
    ///
    /// Returns any error of `next`.
    pub async fn next_async(&mut self) -> io::Result<Option<&[u8]>> {
        let chunk = poll_fn(|context| self.poll_chunk(context)).await?;
        Ok(chunk.map(|chunk| self.window.bytes(chunk)))
    }

    /// Polls for the next chunk, for callers that implement a future or a stream.
    ///
    /// # Errors
    ///
    /// Returns any error of `next`.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Option<&[u8]>>> {
        let chunk = ready!(self.poll_chunk(context))?;
        Poll::Ready(Ok(chunk.map(|chunk| self.window.bytes(chunk))))
    }

    fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Option<Range<usize>>>> {
        loop {
            match self.window.step(&self.chunker) {
                Step::Chunk(chunk) => return Poll::Ready(Ok(Some(chunk))),
                Step::Ended => return Poll::Ready(Ok(None)),
                Step::Need => {
                    let reader = Pin::new(&mut self.reader);
                    let read = ready!(reader.poll_read(context, self.window.room()));
                    self.take(read)?;
                }
            }
        }
    }
}

impl<R, C: fmt::Debug> fmt::Debug for Chunks<R, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chunks")
            .field("chunker", &self.chunker)
            .field("buffered_bytes", &self.window.len())
            .field("reader_ended", &self.window.is_ended())
            .field("offset", &self.window.offset())
            .finish_non_exhaustive()
    }
}
