//! One attempt of a backup: a writer, a parent, a run of the pipeline, and a commit.

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cutpoint_repository::format::commit::{Commit, Outcome};
use cutpoint_repository::format::tree::check_name;
use cutpoint_repository::{
    CommitResult, Entry, EntryKind, Index, ObjectName, Purpose, Reader, Snapshot, Statistics,
    TicketId, Time, Writer,
};
use cutpoint_storage::stop::Stop;
use cutpoint_storage::{Error, Kind, Result};

use super::context::BackupContext;
use super::lookahead::Lookahead;
use super::options::Parent;
use super::parent::{SourceParent, choose_parent, source_parents};
use super::pipeline::{self, PipelineOutput, PipelineSettings};
use super::previous_version::PreviousVersion;
use super::report::BackupReport;
use super::source::Source;
use super::source_stage::Input;
use super::stream_saver::StreamState;
use crate::source::Walk;

/// The warning if the kernel has no bound for the writeback of pages, which rule W3 depends on.
const NO_BOUND: &str = "0 or unreadable: pages changed by programs may stay in memory \
    indefinitely, and no time shows that; every file is read";

/// The result of an attempt that did not fail.
pub(super) enum AttemptResult {
    /// The backup is complete.
    Complete(Box<BackupReport>),
    /// The ticket was old. This partial snapshot is the parent of the next attempt.
    Checkpoint(TicketId),
    /// Another client has ended the ticket.
    Ended,
}

/// One attempt of a backup.
pub(super) struct Attempt<'a> {
    context: &'a BackupContext<'a>,
    writer: Writer,
    /// The start of the attempt, in nanoseconds since 1970.
    pub(super) started_ns: i64,
    /// The absolute paths of the sources, or the name of the stream.
    sources: Vec<Vec<u8>>,
    parent: Option<(TicketId, Box<Snapshot>)>,
    /// The snapshots of sources that the parent lacks, because they did not exist when it was made.
    source_parents: Vec<SourceParent>,
    /// Set if the parent is a checkpoint of this backup.
    pub(super) continues: bool,
    /// The start of the first attempt, if that is not this one, in nanoseconds since 1970.
    pub(super) read_since_ns: Option<i64>,
    /// The sources that do not exist or cannot be opened, as positions in `sources`.
    missing: BTreeSet<usize>,
}

