//! The tree of BLAKE3 over many chunks at once, in lanes. Source: the BLAKE3 paper (2020),
//! section 2.
//!
//! The full leaves of all chunks go through the lanes first, then the last leaf of each chunk,
//! which may have any length, then the parents, level by level. A lane does not know its chunk. A
//! lane needs only the place of its input, its counter and flags, and the place of its result.

mod compress;

pub(crate) use compress::INITIAL;
use compress::compress;

use crate::Digest;
use crate::lanes::{LANES_MAX, Lanes, Task};

const BLOCK_SIZE: usize = 64;
/// The input of one call of the compression function.
type Block = [u8; BLOCK_SIZE];

const LEAF_SIZE: usize = 1024;
const LEAF_BLOCKS: usize = LEAF_SIZE / BLOCK_SIZE;

const LEAF_START: u32 = 1;
const LEAF_END: u32 = 1 << 1;
const PARENT: u32 = 1 << 2;
const ROOT: u32 = 1 << 3;
const KEYED: u32 = 1 << 4;

/// The task of hashing `chunks`.
pub(crate) struct Hash<'a> {
    /// The key, or [`INITIAL`].
    pub(crate) words: &'a [u32; 8],
    /// Set if `words` is a key.
    pub(crate) key: bool,
    pub(crate) chunks: &'a [&'a [u8]],
}

/// A leaf: its bytes, its number in the chunk, and the index of its result.
struct Leaf<'a> {
    blocks: &'a [Block],
    /// The bytes after the full blocks, fewer than a block.
    rest: &'a [u8],
    number: u64,
    result: usize,
}

impl<'a> Leaf<'a> {
    fn new(bytes: &'a [u8], number: u64, result: usize) -> Leaf<'a> {
        let (blocks, rest) = bytes.as_chunks();
        Leaf { blocks, rest, number, result }
    }

    /// The number of blocks to compress. An empty leaf has one.
    fn block_count(&self) -> usize {
        (self.blocks.len() + usize::from(!self.rest.is_empty())).max(1)
    }
}

impl Task for Hash<'_> {
    type Output = Vec<Digest>;

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) -> Vec<Digest> {
        let Hash { words, key, chunks } = self;
        let key_flag = if key { KEYED } else { 0 };
        let whole_count = chunks.iter().map(|chunk| chunk.len() / LEAF_SIZE).sum();
        let mut whole = Vec::with_capacity(whole_count);
        let mut last = Vec::with_capacity(chunks.len());
        // The results of the leaves of a chunk are contiguous. The parents overwrite the front of
        // the same range, level by level.
        let mut places = Vec::with_capacity(chunks.len());
        let mut count = 0;
        for chunk in chunks {
            let start = count;
            let mut leaves = chunk.chunks(LEAF_SIZE);
            let end = leaves.next_back().unwrap_or(&[]);
            for (number, bytes) in (0..).zip(leaves) {
                whole.push(Leaf::new(bytes, number, count));
                count += 1;
            }
            last.push(Leaf::new(end, (count - start) as u64, count));
            count += 1;
            places.push((start, count - start));
        }
        // All lanes of a group run until its longest leaf ends, so leaves of like length are
        // grouped.
        last.sort_unstable_by_key(Leaf::block_count);
        let mut results = vec![[0_u8; 32]; count];
        let start = words.map(|word| lanes.splat(word));
        let mut groups = whole.chunks(L::COUNT).peekable();
        let first_of_last = &last[..last.len().min(L::COUNT)];
        while let Some(group) = groups.next() {
            let next = groups.peek().copied().unwrap_or(first_of_last);
            whole_leaves(lanes, &start, key_flag, group, next, &mut results);
        }
        let mut groups = last.chunks(L::COUNT).peekable();
        while let Some(group) = groups.next() {
            let next = groups.peek().copied().unwrap_or(&[]);
            last_leaves(lanes, &start, key_flag, group, next, &mut results);
        }
        parents(lanes, &start, key_flag, &mut places, &mut results);
        places.into_iter().map(|(place, _)| results[place]).collect()
    }
}

