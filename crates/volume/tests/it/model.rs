//! Random operations on a volume and on a plain vector.

use cutpoint_testing::SplitMix64;
use cutpoint_volume::{FaultyFolder, Survival};

use crate::support::{COMPRESSIONS, MODES, Opened, block, create, create_encrypted, open};

const BLOCK_COUNT: u64 = 40;

/// A volume and the bytes that it must have.
struct Pair {
    folder: FaultyFolder,
    volume: Option<Opened>,
    bytes: Vec<u8>,
    numbers: SplitMix64,
    block_size: usize,
}

impl Pair {
    fn new(seed: u64) -> Pair {
        let mut numbers = SplitMix64::new(seed);
        let block_size = 4096 << (numbers.below(2) * numbers.below(3));
        Pair::with_blocks(block_size, numbers)
    }

    fn with_blocks(block_size: usize, mut numbers: SplitMix64) -> Pair {
        let mode = MODES[numbers.below(MODES.len())];
        let is_encrypted = block_size == 4096 && numbers.below(3) == 0;
        let folder = if is_encrypted {
            create_encrypted(BLOCK_COUNT, mode)
        } else {
            create(BLOCK_COUNT, u32::try_from(block_size).expect("small"), mode)
        };
        let volume = Some(open(&folder));
        let bytes = vec![0; block_size * usize::try_from(BLOCK_COUNT).expect("few")];
        Pair { folder, volume, bytes, numbers, block_size }
    }

    fn volume(&self) -> &Opened {
        self.volume.as_ref().expect("open")
    }

    /// Returns a range of bytes of the disk, mostly of whole blocks.
    fn range(&mut self) -> std::ops::Range<usize> {
        let size = self.block_size;
        let (start, len) = if self.numbers.below(4) > 0 {
            (self.numbers.below(40) * size, (1 + self.numbers.below(4)) * size)
        } else {
            (self.numbers.below(self.bytes.len()), self.numbers.below(3 * size))
        };
        start..(start + len).min(self.bytes.len())
    }

    fn step(&mut self) {
        let range = self.range();
        let (offset, len) = (range.start as u64, range.len() as u64);
        match self.numbers.below(20) {
            0..=9 => {
                let numbers = std::iter::repeat_with(|| self.numbers.next());
                let blocks = numbers.take(range.len().div_ceil(self.block_size));
                let bytes: Vec<u8> = blocks.flat_map(|it| block(it, self.block_size)).collect();
                let bytes = &bytes[..range.len()];
                self.volume().write(offset, bytes).expect("written");
                self.bytes[range].copy_from_slice(bytes);
            }
            10 | 11 => {
                self.volume().write_zeroes(offset, len).expect("zeroed");
                self.bytes[range].fill(0);
            }
            12 => {
                self.volume().trim(offset, len).expect("trimmed");
                let size = self.block_size;
                let (first, end) = (range.start.div_ceil(size), range.end / size);
                if first < end {
                    self.bytes[first * size..end * size].fill(0);
                }
            }
            13 => self.volume().flush().expect("flushed"),
            14 => {
                let mode = MODES[self.numbers.below(MODES.len())].parse().expect("a mode");
                self.volume().set_mode(mode).expect("set");
                let compression = COMPRESSIONS[self.numbers.below(COMPRESSIONS.len())];
                let compression = compression.parse().expect("a compression");
                self.volume().set_compression(compression).expect("set");
            }
            15 => {
                self.volume().checkpoint().expect("written");
                self.reopen();
            }
            16 => {
                // The process ends without a word, and its successor finds all that it had appended: all
                // but a block that was being written in parts, which a look at the extents ends.
                let size = self.volume().size();
                self.volume().extents(0, size, 1).expect("extents");
                self.folder = self.folder.after_power_cut(Survival::All);
                self.reopen();
            }
            17 => self.volume().clean().expect("cleaned"),
            _ => {
                let mut bytes = vec![0; range.len()];
                self.volume().read(offset, &mut bytes).expect("read");
                assert!(bytes == self.bytes[range], "bytes at {offset}");
            }
        }
    }

    fn reopen(&mut self) {
        self.volume = None;
        self.volume = Some(open(&self.folder));
    }

    fn compare(&self) {
        let mut bytes = vec![0; self.bytes.len()];
        self.volume().read(0, &mut bytes).expect("read");
        assert!(bytes == self.bytes, "the whole disk");
        assert_eq!(self.volume().audit(), Ok(()), "the tables");
        let size = self.bytes.len() as u64;
        let extents = self.volume().extents(0, size, usize::MAX).expect("extents");
        assert_eq!(extents.iter().map(|extent| extent.len).sum::<u64>(), size, "{extents:?}");
        let mut at = 0;
        for extent in extents {
            let end = at + usize::try_from(extent.len).expect("small");
            let blocks = self.bytes[at..end].chunks(self.block_size);
            blocks.for_each(|it| {
                assert_eq!(it.iter().all(|byte| *byte == 0), extent.is_zero, "at {at}")
            });
            at = end;
        }
    }
}

#[test]
fn random_operations_agree_with_a_vector() {
    let seeds = crate::support::seed_count(40);
    for seed in 0..seeds {
        let mut pair = Pair::new(seed);
        for step in 0..150 {
            pair.step();
            if step % 10 == 0 {
                assert_eq!(pair.volume().audit(), Ok(()), "seed {seed}, step {step}");
            }
        }
        pair.compare();
    }
}

#[test]
fn random_operations_on_large_blocks_agree_with_a_vector() {
    for seed in 0..2 * MODES.len() as u64 {
        let block_size = if seed.is_multiple_of(2) { 32 * 1024 } else { 64 * 1024 };
        let mut pair = Pair::with_blocks(block_size, SplitMix64::new(seed));
        (0..40).for_each(|_| pair.step());
        pair.compare();
    }
}

#[test]
fn every_kind_of_match_occurs_in_the_model() {
    let mut met = [0; 6];
    for seed in 0..12 {
        let mut pair = Pair::new(seed);
        (0..150).for_each(|_| pair.step());
        let counters = pair.volume().statistics().expect("statistics").counters;
        for (met, count) in met.iter_mut().zip([
            counters.full_count,
            counters.duplicate_count,
            counters.burst_duplicate_count,
            counters.hit_count[0],
            counters.hit_count[1],
            counters.exhausted_count[0] + counters.exhausted_count[1],
        ]) {
            *met += count;
        }
    }
    assert!(met.iter().all(|count| *count > 10), "{met:?}");
}
