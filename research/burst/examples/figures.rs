//! Prints the data of figures 6(a), 8 and 1 of the paper, for given files.
//!
//! ```text
//! cargo run --release -p cutpoint-burst --example figures -- ratios FILE|FOLDER...    figure 6(a), table II
//! cargo run --release -p cutpoint-burst --example figures -- growth [FILE|FOLDER...]  figure 8
//! cargo run --release -p cutpoint-burst --example figures -- bursts FILE|FOLDER...    figure 1
//! ```
//!
//! Every file is cut separately into blocks of fixed size, the last of which is shorter. `growth`
//! takes each argument as a version. Without arguments it makes Backup-Artificial (section V-F)
//! from a seed. Folders are read in the order of names, and all stored data is in memory.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use cutpoint_burst::{Burst, Deduplicator, Options, Statistics, VARIANTS};
use cutpoint_testing::Artificial;

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// The size of a version of Backup-Artificial, in bytes.
const ARTIFICIAL_SIZE: usize = 128 << 20;

fn main() -> Outcome {
    let mut arguments = std::env::args().skip(1);
    let figure = arguments.next().unwrap_or_default();
    let paths: Vec<PathBuf> = arguments.map(PathBuf::from).collect();
    match figure.as_str() {
        "ratios" => ratios(&paths),
        "growth" if paths.is_empty() => growth_of(Artificial::VERSION_COUNT, || {
            let mut artificial = Artificial::new(8, ARTIFICIAL_SIZE);
            move |_| Ok(vec![artificial.next_version()])
        }),
        "growth" => growth_of(paths.len(), || |version: usize| files_below(&paths[version])),
        "bursts" => bursts(&paths),
        _ => Err("usage: figures ratios|growth|bursts FILE|FOLDER...".into()),
    }
}

/// Prints figure 6(a), and the sizes of tables (table II). Numbers in brackets count sectors, as
/// ZFS allocates.
fn ratios(paths: &[PathBuf]) -> Outcome {
    let mut sizes = Vec::new();
    println!("| block | {} |", VARIANTS.map(|(name, _)| name).join(" | "));
    println!("| --- |{}", " ---: |".repeat(VARIANTS.len()));
    for block_size in [4096, 8192, 16384, 32768, 65536] {
        let mut cells = Vec::new();
        for (name, options) in VARIANTS {
            let mut deduplicator = Deduplicator::new(options);
            for path in paths {
                for_each_file(path, &mut |data| write(&mut deduplicator, &data, block_size))?;
            }
            let statistics = deduplicator.statistics();
            cells.push(ratio(&statistics));
            sizes.push((block_size, name, statistics));
        }
        println!("| {} | {} |", kib(block_size), cells.join(" | "));
    }
    println!();
    println!(
        "| block | method | entries of DT, HeadDT, TailDT, BT | MB of DT, HeadDT + TailDT, BT | hits by head, \
         tail | exhausted head, tail | stored MB |"
    );
    println!("| --- | --- | ---: | ---: | ---: | ---: | ---: |");
    for (block_size, name, statistics) in sizes {
        let Statistics { dt, bt, head_dt, tail_dt, .. } = statistics;
        println!(
            "| {} | {name} | {}, {}, {}, {} | {:.1}, {:.1}, {:.1} | {}, {} | {}, {} | {:.1} |",
            kib(block_size),
            dt.entry_count,
            head_dt.table.entry_count,
            tail_dt.table.entry_count,
            bt.entry_count,
            megabytes(dt.entry_bytes),
            megabytes(head_dt.table.entry_bytes + tail_dt.table.entry_bytes),
            megabytes(bt.entry_bytes),
            head_dt.burst_count,
            tail_dt.burst_count,
            head_dt.exhausted_count,
            tail_dt.exhausted_count,
            megabytes(statistics.stored_bytes()),
        );
    }
    Ok(())
}

/// Prints figure 8: the ratio after each version. Numbers in brackets count sectors, as ZFS
/// allocates.
fn growth_of<Versions>(version_count: usize, begin: impl Fn() -> Versions) -> Outcome
where
    Versions: FnMut(usize) -> Outcome<Vec<Vec<u8>>>,
{
    for block_size in [4096, 8192, 16384] {
        let methods = &VARIANTS[..4];
        let mut columns = Vec::new();
        for (_, options) in methods {
            let mut versions = begin();
            let mut deduplicator = Deduplicator::new(*options);
            let mut column = Vec::new();
            for version in 0..version_count {
                for data in versions(version)? {
                    write(&mut deduplicator, &data, block_size);
                }
                column.push(ratio(&deduplicator.statistics()));
            }
            columns.push(column);
        }
        let names: Vec<&str> = methods.iter().map(|(name, _)| *name).collect();
        println!(
            "| {} blocks, versions | legacy by construction | {} |",
            kib(block_size),
            names.join(" | ")
        );
        println!("| --- |{}", " ---: |".repeat(names.len() + 1));
        for version in 0..version_count {
            let cells: Vec<&str> = columns.iter().map(|column| column[version].as_str()).collect();
            let expected = Artificial::legacy_ratio(version + 1, block_size);
            println!("| {} | {expected:.2} | {} |", version + 1, cells.join(" | "));
        }
        println!();
    }
    Ok(())
}

