//! `tune`: finds parameters for the user's data.

mod page;

use anyhow::Result;
use cutpoint_chunking::KeyUse;
use cutpoint_lab::tune::{Origin, TuneOptions, TuneResult, Tuning, tune};
use cutpoint_terminal::exit::{Exit, Failure};
use cutpoint_terminal::interrupt::Interrupt;
use cutpoint_terminal::scan::Watch;
use cutpoint_terminal::units::{self, percent};
use cutpoint_terminal::{OutputFile, Report};

use crate::args::Tune;
use crate::event::{self, Event, Summary};

/// The bounds of the mean chunk size, in bytes. No rule is designed for sizes outside of them.
const AVERAGE_MIN: u32 = 1024;
const AVERAGE_MAX: u32 = 1 << 20;
/// The size of the chart on a terminal, in characters.
const CHART_WIDTH: usize = 60;
const CHART_HEIGHT: usize = 12;

pub(crate) fn run(args: &Tune, report: &Report) -> Result<Exit> {
    if !(AVERAGE_MIN..=AVERAGE_MAX).contains(&args.average) {
        let (least, most) = (units::size(AVERAGE_MIN.into()), units::size(AVERAGE_MAX.into()));
        return Err(Failure::failed(format!(
            "--average: out of range (expected {least} to {most})"
        ))
        .into());
    }
    if args.sample_size == 0 {
        return Err(Failure::failed("--sample-size: 0 selects no data").into());
    }
    let options = TuneOptions {
        scan: args.data.scan_options()?,
        algorithms: args.algorithms.clone(),
        target_size: args.average as usize,
        sample_size_max: args.sample_size,
    };
    let html = args.html.as_deref().map(OutputFile::open).transpose()?;
    let watch = Watch { report, interrupt: Interrupt::listen_without_limit() };
    if cfg!(debug_assertions) {
        report.note("Built without optimization: speeds are not representative.");
    }
    report.begin_progress();
    let tuning = tune(&options, &watch, &|what, done, all| {
        report.show(|| format!("{what}: {done} of {all}"));
    });
    report.end_progress();
    let tuning = tuning?;
    if tuning.is_partial && tuning.tuned.is_empty() {
        return Err(Failure::new(Exit::Interrupted, "interrupted").into());
    }
    if tuning.sample_bytes == 0 && report.problem_count() == 0 {
        let message = "no data found";
        return Err(Failure::failed(message)
            .with_remedy("name files or folders that contain data")
            .into());
    }
    if tuning.is_partial {
        report.warn("interrupted: the results are incomplete");
    }
    if !tuning.unreached_algorithms.is_empty() {
        let average = units::size(args.average.into());
        let names = tuning.unreached_algorithms.join(", ");
        let message = format!("no algorithm has a mean chunk size near {average}: {names}");
        if tuning.tuned.iter().all(|each| each.origin == Origin::Paper) && !tuning.is_partial {
            return Err(Failure::failed(message)
                .with_remedy("use another --average, or other algorithms")
                .into());
        }
        report.warn(&message);
    }
    match report.is_json() {
        true => tell(args, &tuning, report)?,
        false => print(args, &tuning, report)?,
    }
    report.flush()?;
    if let Some(file) = html {
        file.write(&page::html(args.average.into(), &tuning)?)?;
    }
    Ok(match tuning.is_partial {
        true => Exit::Interrupted,
        false => Exit::of_problems(report.problem_count()),
    })
}

fn tell(args: &Tune, tuning: &Tuning, report: &Report) -> Result<()> {
    for tuned in &tuning.tuned {
        report.event(&Event::Tuned(Box::new(event::TuneRow::of(tuned))))?;
    }
    report.event(&Event::Summary(Summary::Tune {
        target_size: args.average.into(),
        sample_bytes: tuning.sample_bytes,
        file_count: tuning.file_count,
        random_bytes: tuning.random_bytes,
        simulated_count: tuning.simulated_count,
        candidate_count: tuning.candidate_count,
        unreached_algorithms: &tuning.unreached_algorithms,
        partial: tuning.is_partial,
        elapsed_ns: report.elapsed_ns(),
    }))
}

fn print(args: &Tune, tuning: &Tuning, report: &Report) -> Result<()> {
    report.line(&format!(
        "{} of {}; {} with a mean near {} on random data; {}",
        units::size(tuning.sample_bytes),
        units::count(tuning.file_count, "file"),
        units::count(tuning.candidate_count, "combination"),
        units::size(args.average.into()),
        units::duration(report.elapsed())
    ))?;
    report.line("")?;
    report.line(HEADER)?;
    let mut others = 0;
    for tuned in &tuning.tuned {
        let is_other = !tuned.is_best && tuned.origin != Origin::Paper;
        others += usize::from(is_other);
        if tuned.is_best || is_other && others <= args.top {
            report.line(&row(tuned))?;
        }
    }
    report.line("")?;
    for line in chart(&tuning.tuned) {
        report.line(&line)?;
    }
    report.line("")?;
    report.line("The best of each algorithm, beside Table I of the SeqCDC papers:")?;
    report.line(HEADER)?;
    for tuned in tuning.tuned.iter().filter(|each| is_compared(each)) {
        report.line(&row(tuned))?;
    }
    report.line("")?;
    report.line(
        "net saved: savings less the size of tables of contents, index and recipes. *: no other \
         row with this mean is better in both.",
    )?;
    let best = |tuned: Option<&TuneResult>, what: &str| match tuned {
        Some(tuned) => report.line(&format!("{what}: {}", init(tuned))),
        None => Ok(()),
    };
    best(tuning.tuned.iter().find(|tuned| tuned.origin != Origin::Paper), "saves most")?;
    best(tuning.tuned.iter().rfind(|tuned| tuned.is_best), "fastest")
}

