//! Blocks that are written in parts.

use cutpoint_volume::{Folder, Kept, OpenOptions, Survival};

use crate::burst::{made_of, statistics};
use crate::support::{BLOCK, Opened, create, open, open_folder, options, read, shared, write};

fn parts(volume: &Opened, block: u64, bytes: &[u8], len: usize) {
    for (index, part) in bytes.chunks(len).enumerate() {
        volume.write(block * BLOCK as u64 + (index * len) as u64, part).expect("written");
    }
}

#[test]
fn block_that_is_written_in_parts_is_stored_once() {
    let folder = create(8, 4096, "exact");
    let volume = open(&folder);
    parts(&volume, 0, &made_of(1, 2, 3), 512);
    parts(&volume, 1, &made_of(1, 2, 3), 500);
    assert_eq!(read(&volume, 0).expect("read"), made_of(1, 2, 3));
    assert_eq!(read(&volume, 1).expect("read"), made_of(1, 2, 3));
    volume.flush().expect("flushed");
    let counters = statistics(&volume).counters;
    assert_eq!((counters.full_count, counters.duplicate_count), (1, 1));
}

#[test]
fn part_of_a_block_is_visible_at_once_and_durable_after_a_flush() {
    let folder = create(8, 4096, "exact");
    let volume = open(&folder);
    write(&volume, 2, &made_of(1, 2, 3));
    volume.write(2 * 4096 + 100, &[7; 200]).expect("written");
    let mut expected = made_of(1, 2, 3);
    expected[100..300].fill(7);
    assert_eq!(read(&volume, 2).expect("read"), expected);
    let mut across = vec![0; 2 * BLOCK];
    volume.read(2 * 4096 - 2048, &mut across).expect("read");
    assert_eq!(across[2048..2048 + BLOCK], expected);
    volume.flush().expect("flushed");
    let volume = open(&folder.after_power_cut(Survival::Synced));
    assert_eq!(read(&volume, 2).expect("read"), expected);
}

#[test]
fn later_writes_are_behind_a_part_of_another_block() {
    let folder = create(8, 4096, "exact");
    let volume = open(&folder);
    volume.write(100, &[7; 200]).expect("written");
    write(&volume, 1, &made_of(1, 2, 3));
    let volume = open(&folder.after_power_cut(Survival::All));
    assert_eq!(read(&volume, 1).expect("read"), made_of(1, 2, 3));
    assert_eq!(read(&volume, 0).expect("read")[100..300], [7; 200]);
}

#[test]
fn whole_write_and_trim_replace_a_part_and_a_snapshot_has_it() {
    let folder = create(8, 4096, "exact");
    let volume = open(&folder);
    volume.write(0, &[1; 10]).expect("written");
    write(&volume, 0, &made_of(1, 2, 3));
    assert_eq!(read(&volume, 0).expect("read"), made_of(1, 2, 3));
    volume.write(4096, &[1; 10]).expect("written");
    volume.trim(4096, 4096).expect("trimmed");
    assert_eq!(read(&volume, 1).expect("read"), vec![0; BLOCK]);
    volume.write(2 * 4096, &[9; 10]).expect("written");
    volume.snapshot("main", "part").expect("a snapshot");
    volume.write(2 * 4096, &[8; 10]).expect("written");
    let snapshot = cutpoint_volume::Disk::open(&volume.volume, "main@part").expect("a snapshot");
    let mut bytes = [0; 10];
    snapshot.read(2 * 4096, &mut bytes).expect("read");
    assert_eq!(bytes, [9; 10]);
    assert_eq!(read(&volume, 2).expect("read")[..10], [8; 10]);
    assert_eq!(volume.audit(), Ok(()));
}

#[test]
fn part_waits_for_space_and_reads_and_trims_go_on() {
    let folder = create(64, 4096, "exact");
    let options = OpenOptions { memory: 8 << 20, ..options() };
    let volume = open_folder(shared(&folder), &options).expect("opened");
    write(&volume, 0, &made_of(1, 2, 3));
    volume.write(4096, &[7; 100]).expect("written");
    folder.limit(Some(100));
    volume.flush().expect_err("the storage is full");
    assert_eq!(read(&volume, 1).expect("read")[..100], [7; 100]);
    folder.limit(Some(300));
    volume.trim(0, 4096).expect("two headers of 128 bytes fit");
    folder.limit(None);
    volume.flush().expect("flushed");
    let names = folder.names().expect("names");
    assert!(names.iter().any(|name| name.starts_with("segment-")), "{names:?}");
    let volume = open_folder(shared(&folder.after_power_cut(Survival::Synced)), &options);
    let volume = volume.expect("opened");
    assert_eq!(read(&volume, 1).expect("read")[..100], [7; 100]);
    assert_eq!(read(&volume, 0).expect("read"), vec![0; BLOCK]);
}

/// A power cut tears a request of several blocks, one of which was written in part before.
#[test]
fn torn_request_does_not_take_an_older_part_of_its_blocks() {
    for mode in ["exact", "burst"] {
        let folder = create(16, 4096, mode);
        let volume = open(&folder);
        volume.write(5 * 4096 + 100, &[7; 200]).expect("written");
        let request: Vec<u8> = (1..6).flat_map(|number| made_of(number, 2, number)).collect();
        volume.write(3 * 4096, &request).expect("written");
        for len in (0..32 * 1024).step_by(128) {
            let survival = Survival::Part { bytes: &|_, _| Kept::First(len), name: &|_| true };
            let volume = open(&folder.after_power_cut(survival));
            let block = |number| read(&volume, number).expect("read");
            let has_fifth = block(5) == made_of(3, 2, 3) || block(5)[100..300] == [7; 200];
            assert!(block(3) != made_of(1, 2, 1) || has_fifth, "{mode}, {len} bytes");
        }
    }
}
