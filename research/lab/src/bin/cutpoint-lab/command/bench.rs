//! `bench`: measures the speed of each algorithm on this CPU, at each level.

mod chart;
mod figure;

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use cutpoint_bench::{
    Buffer, ChunkSizes, Comparison, Contender, Data, Kind, Limit, PlainRead, Samples, Turns,
    available_memory, blake3, instructions, levels, papers, processor, race,
};
use cutpoint_chunking::{Level, Spec, algorithms};
use cutpoint_terminal::exit::{Exit, Failure};
use cutpoint_terminal::interrupt::Interrupt;
use cutpoint_terminal::{OutputFile, Report, units};

use crate::args::{Bench, BenchData};
use crate::event::{Event, InstructionCost, Speed, Summary};

/// The minimum size of the data, in bytes. Less is processed too fast for a clock.
const SIZE_MIN: usize = 64 << 10;
/// The chunk sizes at which fingerprints are measured, in bytes.
const FINGERPRINT_SIZES: [usize; 3] = [8 << 10, 16 << 10, 64 << 10];
/// The number of rounds, unless the user sets their number or a time.
const ROUND_COUNT: u32 = 5;

/// The results of one work: a cut specification, or a hash with a chunk size.
struct WorkResult {
    work: &'static str,
    /// The specification with all parameters, or `blake3:size=8192`.
    name: String,
    sizes: ChunkSizes,
    read_speeds: Samples,
    rows: Vec<Row>,
}

/// The results of one contender in a work.
struct Row {
    kind: Kind,
    name: String,
    speeds: Samples,
    agrees: bool,
    /// The speed relative to that of the scalar level; `None` if that was not measured.
    scalar_ratio: Option<f64>,
}

impl WorkResult {
    fn new<T>(
        work: &'static str,
        name: String,
        sizes: ChunkSizes,
        comparison: &Comparison<'_, T>,
    ) -> WorkResult {
        let contenders = comparison.contenders();
        let scalar = contenders.iter().find(|each| each.name() == Level::SCALAR.name());
        let row = |each: &Contender<'_, T>| Row {
            kind: each.kind(),
            name: each.name().to_owned(),
            speeds: each.speeds().clone(),
            agrees: each.agrees(),
            scalar_ratio: scalar.map(|scalar| each.speeds().median() / scalar.speeds().median()),
        };
        let rows = contenders.iter().map(row).collect();
        WorkResult { work, name, sizes, read_speeds: comparison.read_speeds().clone(), rows }
    }

    /// Returns the speed of a row relative to the plain read.
    fn read_ratio(&self, row: &Row) -> f64 {
        row.speeds.median() / self.read_speeds.median()
    }
}

/// The maximum speed of the longest bar, in multiples of the plain read. Without a maximum, an
/// algorithm that hardly reads the data, such as fixed sizes, would leave no room for the bars of
/// others.
const SCALE_MAX: f64 = 4.0;

/// Returns the speed of the longest bar, in GB per second.
fn scale(measured: &[WorkResult]) -> f64 {
    let reads = measured.iter().map(|each| each.read_speeds.median());
    let read = reads.fold(f64::MIN_POSITIVE, f64::max);
    let rows = measured.iter().flat_map(|each| &each.rows).map(|row| row.speeds.median());
    rows.fold(read, f64::max).min(read * SCALE_MAX)
}

/// The conditions of a measurement.
struct Setting {
    processor: String,
    levels: Vec<&'static str>,
    data: String,
    size: usize,
    large_page_bytes: Option<usize>,
    round_count: usize,
    read: String,
}

impl Setting {
    /// Describes the conditions in a few lines.
    fn lines(&self) -> Vec<String> {
        let size = units::size(self.size as u64);
        let pages = match self.large_page_bytes {
            Some(0) => "on small pages, because the system provided no large ones".to_owned(),
            Some(bytes) => {
                format!("{} of it on large pages (MADV_HUGEPAGE)", units::size(bytes as u64))
            }
            None => "page size unknown".to_owned(),
        };
        vec![
            format!("{}; levels {}", self.processor, self.levels.join(", ")),
            format!("{}, {size}, in a separate mapping, {pages}", self.data),
            format!("plain read: {}", self.read),
            format!(
                "GB (10^9 bytes) per second of CPU time, one thread; medians of {}, interleaved; \
                 +- is half of the interquartile range",
                units::count(self.round_count as u64, "round")
            ),
        ]
    }
}

