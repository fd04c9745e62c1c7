//! Prints the speed of each algorithm, at each level and beside its reference, in GB (10^9 bytes)
//! per second of CPU time, and checks that all make the same cut-points.
//!
//! `cargo run --release -p cutpoint-chunking --example throughput [OPTION]...`
//!
//! - `--size MIB`: the size of the data; 64 by default
//! - `--rounds N`: the number of measurements of each, in turn; the medians are printed; 9 by
//!   default
//! - `--level LIST`: names of levels, separated by commas; those of this CPU by default
//! - `--spec SPEC`, any number of times: a spec to measure, instead of a list of all kinds
//! - `--file PATH`, any number of times: a file as data, instead of SplitMix64 bytes, the text of
//!   the test inputs, zeros, and bytes that count up
//! - `--no-reference`: leaves out the reference, which is slow
//! - `--one-by-one`: also asks for one chunk at a time instead of for many (`alone`), at the last
//!   level
//!
//! The first line for each data is a plain sum over it, which shows the speed of its memory.

#[path = "../tests/it/harness/mod.rs"]
mod harness;

use std::hint::black_box;
use std::io::Read;

use cutpoint_chunking::{Chunker, KeyMaterial, Level, Spec, cuts};
use cutpoint_testing::{SplitMix64, input, thread_cpu_time};

const SPECS: &[&str] = &[
    "fastcdc:avg=8k",
    "fastcdc:avg=16k",
    "fastcdc:avg=64k",
    "fastcdc:level=1,min=4096,normal=16384,max=131072",
    "seqcdc:paper=8k",
    "seqcdc:avg=8k",
    "seqcdc:avg=16k",
    "seqcdc:avg=64k",
    "fastcdc:form=dedup-bench,avg=16k",
    "seqcdc:paper=8k,equal=break",
    "seqcdc:paper=8k,equal=break,rule=literal",
    "ram:avg=8k",
    "ram:avg=8k,max=64k",
    "ae:avg=8k",
    "ae:avg=8k,mode=min",
    "ae:paper-zhang-opt2=8k",
    "maxp:avg=8k",
    "maxp:avg=8k,form=strict",
    "mii:paper=5482",
    "bfbc:pairs=2020.6520.7468,min=8064",
    "bfbc:pairs=0000.0a0a.1122.2030.2c20.3344.4142.5566.6162.6566.696e.7261.7365.7488.8bff.9090.a0b0.c0c1.e2e3.ffff,min=2",
    "samplebyte:period=256,markers=20.65",
    "gear:bits=13",
    "gear:bits=13,table=cutpoint32",
    "rabin:bits=13,window=64,min=2k,max=64k",
    "crc:bits=13,window=256,min=2k,max=64k",
    "buzhash:avg=8k,max=64k",
    "buzhash:avg=8k,table=cutpoint32,max=64k",
    "pci:avg=8k,max=64k",
    "mincdc:avg=8k",
    "mincdc:avg=8k,value=plain",
    "aes:avg=16k,max=128k",
    "aes:avg=16k,window=16,max=128k",
    "fixed:size=16k",
];

struct Options {
    size: usize,
    rounds: usize,
    levels: Vec<Level>,
    specs: Vec<Spec>,
    files: Vec<String>,
    has_reference: bool,
    is_one_by_one: bool,
}

fn options() -> Options {
    let mut options = Options {
        size: 64 << 20,
        rounds: 9,
        levels: Level::available(),
        specs: Vec::new(),
        files: Vec::new(),
        has_reference: true,
        is_one_by_one: false,
    };
    let mut arguments = std::env::args().skip(1);
    let spec = |text: &str| text.parse::<Spec>().unwrap_or_else(|error| panic!("{text}: {error}"));
    while let Some(option) = arguments.next() {
        let mut value = || arguments.next().unwrap_or_else(|| panic!("{option}: needs a value"));
        match option.as_str() {
            "--size" => options.size = value().parse::<usize>().expect("a whole number") << 20,
            "--rounds" => options.rounds = value().parse().expect("a whole number"),
            "--level" => {
                let level = |name| Level::named(name).unwrap_or_else(|error| panic!("{error}"));
                options.levels = value().split(',').map(level).collect();
            }
            "--spec" => options.specs.push(spec(&value())),
            "--file" => options.files.push(value()),
            "--no-reference" => options.has_reference = false,
            "--one-by-one" => options.is_one_by_one = true,
            _ => panic!("{option}: is no option"),
        }
    }
    if options.specs.is_empty() {
        options.specs = SPECS.iter().map(|text| spec(text)).collect();
    }
    options
}

