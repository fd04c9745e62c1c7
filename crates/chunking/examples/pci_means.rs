//! Prints the means of PCI that are frozen in `src/algorithm/pci/means.rs`: `cargo run --release -p
//! cutpoint-chunking --example pci_means`, which takes some minutes.
//!
//! One pass over 8 GiB of random data for each window counts the chunks of every threshold, each
//! with its own cut-points. A mean of 65536 bytes is based on 131,000 chunks, and its standard
//! error is 0.3 %.

use cutpoint_testing::SplitMix64;

const SIZE: u64 = 1 << 33;
const MEAN_MIN: f64 = 480.0;
const MEAN_MAX: f64 = 70_000.0;
const THRESHOLDS: usize = 96;

fn main() {
    println!("//! Measured by `examples/pci_means.rs`.\n");
    println!(
        "/// For each window from [`super::WINDOW_FIRST`] on: a threshold, and the means in bytes"
    );
    println!("/// from it on.");
    println!("#[rustfmt::skip]");
    println!("pub(super) const MEANS: &[(u32, &[u32])] = &[");
    for window in 32..64 {
        let (first, means) = means(window);
        let means: Vec<String> = means.iter().map(|mean| format!("{mean:.0}")).collect();
        println!("    ({first}, &[{}]),", means.join(", "));
    }
    println!("];");
}

/// Returns the index of the byte at a position in a ring of 64.
fn slot(position: u64) -> usize {
    usize::try_from(position % 64).expect("it is small")
}

/// Returns the first threshold of interest, and the means from it on.
fn means(window: u64) -> (u64, Vec<f64>) {
    let lowest = 4 * window + window.isqrt() * 2;
    let mut random = SplitMix64::new(window);
    let mut ring = [0u32; 64];
    let mut sum = 0u64;
    // For each threshold: the start of its chunk, and the number of chunks that ended.
    let mut starts = [0u64; THRESHOLDS];
    let mut counts = [0u64; THRESHOLDS];
    let mut position = 0u64;
    while position < SIZE {
        for byte in random.next().to_le_bytes() {
            let count = byte.count_ones();
            ring[slot(position)] = count;
            // Before the first `window` bytes the ring holds zeros.
            sum = sum + u64::from(count) - u64::from(ring[slot(position + 64 - window)]);
            position += 1;
            if sum < lowest {
                continue;
            }
            let met = usize::try_from(sum - lowest + 1).expect("it is small");
            for (start, count) in starts.iter_mut().zip(&mut counts).take(met) {
                if position - *start >= window {
                    *start = position;
                    *count += 1;
                }
            }
        }
    }
    let means = starts.iter().zip(counts).map(|(&start, count)| start as f64 / count.max(1) as f64);
    let means: Vec<f64> = means.collect();
    let first = means.iter().position(|&mean| mean >= MEAN_MIN).expect("one is large");
    let means = means[first..].iter().copied().take_while(|&mean| mean <= MEAN_MAX).collect();
    (lowest + first as u64, means)
}