pub(crate) fn run(args: &Bench, report: &Report) -> Result<Exit> {
    let interrupt = Interrupt::listen_without_limit();
    let limit = match args.time {
        Some(seconds) => Limit::Time(Duration::from_secs(seconds.into())),
        None => Limit::Rounds(args.rounds.unwrap_or(ROUND_COUNT) as usize),
    };
    if cfg!(debug_assertions) {
        report.note("Built without optimization: speeds are not representative.");
    }
    report.begin_progress();
    if args.instructions {
        return time_instructions(args.rounds.unwrap_or(ROUND_COUNT) as usize, &interrupt, report);
    }
    let (levels, specs) = plan(args, report)?;
    let svg = args.svg.as_deref().map(OutputFile::open).transpose()?;
    let html = args.html.as_deref().map(OutputFile::open).transpose()?;
    let (buffer, data) = fill(args, &interrupt, report)?;

    let chunking = specs.iter().map(|spec| {
        let mut contenders = cutpoint_bench::levels(spec, &levels);
        if args.papers {
            contenders.extend(papers(spec));
        }
        Comparison::new(contenders)
    });
    let mut chunking: Vec<_> = chunking.collect();
    let sizes = FINGERPRINT_SIZES.iter().filter(|_| args.fingerprints);
    let mut hashing: Vec<_> =
        sizes.filter_map(|size| Some((*size, Comparison::new(blake3(*size)?)))).collect();

    let names: Vec<String> =
        specs.iter().map(Spec::to_string).chain(hashing.iter().map(hash)).collect();
    let mut all: Vec<&mut dyn Turns> = Vec::new();
    all.extend(chunking.iter_mut().map(|each| each as &mut dyn Turns));
    all.extend(hashing.iter_mut().map(|(_, each)| each as &mut dyn Turns));
    let round_count = race(buffer.bytes(), &mut all, limit, &mut |at| {
        report.show(|| format!("round {}: {}: {}", at.round, names[at.comparison], at.contender));
        !interrupt.is_asked()
    });
    report.end_progress();
    if interrupt.is_asked() {
        return Err(interrupted());
    }

    let mut measured = Vec::new();
    for (spec, comparison) in specs.iter().zip(&chunking) {
        let sizes = ChunkSizes::of(comparison.found());
        measured.push(WorkResult::new("chunking", spec.to_string(), sizes, comparison));
    }
    for each in &hashing {
        let (size, comparison) = each;
        let ends: Vec<usize> = (1..=comparison.found().len())
            .map(|count| (count * size).min(buffer.bytes().len()))
            .collect();
        let sizes = ChunkSizes::of(&ends);
        measured.push(WorkResult::new("fingerprinting", hash(each), sizes, comparison));
    }
    let setting = Setting {
        processor: processor(),
        levels: Level::available().into_iter().map(Level::name).collect(),
        data,
        size: buffer.bytes().len(),
        large_page_bytes: buffer.large_page_bytes(),
        round_count,
        read: format!(
            "the sum of all numbers of 64 bits, several vectors at a time, by {}",
            PlainRead::new().vectors()
        ),
    };
    tell(&setting, &measured, report)?;
    report.flush()?;
    if let Some(file) = svg {
        file.write(&figure::svg(&setting, &measured)?)?;
    }
    if let Some(file) = html {
        file.write(&figure::html(&setting, &measured)?)?;
    }
    Ok(Exit::of_problems(report.problem_count()))
}

/// Returns the name of a hash at a chunk size.
fn hash<T>((size, _): &(usize, T)) -> String {
    format!("blake3:size={size}")
}

fn interrupted() -> anyhow::Error {
    Failure::new(Exit::Interrupted, "interrupted; no results are shown").into()
}

