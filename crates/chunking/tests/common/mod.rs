//! What the tests share: every way to feed a chunker, and data to feed.

#![allow(dead_code, reason = "each test file uses its part")]

pub(crate) mod specs;
pub(crate) mod vectors;

use std::io::{self, Read};

use cutpoint_chunking::{Chunker, Chunks, cuts};
use cutpoint_testing::{SplitMix64, input};

/// How a chunker is fed by [`fed_cuts`].
#[derive(Clone, Copy, Debug)]
pub(crate) enum Feed {
    /// The rest of the stream at once.
    Whole,
    /// `next_cut` with ever more bytes, at most so many more each time; by one if 1.
    Slices(usize, u64),
    /// `Chunks` over a reader that gives at most so many bytes each time.
    Reader(usize, u64),
}

impl Feed {
    /// Every way, with sizes that suit data of a few chunks or of many.
    pub(crate) const ALL: [Feed; 6] = [
        Feed::Whole,
        Feed::Slices(3_000, 1),
        Feed::Slices(100_000, 2),
        Feed::Reader(1, 3),
        Feed::Reader(5_000, 4),
        Feed::Reader(1 << 20, 5),
    ];
}

/// Returns the cut-points of `data`, fed as `feed` says.
pub(crate) fn fed_cuts(chunker: &dyn Chunker, data: &[u8], feed: Feed) -> Vec<usize> {
    match feed {
        Feed::Whole => cuts(chunker, data).collect(),
        Feed::Slices(size_max, seed) => {
            let mut random = SplitMix64::new(seed);
            let mut ends = Vec::new();
            let (mut start, mut end) = (0, 0);
            while start < data.len() {
                let more = end < data.len();
                match chunker.next_cut(&data[start..end], more) {
                    Some(cut) => {
                        assert!(0 < cut && cut <= end - start, "cut {cut} of {}", end - start);
                        start += cut;
                        ends.push(start);
                    }
                    None => {
                        assert!(more, "no cut-point in the last {} bytes", end - start);
                        let max = chunker.chunk_size_max();
                        assert!(max.is_none_or(|max| end - start < max), "no cut-point by max");
                        end = data.len().min(end + 1 + random.below(size_max));
                    }
                }
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
    }
}

/// A reader that gives random portions, and is interrupted now and then.
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

/// Checks what holds for every rule: chunks cover `data` in order, within the sizes.
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

/// Data of `size` bytes of each kind that a rule may trip over.
pub(crate) fn kinds(size: usize, seed: u64) -> Vec<(&'static str, Vec<u8>)> {
    let mut random = SplitMix64::new(seed);
    let noise = random.take(size);
    let slow = (0..size).map(|i| noise[i / 5]).collect();
    let few = noise.iter().map(|byte| byte & 1).collect();
    let signs = noise.iter().map(|byte| 127 + (byte & 1)).collect();
    // Long runs with rare ends: the trigger is reached seldom, the counts cross many blocks.
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
    vec![
        ("rare changes", rare.collect()),
        ("noise", noise),
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

/// The sizes around `edges`, and 0 and 1.
pub(crate) fn sizes_around(edges: &[usize]) -> Vec<usize> {
    let mut sizes = vec![0, 1];
    for &edge in edges {
        sizes.extend(edge.saturating_sub(3)..=edge + 3);
    }
    sizes
}
