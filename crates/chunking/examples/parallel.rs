//! Prints the speed of several threads beside that of one, in GB (10^9 bytes) per second of wall
//! time, and checks that all find the same cut-points.
//!
//! `cargo run --release -p cutpoint-chunking --example parallel [MiB] [rounds] [threads] [FILE]`
//!
//! Each line is a spec on some data: first with the whole buffer at once (`cuts`), then from a
//! reader (`Chunks`, and `Parallel::read`), which copies the buffer. Each has the medians of the
//! rounds for one thread, for several, and for the ratio; the two alternate within a round. The
//! figures are wall time, so they are worthless if other programs run meanwhile. The column *CPU*,
//! for the whole buffer, is hardly affected: it is the CPU time of one thread divided by that of
//! the calling thread if there are several. The ratio would be this large if the other threads had
//! free processors and memory had no limit. Below 1, threads were started in vain.

use std::error::Error;
use std::fs::File;
use std::hint::black_box;
use std::io::Read;
use std::num::NonZero;
use std::time::Instant;

use cutpoint_chunking::{Chunker, Chunks, Parallel, ReadAhead, Spec, cuts};
use cutpoint_testing::{SplitMix64, input, thread_cpu_time};

/// Rules whose lists meet soon or late, fast and slow rules, small and large chunks.
const SPECS: [&str; 10] = [
    "seqcdc:avg=8k",
    "seqcdc:avg=64k",
    "fastcdc:avg=16k",
    "fastcdc:avg=1m",
    "rabin:avg=8k",
    "ae:avg=8k",
    // No lists of two threads ever meet, because no segment begins at a multiple of the size.
    "fixed:size=8191",
    "gear:bits=13",
    // A slow rule, without vectors.
    "tttd:avg=8k",
    "mincdc:min=4k,max=12k",
];

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default: usize| arguments.next().map_or(Ok(default), |text| text.parse());
    let (size, rounds, thread_count) = (number(512)? << 20, number(5)?, number(2)?);
    let thread_count = NonZero::new(thread_count).ok_or("at least one thread")?;
    let mut data = vec![("random", SplitMix64::bytes(1, size))];
    let file = arguments.next();
    if let Some(path) = &file {
        let bytes = std::fs::read(path)?;
        data.push(("file", bytes));
    }
    data.push(("zeros", vec![0; size]));
    // In every other stretch the lists cannot meet.
    let mut mixed = input::text(size);
    mixed.chunks_mut(5 << 20).step_by(2).for_each(|stretch| stretch.fill(0));
    data.push(("mixed", mixed));
    println!(
        "{:<7} {:<24}{:>9} {thread_count:>8} {:>6} {:>6}{:>12} {thread_count:>8} {:>6}{:>12} {:>6}",
        "data", "spec", "cuts: 1", "ratio", "CPU", "read: 1", "ratio", "read_at", "ratio"
    );
    for (name, data) in &data {
        for text in SPECS {
            let spec: Spec = text.parse()?;
            let alone = spec.chunker();
            let parallel = Parallel::new(spec.chunker(), thread_count);
            let expected: Vec<usize> = cuts(&*alone, data).collect();
            if !cuts(&parallel, data).eq(expected.iter().copied()) {
                return Err(format!("{spec}: other cut-points of {name}").into());
            }
            let whole = |chunker: &dyn Chunker| cuts(chunker, black_box(data)).count();
            let open = || -> Box<dyn Read + Send + '_> {
                match file.as_ref().filter(|_| *name == "file") {
                    Some(path) => Box::new(File::open(path).expect("it was read before")),
                    None => Box::new(&data[..]),
                }
            };
            let read = || {
                let mut chunks = Chunks::new(&*alone, open());
                let mut count = 0;
                while let Ok(Some(_)) = chunks.next() {
                    count += 1;
                }
                count
            };
            let count = |chunks: &mut ReadAhead<'_>| {
                let mut count = 0;
                while let Ok(Some(_)) = chunks.next() {
                    count += 1;
                }
                count
            };
            let read_at = || match file.as_ref().filter(|_| *name == "file") {
                #[cfg(unix)]
                Some(path) => {
                    use std::os::unix::fs::FileExt;
                    let file = File::open(path).expect("it was read before");
                    parallel.read_at(|buffer, offset| file.read_at(buffer, offset), count)
                }
                _ => {
                    let read_at = |buffer: &mut [u8], offset: u64| {
                        let offset = usize::try_from(offset).unwrap_or(usize::MAX).min(size);
                        data.get(offset..).unwrap_or_default().read(buffer)
                    };
                    parallel.read_at(read_at, count)
                }
            };
            let size = data.len();
            let [one, several, ratio, cpu_ratio] =
                compare(rounds, size, || whole(&*alone), || whole(&parallel));
            print!("{name:<7} {text:<24}{one:>9.2} {several:>8.2} {ratio:>6.2} {cpu_ratio:>6.2}");
            let read_ahead = || parallel.read(open(), count);
            let [one, several, ratio, _] = compare(rounds, size, read, read_ahead);
            print!("{one:>12.2} {several:>8.2} {ratio:>6.2}");
            let [_, several, ratio, _] = compare(rounds, size, read, read_at);
            print!("{several:>12.2} {ratio:>6.2}");
            println!();
        }
    }
    Ok(())
}

/// Returns the median speeds of `one` and `several`, in GB/s, and the medians of their ratios by
/// wall time and by CPU time of this thread.
fn compare(
    rounds: usize,
    size: usize,
    one: impl Fn() -> usize,
    several: impl Fn() -> usize,
) -> [f64; 4] {
    let seconds = |work: &dyn Fn() -> usize| {
        let (started, cpu_started) = (Instant::now(), thread_cpu_time().as_secs_f64());
        black_box(work());
        (started.elapsed().as_secs_f64(), thread_cpu_time().as_secs_f64() - cpu_started)
    };
    let mut figures = [const { Vec::new() }; 4];
    for _ in 0..rounds.max(1) {
        let ((one, one_cpu), (several, several_cpu)) = (seconds(&one), seconds(&several));
        let speed = |seconds| size as f64 / seconds / 1e9;
        let round = [speed(one), speed(several), one / several, one_cpu / several_cpu];
        figures.iter_mut().zip(round).for_each(|(figures, figure)| figures.push(figure));
    }
    figures.map(|mut figures| {
        figures.sort_by(f64::total_cmp);
        figures[figures.len() / 2]
    })
}
