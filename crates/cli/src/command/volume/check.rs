//! `volume check`: reads a virtual disk, and names what is damaged.

use anyhow::Result;
use cutpoint_terminal::report::INTERRUPTED;
use cutpoint_volume::{Access, Finding};

use crate::args::VolumeCheck;
use crate::event::{Event, Finding as FindingEvent, Summary};
use crate::exit::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::report::Report;
use crate::units;

pub(crate) fn run(args: &VolumeCheck, report: &Report) -> Result<Exit> {
    let volume = super::open(&args.folder, Access::Read)?;
    let interrupt = Interrupt::listen();
    let mut told = Ok(());
    let tell = |finding: &Finding| {
        let line = tell(finding, report);
        if told.is_ok() {
            told = line;
        }
    };
    let summary = volume
        .check(tell, || interrupt.is_asked())
        .map_err(|error| super::failure(&args.folder, &error))?;
    told?;
    if interrupt.is_asked() {
        return Err(Failure::new(Exit::Interrupted, INTERRUPTED).into());
    }
    if report.is_json() {
        report.event(&Event::Summary(Summary::VolumeCheck {
            finding_count: summary.finding_count,
            damaged_block_count: summary.damaged_block_count,
            stored_count: summary.stored_count,
            read_bytes: summary.read_bytes,
            elapsed_ns: report.elapsed_ns(),
        }))?;
    } else {
        report.note(&format!(
            "Read {} ({}): {}. {} of the disk cannot be read.",
            units::count(summary.stored_count, "stored block"),
            units::size(summary.read_bytes),
            units::count(summary.finding_count, "finding"),
            units::count(summary.damaged_block_count, "block"),
        ));
    }
    Ok(Exit::of_problems(summary.finding_count))
}

fn tell(finding: &Finding, report: &Report) -> Result<()> {
    let message = message(finding);
    if report.is_json() {
        let kind = if finding.block_count > 0 { "damaged_block" } else { "damaged_copy" };
        return report.event(&Event::Finding(FindingEvent {
            kind,
            object: &finding.object,
            message: &message,
            remedies: Vec::new(),
        }));
    }
    report.line(&format!("{}: {message}", finding.object))
}

/// Returns the problem with the blocks that cannot be read.
fn message(finding: &Finding) -> String {
    if finding.block_count == 0 {
        return finding.problem.clone();
    }
    let listed: Vec<String> = finding.blocks.iter().map(u64::to_string).collect();
    let rest = finding.block_count - listed.len() as u64;
    let more = if rest > 0 { format!(" and {rest} more") } else { String::new() };
    let noun = if finding.block_count == 1 { "block" } else { "blocks" };
    format!("{}; {noun} {}{more} cannot be read", finding.problem, listed.join(", "))
}
