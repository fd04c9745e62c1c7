//! One backup: a writer, a parent, a run of the pipeline and a commit, repeated if necessary.

use std::collections::{BTreeSet, HashSet};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cutpoint_chunking::{Chunker, KeyMaterial, Spec, SpecError};
use cutpoint_repository::format::commit::{Commit, Outcome as CommitOutcome};
use cutpoint_repository::format::tree::check_name;
use cutpoint_repository::{
    Committed, Entry, EntryKind, Index, ObjectName, Purpose, Reader, Repository, Snapshot,
    Statistics, TicketId, Time, View, Writer,
};
use cutpoint_storage::stop::Stop;
use cutpoint_storage::{Error, Kind, Result};

use super::pipeline::{self, Input, Outcome, Run};
use super::source_stage::{Begun, Previous};
use super::{BackupMonitor, BackupOptions, BackupReport, Parent, Source};
use crate::source::walk::Walk;

/// The warning if the kernel has no bound for the writeback of pages, which rule W3 depends on.
const NO_BOUND: &str = "0 or unreadable: pages changed by programs may stay in memory \
    indefinitely, and no time shows that; every file is read";

/// The maximum number of consecutive attempts that other clients may end before the run gives up.
const LOSSES_MAX: u64 = 8;

pub(super) fn run(
    repository: &Arc<Repository>,
    mut source: Source,
    options: &BackupOptions,
    monitor: &dyn BackupMonitor,
) -> Result<BackupReport> {
    let unsupported =
        |error| Error::new(Kind::Unsupported, "config", format!("cut specification: {error}"));
    let cut = repository.config().cut.parse().and_then(Spec::bounded).map_err(unsupported)?;
    let chunker = chunker(repository, &cut).map_err(unsupported)?;
    let mut restarts = 0;
    let mut losses = 0;
    let mut checkpoint = None;
    let mut begun = Begun::default();
    let mut read_since_ns = None;
    loop {
        let mut attempt =
            Attempt::begin(repository, &source, options, checkpoint, restarts > 0, monitor)?;
        if attempt.continues {
            attempt.read_since_ns = read_since_ns;
        } else {
            read_since_ns = Some(attempt.started_ns);
        }
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
                format!("other clients ended this run {losses} times; stored data is kept"),
            ));
        }
    }
}

/// Creates the chunker of the repository, which is keyed if the repository has a secret for it.
fn chunker(repository: &Repository, cut: &Spec) -> Result<Box<dyn Chunker>, SpecError> {
    if repository.config().cut_is_keyed {
        let material = repository.keys().cut_material::<{ KeyMaterial::SIZE }>();
        cut.keyed_chunker(&KeyMaterial::new(material))
    } else {
        Ok(cut.chunker())
    }
}

enum Ended {
    /// The backup is complete.
    Done(Box<BackupReport>),
    /// The ticket was old. This partial snapshot is the parent of the next attempt.
    Checkpoint(TicketId),
    /// Another client has ended the ticket.
    Lost,
}

/// A snapshot to compare some of the sources with, because the parent does not contain them.
struct Other {
    id: TicketId,
    snapshot: Box<Snapshot>,
    /// The positions of these sources in the list of all sources.
    sources: Vec<usize>,
}

struct Attempt {
    writer: Writer,
    started_ns: i64,
    sources: Vec<Vec<u8>>,
    parent: Option<(TicketId, Box<Snapshot>)>,
    /// The snapshots of sources that the parent lacks, because they did not exist when it was made.
    others: Vec<Other>,
    /// Set if the parent is a checkpoint of this run.
    continues: bool,
    /// The start of the run, if an earlier attempt began it.
    read_since_ns: Option<i64>,
    /// The sources that do not exist or cannot be opened, as positions in `sources`.
    missing: BTreeSet<usize>,
}

