//! The buffer for the bytes of a stream that were received and not yet returned as chunks.

use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use crate::Chunker;

/// The minimum number of bytes that the buffer of a reader can take beyond one largest chunk.
#[cfg(feature = "std")]
const READ_SIZE: usize = 256 * 1024;

/// The minimum number of bytes that are looked at together if a search continues.
const PIECE_SIZE: usize = 4096;

/// The same for a rule that cuts many chunks at once: four tiles of 64 rows, because each row begins
/// by reading a window, which takes up to a tile.
const BATCHED_PIECE_SIZE: usize = 4 * 4096;

/// The maximum size of a slice that is copied as a whole, in bytes, for such a rule. The bytes that
/// continue a chunk and those behind it are then searched together.
const COPIED_SIZE_MAX: usize = 64 * 1024;

/// A single buffer through which a stream passes.
pub(crate) struct Window {
    /// `buffer[start..end]` are the bytes in the window. Before them are bytes that were already
    /// returned, at least `context_size` of them if there were that many.
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// The offset of `start` in the stream, in bytes.
    offset: u64,
    /// Set if no more bytes follow.
    is_ended: bool,
    /// The minimum number of bytes in the window at which the chunker is asked before the stream
    /// has ended.
    wanted: usize,
    /// The initial value of `wanted` for a new chunk.
    wanted_first: usize,
    wanted_max: usize,
    context_size: usize,
    /// The sizes of the chunks from `start` on that were found and not yet returned.
    sizes: VecDeque<usize>,
    /// The ends of these chunks while they are searched.
    ends: Vec<usize>,
    /// Set if the chunker prefers to cut many chunks at once.
    is_batched: bool,
    /// Set if the chunker can continue a search.
    resumes: bool,
    /// The number of bytes behind the chunks that were found in which the chunker found no end; 0 if
    /// it was not asked or cannot continue.
    known: usize,
    /// Set if a search that continues is for many chunks at once.
    continues_batches: bool,
    /// Set if the chunker is to be asked with the bytes in the window, however few.
    asks: bool,
}

/// The next step of a stream.
pub(crate) enum Step {
    /// A chunk, as its range for [`Window::bytes`]; it counts as returned.
    Chunk(Range<usize>),
    /// More bytes are needed, or the message that there are none.
    Need,
    /// The stream has ended, and all chunks were returned.
    Ended,
}

impl Window {
    /// Creates an empty window for a new stream. The chunker is asked about a chunk once the window
    /// holds `wanted_first` bytes, or the number of bytes that the chunker ever needs or wants at
    /// once if that is smaller.
    pub(crate) fn new(chunker: &impl Chunker, wanted_first: usize, capacity: usize) -> Window {
        let wanted_max = chunker.needed_size_max().unwrap_or(usize::MAX);
        let wanted_first = wanted_first.clamp(1, wanted_max.max(chunker.batch_size()).max(1));
        Window {
            buffer: vec![0; capacity],
            start: 0,
            end: 0,
            offset: 0,
            is_ended: false,
            wanted: wanted_first,
            wanted_first,
            wanted_max,
            context_size: chunker.context_size(),
            sizes: VecDeque::new(),
            ends: Vec::new(),
            is_batched: chunker.batch_size() > 0,
            resumes: chunker.resumes(),
            known: 0,
            continues_batches: false,
            asks: false,
        }
    }

    /// Creates an empty window for slices that are pushed.
    pub(crate) fn for_pushing(chunker: &impl Chunker) -> Window {
        let first = chunker.chunk_size_min().saturating_add(1);
        if chunker.batch_size() == 0 || !chunker.resumes() {
            return Window::new(chunker, first, 0);
        }
        let wanted_max = chunker.needed_size_max().unwrap_or(usize::MAX);
        let wanted_first = first.saturating_add(BATCHED_PIECE_SIZE).min(wanted_max);
        Window { continues_batches: true, ..Window::new(chunker, wanted_first, 0) }
    }

