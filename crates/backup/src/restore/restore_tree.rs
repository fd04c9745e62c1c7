//! A restore: one thread traverses the snapshot, several threads write files, and others fetch the
//! chunks that will be needed.

use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use cutpoint_repository::read::ReadPlan;
use cutpoint_repository::{Content, thread_count};
use cutpoint_storage::{Error, Kind, Result};
use rustix::fs::{Mode, OFlags};

use super::dispatcher::Dispatcher;
use super::job_queue::JobQueue;
use super::monitor::RestoreMonitor;
use super::options::RestoreOptions;
use super::report::RestoreReport;
use super::restore_state::RestoreState;
use super::snapshot_reader::SnapshotReader;
use super::snapshot_walk::SnapshotWalk;
use super::traversal::Traversal;
use super::worker;
use crate::source::Handle;

/// The maximum number of jobs that wait for each thread. Each job can keep a folder of the target
/// open.
const JOBS_PER_THREAD: usize = 16;

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
/// Returns `Full` if the target is full, `Invalid` if a path of the selection contains `..` or a
/// pattern is invalid, and
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
    let walk = SnapshotWalk::new(reader, options, root)?;
    let (base, made) = open_target(target, options.folder.is_some())
        .map_err(|error| Error::new(Kind::Storage, target.display(), &error).with_source(error))?;
    let state = RestoreState::new(reader, options, monitor, base);
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
        std::thread::scope(|scope| {
            for _ in 0..threads {
                let (state, receiver) = (&state, receiver.clone());
                scope.spawn(move || worker::work(state, &receiver));
            }
            drop(receiver);
            let dispatcher = Dispatcher::new(&state, JobQueue::new(plan, sender));
            Traversal::new(&state, dispatcher, walk).traverse(made)
        })
    })?;
    state.finish()
}

/// Ends a plan when dropped.
struct PlanEnd<'a>(&'a ReadPlan<'a>);

impl Drop for PlanEnd<'_> {
    fn drop(&mut self) {
        self.0.end();
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
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
    let fd = rustix::fs::open(target, flags | OFlags::RDONLY, Mode::empty())
        .or_else(|_| rustix::fs::open(target, flags | OFlags::PATH, Mode::empty()))?;
    Ok((Handle::from(fd), made))
}
