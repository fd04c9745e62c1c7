//! `backup`: saves files or a stream as a snapshot.

mod changed_blocks;
mod decision;
mod path_list;

use std::fs;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use cutpoint_backup::save::{
    BackupMonitor, BackupOptions, BackupProgress, BackupReport, FileDecision, IgnoredProperties,
    Parent, Source, backup, dry_run,
};
use cutpoint_backup::source::{FileSystems, Kernel};
use cutpoint_repository::{ObjectName, Statistics, TicketId, Verify, View};
use cutpoint_storage::{Error, Kind, stop};
use cutpoint_terminal::Work;

use super::tag;
use super::waiting::announce_lag;
use crate::args::{Backup, Global, Selection, Settings};
use crate::event::{self, Event, PathText, Summary};
use crate::exit::{Exit, Failure};
use crate::interrupt::{Interrupt, Patient};
use crate::report::{Report, ReportObjects};
use crate::session::{self, New, Session};
use crate::source_command::{self, SourceCommand};
use crate::{confirmation, escape, select, units};

pub(crate) fn run(args: &Backup, global: &Global, report: &Report) -> Result<Exit> {
    // Impossible requests are detected before a passphrase is asked for.
    refuse_contradictions(args)?;
    let (paths, words): (Vec<PathBuf>, &[PathBuf]) = match args.stdin_from_command {
        true => (Vec::new(), &args.paths),
        false => (path_list::paths(args)?, &[]),
    };
    refuse_if_none_is_there(&paths)?;
    tag::check(&args.tags)
        .map_err(|failure| failure.with_remedy("omit --tag for a snapshot without tags"))?;
    if args.host.as_deref() == Some("") {
        let failure = Failure::failed("--host: the name cannot be empty");
        return Err(failure.with_remedy("omit --host for the name of this machine").into());
    }
    let mut walk = args.exclusion.walk_options()?;
    args.exclusion.warn_of_idle_patterns(report);
    let changed_blocks = args.changed_blocks.as_deref().map(changed_blocks::read).transpose()?;
    let mut session = open(args, global, report)?;
    exclude_own(&paths, global, &mut walk.exclude, report)?;
    let parent = parent(args, &session, report)?;
    if args.stdin_from_command {
        // The command is not started for a run that cannot begin, or that will restart.
        session.view(report)?.require_epoch()?;
    } else {
        session.look_for_heads(report)?;
    }
    if !args.dry_run {
        announce_lag(&session)?;
    }
    let mut options = options(args, parent);
    options.changed_blocks = changed_blocks.map(Arc::new);
    let monitor = Monitor::new(args.dry_run, report);
    let (stream, command): (Option<Box<dyn Read + Send>>, _) = if args.stdin_from_command {
        let (started, output) = SourceCommand::start(words, monitor.interrupt.clone())?;
        report.begin_once();
        (Some(Box::new(output)), Some(started))
    } else if args.stdin || args.stdin_tar {
        (Some(Box::new(Patient(io::stdin()))), None)
    } else {
        (None, None)
    };
    let source = match stream {
        Some(reader) if args.stdin_tar => Source::Tar(reader),
        Some(reader) => Source::Stream { name: args.stdin_filename.as_bytes().to_vec(), reader },
        None => Source::Files { paths, options: walk },
    };
    let started_ns = session.repository.environment().now_ns();
    report.begin_progress();
    let run = if args.dry_run { dry_run } else { backup };
    let done = run(&session.repository, source, &options, &monitor);
    report.end_progress();
    let done = match command {
        Some(command) => of_command(done, &command, words, report)?,
        None => done?,
    };
    if let Some(id) = done.snapshot {
        session.state.add_head(&options.host, id, started_ns);
    }
    session.state.save(report);
    summarize(&done, args.dry_run, report)?;
    Ok(Exit::of_problems(done.statistics.problem_count.max(report.problem_count())))
}

/// # Errors
///
/// Fails if options contradict each other that the parser of the command line accepts.
fn refuse_contradictions(args: &Backup) -> Result<()> {
    let (message, remedy) = if args.stdin_from_command && args.paths.is_empty() {
        let remedy = "give the command and its arguments after `--`, as the last arguments";
        ("--stdin-from-command: no command given (expected `-- COMMAND`)", remedy)
    } else if args.stdin_tar && !args.stdin_from_command && !args.paths.is_empty() {
        let remedy = "omit the paths, or give the command that writes the archive after `--`, with \
                      --stdin-from-command";
        ("--stdin-tar: cannot be used with paths to save", remedy)
    } else if args.stdin_tar && args.exclusion.is_given() {
        let remedy = "leave the files out of the archive, for example by `tar --exclude`";
        ("--stdin-tar: patterns and other exclusions do not apply to an archive", remedy)
    } else if args.changed_blocks.is_some() && args.stdin_from_command {
        let remedy = "name the device or image as a path";
        ("--changed-blocks: needs a path to save", remedy)
    } else if args.as_path.is_some() && args.stdin_from_command && !args.stdin_tar {
        let remedy = "name the file of the stream by --stdin-filename";
        ("--as-path: needs a path to save, or --stdin-tar", remedy)
    } else {
        return Ok(());
    };
    Err(Failure::failed(message).with_remedy(remedy).into())
}

