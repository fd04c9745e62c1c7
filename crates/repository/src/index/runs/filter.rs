//! A blocked Bloom filter over hints. It answers "not here" for most absent hints, with one access
//! to memory.

use std::io;

/// Number of bits per hint. With six probes in a block of 512 bits, about 1.5 % of the answers are
/// false positives.
const BITS_PER_HINT: u64 = 10;
const BLOCK_WORDS: usize = 8;
const PROBES: u32 = 6;
/// Number of encoded bytes that are read at a time.
const READ_LEN: usize = 64 * 1024;

/// The set of hints that a run may hold.
#[derive(Debug)]
pub(super) struct Filter {
    words: Vec<u64>,
}

impl Filter {
    /// Creates an empty filter with room for `count` hints.
    pub(super) fn with_room_for(count: u64) -> Filter {
        let blocks = (count * BITS_PER_HINT).div_ceil(64 * BLOCK_WORDS as u64).max(1);
        Filter { words: vec![0; usize::try_from(blocks).unwrap_or(usize::MAX) * BLOCK_WORDS] }
    }

    pub(super) fn insert(&mut self, hint: u64) {
        let block = self.block(hint);
        for (word, bit) in probes(hint) {
            self.words[block + word] |= bit;
        }
    }

    pub(super) fn may_hold(&self, hint: u64) -> bool {
        let block = self.block(hint);
        probes(hint).all(|(word, bit)| self.words[block + word] & bit != 0)
    }

    /// Returns the block of a hint. Hints are uniform, so that their top bits can select the block.
    fn block(&self, hint: u64) -> usize {
        let blocks = (self.words.len() / BLOCK_WORDS) as u128;
        usize::try_from((u128::from(hint) * blocks) >> 64).unwrap_or(0) * BLOCK_WORDS
    }

    pub(super) fn bytes(&self) -> u64 {
        self.words.len() as u64 * 8
    }

    /// Passes the encoded filter to `write`, in parts of one block.
    pub(super) fn encode(&self, mut write: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        let mut block = [0; BLOCK_WORDS * 8];
        for words in self.words.chunks_exact(BLOCK_WORDS) {
            for (bytes, word) in block.chunks_exact_mut(8).zip(words) {
                bytes.copy_from_slice(&word.to_le_bytes());
            }
            write(&block)?;
        }
        Ok(())
    }

    /// Decodes a filter for `count` hints from bytes that `read` puts into its buffer, in parts of at
    /// most [`READ_LEN`]: the encoded filter is never in memory beside the decoded one.
    pub(super) fn decode(
        count: u64,
        mut read: impl FnMut(&mut [u8]) -> io::Result<()>,
    ) -> io::Result<Filter> {
        let mut filter = Filter::with_room_for(count);
        let mut buffer = vec![0; READ_LEN.min(filter.words.len() * 8)];
        for words in filter.words.chunks_mut(READ_LEN / 8) {
            let bytes = &mut buffer[..words.len() * 8];
            read(bytes)?;
            for (word, bytes) in words.iter_mut().zip(bytes.as_chunks().0) {
                *word = u64::from_le_bytes(*bytes);
            }
        }
        Ok(filter)
    }

    /// Returns the length of the encoded filter for `count` hints, in bytes.
    pub(super) fn encoded_len(count: u64) -> u64 {
        (count * BITS_PER_HINT).div_ceil(64 * BLOCK_WORDS as u64).max(1) * BLOCK_WORDS as u64 * 8
    }
}

/// Returns (word in the block, bit) for each probe, from nine bits each of a mixed hint.
fn probes(hint: u64) -> impl Iterator<Item = (usize, u64)> {
    let mixed = hint.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (0..PROBES).map(move |probe| {
        let nine = (mixed >> (9 * probe)) & 0x1ff;
        ((nine >> 6) as usize, 1 << (nine & 63))
    })
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn filter_holds_inserted_hints_and_few_others() {
        let hint = |n: u64| {
            let mut x = n.wrapping_mul(0xbf58_476d_1ce4_e5b9) ^ 0x1234_5678_9abc_def0;
            x ^= x >> 31;
            x.wrapping_mul(0x94d0_49bb_1331_11eb)
        };
        let mut filter = Filter::with_room_for(100_000);
        (0..100_000).for_each(|n| filter.insert(hint(n)));
        assert!((0..100_000).all(|n| filter.may_hold(hint(n))), "an inserted hint is gone");
        let wrong = (100_000..200_000).filter(|n| filter.may_hold(hint(*n))).count();
        assert!(wrong < 3_000, "{wrong} of 100,000 absent hints were admitted");
        let mut encoded = Vec::new();
        let write = |bytes: &[u8]| {
            encoded.extend_from_slice(bytes);
            Ok(())
        };
        filter.encode(write).expect("memory takes it");
        let mut rest = &encoded[..];
        let again = Filter::decode(100_000, |bytes| rest.read_exact(bytes)).expect("it is whole");
        assert!(again.words == filter.words, "encoding changed the filter");
        assert!(rest.is_empty(), "{} bytes were not read", rest.len());
        let mut cut = &encoded[..encoded.len() - 1];
        Filter::decode(100_000, |bytes| cut.read_exact(bytes)).expect_err("a byte is missing");
    }
}
