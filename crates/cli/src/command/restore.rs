//! `restore`: restores files from a snapshot.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::Result;
use cutpoint_backup::restore::{
    Overwrite, OwnerMap, RestoreAction, RestoreMonitor, RestoreOptions, RestoreReport, restore,
};
use cutpoint_repository::read::ReadStatistics;
use cutpoint_repository::{Content, EntryKind, Statistics, TicketId};
use cutpoint_storage::{Error as StoreError, Kind};
use cutpoint_terminal::units::grouped;
use cutpoint_terminal::{Work, WorkSum};

use crate::args::{Global, Restore};
use crate::event::{self, Event, PathText, Summary};
use crate::exit::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::report::Report;
use crate::select::{self, Lookup, Place};
use crate::session::{self, Session};
use crate::{confirmation, escape, heap, units};

pub(crate) fn run(args: &Restore, global: &Global, report: &Report) -> Result<Exit> {
    let mut session = Session::open(global, report)?;
    let view = session.view(report)?;
    let place = Place::parse(&args.snapshot);
    let (id, snapshot) = select::snapshot(&view, place.snapshot, &args.selection, report)?;
    let is_whole = is_whole(args, &place);
    if is_whole {
        let Statistics { file_count, size, .. } = snapshot.statistics;
        report.expect(Work::of_files(file_count, size));
    }
    select::warn_of_lack(id, snapshot, report);
    let is_incomplete = snapshot.partial || !snapshot.missing.is_empty();
    let reader = session.reader(view.clone(), report)?;
    if reader.repository().storage().requests_ahead_max() > 0 {
        // Buffers of some MiB go from thread to thread.
        heap::share();
    }
    let usage = |_: EntryKind| "restore {} --to TARGET";
    let lookup = Lookup { reader: &reader, view: &view, id, snapshot, usage };
    let mut request = request(args, &lookup, &place)?;
    let location = session::location(global)?;
    refuse_repository(&request.target, &location)?;
    request.options.kept_folders =
        [Some(location), session::cache_folder()].into_iter().flatten().collect();
    let monitor = Monitor {
        report,
        interrupt: Interrupt::listen(),
        is_dry_run: args.dry_run,
        looks_ahead: !is_whole,
        done: WorkSum::default(),
    };
    if args.delete {
        approve_deletion(args, (id, is_incomplete), || {
            let options = RestoreOptions { dry_run: true, ..request.options.clone() };
            let silent = Silent(&monitor.interrupt);
            restore(&reader, &request.root, &request.target, &options, &silent)
        })?;
    }
    // A dry run shows lines instead, and is short.
    if !args.dry_run {
        report.begin_progress();
    }
    let done = restore(&reader, &request.root, &request.target, &request.options, &monitor);
    report.end_progress();
    let done = done.map_err(explain)?;
    report.flush()?;
    summarize(id, &done, &reader.statistics(), args, report)?;
    Ok(Exit::of_problems(done.failed_entries.max(report.problem_count())))
}

/// Refuses a target in the folder of the repository. `location` is the address of the repository.
fn refuse_repository(target: &Path, location: &Path) -> Result<()> {
    let (Ok(repository), Ok(target)) = (fs::canonicalize(location), std::path::absolute(target))
    else {
        return Ok(());
    };
    let existing = target.ancestors().find_map(|folder| fs::canonicalize(folder).ok());
    if existing.is_some_and(|folder| folder.starts_with(&repository)) {
        let message = format!("{}: in the folder of the repository", target.display());
        return Err(Failure::failed(message).with_remedy("restore to another folder").into());
    }
    Ok(())
}

/// Returns `true` if everything in the snapshot is restored.
fn is_whole(args: &Restore, place: &Place<'_>) -> bool {
    let has_patterns = !args.include.is_empty() || !args.exclude.is_empty();
    place.path.is_none_or(<[u8]>::is_empty) && args.paths.is_empty() && !has_patterns
}

/// The arguments of a restore in the form of the library.
struct Request {
    root: Content,
    target: PathBuf,
    options: RestoreOptions,
}

