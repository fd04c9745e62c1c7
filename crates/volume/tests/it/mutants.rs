//! Each rule has a mutant, and a test that notices it.

use cutpoint_volume::{Mutant, Survival, activate};

use crate::at_once::{
    burst_on_a_block_of_its_request, equal_blocks_at_once, overwrite_during_a_checkpoint,
};
use crate::batch::{refused_requests, remains_of_a_refused_request};
use crate::burst::{made_of, opened_with_a_burst};
use crate::checkpointer::merge_part_by_part;
use crate::crash::{Check, Run, storm};
use crate::damage::{bad_sector, flip_headers, flips, with_damaged_block};
use crate::layers::{flip_change, live};
use crate::reuse::number_that_is_used_again;
use crate::support::{BLOCK, block, create, open, read, try_open, write};

/// Returns the result of a test under a mutant. A panic is a failure, too.
fn under(mutant: Mutant, test: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
    activate(Some(mutant));
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(test));
    activate(None);
    result.unwrap_or_else(|_| Err("a panic".to_owned()))
}

/// Runs random writes with power cuts until one is noticed.
fn storms() -> Result<(), String> {
    (0..24).try_for_each(|seed| storm(seed, 60))
}

#[track_caller]
fn assert_noticed(mutant: Mutant, test: impl Fn() -> Result<(), String>) {
    assert_eq!(test(), Ok(()), "without the mutant");
    assert!(under(mutant, &test).is_err(), "{mutant:?} was not noticed");
}

/// Writes, trims and reads by BURST; the tables are checked after every step.
fn deletions() -> Result<(), String> {
    let volume = open(&create(16, 4096, "burst:c_max=1"));
    let mut expected = vec![vec![0; BLOCK]; 16];
    let mut set = |number: u64, bytes: Option<Vec<u8>>| -> Result<(), String> {
        let place = usize::try_from(number).expect("small");
        match bytes {
            Some(bytes) => {
                write(&volume, number, &bytes);
                expected[place] = bytes;
            }
            None => {
                volume.trim(number * 4096, 4096).map_err(|error| error.to_string())?;
                expected[place].fill(0);
            }
        }
        volume.audit()?;
        for (number, expected) in (0..).zip(&expected) {
            let bytes = read(&volume, number).map_err(|error| error.to_string())?;
            if bytes != *expected {
                return Err(format!("block {number}"));
            }
        }
        Ok(())
    };
    set(0, Some(made_of(1, 2, 3)))?;
    set(1, Some(made_of(1, 4, 3)))?;
    set(2, Some(made_of(1, 4, 3)))?;
    set(3, Some(made_of(1, 5, 9)))?;
    set(0, None)?;
    set(1, None)?;
    set(4, Some(made_of(1, 6, 3)))?;
    set(2, None)?;
    set(4, None)?;
    set(5, Some(made_of(1, 4, 3)))?;
    set(3, None)?;
    set(6, Some(made_of(1, 5, 9)))
}

#[test]
fn mutants_of_the_tables_are_noticed() {
    for mutant in [
        Mutant::ReleasesReferenceEachTime,
        Mutant::FreesPinned,
        Mutant::KeepsEntries,
        Mutant::NeverMakesRoom,
        Mutant::DropsExhausted,
        Mutant::KeepsFingerprint,
        Mutant::ForgetsDuplicates,
    ] {
        assert_noticed(mutant, deletions);
    }
}

#[test]
fn mutant_that_keeps_exhausted_entries_is_noticed() {
    assert_noticed(Mutant::KeepsExhausted, || {
        let volume = open(&create(16, 4096, "burst:c_max=1"));
        for number in 0..4_u8 {
            write(&volume, number.into(), &made_of(1, 10 + number, 20 + number));
        }
        let statistics = volume.statistics().map_err(|error| error.to_string())?;
        let bursts = statistics.burst_count;
        if bursts == 2 { Ok(()) } else { Err(format!("{bursts} bursts, expected 2")) }
    });
}

