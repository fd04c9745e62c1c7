//! Compares the algorithms, as tables for `docs/notes/algorithms.md`: chunk sizes, the cost of an edit,
//! the effect of low entropy, speed, and savings on folders of files.
//!
//! `cargo run --release -p cutpoint-chunking --example compare [NAME=FOLDER]...`
//!
//! Every algorithm has a target of 8 KiB, without limits except those that its parameters for a
//! target bring. On a folder each algorithm is fitted first, so that its measured mean there is
//! also 8 KiB, because smaller chunks always find more.

use std::collections::{BTreeMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::hint::black_box;
use std::path::{Path, PathBuf};

use cutpoint_chunking::algorithm::bfbc::PairCounts;
use cutpoint_chunking::{Chunker, Spec, algorithms, cuts};
use cutpoint_testing::{SplitMix64, input, thread_cpu_time};

const TARGET: usize = 8192;

/// The minimum share of the savings of the best content-defined row at which a row is among the
/// best. (Fixed sizes win where nothing moves, and nowhere else.)
const SAVES_MIN: f64 = 0.95;
/// The minimum share of the speed of `fastcdc` in the same run at which a row is fast.
const SPEED_MIN: f64 = 0.9;
/// The maximum distance of the mean from the target, on each kind of data, as a share of the
/// target.
const MEAN_ERROR_MAX: f64 = 0.1;
/// The maximum deviation at which sizes are even, as a share of the mean.
const DEVIATION_MAX: f64 = 0.6;
/// The maximum number of mean chunks, on average, that a cheap edit changes.
const EDIT_MAX: f64 = 2.5;

/// A row: an algorithm, and the derivation of its parameters from a target.
struct Row {
    name: String,
    make: Box<Make>,
}

/// Makes the parameters for a target in bytes; rules that learn do so from the sample.
type Make = dyn Fn(usize, &[Vec<u8>]) -> Option<Spec>;

/// Returns every algorithm that has parameters for a target, some with dialects, and BFBC, which
/// learns.
fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    for about in algorithms() {
        let dialects: &[&str] = match about.name {
            "seqcdc" => &["", ",equal=break"],
            "gear" => &["", ",level=2"],
            "ae" => &["", ",mode=min"],
            _ => &[""],
        };
        for dialect in dialects {
            let name = about.name;
            let parse = move |target| {
                let text = match name {
                    "fixed" => format!("fixed:size={target}"),
                    _ => format!("{name}:avg={target}{dialect}"),
                };
                text.parse().ok()
            };
            let make = Box::new(move |target, _: &[Vec<u8>]| parse(target));
            if parse(TARGET).is_some() {
                rows.push(Row { name: format!("{name}{}", dialect.replace(',', ", ")), make });
            }
        }
    }
    rows.push(Row {
        name: "bfbc, the 3 most frequent pairs".to_owned(),
        make: Box::new(|_, sample| Spec::try_from(counted(sample).most_frequent(3, 2)).ok()),
    });
    rows.push(Row {
        name: "bfbc*".to_owned(),
        make: Box::new(|target, sample| {
            Spec::try_from(counted(sample).for_average(target, 2)).ok()
        }),
    });
    rows
}

fn counted(sample: &[Vec<u8>]) -> PairCounts {
    let mut counts = PairCounts::new();
    for stream in sample {
        counts.add(stream);
        counts.end_stream();
    }
    counts
}

/// The findings for a row's line of the summary.
#[derive(Default)]
struct Findings {
    mean_error: f64,
    deviation: f64,
    edit: f64,
    speed: f64,
    saved: Vec<f64>,
}

fn main() {
    let sets: Vec<(String, PathBuf)> = std::env::args()
        .skip(1)
        .map(|text| {
            let (name, folder) = text.split_once('=').expect("NAME=FOLDER");
            (name.to_owned(), folder.into())
        })
        .collect();
    let rows = rows();
    let mut findings: BTreeMap<String, Findings> = BTreeMap::new();
    sizes(&rows, &mut findings);
    edits(&rows, &mut findings);
    low_entropy(&rows);
    speeds(&rows, &mut findings);
    for (name, folder) in sets {
        savings(&rows, &name, &folder, &mut findings);
    }
    summary(&rows, &findings);
}

