//! What the tests share: every rule in its plain form, and every way to feed a chunker.

#![allow(dead_code, reason = "each test file uses its part")]

pub(crate) mod vectors;

use std::io::{self, Read};

use cutpoint_chunking::algorithm::{fastcdc, seqcdc};
use cutpoint_chunking::{Chunker, Chunks, cuts};
use cutpoint_testing::SplitMix64;
use cutpoint_testing::digest::md5;

/// Cuts `data` by `first_cut`, the length of the first chunk of what it is given.
pub(crate) fn plain_cuts(data: &[u8], first_cut: impl Fn(&[u8]) -> usize) -> Vec<usize> {
    let mut ends = Vec::new();
    let mut offset = 0;
    while offset < data.len() {
        offset += first_cut(&data[offset..]);
        ends.push(offset);
    }
    ends
}

/// SeqCDC as the pseudo-code of `algorithm::seqcdc` says it.
pub(crate) fn seqcdc(params: &seqcdc::Params, data: &[u8]) -> usize {
    let n = data.len();
    if n < params.chunk_size_min {
        return n;
    }
    let end = n.min(params.chunk_size_max);
    let (mut i, mut run, mut opposing) = (params.chunk_size_min, 0, 0);
    while i < end {
        let (a, b) = (data[i - 1], data[i]);
        if a == b {
            i += 1;
            continue;
        }
        if (b > a) == (params.mode == seqcdc::Mode::Increasing) {
            run += 1;
            if run == params.length {
                return i;
            }
            i += 1;
        } else {
            run = 0;
            opposing += 1;
            if opposing == params.trigger {
                opposing = 0;
                i += 1 + params.skip_size;
            } else {
                i += 1;
            }
        }
    }
    end
}

/// FastCDC as crate fastcdc 5.0.0 does it: two bytes a step, each table entry also doubled.
pub(crate) fn fastcdc(params: &fastcdc::Params, gear: &[u64; 256], data: &[u8]) -> usize {
    let mut remaining = data.len();
    if remaining <= params.chunk_size_min {
        return remaining;
    }
    let mut center = params.normal_size;
    if remaining > params.chunk_size_max {
        remaining = params.chunk_size_max;
    } else if remaining < center {
        center = remaining;
    }
    let bits = (params.normal_size as f64).log2().round();
    let mask_s = mask(bits + f64::from(params.level));
    let mask_l = mask(bits - f64::from(params.level));
    let mut index = params.chunk_size_min / 2;
    let mut hash = 0u64;
    while index < remaining / 2 {
        let mask = if index < center / 2 { mask_s } else { mask_l };
        let a = index * 2;
        hash = (hash << 2).wrapping_add(gear[usize::from(data[a])] << 1);
        if hash & (mask << 1) == 0 {
            return a;
        }
        hash = hash.wrapping_add(gear[usize::from(data[a + 1])]);
        if hash & mask == 0 {
            return a + 1;
        }
        index += 1;
    }
    remaining
}

/// The gear table of crate fastcdc, derived.
pub(crate) fn gear() -> [u64; 256] {
    let mut gear = [0; 256];
    for (entry, value) in gear.iter_mut().zip(0..=255) {
        *entry = u64::from_be_bytes(md5(&[value; 64])[..8].try_into().expect("8 bytes"));
    }
    gear
}

/// Fixed-size chunks.
pub(crate) fn fixed(size: usize, data: &[u8]) -> usize {
    data.len().min(size)
}

/// The masks of crate fastcdc 5.0.0, once more, so that a slip in the library's table shows.
fn mask(bits: f64) -> u64 {
    const MASKS: [u64; 21] = [
        0x1804110,
        0x1803110,
        0x18035100,
        0x1800035300,
        0x19000353000,
        0x590003530000,
        0xd90003530000,
        0xd90103530000,
        0xd90303530000,
        0xd90313530000,
        0xd90f03530000,
        0xd90303537000,
        0xd90703537000,
        0xd90707537000,
        0xd91707537000,
        0xd91747537000,
        0xd91767537000,
        0xd93767537000,
        0xd93777537000,
        0xd93777577000,
        0xdb3777577000,
    ];
    let index = (5u32..26).position(|count| f64::from(count) == bits).expect("at least 5 bits");
    MASKS[index]
}

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
