//! Prints the speed of fingerprinting chunks of random data at each level, in GB (10^9 bytes) per
//! second of CPU time, and its ratio to the speed of the crate.
//!
//! `cargo run --release -p cutpoint-fingerprint --example speed [blake3|sha256|sha1] [KiB a batch] \
//! [KiB a chunk]...`
//!
//! To measure this CPU without AVX-512, add `--features blake3/no_avx512`, and read the column
//! `avx2` only.

mod common;

use std::hint::black_box;

use common::{Work, speeds};
use cutpoint_fingerprint::{Blake3, Sha1, Sha256};
use cutpoint_testing::SplitMix64;

/// The size of data that is not in the cache, in bytes: three times the largest third-level cache
/// of the machines measured on.
const COLD_SIZE: usize = 96 << 20;
/// The size of data that is in the cache, in bytes: half a second-level cache.
const HOT_SIZE: usize = 512 << 10;
const ROUNDS: usize = 7;

/// Computes the digests of a batch and discards them.
type Hash = Box<dyn Fn(&[&[u8]])>;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let function = arguments.next().unwrap_or_else(|| "blake3".into());
    let kib: usize =
        arguments.next().map_or(1024, |text| text.parse().expect("a whole number of KiB"));
    let mut sizes: Vec<usize> = arguments.map(|text| text.parse().expect("KiB")).collect();
    if sizes.is_empty() {
        sizes = vec![1, 4, 8, 16, 32, 44, 64, 128, 256, 1024];
    }
    let (levels, hashes): (Vec<&str>, Vec<Hash>) = match function.as_str() {
        "blake3" => measured(Blake3::levels(), |level| {
            let hash = Blake3::keyed(&[7; 32]).at_level(level).expect("it is available");
            Box::new(move |chunks| {
                let mut digests = Vec::new();
                hash.digests(chunks, &mut digests);
                black_box(digests);
            })
        }),
        "sha256" => measured(Sha256::levels(), |level| {
            let hash = Sha256::plain().at_level(level).expect("it is available");
            Box::new(move |chunks| {
                let mut digests = Vec::new();
                hash.digests(chunks, &mut digests);
                black_box(digests);
            })
        }),
        "sha1" => measured(Sha1::levels(), |level| {
            let hash = Sha1::plain().at_level(level).expect("it is available");
            Box::new(move |chunks| {
                let mut digests = Vec::new();
                hash.digests(chunks, &mut digests);
                black_box(digests);
            })
        }),
        _ => panic!("blake3, sha256 or sha1"),
    };
    println!("{function}, batches of {kib} KiB");
    let heads = levels.iter().map(|level| format!("{level:>8}        "));
    println!("{:>9} {:>7} {:>5}{}", "KiB", "sizes", "data", heads.collect::<String>());
    let data = SplitMix64::bytes(1, COLD_SIZE);
    for (name, data) in [("cold", &data[..]), ("hot", &data[..HOT_SIZE])] {
        for (kind, unlike) in [("alike", false), ("unlike", true)] {
            for size in sizes.iter().map(|kib| kib << 10) {
                // Unequal chunks have between half and one and a half times the given size.
                let mut random = SplitMix64::new(2);
                let (mut chunks, mut rest) = (Vec::new(), data);
                while !rest.is_empty() {
                    let len = if unlike { size / 2 + random.below(size) } else { size };
                    let (chunk, behind) = rest.split_at(len.min(rest.len()));
                    chunks.push(chunk);
                    rest = behind;
                }
                let per_batch = (kib << 10).div_ceil(size);
                let repeats = (32_usize << 20).div_ceil(data.len());
                let mut works: Vec<Work<'_>> = Vec::new();
                for hash in &hashes {
                    let chunks = &chunks;
                    works.push(Box::new(move || {
                        for batch in (0..repeats).flat_map(|_| chunks.chunks(per_batch)) {
                            hash(black_box(batch));
                        }
                    }));
                }
                let speeds = speeds(ROUNDS, data.len() * repeats, &mut works);
                let columns = speeds.iter().map(|s| format!("{s:8.2} ({:4.2}x)", s / speeds[0]));
                println!("{:>9} {kind:>7} {name:>5}{}", size >> 10, columns.collect::<String>());
            }
        }
    }
}

/// Returns all levels except `emulated`, and a hash for each. The crate comes first.
fn measured(
    mut levels: Vec<&'static str>,
    hash: impl Fn(&str) -> Hash,
) -> (Vec<&'static str>, Vec<Hash>) {
    levels.retain(|level| *level != "emulated");
    let hashes = levels.iter().map(|level| hash(level)).collect();
    (levels, hashes)
}
