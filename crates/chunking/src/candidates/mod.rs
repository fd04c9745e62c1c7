//! Rolling hashes in two stages: the first finds every position whose hash matches, the
//! candidates, and the second walks the candidates for those that may end a chunk.
//!
//! The idea is that of SS-CDC (Ni, Lin and Jiang, SYSTOR 2019), which finds them by gathers. Here a
//! stretch of bytes is divided into 32 or 64 rows, which are hashed at once: a vector holds the same
//! column of all rows, and tables and matrices of bits take the place of memory (`Columns`). A
//! stretch fits the second-level cache, so that the second stage, which looks at few bytes again,
//! finds them there.
//!
//! A candidate depends only on the last bytes. The parts of a rule that depend on more, such as its
//! minimum and maximum sizes, a hash that begins within the chunk, or masks that change, are in
//! [`Selection`].

/// Builds an array from an expression over a constant index, from 0 on.
///
/// A loop over an index would keep vectors in memory until it is unrolled, which the compiler does
/// too late to move them into registers. A closure may be compiled without the instruction set.
macro_rules! each {
    ($K:ident of 2 => $value:expr) => { each!($K $value; 0 1) };
    ($K:ident of 4 => $value:expr) => { each!($K $value; 0 1 2 3) };
    ($K:ident of 5 => $value:expr) => { each!($K $value; 0 1 2 3 4) };
    ($K:ident of 7 => $value:expr) => { each!($K $value; 0 1 2 3 4 5 6) };
    ($K:ident of 8 => $value:expr) => { each!($K $value; 0 1 2 3 4 5 6 7) };
    ($K:ident $value:expr; $($index:literal)+) => { [$(each!($K $value, $index)),+] };
    ($K:ident $value:expr, $index:literal) => {{
        const $K: usize = $index;
        $value
    }};
}

mod buzhash;
mod candidate_bits;
mod crc;
mod gear;
mod pci;
mod rabin;

use alloc::vec::Vec;

pub(crate) use buzhash::BuzhashColumns;
pub(crate) use candidate_bits::WINDOW_MAX;
use candidate_bits::{CandidateBits, ColumnHash, ROW_TILES_MAX, TILE_SIZE_MAX};
pub(crate) use crc::CrcColumns;
pub(crate) use gear::GearColumns;
pub(crate) use pci::CountColumns;
pub(crate) use rabin::RabinColumns;

pub(crate) use crate::chunker::Batch;
use crate::chunker::{cut_next_again, cut_one_by_one};
pub(crate) use crate::kernel::ColumnsKind;
use crate::kernel::{BLOCK_SIZE, Block, ByteTable, Columns, ColumnsTask, Matrix, PairTable};
use crate::{Chunker, Level};

/// The number of bytes that are wanted at once: several stretches, which lowers the relative cost
/// of their ends.
const BATCH_SIZE: usize = 4 * ROW_TILES_MAX * TILE_SIZE_MAX;

/// The number of tiles in a row by which no number of them is divisible.
const CROWDED_TILES: usize = 16;

/// The parts of a rule that the second stage needs.
pub(crate) trait Selection: Chunker {
    /// Returns the first position of a chunk, in bytes from its start, that may end it.
    fn first(&self) -> usize;

    /// Returns the first position of a chunk from which on the candidates agree with the rule.
    /// Before it, the rule's hash does not cover a whole window. Not below [`Selection::first`].
    fn told_from(&self) -> usize {
        self.first()
    }

    /// Returns the number of bytes from the position that ends a chunk to the cut-point.
    fn step(&self) -> usize;

    /// Returns the value that the hash takes for each byte value; `None` if it takes the bytes as
    /// they are.
    fn permutation(&self) -> Option<&ByteTable> {
        None
    }

    /// Works as [`Chunker::next_cut_after`], for a chunk that no position before `from` ends;
    /// `from` is not below [`Selection::told_from`].
    fn cut_from(&self, before: &[u8], data: &[u8], more: bool, from: usize) -> Option<usize>;

    /// Returns `true` if [`Selection::cut_from`] is right wherever it begins. It is for rules that
    /// have candidates.
    fn can_continue(&self) -> bool {
        true
    }