impl Attempt {
    fn begin(
        repository: &Arc<Repository>,
        source: &Source,
        options: &BackupOptions,
        checkpoint: Option<TicketId>,
        is_at_work: bool,
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
        // A key epoch that begins during a run does not end the run, because a stream cannot be
        // read twice.
        let begin = if is_at_work { Writer::begin_again } else { Writer::begin };
        let writer = begin(repository.clone(), Purpose::Backup)?;
        writer.ended().iter().for_each(|ended| monitor.resumed(*ended));
        let choose = |choice| choose_parent(writer.view(), choice, &options.host, &sources);
        let (parent, continues) = match checkpoint.map(|own| choose(Parent::Snapshot(own))) {
            Some(Err(error)) if matches!(source, Source::Stream { .. }) => return Err(error),
            Some(Ok(parent)) => (parent, true),
            // The checkpoint was forgotten meanwhile, but files can be read again.
            Some(Err(_)) | None => (choose(options.parent)?, false),
        };
        let others = match &parent {
            Some((_, parent)) => others(writer.view(), &options.host, &sources, parent),
            None => Vec::new(),
        };
        if let Some((_, snapshot)) = &parent {
            monitor.expected(snapshot.statistics.file_count, snapshot.statistics.size);
        }
        Ok(Attempt {
            writer,
            started_ns,
            sources,
            parent,
            others,
            continues,
            read_since_ns: None,
            missing: BTreeSet::new(),
        })
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
        let environment = self.writer.repository().environment().clone();
        // From here on there is something to publish, even after a request to stop.
        let _hold = environment.stop().map(Stop::hold);
        let result = self.run_inner(source, begun, cut, chunker, options, monitor);
        let Err(error) = result else { return result };
        // Nothing is committed, but the stored data stays, and no other client has to wait for this
        // ticket. If even that fails, the next run of this machine ends the ticket.
        let ended = self.writer.abandon(&error);
        // The client that ended the ticket may have removed the object being put, so that the run
        // failed.
        let was_ended = matches!(ended, Ok(Committed::Ended)) && self.is_void();
        if was_ended && error.kind() != Kind::Interrupted { Ok(Ended::Lost) } else { Err(error) }
    }