/// Hashes leaves of 1 KiB that are not the last of their chunk, so that all lanes have the same
/// flags.
#[expect(clippy::needless_range_loop, reason = "the number of the block is the second index")]
#[inline(always)]
fn whole_leaves<L: Lanes>(
    lanes: L,
    start: &[L::Vector; 8],
    key_flag: u32,
    group: &[Leaf<'_>],
    next: &[Leaf<'_>],
    results: &mut [Digest],
) {
    let (low, high) = counters(lanes, group);
    let next = bytes_of(next);
    let mut blocks = [&[[0; BLOCK_SIZE]; LEAF_BLOCKS]; LANES_MAX];
    for (blocks, leaf) in blocks.iter_mut().zip(group) {
        *blocks = leaf.blocks.first_chunk().unwrap_or(*blocks);
    }
    let size = lanes.splat(64);
    let mut state = *start;
    for block in 0..LEAF_BLOCKS {
        let message = lanes.load(|lane| &blocks[lane][block]);
        // The lanes are more streams than the hardware prefetcher follows.
        lanes.prefetch(|lane| next[lane], block * BLOCK_SIZE);
        let flags = key_flag
            | if block == 0 { LEAF_START } else { 0 }
            | if block == LEAF_BLOCKS - 1 { LEAF_END } else { 0 };
        compress(lanes, &mut state, &message, (low, high), size, lanes.splat(flags));
    }
    store(lanes, &state, group.iter().map(|leaf| leaf.result), results);
}

/// Hashes the last leaf of each chunk. The leaf may have any length, and is the root if it is the
/// only one.
#[inline(always)]
fn last_leaves<L: Lanes>(
    lanes: L,
    start: &[L::Vector; 8],
    key_flag: u32,
    group: &[Leaf<'_>],
    next: &[Leaf<'_>],
    results: &mut [Digest],
) {
    let (low, high) = counters(lanes, group);
    let next = bytes_of(next);
    let mut blocks: [&[Block]; LANES_MAX] = [&[]; LANES_MAX];
    let mut rests = [[0; BLOCK_SIZE]; LANES_MAX];
    let mut rest_sizes = [0; LANES_MAX];
    let mut block_counts = [0; LANES_MAX];
    let mut end_flags = [0; LANES_MAX];
    for (lane, leaf) in group.iter().enumerate() {
        blocks[lane] = leaf.blocks;
        rests[lane][..leaf.rest.len()].copy_from_slice(leaf.rest);
        rest_sizes[lane] = u32::try_from(leaf.rest.len()).unwrap_or(0);
        block_counts[lane] = leaf.block_count();
        end_flags[lane] = if leaf.number == 0 { LEAF_END | ROOT } else { LEAF_END };
    }
    let mut state = *start;
    for block in 0..block_counts.into_iter().max().unwrap_or(0) {
        let message = lanes.load(|lane| blocks[lane].get(block).unwrap_or(&rests[lane]));
        // The lanes are more streams than the hardware prefetcher follows.
        lanes.prefetch(|lane| next[lane], block * BLOCK_SIZE);
        let size =
            lanes.each(|lane| if block < blocks[lane].len() { 64 } else { rest_sizes[lane] });
        let start_flag = if block == 0 { LEAF_START } else { 0 };
        let flags = lanes.each(|lane| {
            let is_last = block + 1 == block_counts[lane];
            key_flag | start_flag | if is_last { end_flags[lane] } else { 0 }
        });
        let mut after = state;
        compress(lanes, &mut after, &message, (low, high), size, flags);
        // A lane whose leaf has ended keeps its state.
        let goes_on = lanes.each(|lane| if block < block_counts[lane] { u32::MAX } else { 0 });
        for word in 0..8 {
            state[word] = lanes.select(goes_on, after[word], state[word]);
        }
    }
    store(lanes, &state, group.iter().map(|leaf| leaf.result), results);
}

/// Returns the bytes of the leaves of a group, lane by lane.
#[inline(always)]
fn bytes_of<'a>(group: &[Leaf<'a>]) -> [&'a [u8]; LANES_MAX] {
    let mut bytes: [&[u8]; LANES_MAX] = [&[]; LANES_MAX];
    for (bytes, leaf) in bytes.iter_mut().zip(group) {
        *bytes = leaf.blocks.as_flattened();
    }
    bytes
}

/// Combines adjacent results in pairs, level by level, until each chunk has one. An odd last result
/// moves up a level unchanged.
#[inline(always)]
fn parents<L: Lanes>(
    lanes: L,
    start: &[L::Vector; 8],
    key_flag: u32,
    places: &mut [(usize, usize)],
    results: &mut [Digest],
) {
    let size = lanes.splat(64);
    // The index of the pair, the index of its result, and whether the result is a root.
    let mut pairs: Vec<(usize, usize, bool)> = Vec::new();
    loop {
        pairs.clear();
        for (place, count) in places.iter() {
            let is_root = *count == 2;
            pairs.extend((0..count / 2).map(|pair| (place + 2 * pair, place + pair, is_root)));
        }
        if pairs.is_empty() {
            return;
        }
        // The result of a pair is stored before all pairs that follow.
        for group in pairs.chunks(L::COUNT) {
            let pair = |lane: usize| group[lane.min(group.len() - 1)];
            let message = lanes.load(|lane| {
                let children = results[pair(lane).0..].as_flattened();
                children.first_chunk().unwrap_or(&[0; BLOCK_SIZE])
            });
            let flags = lanes.each(|lane| key_flag | PARENT | if pair(lane).2 { ROOT } else { 0 });
            let mut state = *start;
            let zero = lanes.splat(0);
            compress(lanes, &mut state, &message, (zero, zero), size, flags);
            store(lanes, &state, group.iter().map(|pair| pair.1), results);
        }
        for (place, count) in places.iter_mut() {
            if *count % 2 == 1 {
                results[*place + *count / 2] = results[*place + *count - 1];
            }
            *count = count.div_ceil(2);
        }
    }
}

/// Returns the low and the high half of each lane's counter.
#[inline(always)]
fn counters<L: Lanes>(lanes: L, group: &[Leaf<'_>]) -> (L::Vector, L::Vector) {
    let mut numbers = [0; LANES_MAX];
    for (number, leaf) in numbers.iter_mut().zip(group) {
        *number = leaf.number;
    }
    #[expect(clippy::cast_possible_truncation, reason = "the halves are meant")]
    (lanes.each(|lane| numbers[lane] as u32), lanes.each(|lane| (numbers[lane] >> 32) as u32))
}

/// Stores each lane's state at the place of its result.
#[inline(always)]
fn store<L: Lanes>(
    lanes: L,
    state: &[L::Vector; 8],
    places: impl Iterator<Item = usize>,
    results: &mut [Digest],
) {
    let words = lanes.words(state);
    for (lane, place) in places.enumerate() {
        for (bytes, words) in results[place].as_chunks_mut::<4>().0.iter_mut().zip(&words) {
            *bytes = words[lane].to_le_bytes();
        }
    }
}
