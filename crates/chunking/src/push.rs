//! Cutting bytes as they arrive.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::convert::Infallible;
use core::fmt;
use core::ops::ControlFlow;

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
/// one. A rule that can continue its search ([`Chunker::resumes`]) is asked again every 4 KiB. Any
/// other rule is asked again when the number of bytes has doubled, so that no byte is looked at
/// more than a few times even if the bytes arrive one by one. Either is asked at the latest when
/// the number of bytes reaches [`Chunker::needed_size_max`]. An algorithm without a maximum chunk
/// size has no such number, so the buffer holds up to twice the chunk, however large that becomes.
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
    /// The end of `data` does not end a chunk. Empty `data` has no effect, except that chunks left
    /// by [`Push::push_until`] are passed on.
    pub fn push(&mut self, data: &[u8], mut each: impl FnMut(&[u8])) {
        let _: ControlFlow<Infallible> = self.push_until(data, |chunk| {
            each(chunk);
            ControlFlow::Continue(())
        });
    }

    /// Works as [`Push::push`] until `each` returns [`ControlFlow::Break`], and returns its value.
    ///
    /// The bytes behind the last chunk passed to `each` are kept, so that nothing is lost: the next
    /// call, also one with empty `data`, passes the chunks in them first.
    ///
    /// ```
    /// use core::ops::ControlFlow;
    ///
    /// use cutpoint_chunking::{Push, Spec};
    ///
    /// let spec: Spec = "fixed:size=2".parse()?;
    /// let mut push = Push::new(spec.chunker());
    /// let stopped = push.push_until(b"abcdefg", |chunk| {
    ///     if chunk == b"cd" { ControlFlow::Break("found") } else { ControlFlow::Continue(()) }
    /// });
    /// assert_eq!(stopped, ControlFlow::Break("found"));
    /// assert_eq!((push.offset(), push.buffered_bytes()), (4, 3));
    /// # Ok::<(), cutpoint_chunking::SpecError>(())
    /// ```
    pub fn push_until<B>(
        &mut self,
        data: &[u8],
        mut each: impl FnMut(&[u8]) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        let mut rest = data;
        loop {
            if self.window.len() == 0 && self.chunker.context_size() == 0 {
                let (size, flow) = self.pass_directly(rest, &mut each);
                self.window.take(&rest[size..]);
                if flow.is_continue() {
                    self.window.asked();
                }
                return flow;
            }
            let taken;
            (taken, rest) = rest.split_at(rest.len().min(self.window.lacking()));
            self.window.take(taken);
            while let Step::Chunk(chunk) = self.window.step(&self.chunker) {
                let flow = each(self.window.bytes(chunk));
                if flow.is_break() {
                    self.window.take(rest);
                    return flow;
                }
            }
            if rest.is_empty() {
                return ControlFlow::Continue(());
            }
            // The bytes left in the buffer came with `data`: continue there, without copying.
            let copied = data.len() - rest.len();
            if self.window.len() <= copied && self.chunker.context_size() == 0 {
                rest = &data[copied - self.window.len()..];
                self.window.clear();
            }
        }
    }

    /// Passes the chunks of `data`, which begins with a chunk, to `each` without copying them.
    /// Returns the number of bytes passed, and the last answer of `each`.
    fn pass_directly<B>(
        &mut self,
        data: &[u8],
        each: &mut impl FnMut(&[u8]) -> ControlFlow<B>,
    ) -> (usize, ControlFlow<B>) {
        let mut start = 0;
        let mut ends = Vec::new();
        let is_batched = self.chunker.batch_size() > 0;
        loop {
            ends.clear();
            if is_batched {
                self.chunker.next_cuts(data, start, true, &mut ends);
            } else {
                ends.extend(self.chunker.next_cut(&data[start..], true).map(|size| start + size));
            }
            if ends.is_empty() {
                return (start, ControlFlow::Continue(()));
            }
            for &end in &ends {
                self.window.passed(end - start);
                let flow = each(&data[start..end]);
                start = end;
                if flow.is_break() {
                    return (start, flow);
                }
            }
        }
    }

    /// Ends the stream, and passes the remaining chunks to `each`. The next push begins another
    /// stream.
    pub fn finish(&mut self, mut each: impl FnMut(&[u8])) {
        let _: ControlFlow<Infallible> = self.finish_until(|chunk| {
            each(chunk);
            ControlFlow::Continue(())
        });
    }

    /// Works as [`Push::finish`] until `each` returns [`ControlFlow::Break`], and returns its value.
    /// The remaining chunks are then dropped.
    pub fn finish_until<B>(
        &mut self,
        mut each: impl FnMut(&[u8]) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        self.window.end();
        let mut flow = ControlFlow::Continue(());
        while flow.is_continue()
            && let Step::Chunk(chunk) = self.window.step(&self.chunker)
        {
            flow = each(self.window.bytes(chunk));
        }
        self.window.restart();
        flow
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
