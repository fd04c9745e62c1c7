//! `restore`: restores files from a snapshot.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::Result;
use cutpoint_backup::restore::{RestoreMonitor, RestoreOptions, RestoreReport, restore};
use cutpoint_repository::read::ReadStatistics;
use cutpoint_repository::{EntryKind, TicketId};
use cutpoint_storage::{Error as StoreError, Kind};

use crate::args::{Global, Restore};
use crate::event::{self, Event, Summary};
use crate::exit::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::report::Report;
use crate::select::{self, Lookup, Place};
use crate::session::Session;
use crate::{escape, units};

pub(crate) fn run(args: &Restore, global: &Global, report: &Report) -> Result<Exit> {
    let mut session = Session::open(global, report)?;
    let view = session.view(report)?;
    let place = Place::parse(&args.snapshot);
    let (id, snapshot) = select::snapshot(&view, place.snapshot, &args.selection, report)?;
    report.expect(snapshot.statistics.file_count, snapshot.statistics.size);
    select::warn_of_lack(id, snapshot, report);
    let mut root = snapshot.root.clone();
    let reader = session.reader(view.clone(), report)?;
    let usage = "restore {} --to FOLDER";
    let lookup = Lookup { reader: &reader, view: &view, id, snapshot, usage };
    let located = lookup.find(place.path.unwrap_or_default())?;
    let mut selection = selection(&lookup, &place, &located.path, &args.paths)?;
    let mut folder = None;
    if let Some((entry, parent)) = located.entry {
        if entry.kind == EntryKind::Folder {
            root = entry.content.clone();
            folder = Some(*entry);
        } else {
            // The root is the folder of the entry then, with the entry as the only selected path.
            root = parent;
            selection = vec![PathBuf::from(OsStr::from_bytes(&entry.name))];
        }
    }
    let mut options = RestoreOptions {
        threads: args.threads.count(),
        overwrite: args.overwrite.into(),
        numeric_owners: args.numeric_owners,
        selection,
        folder,
        ..RestoreOptions::default()
    };
    options.owners &= !args.no_owners;
    let monitor = Monitor { report, interrupt: Interrupt::listen(), done: Done::default() };
    report.begin_progress();
    let done = restore(&reader, &root, &args.to, &options, &monitor);
    report.end_progress();
    let done = done.map_err(explain)?;
    summarize(id, &done, &reader.statistics(), &args.to, report)?;
    Ok(Exit::of_problems(done.failed_entries.max(report.problem_count())))
}

/// Returns the paths to restore, relative to the root of the restore, the existing path `base`.
///
/// # Errors
///
/// Fails if a path does not exist.
fn selection(
    lookup: &Lookup<'_>,
    place: &Place<'_>,
    base: &[u8],
    paths: &[PathBuf],
) -> Result<Vec<PathBuf>> {
    let is_below = place.path.is_some_and(|path| !path.is_empty());
    let find = |path: &PathBuf| {
        let given = path.as_os_str().as_bytes();
        let given = if is_below { [base, b"/", given].concat() } else { given.to_vec() };
        let path = lookup.find(&given)?.path;
        match path.strip_prefix(base) {
            Some(b"") => Ok(PathBuf::from("/")),
            Some(rest @ [b'/', ..]) => Ok(PathBuf::from(OsStr::from_bytes(rest))),
            _ => {
                let (path, base) = (escape::for_terminal(&path), escape::for_terminal(base));
                Err(Failure::failed(format!("{path}: not below {base}"))
                    .with_remedy("give the snapshot without a path")
                    .into())
            }
        }
    };
    paths.iter().map(find).collect()
}

/// Adds a remedy to the failures with external causes.
fn explain(error: StoreError) -> anyhow::Error {
    let remedy = match error.kind() {
        Kind::Interrupted => "run the same command with --overwrite changed to continue",
        Kind::Full => {
            "free some space, then run the same command with --overwrite changed to continue"
        }
        _ => return error.into(),
    };
    Failure::new(Exit::of_kind(error.kind()), error.to_string()).with_remedy(remedy).into()
}

#[derive(Default)]
struct Done {
    files: std::sync::atomic::AtomicU64,
    bytes: std::sync::atomic::AtomicU64,
}

struct Monitor<'a> {
    report: &'a Report,
    interrupt: Interrupt,
    done: Done,
}

impl RestoreMonitor for Monitor<'_> {
    fn progress(&self, files: u64, bytes: u64) {
        use std::sync::atomic::Ordering::Relaxed;
        self.report.progress(event::Progress {
            file_count: self.done.files.fetch_add(files, Relaxed) + files,
            size: self.done.bytes.fetch_add(bytes, Relaxed) + bytes,
            ..event::Progress::default()
        });
    }

    fn problem(&self, path: &Path, message: &str) {
        self.report.problem(path, message);
    }

    fn warning(&self, path: &Path, message: &str) {
        self.report.warning(path, message);
    }

    fn cancelled(&self) -> bool {
        self.interrupt.is_asked()
    }
}

fn summarize(
    id: TicketId,
    done: &RestoreReport,
    read: &ReadStatistics,
    to: &Path,
    report: &Report,
) -> Result<()> {
    if report.is_json() {
        return report.event(&Event::Summary(Summary::Restore {
            snapshot: id.to_string(),
            written_file_count: done.written_files,
            written_bytes: done.written_bytes,
            linked_count: done.linked_names,
            folder_count: done.made_folders,
            symlink_count: done.made_symlinks,
            special_count: done.made_specials,
            unchanged_count: done.unchanged_entries,
            request_count: read.request_count,
            fetched_bytes: read.fetched_bytes,
            region_count: read.region_count,
            repeated_region_count: read.repeated_region_count,
            problem_count: done.failed_entries,
            warning_count: done.warnings,
            elapsed_ns: report.elapsed_ns(),
        }));
    }
    let mut text = format!(
        "Restored {} ({}), {}, {} of snapshot {} to {} in {}",
        units::count(done.written_files + done.linked_names, "file"),
        units::size(done.written_bytes),
        units::count(done.made_folders, "folder"),
        units::count(done.made_symlinks, "symbolic link"),
        id.short(),
        to.display(),
        units::duration(report.elapsed()),
    );
    if done.unchanged_entries > 0 {
        text.push_str(&format!("; {} unchanged", done.unchanged_entries));
    }
    report.note(&format!("{text}."));
    report.detail(|| {
        format!(
            "Read {} in {}; decoded {}, {} of them repeatedly.",
            units::size(read.fetched_bytes),
            units::count(read.request_count, "request"),
            units::count(read.region_count, "region"),
            read.repeated_region_count,
        )
    });
    if done.failed_entries > 0 {
        report.warn(&format!(
            "{}: the affected entries were not restored",
            units::count(done.failed_entries, "problem")
        ));
    }
    Ok(())
}
