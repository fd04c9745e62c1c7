//! The output of `--json`: one event per line, defined by `schema/json-lines-v1.schema.json`.

use cutpoint_repository::Statistics;
use cutpoint_repository::gc::footprint::Footprint;
use serde::Serialize;

mod burst;
mod change;
mod difference;
mod estimate;
mod file;
#[cfg(feature = "serve")]
mod page;
mod run;
#[cfg(feature = "volume")]
mod volume;
mod waiting;

pub(crate) use burst::{BurstCounts, BurstStats};
pub(crate) use change::Change;
pub(crate) use cutpoint_terminal::event::{PathText, Phase, Progress, Unit};
pub(crate) use difference::{Difference, DifferenceCounts};
pub(crate) use estimate::{DefaultMode, Estimate};
pub(crate) use file::File;
#[cfg(feature = "serve")]
pub(crate) use page::{Page, WebDav};
pub(crate) use run::{Profile, Run, RunPart, ScheduleFile};
#[cfg(feature = "volume")]
pub(crate) use volume::{
    Connected, Serving, VolumeCheckCounts, VolumeChecked, VolumeCreated, VolumeDisk,
    VolumeImported, VolumeKeyEvent, VolumePart, VolumeSnapshot, VolumeStats, VolumeWrites,
};
pub(crate) use waiting::{WaitingFor, WaitingWriter};