    /// Returns `true` if the ticket has ended without a result.
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
        for (name, error) in view.unresolved().chain(&unreadable) {
            monitor.unreadable(name, error);
        }
        let gone = view.look_for_gone(&repository)?;
        for (name, error) in &gone {
            monitor.unreadable(name, error);
        }
        // The reader has an index of its own. If it switches to a newer view, the deduplicator continues
        // with this one (W1), and neither waits for the other.
        let reader = Reader::new(repository.clone(), Arc::new(index.fork()), view.clone());
        let index_is_whole =
            // The index lacks the chunks published by commits that are gone.
            view.unresolved().next().is_none() && unreadable.is_empty() && gone.is_empty();
        let previous =
            |id: TicketId, snapshot: &Snapshot, is_own: bool, sources: &[usize]| Previous {
                reader: &reader,
                index: &index,
                root: snapshot.root.clone(),
                read_since_ns: snapshot.read_since_ns.unwrap_or(snapshot.started_ns),
                is_own,
                file_systems: snapshot.file_systems.clone(),
                damaged: view.damaged_since(id),
                index_is_whole,
                partial: snapshot.partial,
                sources: sources.to_vec(),
            };
        let mut previous_versions = Vec::new();
        // This run itself has read the files in a checkpoint.
        if let Some((id, snapshot)) = &self.parent
            && (!options.force_read || self.continues)
        {
            previous_versions.push(previous(*id, snapshot, self.continues, &[]));
        }
        if !previous_versions.is_empty() && !options.force_read {
            let others = self.others.iter();
            previous_versions
                .extend(others.map(|it| previous(it.id, &it.snapshot, false, &it.sources)));
        }
        let has_bound = options.file_systems.writeback_ns().is_some();
        if !previous_versions.is_empty() && !has_bound && matches!(source, Source::Files { .. }) {
            let path = Path::new("/proc/sys/vm/dirty_writeback_centisecs");
            monitor.warning(path, NO_BOUND);
        }
        let run = Run {
            index: index.clone(),
            chunker,
            cut: cut.to_string(),
            reader: &reader,
            previous_versions,
            verify: options.verify,
            threads: threads(options.threads),
            started_ns: self.started_ns,
            monitor,
        };
        let input = match source {
            Source::Files { paths, options: walk_options } => {
                let (walk, missing) = Walk::of_those_there(paths, walk_options.clone())
                    .map_err(|error| Error::invalid("backup", error))?;
                for (number, error) in &missing {
                    monitor.problem(&paths[*number], &format!("source skipped: {error}"));
                }
                self.missing = missing.into_iter().map(|(number, _)| number).collect();
                Input::Walk(walk.with_mounts(options.file_systems.clone()))
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
        // Each missing source has been reported as a problem.
        let problem_count = statistics.problem_count + self.missing.len() as u64;
        let statistics = Statistics { problem_count, ..statistics };
        self.missing.extend(&counts.lost_sources);
        if self.missing.len() == self.sources.len() && !self.sources.is_empty() {
            return Err(Error::invalid("backup", "no source could be read"));
        }
        let missing = self.missing.iter().filter_map(|number| u32::try_from(*number).ok());
        let mut report = Box::new(BackupReport {
            snapshot: None,
            parent: self.parent.as_ref().map(|(id, _)| *id),
            statistics,
            bursts,
            missing_sources: self.missing.iter().map(|at| self.sources[*at].clone()).collect(),
            unchanged_file_count: counts.unchanged_files,
            excluded_count: counts.excluded,
            restart_count: 0,
        });
        let is_same = self.parent.as_ref().is_some_and(|(_, parent)| {
            let was_whole = !parent.partial && parent.missing.is_empty();
            let is_whole = was_whole && !counts.partial && statistics.problem_count == 0;
            // If only the file system has changed, the next run must not compare with the old one.
            let is_there = parent.file_systems == counts.file_systems;
            parent.root == root && is_there && is_whole
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
            statistics,
            program: options.program.clone(),
            missing: missing.collect(),
            file_systems: counts.file_systems,
            read_since_ns: self.read_since_ns,
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

/// Chooses the parent by rule W3: a snapshot may be taken over if the view has it, no prune of the
/// view has taken it, and no key epoch has begun after it.
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
        Parent::Newest => {
            let is_own = |snapshot: &Snapshot| snapshot.host == host && snapshot.sources == sources;
            let mut own: Vec<_> = snapshots.filter(|(_, snapshot)| is_own(snapshot)).collect();
            own.sort_by_key(|(id, snapshot)| std::cmp::Reverse((snapshot.started_ns, *id)));
            own.into_iter().find(|(id, _)| view.may_be_parent(*id))
        }
        Parent::Snapshot(wanted) => match snapshots.find(|(id, _)| *id == wanted) {
            Some((id, _)) if !view.may_be_parent(id) => {
                return Err(Error::invalid(
                    format!("snapshot {}", wanted.short()),
                    "cannot be the parent: created before the newest key epoch, or compared with a \
                     snapshot from before that; a holder of the old keys could have written it",
                ));
            }
            Some(found) => Some(found),
            None => {
                return Err(Error::missing(
                    format!("snapshot {}", wanted.short()),
                    "not found, and cannot be the parent",
                ));
            }
        },
    };
    Ok(found.map(|(id, snapshot)| (id, Box::new(snapshot.clone()))))
}

/// Returns, for each source that `parent` lacks because it did not exist, the newest snapshot of
/// this host that has it, if there is one. Rule W3 holds for each of these snapshots.
fn others(view: &View, host: &str, sources: &[Vec<u8>], parent: &Snapshot) -> Vec<Other> {
    let mut others: Vec<Other> = Vec::new();
    let missing: HashSet<&[u8]> = parent.missing_sources().collect();
    for (number, source) in sources.iter().enumerate() {
        if !missing.contains(source.as_slice()) {
            continue;
        }
        let has_it = |snapshot: &Snapshot| {
            snapshot.host == host
                && !snapshot.partial
                && snapshot.sources.contains(source)
                && !snapshot.missing_sources().any(|missing| missing == source)
        };
        let snapshots = view.snapshots();
        let newest = snapshots
            .into_iter()
            .filter(|(id, snapshot)| has_it(snapshot) && view.may_be_parent(*id))
            .max_by_key(|(id, snapshot)| (snapshot.started_ns, *id));
        let Some((id, snapshot)) = newest else { continue };
        match others.iter_mut().find(|other| other.id == id) {
            Some(other) => other.sources.push(number),
            None => others.push(Other {
                id,
                snapshot: Box::new(snapshot.clone()),
                sources: vec![number],
            }),
        }
    }
    others
}

/// Creates the entry of a stream, which has no metadata of its own.
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
