//! What takes the space of a repository: by path, by step and over time.
//!
//! [`measure`] reads the tables of contents of all containers and the trees of all snapshots, and no
//! data of files. A chunk counts where it is met first: in the newest snapshot of each host and set of
//! sources, then in older ones from new to old. So each stored byte has one place, `current` if a newest
//! snapshot has it, and `older` if only older snapshots do.
//!
//! Memory is bounded. Of more than [`CHUNKS_MAX`] chunks, a sample stands for all, selected by
//! fingerprint; of more than [`NODES_MAX`] files and folders, the rest counts in the folder above.

mod costs;
mod survey;
mod tree;

use std::collections::HashMap;

use cutpoint_repository::{Reader, View};
use cutpoint_storage::{Error, Kind, ObjectKind, Result};

use self::costs::Costs;
use self::survey::Survey;
pub use self::tree::{Node, Sizes};

/// The maximum number of chunks whose costs are kept, each in about 32 bytes.
pub const CHUNKS_MAX: usize = 4_000_000;
/// The maximum number of files and folders that are told apart.
pub const NODES_MAX: usize = 200_000;

/// What takes the space of a repository. Sizes are in bytes.
#[derive(Clone, Debug, Default)]
pub struct Space {
    /// The size after each step.
    pub totals: Totals,
    /// The snapshots, oldest first.
    pub snapshots: Vec<SnapshotSize>,
    /// The paths: hosts, and the folders and files below them.
    pub root: Node,
    /// One chunk in this many was counted by path.
    pub sample_rate: u64,
    /// The number of folders, recipes and containers that could not be read.
    pub unreadable_count: u64,
}

/// The size after each step of storing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Number of files in all snapshots.
    pub file_count: u64,
    /// The size of all files of all snapshots.
    pub logical_bytes: u64,
    /// Each chunk once.
    pub unique_bytes: u64,
    /// Of a chunk that resembles another, only the difference.
    pub matched_bytes: u64,
    /// The same after compression.
    pub compressed_bytes: u64,
    /// Containers of trees and recipes.
    pub metadata_bytes: u64,
    /// All objects of the repository.
    pub stored_bytes: u64,
}

/// The size of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotSize {
    /// The start of the backup, in milliseconds since 1970.
    pub time: i64,
    /// The name of the machine.
    pub host: String,
    /// The snapshots of one series: those of the same host and sources have the same number.
    pub series: usize,
    /// The size of the files.
    pub size: u64,
    /// The number of bytes that the snapshot added to the repository.
    pub added_bytes: u64,
}

/// Follows a measurement, and may stop it.
pub trait SpaceMonitor {
    /// Reports that `done` of `total` steps are done.
    fn progress(&self, done: u64, total: u64);

    /// Returns `true` if the measurement is to stop.
    fn is_cancelled(&self) -> bool;
}

/// Measures the repository.
///
/// # Errors
///
/// Returns `Interrupted` if `monitor` stops the measurement, and any error of the index or of the
/// storage. What is damaged is counted and left out.
pub fn measure(reader: &Reader, monitor: &dyn SpaceMonitor) -> Result<Space> {
    let view = reader.view();
    let mut space = Space { snapshots: sizes(&view), ..Space::default() };
    for (_, snapshot) in view.snapshots() {
        space.totals.file_count += snapshot.statistics.file_count;
        space.totals.logical_bytes += snapshot.statistics.size;
    }
    for kind in ObjectKind::ALL {
        for (_, len) in reader.repository().storage().list(kind.folder())? {
            space.totals.stored_bytes += len;
        }
    }
    let snapshot_count = view.snapshots().len() as u64;
    let container_count = reader.index().containers().len() as u64;
    let total = snapshot_count + container_count;
    let step = |done: u64| {
        monitor.progress(done, total);
        match monitor.is_cancelled() {
            true => Err(Error::new(Kind::Interrupted, "space", "the measurement was stopped")),
            false => Ok(()),
        }
    };
    let costs = Costs::read(reader, &view, &mut space, &step)?;
    space.sample_rate = costs.rate();
    let mut survey = Survey::new(reader, costs, space.totals.stored_bytes);
    for (number, (id, is_current)) in survey::in_order(&view).into_iter().enumerate() {
        step(container_count + number as u64)?;
        if let Some(snapshot) = view.commits.get(&id).and_then(|commit| commit.snapshot()) {
            survey.snapshot(snapshot, is_current, &|| step(container_count + number as u64))?;
        }
    }
    let (root, unreadable_count) = survey.finish();
    space.root = root;
    space.unreadable_count += unreadable_count;
    Ok(space)
}

/// Returns the sizes of all snapshots, oldest first.
fn sizes(view: &View) -> Vec<SnapshotSize> {
    let mut snapshots = view.snapshots();
    snapshots.sort_by_key(|(id, snapshot)| (snapshot.started_ns, *id));
    let mut series = HashMap::new();
    let mut sizes = Vec::with_capacity(snapshots.len());
    for (_, snapshot) in snapshots {
        let next = series.len();
        sizes.push(SnapshotSize {
            time: snapshot.started_ns.div_euclid(1_000_000),
            host: snapshot.host.clone(),
            series: *series.entry((&snapshot.host, &snapshot.sources)).or_insert(next),
            size: snapshot.statistics.size,
            added_bytes: snapshot.statistics.stored_bytes,
        });
    }
    sizes
}