/// Returns the requested levels (empty for all), and the specifications to measure.
fn plan(args: &Bench, report: &Report) -> Result<(Vec<Level>, Vec<Spec>)> {
    let mut wanted = Vec::new();
    for name in &args.levels {
        wanted.push(Level::named(name).context("--level")?);
    }
    let mut specs = Vec::new();
    for text in &args.algorithms {
        specs.push(text.parse().context("--algorithm")?);
    }
    if specs.is_empty() {
        let mut without = Vec::new();
        for about in algorithms() {
            match default_spec(about.name, args.average) {
                Ok(spec) => specs.push(spec),
                Err(error) => {
                    report.detail(|| error.to_string());
                    without.push(about.name);
                }
            }
        }
        if !without.is_empty() {
            report.note(&format!(
                "skipped, because --average {} alone does not determine their parameters: {}",
                args.average,
                without.join(", ")
            ));
        }
        if args.papers {
            // The dialects that the papers' forms need: VSEQ and SS-Gear.
            for (name, dialect) in [("seqcdc", "equal=break"), ("gear", "table=cutpoint32")] {
                let spec = specs.iter().find(|spec: &&Spec| spec.algorithm() == name);
                specs.extend(spec.and_then(|spec| format!("{spec},{dialect}").parse().ok()));
            }
        }
        if specs.is_empty() {
            return Err(Failure::failed(format!(
                "--average: no algorithm has a mean of {}",
                args.average
            ))
            .with_remedy("try 8k, or select algorithms with --algorithm")
            .into());
        }
    }
    specs.retain(|spec: &Spec| {
        let has_code =
            !levels(spec, &wanted).is_empty() || (args.papers && !papers(spec).is_empty());
        if !has_code && !args.algorithms.is_empty() {
            report.note(&format!("{}: no code for that level, skipped", spec.algorithm()));
        }
        has_code
    });
    if specs.is_empty() {
        return Err(Failure::failed(format!(
            "--level: none of the selected algorithms has code for {}",
            args.levels.join(", ")
        ))
        .with_remedy("without --level, each algorithm is measured at all its levels")
        .into());
    }
    Ok((wanted, specs))
}

/// Returns the specification of the algorithm with this mean on random data.
fn default_spec(name: &str, average: u32) -> Result<Spec, cutpoint_chunking::SpecError> {
    match name {
        "fixed" => format!("fixed:size={average}").parse(),
        _ => Spec::for_average(name, average as usize),
    }
}

/// Returns the bytes to cut, and a description of them.
fn fill(args: &Bench, interrupt: &Interrupt, report: &Report) -> Result<(Buffer, String)> {
    let wanted = args.size as usize;
    let Some(path) = &args.file else {
        let data = match args.data {
            BenchData::Random => Data::Random,
            BenchData::Zeros => Data::Zeros,
            BenchData::Text => Data::Text,
        };
        check_size(wanted, "--size")?;
        check_memory(wanted, if data == Data::Text { 2 } else { 1 })?;
        report.show(|| format!("generating {} of data", units::size(wanted as u64)));
        let mut buffer = Buffer::new(wanted).context("--size")?;
        data.write(buffer.bytes_mut());
        return Ok((buffer, format!("{} data", data.name())));
    };
    let name = path.display().to_string();
    let mut file = File::open(path).with_context(|| name.clone())?;
    let metadata = file.metadata().with_context(|| name.clone())?;
    // A device has no size before it is read.
    let length = if metadata.is_file() { metadata.len() } else { u64::MAX };
    let size = usize::try_from(length).map_or(wanted, |length| length.min(wanted));
    check_memory(size, 1)?;
    let mut buffer = Buffer::new(size).context("--size")?;
    let mut filled = 0;
    while filled < size {
        if interrupt.is_asked() {
            return Err(interrupted());
        }
        report.show(|| format!("reading {name}: {}", units::size(filled as u64)));
        let end = size.min(filled + (8 << 20));
        match file.read(&mut buffer.bytes_mut()[filled..end]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(anyhow::Error::new(error).context(name)),
        }
    }
    buffer.truncate(filled);
    check_size(filled, &name)?;
    let is_whole = filled as u64 == length;
    Ok((buffer, if is_whole { name } else { format!("the beginning of {name}") }))
}

