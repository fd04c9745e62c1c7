//! Segments that are begun in the files of dead ones.

use std::collections::BTreeSet;

use cutpoint_testing::SplitMix64;
use cutpoint_volume::{Access, Folder, Kept, OpenOptions, Survival};

use crate::crash::{Check, Run};
use crate::support::{BLOCK, Opened, create, open, open_folder, read, shared, write};

/// All records of a segment but one have the newest contents of these blocks.
const BLOCK_COUNT: u64 = 15;
const RECORDS_PER_SEGMENT: u64 = 16;

#[test]
fn overwritten_segments_survive_every_power_cut() {
    let mut reuse_count = 0;
    for seed in 0..crate::support::seed_count(8) {
        let mut run = Run::new(seed);
        let mut numbers = SplitMix64::new(1000 + seed);
        for step in 0..150 {
            let at = |error| panic!("seed {seed}, step {step}: {error}");
            run.overwrite().unwrap_or_else(at);
            if numbers.below(6) == 0 {
                run.flush().unwrap_or_else(at);
            }
            run.would_survive(Survival::Synced).unwrap_or_else(at);
            run.would_survive(Survival::All).unwrap_or_else(at);
            (0..3).for_each(|_| run.random_part(Check::Try).unwrap_or_else(at));
            reuse_count += run.folder.reuse_count();
            match numbers.below(60) {
                0 => run.random_part(Check::Continue).unwrap_or_else(at),
                1 => run.cut(Survival::Synced).unwrap_or_else(at),
                2 => run.continue_in_new_process().unwrap_or_else(at),
                _ => {}
            }
        }
    }
    assert!(reuse_count > 500, "{reuse_count}");
}

/// Returns the content of a block, by the number of its write.
fn content(number: u64) -> Vec<u8> {
    SplitMix64::bytes(number, BLOCK)
}

/// Writes one block after the other, again and again.
fn write_in_turn(volume: &Opened, numbers: std::ops::Range<u64>) {
    numbers.for_each(|number| write(volume, number % BLOCK_COUNT, &content(number)));
}

/// Returns the number of segments.
fn segment_count(folder: &impl Folder) -> usize {
    let names = folder.names().expect("names");
    names.iter().filter(|name| name.starts_with("segment-")).count()
}

/// A power cut takes the new name of a segment, and leaves its records in the file of the dead one. The next
/// process begins a segment with the same number.
pub(crate) fn number_that_is_used_again() -> Result<(), String> {
    let folder = create(BLOCK_COUNT, 4096, "exact");
    // No checkpoint is due.
    let options = OpenOptions { reserve: 0, ..OpenOptions::new(Access::Write) };
    let volume = open_folder(shared(&folder), &options).expect("opened");
    let kept_count = 7 * RECORDS_PER_SEGMENT;
    write_in_turn(&volume, 0..kept_count - 8);
    assert!(volume.clean_if_due(&|| false).expect("cleaned"), "dead segments");
    write_in_turn(&volume, kept_count - 8..kept_count + 12);
    assert_eq!(folder.reuse_count(), 2, "the last segment is one of the dead ones");
    let survival = Survival::Part { bytes: &|_, _| Kept::First(usize::MAX), name: &|_| false };
    let folder = folder.after_power_cut(survival);

    let volume = open_folder(shared(&folder), &options).map_err(|error| error.to_string())?;
    assert!(volume.clean_if_due(&|| false).expect("cleaned"), "dead segments");
    let before: Vec<_> =
        (0..BLOCK_COUNT).map(|block| read(&volume, block).expect("read")).collect();
    for block in 0..5 {
        write(&volume, block, &content(1_000_000 + block));
    }
    volume.flush().map_err(|error| error.to_string())?;

    let volume = open(&folder.after_power_cut(Survival::Synced));
    for (block, before) in (0..).zip(before) {
        let expected = if block < 5 { content(1_000_000 + block) } else { before };
        if read(&volume, block).map_err(|error| error.to_string())? != expected {
            return Err(format!("block {block} has a lost value"));
        }
    }
    Ok(())
}

#[test]
fn records_of_a_lost_segment_do_not_count_in_a_later_one_of_the_same_number() {
    assert_eq!(number_that_is_used_again(), Ok(()));
}

