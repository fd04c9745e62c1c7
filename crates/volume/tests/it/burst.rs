//! The rules of BURST: what is stored, and what a deletion leaves.

use cutpoint_testing::SplitMix64;
use cutpoint_volume::{FaultyFolder, Statistics, Survival};

use crate::damage::with_damaged_block;
use crate::support::{BLOCK, Opened, block, create, open, read, write};

/// Returns a block with the given head, middle and tail.
pub(crate) fn made_of(head: u8, middle: u8, tail: u8) -> Vec<u8> {
    let edge = BLOCK / 8;
    let mut bytes = vec![middle; BLOCK];
    bytes[..edge].fill(head);
    bytes[BLOCK - edge..].fill(tail);
    // An equal byte must not continue an edge.
    bytes[edge] = middle ^ 0x80;
    bytes[BLOCK - edge - 1] = middle ^ 0x80;
    bytes
}

pub(crate) fn statistics(volume: &Opened) -> Statistics {
    volume.statistics().expect("statistics")
}

fn stored(volume: &Opened) -> (u64, u64) {
    let statistics = statistics(volume);
    (statistics.full_count, statistics.burst_count)
}

#[test]
fn similar_block_is_a_burst_padded_to_sectors() {
    let volume = open(&create(8, 4096, "burst"));
    let reference = made_of(1, 2, 3);
    write(&volume, 0, &reference);
    let mut similar = reference.clone();
    similar[1000] = 9;
    write(&volume, 1, &similar);
    let mut other = reference.clone();
    other[1000..1600].fill(9);
    write(&volume, 2, &other);
    let statistics = statistics(&volume);
    assert_eq!((statistics.full_count, statistics.burst_count), (1, 2));
    assert_eq!(statistics.burst_bytes, 512 + 1024);
    assert_eq!(read(&volume, 1).expect("read"), similar);
    assert_eq!(read(&volume, 2).expect("read"), other);
}

/// Returns a volume that was opened again, whose second block is a burst on the first, made of (1, 4, 3)
/// and (1, 2, 3).
pub(crate) fn opened_with_a_burst() -> (FaultyFolder, Opened) {
    let folder = create(8, 4096, "burst");
    let volume = open(&folder);
    write(&volume, 0, &made_of(1, 2, 3));
    write(&volume, 1, &made_of(1, 4, 3));
    drop(volume);
    let volume = open(&folder);
    (folder, volume)
}

#[test]
fn block_is_read_with_at_most_two_reads_of_the_folder() {
    let (folder, volume) = opened_with_a_burst();
    for (block, reads) in [(0, 1), (1, 2), (2, 0)] {
        let before = folder.read_count();
        read(&volume, block).expect("read");
        assert_eq!(folder.read_count() - before, reads, "block {block}");
    }
}

#[test]
fn reference_block_and_parts_of_a_block_are_read_once() {
    let (folder, volume) = opened_with_a_burst();
    let before = folder.read_count();
    for offset in (4096..8192).step_by(512) {
        let mut part = [0; 512];
        volume.read(offset, &mut part).expect("read");
        let start = usize::try_from(offset - 4096).expect("small");
        assert_eq!(part, made_of(1, 4, 3)[start..start + 512], "{offset}");
    }
    assert_eq!(folder.read_count() - before, 2);
    // Both blocks are similar to the first one.
    write(&volume, 2, &made_of(1, 5, 3));
    let before = folder.read_count();
    write(&volume, 3, &made_of(1, 6, 3));
    assert_eq!(folder.read_count() - before, 0);
    volume.write(3 * 4096 + 100, &[9; 50]).expect("written");
    let mut expected = made_of(1, 6, 3);
    expected[100..150].fill(9);
    assert_eq!(read(&volume, 3).expect("read"), expected);
}

#[test]
fn reference_block_is_found_by_its_tail_if_not_by_its_head() {
    let volume = open(&create(8, 4096, "burst"));
    write(&volume, 0, &made_of(1, 2, 3));
    write(&volume, 1, &made_of(4, 5, 3));
    assert_eq!(statistics(&volume).counters.hit_count, [0, 1]);
    assert_eq!(read(&volume, 1).expect("read"), made_of(4, 5, 3));
}

#[test]
fn bursts_are_counted_by_the_length_of_their_new_bytes() {
    let folder = create(8, 4096, "burst");
    let volume = open(&folder);
    let old = block(1, BLOCK);
    write(&volume, 0, &old);
    for (number, len) in (1..).zip([1, 512, 513, 1024, 2048, 2049]) {
        let mut new = old.clone();
        new[600..600 + len].iter_mut().for_each(|byte| *byte ^= 0xFF);
        write(&volume, number, &new);
    }
    volume.flush().expect("flushed");
    for volume in [&volume, &open(&folder.after_power_cut(Survival::Synced))] {
        let counters = statistics(volume).counters;
        assert_eq!(counters.burst_len_counts, [2, 2, 1, 1]);
        assert_eq!(counters.burst_bytes, 1 + 512 + 513 + 1024 + 2048 + 2049);
    }
}

