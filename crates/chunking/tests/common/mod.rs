//! The common part of the tests: data of every kind, and every way to feed a chunker.

#![allow(dead_code, reason = "each test file uses its part")]

#[path = "../cases/mod.rs"]
pub(crate) mod cases;
pub(crate) mod fuzzing;
pub(crate) mod vectors;

use std::io::{self, Read};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

use cutpoint_chunking::{Chunker, Chunks, KeyMaterial, Level, Push, Spec, cuts};
use cutpoint_testing::{SplitMix64, input};
use futures_io::AsyncRead;

/// Returns the cut-points of `data` by the reference of the written-out `spec`.
pub(crate) fn reference_cuts(spec: &Spec, data: &[u8]) -> Vec<usize> {
    let cuts = cutpoint_oracle::cuts(&spec.to_string(), data);
    cuts.unwrap_or_else(|| panic!("{} has no reference", spec.algorithm()))
}

/// Returns the key material of a seed.
pub(crate) fn key_material(seed: u64) -> KeyMaterial {
    let bytes = SplitMix64::bytes(seed, KeyMaterial::SIZE);
    KeyMaterial::new(bytes.try_into().expect("the size is asked for"))
}

/// Returns data of `size` bytes of each kind that may trip a rule.
pub(crate) fn kinds(size: usize, seed: u64) -> Vec<(&'static str, Vec<u8>)> {
    let mut random = SplitMix64::new(seed);
    let noise = random.take(size);
    let slow = (0..size).map(|i| noise[i / 5]).collect();
    let few = noise.iter().map(|byte| byte & 1).collect();
    let signs = noise.iter().map(|byte| 127 + (byte & 1)).collect();
    // Long runs with rare ends: a trigger is reached seldom, and counts cross many blocks.
    let rare = noise.iter().scan(0u8, |last, &byte| {
        *last = match byte {
            0..=2 => last.wrapping_add(1),
            3..=9 => last.saturating_sub(1),
            _ => *last,
        };
        Some(*last)
    });
    let mut falling = input::saw(size);
    falling.reverse();
    // Zeros between noise, with a random start and a random end.
    let mut holes = noise.clone();
    let hole = random.below(size + 1)..;
    let hole_size = random.below(size - hole.start + 1);
    holes[hole][..hole_size].fill(0);
    vec![
        ("rare changes", rare.collect()),
        ("noise", noise),
        ("noise with a hole", holes),
        ("each byte five times", slow),
        ("two values", few),
        ("127 and 128", signs),
        ("rising", input::saw(size)),
        ("falling", falling),
        ("text", input::repeated(&input::text(3000), size)),
        ("zeros", vec![0; size]),
        ("255", vec![255; size]),
    ]
}

/// Returns the sizes around `edges`, and 0 and 1.
pub(crate) fn sizes_around(edges: &[usize]) -> Vec<usize> {
    let mut sizes = vec![0, 1];
    for &edge in edges {
        sizes.extend(edge.saturating_sub(3)..=edge + 3);
    }
    sizes
}

/// Checks that `spec` cuts `data` like its reference, however the data is fed and on every level.
pub(crate) fn check(spec: &Spec, name: &str, data: &[u8]) {
    let expected = reference_cuts(spec, data);
    let name = format!("{spec}, {} bytes of {name}", data.len());
    check_cuts(&*spec.chunker(), &name, data, &expected);
    check_levels(|level| spec.chunker_at(level), &name, data, &expected);
}

/// Checks that every level for which a rule has code cuts `data` as expected.
pub(crate) fn check_levels(
    chunker_at: impl Fn(Level) -> Box<dyn Chunker>,
    name: &str,
    data: &[u8],
    expected: &[usize],
) {
    for level in Level::available().into_iter().chain([Level::EMULATED]) {
        let chunker = chunker_at(level);
        if chunker.level() == level {
            for feed in [Feed::Whole, Feed::Batches(1 + data.len() / 3, 7)] {
                let ends = fed_cuts(&*chunker, data, feed);
                assert!(
                    ends == expected,
                    "{name}, at level {}, fed by {feed:?}: {} and {} cut-points, first difference: {:?}",
                    level.name(),
                    ends.len(),
                    expected.len(),
                    ends.iter().zip(expected).find(|(ours, theirs)| ours != theirs)
                );
            }
        }
    }
}

/// Checks that `chunker` cuts `data` as expected, however the data is fed.
pub(crate) fn check_cuts(chunker: &dyn Chunker, name: &str, data: &[u8], expected: &[usize]) {
    // Byte by byte, unless that takes too long.
    let small = 1 + data.len() / 3000;
    for feed in [
        Feed::Whole,
        Feed::Slices(small, 1),
        Feed::Slices(200 * small, 2),
        Feed::Batches(1000 * small, 8),
        Feed::Reader(300 * small, 3),
        Feed::Push(small, 4),
        Feed::Push(500 * small, 5),
        Feed::Async(200 * small, 6),
    ] {
        let ends = fed_cuts(chunker, data, feed);
        let first = ends.iter().zip(expected).position(|(ours, theirs)| ours != theirs);
        assert!(
            ends == expected,
            "{name}, fed by {feed:?}: {} and {} cut-points, first difference: {:?}",
            ends.len(),
            expected.len(),
            first.map(|index| (index, ends[index], expected[index]))
        );
    }
    check_invariants(chunker, data, expected);
}

