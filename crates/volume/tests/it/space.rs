//! The space that files take: after trimming, at a limit, and on a storage that gets full.

use cutpoint_testing::SplitMix64;
use cutpoint_volume::{Folder, Kind, OpenOptions, Survival};

use crate::support::{BLOCK, Opened, create, open, open_folder, options, read, shared, write};

const BLOCK_COUNT: u64 = 1500;
const SEGMENT: u64 = 64 * 1024;

/// Returns a block that resembles nine others in its beginning and its end.
fn similar(number: u64) -> Vec<u8> {
    let mut bytes = SplitMix64::bytes(number / 10, BLOCK);
    let start = 1000 + usize::try_from(number % 10).expect("small") * 100;
    let len = 64 + usize::try_from(number % 7).expect("small") * 64;
    bytes[start..start + len].copy_from_slice(&SplitMix64::bytes(number + 1_000_000, len));
    bytes
}

fn physical(opened: &Opened) -> u64 {
    opened.statistics().expect("statistics").physical_bytes
}

/// After trimming nine of ten blocks, files take little more than those of a volume to which only the
/// tenth was written.
#[test]
fn trimmed_volume_shrinks_to_what_is_live() {
    for (mode, is_last) in [
        ("off", false),
        ("exact", false),
        ("burst", false),
        ("burst", true),
        ("delta", false),
        ("delta", true),
    ] {
        // The last block of ten is a burst or a delta on a block that is trimmed.
        let kept: u64 = if is_last { 9 } else { 0 };
        let is_kept = |number: u64| number % 10 == kept;
        let (folder, fresh) = (create(BLOCK_COUNT, 4096, mode), create(BLOCK_COUNT, 4096, mode));
        let (volume, fresh) = (open(&folder), open(&fresh));
        (0..BLOCK_COUNT).for_each(|number| write(&volume, number, &similar(number)));
        for number in (0..BLOCK_COUNT).filter(|number| is_kept(*number)) {
            write(&fresh, number, &similar(number));
        }
        for number in (0..BLOCK_COUNT).filter(|number| !is_kept(*number)) {
            volume.trim(number * 4096, 4096).expect("trimmed");
        }
        fresh.clean().expect("cleaned");
        volume.clean().expect("cleaned");
        let (physical, expected) = (physical(&volume), physical(&fresh));
        let limit = expected * 6 / 5 + SEGMENT;
        let now = volume.statistics().expect("statistics");
        assert!(
            physical <= limit,
            "{mode}, {is_last}: {physical} bytes, {expected} when fresh; {now:?}"
        );
        assert_eq!(volume.audit(), Ok(()), "the tables");
        for volume in [volume, open(&folder.after_power_cut(Survival::Synced))] {
            for number in 0..BLOCK_COUNT {
                let bytes = read(&volume, number).expect("read");
                let expected = if is_kept(number) { similar(number) } else { vec![0; BLOCK] };
                assert_eq!(bytes, expected, "block {number}");
            }
        }
    }
}

/// Returns a block that resembles nineteen others, but for 400 bytes at four places.
fn scattered(number: u64) -> Vec<u8> {
    let mut bytes = SplitMix64::bytes(number / 20, BLOCK);
    for (part, start) in (0..).zip([600, 1300, 2000, 3000]) {
        let own = SplitMix64::bytes(1_000_000 + 4 * number + part, 400);
        bytes[start..start + 400].copy_from_slice(&own);
    }
    bytes
}