/// Finds `place` and the paths of `args` in the snapshot of `lookup`.
fn request(args: &Restore, lookup: &Lookup<'_>, place: &Place<'_>) -> Result<Request> {
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
        dry_run: args.dry_run,
        delete: args.delete,
        verify: args.verify,
        in_place: args.in_place,
        exclude: args.exclude.clone(),
        include: args.include.clone(),
        sources: lookup.snapshot.sources.clone(),
        ..RestoreOptions::default()
    };
    if args.in_place && options.overwrite == Overwrite::Never {
        return Err(never_overwritten("--in-place"));
    }
    if !args.map_owner.is_empty() && !options.owners {
        let message = "--map-owner: only root can set owners";
        return Err(Failure::failed(message).with_remedy("run the command as root").into());
    }
    options.owners &= !args.no_owners;
    options.owner_map = OwnerMap::parse(args.map_owner.iter().map(String::as_str))
        .map_err(|problem| Failure::failed(format!("--map-owner: {problem}")))?;
    let (mut root, mut target) = (lookup.snapshot.root.clone(), args.to.clone());
    let located = lookup.find(place.path.unwrap_or_default())?;
    let mut names: Vec<&[u8]> = select::names(&located.path).collect();
    match located.entry {
        None => options.selection = selection(lookup, place, &located.path, &args.paths)?,
        Some((entry, _)) if entry.kind == EntryKind::Folder => {
            options.selection = selection(lookup, place, &located.path, &args.paths)?;
            options.root_path = root_path(&names);
            root = entry.content.clone();
            options.folder = Some(*entry);
        }
        Some((entry, parent)) => {
            if let Some(below) = args.paths.first() {
                let (path, below) = (escape::for_terminal(&located.path), below.display());
                return Err(Failure::failed(format!(
                    "`{path}`: not a folder, so it has no {below}"
                ))
                .with_remedy("give either SNAPSHOT:FILE alone, or SNAPSHOT and paths")
                .into());
            }
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

/// Returns the error of an option without effect unless something may be overwritten.
fn never_overwritten(option: &str) -> anyhow::Error {
    Failure::failed(format!("{option}: nothing may be overwritten"))
        .with_remedy("add --overwrite changed or --overwrite replace")
        .into()
}

/// Asks for the permission to delete what `preview`, a dry run, counts.
///
/// # Errors
///
/// Fails if nothing may be overwritten, if the snapshot lacks what could not be saved, if the answer
/// is no, or if there is no terminal to ask at.
fn approve_deletion(
    args: &Restore,
    (id, is_incomplete): (TicketId, bool),
    preview: impl FnOnce() -> Result<RestoreReport, StoreError>,
) -> Result<()> {
    if Overwrite::from(args.overwrite) == Overwrite::Never {
        return Err(never_overwritten("--delete"));
    }
    let id = id.short();
    if is_incomplete {
        let message =
            format!("--delete: snapshot {id} is incomplete, and what it lacks would be deleted");
        return Err(Failure::failed(message)
            .with_remedy("`cutpoint snapshots` lists complete snapshots")
            .into());
    }
    if args.dry_run || args.yes {
        return Ok(());
    }
    if !confirmation::can_ask() {
        let message = "--delete: not confirmed, because there is no terminal";
        return Err(Failure::failed(message)
            .with_remedy("--dry-run lists what would be deleted; --yes deletes without asking")
            .into());
    }
    let found = preview().map_err(explain)?;
    if found.deleted_entries == 0 {
        return Ok(());
    }
    let count = match found.deleted_entries {
        1 => "1 entry".to_owned(),
        count => format!("{} entries", grouped(count)),
    };
    let question = format!(
        "Delete {count} ({}) of {} not in snapshot {id}? --dry-run lists them.",
        units::size(found.deleted_bytes),
        escape::for_terminal(args.to.as_os_str().as_bytes()),
    );
    if confirmation::ask(&question)? {
        return Ok(());
    }
    Err(Failure::failed("--delete: not confirmed; nothing was done").into())
}

/// The monitor of a dry run whose only result is the numbers.
struct Silent<'a>(&'a Interrupt);

impl RestoreMonitor for Silent<'_> {
    fn cancelled(&self) -> bool {
        self.0.is_asked()
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

struct Monitor<'a> {
    report: &'a Report,
    interrupt: Interrupt,
    is_dry_run: bool,
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

    fn action(&self, action: RestoreAction, path: &Path, bytes: u64) {
        let (letter, name) = match action {
            RestoreAction::Create => ('+', "create"),
            RestoreAction::Replace => ('M', "replace"),
            RestoreAction::Adjust => ('U', "metadata"),
            RestoreAction::Delete => ('-', "delete"),
        };
        if self.report.is_json() {
            let path = PathText::of(path);
            self.report.tell(&Event::Change(event::Change { path, action: name, size: bytes }));
        } else if self.is_dry_run {
            let path = escape::for_terminal(path.as_os_str().as_bytes());
            // A reader that is gone is noticed at the end of the output.
            self.report.line(&format!("{letter} {path}")).ok();
        } else {
            self.report.detail_path("deleted", path);
        }
    }

    fn cancelled(&self) -> bool {
        self.interrupt.is_asked()
    }
}

fn summarize(
    id: TicketId,
    done: &RestoreReport,
    read: &ReadStatistics,
    args: &Restore,
    report: &Report,
) -> Result<()> {
    if report.is_json() {
        return report.event(&Event::Summary(Summary::Restore {
            snapshot: id.to_string(),
            dry_run: args.dry_run,
            written_file_count: done.written_files,
            written_bytes: done.written_bytes,
            reused_bytes: done.reused_bytes,
            copied_bytes: done.copied_bytes,
            linked_count: done.linked_names,
            folder_count: done.made_folders,
            symlink_count: done.made_symlinks,
            special_count: done.made_specials,
            skipped_special_count: done.skipped_specials,
            replaced_count: done.replaced_entries,
            deleted_count: done.deleted_entries,
            deleted_bytes: done.deleted_bytes,
            verified_file_count: done.verified_files,
            verified_bytes: done.verified_bytes,
            unchanged_count: done.unchanged_entries,
            metadata_changed_count: done.adjusted_entries,
            request_count: read.request_count,
            fetched_bytes: read.fetched_bytes,
            region_count: read.region_count,
            repeated_region_count: read.repeated_region_count,
            problem_count: done.failed_entries,
            warning_count: done.warnings,
            elapsed_ns: report.elapsed_ns(),
        }));
    }
    report.note(&describe(id, done, args, report));
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
        let problems = units::count(done.failed_entries, "problem");
        report.warn(&match (args.dry_run, args.verify) {
            (true, _) => format!("{problems}: the affected entries would not be restored"),
            (_, true) => format!("{problems}: the affected entries were not restored or differ"),
            _ => format!("{problems}: the affected entries were not restored"),
        });
    }
    Ok(())
}

