//! Prints the cost of cutting a file by ranges that are read apart, and checks that the cut-points
//! are those of one pass.
//!
//! `cargo run --release -p cutpoint-chunking --example ranges FILE [MIB] [ROUNDS] [SPEC ...]`
//!
//! The first table has a row for each spec and each warm-up, in bytes and in maximum chunk sizes:
//! the seams that were broken and their number, the bytes that tasks read outside of their ranges,
//! and the bytes that the repair cut again, both as a share of the file.
//!
//! The second table has GB (10^9 bytes) per second of wall time, and in brackets per second of CPU
//! time of all threads, of three ways to cut the file: one pass (`Chunks`), two threads that join
//! blocks of 4 MiB in memory (`Parallel::read_at`), and two threads that take ranges of MIB and of 4
//! MiB (`Ranges`). They take turns; the figures are medians of ROUNDS rounds. 0 omits the table.

use std::error::Error;
use std::fs::File;
use std::num::NonZero;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Instant;
use std::{io, thread};

use cutpoint_chunking::{Chunker, Chunks, Parallel, Ranges, Seams, Spec};

const SPECS: [&str; 8] = [
    "fastcdc:avg=64k",
    "fastcdc:avg=8k",
    "seqcdc:avg=16k",
    "ae:avg=8k",
    "rabin:avg=8k,max=64k",
    "gear:bits=13",
    "tttd:avg=8k",
    "mincdc:min=4k,max=12k",
];
/// The warm-ups of the first table, in maximum chunk sizes; of 64 KiB if there is no maximum.
const WARM_UPS: [u64; 7] = [0, 1, 2, 4, 8, 16, 32];
const THREAD_COUNT: usize = 2;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("a file to cut")?;
    let range_mib: u64 = arguments.next().map_or(Ok(64), |text| text.parse())?;
    let range_size = NonZero::new(range_mib << 20).ok_or("ranges of at least 1 MiB")?;
    let round_count: usize = arguments.next().map_or(Ok(5), |text| text.parse())?;
    let mut specs: Vec<String> = arguments.collect();
    if specs.is_empty() {
        specs = SPECS.map(str::to_owned).to_vec();
    }
    let file = File::open(path)?;
    print_costs(&file, &specs, range_size)?;
    if round_count > 0 { print_speeds(&file, &specs, range_size, round_count) } else { Ok(()) }
}

/// Prints the first table.
fn print_costs(
    file: &File,
    specs: &[String],
    range_size: NonZero<u64>,
) -> Result<(), Box<dyn Error>> {
    println!(
        "{:<22}{:>12}{:>8}{:>12}{:>10}{:>10}",
        "spec", "warm-up", "maxima", "broken", "again", "repaired"
    );
    for text in specs {
        let spec: Spec = text.parse()?;
        let expected = one_pass(file, &spec)?;
        for count in WARM_UPS {
            let unit = spec.chunk_size_max().unwrap_or(64 * 1024) as u64;
            let ranges = Ranges::with_warm_up_size(spec.chunker(), count * unit);
            let cut = by_ranges(file, &ranges, range_size)?;
            if cut.ends != expected {
                return Err(format!("{spec}: other cut-points").into());
            }
            let size = file.metadata()?.len() as f64;
            println!(
                "{text:<22}{:>12}{count:>8}{:>12}{:>9.2}%{:>9.3}%",
                count * unit,
                format!("{}/{}", cut.broken_count, cut.seam_count),
                100.0 * (cut.read_size as f64 / size - 1.0),
                100.0 * cut.repaired_size as f64 / size,
            );
        }
    }
    Ok(())
}

/// Prints the second table.
fn print_speeds(
    file: &File,
    specs: &[String],
    range_size: NonZero<u64>,
    round_count: usize,
) -> Result<(), Box<dyn Error>> {
    println!();
    println!(
        "{:<22}{:>16}{:>16}{:>16}{:>16}",
        "spec",
        "one pass",
        "Parallel",
        format!("ranges {} MiB", range_size.get() >> 20),
        "ranges 4 MiB"
    );
    let small = NonZero::new(4 << 20).ok_or("not 0")?;
    for text in specs {
        let spec: Spec = text.parse()?;
        let mut ways: [Vec<(f64, f64)>; 4] = Default::default();
        for _ in 0..round_count {
            let size = file.metadata()?.len() as f64 / 1e9;
            let mut time = |way: usize, work: &dyn Fn() -> io::Result<usize>| -> io::Result<()> {
                let (started, cpu_started) = (Instant::now(), cpu_seconds()?);
                work()?;
                let seconds = (started.elapsed().as_secs_f64(), cpu_seconds()? - cpu_started);
                ways[way].push((size / seconds.0, size / seconds.1));
                Ok(())
            };
            time(0, &|| Ok(one_pass(file, &spec)?.len()))?;
            time(1, &|| Ok(parallel(file, &spec)?.len()))?;
            let ranges = Ranges::new(spec.chunker());
            time(2, &|| Ok(by_ranges(file, &ranges, range_size)?.ends.len()))?;
            time(3, &|| Ok(by_ranges(file, &ranges, small)?.ends.len()))?;
        }
        print!("{text:<22}");
        for mut figures in ways {
            figures.sort_by(|one, other| one.0.total_cmp(&other.0));
            let (wall, cpu) = figures[figures.len() / 2];
            print!("{:>16}", format!("{wall:.2} ({cpu:.2})"));
        }
        println!();
    }
    Ok(())
}

