//! Prints the time that it takes to parse each short form `avg`, and other specs given as
//! arguments, in microseconds of CPU time: the median of 99 rounds of 20 each.
//!
//! `cargo run --release -p cutpoint-chunking --example parse [SPEC]...`

use std::hint::black_box;

use cutpoint_chunking::{Spec, algorithms};
use cutpoint_testing::thread_cpu_time;

const ROUNDS: usize = 99;
const COUNT: usize = 20;

fn main() {
    let mut texts: Vec<String> = std::env::args().skip(1).collect();
    if texts.is_empty() {
        let with_average = algorithms()
            .iter()
            .filter(|about| about.short_forms.iter().any(|form| form.key == "avg"));
        for about in with_average {
            texts.extend(
                ["256", "770", "2k", "8k", "16k", "1m"]
                    .map(|size| format!("{}:avg={size}", about.name)),
            );
        }
        for bytes in [2, 4, 8] {
            texts.push(format!("ae:avg=16k,bytes={bytes}"));
            texts.push(format!("maxp:avg=16k,bytes={bytes}"));
        }
    }
    for text in texts.iter().filter(|text| text.parse::<Spec>().is_ok()) {
        let mut times: Vec<f64> = (0..ROUNDS)
            .map(|_| {
                let started = thread_cpu_time().as_secs_f64();
                for _ in 0..COUNT {
                    _ = black_box(black_box(text).parse::<Spec>());
                }
                (thread_cpu_time().as_secs_f64() - started) / COUNT as f64 * 1e6
            })
            .collect();
        times.sort_unstable_by(f64::total_cmp);
        println!("{text:<32} {:>9.2}", times[ROUNDS / 2]);
    }
}
