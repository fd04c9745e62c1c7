//! `dump`: writes a folder of a snapshot to standard output, as an archive.

use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use anyhow::Result;
use cutpoint_backup::archive::{ArchiveOptions, ArchiveReport, write_archive};
use cutpoint_backup::restore::RestoreMonitor;
use cutpoint_repository::{Statistics, TicketId, Time};
use cutpoint_terminal::{Work, WorkSum};

use crate::args::{Dump, Global};
use crate::exit::{Exit, Failure};
use crate::report::Report;
use crate::select::{self, Lookup, Place};
use crate::session::Session;
use crate::units;

pub(crate) fn run(args: &Dump, global: &Global, report: &Report) -> Result<Exit> {
    let refuse =
        |problem: &str, remedy: &str| Err(Failure::failed(problem).with_remedy(remedy).into());
    if report.is_json() {
        return refuse(
            "`dump` has no --json, because the archive itself is the output",
            "`cutpoint ls --recursive --json` lists the entries",
        );
    }
    if report.out_is_terminal() && !args.force {
        return refuse(
            "standard output is a terminal, which an archive would disturb",
            "write to a file or a pipe (`cutpoint dump ... > FILE`), or use --force",
        );
    }
    let place = Place::parse(&args.snapshot);
    let path = match (place.path, &args.path) {
        (Some(_), Some(_)) => {
            return refuse("two paths given", "give either SNAPSHOT:PATH or SNAPSHOT PATH");
        }
        (None, Some(path)) => path.as_os_str().as_bytes(),
        (path, None) => path.unwrap_or_default(),
    };
    let mut session = Session::open(global, report)?;
    let view = session.view(report)?;
    let (id, snapshot) = select::snapshot(&view, place.snapshot, &args.selection, report)?;
    select::warn_of_lack(id, snapshot, report);
    let reader = session.reader(view.clone(), report)?;
    let lookup = Lookup { reader: &reader, view: &view, id, snapshot, usage: |_| "dump {}" };
    let entry = lookup.find(path)?.entry.map(|(entry, _)| entry);
    if entry.is_none() {
        let Statistics { file_count, size, .. } = snapshot.statistics;
        report.expect(Work::of_files(file_count, size));
    }
    let options = ArchiveOptions {
        format: args.format.into(),
        entry: entry.as_deref(),
        default_time: Time {
            seconds: snapshot.started_ns.div_euclid(1_000_000_000),
            nanoseconds: 0,
        },
    };
    let monitor = Monitor { report, looks_ahead: entry.is_some(), done: WorkSum::default() };
    let mut output = Output { report, failure: None };
    report.begin_progress();
    let written = write_archive(&reader, &snapshot.root, &options, &mut output, &monitor);
    report.end_progress();
    let done = match (written, output.failure) {
        // The failure of standard output itself, which the archive reports in its own words.
        (Err(_), Some(failure)) => return Err(failure),
        (written, _) => written?,
    };
    report.flush()?;
    summarize(args, id, &done, report);
    Ok(Exit::of_problems(done.failed_entries.max(report.problem_count())))
}

/// Standard output, with the reason of its failure.
struct Output<'a> {
    report: &'a Report,
    failure: Option<anyhow::Error>,
}

impl Write for Output<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.report.write(bytes).map(|()| bytes.len()).map_err(|failure| {
            self.failure.get_or_insert(failure);
            io::Error::other("standard output failed")
        })
    }

    /// Does nothing, because the formats flush after each member. The command flushes at its end.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Monitor<'a> {
    report: &'a Report,
    /// Set if the work is not known from the statistics of the snapshot.
    looks_ahead: bool,
    done: WorkSum,
}

impl RestoreMonitor for Monitor<'_> {
    fn looks_ahead(&self) -> bool {
        self.looks_ahead && self.report.shows_progress()
    }

    fn expected(&self, files: u64, bytes: u64) {
        self.report.expect(Work::of_files(files, bytes));
    }

    fn progress(&self, files: u64, bytes: u64) {
        self.report.progress(&self.done.add(files, bytes).into());
    }

    fn writing(&self, path: &Path) {
        self.report.set_path(path);
    }

    fn problem(&self, path: &Path, message: &str) {
        self.report.problem(path, message);
    }

    fn warning(&self, path: &Path, message: &str) {
        self.report.warning(path, message);
    }
}

fn summarize(args: &Dump, id: TicketId, done: &ArchiveReport, report: &Report) {
    report.note(&format!(
        "Wrote {} ({}), {}, {} of snapshot {} as {} in {}.",
        units::count(done.files + done.linked_names, "file"),
        units::size(done.bytes),
        units::count(done.folders, "folder"),
        units::count(done.symlinks, "symbolic link"),
        id.short(),
        args.format.name(),
        units::duration(report.elapsed()),
    ));
    if done.failed_entries > 0 {
        report.warn(&format!(
            "{}: the archive lacks the affected entries, or has zeros in them",
            units::count(done.failed_entries, "problem")
        ));
    }
}
