//! `mount`: shows snapshots as a folder.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use cutpoint_backup::browse::{BrowseOptions, Browser, ListedSnapshot, SnapshotSource};
use cutpoint_repository::{Reader, Time, View};
use cutpoint_storage::Error as StoreError;

use crate::args::{Global, Mount};
use crate::event::{Event, PathText, Summary};
use crate::exit::Exit;
use crate::fuse::{self, Mounted, Unmounted};
use crate::interrupt::Interrupt;
use crate::report::Report;
use crate::session::Session;
use crate::{select, units};

/// The maximum time until a signal is noticed.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// The maximum time until the kernel ends a folder that was unmounted and is not in use.
const END_TIMEOUT: Duration = Duration::from_secs(2);
/// The maximum time that a program waits for a new list of snapshots.
const LIST_TIMEOUT: Duration = Duration::from_secs(60);

pub(crate) fn run(args: &Mount, global: &Global, report: &Report) -> Result<Exit> {
    fuse::prepare(&args.folder)?;
    let mut session = Session::open(global, report)?;
    let view = session.view(report)?;
    let snapshots = listed(args, &view)?;
    let count = snapshots.len() as u64;
    let reader = Arc::new(session.reader(view, report)?);
    let (sender, questions) = channel();
    let source = Source { first: Mutex::new(Some(snapshots)), questions: sender };
    let options = BrowseOptions { threads: args.threads.count(), ..BrowseOptions::default() };
    let browser = Browser::new(Arc::clone(&reader), Box::new(source), options);
    let interrupt = Interrupt::listen_without_limit();
    let mounted = Mounted::new(&args.folder, browser, args.allow_other, args.threads.count())?;
    tell_mounted(args, count, report)?;
    let mut keeper = Keeper { args, report, session, reader, failures: HashSet::new() };
    while !mounted.has_ended() && !interrupt.is_asked() {
        keeper.answer(&questions);
    }
    let shown = args.folder.display();
    if !mounted.has_ended() {
        let unmounted = mounted.unmount().with_context(|| format!("{shown}: not unmounted"))?;
        if unmounted == Unmounted::InUse {
            report.warn(&format!(
                "{shown}: in use by another program; unmounted, but the program keeps what it has \
                 open, and this command runs until it ends (Ctrl-C ends it at once)"
            ));
        }
        // No program that sees this folder uses an unmounted one, but other mount namespaces, which
        // sandboxes and services have, keep a copy of it for as long as they run.
        let is_unused = unmounted == Unmounted::Entirely;
        let unmounted_at = Instant::now();
        while !mounted.has_ended() && (!is_unused || unmounted_at.elapsed() < END_TIMEOUT) {
            keeper.answer(&questions);
        }
    }
    mounted.end().with_context(|| shown.to_string())?;
    if report.is_json() {
        let read = keeper.reader.statistics();
        report.event(&Event::Summary(Summary::Mount {
            problem_count: report.problem_count(),
            request_count: read.request_count,
            fetched_bytes: read.fetched_bytes,
            elapsed_ns: report.elapsed_ns(),
        }))?;
    } else {
        report.note(&format!("Unmounted {shown}."));
    }
    Ok(Exit::of_problems(report.problem_count()))
}

fn tell_mounted(args: &Mount, count: u64, report: &Report) -> Result<()> {
    if report.is_json() {
        let folder = std::path::absolute(&args.folder).context("current folder")?;
        let path = PathText::of(&folder);
        report.event(&Event::Mounted { path, snapshot_count: count })?;
    } else {
        let shown = args.folder.display();
        report.note(&format!(
            "{} at {shown}. Ctrl-C or `fusermount3 -u {shown}` unmounts the folder.",
            units::count(count, "snapshot"),
        ));
    }
    report.flush()
}

/// Returns the snapshots to show, oldest first.
fn listed(args: &Mount, view: &View) -> Result<Vec<ListedSnapshot>> {
    let mut snapshots = Vec::new();
    for (id, snapshot) in view.snapshots() {
        if !select::selects(&args.selection, view, id, snapshot)? {
            continue;
        }
        let seconds = snapshot.started_ns.div_euclid(1_000_000_000);
        let nanoseconds = snapshot.started_ns.rem_euclid(1_000_000_000);
        snapshots.push(ListedSnapshot {
            id,
            root: snapshot.root.clone(),
            time: Time { seconds, nanoseconds: u32::try_from(nanoseconds).unwrap_or(0) },
            time_name: units::date_time(seconds).replacen(' ', "T", 1).replace(' ', ""),
            host: snapshot.host.clone(),
            tags: view.tags(id, snapshot).to_vec(),
            is_partial: snapshot.partial,
        });
    }
    Ok(snapshots)
}

/// A question or a message of a thread that answers the kernel.
enum Question {
    List(Sender<Option<Vec<ListedSnapshot>>>),
    Problem(PathBuf, String),
}

/// The end of the threads that answer the kernel. The thread of the command does what needs the
/// session and the report.
struct Source {
    /// The list at the start.
    first: Mutex<Option<Vec<ListedSnapshot>>>,
    questions: Sender<Question>,
}

impl SnapshotSource for Source {
    fn list(&self) -> Option<Vec<ListedSnapshot>> {
        let first = self.first.lock().unwrap_or_else(PoisonError::into_inner).take();
        first.or_else(|| {
            let (sender, answer) = channel();
            self.questions.send(Question::List(sender)).ok()?;
            answer.recv_timeout(LIST_TIMEOUT).ok()?
        })
    }

    fn problem(&self, path: &Path, error: &StoreError) {
        // Without a receiver, the command has ended.
        self.questions.send(Question::Problem(path.to_owned(), error.to_string())).ok();
    }
}

/// The end of the thread of the command.
struct Keeper<'a> {
    args: &'a Mount,
    report: &'a Report,
    session: Session,
    reader: Arc<Reader>,
    /// The failures of listings that were reported.
    failures: HashSet<String>,
}

impl Keeper<'_> {
    /// Waits a moment for a question, and answers it.
    fn answer(&mut self, questions: &Receiver<Question>) {
        match questions.recv_timeout(LOOK_EVERY) {
            Ok(Question::Problem(path, message)) => self.report.problem(&path, &message),
            Ok(Question::List(answer)) => {
                let listed = self.list().map_err(|error| {
                    let message = format!("cannot list the snapshots again: {error:#}");
                    if self.failures.insert(message.clone()) {
                        self.report.warn(&message);
                    }
                });
                answer.send(listed.ok()).ok();
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => std::thread::sleep(LOOK_EVERY),
        }
    }

    fn list(&mut self) -> Result<Vec<ListedSnapshot>> {
        let view = self.reader.refresh()?;
        self.session.state.see(&view, self.report)?;
        self.session.state.save(self.report);
        listed(self.args, &view)
    }
}
