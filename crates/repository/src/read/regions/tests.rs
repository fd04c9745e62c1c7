//! Tests of all parts of the regions of a reader.

use std::sync::Arc;

use zstd::bulk::Decompressor;

use super::slots::{KEPT_BYTES_MAX, KEPT_BYTES_MIN, RegionName, SPARE_BYTES_MAX};
use super::{Claim, Regions, Want};
use crate::format::fingerprint::Class;
use crate::format::names::PartName;
use crate::format::names::TicketId;
use crate::format::toc::{Codec, RegionRecord};

const ROOM: usize = usize::MAX;

fn name(container: u32, number: u16) -> RegionName {
    (Class::Data, PartName { ticket: TicketId([1; 12]), count: container }, number)
}

/// The record of region `number` of a container whose regions each take 1000 stored bytes and
/// 100,000 decoded ones.
fn record(number: u16) -> RegionRecord {
    let (offset, stored_len) = (64 + u32::from(number) * 1000, 1000);
    let (codec, references) = (Codec::Zstd, Vec::new());
    RegionRecord { offset, stored_len, raw_len: 100_000, codec, references }
}

/// Wants a region, and has it fetched if need be. Returns `true` if the region is wanted.
fn want(regions: &Regions, name: RegionName, record: &RegionRecord, bytes_max: usize) -> bool {
    let want = regions.want(name, record, bytes_max);
    if want == Want::ToFetch {
        regions.fetch_announced(regions.announce([name]));
    }
    want != Want::NoRoom
}

fn decode(regions: &Regions, name: RegionName, len: usize) {
    match regions.claim(name) {
        Claim::Turn(turn, _) => {
            let decompressor = Decompressor::new().expect("zstd works");
            turn.decoded(&Arc::new(vec![0; len]), decompressor);
        }
        Claim::Decoded(_) => panic!("{name:?} was decoded before"),
    }
}

fn is_decoded(regions: &Regions, name: RegionName) -> bool {
    matches!(regions.claim(name), Claim::Decoded(_))
}

/// The next request: container, offset, length, regions.
fn next(regions: &Regions) -> (u32, u64, usize, Vec<u16>) {
    let fetch = regions.next_fetch().expect("it is open");
    let numbers = fetch.turns.iter().map(|(turn, _)| turn.name.2).collect();
    let (offset, len) = (fetch.offset, fetch.len);
    let container = fetch.container.1.count;
    fetch.fetched(&vec![7; len].into());
    (container, offset, len, numbers)
}

#[test]
fn neighbours_are_fetched_by_one_request() {
    let regions = Regions::default();
    // Region 3 is decoded already, 40 lies far behind, and 0 lies before the first that is
    // needed.
    decode(&regions, name(1, 3), 100_000);
    for (container, number) in [(1, 1), (2, 0), (1, 2), (1, 4), (1, 3), (1, 40), (1, 0)] {
        assert!(want(&regions, name(container, number), &record(number), ROOM), "room");
    }
    assert_eq!(next(&regions), (1, 1064, 4000, vec![1, 2, 4]), "with what lies between");
    assert_eq!(next(&regions), (2, 64, 1000, vec![0]), "another container");
    assert_eq!(next(&regions), (1, 40_064, 1000, vec![40]), "too far behind");
    assert_eq!(next(&regions), (1, 64, 1000, vec![0]), "its neighbours are there");
    let Claim::Turn(_turn, Some(bytes)) = regions.claim(name(1, 2)) else {
        panic!("it was fetched")
    };
    assert_eq!(bytes.len(), 1000, "its part of what was fetched");
}

#[test]
fn request_length_is_limited() {
    let regions = Regions::default();
    for number in 0..3 {
        let (offset, stored_len) = (64 + u32::from(number) * 3_000_000, 3_000_000);
        let record = RegionRecord { offset, stored_len, ..record(number) };
        want(&regions, name(1, number), &record, ROOM);
    }
    for number in 0..3 {
        assert_eq!(next(&regions).3, [number], "5 MiB have no room for two");
    }
}

#[test]
fn eviction_keeps_wanted_and_recently_used_regions() {
    let regions = Regions::default();
    let large = KEPT_BYTES_MAX / 4;
    want(&regions, name(1, 0), &record(0), ROOM);
    decode(&regions, name(1, 0), large);
    for number in 1..=6 {
        decode(&regions, name(1, number), large);
        assert!(is_decoded(&regions, name(1, 1)), "it is used");
    }
    let is_kept: Vec<bool> =
        (0..=6).map(|number| regions.lock().slots.contains_key(&name(1, number))).collect();
    assert_eq!(is_kept, [true, true, false, false, false, true, true], "0 wanted, 1 used");
    assert_eq!(regions.lock().kept_bytes, 3 * large, "with what is wanted no more than 4");
    regions.release([name(1, 0)].into_iter());
    let state = regions.lock();
    assert_eq!((state.kept_bytes, state.wanted_bytes), (4 * large, 0), "all is counted");
    drop(state);
    // Whatever is wanted, some other regions are kept.
    let record = RegionRecord { raw_len: 64 << 20, ..record(9) };
    want(&regions, name(1, 9), &record, ROOM);
    regions.release(std::iter::empty());
    assert_eq!(regions.lock().kept_bytes, KEPT_BYTES_MIN, "two");
    assert!(!regions.lock().slots.contains_key(&name(1, 0)), "used long ago");
}