fn one_pass(file: &File, spec: &Spec) -> io::Result<Vec<u64>> {
    let offset = AtomicU64::new(0);
    let mut chunks = Chunks::new(spec.chunker(), At { file, offset: &offset });
    let mut ends = Vec::new();
    while chunks.next()?.is_some() {
        ends.push(chunks.offset());
    }
    Ok(ends)
}

/// A reader of a file with a position of its own.
struct At<'a> {
    file: &'a File,
    offset: &'a AtomicU64,
}

impl io::Read for At<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read_at(buffer, self.offset.load(Relaxed))?;
        self.offset.fetch_add(count as u64, Relaxed);
        Ok(count)
    }
}

fn parallel(file: &File, spec: &Spec) -> io::Result<Vec<u64>> {
    let threads = NonZero::new(THREAD_COUNT).expect("it is not 0");
    Parallel::new(spec.chunker(), threads).read_at(
        |buffer, offset| file.read_at(buffer, offset),
        |chunks| {
            let mut ends = Vec::new();
            while chunks.next()?.is_some() {
                ends.push(chunks.offset());
            }
            Ok(ends)
        },
    )
}

/// The cut-points of a file that was cut by ranges.
struct Cut {
    ends: Vec<u64>,
    seam_count: usize,
    broken_count: usize,
    /// The number of bytes read by the tasks.
    read_size: u64,
    repaired_size: u64,
}

/// Cuts ranges in two threads, and joins them afterwards.
fn by_ranges<C: Chunker>(
    file: &File,
    ranges: &Ranges<C>,
    range_size: NonZero<u64>,
) -> io::Result<Cut> {
    let plan: Vec<Range<u64>> = ranges.plan(file.metadata()?.len(), range_size).collect();
    let (next, read_size) = (AtomicUsize::new(0), AtomicU64::new(0));
    let read_at = |buffer: &mut [u8], offset: u64| {
        let count = file.read_at(buffer, offset)?;
        read_size.fetch_add(count as u64, Relaxed);
        Ok(count)
    };
    // Lists of cut-points: the start of the first chunk, and the ends of all chunks.
    let task = || -> io::Result<Vec<(usize, Vec<u64>)>> {
        let mut lists = Vec::new();
        while let Some((index, owned)) = {
            let index = next.fetch_add(1, Relaxed);
            plan.get(index).map(|owned| (index, owned.clone()))
        } {
            let mut chunks = ranges.chunks(read_at, owned);
            let mut list = Vec::new();
            while let Some((offset, chunk)) = chunks.next()? {
                if list.is_empty() {
                    list.push(offset);
                }
                list.push(offset + chunk.len() as u64);
            }
            lists.push((index, list));
        }
        Ok(lists)
    };
    let mut lists = vec![Vec::new(); plan.len()];
    thread::scope(|scope| -> io::Result<()> {
        let threads: Vec<_> = (0..THREAD_COUNT).map(|_| scope.spawn(task)).collect();
        for thread in threads {
            for (index, list) in thread.join().expect("no task panics")? {
                lists[index] = list;
            }
        }
        Ok(())
    })?;
    let read_size = read_size.load(Relaxed);
    let seam_count = plan.len().saturating_sub(1);
    let mut cut =
        Cut { ends: Vec::new(), seam_count, broken_count: 0, read_size, repaired_size: 0 };
    let mut seams = Seams::new();
    for (owned, list) in plan.iter().zip(&lists) {
        let span = list.first().zip(list.last()).map(|(&first, &end)| first..end);
        let mut first_true = 0;
        if !seams.holds(owned, span) {
            cut.broken_count += 1;
            let each = |offset: u64, chunk: &[u8]| {
                cut.repaired_size += chunk.len() as u64;
                cut.ends.push(offset + chunk.len() as u64);
            };
            first_true = ranges.repair(&mut seams, read_at, owned.end, list, each)?;
        }
        cut.ends.extend(list.iter().skip(first_true + 1));
    }
    Ok(cut)
}

/// Returns the CPU time of all threads of this process, in steps of 10 ms.
fn cpu_seconds() -> io::Result<f64> {
    let text = std::fs::read_to_string("/proc/self/stat")?;
    let fields = text.rsplit(')').next().unwrap_or("").split_whitespace();
    // The fields 14 and 15, user and system time; the second field ends with the parenthesis.
    let ticks = fields.skip(11).take(2).filter_map(|field| field.parse::<u64>().ok());
    Ok(ticks.sum::<u64>() as f64 / 100.0)
}