#[test]
fn mutant_that_insists_on_a_reference_is_noticed() {
    assert_noticed(Mutant::InsistsOnReference, || {
        let volume = with_damaged_block("burst", &made_of(1, 2, 3));
        volume.write(4096, &made_of(1, 4, 3)).map_err(|error| error.to_string())?;
        let statistics = volume.statistics().map_err(|error| error.to_string())?;
        let (fulls, cancelled) = (statistics.full_count, statistics.counters.cancelled_count);
        let is_right = read(&volume, 1).is_ok_and(|bytes| bytes == made_of(1, 4, 3));
        if is_right && (fulls, cancelled) == (2, 1) {
            Ok(())
        } else {
            Err(format!("{fulls} full blocks, {cancelled} cancelled"))
        }
    });
}

#[test]
fn mutant_that_does_not_pad_bursts_is_noticed() {
    assert_noticed(Mutant::StoresUnpadded, || {
        let volume = open(&create(8, 4096, "burst"));
        let mut similar = made_of(1, 2, 3);
        write(&volume, 0, &similar);
        let live = || volume.statistics().map(|it| it.live_bytes).map_err(|it| it.to_string());
        let before = live()?;
        similar[1000] = 9;
        write(&volume, 1, &similar);
        // A header has 128 bytes.
        let len = live()? - before;
        if len == 128 + 512 { Ok(()) } else { Err(format!("{len} bytes")) }
    });
}

#[test]
fn mutant_that_reads_a_reference_twice_is_noticed() {
    assert_noticed(Mutant::ReadsReferenceAgain, || {
        let (folder, volume) = opened_with_a_burst();
        let before = folder.read_count();
        read(&volume, 1).map_err(|error| error.to_string())?;
        let count = folder.read_count() - before;
        if count == 2 { Ok(()) } else { Err(format!("{count} reads")) }
    });
}

#[test]
fn mutants_of_the_log_are_noticed() {
    for mutant in [
        Mutant::SkipsSync,
        Mutant::SkipsNames,
        Mutant::TrustsTail,
        Mutant::IgnoresLaterSegments,
        Mutant::TrustsLeftovers,
        Mutant::DeletesLiveSegments,
        Mutant::PublishesEarly,
    ] {
        assert!(under(mutant, storms).is_err(), "{mutant:?} was not noticed");
    }
}

#[test]
fn mutants_of_the_layers_are_noticed() {
    for mutant in [
        Mutant::DropsZeros,
        Mutant::DropsFolded,
        Mutant::ReplacesUpper,
        Mutant::FoldsShared,
        Mutant::TakesOldest,
    ] {
        let lives = || {
            let _: u32 = (0..30).map(live).sum();
            Ok(())
        };
        assert!(under(mutant, lives).is_err(), "{mutant:?} was not noticed");
    }
}

#[test]
fn mutant_that_writes_no_summaries_is_noticed() {
    assert_noticed(Mutant::SkipsSummaries, || {
        bad_sector(&create(256, 4096, "exact"), &flip_headers)
    });
}

#[test]
fn mutant_that_keeps_records_whose_append_failed_is_noticed() {
    assert_noticed(Mutant::KeepsUnwritten, || refused_requests("exact"));
}

#[test]
fn mutant_that_trusts_the_remains_of_an_append_is_noticed() {
    assert_noticed(Mutant::TrustsRemains, || remains_of_a_refused_request("exact"));
}

#[test]
fn mutant_that_writes_a_change_once_is_noticed() {
    let flips = || {
        flip_change();
        Ok(())
    };
    assert!(under(Mutant::WritesOnce, flips).is_err(), "not noticed");
}

#[test]
fn mutant_that_drops_the_changes_of_a_failed_checkpoint_is_noticed() {
    assert_noticed(Mutant::DropsFrozen, || {
        let folder = create(8, 4096, "exact");
        let volume = open(&folder);
        write(&volume, 0, &block(1, BLOCK));
        folder.limit(Some(0));
        volume.checkpoint().expect_err("the storage is full");
        folder.limit(None);
        volume.checkpoint().map_err(|error| error.to_string())?;
        let volume = open(&folder);
        let bytes = read(&volume, 0).map_err(|error| error.to_string())?;
        if bytes == block(1, BLOCK) { Ok(()) } else { Err("a wrong value".to_owned()) }
    });
}

