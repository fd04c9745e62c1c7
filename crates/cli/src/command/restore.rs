//! `restore`: restores files from a snapshot.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::Result;
use cutpoint_backup::restore::{OwnerMap, RestoreMonitor, RestoreOptions, RestoreReport, restore};
use cutpoint_repository::read::ReadStatistics;
use cutpoint_repository::{Content, EntryKind, Reader, TicketId};
use cutpoint_storage::{Error as StoreError, Kind};

use crate::args::{Global, Restore};
use crate::event::{self, Event, Summary};
use crate::exit::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::report::Report;
use crate::select::{self, Found, Place};
use crate::session::Session;
use crate::{escape, units};

pub(crate) fn run(args: &Restore, global: &Global, report: &Report) -> Result<Exit> {
    let mut session = Session::open(global, report)?;
    let view = session.view(report)?;
    let place = Place::parse(&args.snapshot);
    let (id, snapshot) = select::snapshot(&view, place.snapshot, &args.filter)?;
    report.expect(snapshot.statistics.file_count, snapshot.statistics.size);
    select::warn_of_lack(id, snapshot, report);
    let root = snapshot.root.clone();
    let reader = session.reader(view, report)?;
    let Request { root, target, options } = request(args, &reader, &root)?;
    for path in &options.selection {
        select::find(&reader, &root, path.as_os_str().as_bytes())?;
    }
    let monitor = Monitor { report, interrupt: Interrupt::listen(), done: Done::default() };
    report.begin_progress();
    let done = restore(&reader, &root, &target, &options, &monitor);
    report.end_progress();
    let done = done.map_err(explain)?;
    summarize(id, &done, &reader.statistics(), &args.to, report)?;
    Ok(Exit::of_problems(done.failed_entries.max(report.problem_count())))
}

/// The arguments of a restore in the form of the library.
struct Request {
    root: Content,
    target: PathBuf,
    options: RestoreOptions,
}

/// Finds the paths of `args` in the snapshot with the tree `root`.
fn request(args: &Restore, reader: &Reader, root: &Content) -> Result<Request> {
    for (option, patterns) in [("--include", &args.include), ("--exclude", &args.exclude)] {
        for pattern in patterns {
            cutpoint_terminal::check_pattern(option, pattern)?;
        }
    }
    let mut options = RestoreOptions {
        threads: args.threads.count(),
        overwrite: args.overwrite.into(),
        numeric_owners: args.numeric_owners,
        specials: !args.no_special,
        privileges: !args.no_setuid,
        selection: args.paths.clone(),
        exclude: args.exclude.clone(),
        include: args.include.clone(),
        ..RestoreOptions::default()
    };
    if !args.map_owner.is_empty() && !options.owners {
        let message = "--map-owner: only root can set owners";
        return Err(Failure::failed(message).with_remedy("run the command as root").into());
    }
    options.owners &= !args.no_owners;
    options.owner_map = OwnerMap::parse(args.map_owner.iter().map(String::as_str))
        .map_err(|problem| Failure::failed(format!("--map-owner: {problem}")))?;
    let (mut root, mut target) = (root.clone(), args.to.clone());
    let path = Place::parse(&args.snapshot).path.unwrap_or_default();
    if let Found::Entry { entry, parent } = select::find(reader, &root, path)? {
        let mut names: Vec<&[u8]> = select::names(path).collect();
        if entry.kind == EntryKind::Folder {
            options.root_path = root_path(&names);
            root = entry.content.clone();
            options.folder = Some(*entry);
        } else if let Some(below) = args.paths.first() {
            let (path, below) = (escape::for_terminal(path), below.display());
            return Err(Failure::failed(format!("`{path}`: not a folder, so it has no {below}"))
                .with_remedy("give either SNAPSHOT:FILE alone, or SNAPSHOT and paths")
                .into());
        } else {
            // The root is the folder of the entry then, with the entry as the only selected path.
            root = parent;
            names.pop();
            options.root_path = root_path(&names);
            options.selection = vec![PathBuf::from(OsStr::from_bytes(&entry.name))];
            (target, options.new_name) = folder_and_name(&args.to);
        }
    }
    Ok(Request { root, target, options })
}

fn root_path(names: &[&[u8]]) -> PathBuf {
    names.iter().map(|name| OsStr::from_bytes(name)).collect()
}

/// Splits the target of a single file into its folder and its new name. Without a new name, the
/// file keeps its own.
fn folder_and_name(to: &Path) -> (PathBuf, Option<OsString>) {
    let is_folder = to.is_dir() || to.as_os_str().as_bytes().ends_with(b"/");
    match (to.parent(), to.file_name()) {
        (Some(parent), Some(name)) if !is_folder => {
            let here = parent.as_os_str().is_empty();
            let parent = if here { Path::new(".") } else { parent };
            (parent.to_path_buf(), Some(name.to_owned()))
        }
        _ => (to.to_path_buf(), None),
    }
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
            skipped_special_count: done.skipped_specials,
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
    if done.skipped_specials > 0 {
        let left_out = units::count(done.skipped_specials, "special file");
        text.push_str(&format!("; {left_out} left out"));
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