    /// Returns `true` if the candidate `at` ends a chunk that begins at `start`. `hashed`
    /// keeps state from one call to the next.
    fn accepts(
        &self,
        data: &[u8],
        start: usize,
        at: usize,
        hashed: &mut Option<(usize, u64)>,
    ) -> bool {
        let _ = (data, start, at, hashed);
        true
    }
}

/// A hash that finds candidates, or one of several.
pub(crate) trait CandidateHash {
    /// Cuts as many chunks as possible, of which no position before `from` ends the first one.
    /// Returns the start of the chunk whose end was not found, and the first position that was not
    /// looked at.
    fn cut<S: Selection>(
        &self,
        rule: &S,
        level: Level,
        from: usize,
        batch: &mut Batch<'_>,
    ) -> (usize, usize);
}

/// Implements [`CandidateHash`] for a single hash.
macro_rules! candidate_hash {
    ($Hash:ty) => {
        impl crate::candidates::CandidateHash for $Hash {
            fn cut<S: crate::candidates::Selection>(
                &self,
                rule: &S,
                level: crate::Level,
                from: usize,
                batch: &mut crate::candidates::Batch<'_>,
            ) -> (usize, usize) {
                crate::candidates::cut(self, rule, level, from, batch)
            }
        }
    };
}
use candidate_hash;

/// The first stage of a chunker, if it has one. Levels without columns have none, and neither do
/// parameters that would not become faster.
#[derive(Clone)]
pub(crate) struct Stages<M> {
    level: Level,
    hash: Option<M>,
}

/// Returns `true` if finding every candidate is faster than a search that skips the first `min`
/// bytes of each chunk. Finding them takes a `gain`-th of the time for each byte, but for all
/// bytes.
pub(crate) fn is_candidate_search_faster(min: usize, mean: f64, gain: f64) -> bool {
    // A mean that is not finite is far beyond the minimum size.
    let searched = if mean.is_finite() { (mean - min as f64) / mean } else { 1.0 };
    gain * searched > 1.0
}

/// Returns the gain, for [`is_candidate_search_faster`], of a hash that is linear over bits. The
/// gains measured on Zen 5 were 9 to 13, 20 and 30. CPUs of Intel shuffle the bytes of only one
/// vector per cycle.
pub(crate) fn linear_gain(kind: ColumnsKind) -> f64 {
    match kind {
        ColumnsKind::HalfBytes => 6.0,
        ColumnsKind::Pairs => 12.0,
        ColumnsKind::Bytes => 20.0,
    }
}

impl<M: CandidateHash> Stages<M> {
    /// Creates the first stage on `level`, with the hash that `hash` returns, if any, for the kind
    /// of the level's columns.
    pub(crate) fn at(level: Level, hash: impl FnOnce(ColumnsKind) -> Option<M>) -> Stages<M> {
        let hash = level.columns_kind().and_then(hash);
        Stages { level: if hash.is_some() { level } else { Level::SCALAR }, hash }
    }

    /// Implements [`Chunker::level`].
    pub(crate) fn level(&self) -> Level {
        self.level
    }

    /// Implements [`Chunker::batch_size`].
    pub(crate) fn batch_size(&self) -> usize {
        if self.hash.is_some() { BATCH_SIZE } else { 0 }
    }

    /// Implements [`Chunker::next_cuts`] of `rule`.
    pub(crate) fn next_cuts<S: Selection>(&self, rule: &S, mut batch: Batch<'_>) {
        if let Some(hash) = &self.hash {
            let count = batch.ends.len();
            let (chunk, place) = hash.cut(rule, self.level, 0, &mut batch);
            if batch.more && batch.ends.len() > count {
                // The rest comes again, and may then be too large for a byte-by-byte search.
                return;
            }
            batch.start = chunk;
            if !cut_at_place(rule, &mut batch, place) {
                return;
            }
        }
        cut_one_by_one(rule, batch.data, batch.start, batch.more, batch.ends);
    }