/// One or two deltas are left of each twenty blocks, and the block that they need is trimmed.
#[test]
fn large_deltas_do_not_keep_the_trimmed_blocks_that_they_need() {
    for first_kept in [19, 18] {
        let is_kept = |number: u64| number % 20 >= first_kept;
        let kept = || (0..BLOCK_COUNT).filter(|number| is_kept(*number));
        let (folder, fresh) =
            (create(BLOCK_COUNT, 4096, "delta"), create(BLOCK_COUNT, 4096, "delta"));
        let (volume, fresh) = (open(&folder), open(&fresh));
        (0..BLOCK_COUNT).for_each(|number| write(&volume, number, &scattered(number)));
        kept().for_each(|number| write(&fresh, number, &scattered(number)));
        for number in (0..BLOCK_COUNT).filter(|number| !is_kept(*number)) {
            volume.trim(number * 4096, 4096).expect("trimmed");
        }
        let pinned_count = volume.statistics().expect("statistics").pinned_count;
        assert_eq!(pinned_count, BLOCK_COUNT / 20, "one of twenty");
        fresh.clean().expect("cleaned");
        volume.clean().expect("cleaned");
        let now = volume.statistics().expect("statistics");
        assert_eq!(now.pinned_count, 0, "{now:?}");
        for live in [physical(&fresh), now.live_bytes] {
            assert!(now.physical_bytes <= live * 6 / 5 + SEGMENT, "{live} bytes are live; {now:?}");
        }
        assert_eq!(volume.audit(), Ok(()), "the tables");
        for volume in [volume, open(&folder.after_power_cut(Survival::Synced))] {
            for number in kept() {
                assert_eq!(read(&volume, number).expect("read"), scattered(number), "{number}");
            }
        }
    }
}

/// Of each four blocks two are left, which are deltas on both others.
#[test]
fn deltas_on_two_trimmed_blocks_do_not_keep_these() {
    let content = |number: u64| {
        let of = |block: u64| SplitMix64::bytes(number / 4 * 2 + block, BLOCK);
        let mut bytes = of(number % 2);
        if number % 4 > 1 {
            bytes = [&of(0)[..2000], &of(1)[2000..]].concat();
            let own = SplitMix64::bytes(1_000_000 + number, 100);
            bytes[900..1000].copy_from_slice(&own);
            bytes[3000..3100].copy_from_slice(&own);
        }
        bytes
    };
    let folder = create(BLOCK_COUNT, 4096, "delta");
    let volume = open(&folder);
    (0..BLOCK_COUNT).for_each(|number| write(&volume, number, &content(number)));
    let kept = || (0..BLOCK_COUNT).filter(|number| number % 4 > 1);
    assert_eq!(volume.statistics().expect("statistics").delta_count, BLOCK_COUNT / 2);
    for number in (0..BLOCK_COUNT).filter(|number| number % 4 < 2) {
        volume.trim(number * 4096, 4096).expect("trimmed");
    }
    assert_eq!(volume.statistics().expect("statistics").pinned_count, BLOCK_COUNT / 2);
    volume.clean().expect("cleaned");
    let now = volume.statistics().expect("statistics");
    assert_eq!(now.pinned_count, 0, "{now:?}");
    // One of the two blocks of each group is whole, and the other one a burst of 2,200 bytes or less.
    let live = BLOCK_COUNT / 4 * (4096 + 2560 + 512);
    assert!(now.physical_bytes <= live * 6 / 5 + SEGMENT, "{live} bytes are live; {now:?}");
    assert_eq!(volume.audit(), Ok(()), "the tables");
    for volume in [volume, open(&folder.after_power_cut(Survival::Synced))] {
        for number in kept() {
            assert_eq!(read(&volume, number).expect("read"), content(number), "{number}");
        }
    }
}

/// The dead bytes of three segments are not worth a cleaning while clients write.
#[test]
fn few_dead_bytes_are_freed_once_no_client_writes() {
    let folder = create(BLOCK_COUNT, 4096, "exact");
    let volume = open(&folder);
    for number in 0..60 {
        write(&volume, number, &similar(number * 10));
    }
    volume.trim(6 * 4096, 54 * 4096).expect("trimmed");
    let is_cleaned = || volume.clean_if_due(&|| false).expect("looked");
    assert!(!is_cleaned(), "a client has written");
    assert!(is_cleaned(), "no client has written");
    assert!(!is_cleaned(), "nothing has changed");
    let statistics = volume.statistics().expect("statistics");
    let log = statistics.physical_bytes - statistics.table_bytes;
    let limit = statistics.live_bytes * 6 / 5 + SEGMENT;
    // Superblocks and checkpoints have less than 16 KiB.
    assert!(log <= limit + 16 * 1024, "{statistics:?}");
    (0..6).for_each(|number| {
        assert_eq!(read(&volume, number).expect("read"), similar(number * 10), "{number}");
    });
}

