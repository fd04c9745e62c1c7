//! Cutting bytes as they arrive.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use crate::Chunker;
use crate::window::{Step, Window};

/// Cuts slices of any size, pushed one after the other, as one stream.
///
/// The chunks are those of the whole stream, however it is portioned. A chunk that lies within the
/// pushed slice is lent from there; only a chunk that crosses the end of a slice is copied.
///
/// # Buffering
///
/// The buffer holds the bytes since the last cut-point, as long as the rule cannot find the next
/// one. The rule is asked again when the number of bytes has doubled, so that no byte is looked at
/// more than a few times even if the bytes arrive one by one, and at the latest when the number of
/// bytes reaches [`Chunker::needed_size_max`]. An algorithm without a maximum chunk size has no
/// such number, so the buffer holds up to twice the chunk, however large that becomes.
/// [`Push::buffered_bytes`] returns the present size.
///
/// ```
/// use cutpoint_chunking::{Push, Spec};
///
/// let spec: Spec = "fixed:size=4".parse()?;
/// let mut push = Push::new(spec.chunker());
/// let mut chunks = Vec::new();
/// for slice in ["abc", "defgh", "ij"] {
///     push.push(slice.as_bytes(), |chunk| chunks.push(chunk.to_vec()));
/// }
/// push.finish(|chunk| chunks.push(chunk.to_vec()));
/// assert_eq!(chunks, [&b"abcd"[..], b"efgh", b"ij"]);
/// # Ok::<(), cutpoint_chunking::SpecError>(())
/// ```
pub struct Push<C = Box<dyn Chunker>> {
    chunker: C,
    window: Window,
}

impl<C: Chunker> Push<C> {
    /// Creates a chunker of pushed slices, at the start of a stream.
    pub fn new(chunker: C) -> Push<C> {
        let window = Window::new(&chunker, chunker.chunk_size_min().saturating_add(1), 0);
        Push { chunker, window }
    }

    /// Takes the next bytes of the stream, and passes each chunk that ends in them to `each`, in
    /// order.
    ///
    /// The end of `data` does not end a chunk. Empty `data` has no effect.
    pub fn push(&mut self, data: &[u8], mut each: impl FnMut(&[u8])) {
        let mut rest = data;
        loop {
            if self.window.len() == 0 && self.chunker.context_size() == 0 {
                let mut start = 0;
                if self.chunker.batch_size() > 0 {
                    let mut ends = Vec::new();
                    loop {
                        self.chunker.next_cuts(rest, start, true, &mut ends);
                        if ends.is_empty() {
                            break;
                        }
                        for end in ends.drain(..) {
                            self.window.passed(end - start);
                            each(&rest[start..end]);
                            start = end;
                        }
                    }
                } else {
                    while let Some(size) = self.chunker.next_cut(&rest[start..], true) {
                        self.window.passed(size);
                        each(&rest[start..start + size]);
                        start += size;
                    }
                }
                self.window.take(&rest[start..]);
                self.window.asked();
                return;
            }
            let taken;
            (taken, rest) = rest.split_at(rest.len().min(self.window.lacking()));
            self.window.take(taken);
            while let Step::Chunk(chunk) = self.window.step(&self.chunker) {
                each(self.window.bytes(chunk));
            }
            if rest.is_empty() {
                return;
            }
            // The bytes left in the buffer came with `data`: continue there, without copying.
            let copied = data.len() - rest.len();
            if self.window.len() <= copied && self.chunker.context_size() == 0 {
                rest = &data[copied - self.window.len()..];
                self.window.clear();
            }
        }
    }

    /// Ends the stream, and passes the remaining chunks to `each`. The next push begins another
    /// stream.
    pub fn finish(&mut self, mut each: impl FnMut(&[u8])) {
        self.window.end();
        while let Step::Chunk(chunk) = self.window.step(&self.chunker) {
            each(self.window.bytes(chunk));
        }
        self.window.restart();
    }

    /// Returns the offset of the next chunk: the number of bytes of this stream returned so far.
    pub fn offset(&self) -> u64 {
        self.window.offset()
    }

    /// Returns the number of bytes that were pushed and not yet returned as chunks.
    pub fn buffered_bytes(&self) -> usize {
        self.window.len()
    }
}

impl<C: fmt::Debug> fmt::Debug for Push<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Push")
            .field("chunker", &self.chunker)
            .field("buffered_bytes", &self.window.len())
            .field("offset", &self.window.offset())
            .finish_non_exhaustive()
    }
}
