//! Serves a file as a disk by the server of volumes, as it is: what a volume is compared with, and how
//! another device is served. With BLOCK_SIZE, each block that is read gets a checksum, and each block
//! that is written a checksum and a hash, as a volume does it, and nothing is done with them: the time
//! that every volume takes. With `features`, every other block that is written gets features as well, as
//! in mode `delta` a half that equals no stored block. The process runs until it is killed.
//!
//! `cargo run --release -p cutpoint-volume --example plain_file -- FILE SOCKET [BLOCK_SIZE [features]]`

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use cutpoint_delta::super_features;
use cutpoint_fingerprint::Blake3;
use cutpoint_volume::nbd::{Address, Exports, Server};
use cutpoint_volume::{Device, Error, Extent, Result};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// A file of a fixed size.
#[derive(Debug)]
struct PlainFile {
    file: File,
    size: u64,
    /// The size of the blocks to hash in bytes, if any are.
    block_size: Option<usize>,
    hash: Blake3,
    has_features: bool,
    /// The number of blocks that were written for features.
    count: AtomicUsize,
}

impl PlainFile {
    /// Hashes the blocks of a request, and computes their features.
    fn hash(&self, bytes: &[u8]) {
        if let Some(block_size) = self.block_size {
            let mut digests = Vec::new();
            self.hash.digests(&bytes.chunks(block_size).collect::<Vec<_>>(), &mut digests);
            std::hint::black_box(digests);
            if self.has_features {
                let blocks = bytes.chunks(block_size);
                let before = self.count.fetch_add(blocks.len(), Ordering::Relaxed);
                for block in blocks.skip(before % 2).step_by(2) {
                    std::hint::black_box(super_features(block));
                }
            }
        }
        self.add_checksums(bytes);
    }

    /// Computes the checksums of the blocks of a request.
    fn add_checksums(&self, bytes: &[u8]) {
        for block in self.block_size.into_iter().flat_map(|size| bytes.chunks(size)) {
            std::hint::black_box(xxh3_64_with_seed(block, 7));
        }
    }
}

impl Device for PlainFile {
    fn size(&self) -> u64 {
        self.size
    }

    fn preferred_size(&self) -> u32 {
        4096
    }

    fn is_read_only(&self) -> bool {
        false
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let read = self.file.read_exact_at(buffer, offset);
        read.map_err(|error| Error::io("file", "cannot be read", error))?;
        self.add_checksums(buffer);
        Ok(())
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.hash(bytes);
        let written = self.file.write_all_at(bytes, offset);
        written.map_err(|error| Error::io("file", "cannot be written", error))
    }

    fn flush(&self) -> Result<()> {
        self.file.sync_data().map_err(|error| Error::io("file", "cannot be synced", error))
    }

    /// Frees nothing, as a server may.
    fn trim(&self, _offset: u64, _len: u64) -> Result<()> {
        Ok(())
    }

    fn write_zeroes(&self, offset: u64, len: u64) -> Result<()> {
        let zeros = vec![0; 1 << 16];
        let end = offset + len;
        for at in (offset..end).step_by(zeros.len()) {
            let count = (end - at).min(zeros.len() as u64);
            self.write(at, &zeros[..usize::try_from(count).expect("at most 64 KiB")])?;
        }
        Ok(())
    }

    fn extents(&self, _offset: u64, len: u64, _count_max: usize) -> Result<Vec<Extent>> {
        Ok(vec![Extent { len, is_zero: false }])
    }
}

/// The file, by any name.
#[derive(Debug)]
struct OneFile(Arc<PlainFile>);

impl Exports for OneFile {
    fn names(&self) -> Vec<String> {
        vec![String::new()]
    }

    fn open(&self, _name: &str) -> Option<Arc<dyn Device>> {
        Some(Arc::clone(&self.0) as Arc<dyn Device>)
    }
}

fn main() -> std::io::Result<()> {
    let words: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let usage = || -> ! {
        eprintln!("usage: plain_file FILE SOCKET [BLOCK_SIZE [features]]");
        std::process::exit(2);
    };
    let [file, socket, rest @ ..] = words.as_slice() else { usage() };
    let block_size = match rest {
        [] => None,
        [size, ..] => match size.to_str().and_then(|size| size.parse().ok()) {
            Some(size) if size > 0 => Some(size),
            _ => usage(),
        },
    };
    let has_features = match rest {
        [] | [_] => false,
        [_, word] if word.as_os_str() == "features" => true,
        _ => usage(),
    };
    let file = File::options().read(true).write(true).open(file)?;
    let size = file.metadata()?.len();
    let hash = Blake3::keyed(&[7; 32]);
    let count = AtomicUsize::new(0);
    let exports =
        OneFile(Arc::new(PlainFile { file, size, block_size, hash, has_features, count }));
    Server::listen(&Address::Unix(socket.clone()), None)?.run(&exports, &|| false)
}
