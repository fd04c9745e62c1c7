//! The thread that writes checkpoints.

use std::sync::atomic::{AtomicBool, Ordering};

use cutpoint_testing::SplitMix64;
use cutpoint_volume::{Folder, Kind, OpenOptions, Survival};

use crate::support::{Opened, block, create, open_folder, options, read, shared, write};

/// Returns options with which some hundred writes need a checkpoint.
fn small() -> OpenOptions {
    OpenOptions { memory: 1 << 20, ..options() }
}

/// Returns options with which neither memory nor bytes of the log need a checkpoint soon.
fn options_of_the_program() -> OpenOptions {
    OpenOptions { memory: 256 << 20, ..options() }
}

fn name_of_last_checkpoint(folder: &impl Folder) -> Option<String> {
    let names = folder.names().expect("listed").into_iter();
    names.filter(|name| name.starts_with("checkpoint") && !name.ends_with("copy")).max()
}

/// Calls `write` while a thread writes checkpoints, and returns its result.
fn with_thread(
    volume: &Opened,
    write: impl FnOnce(),
) -> std::result::Result<(), cutpoint_volume::Error> {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| volume.write_checkpoints(&|| is_over.load(Ordering::Relaxed)));
        write();
        is_over.store(true, Ordering::Relaxed);
        thread.join().expect("no panic")
    })
}

#[test]
fn thread_writes_the_checkpoints_of_writes() {
    let folder = create(6000, 4096, "exact");
    let first = name_of_last_checkpoint(&folder);
    let volume = open_folder(shared(&folder), &small()).expect("opened");
    with_thread(&volume, || {
        for number in 0..6000 {
            write(&volume, number, &block(number, 4096));
        }
    })
    .expect("checkpoints");
    assert!(name_of_last_checkpoint(&folder) > first);
    volume.audit().expect("audit");
    volume.flush().expect("flushed");
    drop(volume);
    let volume = open_folder(shared(&folder), &small()).expect("opened");
    for number in (0..6000).step_by(97) {
        assert!(read(&volume, number).expect("read") == block(number, 4096), "{number}");
    }
}

/// Records without bytes of their own count as well, because a start after a crash applies each.
#[test]
fn checkpoint_is_due_after_many_duplicates() {
    let folder = create(64, 4096, "exact");
    let first = name_of_last_checkpoint(&folder);
    let volume = open_folder(shared(&folder), &options_of_the_program()).expect("opened");
    for number in 0..20_000 {
        write(&volume, number % 64, &block(number / 64 % 2, 4096));
    }
    assert!(name_of_last_checkpoint(&folder) > first);
}

#[test]
fn writes_tell_of_a_checkpoint_that_fails_in_the_thread() {
    let folder = create(6000, 4096, "exact");
    let volume = open_folder(shared(&folder), &small()).expect("opened");
    folder.fail_syncs(true);
    let ended = with_thread(&volume, || {
        let failed = (0..6000).find_map(|number| {
            let disk = volume.write(number * 4096, &block(number, 4096));
            disk.err()
        });
        assert_eq!(failed.expect("a write fails").kind(), Kind::Io);
    });
    assert!(ended.is_err());
}

/// Compares blocks and tables after each part of a merge of runs that have several parts, in this process and in the
/// next.
pub(crate) fn merge_part_by_part() -> Result<(), String> {
    let failed = |error: cutpoint_volume::Error| error.to_string();
    let content = |number: u64| SplitMix64::bytes(number, 4096);
    let folder = create(6400, 4096, "exact");
    let volume = open_folder(shared(&folder), &options_of_the_program()).expect("opened");
    let mut expected: Vec<Option<u64>> = vec![None; 6400];
    // Writes blocks from `first` on, trims some of the first ones, and writes a checkpoint.
    let mut change = |first: u64, count: u64, trimmed: std::ops::Range<u64>| {
        for number in first..first + count {
            write(&volume, number, &content(number));
            expected[usize::try_from(number).expect("small")] = Some(number);
        }
        for number in trimmed.map(|number| number * 2) {
            volume.trim(number * 4096, 4096).expect("trimmed");
            expected[usize::try_from(number).expect("small")] = None;
        }
        volume.checkpoint()
    };
    // An old run of several parts, and a newer one that deletes some of its entries.
    (0..4).try_for_each(|round| change(600 * round, 600, 0..0)).map_err(failed)?;
    volume.merge_runs(&|| false).map_err(failed)?;
    for round in 0..4 {
        change(2400 + 1000 * round, 1000, 100 * round..100 * (round + 1)).map_err(failed)?;
    }
    volume.merge_runs(&|| false).map_err(failed)?;
    // More deletions, so that both are merged.
    change(0, 0, 400..1600).map_err(failed)?;
    let compare = |volume: &Opened| {
        for (number, expected) in (0..).zip(&expected).step_by(13) {
            let found = read(volume, number).map_err(|error| error.to_string())?;
            if found != expected.map_or(vec![0; 4096], content) {
                return Err(format!("block {number}"));
            }
        }
        volume.audit()
    };
    let mut part_count = 0;
    loop {
        let sync_count = folder.sync_count();
        let has_written_a_part = || folder.sync_count() > sync_count;
        let is_over = volume.merge_runs(&has_written_a_part).map_err(failed)?;
        compare(&volume)?;
        let next = folder.after_power_cut(Survival::Synced);
        compare(&open_folder(shared(&next), &options_of_the_program()).map_err(failed)?)?;
        if is_over {
            break;
        }
        part_count += 1;
    }
    if part_count > 5 { Ok(()) } else { Err(format!("{part_count} parts")) }
}

#[test]
fn merge_of_large_runs_is_right_after_each_part() {
    assert_eq!(merge_part_by_part(), Ok(()));
}

/// Small runs are merged while the merge of larger ones is in progress, so that a power cut meets both.
#[test]
fn merges_of_several_levels_in_progress_survive_a_power_cut() {
    let content = |number: u64| SplitMix64::bytes(number, 4096);
    let folder = create(9000, 4096, "exact");
    let volume = open_folder(shared(&folder), &options_of_the_program()).expect("opened");
    let mut numbers = SplitMix64::new(2);
    for round in 1..=60 {
        for number in (round - 1) * 150..round * 150 {
            write(&volume, number, &content(number));
        }
        volume.checkpoint().expect("written");
        for _ in 0..numbers.below(3) {
            let sync_count = folder.sync_count();
            let has_written_a_part = || folder.sync_count() > sync_count;
            volume.merge_runs(&has_written_a_part).expect("merged");
            let next = folder.after_power_cut(Survival::Synced);
            let next = open_folder(shared(&next), &options_of_the_program());
            let next = next.unwrap_or_else(|error| panic!("round {round}: {error}"));
            for number in (0..round * 150).step_by(97) {
                assert!(read(&next, number).expect("read") == content(number), "{number}");
            }
        }
    }
}