    /// Creates an empty window for a stream that is read into [`Window::room`].
    #[cfg(feature = "std")]
    pub(crate) fn for_reading(chunker: &impl Chunker) -> Window {
        let batch_size = chunker.batch_size();
        // Room beyond the bytes that are looked at, or all of them would move for each chunk.
        let asked_size = chunker.needed_size_max().unwrap_or(READ_SIZE);
        let capacity = asked_size.saturating_add(READ_SIZE.max(batch_size));
        Window::new(chunker, asked_size.max(batch_size), capacity)
    }

    /// Starts another stream.
    pub(crate) fn restart(&mut self) {
        (self.start, self.end, self.offset, self.is_ended) = (0, 0, 0, false);
        self.wanted = self.wanted_first;
        (self.known, self.asks) = (0, false);
        self.sizes.clear();
    }

    /// Returns the number of bytes returned as chunks.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the number of bytes in the window.
    pub(crate) fn len(&self) -> usize {
        self.end - self.start
    }

    /// Returns the number of bytes still needed before [`Window::step`] asks the chunker.
    pub(crate) fn lacking(&self) -> usize {
        if self.asks { 0 } else { self.wanted.saturating_sub(self.len()) }
    }

    /// Returns the number of bytes to take from a slice of `size` bytes before [`Window::step`].
    pub(crate) fn portion(&self, size: usize) -> usize {
        if !self.continues_batches {
            size.min(self.lacking())
        } else if size <= COPIED_SIZE_MAX {
            size
        } else {
            // A chunk that has become long is likely to become longer still.
            size.min(self.lacking().max(self.known / 2))
        }
    }

    /// Lets the chunker be asked with the bytes in the window, however few.
    pub(crate) fn ask(&mut self) {
        self.asks = self.len() > 0;
    }

    /// Returns `true` if no more bytes follow.
    #[cfg(feature = "std")]
    pub(crate) fn is_ended(&self) -> bool {
        self.is_ended
    }

    /// Marks the end of the stream.
    pub(crate) fn end(&mut self) {
        self.is_ended = true;
    }

    /// Returns the bytes of a chunk from [`Window::step`], which stay valid until the window takes
    /// others.
    pub(crate) fn bytes(&self, chunk: Range<usize>) -> &[u8] {
        &self.buffer[chunk]
    }

    /// Returns the next chunk, if its end can be found.
    pub(crate) fn step(&mut self, chunker: &impl Chunker) -> Step {
        if self.sizes.is_empty() {
            if self.lacking() > 0 && !self.is_ended {
                return Step::Need;
            }
            if self.len() == 0 {
                return Step::Ended;
            }
            self.find(chunker);
        }
        let size = match self.sizes.pop_front() {
            Some(size) => size,
            None if self.is_ended => self.len(),
            None => {
                self.asked(if self.continues_batches { self.known } else { self.len() });
                return Step::Need;
            }
        };
        let chunk = self.start..self.start + size;
        self.start = chunk.end;
        self.offset += size as u64;
        self.wanted = self.wanted_first;
        if self.continues_batches {
            let wanted = self.known.saturating_add(BATCHED_PIECE_SIZE);
            self.wanted = self.wanted.max(wanted.min(self.wanted_max));
        } else {
            self.known = 0;
        }
        Step::Chunk(chunk)
    }

    /// Asks the chunker for the next chunk, or for all chunks whose ends it can find.
    fn find(&mut self, chunker: &impl Chunker) {
        let context = self.start.saturating_sub(self.context_size);
        let (data, start) = (&self.buffer[context..self.end], self.start - context);
        let more = !self.is_ended;
        self.asks = false;
        self.ends.clear();
        let ends = &mut self.ends;
        if self.continues_batches {
            self.known = chunker.next_cuts_again(data, start, more, self.known, ends);
        } else if self.known > 0 {
            let (before, rest) = data.split_at(start);
            self.sizes.extend(chunker.next_cut_again(before, rest, more, self.known));
        } else if self.is_batched {
            chunker.next_cuts(data, start, more, ends);
        } else {
            let (before, rest) = data.split_at(start);
            self.sizes.extend(chunker.next_cut_after(before, rest, more));
        }
        let starts = core::iter::once(start).chain(self.ends.iter().copied());
        self.sizes.extend(self.ends.iter().zip(starts).map(|(end, start)| end - start));
    }