fn sizes(rows: &[Row], findings: &mut BTreeMap<String, Findings>) {
    println!("\n### Chunk sizes\n\n128 MiB of random bytes and of text, target {TARGET}.\n");
    println!(
        "| algorithm | mean / target | deviation / mean | largest / mean | text: mean / target | spec |"
    );
    println!("| --- | ---: | ---: | ---: | ---: | --- |");
    let random = vec![SplitMix64::bytes(1, 128 << 20)];
    let text = vec![input::text(128 << 20)];
    for row in rows {
        let spec = (row.make)(TARGET, &random).expect("it was made before");
        let sizes = chunk_sizes(&*spec.chunker(), &random[0]);
        let mean = mean(&sizes);
        let deviation = deviation(&sizes, mean) / mean;
        let largest = *sizes.iter().max().expect("there is a chunk") as f64 / mean;
        let of_text = (row.make)(TARGET, &text).expect("it was made before");
        let text_mean = self::mean(&chunk_sizes(&*of_text.chunker(), &text[0]));
        let target = TARGET as f64;
        let mut shown = spec.to_string();
        if shown.len() > 90 {
            shown = format!("{}...", &shown[..80]);
        }
        println!(
            "| {} | {:.3} | {deviation:.2} | {largest:.1} | {} | `{shown}` |",
            row.name,
            mean / target,
            times(text_mean / target)
        );
        let found = findings.entry(row.name.clone()).or_default();
        found.deviation = deviation;
        found.mean_error = (mean / target - 1.0).abs().max((text_mean / target - 1.0).abs());
    }
}

/// Prints the bytes of chunks that did not exist before, after one byte of random data was
/// inserted, deleted or replaced, in mean chunks.
fn edits(rows: &[Row], findings: &mut BTreeMap<String, Findings>) {
    const SIZE: usize = 2 << 20;
    const COUNT: u64 = 200;
    println!("\n### What an edit costs\n");
    println!(
        "{COUNT} edits of one byte of each kind, at random places of {SIZE} random bytes: the bytes \
         of chunks that were not there before, in mean chunks.\n"
    );
    println!("| algorithm | insertion | deletion | replacement | largest of all |");
    println!("| --- | ---: | ---: | ---: | ---: |");
    for row in rows {
        let data = SplitMix64::bytes(2, SIZE);
        let sample = vec![data.clone()];
        let spec = (row.make)(TARGET, &sample).expect("it was made before");
        let chunker = spec.chunker();
        let mean = mean(&chunk_sizes(&*chunker, &data));
        let known: HashSet<u64> = fingerprints(&*chunker, &data).map(|(hash, _)| hash).collect();
        let mut random = SplitMix64::new(3);
        let (mut averages, mut largest) = (Vec::new(), 0.0_f64);
        for kind in 0..3 {
            let mut sum = 0;
            for _ in 0..COUNT {
                // Far enough from the end for the cut-points to meet again.
                let at = usize::try_from(random.next() % (SIZE as u64 / 2)).expect("it is small");
                let byte = u8::try_from(random.next() & 0xff).expect("it is a byte");
                let mut edited = data.clone();
                match kind {
                    0 => edited.insert(at, byte),
                    1 => drop(edited.remove(at)),
                    _ => edited[at] ^= byte | 1,
                }
                let new: usize = fingerprints(&*chunker, &edited)
                    .filter_map(|(hash, size)| (!known.contains(&hash)).then_some(size))
                    .sum();
                sum += new;
                largest = largest.max(new as f64 / mean);
            }
            averages.push(sum as f64 / COUNT as f64 / mean);
        }
        println!(
            "| {} | {} | {} | {} | {} |",
            row.name,
            times(averages[0]),
            times(averages[1]),
            times(averages[2]),
            times(largest)
        );
        let found = findings.entry(row.name.clone()).or_default();
        found.edit = averages.into_iter().fold(0.0, f64::max);
    }
}

fn low_entropy(rows: &[Row]) {
    const SIZE: usize = 1 << 20;
    const COUNT: usize = 400;
    println!("\n### Low entropy\n");
    println!(
        "Zeros; and {COUNT} random patterns of 2 to 64 bytes, each repeated to 1 MiB: mean chunk / \
         target, the smallest and the largest of all patterns. A mean of {} is a stretch that was \
         not cut at all.\n",
        SIZE / TARGET
    );
    println!("| algorithm | zeros | smallest | median | largest | not cut | a key changes |");
    println!("| --- | ---: | ---: | ---: | ---: | ---: | --- |");
    let random = vec![SplitMix64::bytes(1, 8 << 20)];
    for row in rows {
        let spec = (row.make)(TARGET, &random).expect("it was made before");
        let chunker = spec.chunker();
        let of = |data: &[u8]| mean(&chunk_sizes(&*chunker, data)) / TARGET as f64;
        let zeros = of(&vec![0; SIZE]);
        let mut numbers = SplitMix64::new(4);
        let mut means: Vec<f64> = (0..COUNT)
            .map(|_| {
                let period = 2 + usize::try_from(numbers.next() % 63).expect("it is small");
                of(&input::repeated(&numbers.take(period), SIZE))
            })
            .collect();
        means.sort_unstable_by(f64::total_cmp);
        let uncut = means.iter().filter(|&&mean| mean * TARGET as f64 > (SIZE / 2) as f64).count();
        println!(
            "| {} | {} | {} | {} | {} | {:.0} % | {} |",
            row.name,
            times(zeros),
            times(means[0]),
            times(means[COUNT / 2]),
            times(means[COUNT - 1]),
            uncut as f64 / COUNT as f64 * 100.0,
            spec.about().key.name()
        );
    }
}

