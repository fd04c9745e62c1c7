//! Prints the measured mean chunk size on SplitMix64 data beside the computed and the wanted one.
//!
//! `cargo run --release -p cutpoint-chunking --example means [chunks a point]`, 40,000 by default.

use std::io::Read;

use cutpoint_chunking::{Chunks, Spec};
use cutpoint_testing::SplitMix64;

fn main() {
    let count = std::env::args().nth(1).map_or(40_000, |text| text.parse().expect("a number"));
    println!("| asked | computed | measured | off | spec |\n| --- | --- | --- | --- | --- |");
    for kib in [2, 4, 6, 8, 12, 16, 24, 32, 48, 64, 128, 256] {
        for text in [format!("seqcdc:avg={kib}k"), format!("fastcdc:avg={kib}k")] {
            print(&text, kib * 1024, count);
        }
        // A mean between two powers of two.
        print(&format!("fastcdc:avg={}", kib * 1437), kib * 1437, count);
    }
    for (text, nominal_size) in [("4k", 4096), ("8k", 8192), ("16k", 16384)] {
        print(&format!("seqcdc:paper={text}"), nominal_size, count);
    }
    for level in 0..4 {
        let text = format!("fastcdc:level={level},min=2k,normal=8k,max=64k");
        print(&text, 8192, count);
    }
}

fn print(text: &str, asked: usize, count: usize) {
    let spec: Spec = text.parse().expect("the spec is right");
    let mut chunks = Chunks::new(spec.chunker(), Endless(SplitMix64::new(1)));
    for _ in 0..count {
        chunks.next().expect("memory does not fail").expect("it has no end");
    }
    let mean = chunks.offset() as f64 / count as f64;
    println!(
        "| {asked} | {} | {mean:.0} | {:+.2} % | `{spec}` |",
        spec.chunk_size_average().map_or("-".to_owned(), |average| average.to_string()),
        (mean / asked as f64 - 1.0) * 100.0
    );
}

/// SplitMix64's bytes without end.
struct Endless(SplitMix64);

impl Read for Endless {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let (words, rest) = buffer.as_chunks_mut::<8>();
        for word in words.iter_mut() {
            *word = self.0.next().to_le_bytes();
        }
        // A read of less than 8 bytes gives the first of a number; the rest of it is dropped.
        if words.is_empty() {
            rest.copy_from_slice(&self.0.next().to_le_bytes()[..rest.len()]);
            return Ok(rest.len());
        }
        Ok(words.len() * 8)
    }
}
