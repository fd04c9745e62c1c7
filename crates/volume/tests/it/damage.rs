//! Flipped bits: no wrong value, and an error of the blocks concerned alone.

use std::collections::BTreeSet;

use cutpoint_testing::SplitMix64;
use cutpoint_volume::{FaultyFolder, Finding, Folder, Kind, OpenOptions, Survival};

use crate::burst::made_of;
use crate::support::{
    BLOCK, Opened, block, create, create_encrypted, open, open_folder, options, read, secret,
    shared, try_open, write,
};

const BLOCK_COUNT: u64 = 16;

/// Returns a volume with full blocks, bursts, duplicates and zeros, and its blocks.
fn filled(mode: &str, is_checkpointed: bool) -> (FaultyFolder, Vec<Vec<u8>>) {
    let folder = create(BLOCK_COUNT, 4096, mode);
    let volume = open(&folder);
    let blocks: Vec<Vec<u8>> =
        (0..BLOCK_COUNT).map(|number| block(number * 7 + 1, BLOCK)).collect();
    for (number, block) in (0..).zip(&blocks) {
        write(&volume, number, block);
    }
    volume.trim(3 * 4096, 4096).expect("trimmed");
    volume.flush().expect("flushed");
    // The last record tells that those before it were durable.
    write(&volume, 15, &blocks[15]);
    write(&volume, 15, &made_of(9, 9, 9));
    volume.flush().expect("flushed");
    let mut blocks = blocks;
    blocks[3] = vec![0; BLOCK];
    blocks[15] = made_of(9, 9, 9);
    if is_checkpointed {
        volume.checkpoint().expect("written");
    }
    (folder.after_power_cut(Survival::Synced), blocks)
}

/// Returns the blocks that cannot be read. Every other one has its value.
fn unreadable(volume: &Opened, blocks: &[Vec<u8>]) -> Result<BTreeSet<u64>, String> {
    let mut unreadable = BTreeSet::new();
    for (number, expected) in (0..).zip(blocks) {
        match read(volume, number) {
            Ok(bytes) if bytes == *expected => {}
            Ok(_) => return Err(format!("block {number} has a wrong value")),
            Err(error) => {
                assert_eq!(error.kind(), Kind::Corrupt, "{error}");
                unreadable.insert(number);
            }
        }
    }
    Ok(unreadable)
}

fn findings(volume: &Opened) -> Vec<Finding> {
    let mut findings = Vec::new();
    volume.check(|finding| findings.push(finding.clone()), || false).expect("checked");
    findings
}

/// Flips bits of every file, one at a time. The last record of the log, behind which nothing tells
/// that it was durable, may be taken for torn.
pub(crate) fn flips(mode: &str, is_checkpointed: bool) -> Result<(), String> {
    let (original, blocks) = filled(mode, is_checkpointed);
    let mut numbers = SplitMix64::new(1);
    let mut damaged_count = 0;
    for name in original.names().expect("names") {
        let size = usize::try_from(original.size(&name).expect("a size")).expect("small");
        let step = (size / 120).max(5);
        for offset in (0..size).step_by(step).chain((0..size.min(512)).step_by(23)) {
            let folder = original.after_power_cut(Survival::Synced);
            folder.flip(&name, offset, u32::from(numbers.byte()));
            let at = |error| format!("{mode}, {name} at {offset}: {error}");
            let volume = try_open(&folder).map_err(|error| at(error.to_string()))?;
            let mut expected = blocks.clone();
            let is_last_lost = read(&volume, 15).is_ok_and(|bytes| bytes != expected[15]);
            if is_last_lost && !is_checkpointed {
                // The last record was taken for torn: an older value of its block.
                expected[15] = block(15 * 7 + 1, BLOCK);
            }
            let unreadable = unreadable(&volume, &expected).map_err(at)?;
            damaged_count += usize::from(!unreadable.is_empty());
            let named: BTreeSet<u64> =
                findings(&volume).into_iter().flat_map(|it| it.blocks).map(|it| it.block).collect();
            if named != unreadable {
                return Err(at(format!("{named:?} named, {unreadable:?} unreadable")));
            }
        }
    }
    if damaged_count == 0 { Err("no flip has damaged a block".to_owned()) } else { Ok(()) }
}

#[test]
fn flipped_bit_is_an_error_of_its_blocks_alone_and_named_by_check() {
    for mode in ["off", "exact", "burst", "burst:c_max=1", "delta"] {
        for is_checkpointed in [true, false] {
            flips(mode, is_checkpointed).expect("no wrong value");
        }
    }
}

