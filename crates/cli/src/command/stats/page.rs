//! A self-contained page of what takes the space.

use anyhow::Result;
use cutpoint_page::space::{Space, SpaceMonitor, measure};
use cutpoint_repository::Reader;

use crate::args::Global;
use crate::interrupt::Interrupt;
use crate::report::Report;
use crate::session;
use crate::{place, units};

/// Shows the progress of a measurement, and ends it at a signal.
pub(crate) struct Monitor<'a> {
    pub(crate) report: &'a Report,
    pub(crate) interrupt: &'a Interrupt,
}

impl SpaceMonitor for Monitor<'_> {
    fn progress(&self, done: u64, total: u64) {
        self.report.show(|| format!("Reading tables and trees: {done} of {total}"));
    }

    fn is_cancelled(&self) -> bool {
        self.interrupt.is_asked()
    }
}

pub(super) fn html(reader: &Reader, global: &Global, report: &Report) -> Result<String> {
    let interrupt = Interrupt::listen();
    report.begin_progress();
    let measured = measure(reader, &Monitor { report, interrupt: &interrupt });
    report.end_progress();
    let space: Space = measured?;
    let now = reader.repository().environment().now_ns().div_euclid(1_000_000_000);
    let about = format!(
        "Repository {} at {}, {}",
        reader.repository().config().repository,
        place::shown(&session::location(global)?),
        units::date_time(now)
    );
    Ok(cutpoint_page::report::page(&space, &about))
}