/// Prints figure 1: the length of the best burst from any other chunk, and of the burst that BURST
/// stores.
fn bursts(paths: &[PathBuf]) -> Outcome {
    /// The maximum number of chunks, at equal distances, that are compared with all others.
    const SAMPLE_COUNT: usize = 8192;
    const QUARTERS: [&str; 6] = ["0 (equal)", "to 1/4", "to 1/2", "to 3/4", "above", "whole"];
    let mut files = Vec::new();
    for path in paths {
        files.extend(files_below(path)?);
    }
    println!("| block | chunks | count | {} |", QUARTERS.join(" | "));
    println!("| --- | --- | ---: |{}", " ---: |".repeat(QUARTERS.len()));
    for block_size in [4096, 8192, 16384] {
        let chunks: Vec<&[u8]> = files.iter().flat_map(|data| data.chunks(block_size)).collect();
        let step = chunks.len().div_ceil(SAMPLE_COUNT).max(1);
        let sample: Vec<usize> = (0..chunks.len()).step_by(step).collect();
        let mut best: Vec<usize> = sample.iter().map(|&number| chunks[number].len()).collect();
        // Each chunk stays in the cache while it is compared with all of the sample.
        for (number, reference) in chunks.iter().enumerate() {
            for (&sampled, best) in sample.iter().zip(&mut best) {
                let chunk = chunks[sampled];
                if sampled != number {
                    let (prefix, suffix) = Burst::kept(reference, chunk);
                    *best = (*best).min(chunk.len() - prefix - suffix);
                }
            }
        }
        let mut counts = [0; QUARTERS.len()];
        for (&sampled, best) in sample.iter().zip(best) {
            counts[(4 * best).div_ceil(chunks[sampled].len())] += 1;
        }
        print_shares(block_size, "best of all pairs", &counts);

        let mut deduplicator = Deduplicator::new(Options::BURST);
        files.iter().for_each(|data| write(&mut deduplicator, data, block_size));
        let statistics = deduplicator.statistics();
        let mut counts = [0; QUARTERS.len()];
        for (sixteenths, count) in statistics.burst_len_sixteenths.iter().enumerate() {
            // A burst that only deletes counts as short here, because the chunks are not equal.
            counts[sixteenths.div_ceil(4).max(1)] += count;
        }
        counts[0] = statistics.duplicate_count + statistics.burst_duplicate_count;
        counts[QUARTERS.len() - 1] = statistics.unique_count;
        print_shares(block_size, "written by BURST 255", &counts);
    }
    Ok(())
}

fn print_shares(block_size: usize, what: &str, counts: &[u64]) {
    let sum: u64 = counts.iter().sum();
    let share = |count: &u64| format!("{:.1} %", 100.0 * *count as f64 / sum.max(1) as f64);
    let shares: Vec<String> = counts.iter().map(share).collect();
    println!("| {} | {what} | {sum} | {} |", kib(block_size), shares.join(" | "));
}

fn write(deduplicator: &mut Deduplicator, data: &[u8], block_size: usize) {
    for chunk in data.chunks(block_size) {
        deduplicator.write(chunk);
    }
}

fn files_below(path: &Path) -> Outcome<Vec<Vec<u8>>> {
    let mut files = Vec::new();
    for_each_file(path, &mut |data| files.push(data))?;
    Ok(files)
}

/// Calls `visit` with the content of the file, or of all files below the folder in the order of
/// their names.
fn for_each_file(path: &Path, visit: &mut dyn FnMut(Vec<u8>)) -> Outcome {
    let in_path = |error| format!("{}: {error}", path.display());
    let kind = fs::symlink_metadata(path).map_err(in_path)?;
    if kind.is_dir() {
        let entries: Result<Vec<_>, _> = fs::read_dir(path).map_err(in_path)?.collect();
        let mut paths: Vec<PathBuf> =
            entries.map_err(in_path)?.iter().map(|entry| entry.path()).collect();
        paths.sort();
        paths.iter().try_for_each(|path| for_each_file(path, visit))?;
    } else if kind.is_file() {
        visit(fs::read(path).map_err(in_path)?);
    }
    Ok(())
}

fn ratio(statistics: &Statistics) -> String {
    format!("{:.2} ({:.2})", statistics.dedup_ratio(), statistics.dedup_ratio_of_sectors())
}

fn kib(bytes: usize) -> String {
    format!("{} KiB", bytes / 1024)
}

fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}
