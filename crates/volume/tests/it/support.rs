//! Volumes in memory, and blocks that resemble each other.

use std::sync::Arc;

use cutpoint_testing::SplitMix64;
use cutpoint_volume::{Access, CreateOptions, FaultyFolder, Folder, Mode, Result, Volume};

/// The size of a block of most tests.
pub(crate) const BLOCK: usize = 4096;

/// Returns the folder as the engine takes it.
pub(crate) fn shared(folder: &FaultyFolder) -> Arc<dyn Folder> {
    Arc::new(folder.clone())
}

/// Creates a volume of `block_count` blocks with small segments.
pub(crate) fn create(block_count: u64, block_size: u32, mode: &str) -> FaultyFolder {
    let folder = FaultyFolder::default();
    let mode: Mode = mode.parse().expect("a mode");
    let options = CreateOptions {
        segment_size: 64 * 1024,
        ..CreateOptions::new(block_count * u64::from(block_size), block_size, mode)
    };
    Volume::create(&shared(&folder), &options).expect("created");
    folder
}

pub(crate) fn open(folder: &FaultyFolder) -> Volume {
    try_open(folder).expect("opened")
}

pub(crate) fn try_open(folder: &FaultyFolder) -> Result<Volume> {
    Volume::open(shared(folder), Access::Write)
}

/// Returns the bytes of a block, or the error of reading it.
pub(crate) fn read(volume: &Volume, block: u64) -> Result<Vec<u8>> {
    let size = volume.block_size();
    let mut bytes = vec![0; size];
    volume.read(block * size as u64, &mut bytes).map(|()| bytes)
}

pub(crate) fn write(volume: &Volume, block: u64, bytes: &[u8]) {
    volume.write(block * volume.block_size() as u64, bytes).expect("written");
}

/// Returns a block that is made of few heads, middles and tails, so that all kinds of matches occur.
pub(crate) fn block(number: u64, size: usize) -> Vec<u8> {
    let mut numbers = SplitMix64::new(number % 97);
    let mut bytes = vec![0; size];
    let (head, tail) = (numbers.below(3), numbers.below(3));
    let edge = size / 8;
    fill(&mut bytes[..edge], 1 + head as u64);
    fill(&mut bytes[edge..size - edge], 11 + numbers.next() % 40);
    fill(&mut bytes[size - edge..], 21 + tail as u64);
    // Some differ in one byte only.
    bytes[size / 2] ^= numbers.byte() % 3;
    if number.is_multiple_of(17) { vec![0; size] } else { bytes }
}

fn fill(bytes: &mut [u8], seed: u64) {
    let random = SplitMix64::bytes(seed, bytes.len());
    bytes.copy_from_slice(&random);
}

/// The modes that tests change between.
pub(crate) const MODES: [&str; 6] = [
    "off",
    "exact",
    "burst:tau=1/8,c_max=1",
    "burst:tau=1/8,c_max=3",
    "burst:tau=1/8,c_max=255",
    "burst:tau=64,c_max=3",
];