fn check_size(size: usize, what: &str) -> Result<()> {
    if size >= SIZE_MIN {
        return Ok(());
    }
    let (size, least) = (units::size(size as u64), units::size(SIZE_MIN as u64));
    Err(Failure::failed(format!(
        "{what}: {size} is too small to measure (expected {least} or more)"
    ))
    .with_remedy("use many MiB to measure the effect of memory")
    .into())
}

/// Checks that there is memory for `count` times `size`, and for the resulting lists and bitmaps.
fn check_memory(size: usize, count: u64) -> Result<()> {
    let needed = size as u64 * count + size as u64 / 4;
    match available_memory() {
        Some(available) if needed > available => Err(Failure::failed(format!(
            "--size: not enough memory ({} needed, {} available)",
            units::size(needed),
            units::size(available)
        ))
        .with_remedy("use a smaller --size")
        .into()),
        _ => Ok(()),
    }
}

fn tell(setting: &Setting, measured: &[WorkResult], report: &Report) -> Result<()> {
    for each in measured {
        for row in each.rows.iter().filter(|row| !row.agrees) {
            report.problem(
                Path::new(&each.name),
                &format!("{}: results differ from {} (a bug)", row.name, each.rows[0].name),
            );
        }
    }
    if !report.is_json() {
        return chart::print(setting, measured, report);
    }
    for each in measured {
        for row in &each.rows {
            report.event(&Event::Speed(Speed::new(each, row)))?;
        }
    }
    report.event(&Event::Summary(Summary::Bench {
        processor: &setting.processor,
        levels: &setting.levels,
        data: &setting.data,
        size_bytes: setting.size as u64,
        large_page_bytes: setting.large_page_bytes.map(|bytes| bytes as u64),
        plain_read: &setting.read,
        round_count: setting.round_count as u64,
        elapsed_ns: report.elapsed_ns(),
    }))
}

impl<'a> Speed<'a> {
    fn new(measured: &'a WorkResult, row: &'a Row) -> Speed<'a> {
        let bytes = |speed: f64| speed * 1e9;
        Speed {
            work: measured.work,
            spec: &measured.name,
            kind: row.kind.name(),
            name: &row.name,
            bytes_per_second: bytes(row.speeds.median()),
            lower_quartile_bytes_per_second: bytes(row.speeds.lower_quartile()),
            upper_quartile_bytes_per_second: bytes(row.speeds.upper_quartile()),
            round_count: row.speeds.count() as u64,
            read_bytes_per_second: bytes(measured.read_speeds.median()),
            read_ratio: measured.read_ratio(row),
            scalar_ratio: row.scalar_ratio,
            agrees: row.agrees,
            chunk_count: measured.sizes.count as u64,
            chunk_size_mean: measured.sizes.mean,
            chunk_size_deviation: measured.sizes.deviation,
        }
    }
}

/// Measures and prints the costs of single instructions.
fn time_instructions(round_count: usize, interrupt: &Interrupt, report: &Report) -> Result<Exit> {
    let costs = instructions(round_count, &mut || {
        report.show(|| "timing instructions".to_owned());
        !interrupt.is_asked()
    });
    report.end_progress();
    if interrupt.is_asked() {
        return Err(interrupted());
    }
    if costs.is_empty() {
        return Err(Failure::failed("--instructions: none known for this architecture").into());
    }
    if !report.is_json() {
        report.line(&processor())?;
        report.line("Nanoseconds of CPU time; in parentheses cycles, as `add` takes one")?;
        report.line(&format!("{:<34} {:>16} {:>16}", "", "latency", "throughput"))?;
    }
    let cycle = costs[0].latency_ns.median();
    for cost in &costs {
        let (latency, throughput) = (cost.latency_ns.median(), cost.throughput_ns.median());
        if report.is_json() {
            report.event(&Event::Instruction(InstructionCost {
                name: cost.name,
                latency_ns: latency,
                throughput_ns: throughput,
                round_count: cost.latency_ns.count() as u64,
            }))?;
        } else {
            let cell = |value: f64| format!("{value:.3} ({:.2})", value / cycle);
            let (latency, throughput) = (cell(latency), cell(throughput));
            report.line(&format!("{:<34} {latency:>16} {throughput:>16}", cost.name))?;
        }
    }
    Ok(Exit::Well)
}
