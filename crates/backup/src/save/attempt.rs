//! One attempt of a backup: a writer, a parent, a run of the pipeline, and a commit.

use std::collections::BTreeSet;

use cutpoint_repository::format::commit::{Commit, Outcome};
use cutpoint_repository::{CommitResult, ObjectName, Purpose, Snapshot, TicketId, Writer};
use cutpoint_storage::stop::Stop;
use cutpoint_storage::{Kind, Result};

use super::context::BackupContext;
use super::parent::Parents;
use super::pipeline::PipelineOutput;
use super::report::BackupReport;
use super::source::Source;
use super::source_run::{SourceRun, names};
use super::stream_saver::StreamState;

/// The result of an attempt that did not fail.
pub(super) enum AttemptResult {
    /// The backup is complete.
    Complete(Box<BackupReport>),
    /// The ticket was old. This partial snapshot is the parent of the next attempt.
    Checkpoint(TicketId),
    /// Another client has ended the ticket.
    Ended,
    /// The storage has lost objects of the attempt, which has ended.
    Lost,
}

/// One attempt of a backup.
pub(super) struct Attempt<'a> {
    context: &'a BackupContext<'a>,
    writer: Writer,
    /// The start of the attempt, in nanoseconds since 1970.
    pub(super) started_ns: i64,
    /// The absolute paths of the sources, or the name of the stream.
    sources: Vec<Vec<u8>>,
    pub(super) parents: Parents,
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
        let sources = names(source, options)?;
        // A key epoch that begins during a run does not end the run, because a stream cannot be
        // read twice.
        let begin = if is_restart { Writer::begin_again } else { Writer::begin };
        let writer = begin((*repository).clone(), Purpose::Backup)?;
        writer.ended().iter().for_each(|ended| monitor.resumed(*ended));
        let parents = Parents::choose(writer.view(), options, source, &sources, checkpoint)?;
        Ok(Attempt {
            context,
            writer,
            started_ns,
            sources,
            parents,
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
        let result = output.and_then(|output| self.commit(output, source));
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
        let view = self.writer.view().clone();
        let (parents, started_ns) = (&self.parents, self.started_ns);
        let run = SourceRun { context: self.context, view, parents, started_ns };
        let (output, missing) = run.run(Some(&mut self.writer), source, stream)?;
        self.missing = missing;
        Ok(output)
    }

    /// Commits the output of the pipeline as a snapshot.
    fn commit(&mut self, output: PipelineOutput, source: &Source) -> Result<AttemptResult> {
        let mut report = BackupReport::of(&output, &self.parents, &self.sources, &self.missing)?;
        let PipelineOutput { root, index_segments, hits, counts, .. } = output;
        self.missing.extend(&counts.missing_sources);
        let options = self.context.options;
        let statistics = report.statistics;
        let missing = self.missing.iter().filter_map(|number| u32::try_from(*number).ok());
        let is_same = self.parents.parent.as_ref().is_some_and(|(_, parent)| {
            let was_complete = !parent.partial && parent.missing.is_empty();
            let is_complete = was_complete && !counts.partial && statistics.problem_count == 0;
            // If only the file system has changed, the next run must not compare with the old one.
            let has_same_file_systems = parent.file_systems == counts.file_systems;
            let has_same_sources = parent.sources == self.sources;
            parent.root == root && has_same_sources && has_same_file_systems && is_complete
        });
        let is_vain = match (source, &self.parents.parent) {
            (Source::Snapshot(source), Some((_, parent))) if !counts.partial => {
                source.is_vain((&root, &statistics), parent)
            }
            _ => false,
        };
        let is_double = match source {
            Source::Snapshot(source) if !counts.partial => {
                source.is_copied_since(self.writer.view(), self.context.repository)?
            }
            _ => false,
        };
        if (is_same && options.skip_if_unchanged) || is_vain || is_double {
            self.writer.void(index_segments)?;
            return Ok(AttemptResult::Complete(Box::new(report)));
        }
        let mut snapshot = Snapshot {
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
            origin: None,
        };
        if let Source::Snapshot(source) = source {
            source.describe(&mut snapshot, self.writer.view());
        }
        let commit = Outcome::Snapshot(Box::new(snapshot));
        match self.writer.commit(commit, index_segments, &hits)? {
            CommitResult::Ended if self.writer.has_lost() => Ok(AttemptResult::Lost),
            CommitResult::Ended => Ok(AttemptResult::Ended),
            CommitResult::Done if counts.partial => {
                Ok(AttemptResult::Checkpoint(self.writer.ticket()))
            }
            CommitResult::Done => {
                report.snapshot = Some(self.writer.ticket());
                Ok(AttemptResult::Complete(Box::new(report)))
            }
        }
    }
}