/// Describes the result in a sentence.
fn describe(id: TicketId, done: &RestoreReport, args: &Restore, report: &Report) -> String {
    let mut text = format!(
        "{} {} ({}), {}, {} of snapshot {} to {} in {}",
        if args.dry_run { "Would restore" } else { "Restored" },
        units::count(done.written_files + done.linked_names, "file"),
        units::size(done.written_bytes),
        units::count(done.made_folders, "folder"),
        units::count(done.made_symlinks, "symbolic link"),
        id.short(),
        args.to.display(),
        units::duration(report.elapsed()),
    );
    if done.reused_bytes > 0 {
        text.push_str(&format!("; {} were there already", units::size(done.reused_bytes)));
    }
    if done.unchanged_entries > 0 {
        text.push_str(&format!("; {} unchanged", done.unchanged_entries));
    }
    if done.adjusted_entries > 0 {
        let verb = if args.dry_run { "to change" } else { "changed" };
        text.push_str(&format!("; {} {verb} in metadata only", done.adjusted_entries));
    }
    if done.deleted_entries > 0 {
        let deleted = units::size(done.deleted_bytes);
        let verb = if args.dry_run { "to delete" } else { "deleted" };
        text.push_str(&format!("; {} {verb} ({deleted})", done.deleted_entries));
    }
    if args.verify {
        let verified = units::count(done.verified_files, "file");
        let size = units::size(done.verified_bytes);
        text.push_str(&format!("; {verified} ({size}) read back and equal"));
    }
    if done.skipped_specials > 0 {
        let left_out = units::count(done.skipped_specials, "special file");
        text.push_str(&format!("; {left_out} left out"));
    }
    text.push('.');
    text
}