/// The minimum duration of a speed measurement, in seconds of CPU time, and the maximum number of
/// rounds.
const SECONDS_MIN: f64 = 0.5;
const ROUND_COUNT_MAX: u32 = 200;

fn speeds(rows: &[Row], findings: &mut BTreeMap<String, Findings>) {
    println!("\n### Speed\n");
    println!("GB (10^9 bytes) a second of CPU time, one thread, 64 MiB in memory.\n");
    println!("| algorithm | random | text | zeros |\n| --- | ---: | ---: | ---: |");
    let data = [
        vec![SplitMix64::bytes(5, 64 << 20)],
        vec![input::text(64 << 20)],
        vec![vec![0; 64 << 20]],
    ];
    for row in rows {
        let speeds = data.each_ref().map(|data| {
            let sample = vec![data[0][..8 << 20].to_vec()];
            let spec = (row.make)(TARGET, &sample).or_else(|| (row.make)(TARGET, &[]));
            let chunker = spec.expect("it was made before").chunker();
            // Linux may count the CPU time in steps of milliseconds, so the rounds together must
            // last long.
            let (started, mut rounds) = (thread_cpu_time().as_secs_f64(), 0);
            let seconds = loop {
                black_box(cuts(black_box(&*chunker), &data[0]).count());
                rounds += 1;
                let seconds = thread_cpu_time().as_secs_f64() - started;
                if seconds > SECONDS_MIN || rounds == ROUND_COUNT_MAX {
                    break seconds / f64::from(rounds);
                }
            };
            data[0].len() as f64 / seconds / 1e9
        });
        let shown =
            speeds.map(|speed| if row.name == "fixed" { "-".to_owned() } else { times(speed) });
        println!("| {} | {} |", row.name, shown.join(" | "));
        findings.entry(row.name.clone()).or_default().speed = speeds[0];
    }
}

fn savings(rows: &[Row], name: &str, folder: &Path, findings: &mut BTreeMap<String, Findings>) {
    let streams = read_files(folder);
    let total: usize = streams.iter().map(Vec::len).sum();
    println!("\n### {name}\n");
    println!(
        "{} files, {:.0} MB. Space savings, metadata not counted: with the parameters for the target, \
         and where the measured mean is the target.\n",
        streams.len(),
        total as f64 / 1e6
    );
    println!("| algorithm | saved | mean / target | saved where fitted | mean / target |");
    println!("| --- | ---: | ---: | ---: | ---: |");
    // Rules that learn do so from a part.
    let sample: Vec<Vec<u8>> =
        streams.iter().step_by(streams.len().div_ceil(64)).cloned().collect();
    for row in rows {
        let target = TARGET as f64;
        let first = (row.make)(TARGET, &sample).map(|spec| measure(&spec, &streams));
        let Some((saved, mean)) = first else {
            println!("| {} | - | - | - | - |", row.name);
            findings.entry(row.name.clone()).or_default().saved.push(0.0);
            continue;
        };
        // The average to ask for is nearly proportional to the measured one.
        let (mut asked, mut fitted) = (target, (saved, mean));
        for _ in 0..6 {
            let off = fitted.1 / target;
            if (off - 1.0).abs() < 0.03 {
                break;
            }
            asked = (asked / off).clamp(64.0, 1e7);
            #[expect(clippy::cast_possible_truncation, reason = "it is clamped")]
            match (row.make)(asked as usize, &sample) {
                Some(spec) => fitted = measure(&spec, &streams),
                None => break,
            }
        }
        let is_fitted = (fitted.1 / target - 1.0).abs() < 0.1;
        let of_fitted = if is_fitted {
            format!("{:.2} % | {:.3}", fitted.0 * 100.0, fitted.1 / target)
        } else {
            "cannot be | -".to_owned()
        };
        println!(
            "| {} | {:.2} % | {} | {of_fitted} |",
            row.name,
            saved * 100.0,
            times(mean / target)
        );
        let found = findings.entry(row.name.clone()).or_default();
        found.saved.push(if is_fitted { fitted.0 } else { 0.0 });
        found.mean_error = found.mean_error.max((mean / target - 1.0).abs());
    }
}

