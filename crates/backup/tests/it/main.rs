//! Backups and restores through the public interface of the crate.
#![expect(clippy::unwrap_used, reason = "a test stops at an unexpected result")]

// Helpers.
mod backup_options;
mod far_repository;
mod folder_comparison;
mod forged_snapshot;
mod guarded_target;
mod manual_clock;
mod memory_store;
mod seeded_repository;

// Tests.
mod browsing;
mod bundles;
mod bursts;
mod changed_blocks;
mod copies;
mod damaged_snapshots;
mod deep_folders;
mod delta_chunks;
mod faults;
mod forgetful_storage;
mod hostile_snapshots;
mod long_runs;
mod lookahead;
mod missing_sources;
mod moved_folders;
mod overwrite;
mod pipeline;
mod planned_restore;
mod present_bytes;
mod read_reasons;
mod rewrites;
mod round_trip;
mod simultaneous_copies;
mod special_entries;
mod unchanged_files;
mod walk_steps;
