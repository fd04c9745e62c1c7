//! Fills the tables of a large volume and prints their size, memory and speed, without the space that
//! its blocks would take: the bytes of the log are dropped, the tables are real files.
//!
//! `cargo run --release -p cutpoint-volume --example large_tables -- FOLDER BLOCK_SIZE GIB MODE MEMORY_MIB`

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use cutpoint_testing::SplitMix64;
use cutpoint_volume::{
    Access, CreateOptions, DISK_NAME_DEFAULT, Disk, Folder, LocalFolder, OpenOptions, Volume,
};

/// The number of blocks of a write.
const BATCH: u64 = 64;

/// A folder that keeps the lengths of segments, and no bytes of them.
#[derive(Debug)]
struct WithoutLog {
    folder: LocalFolder,
    lens: Mutex<HashMap<String, u64>>,
    /// The bytes of all other files that were ever written.
    written: AtomicU64,
}

impl WithoutLog {
    fn is_log(name: &str) -> bool {
        name.starts_with("segment-")
    }

    fn lens(&self) -> std::sync::MutexGuard<'_, HashMap<String, u64>> {
        self.lens.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Folder for WithoutLog {
    fn names(&self) -> io::Result<Vec<String>> {
        let mut names = self.folder.names()?;
        names.extend(self.lens().keys().cloned());
        Ok(names)
    }

    fn create(&self, name: &str) -> io::Result<()> {
        if !WithoutLog::is_log(name) {
            return self.folder.create(name);
        }
        self.lens().insert(name.to_owned(), 0);
        Ok(())
    }

    fn write_at(&self, name: &str, offset: u64, bytes: &[u8]) -> io::Result<()> {
        match self.lens().get_mut(name) {
            Some(len) => *len = offset + bytes.len() as u64,
            None => {
                self.written.fetch_add(bytes.len() as u64, Ordering::Relaxed);
                return self.folder.write_at(name, offset, bytes);
            }
        }
        Ok(())
    }

    fn read_at(&self, name: &str, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        if WithoutLog::is_log(name) {
            return Err(io::Error::other("the bytes of the log were dropped"));
        }
        self.folder.read_at(name, offset, buffer)
    }

    fn size(&self, name: &str) -> io::Result<u64> {
        let len = self.lens().get(name).copied();
        len.map_or_else(|| self.folder.size(name), Ok)
    }

    fn sync(&self, name: &str) -> io::Result<()> {
        if WithoutLog::is_log(name) { Ok(()) } else { self.folder.sync(name) }
    }

    fn sync_names(&self) -> io::Result<()> {
        self.folder.sync_names()
    }

    fn delete(&self, name: &str) -> io::Result<()> {
        match self.lens().remove(name) {
            Some(_) => Ok(()),
            None => self.folder.delete(name),
        }
    }
}

/// Returns the maximum memory of the process so far in MiB.
fn memory_max_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1));
    kib.and_then(|kib| kib.parse::<u64>().ok()).unwrap_or_default() / 1024
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [folder, block_size, gib, mode, memory_mib] = args.as_slice() else {
        eprintln!("arguments: FOLDER BLOCK_SIZE GIB MODE MEMORY_MIB");
        std::process::exit(2);
    };
    let number = |text: &String| text.parse::<u64>().expect("a number");
    let (block_size, size) = (number(block_size), number(gib) << 30);
    let folder = LocalFolder::create(Path::new(folder)).expect("a folder");
    let written = AtomicU64::new(0);
    let without_log = Arc::new(WithoutLog { folder, lens: Mutex::default(), written });
    let folder: Arc<dyn Folder> = without_log.clone();
    let short = u32::try_from(block_size).expect("a size of a block");
    let options = CreateOptions::new(size, short, mode.parse().expect("a mode"));
    Volume::create(&folder, &options).expect("created");
    let memory = number(memory_mib) << 20;
    let options = OpenOptions { memory, reserve: 0, ..OpenOptions::new(Access::Write) };
    let volume = Arc::new(Volume::open(folder, &options).expect("opened"));
    let disk = Disk::open(&volume, DISK_NAME_DEFAULT).expect("a disk");
    let mut bytes = vec![0; usize::try_from(BATCH * block_size).expect("in memory")];
    let block_count = size / block_size;
    let start = Instant::now();
    for first in (0..block_count).step_by(usize::try_from(BATCH).expect("small")) {
        let width = usize::try_from(block_size).expect("small");
        for (at, block) in (first..).zip(bytes.chunks_exact_mut(width)) {
            if mode == "delta" {
                // No two blocks have a feature in common.
                block.copy_from_slice(&SplitMix64::bytes(at, width));
            }
            // No two blocks have the same bytes, the same head or the same tail.
            block[..8].copy_from_slice(&(at + 1).to_le_bytes());
            block[width - 8..].copy_from_slice(&(at + 1).to_le_bytes());
        }
        disk.write(first * block_size, &bytes).expect("written");
        if (first / BATCH).is_multiple_of(1024) {
            volume.merge_runs(&|| false).expect("merged");
        }
    }
    volume.checkpoint().expect("written");
    let elapsed = start.elapsed();
    let statistics = volume.statistics().expect("statistics");
    let per_block = |bytes: u64| bytes as f64 / block_count as f64;
    println!(
        "{block_count} blocks of {block_size} bytes, {mode}: tables {:.1} bytes a block, of {:.1} \
         written; fences and filters {:.2} bytes a block, at most {} MiB of memory, {:.1} us a block",
        per_block(statistics.table_bytes),
        per_block(without_log.written.load(Ordering::Relaxed)),
        per_block(statistics.table_memory_bytes),
        memory_max_mib(),
        elapsed.as_secs_f64() * 1e6 / block_count as f64,
    );
}