/// The maximum number of sources that the message about missing ones names.
const REASONS_MAX: usize = 20;

/// # Errors
///
/// Fails if none of the sources exists, naming each of them. If only some are missing, the backup
/// reports them.
fn refuse_if_none_is_there(paths: &[PathBuf]) -> Result<()> {
    let mut reasons = Vec::new();
    for path in paths {
        match fs::symlink_metadata(path) {
            Ok(_) => return Ok(()),
            Err(error) => reasons.push(format!("source {}: {error}", path.display())),
        }
    }
    let more = reasons.len().saturating_sub(REASONS_MAX);
    reasons.truncate(REASONS_MAX);
    if more > 0 {
        reasons.push(format!("and {more} more that cannot be read"));
    }
    if reasons.is_empty() { Ok(()) } else { Err(Failure::failed(reasons.join("; ")).into()) }
}

/// Returns the options of a backup that is compared with `parent`.
fn options(args: &Backup, parent: Parent) -> BackupOptions {
    let mut options = BackupOptions {
        parent,
        force_read: args.force_read,
        ignored: IgnoredProperties { inode: args.ignore_inode, ctime: args.ignore_ctime },
        as_path: args.as_path.clone(),
        skip_if_unchanged: args.skip_if_unchanged,
        threads: args.threads.count(),
        tags: without_duplicates(&args.tags),
        description: args.description.clone(),
        file_systems: file_systems(),
        ..BackupOptions::default()
    };
    if args.verify_write {
        options.verify = Verify::All;
    }
    if let Some(host) = &args.host {
        options.host.clone_from(host);
    }
    options
}

fn without_duplicates(tags: &[String]) -> Vec<String> {
    let mut unique = Vec::new();
    for tag in tags {
        if !unique.contains(tag) {
            unique.push(tag.clone());
        }
    }
    unique
}

/// Shows the standard error of the command. A failure of the command is the failure of the run.
fn of_command(
    done: Result<BackupReport, Error>,
    command: &SourceCommand,
    words: &[PathBuf],
    report: &Report,
) -> Result<BackupReport> {
    let name = source_command::name_of(words);
    for line in command.said() {
        report.warn(&format!("{name}: {line}"));
    }
    match (done, command.failure()) {
        (Err(error), Some(failure)) if error.kind() != Kind::Interrupted => Err(failure.into()),
        (done, _) => Ok(done?),
    }
}

/// Opens the repository, or creates it if that is requested.
fn open(args: &Backup, global: &Global, report: &Report) -> Result<Session> {
    let missing = match Session::open(global, report) {
        Err(error) if Exit::of(&error) == Exit::NoRepository => error,
        opened => return opened,
    };
    if args.dry_run {
        let remedy = "without a repository everything is new; `cutpoint estimate` measures how \
                      much of it would be stored";
        return Err(Failure::new(Exit::NoRepository, missing.to_string())
            .with_remedy(remedy)
            .into());
    }
    let wanted = args.init || offer(global)?;
    if !wanted {
        let text = missing.to_string();
        return Err(Failure::new(Exit::NoRepository, text)
            .with_remedy(
                "create the repository with --init or `cutpoint init`, or use --repo for another \
                 place",
            )
            .into());
    }
    let settings = Settings::default();
    let recovery_kit = args.recovery_kit.as_deref();
    let new = New { settings: &settings, recovery_kit, is_shared: false, like: None };
    match session::vacancy(global)? {
        Some(vacancy) => session::create(global, vacancy, &new, report),
        // Another client has created it meanwhile.
        None => Session::open(global, report),
    }
}

/// Asks the user whether to create the repository.
fn offer(global: &Global) -> Result<bool> {
    if !confirmation::can_ask() {
        return Ok(false);
    }
    let location = session::location(global)?;
    let shown = escape::for_terminal(location.as_os_str().as_bytes());
    confirmation::ask(&format!("No repository at {shown}. Create one?"))
}

