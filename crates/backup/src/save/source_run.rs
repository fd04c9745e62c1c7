//! One pass over a source: the parts of an attempt that a dry run has as well.

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cutpoint_repository::format::tree::check_name;
use cutpoint_repository::{Entry, EntryKind, Index, Reader, Time, View, Writer};
use cutpoint_storage::{Error, Result};

use super::as_path::AsPath;
use super::changed_blocks::ChangedBlocks;
use super::context::BackupContext;
use super::lookahead::Lookahead;
use super::options::BackupOptions;
use super::parent::{Parents, Readers};
use super::pipeline::{self, PipelineOutput, PipelineSettings};
use super::previous_version::PreviousVersion;
use super::snapshot_saver::CopyInput;
use super::source::Source;
use super::source_stage::Input;
use super::stream_saver::StreamState;
use crate::platform;
use crate::source::Walk;

/// The warning if the kernel has no bound for the writeback of pages, which rule W3 depends on.
const NO_BOUND: &str = "0 or unreadable: pages changed by programs may stay in memory \
    indefinitely, and no time shows that; every file is read";

/// One pass over a source.
pub(super) struct SourceRun<'a> {
    pub(super) context: &'a BackupContext<'a>,
    pub(super) view: View,
    pub(super) parents: &'a Parents,
    /// The start of the attempt, in nanoseconds since 1970.
    pub(super) started_ns: i64,
}

impl SourceRun<'_> {
    /// Runs the pipeline. Without a `writer`, nothing is stored. Also returns the positions of the
    /// sources that do not exist or cannot be opened, each of which is reported as a problem.
    ///
    /// # Errors
    ///
    /// Returns any error of [`pipeline::run`], and `Invalid` if no source exists or a pattern is
    /// invalid.
    pub(super) fn run(
        self,
        writer: Option<&mut Writer>,
        source: &mut Source,
        stream: &mut StreamState,
    ) -> Result<(PipelineOutput, BTreeSet<usize>)> {
        let BackupContext { repository, options, monitor, .. } = self.context;
        let index = Arc::new(Index::open((*repository).clone(), &self.view)?);
        let (threads, with_recent) = self.context.threads(&index)?;
        let index_is_complete = self.report_unreadable(&index)?;
        // The reader has an index of its own. If it switches to a newer view, the deduplicator
        // continues with this one (W1), and neither waits for the other.
        let fork = Arc::new(index.fork());
        let reader = Reader::new((*repository).clone(), fork, self.view.clone());
        let readers = Readers { reader: &reader, index: &index, index_is_complete };
        let previous_versions = self.parents.previous_versions(&self.view, options, readers);
        let has_bound = options.file_systems.writeback_ns().is_some();
        if !previous_versions.is_empty() && !has_bound && matches!(source, Source::Files { .. }) {
            monitor.warning(Path::new(platform::WRITEBACK_SETTING), NO_BOUND);
        }
        let lookahead = self.lookahead(source, &previous_versions);
        let comparison = self.parents.copy_comparison(&previous_versions);
        let copied = match source {
            Source::Snapshot(source) => Some(source.clone()),
            Source::Files { .. } | Source::Stream { .. } | Source::Tar(_) => None,
        };
        let kept = copied.as_ref().filter(|source| source.keeps_chunks(repository));
        let settings = PipelineSettings {
            index: index.clone(),
            chunker: &*self.context.chunker,
            cut: self.context.cut.to_string(),
            reader: &reader,
            previous_versions,
            verify: options.verify,
            threads,
            with_recent,
            started_ns: self.started_ns,
            force_read: options.force_read,
            readers: options.readers,
            readers_begin_at_once: options.readers_begin_at_once,
            as_path: as_path(source, options)?,
            changed_blocks: changed_blocks(source, options)?,
            monitor: *monitor,
            lookahead,
            source: kept.and_then(|source| source.repository.own()),
            is_tar: matches!(source, Source::Tar(_)),
        };
        let mut missing = BTreeSet::new();
        let input = match source {
            Source::Files { paths, options: walk_options } => {
                let (walk, absent) = Walk::of_those_there(paths, walk_options.clone())
                    .map_err(|error| Error::invalid("backup", error))?;
                for (number, error) in &absent {
                    monitor.problem(&paths[*number], &format!("source skipped: {error}"));
                }
                missing.extend(absent.into_iter().map(|(number, _)| number));
                Input::Walk(Box::new(walk.with_mounts(options.file_systems.clone())))
            }
            Source::Stream { name, reader } => {
                Input::Stream(Box::new(stream_entry(name, self.started_ns)), reader, stream)
            }
            Source::Tar(reader) => Input::Tar(reader),
            Source::Snapshot(source) => Input::Copy(Box::new(CopyInput {
                source,
                comparison,
                known: kept.map(|_| &*index),
                memory: self.context.repository.memory(),
            })),
        };
        Ok((pipeline::run(writer, settings, input)?, missing))
    }

    /// Returns the look-ahead, if the monitor wants one and the source are files.
    fn lookahead<'v>(
        &self,
        source: &Source,
        previous_versions: &[PreviousVersion<'v>],
    ) -> Option<Lookahead<'v>>
    where
        Self: 'v,
    {
        let BackupContext { options, monitor, .. } = self.context;
        match source {
            // The look-ahead compares by the paths on the disk.
            Source::Files { paths, options: walk_options }
                if monitor.looks_ahead() && options.as_path.is_none() =>
            {
                Some(Lookahead {
                    paths: paths.clone(),
                    options: walk_options.clone(),
                    file_systems: options.file_systems.clone(),
                    previous_versions: previous_versions.to_vec(),
                    monitor: *monitor,
                })
            }
            _ => None,
        }
    }

    /// Reports the objects of the view and of `index` that cannot be read. Returns `true` if the
    /// index lacks nothing.
    fn report_unreadable(&self, index: &Index) -> Result<bool> {
        let BackupContext { repository, monitor, .. } = self.context;
        let unreadable = index.unreadable();
        for (name, error) in self.view.unresolved().chain(&unreadable) {
            monitor.unreadable(name, error);
        }
        let gone = self.view.look_for_gone(repository)?;
        for (name, error) in &gone {
            monitor.unreadable(name, error);
        }
        // The index lacks the chunks published by commits that are gone.
        Ok(self.view.unresolved().next().is_none() && unreadable.is_empty() && gone.is_empty())
    }
}

