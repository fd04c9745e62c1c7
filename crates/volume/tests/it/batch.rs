//! Requests of several blocks, whose records are appended together.

use cutpoint_testing::SplitMix64;
use cutpoint_volume::{Folder, Kept, Kind, Statistics, Survival, TableBytes};

use crate::support::{BLOCK, Opened, block, create, open, read};

/// The number of blocks of a request.
const COUNT: u64 = 16;

/// Returns the bytes of a request: blocks of any kind, equal ones and zeros among them.
fn request(first: u64) -> Vec<u8> {
    (first..first + COUNT).flat_map(|number| block(number - number % 3, BLOCK)).collect()
}

/// Returns what the tables count, without what depends on the time of a checkpoint.
fn counts(volume: &Opened) -> Statistics {
    let statistics = volume.statistics().expect("statistics");
    let bytes_by_table = TableBytes::default();
    Statistics {
        physical_bytes: 0,
        free_bytes: None,
        table_bytes: 0,
        bytes_by_table,
        table_memory_bytes: 0,
        ..statistics
    }
}

fn check(volume: &Opened, expected: &[u8]) -> Result<(), String> {
    for (number, expected) in (0..).zip(expected.chunks_exact(BLOCK)) {
        if read(volume, number).map_err(|error| error.to_string())? != expected {
            return Err(format!("block {number}"));
        }
    }
    volume.audit()
}

/// Fills the storage at each place of a request. The request then changes nothing of the last segment, and can be repeated.
pub(crate) fn refused_requests(mode: &str) -> Result<(), String> {
    let (before, after) = (request(0), request(40));
    let mut unchanged_count = 0;
    for room in (0..70_000).step_by(1_700) {
        let folder = create(COUNT, 4096, mode);
        let volume = open(&folder);
        volume.write(0, &before).map_err(|error| error.to_string())?;
        let counts_before = counts(&volume);
        folder.limit(Some(room));
        match volume.write(0, &after) {
            Ok(()) => check(&volume, &after)?,
            Err(error) if error.kind() == Kind::Full => {
                // The blocks of the segment that was full may have been written.
                let written: usize = (0..COUNT)
                    .zip(after.chunks_exact(BLOCK))
                    .take_while(|(number, bytes)| {
                        read(&volume, *number).is_ok_and(|it| it == *bytes)
                    })
                    .map(|(_, bytes)| bytes.len())
                    .sum();
                check(&volume, &[&after[..written], &before[written..]].concat())?;
                if written == 0 && counts(&volume) != counts_before {
                    return Err(format!("the tables changed, {room} bytes of room"));
                }
                unchanged_count += usize::from(written == 0);
                for survival in [Survival::All, Survival::Synced] {
                    open(&folder.after_power_cut(survival)).audit()?;
                }
            }
            Err(error) => return Err(error.to_string()),
        }
        folder.limit(None);
        // The records of another request get the numbers of the refused ones.
        for bytes in [&request(60), &after] {
            volume.write(0, bytes).map_err(|error| error.to_string())?;
            check(&volume, bytes)?;
        }
        volume.flush().map_err(|error| error.to_string())?;
        check(&open(&folder.after_power_cut(Survival::Synced)), &after)?;
    }
    if unchanged_count > 5 { Ok(()) } else { Err("hardly a request was refused".to_owned()) }
}

#[test]
fn refused_request_leaves_nothing_behind() {
    for mode in ["off", "exact", "burst", "delta"] {
        assert_eq!(refused_requests(mode), Ok(()), "{mode}");
    }
}

/// A block of a refused request was a reference block, and another block gets its number.
#[test]
fn reference_block_of_a_refused_request_is_forgotten() {
    for mode in ["burst", "delta"] {
        let folder = create(COUNT, 4096, mode);
        let volume = open(&folder);
        // The storage says that it has room.
        volume.write(2 * BLOCK as u64, &SplitMix64::bytes(1, BLOCK)).expect("written");
        let refused = SplitMix64::bytes(2, BLOCK);
        let mut resembling = refused.clone();
        resembling[BLOCK / 2] ^= 1;
        folder.limit(Some(100));
        let refusal = volume.write(0, &[&refused[..], &resembling].concat());
        folder.limit(None);
        assert_eq!(refusal.expect_err("no room").kind(), Kind::Full, "{mode}");
        // It has the head of the refused block, and nothing else of it.
        let other = [&refused[..BLOCK / 8], &SplitMix64::bytes(3, BLOCK - BLOCK / 8)].concat();
        volume.write(0, &other).expect("written");
        volume.write(BLOCK as u64, &resembling).expect("written");
        volume.flush().expect("flushed");
        let volume = open(&folder.after_power_cut(Survival::Synced));
        assert_eq!(check(&volume, &[other, resembling].concat()), Ok(()), "{mode}");
    }
}

