//! A restore: one thread traverses the snapshot, several threads write files, and others fetch the
//! chunks that will be needed.

use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use cutpoint_repository::read::{ReadPlan, TreesAhead, TreesAheadEnd};
use cutpoint_repository::{Content, thread_count};
use cutpoint_storage::{Error, Kind, Result};
use rustix::fs::{Mode, OFlags};

use super::deletion::Deletion;
use super::dispatcher::Dispatcher;
use super::job_queue::JobQueue;
use super::lookahead::Lookahead;
use super::monitor::RestoreMonitor;
use super::options::RestoreOptions;
use super::preview::Preview;
use super::report::RestoreReport;
use super::restore_state::RestoreState;
use super::snapshot_reader::SnapshotReader;
use super::snapshot_walk::SnapshotWalk;
use super::target_visit::visit;
use super::traversal::Traversal;
use super::verification::verify;
use super::worker;
use crate::platform;
use crate::source::Handle;

/// The maximum number of jobs that wait for each thread. Each job can keep a folder of the target
/// open.
const JOBS_PER_THREAD: usize = 16;

/// The maximum number of decoded bytes of trees that are read ahead.
const TREES_BYTES_MAX: usize = 8 << 20;

/// Restores the tree `root` of a snapshot into the folder `target`, which is created if it does not
/// exist. The entries of the tree become entries of `target`. The target itself gets the metadata
/// of [`RestoreOptions::folder`] if it is created or may be overwritten.
///
/// An entry that cannot be restored is reported to `monitor` and counted in
/// [`RestoreReport::failed_entries`]; the restore continues with the others.
///
/// # Errors
///
/// Returns `Interrupted` if the monitor cancels the restore. Everything restored until then stays,
/// and [`Overwrite::Changed`](super::Overwrite::Changed) can complete it.
///
/// Returns `Full` if the target is full, `Invalid` if a path of the selection contains `..`, a
/// pattern is invalid, or the memory limit does not suffice, and
/// `Storage` if the target cannot be used. Returns any error that makes the root of the snapshot
/// unreadable.
///
/// # Panics
///
/// Panics if the reader or the monitor panics.
pub fn restore(
    reader: &dyn SnapshotReader,
    root: &Content,
    target: &Path,
    options: &RestoreOptions,
    monitor: &dyn RestoreMonitor,
) -> Result<RestoreReport> {
    let options =
        &RestoreOptions { threads: reader.thread_count(options.threads)?, ..options.clone() };
    let walk = SnapshotWalk::new(reader, options, root)?;
    let of_target = |error| Error::new(Kind::Storage, target.display(), &error).with_source(error);
    if options.dry_run {
        let base = open_existing(target).map_err(of_target)?;
        return preview(&RestoreState::new(reader, options, monitor, base), walk);
    }
    let (base, made) = open_target(target, options.folder.is_some()).map_err(of_target)?;
    let state = RestoreState::new(reader, options, monitor, Some(base));
    if options.delete && !made {
        let mut walk = SnapshotWalk::new(reader, options, root)?;
        visit(&state, &mut walk, state.base.clone(), &mut Deletion::new(&state));
    }
    let lookahead = Lookahead { reader, options, root, monitor };
    // A walk that leaves out most folders would have them read in vain.
    let reads_all = options.selection.is_empty() && options.include.is_empty();
    let trees_bytes_max = (options.plan_bytes_max / 8).min(TREES_BYTES_MAX);
    let ahead = reader.trees_ahead(root, trees_bytes_max).filter(|_| reads_all);
    lookahead.beside(|| write(&state, walk, ahead.as_ref().map(|ahead| (ahead, root)), made))?;
    if options.verify && !state.stopped() {
        verify(&state, SnapshotWalk::new(reader, options, root)?);
    }
    state.finish()
}

/// Counts what a restore would do.
fn preview(state: &RestoreState<'_>, mut walk: SnapshotWalk<'_>) -> Result<RestoreReport> {
    visit(state, &mut walk, state.base.clone(), &mut Preview::new(state));
    state.report_idle(&walk);
    state.finish()
}

/// Writes everything that `walk` finds, which begins at the tree that comes with `ahead`, if its trees
/// are read ahead. `made` says that the target is new.
fn write<'a>(
    state: &RestoreState<'a>,
    mut walk: SnapshotWalk<'a>,
    ahead: Option<(&'a TreesAhead<'a>, &Content)>,
    made: bool,
) -> Result<()> {
    let (reader, options) = (state.reader, state.options);
    let threads = thread_count(options.threads);
    let queue_len = (threads * JOBS_PER_THREAD).min(256);
    let plan = reader.plan(options.plan_bytes_max);
    let (sender, receiver) = crossbeam_channel::bounded(queue_len);
    std::thread::scope(|fetchers| {
        let plan = plan.as_ref();
        if let Some(plan) = plan {
            for _ in 0..plan.fetcher_count() {
                fetchers.spawn(|| plan.fetch());
            }
        }
        // The fetchers end when everything is restored, or when this thread panics.
        let _end = plan.map(PlanEnd);
        let _ahead_end = ahead.map(|(ahead, root)| {
            walk.read_ahead(ahead, root);
            fetchers.spawn(move || ahead.run());
            TreesAheadEnd(ahead)
        });
        std::thread::scope(|scope| {
            for _ in 0..threads {
                let receiver = receiver.clone();
                scope.spawn(move || {
                    let _panic = WorkerPanic { state, plan };
                    worker::work(state, &receiver);
                });
            }
            drop(receiver);
            let dispatcher = Dispatcher::new(state, JobQueue::new(plan, sender));
            Traversal::new(state, dispatcher, walk).traverse(made)
        })
    })
}

/// Ends a plan when dropped.
struct PlanEnd<'a>(&'a ReadPlan<'a>);

impl Drop for PlanEnd<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// Ends the restore when dropped by a panic of a worker. The jobs that were sent to the workers may
/// never be done, so that nothing may wait for the room that they take.
struct WorkerPanic<'r, 'a> {
    state: &'r RestoreState<'a>,
    plan: Option<&'r ReadPlan<'r>>,
}

impl Drop for WorkerPanic<'_, '_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.state.abandon();
            if let Some(plan) = self.plan {
                plan.end();
            }
        }
    }
}

/// Opens `target`, which may be a symbolic link to a folder. Also returns `true` if it was created.
/// With `private`, a new folder is accessible to its owner only, until it gets metadata of its own.
fn open_target(target: &Path, private: bool) -> std::io::Result<(Handle, bool)> {
    let made = !target.exists();
    if made && private {
        if let Some(parent) = target.parent() {
            std::fs::create_dir_all(parent)?;
        }
        std::fs::DirBuilder::new().mode(0o700).create(target)?;
    } else {
        std::fs::create_dir_all(target)?;
    }
    Ok((open_folder(target)?, made))
}

/// Opens `target` if it exists.
fn open_existing(target: &Path) -> std::io::Result<Option<Handle>> {
    match open_folder(target) {
        Ok(handle) => Ok(Some(handle)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn open_folder(target: &Path) -> std::io::Result<Handle> {
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
    let fd = rustix::fs::open(target, flags | OFlags::RDONLY, Mode::empty())
        .or_else(|_| rustix::fs::open(target, flags | platform::PATH_ONLY, Mode::empty()))?;
    Ok(Handle::from(fd))
}