const HEADER: &str = "  net saved    dedup     GB/s  mean here  on random  specification";

fn row(tuned: &TuneResult) -> String {
    let mark = if tuned.is_best { '*' } else { ' ' };
    let mean = tuned.savings.read_bytes.checked_div(tuned.savings.chunk_count).unwrap_or(0);
    let random = tuned.random_mean.map_or_else(|| "-".to_owned(), |mean| format!("{mean:.0}"));
    let origin = match tuned.origin {
        Origin::Grid => "",
        Origin::Paper => "  (Table I)",
        Origin::Average => "  (avg=)",
    };
    format!(
        "{mark} {:>9} {:>8} {:>8} {mean:>10} {random:>10}  {}{origin}",
        percent(tuned.net.space_savings()),
        percent(tuned.savings.space_savings()),
        speed(tuned),
        tuned.spec
    )
}

/// Returns `true` if the specification represents its algorithm or the papers.
fn is_compared(tuned: &TuneResult) -> bool {
    tuned.is_best_of_algorithm || tuned.origin == Origin::Paper
}

/// Returns the command that creates a repository with this specification.
fn init(tuned: &TuneResult) -> String {
    let spec = &tuned.spec;
    match spec.about().key {
        KeyUse::Refused => format!("cutpoint init --encryption none --cut {spec}"),
        _ => format!("cutpoint init --cut {spec}"),
    }
}

/// Formats the speed in GB (10^9 bytes) per second, or `-` if it was not measured.
fn speed(tuned: &TuneResult) -> String {
    match tuned.bytes_per_second > 0.0 {
        true => format!("{:.2}", tuned.bytes_per_second / 1e9),
        false => "-".to_owned(),
    }
}

/// Draws savings over speed: the best as `*`, Table I as `T`, others as dots.
fn chart(tuned: &[TuneResult]) -> Vec<String> {
    let measured: Vec<&TuneResult> =
        tuned.iter().filter(|each| each.bytes_per_second > 0.0).collect();
    let Some((savings, speeds)) = ranges(&measured) else { return Vec::new() };
    let mut grid = vec![vec![' '; CHART_WIDTH]; CHART_HEIGHT];
    // The most important marks are drawn last.
    for pass in 0..3 {
        for each in &measured {
            let (level, mark) = match (each.is_best, each.origin) {
                (true, _) => (2, '*'),
                (false, Origin::Paper) => (1, 'T'),
                _ => (0, '.'),
            };
            if level == pass {
                let x = speed_share(each, speeds);
                let y = share(each.net.space_savings().unwrap_or(0.0), savings);
                grid[place(1.0 - y, CHART_HEIGHT)][place(x, CHART_WIDTH)] = mark;
            }
        }
    }
    let label = |row: usize| match row {
        0 => percent(Some(savings.1)),
        row if row + 1 == CHART_HEIGHT => percent(Some(savings.0)),
        _ => String::new(),
    };
    let mut lines: Vec<String> = grid
        .iter()
        .enumerate()
        .map(|(row, cells)| {
            let cells: String = cells.iter().collect();
            format!("{:>9} |{cells}", label(row)).trim_end().to_owned()
        })
        .collect();
    lines.push(format!("{:>9} +{}", "", "-".repeat(CHART_WIDTH)));
    let (slow, fast) = (format!("{:.2}", speeds.0 / 1e9), format!("{:.2} GB/s", speeds.1 / 1e9));
    lines.push(format!("{:>11}{slow}{fast:>width$}", "", width = CHART_WIDTH - slow.len()));
    lines
}

/// Returns the ranges of net savings and of speeds; `None` if there are no values.
fn ranges(tuned: &[&TuneResult]) -> Option<((f64, f64), (f64, f64))> {
    let range = |values: &dyn Fn(&TuneResult) -> f64| {
        tuned.iter().map(|each| values(each)).fold(None, |range: Option<(f64, f64)>, value| {
            let (low, high) = range.unwrap_or((value, value));
            Some((low.min(value), high.max(value)))
        })
    };
    let savings = range(&|each| each.net.space_savings().unwrap_or(0.0))?;
    let speeds = range(&|each| each.bytes_per_second)?;
    Some((savings, speeds))
}

/// Returns the position of a value between two ends, from 0 to 1.
fn share(value: f64, (low, high): (f64, f64)) -> f64 {
    if high > low { (value - low) / (high - low) } else { 0.5 }
}

/// Returns the position of a speed on a logarithmic scale, because fixed sizes are a hundred times
/// as fast as others.
fn speed_share(tuned: &TuneResult, (low, high): (f64, f64)) -> f64 {
    share(tuned.bytes_per_second.ln(), (low.ln(), high.ln()))
}

/// Returns the index of the cell at a position.
fn place(share: f64, count: usize) -> usize {
    #[expect(clippy::cast_possible_truncation, reason = "a cell of a chart")]
    #[expect(clippy::cast_sign_loss, reason = "shares are from 0 to 1")]
    let cell = (share.clamp(0.0, 1.0) * (count - 1) as f64).round() as usize;
    cell
}
