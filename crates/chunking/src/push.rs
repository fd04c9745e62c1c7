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
/// pushed slice is lent from there, and a chunk that crosses the end of a slice is copied. A rule
/// that cuts many chunks at once ([`Chunker::batch_size`]) and can continue its search
/// ([`Chunker::resumes`]) gets the bytes of a chunk together with those behind it: a slice of up to
/// 64 KiB that continues a chunk is copied as a whole.
///
/// # Buffering
///
/// The buffer holds the bytes since the last cut-point, as long as the rule cannot find the next
/// one. A rule that can continue its search is asked again every 4 KiB, or every 16 KiB if it cuts
/// many chunks at once, so that a chunk may be passed on only when 20 KiB follow it. Any other rule
/// is asked again when the number of bytes has doubled, so that no byte is looked at more than a
/// few times even if the bytes arrive one by one. Either is asked at the latest when the number of
/// bytes reaches [`Chunker::needed_size_max`]. An algorithm without a maximum chunk size has no such
/// number, so the buffer holds up to twice the chunk, however large that becomes.
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
    /// The ends of the chunks in a slice that are passed without copying them.
    ends: Vec<usize>,
}

impl<C: Chunker> Push<C> {
    /// Creates a chunker of pushed slices, at the start of a stream.
    pub fn new(chunker: C) -> Push<C> {
        let window = Window::for_pushing(&chunker);
        Push { chunker, window, ends: Vec::new() }
    }

    /// Takes the next bytes of the stream, and passes each chunk whose end is found to `each`, in
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
        // The number of bytes of `rest` in which its first chunk does not end.
        let mut known = 0;
        loop {
            if self.window.len() == 0 && self.chunker.context_size() == 0 {
                let (size, known, flow) = self.pass_directly(rest, known, &mut each);
                self.window.take(&rest[size..]);
                match flow {
                    ControlFlow::Continue(()) => self.window.asked(known),
                    ControlFlow::Break(_) => self.window.ask(),
                }
                return flow;
            }
            let taken;
            (taken, rest) = rest.split_at(self.window.portion(rest.len()));
            self.window.take(taken);
            while let Step::Chunk(chunk) = self.window.step(&self.chunker) {
                let flow = each(self.window.bytes(chunk));
                if flow.is_break() {
                    self.window.take(rest);
                    self.window.ask();
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
                known = self.window.clear();
            }
        }
    }

    /// Passes the chunks of `data`, which begins with a chunk, to `each` without copying them. The
    /// first `known` bytes need not be searched. Returns the number of bytes passed, the number
    /// behind them that need not be searched again, and the last answer of `each`.
    fn pass_directly<B>(
        &mut self,
        data: &[u8],
        mut known: usize,
        each: &mut impl FnMut(&[u8]) -> ControlFlow<B>,
    ) -> (usize, usize, ControlFlow<B>) {
        let Push { chunker, window, ends } = self;
        let mut start = 0;
        let is_batched = chunker.batch_size() > 0;
        loop {
            ends.clear();
            if is_batched {
                known = chunker.next_cuts_again(data, start, true, known, ends);
            } else {
                let rest = &data[start..];
                let cut = match core::mem::take(&mut known) {
                    0 => chunker.next_cut(rest, true),
                    known => chunker.next_cut_again(&[], rest, true, known),
                };
                match cut {
                    Some(size) => ends.push(start + size),
                    None => known = rest.len(),
                }
            }
            for &end in &*ends {
                window.passed(end - start);
                let flow = each(&data[start..end]);
                start = end;
                if flow.is_break() {
                    return (start, 0, flow);
                }
            }
            if ends.is_empty() || known > 0 {
                return (start, known, ControlFlow::Continue(()));
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