    /// Implements [`Chunker::next_cuts_again`] of `rule`.
    pub(crate) fn next_cuts_again<S: Selection>(
        &self,
        rule: &S,
        mut batch: Batch<'_>,
        known: usize,
    ) -> usize {
        let Some(hash) = &self.hash else { return cut_next_again(rule, batch, known) };
        let (chunk, place) = hash.cut(rule, self.level, first_unknown(known), &mut batch);
        batch.start = chunk;
        let size = batch.data.len() - chunk;
        let is_complete = rule.chunk_size_max().is_some_and(|max| size >= max);
        if batch.more && !is_complete {
            // Fewer bytes than a tile are left to the next call, which gets more.
            return if place > chunk + rule.told_from() { place - chunk } else { 0 };
        }
        if cut_at_place(rule, &mut batch, place) {
            cut_one_by_one(rule, batch.data, batch.start, batch.more, batch.ends);
        }
        0
    }
}

/// Appends the end of the chunk at the start of `batch`, if positions of the chunk were looked at
/// up to `place`, and advances the start to it. Returns `false` if the rule cannot find the end.
fn cut_at_place<S: Selection>(rule: &S, batch: &mut Batch<'_>, place: usize) -> bool {
    let chunk = batch.start;
    if place > chunk + rule.told_from() {
        let (before, data) = batch.data.split_at(chunk);
        match rule.cut_from(before, data, batch.more, place - chunk) {
            Some(size) => batch.start = chunk + size,
            None => return false,
        }
        batch.ends.push(batch.start);
    }
    true
}

/// Implements the batches of a [`Chunker`], and its level, by its `stages`, and its continuation.
macro_rules! forward_batches {
    () => {
        fn next_cuts(
            &self,
            data: &[u8],
            start: usize,
            more: bool,
            ends: &mut alloc::vec::Vec<usize>,
        ) {
            self.stages.next_cuts(self, $crate::chunker::Batch { data, start, more, ends });
        }

        fn next_cuts_again(
            &self,
            data: &[u8],
            start: usize,
            more: bool,
            known: usize,
            ends: &mut alloc::vec::Vec<usize>,
        ) -> usize {
            let batch = $crate::chunker::Batch { data, start, more, ends };
            self.stages.next_cuts_again(self, batch, known)
        }

        fn next_cut_again(
            &self,
            before: &[u8],
            data: &[u8],
            more: bool,
            known: usize,
        ) -> Option<usize> {
            $crate::candidates::cut_again(self, before, data, more, known)
        }

        fn resumes(&self) -> bool {
            $crate::candidates::Selection::can_continue(self)
        }

        fn batch_size(&self) -> usize {
            self.stages.batch_size()
        }

        fn level(&self) -> $crate::Level {
            self.stages.level()
        }
    };
}
pub(crate) use forward_batches;

/// Returns the first position to look at in a chunk that has no end in its first `known` bytes. Some
/// rules look at pairs of bytes, and wait for the byte behind a position.
fn first_unknown(known: usize) -> usize {
    known.saturating_sub(2) / 2 * 2
}

/// Implements [`Chunker::next_cut_again`] of `rule`.
pub(crate) fn cut_again<S: Selection>(
    rule: &S,
    before: &[u8],
    data: &[u8],
    more: bool,
    known: usize,
) -> Option<usize> {
    let from = first_unknown(known);
    if from < rule.told_from() || !rule.can_continue() {
        rule.next_cut_after(before, data, more)
    } else {
        rule.cut_from(before, data, more, from)
    }
}

/// Implements [`CandidateHash::cut`] for one hash.
fn cut<S: Selection, H: ColumnHash>(
    hash: &H,
    rule: &S,
    level: Level,
    from: usize,
    batch: &mut Batch<'_>,
) -> (usize, usize) {
    let Batch { data, start, ends, .. } = batch;
    let task = Select { rule, hash, data, start: *start, from, ends };
    level.dispatch_columns(task).unwrap_or((*start, *start))
}

struct Select<'a, S, H> {
    rule: &'a S,
    hash: &'a H,
    data: &'a [u8],
    start: usize,
    from: usize,
    ends: &'a mut Vec<usize>,
}