/// A storage is full in a request, and has room again for the next one. A power cut takes a page of the
/// segment of the latter.
pub(crate) fn remains_of_a_refused_request(mode: &str) -> Result<(), String> {
    let request = |kind: u64| -> Vec<Vec<u8>> {
        let bytes = |number| SplitMix64::bytes(100 * kind + number, BLOCK);
        (0..8).map(bytes).collect()
    };
    let [before, refused, after] = [1, 2, 3].map(request);
    for room in (0..40_000).step_by(4_000) {
        let folder = create(8, 4096, mode);
        let volume = open(&folder);
        volume.write(0, &before.concat()).map_err(|error| error.to_string())?;
        volume.flush().map_err(|error| error.to_string())?;
        folder.limit(Some(room));
        let refusal = volume.write(0, &refused.concat());
        folder.limit(None);
        if refusal.is_ok() {
            continue;
        }
        // Two of its blocks equal some of the refused request.
        let after = [&after[..2], &refused[..2], &after[4..]].concat();
        volume.write(0, &after.concat()).map_err(|error| error.to_string())?;
        let names = folder.names().map_err(|error| error.to_string())?;
        let last = names.iter().filter(|name| name.starts_with("segment-")).max();
        let last = last.ok_or("no segment")?.clone();
        for page in 0..9 {
            let lost = 4096 * page..4096 * (page + 1);
            let kept = |name: &str, _: usize| {
                if name == last { Kept::Without(lost.clone()) } else { Kept::Without(0..0) }
            };
            let survival = Survival::Part { bytes: &kept, name: &|_| true };
            let volume = open(&folder.after_power_cut(survival));
            volume.audit()?;
            let mut found = Vec::new();
            for number in 0..8 {
                found.push(read(&volume, number).map_err(|error| error.to_string())?);
            }
            // The blocks of the second request up to one of them.
            let count =
                found.iter().zip(&after).take_while(|(found, after)| found == after).count();
            if found[count..] != before[count..] {
                return Err(format!("{room} bytes of room, without page {page}: block {count}"));
            }
        }
    }
    Ok(())
}

#[test]
fn remains_of_a_refused_request_are_void() {
    for mode in ["off", "exact", "burst", "delta"] {
        assert_eq!(remains_of_a_refused_request(mode), Ok(()), "{mode}");
    }
}

/// A request is stored as its blocks are one by one.
#[test]
fn request_is_stored_as_its_blocks_are() {
    for mode in ["off", "exact", "burst", "delta"] {
        let (together, alone) = (create(COUNT, 4096, mode), create(COUNT, 4096, mode));
        let (together, alone) = (open(&together), open(&alone));
        for first in [0, 40, 8, 40, 25] {
            let bytes = request(first);
            together.write(0, &bytes).expect("written");
            for (number, bytes) in (0..).zip(bytes.chunks_exact(BLOCK)) {
                alone.write(number * BLOCK as u64, bytes).expect("written");
            }
            check(&together, &bytes).expect("as written");
            assert_eq!(counts(&together), counts(&alone), "{mode}, from {first} on");
        }
        let counts = counts(&together);
        let has_references = counts.counters.burst_count + counts.counters.delta_count > 0;
        assert_eq!(has_references, mode == "burst" || mode == "delta", "{mode}");
    }
}

/// Segments end within requests, and several summaries are due.
#[test]
fn long_request_goes_to_several_segments() {
    let count = 300;
    let folder = create(count, 4096, "exact");
    let volume = open(&folder);
    let bytes: Vec<u8> = (0..count).flat_map(|number| block(number, BLOCK)).collect();
    volume.write(0, &bytes).expect("written");
    check(&volume, &bytes).expect("as written");
    volume.flush().expect("flushed");
    check(&open(&folder.after_power_cut(Survival::Synced)), &bytes).expect("as flushed");
}