impl<'a> Attempt<'a> {
    /// Begins a ticket and chooses the parent: `checkpoint`, if an earlier attempt has made one.
    pub(super) fn begin(
        context: &'a BackupContext<'a>,
        source: &Source,
        checkpoint: Option<TicketId>,
        is_restart: bool,
    ) -> Result<Attempt<'a>> {
        let BackupContext { repository, options, monitor, .. } = context;
        let started_ns = repository.environment().now_ns();
        let sources = names(source)?;
        // A key epoch that begins during a run does not end the run, because a stream cannot be
        // read twice.
        let begin = if is_restart { Writer::begin_again } else { Writer::begin };
        let writer = begin((*repository).clone(), Purpose::Backup)?;
        writer.ended().iter().for_each(|ended| monitor.resumed(*ended));
        let choose = |choice| choose_parent(writer.view(), choice, &options.host, &sources);
        let (parent, continues) = match checkpoint.map(|own| choose(Parent::Snapshot(own))) {
            Some(Err(error)) if matches!(source, Source::Stream { .. }) => return Err(error),
            Some(Ok(parent)) => (parent, true),
            // The checkpoint was forgotten meanwhile, but files can be read again.
            Some(Err(_)) | None => (choose(options.parent)?, false),
        };
        let source_parents = match &parent {
            Some((_, parent)) => source_parents(writer.view(), &options.host, &sources, parent),
            None => Vec::new(),
        };
        Ok(Attempt {
            context,
            writer,
            started_ns,
            sources,
            parent,
            source_parents,
            continues,
            read_since_ns: None,
            missing: BTreeSet::new(),
        })
    }

    /// Runs the pipeline and commits its result.
    pub(super) fn run(
        mut self,
        source: &mut Source,
        stream: &mut StreamState,
    ) -> Result<AttemptResult> {
        let environment = self.context.repository.environment().clone();
        // From here on there is something to publish, even after a request to stop.
        let _hold = environment.stop().map(Stop::hold);
        let output = self.run_pipeline(source, stream);
        let result = output.and_then(|output| self.commit(output));
        let Err(error) = result else { return result };
        // Nothing is committed, but the stored data stays, and no other client has to wait for this
        // ticket. If even that fails, the next run of this machine ends the ticket.
        let ended = self.writer.abandon(&error);
        // The client that ended the ticket may have removed the object being put, so that the run
        // failed.
        let was_ended = matches!(ended, Ok(CommitResult::Ended)) && self.is_void();
        match was_ended && error.kind() != Kind::Interrupted {
            true => Ok(AttemptResult::Ended),
            false => Err(error),
        }
    }

    /// Returns `true` if the ticket has ended without a result.
    fn is_void(&self) -> bool {
        let name = ObjectName::Commit(self.writer.ticket());
        let commit = self.context.repository.get(name).and_then(|body| Commit::decode(&body));
        commit.is_ok_and(|commit| matches!(commit.outcome, Outcome::Void { .. }))
    }

    fn run_pipeline(
        &mut self,
        source: &mut Source,
        stream: &mut StreamState,
    ) -> Result<PipelineOutput> {
        let BackupContext { repository, options, monitor, .. } = self.context;
        let view = self.writer.view().clone();
        let index = Arc::new(Index::open((*repository).clone(), &view)?);
        let index_is_complete = self.report_unreadable(&index)?;
        // The reader has an index of its own. If it switches to a newer view, the deduplicator
        // continues with this one (W1), and neither waits for the other.
        let reader = Reader::new((*repository).clone(), Arc::new(index.fork()), view);
        let previous_versions = self.previous_versions(&reader, &index, index_is_complete);
        let has_bound = options.file_systems.writeback_ns().is_some();
        if !previous_versions.is_empty() && !has_bound && matches!(source, Source::Files { .. }) {
            let path = Path::new("/proc/sys/vm/dirty_writeback_centisecs");
            monitor.warning(path, NO_BOUND);
        }
        let lookahead = match source {
            Source::Files { paths, options: walk_options } if monitor.looks_ahead() => {
                Some(Lookahead {
                    paths: paths.clone(),
                    options: walk_options.clone(),
                    file_systems: options.file_systems.clone(),
                    previous_versions: previous_versions.clone(),
                    monitor: *monitor,
                })
            }
            _ => None,
        };
        let settings = PipelineSettings {
            index: index.clone(),
            chunker: &*self.context.chunker,
            cut: self.context.cut.to_string(),
            reader: &reader,
            previous_versions,
            verify: options.verify,
            threads: self.context.threads(),
            started_ns: self.started_ns,
            force_read: options.force_read,
            monitor: *monitor,
            lookahead,
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
                Input::Stream(stream_entry(name, self.started_ns), reader, stream)
            }
        };
        pipeline::run(&mut self.writer, settings, input)
    }

    /// Reports the objects of the view and of `index` that cannot be read. Returns `true` if the
    /// index lacks nothing.
    fn report_unreadable(&self, index: &Index) -> Result<bool> {
        let BackupContext { repository, monitor, .. } = self.context;
        let view = self.writer.view();
        let unreadable = index.unreadable();
        for (name, error) in view.unresolved().chain(&unreadable) {
            monitor.unreadable(name, error);
        }
        let gone = view.look_for_gone(repository)?;
        for (name, error) in &gone {
            monitor.unreadable(name, error);
        }
        // The index lacks the chunks published by commits that are gone.
        Ok(view.unresolved().next().is_none() && unreadable.is_empty() && gone.is_empty())
    }

    /// Returns the snapshots to compare with: the parent, followed by the snapshots of sources that
    /// the parent lacks.
    fn previous_versions<'v>(
        &self,
        reader: &'v Reader,
        index: &'v Index,
        index_is_complete: bool,
    ) -> Vec<PreviousVersion<'v>> {
        let view = self.writer.view();
        let force_read = self.context.options.force_read;
        let previous =
            |id: TicketId, snapshot: &Snapshot, is_own: bool, sources: &[usize]| PreviousVersion {
                reader,
                index,
                root: snapshot.root.clone(),
                read_since_ns: snapshot.read_since_ns.unwrap_or(snapshot.started_ns),
                is_own,
                file_systems: snapshot.file_systems.clone(),
                damaged: view.damaged_since(id),
                index_is_complete,
                ignored: self.context.options.ignored,
                partial: snapshot.partial,
                sources: sources.to_vec(),
            };
        let mut previous_versions = Vec::new();
        // This backup itself has read the files in a checkpoint.
        if let Some((id, snapshot)) = &self.parent
            && (!force_read || self.continues)
        {
            previous_versions.push(previous(*id, snapshot, self.continues, &[]));
        }
        if !previous_versions.is_empty() && !force_read {
            let parents = self.source_parents.iter();
            previous_versions
                .extend(parents.map(|it| previous(it.id, &it.snapshot, false, &it.sources)));
        }
        previous_versions
    }

    /// Commits the output of the pipeline as a snapshot.
    fn commit(&mut self, output: PipelineOutput) -> Result<AttemptResult> {
        let PipelineOutput { root, index_segments, hits, statistics, bursts, counts } = output;
        let options = self.context.options;
        // Each missing source has been reported as a problem.
        let problem_count = statistics.problem_count + self.missing.len() as u64;
        let statistics = Statistics { problem_count, ..statistics };
        self.missing.extend(&counts.missing_sources);
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
            let was_complete = !parent.partial && parent.missing.is_empty();
            let is_complete = was_complete && !counts.partial && statistics.problem_count == 0;
            // If only the file system has changed, the next run must not compare with the old one.
            let has_same_file_systems = parent.file_systems == counts.file_systems;
            parent.root == root && has_same_file_systems && is_complete
        });
        if is_same && options.skip_if_unchanged {
            self.writer.void(index_segments)?;
            return Ok(AttemptResult::Complete(report));
        }
        let snapshot = Snapshot {
            root,
            sources: self.sources.clone(),
            host: options.host.clone(),
            user: options.user.clone(),
            started_ns: self.started_ns,
            finished_ns: self.context.repository.environment().now_ns(),
            tags: options.tags.clone(),
            description: options.description.clone(),
            cut: self.context.cut.to_string(),
            parent: report.parent,
            partial: counts.partial,
            statistics,
            program: options.program.clone(),
            missing: missing.collect(),
            file_systems: counts.file_systems,
            read_since_ns: self.read_since_ns,
        };
        let commit = Outcome::Snapshot(Box::new(snapshot));
        match self.writer.commit(commit, index_segments, &hits)? {
            CommitResult::Ended => Ok(AttemptResult::Ended),
            CommitResult::Done if counts.partial => {
                Ok(AttemptResult::Checkpoint(self.writer.ticket()))
            }
            CommitResult::Done => {
                report.snapshot = Some(self.writer.ticket());
                Ok(AttemptResult::Complete(report))
            }
        }
    }
}

/// Returns the absolute paths of the sources, or the name of the stream.
fn names(source: &Source) -> Result<Vec<Vec<u8>>> {
    match source {
        Source::Files { paths, .. } => paths.iter().map(PathBuf::as_path).map(absolute).collect(),
        Source::Stream { name, .. } => {
            check_name(name).map_err(|error| Error::invalid("--stdin-filename", error))?;
            Ok(vec![name.clone()])
        }
    }
}

fn absolute(path: &Path) -> Result<Vec<u8>> {
    let absolute = std::path::absolute(path)
        .map_err(|error| Error::invalid(path.display(), error.to_string()))?;
    Ok(absolute.as_os_str().as_bytes().to_vec())
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
