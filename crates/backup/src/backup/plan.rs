//! One backup: a writer, a parent, a run of the pipeline, a commit; again where that is needed.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cutpoint_chunking::{Chunker, KeyMaterial, Spec, SpecError};
use cutpoint_store::error::{Error, Kind, Result};
use cutpoint_store::format::commit::{Commit, Outcome as CommitOutcome, Snapshot, Statistics};
use cutpoint_store::format::ticket::Purpose;
use cutpoint_store::format::tree::{Entry, EntryKind, Time, check_name};
use cutpoint_store::index::Index;
use cutpoint_store::name::{ObjectName, TicketId};
use cutpoint_store::reader::Reader;
use cutpoint_store::repository::Repository;
use cutpoint_store::view::View;
use cutpoint_store::writer::{Committed, Writer};

use super::cutting::{Begun, Former};
use super::pipeline::{self, Input, Outcome, Run};
use super::{BackupMonitor, BackupOptions, BackupReport, Parent, Source};
use crate::files::walk::Walk;

/// How often in turn others may end the ticket of a run before it gives up.
const LOSSES_MAX: u64 = 8;

pub(super) fn run(
    repository: &Arc<Repository>,
    mut source: Source,
    options: &BackupOptions,
    monitor: &dyn BackupMonitor,
) -> Result<BackupReport> {
    let unsupported =
        |error| Error::new(Kind::Unsupported, "config", format!("the cut specification: {error}"));
    let cut = repository.config().cut.parse().and_then(Spec::bounded).map_err(unsupported)?;
    let chunker = chunker(repository, &cut).map_err(unsupported)?;
    let mut restarts = 0;
    let mut losses = 0;
    let mut checkpoint = None;
    let mut begun = Begun::default();
    loop {
        let attempt = Attempt::begin(repository, &source, options, checkpoint, monitor)?;
        let ended = attempt.run(&mut source, &mut begun, &cut, &*chunker, options, monitor)?;
        restarts += 1;
        match ended {
            Ended::Done(mut report) => {
                report.restart_count = restarts - 1;
                return Ok(*report);
            }
            Ended::Checkpoint(snapshot) => {
                checkpoint = Some(snapshot);
                losses = 0;
            }
            Ended::Lost if matches!(source, Source::Stream { .. }) => {
                return Err(Error::new(
                    Kind::Conflict,
                    "standard input",
                    "another client ended this run, and a stream cannot be read twice; try again",
                ));
            }
            Ended::Lost => losses += 1,
        }
        if losses > LOSSES_MAX {
            return Err(Error::new(
                Kind::Conflict,
                "backup",
                format!("other clients ended this run {losses} times; what was stored is kept"),
            ));
        }
    }
}

/// How the repository cuts: with its secret, where it has one.
fn chunker(repository: &Repository, cut: &Spec) -> Result<Box<dyn Chunker>, SpecError> {
    if repository.config().cut_is_keyed {
        let material = repository.keys().cut_material::<{ KeyMaterial::SIZE }>();
        cut.keyed_chunker(&KeyMaterial::new(material))
    } else {
        Ok(cut.chunker())
    }
}

enum Ended {
    /// All is done.
    Done(Box<BackupReport>),
    /// The ticket was old; this partial snapshot is the parent of the next attempt.
    Checkpoint(TicketId),
    /// Somebody had ended the ticket.
    Lost,
}

struct Attempt {
    writer: Writer,
    started_ns: i64,
    sources: Vec<Vec<u8>>,
    parent: Option<(TicketId, Box<Snapshot>)>,
    /// Whether the parent is a checkpoint of this run.
    continues: bool,
}