#[test]
fn regions_beyond_the_room_are_not_wanted() {
    let regions = Regions::default();
    let wants = |number| want(&regions, name(1, number), &record(number), 250_000);
    assert_eq!([0, 1, 2, 3, 0].map(wants), [true, true, true, false, false], "three");
    assert!(regions.wants_at_least(300_000) && !regions.wants_at_least(300_001), "bytes");
    regions.release([name(1, 1)].into_iter());
    assert!(wants(3), "there is room again");
    regions.release([name(1, 0), name(1, 2), name(1, 3)].into_iter());
    let state = regions.lock();
    assert_eq!((state.wanted_bytes, state.slots.len()), (0, 0), "nothing is left");
}

#[test]
fn announced_regions_are_fetched_once_they_fill_a_request_or_are_needed() {
    let regions = Regions::default();
    regions.open(4);
    let queue = || {
        let state = regions.lock();
        state.queue.iter().filter(|name| state.is_to_be_fetched(name)).count()
    };
    let names: Vec<_> = (0..6).map(|number| name(1, number)).collect();
    for (number, name) in (0..).zip(&names) {
        let (offset, stored_len) = (64 + u32::from(number) * 1_000_000, 1_000_000);
        let record = RegionRecord { offset, stored_len, ..record(number) };
        assert_eq!(regions.want(*name, &record, ROOM), Want::ToFetch, "it is not there");
        assert_eq!(regions.want(*name, &record, ROOM), Want::Known, "it is wanted");
    }
    regions.announce(names[..3].iter().copied());
    assert_eq!(queue(), 0, "there is room in the request");
    let full = regions.announce(names[3..4].iter().copied());
    assert_eq!(next(&regions).3, [0, 1, 2, 3, 4], "with a wanted one behind them");
    let batch = regions.announce(names[5..].iter().copied());
    regions.fetch_announced(full);
    assert_eq!(queue(), 0, "they were fetched before");
    regions.fetch_announced(batch);
    assert_eq!(queue(), 1, "it is needed");
    assert_eq!(next(&regions).3, [5], "alone");
    assert_eq!(regions.want(name(2, 0), &record(0), ROOM), Want::ToFetch, "it is not there");
    regions.lock().idle_fetcher_count = 1;
    regions.announce([name(2, 0)]);
    assert_eq!(queue(), 1, "few requests are in progress");
}

/// The next thread that needs the region must not be left waiting.
#[test]
fn dropped_turn_passes_to_the_next_caller() {
    let regions = Regions::default();
    want(&regions, name(1, 0), &record(0), ROOM);
    drop(regions.next_fetch());
    for _ in 0..2 {
        assert!(matches!(regions.claim(name(1, 0)), Claim::Turn(_, None)), "to be read again");
    }
    decode(&regions, name(1, 0), 10);
    assert!(is_decoded(&regions, name(1, 0)), "at last");
    // Released while a thread was working on the region.
    want(&regions, name(1, 1), &record(1), ROOM);
    let turn = regions.claim(name(1, 1));
    regions.release([name(1, 1)].into_iter());
    drop(turn);
    assert!(!regions.lock().slots.contains_key(&name(1, 1)), "no step wants the region");
}

#[test]
fn regions_decoded_again_are_counted() {
    let regions = Regions::default();
    for number in [0, 1, 100] {
        decode(&regions, name(1, number), KEPT_BYTES_MAX);
    }
    assert_eq!(regions.statistics().repeated_region_count, 0, "each once");
    decode(&regions, name(1, 1), KEPT_BYTES_MAX);
    let statistics = regions.statistics();
    assert_eq!((statistics.region_count, statistics.repeated_region_count), (4, 1), "1 twice");
}

#[test]
fn step_waits_for_room_only_while_another_is_in_progress() {
    let regions = Regions::default();
    want(&regions, name(1, 0), &record(0), ROOM);
    // The first step does not wait, because no other step could free room.
    regions.begin_step(1);
    std::thread::scope(|scope| {
        let second = scope.spawn(|| regions.begin_step(1));
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert!(!second.is_finished(), "there is no room");
        regions.release([name(1, 0)].into_iter());
        regions.end_step();
    });
    assert_eq!(regions.lock().step_count, 1, "the second");
}

#[test]
fn buffers_of_regions_that_come_last_are_reused() {
    let regions = Regions::default();
    let (small, large) = (600 << 10, 2 << 20);
    let mut number = 0;
    for (count, len) in [(100, small), (30, large), (20, 1000)] {
        for _ in 0..count {
            decode(&regions, name(1, number), len);
            number += 1;
        }
    }
    let mut state = regions.lock();
    assert!(state.spare_bytes <= SPARE_BYTES_MAX, "{} bytes", state.spare_bytes);
    assert_eq!(state.take_spare(large / 3).capacity(), 0, "it would waste two thirds");
    let before = state.spare_bytes;
    let spare = state.take_spare(large - 1000);
    assert_eq!(spare.capacity(), large, "large regions have come after small ones");
    assert_eq!(state.spare_bytes, before - large, "bytes that are left");
}