#[test]
fn both_checkpoints_damaged_is_an_error_that_names_them() {
    let (folder, _) = filled("exact", true);
    let names = folder.names().expect("names");
    for name in names.iter().filter(|name| name.starts_with("checkpoint-")) {
        folder.flip(name, 100, 0);
    }
    let error = try_open(&folder).expect_err("no table is left");
    assert_eq!(error.kind(), Kind::Corrupt);
    assert!(error.to_string().contains("checkpoint-"), "{error}");
}

/// Damages a sector of the log, which has the headers of 32 durable duplicates, by `damage`: folder, name of
/// the segment, and offset of the sector. No block may have a wrong value, and those of the sector are
/// named.
pub(crate) fn bad_sector(
    folder: &FaultyFolder,
    damage: &dyn Fn(&FaultyFolder, &str, usize),
) -> Result<(), String> {
    const SECTOR: usize = 4096;
    let volume = open_large(folder)?;
    (0..200).for_each(|block| write(&volume, block, &made_of(1, 2, 3)));
    write(&volume, 0, &made_of(4, 5, 6));
    let names = folder.names().expect("names");
    let log = names.iter().find(|name| name.starts_with("segment-")).expect("a segment");
    let start = usize::try_from(folder.size(log).expect("a size")).expect("small");
    (1..200).for_each(|block| write(&volume, block, &made_of(4, 5, 6)));
    volume.flush().map_err(|error| error.to_string())?;
    // It tells that the others were durable.
    write(&volume, 201, &made_of(7, 7, 7));
    let original = folder.after_power_cut(Survival::All);
    let size = usize::try_from(original.size(log).expect("a size")).expect("small");
    // The last record is a whole block.
    for sector in start.div_ceil(SECTOR)..(size - 2 * SECTOR) / SECTOR {
        let folder = original.after_power_cut(Survival::All);
        damage(&folder, log, sector * SECTOR);
        let at = |error: String| format!("sector {sector}: {error}");
        let volume = open_large(&folder).map_err(at)?;
        let expected = vec![made_of(4, 5, 6); 200];
        let unreadable = unreadable(&volume, &expected).map_err(at)?;
        if unreadable.is_empty() || unreadable.len() > SECTOR / 128 + 1 {
            return Err(at(format!("{} blocks are lost", unreadable.len())));
        }
        let named: BTreeSet<u64> = findings(&volume).iter().map(|it| it.block_count).collect();
        if named != BTreeSet::from([unreadable.len() as u64]) {
            return Err(at(format!("{named:?} named, {} lost", unreadable.len())));
        }
        // What is written now is summarized with what was lost.
        for block in unreadable {
            write(&volume, block, &made_of(4, 5, 6));
        }
        volume.audit().map_err(at)?;
    }
    Ok(())
}

/// Opens a volume whose memory is enough for all its changes without a checkpoint.
fn open_large(folder: &FaultyFolder) -> Result<Opened, String> {
    let options = OpenOptions { memory: 8 << 20, secret: secret(folder), ..options() };
    open_folder(shared(folder), &options).map_err(|error| error.to_string())
}

/// Flips a bit of each header that a sector may have.
pub(crate) fn flip_headers(folder: &FaultyFolder, log: &str, sector: usize) {
    (sector..sector + 4096).step_by(128).for_each(|header| folder.flip(log, header + 20, 0));
}

/// Returns a volume whose first block, which is stored whole, has a flipped bit in the log.
pub(crate) fn with_damaged_block(mode: &str, bytes: &[u8]) -> Opened {
    let folder = create(8, 4096, mode);
    let volume = open(&folder);
    write(&volume, 0, bytes);
    volume.checkpoint().expect("written");
    drop(volume);
    let names = folder.names().expect("names");
    let (name, offset) = names
        .iter()
        .find_map(|name| {
            let mut found = vec![0; usize::try_from(folder.size(name).ok()?).ok()?];
            folder.read_at(name, 0, &mut found).ok()?;
            let offset = found.windows(bytes.len()).position(|window| window == bytes)?;
            Some((name.clone(), offset))
        })
        .expect("the block is in the log");
    folder.flip(&name, offset + BLOCK / 2, 0);
    open(&folder)
}

#[test]
fn duplicate_of_a_damaged_block_is_stored_anew_if_duplicates_are_verified() {
    for mode in ["exact", "burst", "delta"] {
        for is_verified in [false, true] {
            let bytes = block(7, BLOCK);
            let volume = with_damaged_block(mode, &bytes);
            volume.set_verifies_duplicates(is_verified).expect("set");
            write(&volume, 1, &bytes);
            let is_read = read(&volume, 1).is_ok_and(|found| found == bytes);
            assert_eq!(is_read, is_verified, "{mode}");
            let statistics = volume.statistics().expect("statistics");
            assert_eq!(statistics.counters.duplicate_count, u64::from(!is_verified), "{mode}");
            assert_eq!(statistics.counters.cancelled_count, u64::from(is_verified), "{mode}");
            read(&volume, 0).expect_err("damaged");
            assert_eq!(volume.audit(), Ok(()), "{mode}");
        }
    }
}