impl Attempt {
    fn begin(
        repository: &Arc<Repository>,
        source: &Source,
        options: &BackupOptions,
        checkpoint: Option<TicketId>,
        monitor: &dyn BackupMonitor,
    ) -> Result<Attempt> {
        let started_ns = repository.environment().now_ns();
        let sources = match source {
            Source::Files { paths, .. } => {
                paths.iter().map(PathBuf::as_path).map(absolute).collect::<Result<Vec<_>>>()?
            }
            Source::Stream { name, .. } => {
                check_name(name).map_err(|error| Error::invalid("--stdin-filename", error))?;
                vec![name.clone()]
            }
        };
        let writer = Writer::begin(repository.clone(), Purpose::Backup)?;
        writer.ended().iter().for_each(|ended| monitor.resumed(*ended));
        let choose = |choice| choose_parent(writer.view(), choice, &options.host, &sources);
        let (parent, continues) = match checkpoint.map(|own| choose(Parent::Snapshot(own))) {
            Some(Err(error)) if matches!(source, Source::Stream { .. }) => return Err(error),
            Some(Ok(parent)) => (parent, true),
            // Somebody has forgotten the checkpoint: files can be read again.
            Some(Err(_)) | None => (choose(options.parent)?, false),
        };
        if let Some((_, snapshot)) = &parent {
            monitor.expected(snapshot.statistics.file_count, snapshot.statistics.size);
        }
        Ok(Attempt { writer, started_ns, sources, parent, continues })
    }

    fn run(
        mut self,
        source: &mut Source,
        begun: &mut Begun,
        cut: &Spec,
        chunker: &dyn Chunker,
        options: &BackupOptions,
        monitor: &dyn BackupMonitor,
    ) -> Result<Ended> {
        let result = self.run_inner(source, begun, cut, chunker, options, monitor);
        let Err(error) = result else { return result };
        // Nothing is committed, but what was stored stays, and nobody has to wait for this ticket.
        // Where even that fails, the next run of this machine ends it.
        let ended = self.writer.abandon(&error);
        // Whoever ended it before may have removed what was being put, which made the run fail.
        let was_ended = matches!(ended, Ok(Committed::Ended)) && self.is_void();
        if was_ended && error.kind() != Kind::Interrupted { Ok(Ended::Lost) } else { Err(error) }
    }

    /// Whether the ticket has ended without a result.
    fn is_void(&self) -> bool {
        let name = ObjectName::Commit(self.writer.ticket());
        let commit = self.writer.repository().get(name).and_then(|body| Commit::decode(&body));
        commit.is_ok_and(|commit| matches!(commit.outcome, CommitOutcome::Void))
    }

    fn run_inner(
        &mut self,
        source: &mut Source,
        begun: &mut Begun,
        cut: &Spec,
        chunker: &dyn Chunker,
        options: &BackupOptions,
        monitor: &dyn BackupMonitor,
    ) -> Result<Ended> {
        let repository = self.writer.repository().clone();
        let view = self.writer.view().clone();
        let index = Arc::new(Index::open(repository.clone(), &view)?);
        let unreadable = index.unreadable();
        for (name, error) in view.unreadable.iter().chain(&unreadable) {
            monitor.unreadable(name, error);
        }
        // An index of its own: should the reader take up a newer view, the packer goes on by this
        // one (W1), and neither waits for the other.
        let reader = Reader::new(repository.clone(), Arc::new(index.fork()), view.clone());
        let former = match &self.parent {
            // What is in a checkpoint this run has read itself.
            Some((id, snapshot)) if !options.force_read || self.continues => Some(Former {
                reader: &reader,
                index: &index,
                root: &snapshot.root,
                started_ns: snapshot.started_ns,
                damaged: view.damaged_since(*id),
                index_is_whole: view.unreadable.is_empty() && unreadable.is_empty(),
                partial: snapshot.partial,
            }),
            _ => None,
        };
        let run = Run {
            index: index.clone(),
            chunker,
            cut: cut.to_string(),
            reader: &reader,
            former,
            verify: options.verify,
            threads: threads(options.threads),
            started_ns: self.started_ns,
            monitor,
        };
        let input = match source {
            Source::Files { paths, options } => {
                let walk = Walk::new(paths, options.clone())
                    .map_err(|error| Error::invalid("backup", error))?;
                Input::Walk(walk)
            }
            Source::Stream { name, reader } => {
                Input::Stream(stream_entry(name, self.started_ns), reader, begun)
            }
        };
        let outcome = pipeline::run(&mut self.writer, run, input)?;
        self.commit(outcome, cut, options)
    }