/// Listing 2 returns without storing the block; a burst per entry, and the newer block takes over.
#[test]
fn block_with_exhausted_reference_is_stored_whole_and_takes_over() {
    let volume = open(&create(8, 4096, "burst:c_max=1"));
    for (block, middle) in [(0, 10), (1, 20), (2, 30), (3, 40)] {
        write(&volume, block, &made_of(1, middle, middle + 1));
    }
    // 0 is whole, 1 is a burst on it, 2 is whole again, 3 is a burst on 2.
    assert_eq!(stored(&volume), (2, 2));
    let counters = statistics(&volume).counters;
    assert_eq!((counters.exhausted_count, counters.replaced_count), ([1, 0], [1, 0]));
    volume.trim(0, 4096).expect("trimmed");
    volume.trim(2 * 4096, 4096).expect("trimmed");
    assert_eq!(statistics(&volume).pinned_count, 2, "both have a burst");
    for (block, middle) in [(1, 20), (3, 40)] {
        assert_eq!(read(&volume, block).expect("read"), made_of(1, middle, middle + 1));
    }
    assert_eq!(volume.audit(), Ok(()));
}

/// Listings 3 and 5 count a duplicate of a burst at the burst only, and delete it at both.
#[test]
fn duplicate_of_a_burst_keeps_the_reference_block() {
    let volume = open(&create(8, 4096, "burst"));
    let (reference, similar) = (made_of(1, 2, 3), made_of(1, 4, 3));
    write(&volume, 0, &reference);
    write(&volume, 1, &similar);
    write(&volume, 2, &similar);
    assert_eq!(stored(&volume), (1, 1));
    volume.trim(0, 4096).expect("the reference block");
    volume.trim(4096, 4096).expect("one of the two");
    assert_eq!(read(&volume, 2).expect("the other one"), similar);
    volume.trim(2 * 4096, 4096).expect("the other one");
    assert_eq!(stored(&volume), (0, 0));
    assert_eq!(statistics(&volume).view_count, [0, 0]);
}

#[test]
fn pinned_reference_block_is_a_duplicate_when_it_is_written_again() {
    let volume = open(&create(8, 4096, "burst"));
    write(&volume, 0, &made_of(1, 2, 3));
    write(&volume, 1, &made_of(1, 4, 3));
    volume.trim(0, 4096).expect("trimmed");
    assert_eq!(statistics(&volume).pinned_count, 1);
    write(&volume, 5, &made_of(1, 2, 3));
    let now = statistics(&volume);
    assert_eq!((now.full_count, now.pinned_count, now.counters.duplicate_count), (1, 0, 1));
    assert_eq!(read(&volume, 5).expect("read"), made_of(1, 2, 3));
}

#[test]
fn deleted_burst_makes_room_for_another() {
    let volume = open(&create(8, 4096, "burst:c_max=1"));
    write(&volume, 0, &made_of(1, 2, 3));
    write(&volume, 1, &made_of(1, 4, 3));
    volume.trim(4096, 4096).expect("trimmed");
    write(&volume, 1, &made_of(1, 5, 3));
    assert_eq!(stored(&volume), (1, 1));
}

#[test]
fn entries_leave_all_tables_with_their_block() {
    let volume = open(&create(8, 4096, "burst"));
    write(&volume, 0, &made_of(1, 2, 3));
    volume.trim(0, 4096).expect("trimmed");
    write(&volume, 1, &made_of(1, 4, 3));
    assert_eq!(stored(&volume), (1, 0));
    assert_eq!(read(&volume, 1).expect("read"), made_of(1, 4, 3));
    write(&volume, 2, &made_of(1, 5, 3));
    volume.trim(2 * 4096, 4096).expect("a burst");
    write(&volume, 3, &made_of(1, 5, 3));
    assert_eq!(read(&volume, 3).expect("read"), made_of(1, 5, 3));
    assert_eq!(volume.audit(), Ok(()));
}

#[test]
fn burst_that_is_not_smaller_than_its_block_is_stored_whole() {
    let volume = open(&create(8, 4096, "burst:tau=64"));
    let block = made_of(1, 2, 3);
    write(&volume, 0, &block);
    let mut other = vec![7; BLOCK];
    other[..64].copy_from_slice(&block[..64]);
    write(&volume, 1, &other);
    assert_eq!(stored(&volume), (2, 0));
}

#[test]
fn mode_applies_to_later_writes_only() {
    let volume = open(&create(8, 4096, "off"));
    let block = made_of(1, 2, 3);
    write(&volume, 0, &block);
    write(&volume, 1, &block);
    assert_eq!(stored(&volume), (2, 0), "off");
    volume.set_mode("exact".parse().expect("a mode")).expect("set");
    write(&volume, 2, &block);
    write(&volume, 3, &block);
    write(&volume, 4, &made_of(1, 4, 3));
    assert_eq!(stored(&volume), (4, 0), "exact");
    volume.set_mode("burst".parse().expect("a mode")).expect("set");
    write(&volume, 5, &made_of(1, 5, 3));
    assert_eq!(stored(&volume), (5, 0), "no block has entered HeadDT");
    write(&volume, 6, &made_of(1, 6, 3));
    assert_eq!(stored(&volume), (5, 1), "burst");
}