    /// Records that the chunker cannot find the end in the bytes of the window, and need not search
    /// the first `known` bytes again.
    pub(crate) fn asked(&mut self, known: usize) {
        let size = self.len();
        let wanted = if self.resumes && size > 0 {
            self.known = known;
            let piece_size = if self.continues_batches { BATCHED_PIECE_SIZE } else { PIECE_SIZE };
            known.saturating_add(piece_size)
        } else {
            // Double the number, so that no byte is looked at more than a few times.
            size.saturating_mul(2)
        };
        let wanted = wanted.max(self.wanted_first);
        self.wanted = wanted.min(self.wanted_max).max(size + 1);
    }

    /// Makes room for the lacking bytes, and returns all the room behind the present ones; it is
    /// not empty.
    #[cfg(feature = "std")]
    pub(crate) fn room(&mut self) -> &mut [u8] {
        let needed = self.len() + self.lacking().max(1);
        if self.start + needed > self.buffer.len() {
            // Fewer than `wanted` bytes move, and only after most of the buffer was returned as
            // chunks.
            let kept = self.start - self.context_size.min(self.start);
            self.buffer.copy_within(kept..self.end, 0);
            (self.start, self.end) = (self.start - kept, self.end - kept);
            if self.start + needed > self.buffer.len() {
                self.buffer.resize(self.start + needed, 0);
            }
        }
        &mut self.buffer[self.end..]
    }

    /// Records that the first `size` bytes of [`Window::room`] were filled.
    #[cfg(feature = "std")]
    pub(crate) fn filled(&mut self, size: usize) {
        self.end += size;
    }

    /// Appends bytes to the window.
    pub(crate) fn take(&mut self, data: &[u8]) {
        if self.buffer.len() - self.end < data.len() {
            // Bytes move only if at least as many were returned as chunks, so that each byte moves
            // about once.
            let kept = self.start - self.context_size.min(self.start);
            if kept >= self.end - kept {
                self.buffer.copy_within(kept..self.end, 0);
                (self.start, self.end) = (self.start - kept, self.end - kept);
            }
            let needed = self.end + data.len();
            if needed > self.buffer.len() {
                self.buffer.resize(needed.max(2 * self.buffer.len()), 0);
            }
        }
        self.buffer[self.end..self.end + data.len()].copy_from_slice(data);
        self.end += data.len();
    }

    /// Takes bytes that are before the next chunk, as context. The window must be empty.
    #[cfg(feature = "std")]
    pub(crate) fn take_context(&mut self, before: &[u8]) {
        self.take(before);
        self.start = self.end;
    }

    /// Drops the bytes in the window, which the caller returns itself. Returns the number of bytes
    /// that it need not search again.
    pub(crate) fn clear(&mut self) -> usize {
        (self.start, self.end) = (0, 0);
        self.wanted = self.wanted_first;
        self.asks = false;
        core::mem::take(&mut self.known)
    }

    /// Counts `size` bytes that were returned without passing through the window, which is empty.
    pub(crate) fn passed(&mut self, size: usize) {
        self.offset += size as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Spec;

    /// However long a stream is, the room is for the held bytes and as many again, not for the
    /// stream.
    #[test]
    fn room_is_bounded_by_held_bytes() {
        // Up to 9 bytes of a chunk; for a hash that is carried on, also the 63 bytes before it.
        for (text, held) in [("fixed:size=10", 9), ("gear:bits=6,start=carry,max=10", 9 + 63)] {
            let spec: Spec = text.parse().expect("the spec is right");
            let chunker = spec.chunker();
            let mut window = Window::new(&chunker, 1, 0);
            for byte in 0..=255 {
                window.take(&[byte; 7]);
                while let Step::Chunk(_) = window.step(&chunker) {}
                assert!(window.buffer.len() <= 2 * (2 * held + 7), "{text}: {byte}");
            }
        }
    }

    #[test]
    fn room_doubles() {
        let spec: Spec = "fixed:size=5000".parse().expect("the spec is right");
        let mut window = Window::new(&spec.chunker(), 1, 0);
        for (size, room) in [(1000, 1000), (1, 2000), (999, 2000), (1, 4000)] {
            window.take(&[0; 1000][..size]);
            assert_eq!(window.buffer.len(), room, "{size} bytes more");
        }
    }
}
