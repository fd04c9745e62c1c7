//! Volumes in memory, and blocks that resemble each other.

use std::sync::{Arc, Mutex, PoisonError};

use cutpoint_testing::SplitMix64;
use cutpoint_volume::{
    Access, CreateOptions, DISK_NAME_DEFAULT, Disk, Extent, FaultyFolder, Folder, Mode,
    OpenOptions, Result, Secret, Volume,
};

/// The size of a block of most tests.
pub(crate) const BLOCK: usize = 4096;

/// Returns the folder as the engine takes it.
pub(crate) fn shared(folder: &FaultyFolder) -> Arc<dyn Folder> {
    Arc::new(folder.clone())
}

/// Returns the number of random runs: that of `CUTPOINT_SEEDS`, or else `default`.
pub(crate) fn seed_count(default: u64) -> u64 {
    std::env::var("CUTPOINT_SEEDS").ok().and_then(|it| it.parse().ok()).unwrap_or(default)
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

/// The passphrase of encrypted volumes.
const PASSPHRASE: &[u8] = b"correct horse";

/// Creates an encrypted volume of `block_count` blocks of 4096 bytes with small segments.
pub(crate) fn create_encrypted(block_count: u64, mode: &str) -> FaultyFolder {
    let folder = FaultyFolder::default();
    let mode: Mode = mode.parse().expect("a mode");
    let options = CreateOptions {
        segment_size: 64 * 1024,
        passphrase: Some(PASSPHRASE.to_vec()),
        ..CreateOptions::new(block_count * 4096, 4096, mode)
    };
    Volume::create(&shared(&folder), &options).expect("created");
    folder
}

/// Returns the secret of an encrypted volume. A passphrase is stretched once for each volume.
pub(crate) fn secret(folder: &FaultyFolder) -> Option<Secret> {
    static KNOWN: Mutex<Vec<(Vec<u8>, Secret)>> = Mutex::new(Vec::new());
    let mut key = vec![0; 256];
    folder.read_at("key-0000000000000001", 0, &mut key).ok()?;
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, secret)) = known.iter().find(|(bytes, _)| *bytes == key) {
        return Some(secret.clone());
    }
    let secret = Volume::unlock(&shared(folder), PASSPHRASE).ok()??;
    known.push((key, secret.clone()));
    Some(secret)
}

/// A volume and its first disk.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) volume: Arc<Volume>,
    pub(crate) disk: Disk,
}

impl std::ops::Deref for Opened {
    type Target = Volume;

    fn deref(&self) -> &Volume {
        &self.volume
    }
}

impl Opened {
    pub(crate) fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.disk.read(offset, buffer)
    }

    pub(crate) fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.disk.write(offset, bytes)
    }

    pub(crate) fn trim(&self, offset: u64, len: u64) -> Result<()> {
        self.disk.trim(offset, len)
    }

    pub(crate) fn write_zeroes(&self, offset: u64, len: u64) -> Result<()> {
        self.disk.write_zeroes(offset, len)
    }

    pub(crate) fn extents(&self, offset: u64, len: u64, count_max: usize) -> Result<Vec<Extent>> {
        self.disk.extents(offset, len, count_max)
    }

    pub(crate) fn size(&self) -> u64 {
        self.disk.size()
    }
}

pub(crate) fn open(folder: &FaultyFolder) -> Opened {
    try_open(folder).expect("opened")
}

pub(crate) fn try_open(folder: &FaultyFolder) -> Result<Opened> {
    open_folder(shared(folder), &OpenOptions { secret: secret(folder), ..options() })
}

/// Returns the options of most tests: a checkpoint after some ten writes.
pub(crate) fn options() -> OpenOptions {
    OpenOptions { memory: 32 * 1024, reserve: 0, ..OpenOptions::new(Access::Write) }
}

pub(crate) fn open_folder(folder: Arc<dyn Folder>, options: &OpenOptions) -> Result<Opened> {
    let volume = Arc::new(Volume::open(folder, options)?);
    let disk = Disk::open(&volume, DISK_NAME_DEFAULT)?;
    Ok(Opened { volume, disk })
}

pub(crate) fn read(opened: &Opened, block: u64) -> Result<Vec<u8>> {
    let size = opened.block_size();
    let mut bytes = vec![0; size];
    opened.read(block * size as u64, &mut bytes).map(|()| bytes)
}

pub(crate) fn write(opened: &Opened, block: u64, bytes: &[u8]) {
    opened.write(block * opened.block_size() as u64, bytes).expect("written");
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
pub(crate) const MODES: [&str; 10] = [
    "off",
    "exact",
    "burst:tau=1/8,c_max=1",
    "burst:tau=1/8,c_max=3",
    "burst:tau=1/8,c_max=255",
    "burst:tau=64,c_max=3",
    "burst-head:c_max=3",
    "burst-raw:c_max=3",
    "burst-head-raw:c_max=3",
    "delta",
];

/// The compressions that tests change between.
pub(crate) const COMPRESSIONS: [&str; 3] = ["none", "lz4", "zstd"];
