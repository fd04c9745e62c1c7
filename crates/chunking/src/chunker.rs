//! The contract of every algorithm, and cutting a buffer by it.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt::Debug;
use core::iter::FusedIterator;

use crate::Level;

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

    /// Cuts the chunks that begin at `data[start]`, one or many: appends to `ends` what
    /// [`next_cut_after`] would answer for one after the other. The ends are in bytes from the start of
    /// `data`; what is before `start` is there for [`context_size`] only.
    ///
    /// It stops where nothing is left, where there is no answer, and where `more` may follow also before
    /// that, if something was appended: then a call that begins at the last end goes on. Nothing
    /// appended means that there is no answer.
    ///
    /// A rule that has a faster way to cut many chunks than one at a time does it here; it says so by
    /// [`batch_size`]. What is behind the last end is looked at again when it is given again, so give
    /// many chunks at once.
    ///
    /// [`next_cut_after`]: Chunker::next_cut_after
    /// [`context_size`]: Chunker::context_size
    /// [`batch_size`]: Chunker::batch_size
    fn next_cuts(&self, data: &[u8], start: usize, more: bool, ends: &mut Vec<usize>) {
        cut_one_by_one(self, data, start, more, ends);
    }

    /// Returns how many bytes [`next_cuts`](Chunker::next_cuts) wants at once to be at its fastest; 0
    /// where one chunk at a time is as fast.
    fn batch_size(&self) -> usize {
        0
    }

    /// Returns how many bytes [`next_cuts`](Chunker::next_cuts) makes use of at once at most, where they
    /// are in memory anyway; 0 where one chunk at a time is as fast. [`cuts`] gives it so many.
    fn batch_size_max(&self) -> usize {
        self.batch_size().saturating_mul(BATCH_COUNT)
    }

    /// Returns the level whose code looks for the cut-points: the one that was asked for, or one below
    /// it. It has no say in where they are.
    fn level(&self) -> Level {
        Level::SCALAR
    }

    /// Returns the size in bytes that no chunk is smaller than, but for the last of a stream.
    fn chunk_size_min(&self) -> usize;

    /// Returns the size in bytes that no chunk is larger than; `None` where there is no limit.
    fn chunk_size_max(&self) -> Option<usize>;
}

/// What [`Chunker::next_cuts`] does where there is no faster way.
pub(crate) fn cut_one_by_one(
    chunker: &(impl Chunker + ?Sized),
    data: &[u8],
    start: usize,
    more: bool,
    ends: &mut Vec<usize>,
) {
    let mut end = start;
    while end < data.len() {
        let (before, rest) = data.split_at(end);
        let Some(size) = chunker.next_cut_after(before, rest, more) else { return };
        end += size;
        ends.push(end);
    }
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

            fn next_cuts(&self, data: &[u8], start: usize, more: bool, ends: &mut Vec<usize>) {
                (**self).next_cuts(data, start, more, ends);
            }

            fn batch_size(&self) -> usize {
                (**self).batch_size()
            }

            fn batch_size_max(&self) -> usize {
                (**self).batch_size_max()
            }

            fn level(&self) -> Level {
                (**self).level()
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

/// The arguments of [`Chunker::next_cuts`].
pub(crate) struct Batch<'a> {
    pub(crate) data: &'a [u8],
    pub(crate) start: usize,
    pub(crate) more: bool,
    pub(crate) ends: &'a mut Vec<usize>,
}

/// So many batches are cut at once where all bytes are in memory, which weighs the ends of batches, and
/// the start of threads, less.
pub(crate) const BATCH_COUNT: usize = 4;

/// Appends the end of the chunk that begins at `data[start]`, and of those behind it in about
/// `wanted_size` bytes; only that one where `wanted_size` is 0. None if the chunker cannot tell, or
/// nothing is left.
pub(crate) fn next_ends(
    chunker: &dyn Chunker,
    data: &[u8],
    start: usize,
    more: bool,
    mut wanted_size: usize,
    ends: &mut Vec<usize>,
) {
    if wanted_size == 0 {
        let (before, rest) = data.split_at(start);
        ends.extend(chunker.next_cut_after(before, rest, more).map(|size| start + size));
        return;
    }
    let known = ends.len();
    loop {
        let size = data.len().min(start.saturating_add(wanted_size));
        chunker.next_cuts(&data[..size], start, more || size < data.len(), ends);
        if ends.len() > known || size == data.len() {
            return;
        }
        // A chunk that is larger than what was given.
        wanted_size = wanted_size.saturating_mul(4);
    }
}

/// How many bytes [`cuts`] looks at first where many are wanted at once: who takes one end must not wait
/// for thousands.
const FIRST_SIZE: usize = 256 * 1024;

/// Returns the cut-points of `data`, a whole stream: the exclusive end of each chunk, in bytes from
/// the start of `data`, rising. The last is `data.len()`; empty `data` has none.
pub fn cuts<'a>(chunker: &'a dyn Chunker, data: &'a [u8]) -> Cuts<'a> {
    let wanted_size = chunker.batch_size_max().min(chunker.batch_size().max(FIRST_SIZE));
    Cuts { chunker, data, offset: 0, wanted_size, ends: Vec::new(), given_count: 0 }
}

/// The iterator that [`cuts`] returns.
#[derive(Clone, Debug)]
pub struct Cuts<'a> {
    chunker: &'a dyn Chunker,
    data: &'a [u8],
    offset: usize,
    /// How many bytes are cut at once; it grows.
    wanted_size: usize,
    /// What was found last, of which the first `given_count` were returned.
    ends: Vec<usize>,
    given_count: usize,
}

impl Iterator for Cuts<'_> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        if self.offset == self.data.len() {
            return None;
        }
        if self.given_count == self.ends.len() {
            self.ends.clear();
            self.given_count = 0;
            let Cuts { chunker, data, offset, wanted_size, .. } = *self;
            next_ends(chunker, data, offset, false, wanted_size, &mut self.ends);
            self.wanted_size = wanted_size.saturating_mul(4).min(chunker.batch_size_max());
        }
        let end = self.ends.get(self.given_count).copied();
        debug_assert!(
            end.is_some_and(|end| (self.offset + 1..=self.data.len()).contains(&end)),
            "{:?} cut {} bytes from {} on at {end:?}",
            self.chunker,
            self.data.len(),
            self.offset
        );
        self.given_count += 1;
        self.offset = end.unwrap_or(self.data.len());
        Some(self.offset)
    }
}

impl FusedIterator for Cuts<'_> {}