/// Excludes the repository itself and the cache of this program, because both change while they are
/// read.
pub(super) fn exclude_own(
    paths: &[PathBuf],
    global: &Global,
    exclude: &mut Vec<String>,
    report: &Report,
) -> Result<()> {
    if paths.is_empty() {
        return Ok(());
    }
    let sources: Vec<PathBuf> =
        paths.iter().filter_map(|path| fs::canonicalize(path).ok()).collect();
    let location = session::location(global)?;
    let own = [(Some(location), true), (session::cache_folder(), false)];
    for (folder, is_repository) in own {
        let Some(folder) = folder.and_then(|folder| fs::canonicalize(folder).ok()) else {
            continue;
        };
        if is_repository && sources.iter().any(|source| source.starts_with(&folder)) {
            let message = format!("{}: a repository cannot be saved into itself", folder.display());
            return Err(Failure::failed(message).into());
        }
        if sources.iter().any(|source| folder.starts_with(source)) {
            exclude.push(pattern(&folder));
            if is_repository {
                let shown = escape::for_terminal(folder.as_os_str().as_bytes());
                report.note(&format!("The repository itself, {shown}, is excluded."));
            }
        }
    }
    Ok(())
}

/// Returns a pattern that matches the folder `path` and nothing else, except for bytes that are not
/// UTF-8.
fn pattern(path: &Path) -> String {
    let mut pattern = String::new();
    for chunk in path.as_os_str().as_bytes().utf8_chunks() {
        for character in chunk.valid().chars() {
            if matches!(character, '*' | '?' | '[' | ']' | '{' | '}' | '\\' | '!' | '#' | ' ') {
                pattern.push('\\');
            }
            pattern.push(character);
        }
        pattern.extend(chunk.invalid().iter().map(|_| '?'));
    }
    pattern.push('/');
    pattern
}

fn parent(args: &Backup, session: &Session, report: &Report) -> Result<Parent> {
    match args.parent.as_deref() {
        None => Ok(Parent::Newest),
        Some("none") => Ok(Parent::None),
        Some(text) => {
            // The backup itself reports the objects that cannot be read.
            let view = View::list(&session.repository)?;
            let all = Selection::default();
            let (id, _) =
                select::snapshot(&view, text.as_ref(), &all, report).context("--parent")?;
            Ok(Parent::Snapshot(id))
        }
    }
}

/// Returns the file systems of the kernel.
fn file_systems() -> Arc<dyn FileSystems> {
    #[cfg(debug_assertions)]
    if let Some(hurried) = hurried::Hurried::wanted() {
        return Arc::new(hurried);
    }
    Arc::new(Kernel)
}

/// A hook for tests of the whole program, which cannot wait for a minute until files settle.
#[cfg(debug_assertions)]
mod hurried {
    use std::os::fd::BorrowedFd;

    use cutpoint_backup::source::{FileSystem, FileSystems, Kernel};

    /// The file systems of the kernel, but with this settling time, in nanoseconds.
    #[derive(Debug)]
    pub(super) struct Hurried(i64);

    impl Hurried {
        pub(super) fn wanted() -> Option<Hurried> {
            let seconds: i64 = std::env::var("CUTPOINT_TEST_SETTLING_S").ok()?.parse().ok()?;
            Some(Hurried(seconds * 1_000_000_000))
        }
    }

    impl FileSystems for Hurried {
        fn of(&self, fd: BorrowedFd<'_>) -> FileSystem {
            let settling_ns = Some(self.0);
            FileSystem { settling_ns, mtime_settling_ns: settling_ns, ..Kernel.of(fd) }
        }

        fn writeback_ns(&self) -> Option<i64> {
            Some(self.0)
        }
    }
}

pub(super) struct Monitor<'a> {
    is_dry_run: bool,
    report: &'a Report,
    interrupt: Interrupt,
    /// The time at which the request to stop was first seen.
    asked: OnceLock<Instant>,
    is_end_told: AtomicBool,
}

/// The duration from which on the end of a run is announced.
const SHORT_END: Duration = Duration::from_secs(1);

impl<'a> Monitor<'a> {
    pub(super) fn new(is_dry_run: bool, report: &'a Report) -> Monitor<'a> {
        let interrupt = Interrupt::listen();
        let (asked, is_end_told) = (OnceLock::new(), AtomicBool::new(false));
        Monitor { is_dry_run, report, interrupt, asked, is_end_told }
    }

    /// Announces once that the run is ending, if that takes longer.
    fn tell_of_end(&self) {
        if self.interrupt.is_asked()
            && self.asked.get_or_init(Instant::now).elapsed() > SHORT_END
            && !self.is_end_told.swap(true, Ordering::SeqCst)
        {
            let limit_s = stop::PUBLISHING_MAX.as_secs();
            self.report.note(&format!(
                "Interrupted: storing and publishing pending data, within {limit_s} s; a second \
                 signal ends the run at once."
            ));
        }
    }
}

impl BackupMonitor for Monitor<'_> {
    fn progress(&self, progress: &BackupProgress) {
        if !self.is_dry_run {
            self.tell_of_end();
        }
        self.report.progress(&event::Progress {
            work: work(&progress.statistics),
            new_bytes: Some(progress.statistics.new_bytes),
            stored_bytes: (!self.is_dry_run).then_some(progress.stored_bytes),
        });
    }

