//! Waits for other clients: the reason, the time until which a wait takes, and the messages about
//! it, at its beginning and then once a minute.

use std::time::{Duration, Instant};

use anyhow::Result;
use cutpoint_repository::gc::prune::PruneReport;
use cutpoint_repository::gc::sweep::{OpenWriter, Sweep};
use cutpoint_repository::repo::lagging_clients::{LAG_MAX, announce};

use crate::event::{Event, WaitingFor, WaitingWriter};
use crate::report::Report;
use crate::session::Session;
use crate::units;

const SECOND_NS: i64 = 1_000_000_000;
/// The maximum time between the last renewal of a ticket and the end of its writer, in nanoseconds: a
/// ticket lives for a day at most, and a writer that has not renewed it for a day is dead.
const WRITER_NS_MAX: i64 = 24 * 3600 * SECOND_NS;
/// The interval between two events about one wait.
const EVENT_INTERVAL: Duration = Duration::from_secs(60);

/// The reason for the minimum age of a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Delay {
    /// Listings of some client may lag.
    #[default]
    Lag,
    /// The user demands it.
    Demanded,
}

/// The messages about the waits of a run.
pub(super) struct Waits<'a> {
    report: &'a Report,
    delay: Delay,
    /// The last text, and the time of the event about it.
    told: Option<(String, Instant)>,
}

impl<'a> Waits<'a> {
    pub(super) fn new(report: &'a Report, delay: Delay) -> Waits<'a> {
        Waits { report, delay, told: None }
    }

    /// Tells why a sweep waits, and until when. Called repeatedly during the wait.
    pub(super) fn tell_sweep(&mut self, waiting: &Sweep) {
        let text = format!("Waiting: {}", sweep_text(waiting, self.delay));
        self.tell(text, |message| sweep_event(waiting, message));
    }

    fn tell<'e>(&mut self, text: String, event: impl FnOnce(String) -> WaitingFor<'e>) {
        let told = self.told.as_ref();
        let is_new = told.is_none_or(|(told, _)| *told != text);
        let is_due = is_new || told.is_none_or(|(_, at)| at.elapsed() >= EVENT_INTERVAL);
        if is_new {
            self.report.note(&format!("{text}."));
        }
        self.report.show(|| text.clone());
        if is_due {
            if self.report.is_json() {
                self.report.tell(&Event::Waiting(event(text.clone())));
            }
            self.told = Some((text, Instant::now()));
        }
    }
}

/// Announces, before a command works for long, that listings of this client may lag. The wait is
/// told ([`crate::waits`]).
pub(super) fn announce_lag(session: &Session) -> Result<()> {
    Ok(announce(&session.repository, lag())?)
}

/// Returns the maximum lag of listings.
fn lag() -> Duration {
    // A hook for tests of the whole program, which cannot wait for minutes.
    #[cfg(debug_assertions)]
    if let Some(seconds) = std::env::var("CUTPOINT_TEST_LAG_S").ok().and_then(|it| it.parse().ok())
    {
        return Duration::from_secs(seconds);
    }
    LAG_MAX
}

fn time(ns: i64) -> String {
    units::date_time(ns.div_euclid(SECOND_NS))
}

/// Returns the latest time at which all of `writers` have ended; `None` if the ticket of one cannot
/// be read.
fn end_ns(writers: &[OpenWriter]) -> Option<i64> {
    let readable = writers.iter().all(|writer| writer.process.is_some());
    let last_ns = writers.iter().map(|writer| writer.time_ns).max().filter(|_| readable)?;
    Some(last_ns.saturating_add(WRITER_NS_MAX))
}

fn sweep_text(waiting: &Sweep, delay: Delay) -> String {
    match waiting {
        Sweep::Settling { number, .. } | Sweep::Waiting { number, .. } => {
            format!(
                "containers condemned by prune {number} can be deleted {}",
                when(waiting, delay)
            )
        }
        Sweep::Nothing | Sweep::Done(_) | Sweep::Locked(_) => String::new(),
    }
}

/// Describes the moment from which a sweep can continue, with the reason.
fn when(waiting: &Sweep, delay: Delay) -> String {
    match waiting {
        Sweep::Settling { until_ns, .. } => {
            let reason = match delay {
                Delay::Lag => "because listings of some client may lag",
                Delay::Demanded => "by --settle",
            };
            format!("after {}, {reason}", time(*until_ns))
        }
        Sweep::Waiting { writers, .. } => {
            let names: Vec<String> = writers.iter().map(writer_text).collect();
            let end = end_ns(writers).map_or_else(String::new, |end_ns| {
                format!(", at the latest about {}", time(end_ns))
            });
            format!("once these clients have ended{end}: {}", names.join(", "))
        }
        Sweep::Nothing | Sweep::Done(_) | Sweep::Locked(_) => String::new(),
    }
}

fn sweep_event(waiting: &Sweep, message: String) -> WaitingFor<'_> {
    let (reason, prune_number, until_ns, writers): (_, _, _, &[OpenWriter]) = match waiting {
        Sweep::Settling { number, until_ns } => ("settling", Some(*number), Some(*until_ns), &[]),
        Sweep::Waiting { number, writers } => ("writers", Some(*number), end_ns(writers), writers),
        Sweep::Nothing | Sweep::Done(_) | Sweep::Locked(_) => ("settling", None, None, &[]),
    };
    let writers = writers.iter().map(|writer| WaitingWriter {
        ticket: writer.ticket.to_string(),
        host: writer.process.as_ref().map(|process| process.host.as_str()),
        process_id: writer.process.as_ref().map(|process| process.process_id),
    });
    WaitingFor {
        reason,
        prune_number,
        until: until_ns.map(units::rfc3339_ns),
        writers: writers.collect(),
        message,
    }
}

/// Describes what waits for the next run of `command`, with its size if it was condemned by this
/// run. Returns `None` if no space waits.
pub(super) fn pending_text(
    pruned: &PruneReport,
    waiting: &Sweep,
    delay: Delay,
    command: &str,
) -> Option<String> {
    let (Sweep::Settling { number, .. } | Sweep::Waiting { number, .. }) = waiting else {
        return None;
    };
    let what = if pruned.number == Some(*number) {
        match pruned.plan.condemned_bytes + pruned.plan.rewritten_bytes {
            0 => return None,
            bytes => units::size(bytes),
        }
    } else {
        format!("Containers condemned by prune {number}")
    };
    Some(format!("{what} will be freed by the next {command} {}", when(waiting, delay)))
}

fn writer_text(writer: &OpenWriter) -> String {
    let ticket = writer.ticket.short();
    match &writer.process {
        Some(process) => format!(
            "backup {ticket} (host {}, process {}, last seen at {})",
            process.host,
            process.process_id,
            time(writer.time_ns)
        ),
        None => format!(
            "{ticket} (unreadable ticket; --exclusive ends its writer once the ticket is 3 hours \
             old)"
        ),
    }
}