/// An event.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum Event<'a> {
    /// The result of a command, the last line of a run that did not fail.
    Summary(Summary<'a>),
    /// A snapshot.
    Snapshot(Snapshot<'a>),
    /// The decision about a snapshot.
    Verdict(Verdict<'a>),
    /// An entry of a snapshot.
    Entry(Box<Entry<'a>>),
    /// The way in which a backup saves a file.
    File(File<'a>),
    /// A difference between two snapshots.
    Difference(Difference<'a>),
    /// The local copy of the index of a repository.
    CachedRepository(CachedRepository<'a>),
    /// The version of the program.
    Version(Version<'a>),
    /// A change of the target of a restore.
    Change(Change<'a>),
    /// A version of an entry that was found in snapshots.
    Match(Match),
    /// A profile, in the list of all.
    Profile(Profile<'a>),
    /// A setting of the repository.
    Setting { name: &'a str, value: serde_json::Value },
    /// A chunk.
    Cut { offset: u64, size_bytes: u64, end_offset: u64 },
    /// The estimated savings of a cut specification.
    Estimate(Box<Estimate>),
    /// What a backup with the default settings would store.
    DefaultMode(Box<DefaultMode>),
    /// A finding of a check.
    Finding(Finding<'a>),
    /// A wait for other clients, told when it begins and then once a minute.
    Waiting(WaitingFor<'a>),
    /// The result of a trial of a place for repositories.
    Trial(Trial<'a>),
    /// A loss in a snapshot.
    Loss(Loss<'a>),
    /// The repair of a snapshot that has lost something.
    Repaired {
        snapshot: String,
        outcome: &'a str,
        repaired: Option<String>,
        loss_count: u64,
        unnamed_count: u64,
    },
    /// An object of the repository, in a list.
    Object { name: &'a str, stored_bytes: u64 },
    /// The content of an object of the repository.
    ObjectContent { name: &'a str, kind: &'a str, length_bytes: u64, epoch: u32, text: &'a str },
    /// A snapshot that was copied, rewritten, or would be copied.
    Saved(Saved),
    /// A key that opens the repository.
    Key(Key<'a>),
    /// A virtual disk that is served from now on.
    #[cfg(feature = "volume")]
    Serving(Serving<'a>),
    /// A disk that is a device now.
    #[cfg(feature = "volume")]
    Connected(Connected<'a>),
    /// A disk of a volume.
    #[cfg(feature = "volume")]
    VolumeDisk(VolumeDisk),
    /// A snapshot of a disk of a volume.
    #[cfg(feature = "volume")]
    VolumeSnapshot(VolumeSnapshot),
    /// A part of a disk of a volume that has changed.
    #[cfg(feature = "volume")]
    VolumePart(VolumePart),
    /// A passphrase of a volume.
    #[cfg(feature = "volume")]
    VolumeKey(VolumeKeyEvent),
    /// The folder that shows the snapshots from now on.
    Mounted {
        #[serde(flatten)]
        path: PathText,
        snapshot_count: u64,
    },
    /// The page that shows the snapshots from now on.
    #[cfg(feature = "serve")]
    Page(Page),
}

/// The result of a command.
#[derive(Serialize)]
#[serde(tag = "command", rename_all = "snake_case")]
pub(crate) enum Summary<'a> {
    /// A repository was created.
    Init { repository: String, encryption: String, cut: &'a str },
    /// A snapshot was made, or none was needed.
    Backup {
        /// Whether nothing was stored, and the numbers are those of a dry run.
        dry_run: bool,
        snapshot: Option<String>,
        parent: Option<String>,
        #[serde(flatten)]
        statistics: Counts,
        missing_sources: Vec<PathText>,
        /// The statistics of BURST; `None` if chunks are compared in another way.
        bursts: Option<BurstCounts>,
        unchanged_file_count: u64,
        excluded_count: u64,
        restart_count: u64,
        elapsed_ns: u64,
    },
    /// Files were restored.
    Restore {
        snapshot: String,
        /// Whether nothing was written, and the numbers are those of a dry run.
        dry_run: bool,
        written_file_count: u64,
        written_bytes: u64,
        /// The number of these bytes that were in the target, and were not fetched.
        /// `copied_bytes` counts those that had to be copied to a new file.
        reused_bytes: u64,
        copied_bytes: u64,
        linked_count: u64,
        folder_count: u64,
        symlink_count: u64,
        special_count: u64,
        skipped_special_count: u64,
        replaced_count: u64,
        deleted_count: u64,
        deleted_bytes: u64,
        /// The number of files that were read back and equal to the snapshot.
        verified_file_count: u64,
        verified_bytes: u64,
        unchanged_count: u64,
        /// The number of existing entries whose content stayed, and whose metadata changed.
        metadata_changed_count: u64,
        /// The number of requests for regions. `fetched_bytes` is the number of bytes they fetched.
        request_count: u64,
        fetched_bytes: u64,
        /// The number of regions decoded. `repeated_region_count` counts those decoded more than
        /// once.
        region_count: u64,
        repeated_region_count: u64,
        problem_count: u64,
        warning_count: u64,
        elapsed_ns: u64,
    },
    /// The local copies of indexes were listed.
    Cache { folder: String, size_bytes: u64, removed_count: u64, removed_bytes: u64 },
    /// A profile was run.
    Run(Run<'a>),
    /// A schedule of a profile was printed or written.
    Schedule { profile: &'a str, system: &'a str, files: Vec<ScheduleFile<'a>> },
    /// Two snapshots, or a snapshot and a place on the disk, were compared.
    Diff {
        old_snapshot: String,
        /// `None` if the snapshot was compared with the disk.
        #[serde(skip_serializing_if = "Option::is_none")]
        new_snapshot: Option<String>,
        /// The place on the disk.
        #[serde(flatten)]
        path: Option<PathText>,
        #[serde(flatten)]
        counts: DifferenceCounts,
        problem_count: u64,
        elapsed_ns: u64,
    },
    /// Snapshots were shown as a folder, which has been unmounted.
    Mount { problem_count: u64, request_count: u64, fetched_bytes: u64, elapsed_ns: u64 },
    /// Snapshots were shown as a page, which has ended.
    #[cfg(feature = "serve")]
    Serve { problem_count: u64, request_count: u64, fetched_bytes: u64, elapsed_ns: u64 },
    /// Snapshots were searched.
    Find { snapshot_count: u64, path_count: u64, match_count: u64, elapsed_ns: u64 },
    /// Unneeded containers were condemned and deleted, or would be.
    Prune {
        dry_run: bool,
        /// The number of the prune record; `None` if there was nothing to do.
        prune_number: Option<u64>,
        removed_snapshot_count: u64,
        kept_snapshot_count: u64,
        container_count: u64,
        container_bytes: u64,
        condemned_container_count: u64,
        condemned_bytes: u64,
        rewritten_container_count: u64,
        rewritten_bytes: u64,
        moved_bytes: u64,
        unused_bytes: u64,
        orphan_container_count: u64,
        rescued_chunk_count: u64,
        pinned_chunk_count: u64,
        pinned_bytes: u64,
        inlined_chunk_count: u64,
        inlined_bytes: u64,
        /// The size of the containers that had stayed for these delta chunks alone.
        released_bytes: u64,
        merged_segment_count: u64,
        /// The number of commits that are only history, and are deleted 30 days later.
        history_commit_count: u64,
        freed_bytes: u64,
        written_bytes: u64,
        deleted_container_count: u64,
        deleted_bytes: u64,
        /// Whether deleted objects stay as older versions; `None` if that was not asked.
        deleted_are_hidden: Option<bool>,
        /// The number of condemned objects that the storage keeps from deletion.
        locked_object_count: u64,
        /// The end of the last lock; `None` if there is none, or one has no end.
        locked_until: Option<String>,
        waiting: bool,
        elapsed_ns: u64,
    },
    /// Stored data was stored again, smaller and in order, or would be.
    Optimize {
        dry_run: bool,
        /// The number of the prune record; `None` if there was nothing to do.
        prune_number: Option<u64>,
        removed_snapshot_count: u64,
        kept_snapshot_count: u64,
        container_count: u64,
        container_bytes: u64,
        condemned_container_count: u64,
        condemned_bytes: u64,
        rewritten_container_count: u64,
        rewritten_bytes: u64,
        raw_bytes: u64,
        sampled_bytes: u64,
        moved_bytes: u64,
        optimized_container_count: u64,
        optimized_bytes: u64,
        spared_container_count: u64,
        spared_bytes: u64,
        reencoded_chunk_count: u64,
        reencoded_bytes: u64,
        freed_bytes: u64,
        written_bytes: u64,
        deleted_container_count: u64,
        deleted_bytes: u64,
        /// Whether deleted objects stay as older versions; `None` if that was not asked.
        deleted_are_hidden: Option<bool>,
        /// The number of condemned objects that the storage keeps from deletion.
        locked_object_count: u64,
        /// The end of the last lock; `None` if there is none, or one has no end.
        locked_until: Option<String>,
        waiting: bool,
        elapsed_ns: u64,
    },
    /// Snapshots were forgotten, or would be, or are listed again.
    Forget {
        dry_run: bool,
        kept_count: u64,
        forgotten_count: u64,
        restored_count: u64,
        /// The IDs of the snapshots that are listed again.
        restored: Vec<String>,
    },
    /// Snapshots were held or released.
    Hold { held_count: u64, released_count: u64 },
    /// The tags or descriptions of snapshots were changed.
    Tag { changed_count: u64, unchanged_count: u64 },
    /// Snapshots were copied, or would be.
    Copy {
        dry_run: bool,
        copied_count: u64,
        /// The number of snapshots that the repository had already.
        present_count: u64,
        /// The number of snapshots whose copies lack entries.
        reduced_count: u64,
        unchanged_count: u64,
        /// The number of snapshots whose copies were forgotten.
        forgotten_count: u64,
        /// The number of snapshots that `--only-newer` has left out.
        older_count: u64,
        failed_count: u64,
        read_file_count: u64,
        read_bytes: u64,
        new_chunk_count: u64,
        new_bytes: u64,
        stored_bytes: u64,
        elapsed_ns: u64,
    },
    /// Snapshots of another program were saved, or would be.
    #[cfg_attr(not(feature = "import"), expect(dead_code, reason = "only an import has it"))]
    Import {
        dry_run: bool,
        imported_count: u64,
        /// The number of snapshots that the repository had already.
        present_count: u64,
        /// The number of snapshots that were imported without some of their entries.
        reduced_count: u64,
        /// The number of snapshots that were imported and then forgotten.
        forgotten_count: u64,
        /// The number of snapshots that `--only-newer` has left out.
        older_count: u64,
        failed_count: u64,
        read_file_count: u64,
        read_bytes: u64,
        /// The time that reading takes at the rate of a sample; only in a dry run.
        #[serde(skip_serializing_if = "Option::is_none")]
        estimated_ns: Option<u64>,
        new_chunk_count: u64,
        new_bytes: u64,
        stored_bytes: u64,
        elapsed_ns: u64,
    },
    /// Snapshots were saved again without some of their files, or would be.
    Rewrite {
        dry_run: bool,
        rewritten_count: u64,
        unchanged_count: u64,
        failed_count: u64,
        forgotten_count: u64,
        excluded_file_count: u64,
        excluded_bytes: u64,
        stored_bytes: u64,
        elapsed_ns: u64,
    },
    /// A virtual disk was created.
    #[cfg(feature = "volume")]
    VolumeCreate(VolumeCreated<'a>),
    /// The disks, snapshots or keys of a volume were changed.
    #[cfg(feature = "volume")]
    VolumeChange { change: &'static str },
    /// An image was imported.
    #[cfg(feature = "volume")]
    VolumeImport(VolumeImported),
    /// A virtual disk was served.
    #[cfg(feature = "volume")]
    VolumeServe { elapsed_ns: u64 },
    /// The sizes of a virtual disk.
    #[cfg(feature = "volume")]
    VolumeStats(VolumeStats),
    /// A virtual disk was read.
    #[cfg(feature = "volume")]
    VolumeCheck(VolumeChecked),
    /// The sizes of the repository.
    Stats(Stats),
    /// A snapshot or a path in it was measured.
    #[serde(rename = "stats")]
    SnapshotStats(SnapshotStats),
    /// A check was done.
    Check {
        finding_count: u64,
        note_count: u64,
        snapshot_count: u64,
        container_count: u64,
        reference_count: u64,
        unreferenced_count: u64,
        unreferenced_bytes: u64,
        read_bytes: u64,
        read_data: bool,
        container_bytes: u64,
        covered_bytes: u64,
        covered_since: Option<String>,
        missing_count: u64,
        recorded_count: u64,
        unprotected_count: u64,
        unprotected_bytes: u64,
        old_epoch_commit_count: u64,
        elapsed_ns: u64,
    },
    /// A place was tried out.
    Doctor {
        place: String,
        has_repository: bool,
        may_be_shared: bool,
        creates_atomically: bool,
        lists_at_once: bool,
        /// Whether a prune frees space at once, if no client is announced whose listings may lag.
        frees_at_once: bool,
        /// The effect of a deletion: `removes`, `hides`, `refused` or `unknown`.
        deletion: &'a str,
        may_be_locked: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        free_bytes: Option<u64>,
        problem_count: u64,
        elapsed_ns: u64,
    },
    /// Keys were changed.
    Key {
        action: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        key: Option<String>,
        epoch: u32,
    },
    /// The index was rebuilt, or would be.
    RepairIndex {
        dry_run: bool,
        record: Option<u64>,
        container_count: u64,
        chunk_count: u64,
        segment_count: u64,
        superseded_count: u64,
        unreadable_segment_count: u64,
        found_count: u64,
        gone_count: u64,
        unreadable_count: u64,
        elapsed_ns: u64,
    },
    /// Containers were rebuilt from parity, and parity was created, or would be.
    RepairData {
        dry_run: bool,
        rebuilt_count: u64,
        stored_chunk_count: u64,
        failed_count: u64,
        protected_count: u64,
        parity_bytes: u64,
        elapsed_ns: u64,
    },
    /// Objects were put again in their original form, or would be.
    RepairObjects {
        dry_run: bool,
        mended_count: u64,
        left_count: u64,
        removed_count: u64,
        elapsed_ns: u64,
    },
    /// The remaining parts of snapshots were saved as new snapshots, or would be.
    RepairSnapshots {
        dry_run: bool,
        damaged_count: u64,
        repaired_count: u64,
        forgotten_count: u64,
        missing_commit_count: u64,
        loss_count: u64,
        elapsed_ns: u64,
    },
    /// A file was cut.
    Cut { cut: &'a str, level: &'a str, chunk_count: u64, size_bytes: u64 },
    /// The savings of data were estimated.
    Estimate {
        #[serde(flatten)]
        counts: cutpoint_terminal::scan::ScanTotals,
        elapsed_ns: u64,
    },
}

/// A snapshot that was saved again.
#[derive(Serialize)]
pub(crate) struct Saved {
    pub(crate) snapshot: String,
    /// The new snapshot; `None` in a dry run.
    pub(crate) saved: Option<String>,
    pub(crate) read_file_count: u64,
    pub(crate) read_bytes: u64,
    /// The number of entries that could not be read and are not in the new snapshot.
    pub(crate) lacking_count: u64,
}

/// A key that opens the repository, without its secret.
#[derive(Serialize)]
pub(crate) struct Key<'a> {
    pub(crate) id: String,
    pub(crate) method: String,
    pub(crate) created: Option<String>,
    pub(crate) label: Option<&'a str>,
    pub(crate) epoch: Option<u32>,
    pub(crate) copy_count: u64,
    pub(crate) in_use: bool,
    pub(crate) opens: bool,
}

/// The result of a trial of a place: the number of attempts, and the median and maximum of their
/// times.
#[derive(Serialize)]
pub(crate) struct Trial<'a> {
    pub(crate) trial: &'a str,
    pub(crate) count: u64,
    pub(crate) elapsed_ns: u64,
    pub(crate) slowest_ns: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) bytes_per_second: Option<u64>,
    pub(crate) message: &'a str,
}

/// The sizes of a repository. The schema describes the fields.
#[derive(Default, Serialize)]
pub(crate) struct Stats {
    pub(crate) snapshot_count: u64,
    pub(crate) file_count: u64,
    pub(crate) logical_bytes: u64,
    pub(crate) unique_bytes: u64,
    pub(crate) matched_bytes: u64,
    pub(crate) compressed_bytes: u64,
    pub(crate) metadata_bytes: u64,
    pub(crate) stored_bytes: u64,
    pub(crate) dedup_ratio: Option<f64>,
    pub(crate) dedup_space_savings: Option<f64>,
    pub(crate) delta_space_savings: Option<f64>,
    pub(crate) compression_space_savings: Option<f64>,
    pub(crate) stored_space_savings: Option<f64>,
    pub(crate) data_chunk_count: u64,
    pub(crate) delta_chunk_count: u64,
    pub(crate) delta_chunk_bytes: u64,
    pub(crate) delta_chunk_stored_bytes: u64,
    pub(crate) copied_bytes: u64,
    pub(crate) metadata_chunk_count: u64,
    pub(crate) container_count: u64,
    pub(crate) object_count: u64,
    pub(crate) index_memory_bytes: u64,
    pub(crate) index_stored_bytes: u64,
    /// The statistics of bursts; `None` if they were not requested.
    pub(crate) bursts: Option<BurstStats>,
}

/// The sizes of a snapshot, or of a path in it.
#[derive(Serialize)]
pub(crate) struct SnapshotStats {
    pub(crate) snapshot: String,
    #[serde(flatten)]
    pub(crate) path: Option<PathText>,
    pub(crate) file_count: u64,
    pub(crate) logical_bytes: u64,
    /// The chunks of the files and of their metadata.
    pub(crate) all: ChunkSizes,
    /// Those of these chunks that no other snapshot has.
    pub(crate) exclusive: ChunkSizes,
}

/// The sizes of chunks.
#[derive(Serialize)]
pub(crate) struct ChunkSizes {
    data_chunk_count: u64,
    unique_bytes: u64,
    stored_bytes: u64,
    metadata_chunk_count: u64,
    metadata_stored_bytes: u64,
}

impl From<Footprint> for ChunkSizes {
    fn from(footprint: Footprint) -> ChunkSizes {
        ChunkSizes {
            data_chunk_count: footprint.data_chunk_count,
            unique_bytes: footprint.data_bytes,
            stored_bytes: footprint.stored_bytes,
            metadata_chunk_count: footprint.metadata_chunk_count,
            metadata_stored_bytes: footprint.metadata_stored_bytes,
        }
    }
}

/// The local copy of the index of a repository.
#[derive(Serialize)]
pub(crate) struct CachedRepository<'a> {
    pub(crate) repository: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) location: Option<&'a str>,
    pub(crate) size_bytes: u64,
    pub(crate) changed: String,
    pub(crate) removed: bool,
}

/// The version of the program.
#[derive(Serialize)]
pub(crate) struct Version<'a> {
    pub(crate) program_version: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) commit: Option<&'a str>,
    pub(crate) target: &'a str,
    pub(crate) features: &'a [&'a str],
}

/// The statistics of a snapshot, under the same names as in the store.
#[derive(Serialize)]
pub(crate) struct Counts {
    file_count: u64,
    folder_count: u64,
    other_count: u64,
    read_file_count: u64,
    #[serde(rename = "size_bytes")]
    size: u64,
    read_bytes: u64,
    new_chunk_count: u64,
    new_bytes: u64,
    stored_bytes: u64,
    problem_count: u64,
    delta_chunk_count: u64,
    delta_chunk_bytes: u64,
    literal_bytes: u64,
}

impl From<&Statistics> for Counts {
    fn from(statistics: &Statistics) -> Counts {
        Counts {
            file_count: statistics.file_count,
            folder_count: statistics.folder_count,
            other_count: statistics.other_count,
            read_file_count: statistics.read_file_count,
            size: statistics.size,
            read_bytes: statistics.read_bytes,
            new_chunk_count: statistics.new_chunk_count,
            new_bytes: statistics.new_bytes,
            stored_bytes: statistics.stored_bytes,
            problem_count: statistics.problem_count,
            delta_chunk_count: statistics.delta_chunk_count,
            delta_chunk_bytes: statistics.delta_chunk_bytes,
            literal_bytes: statistics.literal_bytes,
        }
    }
}

/// A snapshot.
#[derive(Serialize)]
pub(crate) struct Snapshot<'a> {
    pub(crate) id: String,
    pub(crate) started: String,
    pub(crate) finished: String,
    pub(crate) host: &'a str,
    pub(crate) user: &'a str,
    pub(crate) tags: &'a [String],
    pub(crate) description: &'a str,
    pub(crate) sources: Vec<PathText>,
    pub(crate) missing_sources: Vec<PathText>,
    pub(crate) parent: Option<String>,
    pub(crate) partial: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) origin: Option<Origin>,
    pub(crate) epoch: u32,
    pub(crate) held: bool,
    pub(crate) forgotten: bool,
    pub(crate) cut: &'a str,
    pub(crate) program: &'a str,
    #[serde(flatten)]
    pub(crate) statistics: Counts,
}

/// The snapshot that was copied.
#[derive(Serialize)]
pub(crate) struct Origin {
    /// The program that has made the snapshot.
    pub(crate) program: &'static str,
    pub(crate) repository: String,
    pub(crate) snapshot: String,
    /// Set if the copy has all entries of the original.
    pub(crate) complete: bool,
}

/// The decision about a snapshot.
#[derive(Serialize)]
pub(crate) struct Verdict<'a> {
    pub(crate) id: String,
    pub(crate) started: String,
    pub(crate) host: &'a str,
    pub(crate) tags: &'a [String],
    pub(crate) sources: Vec<PathText>,
    pub(crate) missing_sources: Vec<PathText>,
    pub(crate) partial: bool,
    pub(crate) kept: bool,
    pub(crate) rules: Vec<String>,
}

/// An entry of a snapshot.
#[derive(Serialize)]
pub(crate) struct Entry<'a> {
    #[serde(flatten)]
    pub(crate) path: PathText,
    pub(crate) kind: &'static str,
    /// The permission bits, in octal.
    pub(crate) mode: String,
    pub(crate) user_id: u32,
    pub(crate) group_id: u32,
    pub(crate) user: &'a str,
    pub(crate) group: &'a str,
    #[serde(rename = "size_bytes")]
    pub(crate) size: u64,
    /// `None` for a folder above the sources.
    pub(crate) modified: Option<String>,
    pub(crate) links: u64,
    pub(crate) inode: u64,
    pub(crate) xattr_count: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) target: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) target_bytes: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) device_number: Option<u64>,
}

/// A version of an entry that was found in snapshots.
#[derive(Serialize)]
pub(crate) struct Match {
    #[serde(flatten)]
    pub(crate) path: PathText,
    pub(crate) kind: &'static str,
    #[serde(rename = "size_bytes")]
    pub(crate) size: u64,
    /// `None` for a folder above the sources.
    pub(crate) modified: Option<String>,
    pub(crate) snapshot_count: u64,
    pub(crate) first_snapshot: String,
    pub(crate) last_snapshot: String,
}

/// A finding of a check.
#[derive(Serialize)]
pub(crate) struct Finding<'a> {
    pub(crate) kind: &'a str,
    pub(crate) object: &'a str,
    pub(crate) message: &'a str,
    /// The commands that resolve the finding, in the order in which to try them.
    pub(crate) remedies: Vec<String>,
}

/// A loss in a snapshot.
#[derive(Serialize)]
pub(crate) struct Loss<'a> {
    pub(crate) snapshot: String,
    #[serde(flatten)]
    pub(crate) path: PathText,
    /// `entries`, `file` or `parts`.
    pub(crate) kind: &'a str,
    #[serde(rename = "size_bytes", skip_serializing_if = "Option::is_none")]
    pub(crate) size: Option<u64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) ranges: Vec<ByteRange>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) kept_as: Option<String>,
}

/// A range of bytes of a file.
#[derive(Serialize)]
pub(crate) struct ByteRange {
    pub(crate) offset: u64,
    pub(crate) end_offset: u64,
}
