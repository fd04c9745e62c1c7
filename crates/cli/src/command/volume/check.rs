//! `volume check`: reads a virtual disk, and names what is damaged.

use anyhow::Result;
use cutpoint_terminal::report::INTERRUPTED;
use cutpoint_volume::{Access, Finding, OpenOptions};

use super::control::{self, Answer, CheckFinding, Request};
use super::requests;
use crate::args::{Secrets, VolumeCheck};
use crate::event::{Event, Finding as FindingEvent, Summary, VolumeCheckCounts, VolumeChecked};
use crate::exit::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::report::Report;
use crate::units;

pub(crate) fn run(args: &VolumeCheck, secrets: &Secrets, report: &Report) -> Result<Exit> {
    if let Some(answer) = control::ask(&args.folder, &Request::Check)? {
        let Answer::Check { findings, counts } = answer else { return Ok(Exit::Well) };
        findings.iter().try_for_each(|finding| tell(finding, report))?;
        return end(counts, report);
    }
    let volume = super::open(&args.folder, &OpenOptions::new(Access::Read), secrets, report)?;
    let interrupt = Interrupt::listen();
    let mut told = Ok(());
    let tell = |finding: &Finding| {
        let line = tell(&CheckFinding::from(finding), report);
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
    end(requests::counts(&summary), report)
}

fn end(counts: VolumeCheckCounts, report: &Report) -> Result<Exit> {
    let finding_count = counts.finding_count;
    if report.is_json() {
        let elapsed_ns = report.elapsed_ns();
        report
            .event(&Event::Summary(Summary::VolumeCheck(VolumeChecked { counts, elapsed_ns })))?;
    } else {
        report.note(&format!(
            "Read {} ({}): {}. {} cannot be read.",
            units::count(counts.stored_count, "stored block"),
            units::size(counts.read_bytes),
            units::count(finding_count, "finding"),
            units::count(counts.damaged_block_count, "block"),
        ));
    }
    Ok(Exit::of_problems(finding_count))
}

fn tell(finding: &CheckFinding, report: &Report) -> Result<()> {
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
fn message(finding: &CheckFinding) -> String {
    if finding.block_count == 0 {
        return finding.problem.clone();
    }
    let listed = &finding.blocks;
    let rest = finding.block_count - listed.len() as u64;
    let more = if rest > 0 { format!(" and {rest} more") } else { String::new() };
    let noun = if finding.block_count == 1 { "block" } else { "blocks" };
    format!("{}; {noun} {}{more} cannot be read", finding.problem, listed.join(", "))
}
