//! Prints the measured mean chunk size on SplitMix64 data beside the computed and the requested
//! one.
//!
//! Usage: `cargo run --release -p cutpoint-chunking --example means [CHUNKS [SPEC]...]`, with
//! 40,000 chunks for each point by default. Without specs, it measures those of `tests/it/harness/cases` at 2
//! to 64 KiB, and every other algorithm. A mean that cannot be reached is printed with its error.

#[path = "../tests/it/harness/mod.rs"]
mod harness;

use cutpoint_chunking::Spec;

use harness::cases;
use harness::measured::measured_mean;

const AVERAGES: [usize; 6] = [2048, 4096, 8192, 16_384, 32_768, 65_536];

fn main() {
    let mut words = std::env::args().skip(1);
    let count = words.next().map_or(40_000, |text| text.parse().expect("a number"));
    println!("| measured / asked | measured | computed | asked | spec |");
    println!("| --- | --- | --- | --- | --- |");
    let specs: Vec<String> = words.collect();
    for text in &specs {
        print(text, None, count);
    }
    if !specs.is_empty() {
        return;
    }
    for cases in cases::ALL {
        let name = format!("{}:avg=", cases.algorithm);
        let plain = [(name.as_str(), [].as_slice())];
        for (text, own) in if cases.averages.is_empty() { &plain } else { cases.averages } {
            // Some algorithms reach only certain averages.
            for average in own.iter().copied().filter(|&own| own < AVERAGES[0]).chain(AVERAGES) {
                print(&format!("{text}{average}"), Some(average), count);
            }
        }
    }
}

fn print(text: &str, asked: Option<usize>, count: usize) {
    let spec: Spec = match text.parse() {
        Ok(spec) => spec,
        Err(error) => {
            println!("| refused | - | - | - | {error} |");
            return;
        }
    };
    let mean = measured_mean(&spec, count);
    let computed = spec.chunk_size_average();
    let ratio = asked.or(computed).map_or("-".to_owned(), |size| {
        let ratio = mean / size as f64;
        let mark = if (ratio - 1.0).abs() > 0.02 { " !" } else { "" };
        format!("{ratio:.4}{mark}")
    });
    let text = |size: Option<usize>| size.map_or("-".to_owned(), |size| size.to_string());
    println!("| {ratio} | {mean:.0} | {} | {} | `{spec}` |", text(computed), text(asked));
}
