//! The contract of every algorithm, and the cutting of a buffer by it.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt::Debug;
use core::iter::FusedIterator;

use crate::Level;

/// A rule that finds the end of a chunk.
///
/// A cut-point is the *exclusive* end of a chunk, in bytes from the chunk's start: the byte at a
/// cut-point is the first of the next chunk. A chunker keeps no state between calls, so one value
/// may serve any number of streams and threads. Its answers depend only on the bytes since the last
/// cut-point; a few dialects, whose originals carry state over a cut-point, also depend on some
/// bytes before it ([`context_size`]).
///
/// [`context_size`]: Chunker::context_size
pub trait Chunker: Send + Sync + Debug {
    /// Returns the first cut-point of `data`: the size of the chunk that begins at `data[0]`, at
    /// most `data.len()`.
    ///
    /// `more` says that bytes may follow `data`. Returns `None` if `data` is empty or, only if
    /// `more` is set, if the rule cannot find the end without more bytes. Given [`needed_size_max`]
    /// bytes or more, the answer is always `Some`.
    ///
    /// An answer is final: it is the same whatever follows `data`, even if nothing does. After
    /// `None`, a call with more bytes looks at all of them again. For a slow source, either let the
    /// portions grow, or wait for [`needed_size_max`] bytes as [`Chunks`](crate::Chunks) does.
    ///
    /// [`needed_size_max`]: Chunker::needed_size_max
    fn next_cut(&self, data: &[u8], more: bool) -> Option<usize>;

    /// Returns the first cut-point of `data`, for a chunk that does not begin the stream. `before`
    /// holds the bytes in front of `data`: at least the last
    /// [`context_size`](Chunker::context_size) of them, or all there are.
    ///
    /// If `context_size` is 0, as it is for nearly all rules, this is
    /// [`next_cut`](Chunker::next_cut).
    fn next_cut_after(&self, before: &[u8], data: &[u8], more: bool) -> Option<usize> {
        let _ = before;
        self.next_cut(data, more)
    }

    /// Returns what [`next_cut_after`](Chunker::next_cut_after) returns, after a call with the first
    /// `known` bytes of `data`, and with `more` set, has returned `None`.
    ///
    /// A rule that can continue there implements it, and announces it by
    /// [`resumes`](Chunker::resumes). Otherwise all bytes are looked at again.
    fn next_cut_again(
        &self,
        before: &[u8],
        data: &[u8],
        more: bool,
        known: usize,
    ) -> Option<usize> {
        let _ = known;
        self.next_cut_after(before, data, more)
    }

    /// Returns `true` if [`next_cut_again`](Chunker::next_cut_again) looks at little more than the
    /// bytes behind the known ones.
    fn resumes(&self) -> bool {
        false
    }

    /// Returns the number of bytes before a chunk on which its end depends; 0 unless the rule keeps
    /// state over a cut-point.
    fn context_size(&self) -> usize {
        0
    }

    /// Returns the number of bytes from a chunk's start that always suffice to find its end; `None`
    /// if no number does.
    ///
    /// This is the maximum chunk size, unless the rule looks beyond a cut-point.
    fn needed_size_max(&self) -> Option<usize> {
        self.chunk_size_max()
    }

    /// Cuts one or more chunks from `data[start]` on, and appends their ends to `ends`: the answers
    /// that [`next_cut_after`] would give one after the other. The ends are in bytes from the start
    /// of `data`. The bytes before `start` serve only as the [`context_size`] bytes of context.
    ///
    /// Cutting stops at the end of the data, and at a chunk whose end cannot be found. If `more` is
    /// set, it may also stop earlier once it has appended something; a call that begins at the last
    /// end then continues. If nothing is appended, the end of the chunk cannot be found.
    ///
    /// A rule with a faster way to cut many chunks than one at a time implements it here, and
    /// announces it by [`batch_size`]. Bytes behind the last end are looked at again when they are
    /// given again, so give many chunks at once.
    ///
    /// [`next_cut_after`]: Chunker::next_cut_after
    /// [`context_size`]: Chunker::context_size
    /// [`batch_size`]: Chunker::batch_size
    fn next_cuts(&self, data: &[u8], start: usize, more: bool, ends: &mut Vec<usize>) {
        cut_one_by_one(self, data, start, more, ends);
    }

