//! Prints how fast chunks of random data are fingerprinted, in GB (10^9 bytes) a second of CPU time.
//!
//! `cargo run --release -p cutpoint-fingerprint --example speed [MiB]`

use std::hint::black_box;

use cutpoint_fingerprint::Blake3;
use cutpoint_testing::SplitMix64;

fn main() {
    let mib = std::env::args().nth(1).map_or(64, |text| text.parse().expect("a whole number"));
    let data = SplitMix64::bytes(1, mib << 20);
    let mut levels = Blake3::levels();
    levels.retain(|level| *level != "emulated");
    println!(
        "{:>12} {}",
        "chunk bytes",
        levels.iter().map(|l| format!("{l:>8}")).collect::<String>()
    );
    for size in [1000, 2000, 4000, 8000, 16_000, 44_000, 64_000, 256_000] {
        let chunks: Vec<&[u8]> = data.chunks(size).collect();
        // Batches of a mebibyte, as the store has them.
        let per_batch = (1_usize << 20).div_ceil(size);
        let mut seconds = vec![0.0; levels.len()];
        // Levels take turns, so that what else the machine does hits all alike.
        for _ in 0..6 {
            for (level, seconds) in levels.iter().zip(&mut seconds) {
                let hash = Blake3::keyed(&[7; 32]).at_level(level).expect("it is available");
                let started = cpu_seconds();
                let mut digests = Vec::new();
                for batch in chunks.chunks(per_batch) {
                    digests.clear();
                    hash.digests(black_box(batch), &mut digests);
                }
                black_box(&digests);
                *seconds += cpu_seconds() - started;
            }
        }
        let speeds = seconds.iter().map(|s| format!("{:8.2}", data.len() as f64 * 6.0 / s / 1e9));
        println!("{size:>12} {}", speeds.collect::<String>());
    }
}

/// Returns the CPU time of this thread in seconds, as Linux counts it.
fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux counts");
    let nanoseconds = text.split(' ').next().expect("the first field");
    nanoseconds.parse::<f64>().expect("a number") / 1e9
}
