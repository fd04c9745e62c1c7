//! The chain of SHA-1 and SHA-256 over many chunks at once, in streams. Source: FIPS 180-4,
//! sections 5 and 6.
//!
//! A stream is a chunk on its way through the compression function. Several streams run side by
//! side. When a stream ends, the next chunk takes its place.

use crate::lanes::compress::{Block, Compress};

/// The number of streams that run side by side. Measured on Zen 5 with chunks of 8 KiB from the
/// cache, in GB/s, with one to four streams: SHA-256 1.9, 2.8, 3.05 and 3.2; SHA-1 1.9, 3.3, 4.45
/// and 4.65. Five were not tried, because the state of four already exceeds the registers.
const STREAMS: usize = 4;

/// A chunk on its way through the compression function.
struct Stream<'a, const WORDS: usize> {
    /// The number of the chunk in the batch.
    number: usize,
    state: [u32; WORDS],
    /// The full blocks of the chunk that are not yet compressed.
    blocks: &'a [Block],
    /// The padded end: the rest of the chunk, a one bit, zeros, and the length in bits.
    end: [Block; 2],
    /// The first block of `end` that is not yet compressed.
    end_from: usize,
    /// The number of blocks of `end` in use, one or two.
    end_to: usize,
}

impl<'a, const WORDS: usize> Stream<'a, WORDS> {
    fn new(number: usize, chunk: &'a [u8], state: [u32; WORDS]) -> Self {
        let (blocks, rest) = chunk.as_chunks();
        let mut end = [[0; size_of::<Block>()]; 2];
        let bytes = end.as_flattened_mut();
        bytes[..rest.len()].copy_from_slice(rest);
        bytes[rest.len()] = 0x80;
        // The byte with the one bit and the length take nine bytes.
        let end_to = if rest.len() + 9 <= size_of::<Block>() { 1 } else { 2 };
        let bits = 8 * chunk.len() as u64;
        bytes[end_to * size_of::<Block>() - 8..end_to * size_of::<Block>()]
            .copy_from_slice(&bits.to_be_bytes());
        Stream { number, state, blocks, end, end_from: 0, end_to }
    }

    /// Returns the next contiguous blocks; none if the stream has ended.
    fn next(&self) -> &[Block] {
        if self.blocks.is_empty() { &self.end[self.end_from..self.end_to] } else { self.blocks }
    }

    /// Skips the first `count` of the next blocks.
    fn advance(&mut self, count: usize) {
        if self.blocks.is_empty() {
            self.end_from += count;
        } else {
            self.blocks = &self.blocks[count..];
        }
    }
}

/// Returns the final state of each chunk, in order.
pub(crate) fn states<const WORDS: usize>(
    kernel: impl Compress<[u32; WORDS]>,
    initial: &[u32; WORDS],
    chunks: &[&[u8]],
) -> Vec<[u32; WORDS]> {
    let mut states = vec![*initial; chunks.len()];
    let mut waiting = chunks.iter().enumerate().map(|(number, chunk)| {
        if let Some(soon) = chunks.get(number + STREAMS) {
            kernel.prefetch(soon);
        }
        Stream::new(number, chunk, *initial)
    });
    let mut live: Vec<Stream<'_, WORDS>> = waiting.by_ref().take(STREAMS).collect();
    while !live.is_empty() {
        match live.len() {
            1 => step::<WORDS, 1>(kernel, &mut live),
            2 => step::<WORDS, 2>(kernel, &mut live),
            3 => step::<WORDS, 3>(kernel, &mut live),
            _ => step::<WORDS, STREAMS>(kernel, &mut live),
        }
        live.retain_mut(|stream| {
            if !stream.next().is_empty() {
                return true;
            }
            states[stream.number] = stream.state;
            match waiting.next() {
                Some(next) => *stream = next,
                None => return false,
            }
            true
        });
    }
    states
}

/// Advances the first `N` streams by the number of blocks that are contiguous in all of them.
fn step<const WORDS: usize, const N: usize>(
    kernel: impl Compress<[u32; WORDS]>,
    live: &mut [Stream<'_, WORDS>],
) {
    let Some(streams) = live.first_chunk_mut::<N>() else { return };
    let count = streams.iter().map(|stream| stream.next().len()).min().unwrap_or(0);
    let mut states = streams.each_ref().map(|stream| stream.state);
    kernel.compress(&mut states, streams.each_ref().map(|stream| &stream.next()[..count]));
    for (stream, state) in streams.iter_mut().zip(states) {
        stream.state = state;
        stream.advance(count);
    }
}