#[test]
fn verified_duplicates_of_intact_blocks_are_stored_once() {
    let folder = create(8, 4096, "burst");
    let volume = open(&folder);
    volume.set_verifies_duplicates(true).expect("set");
    volume.flush().expect("flushed");
    drop(volume);
    let volume = open(&folder);
    assert!(volume.verifies_duplicates(), "the setting is durable");
    (0..4).for_each(|number| write(&volume, number, &block(7, BLOCK)));
    let statistics = volume.statistics().expect("statistics");
    assert_eq!((statistics.full_count, statistics.counters.duplicate_count), (1, 3));
}

fn refuse(folder: &FaultyFolder, log: &str, sector: usize) {
    folder.fail_reads(log, sector..sector + 4096);
}

#[test]
fn sector_of_headers_that_is_damaged_or_cannot_be_read_costs_its_blocks_alone() {
    for damage in [&flip_headers as &dyn Fn(&FaultyFolder, &str, usize), &refuse] {
        bad_sector(&create(256, 4096, "exact"), damage).expect("no wrong value");
        bad_sector(&create_encrypted(256, "exact"), damage).expect("no wrong value");
    }
}

#[test]
fn damage_of_a_change_and_its_copy_is_refused() {
    let folder = create(256, 4096, "exact");
    let volume = open_large(&folder).expect("opened");
    (0..40).for_each(|block| write(&volume, block, &made_of(1, 2, 3)));
    let names = folder.names().expect("names");
    let log = names.iter().find(|name| name.starts_with("segment-")).expect("a segment");
    let start = usize::try_from(folder.size(log).expect("a size")).expect("small");
    volume.snapshot("main", "lost").expect("a snapshot");
    (0..80).for_each(|block| write(&volume, block, &made_of(1, 2, 4)));
    volume.flush().expect("flushed");
    write(&volume, 90, &made_of(1, 2, 5));
    let folder = folder.after_power_cut(Survival::All);
    // The first record of the change, and the second one.
    folder.flip(log, start + 20, 0);
    open_large(&folder.after_power_cut(Survival::All)).expect("the other one is there");
    folder.flip(log, start + 256 + 20, 0);
    let error = open_large(&folder).expect_err("the snapshot is not known");
    assert!(error.contains("what some of them changed is not known"), "{error}");
}

#[test]
fn several_damaged_records_in_a_row_are_refused_before_a_summary() {
    let folder = create(BLOCK_COUNT, 4096, "exact");
    let volume = open(&folder);
    write(&volume, 0, &made_of(1, 2, 3));
    (1..8).for_each(|block| write(&volume, block, &made_of(1, 2, 3)));
    volume.flush().expect("flushed");
    write(&volume, 9, &made_of(1, 3, 3));
    let folder = folder.after_power_cut(Survival::All);
    let names = folder.names().expect("names");
    let log = names.iter().find(|name| name.starts_with("segment-")).expect("a segment");
    // The first record has a block, and the headers of the duplicates follow it.
    let first = 128 + 128 + 4096;
    for offset in [first + 20, first + 128 + 20] {
        folder.flip(log, offset, 0);
    }
    let error = try_open(&folder).expect_err("blocks are not known");
    assert_eq!(error.kind(), Kind::Corrupt);
    assert!(error.to_string().contains("records 2 to 3"), "{error}");
}

#[test]
fn block_found_damaged_is_stored_again() {
    for mode in ["exact", "burst"] {
        let (folder, _) = filled(mode, true);
        let volume = open(&folder);
        let names = folder.names().expect("names");
        let log = names.iter().find(|name| name.starts_with("segment-")).expect("a segment");
        folder.flip(log, 128 + 128 + 2000, 0);
        let damaged = (0..BLOCK_COUNT).find(|block| read(&volume, *block).is_err());
        let damaged = damaged.expect("a damaged block");
        let bytes = block(damaged * 7 + 1, BLOCK);
        write(&volume, damaged, &bytes);
        assert_eq!(read(&volume, damaged).expect("it was stored again"), bytes, "{mode}");
        volume.checkpoint().expect("written");
        let volume = open(&folder);
        assert_eq!(read(&volume, damaged).expect("it was stored again"), bytes, "{mode}");
    }
}
