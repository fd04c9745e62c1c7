//! `estimate`: estimates the savings of deduplication before anything is stored.

mod default_mode;
mod page;
mod table;

use anyhow::{Context, Result};
use cutpoint_chunking::Spec;
use cutpoint_estimate::{
    ConfigurationResult, DEFAULT_SPECS, EstimateOptions, EstimateReport, SampleOptions, estimate,
};
use cutpoint_terminal::OutputFile;
use cutpoint_terminal::scan::{ScanTotals, Watch, check_data, ended, warn_of_part};

use self::default_mode::{DefaultMode, Plan};
use crate::args::{Estimate, Global};
use crate::event::{self, Event, Summary};
use crate::exit::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::report::Report;
use crate::units;

/// A configuration as it was requested, and its result.
struct Row<'a> {
    label: &'a str,
    found: &'a ConfigurationResult,
}

/// All that is printed.
struct Results<'a> {
    estimated: &'a EstimateReport,
    rows: &'a [Row<'a>],
    default_mode: &'a DefaultMode,
}

pub(crate) fn run(args: &Estimate, global: &Global, report: &Report) -> Result<Exit> {
    let labels: Vec<&str> = match args.algorithms.is_empty() {
        true => DEFAULT_SPECS.to_vec(),
        false => args.algorithms.iter().map(String::as_str).collect(),
    };
    let specs: Result<Vec<Spec>> = labels
        .iter()
        .map(|text| text.parse::<Spec>().and_then(Spec::bounded).context("--algorithm"))
        .collect();
    let defaults = EstimateOptions::default();
    let options = EstimateOptions {
        scan: args.data.scan_options()?,
        specs: specs?,
        bursts: !args.no_bursts,
        compression: !args.no_compression,
        compression_level: args.compression_level.unwrap_or(defaults.compression_level),
        sample: args.sample.then(|| sample_options(args)).transpose()?,
        ..defaults
    };
    if args.sample && !args.no_bursts {
        report.detail(|| "bursts cannot be estimated from a sample, and are omitted".to_owned());
    }
    let plan = Plan::new(args, global)?;
    let html = args.html.as_deref().map(OutputFile::open).transpose()?;
    let watch = Watch { report, interrupt: Interrupt::listen_without_limit() };
    report.begin_progress();
    let estimated = estimate(&options, &watch);
    report.end_progress();
    let estimated = estimated?;
    check_data(&estimated.counts, report)?;
    let rows: Vec<Row<'_>> = labels
        .iter()
        .zip(&estimated.configurations)
        .map(|(label, found)| Row { label, found })
        .collect();
    let plan = plan.filter(|_| !estimated.counts.is_partial);
    let (default_mode, counted) = match plan {
        Some(plan) => plan.carry_out(&estimated.counts, report, &watch.interrupt),
        None => (DefaultMode::default(), Ok(())),
    };
    let results = Results { estimated: &estimated, rows: &rows, default_mode: &default_mode };
    tell(&results, report)?;
    report.flush()?;
    if let Some(file) = html {
        file.write(&page::html(&results, report.elapsed())?)?;
    }
    counted?;
    match default_mode.is_interrupted {
        true => Ok(Exit::Interrupted),
        false => Ok(ended(&estimated.counts, report)),
    }
}

fn sample_options(args: &Estimate) -> Result<SampleOptions> {
    if args.sample_memory < SampleOptions::MEMORY_MIN {
        return Err(Failure::failed(format!(
            "--sample-memory: {} is too small for a sample",
            units::size(args.sample_memory)
        ))
        .with_remedy(format!("use {} or more", units::size(SampleOptions::MEMORY_MIN)))
        .into());
    }
    Ok(SampleOptions::in_memory(args.sample_memory, args.sample_seed))
}

fn tell(results: &Results<'_>, report: &Report) -> Result<()> {
    let counts = &results.estimated.counts;
    warn_of_part(counts, report);
    if results.default_mode.is_interrupted {
        report.warn("interrupted: what the default mode stores was not counted to the end");
    }
    if !report.is_json() {
        return table::print(results, report);
    }
    for row in results.rows {
        report.event(&Event::Estimate(Box::new(event::Estimate::of(row.found))))?;
    }
    for version in &results.default_mode.versions {
        let event = event::DefaultMode::of(version.path.as_deref(), &version.backup);
        report.event(&Event::DefaultMode(Box::new(event)))?;
    }
    report.event(&Event::Summary(Summary::Estimate {
        counts: ScanTotals::of(counts),
        elapsed_ns: report.elapsed_ns(),
    }))
}

/// Computes the speed of one thread in GB (10^9 bytes) per second of CPU time; `None` if the time
/// was too short.
fn gigabytes_per_second(found: &ConfigurationResult) -> Option<f64> {
    let seconds = (found.times.chunking + found.times.fingerprinting).as_secs_f64();
    (seconds > 0.0).then(|| found.dedup.read_bytes as f64 / seconds / 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::defaults::{DEFAULT, DEFAULT_CUT};

    #[test]
    fn estimate_defaults_are_those_of_a_new_repository() {
        let options = EstimateOptions::default();
        assert_eq!(options.specs.len(), DEFAULT_SPECS.len(), "all are valid");
        assert_eq!(DEFAULT_SPECS[0], DEFAULT_CUT, "the way to cut");
        assert_eq!(options.compression_level, DEFAULT.compression_level, "the level");
        assert_eq!(options.region_size, DEFAULT.region_size as usize, "the size of regions");
        assert_eq!(options.container_size, u64::from(DEFAULT.container_size), "of containers");
    }
}
