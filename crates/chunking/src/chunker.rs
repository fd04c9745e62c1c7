//! The contract of every algorithm, and cutting a buffer by it.

use std::fmt::Debug;
use std::iter::FusedIterator;

/// A rule that says where a chunk ends.
///
/// A cut-point is the *exclusive* end of a chunk, in bytes from the chunk's start: the byte at a
/// cut-point is the first of the next chunk. A chunker has no state that a call would leave behind;
/// what it answers depends on the bytes since the last cut-point only, so one value may serve any
/// number of streams and threads.
pub trait Chunker: Send + Sync + Debug {
    /// Returns the first cut-point of `data`, which is how many bytes the chunk has that begins with
    /// `data[0]`; at most `data.len()`.
    ///
    /// `more` says whether bytes follow `data`. `None` means that the rule cannot tell before it
    /// sees more of them, and is returned only when `more`. Given [`chunk_size_max`] bytes or more
    /// the answer is always `Some`. For empty `data` it is `None`.
    ///
    /// An answer is final: with more bytes behind `data` it would be the same. After `None`, a call
    /// with more bytes looks at all of them again, so give a slow source's bytes in portions that
    /// grow, or wait for [`chunk_size_max`] of them as [`Chunks`](crate::Chunks) does.
    ///
    /// [`chunk_size_max`]: Chunker::chunk_size_max
    fn next_cut(&self, data: &[u8], more: bool) -> Option<usize>;

    /// Returns the size in bytes that no chunk is smaller than, but for the last of a stream.
    fn chunk_size_min(&self) -> usize;

    /// Returns the size in bytes that no chunk is larger than; `None` where there is no limit.
    fn chunk_size_max(&self) -> Option<usize>;
}

impl<C: Chunker + ?Sized> Chunker for &C {
    fn next_cut(&self, data: &[u8], more: bool) -> Option<usize> {
        (**self).next_cut(data, more)
    }

    fn chunk_size_min(&self) -> usize {
        (**self).chunk_size_min()
    }

    fn chunk_size_max(&self) -> Option<usize> {
        (**self).chunk_size_max()
    }
}

impl<C: Chunker + ?Sized> Chunker for Box<C> {
    fn next_cut(&self, data: &[u8], more: bool) -> Option<usize> {
        (**self).next_cut(data, more)
    }

    fn chunk_size_min(&self) -> usize {
        (**self).chunk_size_min()
    }

    fn chunk_size_max(&self) -> Option<usize> {
        (**self).chunk_size_max()
    }
}

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
        let rest = &self.data[self.offset..];
        if rest.is_empty() {
            return None;
        }
        let cut = self.chunker.next_cut(rest, false);
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