    /// Works as [`next_cuts`](Chunker::next_cuts), after a call with the first `known` bytes from
    /// `start` on, and with `more` set, has not found the end of the chunk; `known` is 0 if there was
    /// no call.
    ///
    /// Returns the value of `known` for the next call, which begins at the last end, or again at
    /// `start` if nothing is appended. If `more` is set, the search may stop in front of the last
    /// bytes, even if nothing is appended, and leave them to the next call, which has more of them.
    /// Nevertheless, the end of a chunk is found if
    /// [`needed_size_max`](Chunker::needed_size_max) bytes of it are given.
    ///
    /// The default suits every rule. A rule that cuts many chunks at once, and can continue a search
    /// ([`resumes`](Chunker::resumes)), implements it so that each byte is searched once.
    fn next_cuts_again(
        &self,
        data: &[u8],
        start: usize,
        more: bool,
        known: usize,
        ends: &mut Vec<usize>,
    ) -> usize {
        cut_next_again(self, Batch { data, start, more, ends }, known)
    }

    /// Returns the number of bytes that [`next_cuts`](Chunker::next_cuts) needs at once to be at
    /// its fastest; 0 if cutting one chunk at a time is as fast.
    fn batch_size(&self) -> usize {
        0
    }

    /// Returns the maximum number of bytes that [`next_cuts`](Chunker::next_cuts) can make use of
    /// at once if they are in memory anyway; 0 if cutting one chunk at a time is as fast. [`cuts`]
    /// gives it up to this number.
    fn batch_size_max(&self) -> usize {
        self.batch_size().saturating_mul(BATCH_COUNT)
    }

    /// Returns the level whose code searches for the cut-points: the requested one, or a lower one.
    /// The level does not change the cut-points.
    fn level(&self) -> Level {
        Level::SCALAR
    }

    /// Returns the minimum chunk size in bytes; only the last chunk of a stream may be smaller.
    fn chunk_size_min(&self) -> usize;

    /// Returns the maximum chunk size in bytes; `None` if there is no limit.
    fn chunk_size_max(&self) -> Option<usize>;
}

/// Implements [`Chunker::next_cuts`] for rules that have no faster way.
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

/// Implements [`Chunker::next_cuts_again`] for rules that have no faster way.
pub(crate) fn cut_next_again(
    chunker: &(impl Chunker + ?Sized),
    batch: Batch<'_>,
    known: usize,
) -> usize {
    let Batch { data, start, more, ends } = batch;
    let count = ends.len();
    if known > 0 {
        let (before, rest) = data.split_at(start);
        ends.extend(chunker.next_cut_again(before, rest, more, known).map(|size| start + size));
    } else {
        chunker.next_cuts(data, start, more, ends);
    }
    if ends.len() == count && chunker.resumes() { data.len() - start } else { 0 }
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

            fn next_cut_again(
                &self,
                before: &[u8],
                data: &[u8],
                more: bool,
                known: usize,
            ) -> Option<usize> {
                (**self).next_cut_again(before, data, more, known)
            }

            fn resumes(&self) -> bool {
                (**self).resumes()
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

            fn next_cuts_again(
                &self,
                data: &[u8],
                start: usize,
                more: bool,
                known: usize,
                ends: &mut Vec<usize>,
            ) -> usize {
                (**self).next_cuts_again(data, start, more, known, ends)
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

/// The number of batches that are cut at once if all bytes are in memory. More batches lower the
/// relative cost of the ends of a batch and of starting threads.
pub(crate) const BATCH_COUNT: usize = 4;

/// Appends the end of the chunk that begins at `data[start]`, and the ends of the chunks behind it
/// in about `wanted_size` bytes; only the first end if `wanted_size` is 0. Appends nothing if the
/// chunker cannot find the end, or if no bytes are left.
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
        // The chunk is larger than the bytes given.
        wanted_size = wanted_size.saturating_mul(4);
    }
}

/// The number of bytes that [`cuts`] looks at first if the chunker wants many at once, so that a
/// caller that takes a single end does not wait for thousands.
const FIRST_SIZE: usize = 256 * 1024;

/// Returns the cut-points of `data`, a whole stream, in ascending order: the exclusive end of each
/// chunk, in bytes from the start of `data`. The last is `data.len()`; empty `data` has none.
pub fn cuts<'a>(chunker: &'a dyn Chunker, data: &'a [u8]) -> Cuts<'a> {
    let wanted_size = chunker.batch_size_max().min(chunker.batch_size().max(FIRST_SIZE));
    Cuts { chunker, data, offset: 0, wanted_size, ends: Vec::new(), given_count: 0 }
}

/// An iterator over the cut-points of a buffer, returned by [`cuts`].
#[derive(Clone, Debug)]
pub struct Cuts<'a> {
    chunker: &'a dyn Chunker,
    data: &'a [u8],
    offset: usize,
    /// The number of bytes to cut at once; it grows.
    wanted_size: usize,
    /// The ends that were found last, of which the first `given_count` were returned.
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
