//! Cutting bytes as they come.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use crate::Chunker;
use crate::window::{Step, Window};

/// Cuts slices of any size that are pushed one after the other, as one stream.
///
/// The chunks are those of the whole stream, however it is portioned. A chunk that lies in the slice
/// that is pushed is lent from there; only one that crosses the end of a slice is copied.
///
/// # What is buffered
///
/// The bytes since the last cut-point, where the rule could not yet tell the next. It is asked again
/// when their number has doubled, so that no byte is looked at more than a few times even if they
/// come one by one; never later than when they are as many as the rule can need
/// ([`Chunker::needed_size_max`]). An algorithm without a largest chunk has no such number: then up to
/// twice the chunk is held, however large it gets. [`Push::buffered_bytes`] says how much it is.
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
    /// Begins a stream.
    pub fn new(chunker: C) -> Push<C> {
        let window = Window::new(&chunker, chunker.chunk_size_min().saturating_add(1), 0);
        Push { chunker, window }
    }

    /// Takes the next bytes of the stream, and hands each chunk that ends to `each`, in order.
    ///
    /// The end of `data` ends no chunk. Empty `data` does nothing.
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
            // What is left of the buffer came with `data`: go on there, without copying.
            let copied = data.len() - rest.len();
            if self.window.len() <= copied && self.chunker.context_size() == 0 {
                rest = &data[copied - self.window.len()..];
                self.window.clear();
            }
        }
    }

    /// Ends the stream, and hands the chunks that are left to `each`; the next push begins another.
    pub fn finish(&mut self, mut each: impl FnMut(&[u8])) {
        self.window.end();
        while let Step::Chunk(chunk) = self.window.step(&self.chunker) {
            each(self.window.bytes(chunk));
        }
        self.window.restart();
    }

    /// Returns where the next chunk starts: the number of bytes handed out of this stream.
    pub fn offset(&self) -> u64 {
        self.window.offset()
    }

    /// Returns how many bytes were pushed and not handed out.
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