#[test]
fn power_cut_before_every_call_of_overwriting_leaves_all_flushed_values() {
    let mut refused = BTreeSet::new();
    for count in 0.. {
        let mut run = Run::new(5);
        run.folder.cut_power_after(count);
        let is_over = (0..60).all(|_| run.overwrite().is_ok());
        let Some(call) = run.folder.refused() else {
            assert!(is_over, "a step has failed with power");
            break;
        };
        let at = |error| panic!("before call {count}, {call}: {error}");
        run.would_survive(Survival::Synced).unwrap_or_else(at);
        run.would_survive(Survival::All).unwrap_or_else(at);
        (0..3).for_each(|_| run.random_part(Check::Try).unwrap_or_else(at));
        refused.insert(call.split('-').next().expect("a kind").to_owned());
    }
    assert!(refused.contains("reuse segment"), "{refused:?}");
}

#[test]
fn spare_segments_count_as_space_and_go_once_no_client_writes() {
    let folder = create(BLOCK_COUNT, 4096, "exact");
    let options = OpenOptions { reserve: 0, ..OpenOptions::new(Access::Write) };
    let volume = open_folder(shared(&folder), &options).expect("opened");
    write_in_turn(&volume, 0..20 * RECORDS_PER_SEGMENT);
    let size = || {
        let names = folder.names().expect("names");
        names.iter().map(|name| folder.size(name).expect("a file")).sum::<u64>()
    };
    let mut counts = Vec::new();
    loop {
        let is_cleaned = volume.clean_if_due(&|| false).expect("cleaned");
        let physical = volume.statistics().expect("statistics").physical_bytes;
        assert_eq!(physical, size(), "the files as they are");
        counts.push(segment_count(&folder));
        if !is_cleaned {
            break;
        }
    }
    assert!(counts[0] >= 8 && counts[0] < 12, "some of twenty are kept: {counts:?}");
    assert!(counts.last().expect("one") <= &2, "none are kept: {counts:?}");
    // What is written in a spare segment takes no more space.
    write_in_turn(&volume, 0..10 * RECORDS_PER_SEGMENT);
    volume.clean_if_due(&|| false).expect("cleaned");
    let before = (size(), folder.reuse_count());
    write_in_turn(&volume, 0..3 * RECORDS_PER_SEGMENT);
    assert!(folder.reuse_count() > before.1 + 1, "spare segments are used");
    assert!(size() < before.0 + 80 * 1024, "{} bytes, {} before", size(), before.0);
}

/// Another program fills the storage while a volume has spare segments.
#[test]
fn spare_segments_make_room_for_trims_and_checkpoints_in_a_full_storage() {
    let folder = create(BLOCK_COUNT, 4096, "exact");
    let options = OpenOptions { reserve: 0, ..OpenOptions::new(Access::Write) };
    let volume = open_folder(shared(&folder), &options).expect("opened");
    let fill = |first: u64| {
        folder.limit(None);
        write_in_turn(&volume, first..first + 20 * RECORDS_PER_SEGMENT);
        volume.clean_if_due(&|| false).expect("cleaned");
        write_in_turn(&volume, first..first + 1);
        assert!(segment_count(&folder) >= 8, "some are spare ones");
        folder.limit(Some(0));
    };
    fill(0);
    for block in 0..BLOCK_COUNT {
        volume.trim(block * BLOCK as u64, BLOCK as u64).expect("trimmed");
    }
    assert!(segment_count(&folder) < 8, "the spare ones are deleted");
    assert_eq!(read(&volume, 7).expect("read"), vec![0; BLOCK]);
    fill(20 * RECORDS_PER_SEGMENT);
    volume.checkpoint().expect("written");
    assert!(segment_count(&folder) < 8, "the spare ones are deleted");
}

#[test]
fn volume_opened_for_reading_changes_nothing_even_without_room() {
    let folder = create(BLOCK_COUNT, 4096, "exact");
    let options = OpenOptions { reserve: 0, ..OpenOptions::new(Access::Write) };
    let volume = open_folder(shared(&folder), &options).expect("opened");
    write_in_turn(&volume, 0..5 * RECORDS_PER_SEGMENT);
    let folder = folder.after_power_cut(Survival::All);
    let sizes = || {
        let names = folder.names().expect("names");
        names.into_iter().map(|name| (folder.size(&name).expect("a file"), name)).collect()
    };
    let before: Vec<_> = sizes();
    let options = OpenOptions { limit: Some(1), reserve: 0, ..OpenOptions::new(Access::Read) };
    let volume = open_folder(shared(&folder), &options).expect("opened");
    volume.write(0, &content(1)).expect_err("opened for reading");
    assert_eq!(sizes(), before);
}