/// Returns the paths of the sources in the snapshot, or the name of the stream.
pub(super) fn names(source: &Source, options: &BackupOptions) -> Result<Vec<Vec<u8>>> {
    if let Some(as_path) = as_path(source, options)? {
        return Ok(vec![as_path.bytes()]);
    }
    match source {
        Source::Files { paths, .. } => paths.iter().map(PathBuf::as_path).map(absolute).collect(),
        Source::Stream { name, .. } => {
            check_name(name).map_err(|error| Error::invalid("--stdin-filename", error))?;
            Ok(vec![name.clone()])
        }
        Source::Tar(_) => Ok(vec![b"/".to_vec()]),
        Source::Snapshot(source) => Ok(source.snapshot.sources.clone()),
    }
}

/// Returns the other path of the source in the snapshot, if it gets one.
fn as_path(source: &Source, options: &BackupOptions) -> Result<Option<AsPath>> {
    match (source, &options.as_path) {
        (Source::Files { paths, .. }, Some(path)) => AsPath::new(path, paths).map(Some),
        (Source::Tar(_), Some(path)) => AsPath::of_root(path).map(Some),
        _ => Ok(None),
    }
}

/// Returns the map of changed blocks, if the source has one.
///
/// # Errors
///
/// Returns `Invalid` if the source is not a single file or device.
fn changed_blocks<'a>(
    source: &Source,
    options: &'a BackupOptions,
) -> Result<Option<&'a ChangedBlocks>> {
    let Some(map) = options.changed_blocks.as_deref() else { return Ok(None) };
    match source {
        Source::Files { paths, .. } if paths.len() == 1 && !paths[0].is_dir() => Ok(Some(map)),
        _ => Err(Error::invalid("--changed-blocks", "needs exactly one path, a device or a file")),
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