    fn looks_ahead(&self) -> bool {
        self.report.shows_progress()
    }

    fn expected(&self, statistics: &Statistics) {
        self.report.expect(work(statistics));
    }

    fn resumed(&self, ended: TicketId) {
        let ended = ended.short();
        self.report.note(&format!(
            "Run {ended} was interrupted; data of that run is reused where the index has it."
        ));
    }

    fn lost(&self) {
        self.report.lost();
    }

    fn unreadable(&self, name: &ObjectName, error: &Error) {
        self.report.unreadable(name, error);
    }

    fn problem(&self, path: &Path, message: &str) {
        self.report.problem(path, message);
    }

    fn warning(&self, path: &Path, message: &str) {
        self.report.warning(path, message);
    }

    fn reading(&self, path: &Path) {
        self.report.set_path(path);
    }

    fn decided(&self, path: &Path, decision: &FileDecision<'_>) {
        decision::tell(self.report, self.is_dry_run, path, decision);
    }

    fn cancelled(&self) -> bool {
        self.interrupt.is_asked()
    }
}

/// Returns the work that the statistics of a backup describe.
fn work(statistics: &Statistics) -> Work {
    let Statistics { file_count, size, read_file_count, read_bytes, .. } = *statistics;
    // A file counts once it is complete. Until then, the bytes read of it are the better measure.
    Work { file_count, size: size.max(read_bytes), read_file_count, read_bytes }
}

fn summarize(done: &BackupReport, is_dry_run: bool, report: &Report) -> Result<()> {
    let statistics = &done.statistics;
    report.summary(&Event::Summary(Summary::Backup {
        dry_run: is_dry_run,
        snapshot: done.snapshot.map(|id| id.to_string()),
        parent: done.parent.map(|id| id.to_string()),
        statistics: statistics.into(),
        missing_sources: done.missing_sources.iter().map(|path| PathText::new(path)).collect(),
        bursts: done.bursts.as_ref().map(Into::into),
        unchanged_file_count: done.unchanged_file_count,
        excluded_count: done.excluded_count,
        restart_count: done.restart_count,
        elapsed_ns: report.elapsed_ns(),
    }))?;
    if report.is_json() {
        return Ok(());
    }
    report.note(&format!(
        "{}, {}, {}; read {} ({}), new {} in {}{}; {}",
        units::count(statistics.file_count, "file"),
        units::count(statistics.folder_count, "folder"),
        units::size(statistics.size),
        units::count(statistics.read_file_count, "file"),
        units::size(statistics.read_bytes),
        units::size(statistics.new_bytes),
        units::count(statistics.new_chunk_count, "chunk"),
        match is_dry_run {
            true => String::new(),
            false => format!(", stored {}", units::size(statistics.stored_bytes)),
        },
        units::duration(report.elapsed()),
    ));
    if statistics.delta_chunk_count > 0 {
        report.note(&format!(
            "changed data {}, of which new {}",
            units::size(statistics.delta_chunk_bytes),
            units::size(statistics.literal_bytes),
        ));
    }
    if let Some(bursts) = &done.bursts {
        report.note(&format!(
            "Bursts: {} by head, {} by tail; {} not found within the limit of comparisons (c_max)",
            bursts.head.hit_count,
            bursts.tail.hit_count,
            bursts.head.exhausted_count + bursts.tail.exhausted_count,
        ));
    }
    if done.excluded_count > 0 {
        report.detail(|| format!("{} excluded", units::count(done.excluded_count, "name")));
    }
    if !done.missing_sources.is_empty() {
        report.warn(&format!(
            "snapshot incomplete: without {}",
            select::listed(done.missing_sources.iter().map(Vec::as_slice))
        ));
        report.note("  run the same command again once these paths can be read");
    }
    if statistics.problem_count > 0 {
        report.warn(&format!(
            "{}: the affected files are missing or differ from the source",
            units::count(statistics.problem_count, "problem")
        ));
    }
    if is_dry_run {
        report.note(
            "Dry run: nothing was stored. The size of new data is measured, before delta encoding \
             and compression; the space that it would take in the repository is not measured.",
        );
        return report.flush();
    }
    report.note(&match done.snapshot {
        Some(id) => format!("Created snapshot {}.", id.short()),
        None => "Nothing has changed; no snapshot was created.".to_owned(),
    });
    match done.snapshot.filter(|_| report.is_quiet()) {
        Some(id) => report.line(&id.to_string()),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pattern_matches_only_its_folder() {
        assert_eq!(pattern(Path::new("/a b/[x]*")), "/a\\ b/\\[x\\]\\*/", "special characters");
    }
}