    fn commit(&mut self, outcome: Outcome, cut: &Spec, options: &BackupOptions) -> Result<Ended> {
        let Outcome { root, segments, hits, statistics, bursts, counts } = outcome;
        let root = root?;
        let mut report = Box::new(BackupReport {
            snapshot: None,
            parent: self.parent.as_ref().map(|(id, _)| *id),
            statistics,
            bursts,
            unchanged_file_count: counts.unchanged_files,
            excluded_count: counts.excluded,
            restart_count: 0,
        });
        let is_same = self.parent.as_ref().is_some_and(|(_, parent)| {
            let is_whole = !parent.partial && !counts.partial && statistics.problem_count == 0;
            parent.root == root && is_whole
        });
        if is_same && options.skip_if_unchanged {
            self.writer.void(segments)?;
            return Ok(Ended::Done(report));
        }
        let snapshot = Snapshot {
            root,
            sources: self.sources.clone(),
            host: options.host.clone(),
            user: options.user.clone(),
            started_ns: self.started_ns,
            finished_ns: self.writer.repository().environment().now_ns(),
            tags: options.tags.clone(),
            description: options.description.clone(),
            cut: cut.to_string(),
            parent: report.parent,
            partial: counts.partial,
            statistics: Statistics { ..statistics },
            program: options.program.clone(),
        };
        let commit = CommitOutcome::Snapshot(Box::new(snapshot));
        match self.writer.commit(commit, segments, &hits)? {
            Committed::Ended => Ok(Ended::Lost),
            Committed::Done if counts.partial => Ok(Ended::Checkpoint(self.writer.ticket())),
            Committed::Done => {
                report.snapshot = Some(self.writer.ticket());
                Ok(Ended::Done(report))
            }
        }
    }
}

fn threads(wanted: usize) -> usize {
    match wanted {
        0 => std::thread::available_parallelism().map_or(2, usize::from),
        wanted => wanted,
    }
}

fn absolute(path: &Path) -> Result<Vec<u8>> {
    let absolute = std::path::absolute(path)
        .map_err(|error| Error::invalid(path.display(), error.to_string()))?;
    Ok(absolute.as_os_str().as_bytes().to_vec())
}

/// Rule W3: a snapshot may be taken over if the view has it and no prune of the view took it.
fn choose_parent(
    view: &View,
    choice: Parent,
    host: &str,
    sources: &[Vec<u8>],
) -> Result<Option<(TicketId, Box<Snapshot>)>> {
    let snapshots = view.snapshots();
    let mut snapshots = snapshots.into_iter().filter(|(id, _)| view.may_take_over(*id));
    let found = match choice {
        Parent::None => return Ok(None),
        Parent::Newest => snapshots
            .filter(|(_, snapshot)| snapshot.host == host && snapshot.sources == sources)
            .max_by_key(|(id, snapshot)| (snapshot.started_ns, *id)),
        Parent::Snapshot(wanted) => match snapshots.find(|(id, _)| *id == wanted) {
            Some(found) => Some(found),
            None => {
                return Err(Error::missing(
                    format!("snapshot {}", wanted.short()),
                    "is not there, and cannot be the parent",
                ));
            }
        },
    };
    Ok(found.map(|(id, snapshot)| (id, Box::new(snapshot.clone()))))
}

/// A stream has no metadata of its own.
fn stream_entry(name: &[u8], now_ns: i64) -> Entry {
    let mut entry = Entry::new(name, EntryKind::File);
    entry.mode = 0o600;
    entry.user_id = rustix::process::geteuid().as_raw();
    entry.group_id = rustix::process::getegid().as_raw();
    entry.mtime = Time {
        seconds: now_ns.div_euclid(1_000_000_000),
        nanoseconds: u32::try_from(now_ns.rem_euclid(1_000_000_000)).unwrap_or(0),
    };
    entry.ctime = entry.mtime;
    entry
}