fn main() {
    let options = options();
    let size = options.size;
    let mut data: Vec<(&str, Vec<u8>)> = Vec::new();
    for path in &options.files {
        let mut bytes = Vec::new();
        let file = std::fs::File::open(path).unwrap_or_else(|error| panic!("{path}: {error}"));
        file.take(size as u64).read_to_end(&mut bytes).expect("the file can be read");
        data.push((path.rsplit('/').next().unwrap_or(path), bytes));
    }
    if data.is_empty() {
        data.push(("random", SplitMix64::bytes(1, size)));
        data.push(("text", input::text(size)));
        data.push(("zeros", vec![0; size]));
        data.push(("saw", input::saw(size)));
    }
    print!("{:<10} {:<50} {:>7} {:>9}", "data", "spec", "mean", "reference");
    options.levels.iter().for_each(|level| print!(" {:>8}", level.name()));
    println!(" {:>8}{}", "keyed", if options.is_one_by_one { "    alone" } else { "" });
    for (name, data) in &data {
        let sum = || {
            let words = data.as_chunks().0.iter();
            let sum = words.fold(0, |sum: u64, &word| sum.wrapping_add(u64::from_le_bytes(word)));
            black_box(sum);
        };
        let [speed] = &measure(options.rounds, data.len(), &mut [&mut { sum }])[..] else {
            unreachable!("one is measured")
        };
        println!("{name:<10} {:<50} {speed:>26.2}", "a sum of all bytes, 8 at a time");
        options.specs.iter().for_each(|spec| run(name, data, spec, &options));
    }
}

fn run(name: &str, data: &[u8], spec: &Spec, options: &Options) {
    let mut expected: Vec<usize> = cuts(&*spec.chunker_at(Level::SCALAR), data).collect();
    let reference = if options.has_reference {
        let mut make = || expected = harness::checks::reference_cuts(spec, data);
        format!("{:.2}", measure(1, data.len(), &mut [&mut make])[0])
    } else {
        String::new()
    };
    let mut material = [0; KeyMaterial::SIZE];
    material.copy_from_slice(&SplitMix64::bytes(9, KeyMaterial::SIZE));
    let material = KeyMaterial::new(material);
    let mut chunkers: Vec<Box<dyn Chunker>> = Vec::new();
    for &level in &options.levels {
        let chunker = spec.chunker_at(level);
        if chunker.level() == level {
            let ends: Vec<usize> = cuts(&*chunker, data).collect();
            assert!(ends == expected, "cut-points of {spec} on {name} at level {}", level.name());
        }
        chunkers.push(chunker);
    }
    let last = spec.chunker_at(*options.levels.last().expect("there is a level"));
    let mut alone = || _ = black_box(count_one_by_one(black_box(&*last), data));
    let is_keyed = spec.keyed_chunker(&material).map(|keyed| chunkers.push(keyed)).is_ok();
    let mut each: Vec<_> = chunkers
        .iter()
        .map(|chunker| || _ = black_box(cuts(black_box(&**chunker), data).count()))
        .collect();
    let mut each: Vec<&mut dyn FnMut()> = each.iter_mut().map(|work| work as _).collect();
    if options.is_one_by_one {
        each.push(&mut alone);
    }
    let mut speeds = measure(options.rounds, data.len(), &mut each);
    let alone = if options.is_one_by_one { speeds.pop() } else { None };
    // `None` if the spec cannot be keyed.
    let keyed = if is_keyed { speeds.pop() } else { None };
    let text = spec.to_string();
    let text = text.get(..50).unwrap_or(&text);
    print!("{name:<10} {text:<50} {:>7} {reference:>9}", data.len() / expected.len().max(1));
    for (speed, (chunker, level)) in speeds.iter().zip(chunkers.iter().zip(&options.levels)) {
        if chunker.level() == *level {
            print!(" {speed:>8.2}");
        } else {
            print!(" {:>8}", "");
        }
    }
    let column = |speed: Option<f64>| speed.map_or(String::new(), |speed| format!("{speed:.2}"));
    println!(" {:>8} {:>8}", column(keyed), column(alone));
}

/// Returns the number of chunks of `data`.
fn count_one_by_one(chunker: &dyn Chunker, data: &[u8]) -> usize {
    let (mut start, mut count) = (0, 0);
    while let Some(size) = chunker.next_cut_after(&data[..start], &data[start..], false) {
        start += size;
        count += 1;
    }
    count
}

/// Runs each of `works` in turn, `rounds` times, and returns the median speed of each in GB/s of
/// CPU time, for `size` bytes each time.
fn measure(rounds: usize, size: usize, works: &mut [&mut dyn FnMut()]) -> Vec<f64> {
    let mut speeds = vec![Vec::new(); works.len()];
    for _ in 0..rounds {
        for (work, speeds) in works.iter_mut().zip(&mut speeds) {
            let started = thread_cpu_time().as_secs_f64();
            work();
            speeds.push(size as f64 / (thread_cpu_time().as_secs_f64() - started) / 1e9);
        }
    }
    let median = |speeds: &mut Vec<f64>| {
        speeds.sort_unstable_by(f64::total_cmp);
        speeds[speeds.len() / 2]
    };
    speeds.iter_mut().map(median).collect()
}
