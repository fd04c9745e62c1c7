//! Every way to feed data to a chunker.

use std::io::{self, Read};
use std::ops::ControlFlow;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use cutpoint_chunking::{Chunker, Chunks, Push, cuts};
use cutpoint_testing::SplitMix64;
use futures_io::AsyncRead;

/// The way in which [`fed_cuts`] feeds a chunker; the last number is a seed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Feed {
    /// The rest of the stream at once.
    Whole,
    /// `next_cut` with a growing number of bytes, by at most this number each time; by one if 1.
    Slices(usize, u64),
    /// `next_cut`, then `next_cut_again` with a growing number of bytes, by at most this number each
    /// time.
    Again(usize, u64),
    /// `next_cuts` with a growing number of bytes, by at most this number each time.
    Batches(usize, u64),
    /// `next_cuts_again` with a growing number of bytes, by at most this number each time.
    BatchesAgain(usize, u64),
    /// `Chunks` over a reader that returns at most this number of bytes each time.
    Reader(usize, u64),
    /// `Push` with slices of at most this number of bytes.
    Push(usize, u64),
    /// `Push` with slices of at most this number of bytes, stopped now and then.
    Stopped(usize, u64),
    /// `Chunks` over an `AsyncRead` that returns at most this number of bytes each time, and is
    /// pending now and then; the future is then dropped.
    Async(usize, u64),
}

impl Feed {
    /// All ways, with sizes that suit data of a few chunks or of many.
    pub(crate) const ALL: [Feed; 14] = [
        Feed::Whole,
        Feed::Slices(3_000, 1),
        Feed::Slices(100_000, 2),
        Feed::Reader(1, 3),
        Feed::Reader(5_000, 4),
        Feed::Reader(1 << 20, 5),
        Feed::Push(1, 6),
        Feed::Push(20_000, 7),
        Feed::Async(5_000, 8),
        Feed::Batches(60_000, 9),
        Feed::Again(1, 10),
        Feed::Again(700, 11),
        Feed::Stopped(9_000, 12),
        Feed::BatchesAgain(20_000, 13),
    ];

    /// The faster ways, for data of megabytes.
    pub(crate) const LARGE: [Feed; 4] =
        [Feed::Whole, Feed::Reader(50_000, 4), Feed::Push(70_000, 7), Feed::Push(30_000, 8)];
}

/// Returns the cut-points of `data`, fed by `feed`.
pub(crate) fn fed_cuts(chunker: &dyn Chunker, data: &[u8], feed: Feed) -> Vec<usize> {
    let random = SplitMix64::new;
    match feed {
        Feed::Whole => cuts(chunker, data).collect(),
        Feed::Slices(size_max, seed) => {
            cuts_of_slices(chunker, data, size_max, random(seed), false)
        }
        Feed::Again(size_max, seed) => cuts_of_slices(chunker, data, size_max, random(seed), true),
        Feed::Batches(size_max, seed) => {
            cuts_of_batches(chunker, data, size_max, random(seed), false)
        }
        Feed::BatchesAgain(size_max, seed) => {
            cuts_of_batches(chunker, data, size_max, random(seed), true)
        }
        Feed::Push(size_max, seed) => cuts_of_push(chunker, data, size_max, random(seed), false),
        Feed::Stopped(size_max, seed) => cuts_of_push(chunker, data, size_max, random(seed), true),
        Feed::Reader(size_max, seed) => {
            cuts_of_reader(chunker, Portions { data, size_max, random: random(seed) })
        }
        Feed::Async(size_max, seed) => {
            cuts_of_async(chunker, Portions { data, size_max, random: random(seed) })
        }
    }
}

/// Implements [`Feed::Slices`], and [`Feed::Again`] if `is_again` is set.
fn cuts_of_slices(
    chunker: &dyn Chunker,
    data: &[u8],
    size_max: usize,
    mut random: SplitMix64,
    is_again: bool,
) -> Vec<usize> {
    let mut ends = Vec::new();
    let (mut start, mut end) = (0, 0);
    let mut known = None;
    while start < data.len() {
        let more = end < data.len();
        let (before, rest) = (&data[..start], &data[start..end]);
        let cut = match known.filter(|_| is_again) {
            None => chunker.next_cut_after(before, rest, more),
            Some(known) => chunker.next_cut_again(before, rest, more, known),
        };
        known = cut.is_none().then_some(rest.len());
        match cut {
            Some(cut) => {
                assert!(0 < cut && cut <= end - start, "cut {cut} of {}", end - start);
                start += cut;
                ends.push(start);
            }
            None => {
                assert!(more, "no cut-point in the last {} bytes", end - start);
                let max = chunker.needed_size_max();
                assert!(max.is_none_or(|max| end - start < max), "no cut-point by max");
                end = data.len().min(end + 1 + random.below(size_max));
            }
        }
    }
    ends
}