/// The way in which [`fed_cuts`] feeds a chunker; the last number is a seed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Feed {
    /// The rest of the stream at once.
    Whole,
    /// `next_cut` with a growing number of bytes, by at most this number each time; by one if 1.
    Slices(usize, u64),
    /// `next_cuts` with a growing number of bytes, by at most this number each time.
    Batches(usize, u64),
    /// `Chunks` over a reader that returns at most this number of bytes each time.
    Reader(usize, u64),
    /// `Push` with slices of at most this number of bytes.
    Push(usize, u64),
    /// `Chunks` over an `AsyncRead` that returns at most this number of bytes each time, and is
    /// pending now and then; the future is then dropped.
    Async(usize, u64),
}

impl Feed {
    /// All ways, with sizes that suit data of a few chunks or of many.
    pub(crate) const ALL: [Feed; 10] = [
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
    ];

    /// The faster ways, for data of megabytes.
    pub(crate) const LARGE: [Feed; 3] =
        [Feed::Whole, Feed::Reader(50_000, 4), Feed::Push(70_000, 7)];
}

/// Returns the cut-points of `data`, fed by `feed`.
pub(crate) fn fed_cuts(chunker: &dyn Chunker, data: &[u8], feed: Feed) -> Vec<usize> {
    match feed {
        Feed::Whole => cuts(chunker, data).collect(),
        Feed::Slices(size_max, seed) => {
            let mut random = SplitMix64::new(seed);
            let mut ends = Vec::new();
            let (mut start, mut end) = (0, 0);
            while start < data.len() {
                let more = end < data.len();
                match chunker.next_cut_after(&data[..start], &data[start..end], more) {
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
        Feed::Batches(size_max, seed) => {
            let mut random = SplitMix64::new(seed);
            let mut ends = Vec::new();
            let (mut start, mut end) = (0, 0);
            while start < data.len() {
                end = data.len().min(end + 1 + random.below(size_max));
                let more = end < data.len();
                loop {
                    let count = ends.len();
                    chunker.next_cuts(&data[..end], start, more, &mut ends);
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
        Feed::Reader(size_max, seed) => {
            let reader = Portions { data, size_max, random: SplitMix64::new(seed) };
            let mut chunks = Chunks::new(chunker, reader);
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
        Feed::Push(size_max, seed) => {
            let mut random = SplitMix64::new(seed);
            let mut push = Push::new(chunker);
            let (mut ends, mut offset, mut end) = (Vec::new(), 0, 0);
            let mut each = |chunk: &[u8]| {
                assert_eq!(chunk, &data[offset..offset + chunk.len()], "bytes at {offset}");
                offset += chunk.len();
                ends.push(offset);
            };
            while end < data.len() {
                let size = random.below(size_max + 1).min(data.len() - end);
                push.push(&data[end..end + size], &mut each);
                end += size;
                let handed_out = usize::try_from(push.offset()).expect("it is small");
                assert_eq!(handed_out + push.buffered_bytes(), end, "bytes handed out and held");
                let max = chunker.needed_size_max();
                assert!(max.is_none_or(|max| push.buffered_bytes() < max), "more is held than max");
            }
            push.finish(&mut each);
            assert_eq!(push.buffered_bytes(), 0, "bytes held in the end");
            ends
        }
        Feed::Async(size_max, seed) => {
            let reader = Portions { data, size_max, random: SplitMix64::new(seed) };
            let mut chunks = Chunks::new(chunker, reader);
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

/// Calls `test` for each item with its index, on all processors.
pub(crate) fn on_all_processors<T: Sync>(items: &[T], test: impl Fn(usize, &T) + Sync) {
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let index = next.fetch_add(1, Ordering::Relaxed)
                    && let Some(item) = items.get(index)
                {
                    test(index, item);
                }
            });
        }
    });
}

/// A reader of the bytes of SplitMix64, without end.
struct Endless(SplitMix64);

impl Read for Endless {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let (words, rest) = buffer.as_chunks_mut::<8>();
        for word in words.iter_mut() {
            *word = self.0.next().to_le_bytes();
        }
        // A read of less than 8 bytes returns the first bytes of a number; the rest of the number
        // is dropped.
        if words.is_empty() {
            rest.copy_from_slice(&self.0.next().to_le_bytes()[..rest.len()]);
            return Ok(rest.len());
        }
        Ok(words.len() * 8)
    }
}

/// Returns the mean size of the first `count` chunks of random data, in bytes.
pub(crate) fn measured_mean(spec: &Spec, count: usize) -> f64 {
    let mut chunks = Chunks::new(spec.chunker(), Endless(SplitMix64::new(99)));
    for _ in 0..count {
        chunks.next().expect("memory does not fail").expect("it has no end");
    }
    chunks.offset() as f64 / count as f64
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

/// Checks the invariants of every rule: chunks cover `data` in order, within the sizes.
pub(crate) fn check_invariants(chunker: &dyn Chunker, data: &[u8], ends: &[usize]) {
    assert_eq!(ends.last().copied().unwrap_or(0), data.len(), "the last end");
    let mut start = 0;
    for &end in ends {
        assert!(start < end, "order at {start}");
        let size = end - start;
        assert!(end == data.len() || size >= chunker.chunk_size_min(), "{size} bytes at {start}");
        assert!(chunker.chunk_size_max().is_none_or(|max| size <= max), "{size} at {start}");
        start = end;
    }
}