#[test]
fn zeros_of_whole_blocks_need_no_room() {
    let folder = create(BLOCK_COUNT, 4096, "exact");
    let options = OpenOptions { reserve: 8 * SEGMENT, ..options() };
    let volume = open_folder(shared(&folder), &options).expect("opened");
    volume.write_zeroes(4096, 1 << 20).expect("nothing was written before");
    folder.limit(Some(3 * 1024 * 1024));
    fill(&volume);
    volume.write_zeroes(0, 1 << 20).expect("the storage is full");
    assert_eq!(read(&volume, 1).expect("read"), vec![0; BLOCK]);
}

/// Writes blocks until one is refused, and returns their number.
fn fill(opened: &Opened) -> u64 {
    for number in 0..BLOCK_COUNT {
        if let Err(error) = opened.write(number * 4096, &similar(number * 10)) {
            assert_eq!(error.kind(), Kind::Full, "{error}");
            return number;
        }
    }
    panic!("every block was written");
}

#[test]
fn limit_refuses_writes_and_leaves_the_rest_to_be_read_trimmed_and_cleaned() {
    let folder = create(BLOCK_COUNT, 4096, "exact");
    let limit = Some(3 * 1024 * 1024);
    let volume = open_folder(shared(&folder), &OpenOptions { limit, ..options() }).expect("opened");
    let count = fill(&volume);
    assert!((500..800).contains(&count), "{count} blocks");
    for number in 0..count {
        assert_eq!(read(&volume, number).expect("read"), similar(number * 10), "block {number}");
    }
    volume.trim(0, count / 2 * 4096).expect("trimmed");
    volume.clean().expect("cleaned");
    write(&volume, 0, &similar(1));
    assert_eq!(read(&volume, count - 1).expect("read"), similar(count * 10 - 10), "the last one");
}

#[test]
fn reserve_of_a_full_storage_is_enough_to_clean() {
    let folder = create(BLOCK_COUNT, 4096, "exact");
    let options = OpenOptions { reserve: 8 * SEGMENT, ..options() };
    let volume = open_folder(shared(&folder), &options).expect("opened");
    folder.limit(Some(3 * 1024 * 1024));
    let count = fill(&volume);
    volume.flush().expect("flushed");
    // Three of four blocks are dead, in every segment.
    for number in (0..count).filter(|number| number % 4 != 0) {
        volume.trim(number * 4096, 4096).expect("trimmed");
    }
    volume.clean().expect("there is room for the blocks that are moved");
    let names = folder.names().expect("names");
    let sizes = names.iter().map(|name| folder.size(name).expect("a size"));
    assert!(sizes.sum::<u64>() < 2 * 1024 * 1024, "the files have shrunk");
    for number in (0..count).step_by(4) {
        assert_eq!(read(&volume, number).expect("read"), similar(number * 10), "block {number}");
    }
}

#[test]
fn overwriting_within_a_limit_waits_for_cleaning_and_is_never_refused() {
    const USED: u64 = 400;
    let folder = create(USED, 4096, "exact");
    let limit = Some(3 * 1024 * 1024);
    let volume = open_folder(shared(&folder), &OpenOptions { limit, ..options() }).expect("opened");
    let mut last = vec![0; usize::try_from(USED).expect("small")];
    let mut numbers = SplitMix64::new(3);
    for round in 0..4000_u64 {
        let block = numbers.below(last.len());
        last[block] = 1_000_000 + round * 10;
        write(&volume, block as u64, &similar(last[block]));
    }
    for (block, content) in (0..).zip(last).filter(|(_, content)| *content > 0) {
        assert_eq!(read(&volume, block).expect("read"), similar(content), "block {block}");
    }
    assert_eq!(volume.audit(), Ok(()));
}