#[test]
fn mutants_of_damage_are_noticed() {
    assert!(under(Mutant::TrustsPages, || flips("burst", true)).is_err(), "TrustsPages");
    for mutant in [Mutant::TrustsPayload, Mutant::SkipsDamaged, Mutant::TrustsChecksums] {
        assert!(under(mutant, || flips("burst", false)).is_err(), "{mutant:?} was not noticed");
    }
}

#[test]
fn mutant_that_trusts_damaged_blocks_is_noticed() {
    assert_noticed(Mutant::TrustsDamaged, || {
        let folder = create(8, 4096, "exact");
        let volume = open(&folder);
        write(&volume, 0, &block(1, BLOCK));
        let names = cutpoint_volume::Folder::names(&folder).expect("names");
        let log = names.iter().find(|name| name.starts_with("segment-")).expect("a segment");
        folder.flip(log, 3000, 1);
        read(&volume, 0).expect_err("damaged");
        write(&volume, 0, &block(1, BLOCK));
        read(&volume, 0).map(drop).map_err(|error| error.to_string())
    });
}

#[test]
fn mutant_that_forgets_a_failed_sync_is_noticed() {
    assert_noticed(Mutant::ForgetsFailedSync, || {
        let folder = create(8, 4096, "exact");
        let volume = open(&folder);
        write(&volume, 0, &block(1, BLOCK));
        folder.fail_syncs(true);
        volume.flush().expect_err("the disk has failed");
        folder.fail_syncs(false);
        let flushed = volume.flush();
        if flushed.is_err() { Ok(()) } else { Err("a promise that cannot be kept".to_owned()) }
    });
}

/// The checkpoint is on the disk, and the end of the log that it refers to is not.
#[test]
fn mutant_whose_checkpoint_is_ahead_of_the_log_is_noticed() {
    let test = || {
        let mut run = Run::new(3);
        for _ in 0..40 {
            run.step()?;
            run.checkpoint()?;
            run.would_survive(Survival::Synced)?;
        }
        Ok(())
    };
    assert_noticed(Mutant::ChecksPointAhead, test);
}

#[test]
fn mutant_that_deletes_the_older_checkpoint_early_is_noticed() {
    let test = || {
        let folder = create(8, 4096, "exact");
        let volume = open(&folder);
        write(&volume, 0, &block(1, BLOCK));
        volume.flush().map_err(|error| error.to_string())?;
        // The new checkpoint is torn, in both copies. Its run has four pages.
        folder.limit(Some(4 * 8192 + 100));
        volume.checkpoint().expect_err("the folder is full");
        let volume =
            try_open(&folder.after_power_cut(Survival::All)).map_err(|it| it.to_string())?;
        read(&volume, 0).map(drop).map_err(|error| error.to_string())
    };
    assert_noticed(Mutant::DeletesCheckpointEarly, test);
}

#[test]
fn mutants_of_writes_at_once_are_noticed() {
    let is_noticed = |_| equal_blocks_at_once(Some(Mutant::LooksUpAhead)).is_err();
    assert!((0..50).any(is_noticed), "was not noticed");
    assert_noticed(Mutant::ReadsAddedFromLog, burst_on_a_block_of_its_request);
}

#[test]
fn mutant_that_forgets_freed_blocks_is_noticed() {
    assert_noticed(Mutant::ForgetsFreedBlocks, overwrite_during_a_checkpoint);
}

#[test]
fn mutant_that_reuses_segments_of_an_earlier_process_is_noticed() {
    assert_noticed(Mutant::ReusesOldDead, number_that_is_used_again);
    assert_noticed(Mutant::KeepsMerged, merge_part_by_part);
}

#[test]
fn random_power_cuts_continue() {
    let mut run = Run::new(77);
    for _ in 0..40 {
        run.step().expect("a step");
        run.random_part(Check::Continue).expect("no value is wrong");
    }
}