#[test]
fn cleaner_stores_bursts_anew_that_alone_need_their_reference_block() {
    for (bursts, expected) in [(1, (1, 0)), (3, (1, 2))] {
        let folder = create(16, 4096, "burst");
        let volume = open(&folder);
        write(&volume, 0, &made_of(1, 2, 3));
        for number in 1..=bursts {
            write(&volume, number.into(), &made_of(1, 10 + number, 3));
        }
        assert_eq!(stored(&volume), (1, u64::from(bursts)));
        volume.trim(0, 4096).expect("trimmed");
        assert_eq!(statistics(&volume).pinned_count, 1);
        volume.clean().expect("cleaned");
        let now = statistics(&volume);
        assert_eq!((now.full_count, now.burst_count), expected, "{bursts} bursts");
        assert_eq!(now.pinned_count, 0, "{bursts} bursts");
        assert_eq!(volume.audit(), Ok(()), "the tables");
        for volume in [&volume, &open(&folder)] {
            for number in 1..=bursts {
                let bytes = read(volume, number.into()).expect("read");
                assert_eq!(bytes, made_of(1, 10 + number, 3), "block {number}");
            }
        }
    }
}

#[test]
fn delta_finds_bytes_that_have_moved_and_bytes_of_several_blocks() {
    let volume = open(&create(16, 4096, "delta"));
    let (one, other) = (SplitMix64::bytes(1, BLOCK), SplitMix64::bytes(2, BLOCK));
    write(&volume, 0, &one);
    write(&volume, 1, &other);
    let shifted = [&[7; 3], &one[..BLOCK - 3]].concat();
    write(&volume, 2, &shifted);
    write(&volume, 4, &shifted);
    volume.snapshot("main", "first").expect("taken");
    // Features find the one block, the snapshot has the other.
    let of_both = [&other[..3700], &one[1000..1396]].concat();
    write(&volume, 0, &of_both);
    let now = statistics(&volume);
    assert_eq!((now.full_count, now.delta_count), (2, 2));
    assert_eq!(now.counters.burst_duplicate_count, 1);
    assert_eq!(now.delta_bytes, 1024, "a sector each");
    for (number, expected) in [(0, &of_both), (2, &shifted), (4, &shifted)] {
        assert_eq!(&read(&volume, number).expect("read"), expected, "block {number}");
    }
    volume.delete("main@first").expect("deleted");
    volume.clean().expect("cleaned");
    assert_eq!(read(&volume, 0).expect("read"), of_both);
    volume.trim(0, 8 * 4096).expect("trimmed");
    let now = statistics(&volume);
    assert_eq!((now.full_count, now.delta_count, now.feature_count), (0, 0, 0));
}

#[test]
fn delta_is_made_on_what_a_snapshot_keeps() {
    let volume = open(&create(16, 4096, "delta"));
    // Too uniform to have features.
    let mut block = vec![1; BLOCK];
    write(&volume, 0, &block);
    volume.snapshot("main", "first").expect("taken");
    block[77] = 5;
    write(&volume, 0, &block);
    let now = statistics(&volume);
    assert_eq!((now.full_count, now.delta_count), (1, 1));
    assert_eq!(read(&volume, 0).expect("read"), block);
}

#[test]
fn block_whose_reference_block_cannot_be_read_is_stored_whole_and_takes_over() {
    for mode in ["burst", "burst-head", "burst-raw", "burst-head-raw"] {
        let volume = with_damaged_block(mode, &made_of(1, 2, 3));
        write(&volume, 1, &made_of(1, 4, 3));
        assert_eq!(stored(&volume), (2, 0), "{mode}");
        write(&volume, 2, &made_of(1, 5, 3));
        assert_eq!(stored(&volume), (2, 1), "{mode}: a burst on the intact block");
        assert_eq!(statistics(&volume).counters.cancelled_count, 1, "{mode}");
        assert_eq!(read(&volume, 1).expect("read"), made_of(1, 4, 3), "{mode}");
        assert_eq!(read(&volume, 2).expect("read"), made_of(1, 5, 3), "{mode}");
        assert_eq!(volume.audit(), Ok(()), "{mode}");
    }
}

#[test]
fn burst_by_its_tail_is_counted_as_cancelled_if_the_block_of_its_head_cannot_be_read() {
    let volume = with_damaged_block("burst", &made_of(1, 2, 3));
    write(&volume, 1, &made_of(7, 8, 9));
    write(&volume, 2, &made_of(1, 4, 9));
    let now = statistics(&volume);
    assert_eq!((now.full_count, now.burst_count), (2, 1));
    assert_eq!((now.counters.hit_count, now.counters.cancelled_count), ([0, 1], 1));
    assert_eq!(read(&volume, 2).expect("read"), made_of(1, 4, 9));
}