/// Returns the share of bytes in chunks that existed before, and the mean size in bytes.
fn measure(spec: &Spec, streams: &[Vec<u8>]) -> (f64, f64) {
    let chunker = spec.chunker();
    let mut known = HashSet::new();
    let (mut saved, mut total, mut count) = (0_usize, 0_usize, 0_usize);
    for stream in streams {
        for (hash, size) in fingerprints(&*chunker, stream) {
            saved += if known.insert(hash) { 0 } else { size };
            total += size;
            count += 1;
        }
    }
    (saved as f64 / total as f64, total as f64 / count as f64)
}

fn summary(rows: &[Row], findings: &BTreeMap<String, Findings>) {
    println!("\n### In short\n");
    println!(
        "Saves: at least {SAVES_MIN} of the best content-defined one on every folder, means fitted. Fast: at least \
         {SPEED_MIN} of fastcdc's speed on random data. Mean: within {MEAN_ERROR_MAX} \
         of the target on all data. Even: deviation at most {DEVIATION_MAX} of the mean on random \
         data. Edit: at most {EDIT_MAX} mean chunks each kind.\n"
    );
    println!("| algorithm | saves | fast | mean | even | edit |");
    println!("| --- | :-: | :-: | :-: | :-: | :-: |");
    let of = |row: &Row| &findings[&row.name];
    let fast = findings["fastcdc"].speed * SPEED_MIN;
    let set_count = of(&rows[0]).saved.len();
    let best: Vec<f64> = (0..set_count)
        .map(|set| {
            let others = rows.iter().filter(|row| row.name != "fixed");
            others.map(|row| of(row).saved[set]).fold(0.0, f64::max)
        })
        .collect();
    for row in rows {
        let found = of(row);
        let saves = set_count > 0
            && found.saved.iter().zip(&best).all(|(saved, best)| *saved >= best * SAVES_MIN);
        let marks = [
            saves,
            found.speed >= fast,
            found.mean_error <= MEAN_ERROR_MAX,
            found.deviation <= DEVIATION_MAX,
            found.edit <= EDIT_MAX,
        ];
        let marks = marks.map(|is_so| if is_so { "yes" } else { "" });
        println!("| {} | {} |", row.name, marks.join(" | "));
    }
}

fn read_files(folder: &Path) -> Vec<Vec<u8>> {
    let mut streams = Vec::new();
    let mut entries: Vec<_> = std::fs::read_dir(folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.expect("it can be listed"))
        .collect();
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let kind = entry.file_type().expect("it has a type");
        if kind.is_dir() {
            streams.extend(read_files(&entry.path()));
        } else if kind.is_file() {
            let bytes = std::fs::read(entry.path()).expect("it can be read");
            if !bytes.is_empty() {
                streams.push(bytes);
            }
        }
    }
    streams
}

fn fingerprints(chunker: &dyn Chunker, data: &[u8]) -> impl Iterator<Item = (u64, usize)> {
    let mut start = 0;
    cuts(chunker, data).collect::<Vec<_>>().into_iter().map(move |end| {
        let mut hasher = DefaultHasher::new();
        data[start..end].hash(&mut hasher);
        let size = end - std::mem::replace(&mut start, end);
        (hasher.finish(), size)
    })
}

fn chunk_sizes(chunker: &dyn Chunker, data: &[u8]) -> Vec<usize> {
    let mut start = 0;
    cuts(chunker, data).map(|end| end - std::mem::replace(&mut start, end)).collect()
}

fn mean(sizes: &[usize]) -> f64 {
    sizes.iter().sum::<usize>() as f64 / sizes.len() as f64
}

fn deviation(sizes: &[usize], mean: f64) -> f64 {
    let squares: f64 = sizes.iter().map(|&size| (size as f64 - mean).powi(2)).sum();
    (squares / sizes.len() as f64).sqrt()
}

/// Formats a number with about three digits.
fn times(number: f64) -> String {
    match number {
        ..10.0 => format!("{number:.2}"),
        ..100.0 => format!("{number:.1}"),
        _ => format!("{number:.0}"),
    }
}