/// Implements [`Feed::Batches`], and [`Feed::BatchesAgain`] if `is_again` is set.
fn cuts_of_batches(
    chunker: &dyn Chunker,
    data: &[u8],
    size_max: usize,
    mut random: SplitMix64,
    is_again: bool,
) -> Vec<usize> {
    let mut ends = Vec::new();
    let (mut start, mut end, mut known) = (0, 0, 0);
    while start < data.len() {
        end = data.len().min(end + 1 + random.below(size_max));
        let more = end < data.len();
        loop {
            let count = ends.len();
            if is_again {
                known = chunker.next_cuts_again(&data[..end], start, more, known, &mut ends);
                let last = ends.last().copied().unwrap_or(0);
                assert!(known <= end - last, "{known} bytes known behind {last} of {end}");
            } else {
                chunker.next_cuts(&data[..end], start, more, &mut ends);
            }
            if ends.len() == count {
                break;
            }
            start = ends[ends.len() - 1];
        }
        let max = chunker.needed_size_max();
        assert!(max.is_none_or(|max| end - start < max), "no cut-point by max");
        assert!(more || start == data.len(), "no cut-point in the last bytes");
    }
    ends
}

/// Implements [`Feed::Reader`].
fn cuts_of_reader(chunker: &dyn Chunker, portions: Portions<'_>) -> Vec<usize> {
    let data = portions.data;
    let mut chunks = Chunks::new(chunker, portions);
    let mut ends = Vec::new();
    let mut offset = 0;
    while let Some(chunk) = chunks.next().expect("the reader does not fail") {
        assert_eq!(chunk, &data[offset..offset + chunk.len()], "bytes at {offset}");
        offset += chunk.len();
        ends.push(offset);
        assert_eq!(chunks.offset(), offset as u64, "offset");
    }
    ends
}

/// Implements [`Feed::Push`], and [`Feed::Stopped`] if `is_stopped` is set.
fn cuts_of_push(
    chunker: &dyn Chunker,
    data: &[u8],
    size_max: usize,
    mut random: SplitMix64,
    is_stopped: bool,
) -> Vec<usize> {
    let mut push = Push::new(chunker);
    let (mut ends, mut offset, mut end) = (Vec::new(), 0, 0);
    let mut stops = random.clone();
    let mut each = |chunk: &[u8]| {
        assert_eq!(chunk, &data[offset..offset + chunk.len()], "bytes at {offset}");
        offset += chunk.len();
        ends.push(offset);
        let stops = is_stopped && stops.below(3) == 0;
        if stops { ControlFlow::Break(offset) } else { ControlFlow::Continue(()) }
    };
    while end < data.len() {
        let size = random.below(size_max + 1).min(data.len() - end);
        let mut flow = push.push_until(&data[end..end + size], &mut each);
        end += size;
        while let ControlFlow::Break(stopped_at) = flow {
            assert_eq!(push.offset(), stopped_at as u64, "the end of the last chunk");
            // Some of the bytes are left for a later push.
            flow = if random.below(2) == 0 {
                push.push_until(&[], &mut each)
            } else {
                ControlFlow::Continue(())
            };
        }
        let handed_out = usize::try_from(push.offset()).expect("it is small");
        assert_eq!(handed_out + push.buffered_bytes(), end, "bytes handed out and held");
        let max = chunker.needed_size_max();
        let is_held = max.is_none_or(|max| push.buffered_bytes() < max);
        assert!(is_held || is_stopped, "more is held than max");
    }
    push.finish(|chunk| _ = each(chunk));
    assert_eq!(push.buffered_bytes(), 0, "bytes held in the end");
    ends
}

/// Implements [`Feed::Async`].
fn cuts_of_async(chunker: &dyn Chunker, portions: Portions<'_>) -> Vec<usize> {
    let data = portions.data;
    let mut chunks = Chunks::new(chunker, portions);
    let mut context = Context::from_waker(Waker::noop());
    let (mut ends, mut offset) = (Vec::new(), 0);
    loop {
        // Each poll has a new future: the previous one was dropped while it was pending.
        match std::pin::pin!(chunks.next_async()).poll(&mut context) {
            Poll::Pending => continue,
            Poll::Ready(Ok(Some(chunk))) => {
                assert_eq!(chunk, &data[offset..offset + chunk.len()], "bytes at {offset}");
                offset += chunk.len();
                ends.push(offset);
            }
            Poll::Ready(Ok(None)) => return ends,
            Poll::Ready(Err(error)) => panic!("the reader does not fail, but {error}"),
        }
    }
}

/// A reader that returns random portions, and is interrupted now and then.
struct Portions<'a> {
    data: &'a [u8],
    size_max: usize,
    random: SplitMix64,
}

impl Read for Portions<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        assert!(!buffer.is_empty(), "a read into nothing looks like the end");
        if self.random.below(50) == 0 {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let size = (1 + self.random.below(self.size_max)).min(buffer.len());
        self.data.read(&mut buffer[..size])
    }
}

impl AsyncRead for Portions<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        if self.random.below(3) == 0 {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(self.read(buffer))
    }
}