impl<S: Selection, H: ColumnHash> ColumnsTask for Select<'_, S, H> {
    /// The start of the chunk whose end was not found, and the first position that was not looked
    /// at.
    type Output = (usize, usize);

    #[inline(always)]
    fn run<C: Columns>(self, columns: C) -> (usize, usize) {
        let Select { rule, hash, data, start: mut chunk, from, ends } = self;
        let (first, told_from, step) = (rule.first(), rule.told_from(), rule.step());
        let max = rule.chunk_size_max();
        if H::LOOKS_UP && matches!(C::KIND, ColumnsKind::HalfBytes) {
            // No rule asks for this, and the compiler can leave the rest out.
            return (chunk, chunk + first);
        }
        let window = hash.window();
        // The next position of the chunk to look at, and the start of the next stretch.
        let mut place = chunk + if from < told_from { first } else { from };
        let mut block = place.max(chunk + told_from).max(window.next_multiple_of(BLOCK_SIZE));
        let mut hashed = None;
        // The last byte is left to the rule, because some rules wait for the byte behind it.
        let last = data.len().saturating_sub(1);
        if block + C::TILE_SIZE > last {
            return (chunk, place);
        }
        let mut candidates = CandidateBits::new(columns, window);
        loop {
            let tiles = last.saturating_sub(block) / C::TILE_SIZE;
            if tiles == 0 {
                return (chunk, place);
            }
            let row_tiles = match tiles.min(ROW_TILES_MAX) {
                // The lines of a tile would fall into a few sets of the cache.
                tiles if tiles % CROWDED_TILES == 0 => tiles - 1,
                tiles => tiles,
            };
            candidates.make(columns, hash, rule.permutation(), data, block, row_tiles);
            let block_end = block + row_tiles * C::TILE_SIZE;
            loop {
                // Positions without valid candidates are left to the rule itself, in pairs, because
                // some rules look at pairs.
                let told = block.max(chunk + told_from);
                if place < told {
                    let told = told + (told - chunk) % 2;
                    if told > block_end {
                        break;
                    }
                    let (before, rest) = data[..told].split_at(chunk);
                    if let Some(size) = rule.next_cut_after(before, rest, true) {
                        chunk += size;
                        ends.push(chunk);
                        place = chunk + first;
                        continue;
                    }
                    place = told;
                }
                let limit = max.map_or(usize::MAX, |max| chunk + max);
                let end = limit.min(block_end);
                let cut = loop {
                    match candidates.next(place - block, end.saturating_sub(block)) {
                        None => break (limit <= block_end).then_some(limit),
                        Some(candidate) => {
                            let at = block + candidate;
                            if rule.accepts(data, chunk, at, &mut hashed) {
                                break Some(at + step);
                            }
                            place = at + 1;
                        }
                    }
                };
                let Some(cut) = cut else {
                    place = place.max(end);
                    break;
                };
                ends.push(cut);
                chunk = cut;
                place = chunk + first;
            }
            block = block_end.max(place);
        }
    }
}

/// Returns the table of bits `16 * k` to `16 * k + 15` of every entry, for each `k`.
fn pairs<const N: usize>(table: &[u64; 256]) -> [PairTable; N] {
    core::array::from_fn(|k| PairTable::new(|value| table[usize::from(value)] >> (16 * k)))
}

/// Converts a table of bytes to the form for vectors.
pub(crate) fn byte_table(table: &[u8; 256]) -> ByteTable {
    let blocks: (&[Block], _) = table.as_chunks();
    let mut result = [[0; BLOCK_SIZE]; 4];
    result.copy_from_slice(blocks.0);
    ByteTable(result)
}

/// Returns, for each byte `k` of the result of the linear `map`, the matrix that computes it from a
/// byte.
fn matrices<const N: usize>(map: impl Fn(u8) -> u64) -> [Matrix; N] {
    let mut matrices = [[0; 8]; N];
    for bit in 0..8 {
        for (matrix, image) in matrices.iter_mut().zip(map(1 << bit).to_le_bytes()) {
            for (row, result) in matrix.iter_mut().rev().enumerate() {
                *result |= (image >> row & 1) << bit;
            }
        }
    }
    matrices.map(|rows| Matrix::new(u64::from_le_bytes(rows)))
}
