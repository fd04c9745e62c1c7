//! The bytes of a stream that were taken and not yet handed out, and what becomes of them.

use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use crate::Chunker;

/// One buffer that a stream passes through.
pub(crate) struct Window {
    /// `buffer[start..end]` are the bytes in the window; before them are those that were handed out,
    /// at least `context_size` of them if there were so many.
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Where `start` is in the stream, in bytes.
    offset: u64,
    /// No more bytes come.
    is_ended: bool,
    /// The chunker is not asked before so many bytes are in the window, or the stream has ended.
    wanted: usize,
    /// What `wanted` is for a new chunk.
    wanted_first: usize,
    wanted_max: usize,
    context_size: usize,
    /// The sizes of the chunks from `start` on that were found and not yet handed out.
    sizes: VecDeque<usize>,
    /// Whether the chunker would rather cut many chunks at once.
    is_batched: bool,
}

/// What comes next.
pub(crate) enum Step {
    /// A chunk, where it lies in [`Window::bytes`]; it is handed out.
    Chunk(Range<usize>),
    /// More bytes are needed, or word that none come.
    Need,
    /// The stream has ended, and everything is handed out.
    Ended,
}

impl Window {
    /// Makes an empty window for a new stream, which asks the chunker about a chunk as soon as it
    /// holds `wanted_first` bytes, or as many as the chunker ever needs or wants at once if these are
    /// fewer.
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
            is_batched: chunker.batch_size() > 0,
        }
    }

    /// Begins another stream.
    pub(crate) fn restart(&mut self) {
        (self.start, self.end, self.offset, self.is_ended) = (0, 0, 0, false);
        self.wanted = self.wanted_first;
        self.sizes.clear();
    }

    /// The number of bytes handed out.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// The number of bytes in the window.
    pub(crate) fn len(&self) -> usize {
        self.end - self.start
    }

    /// How many bytes more are needed for [`Window::step`] to ask the chunker.
    pub(crate) fn lacking(&self) -> usize {
        self.wanted.saturating_sub(self.len())
    }

    /// Whether no more bytes come.
    #[cfg(feature = "std")]
    pub(crate) fn is_ended(&self) -> bool {
        self.is_ended
    }

    /// Says that no more bytes come.
    pub(crate) fn end(&mut self) {
        self.is_ended = true;
    }

    /// The bytes of a chunk that [`Window::step`] gave, until the window takes others.
    pub(crate) fn bytes(&self, chunk: Range<usize>) -> &[u8] {
        &self.buffer[chunk]
    }

    /// Hands out the next chunk, if it can be told.
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
                self.asked();
                return Step::Need;
            }
        };
        let chunk = self.start..self.start + size;
        self.start = chunk.end;
        self.offset += size as u64;
        self.wanted = self.wanted_first;
        Step::Chunk(chunk)
    }

    /// Asks the chunker for the next chunk, or for all that it can tell.
    fn find(&mut self, chunker: &impl Chunker) {
        let context = self.start.saturating_sub(self.context_size);
        let (data, start) = (&self.buffer[context..self.end], self.start - context);
        let more = !self.is_ended;
        if self.is_batched {
            let mut ends = Vec::new();
            chunker.next_cuts(data, start, more, &mut ends);
            let starts = core::iter::once(start).chain(ends.iter().copied());
            self.sizes.extend(ends.iter().zip(starts).map(|(end, start)| end - start));
        } else {
            let (before, rest) = data.split_at(start);
            self.sizes.extend(chunker.next_cut_after(before, rest, more));
        }
    }

    /// Says that the chunker cannot tell by the bytes in the window.
    pub(crate) fn asked(&mut self) {
        let size = self.len();
        // Twice as many, so that no byte is looked at more than a few times.
        let wanted = size.saturating_mul(2).max(self.wanted_first);
        self.wanted = wanted.min(self.wanted_max).max(size + 1);
    }

    /// Makes room for what is lacking, and returns all the room behind the bytes; it is not empty.
    #[cfg(feature = "std")]
    pub(crate) fn room(&mut self) -> &mut [u8] {
        let needed = self.len() + self.lacking().max(1);
        if self.start + needed > self.buffer.len() {
            // Less than `wanted` bytes move, and only after most of the buffer was handed out.
            let kept = self.start - self.context_size.min(self.start);
            self.buffer.copy_within(kept..self.end, 0);
            (self.start, self.end) = (self.start - kept, self.end - kept);
            if self.start + needed > self.buffer.len() {
                self.buffer.resize(self.start + needed, 0);
            }
        }
        &mut self.buffer[self.end..]
    }

    /// Says that the first `size` bytes of [`Window::room`] were filled.
    #[cfg(feature = "std")]
    pub(crate) fn filled(&mut self, size: usize) {
        self.end += size;
    }

    /// Takes bytes.
    pub(crate) fn take(&mut self, data: &[u8]) {
        if self.buffer.len() - self.end < data.len() {
            // Bytes move where at least as many were handed out, so that each moves once or so.
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

    /// Forgets the bytes in the window, which somebody else hands out.
    pub(crate) fn clear(&mut self) {
        (self.start, self.end) = (0, 0);
        self.wanted = self.wanted_first;
    }

    /// Says that `size` bytes were handed out past the window, which is empty.
    pub(crate) fn passed(&mut self, size: usize) {
        self.offset += size as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Spec;

    /// However long a stream is, room is taken for what is held and as much again, not for all of it.
    #[test]
    fn room_is_for_what_is_held() {
        // Up to 9 bytes of a chunk; with a hash that is carried on, and the 63 in front of it.
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
