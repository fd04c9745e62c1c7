//! The contract of every algorithm, and cutting a buffer by it.

use alloc::boxed::Box;
use core::fmt::Debug;
use core::iter::FusedIterator;

/// A rule that says where a chunk ends.
///
/// A cut-point is the *exclusive* end of a chunk, in bytes from the chunk's start: the byte at a
/// cut-point is the first of the next chunk. A chunker has no state that a call would leave behind,
/// so one value may serve any number of streams and threads. What it answers depends on the bytes
/// since the last cut-point only; a few dialects, whose originals carry state over a cut, also
/// depend on some bytes before ([`context_size`]).
///
/// [`context_size`]: Chunker::context_size
pub trait Chunker: Send + Sync + Debug {
    /// Where `data` is cut first: how many bytes the chunk has that `data[0]` begins, and never more
    /// than there are.
    ///
    /// `more` says whether bytes may follow `data`. `None` means that the rule cannot tell before it
    /// sees more of them, or that there are none, and is returned only when `more`. Given [`needed_size_max`] bytes or more
    /// the answer is always `Some`. For empty `data` it is `None`.
    ///
    /// An answer is final: it is the same whatever follows `data`, be it nothing. After `None`, a call
    /// with more bytes looks at all of them again, so give a slow source's bytes in portions that
    /// grow, or wait for [`needed_size_max`] of them as [`Chunks`](crate::Chunks) does.
    ///
    /// [`needed_size_max`]: Chunker::needed_size_max
    fn next_cut(&self, data: &[u8], more: bool) -> Option<usize>;

    /// The same for a chunk that does not begin the stream: `before` are the bytes in front of
    /// `data`, the last [`context_size`](Chunker::context_size) of them or more, or all there are.
    ///
    /// Where that size is 0, as it nearly always is, this is [`next_cut`](Chunker::next_cut).
    fn next_cut_after(&self, before: &[u8], data: &[u8], more: bool) -> Option<usize> {
        let _ = before;
        self.next_cut(data, more)
    }

    /// Returns how many bytes before a chunk have a say in where it ends; 0 unless the rule keeps
    /// state over a cut-point.
    fn context_size(&self) -> usize {
        0
    }

    /// Returns how many bytes from the chunk's start are always enough to say where it ends; `None`
    /// where no number is.
    ///
    /// That is the largest chunk size, unless the rule looks beyond a cut-point.
    fn needed_size_max(&self) -> Option<usize> {
        self.chunk_size_max()
    }

    /// Returns the size in bytes that no chunk is smaller than, but for the last of a stream.
    fn chunk_size_min(&self) -> usize;

    /// Returns the size in bytes that no chunk is larger than; `None` where there is no limit.
    fn chunk_size_max(&self) -> Option<usize>;
}

macro_rules! forward {
    ($Pointer:ty) => {
        impl<C: Chunker + ?Sized> Chunker for $Pointer {
            fn next_cut(&self, data: &[u8], more: bool) -> Option<usize> {
                (**self).next_cut(data, more)
            }

            fn next_cut_after(&self, before: &[u8], data: &[u8], more: bool) -> Option<usize> {
                (**self).next_cut_after(before, data, more)
            }

            fn context_size(&self) -> usize {
                (**self).context_size()
            }

            fn needed_size_max(&self) -> Option<usize> {
                (**self).needed_size_max()
            }

            fn chunk_size_min(&self) -> usize {
                (**self).chunk_size_min()
            }

            fn chunk_size_max(&self) -> Option<usize> {
                (**self).chunk_size_max()
            }
        }
    };
}

forward!(&C);
forward!(Box<C>);

/// Returns the cut-points of `data`, a whole stream: the exclusive end of each chunk, in bytes from
/// the start of `data`, rising. The last is `data.len()`; empty `data` has none.
pub fn cuts<'a>(chunker: &'a dyn Chunker, data: &'a [u8]) -> Cuts<'a> {
    Cuts { chunker, data, offset: 0 }
}

/// The iterator that [`cuts`] returns.
#[derive(Clone, Debug)]
pub struct Cuts<'a> {
    chunker: &'a dyn Chunker,
    data: &'a [u8],
    offset: usize,
}

impl Iterator for Cuts<'_> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        let (before, rest) = self.data.split_at(self.offset);
        if rest.is_empty() {
            return None;
        }
        let cut = self.chunker.next_cut_after(before, rest, false);
        debug_assert!(
            cut.is_some_and(|cut| (1..=rest.len()).contains(&cut)),
            "{:?} cut {} bytes at {cut:?}",
            self.chunker,
            rest.len()
        );
        self.offset += cut.unwrap_or(rest.len());
        Some(self.offset)
    }
}

impl FusedIterator for Cuts<'_> {}
