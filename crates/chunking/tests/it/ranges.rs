//! Cutting by ranges that are read apart equals one pass, for every algorithm, with seams that hold
//! and seams that are repaired.

use std::cell::Cell;
use std::io::{self, ErrorKind};
use std::num::NonZero;
use std::ops::Range;

use cutpoint_chunking::{Chunker, KeyMaterial, Ranges, Seams, Spec, cuts};
use cutpoint_testing::SplitMix64;

use crate::harness::cases;
use crate::harness::inputs::{key_material, kinds};

/// Reads at most `size_max` bytes of `data` at once.
fn read_from(data: &[u8], size_max: usize, buffer: &mut [u8], offset: u64) -> usize {
    let start = usize::try_from(offset).expect("it is small").min(data.len());
    let size = buffer.len().min(size_max).min(data.len() - start);
    buffer[..size].copy_from_slice(&data[start..start + size]);
    size
}

/// Returns the list of a range: the start of its first chunk, and the ends of all its chunks.
fn list<C: Chunker>(ranges: &Ranges<C>, data: &[u8], owned: Range<u64>) -> Vec<u64> {
    let read_at = |buffer: &mut [u8], offset: u64| Ok(read_from(data, 20_011, buffer, offset));
    let mut chunks = ranges.chunks(read_at, owned.clone());
    let mut list = Vec::new();
    while let Some((offset, chunk)) = chunks.next().expect("it is read") {
        assert!(owned.contains(&offset), "{owned:?} does not own {offset}");
        assert_eq!(chunk, &data[bytes(offset, chunk.len())], "bytes at {offset}");
        assert!(list.last().is_none_or(|&end| end == offset), "a gap before {offset}");
        if list.is_empty() {
            list.push(offset);
        }
        list.push(offset + chunk.len() as u64);
    }
    list
}

fn bytes(offset: u64, len: usize) -> Range<usize> {
    let start = usize::try_from(offset).expect("it is small");
    start..start + len
}

fn span(list: &[u64]) -> Option<Range<u64>> {
    Some(*list.first()?..*list.last()?)
}

/// Cuts `data` by ranges of `range_size` bytes. Returns the cut-points and the number of seams that
/// were repaired.
fn joined<C: Chunker>(ranges: &Ranges<C>, data: &[u8], range_size: usize) -> (Vec<usize>, usize) {
    let range_size = NonZero::new(range_size as u64).expect("it is not 0");
    let (mut seams, mut ends, mut repaired_count) = (Seams::new(), Vec::new(), 0);
    for owned in ranges.plan(data.len() as u64, range_size) {
        let list = list(ranges, data, owned.clone());
        let mut first_true = 0;
        if !seams.holds(&owned, span(&list)) {
            repaired_count += 1;
            let read_at = |buffer: &mut [u8], offset: u64| Ok(read_from(data, 999, buffer, offset));
            let each = |offset: u64, chunk: &[u8]| {
                assert_eq!(chunk, &data[bytes(offset, chunk.len())], "bytes at {offset}");
                ends.push(offset + chunk.len() as u64);
            };
            first_true = ranges.repair(&mut seams, read_at, owned.end, &list, each).expect("read");
        }
        ends.extend(list.iter().skip(first_true + 1));
        assert_eq!(seams.end(), ends.last().copied().unwrap_or(0), "{owned:?}: the end");
    }
    let ends = ends.into_iter().map(|end| usize::try_from(end).expect("it is small"));
    (ends.collect(), repaired_count)
}

#[track_caller]
fn check(chunker: &dyn Chunker, name: &str, data: &[u8], range_sizes: &[usize], warm_ups: &[u64]) {
    let expected: Vec<usize> = cuts(chunker, data).collect();
    for &range_size in range_sizes {
        for &warm_up_size in warm_ups {
            let ranges = Ranges::with_warm_up_size(chunker, warm_up_size);
            let (found, _) = joined(&ranges, data, range_size);
            let size = data.len();
            assert!(
                found == expected,
                "{name}, {size} bytes, ranges of {range_size}, warm-up {warm_up_size}: {found:?}, \
                 not {expected:?}"
            );
        }
    }
}

#[test]
fn ranges_of_every_algorithm_are_cut_like_one_pass() {
    for (index, text) in cases::chosen().flat_map(|cases| cases.specs).enumerate() {
        let spec: Spec = text.parse().expect("the spec is right");
        let chunker = spec.chunker();
        let average = spec.chunk_size_average().unwrap_or(0).clamp(100, 2000);
        for (name, data) in kinds(15 * average, index as u64) {
            let name = format!("{spec}, {name}");
            // Most of the smaller ranges own one chunk or none.
            let range_sizes = [average / 2, 4 * average];
            check(&*chunker, &name, &data, &range_sizes, &[0, 2 * average as u64]);
        }
    }
}

#[test]
fn ranges_of_keyed_chunkers_are_cut_like_one_pass() {
    let material: KeyMaterial = key_material(3);
    for text in ["seqcdc:avg=2k", "fastcdc:avg=2k", "gear:bits=8,start=carry", "mii:avg=888"] {
        let spec: Spec = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
        let keyed = spec.keyed_chunker(&material).expect("it can be keyed");
        for (name, data) in kinds(40_000, 7) {
            check(&*keyed, &format!("{spec}, keyed, {name}"), &data, &[5000], &[0, 6000, 32_768]);
        }
    }
}

#[test]
fn ranges_of_one_byte_are_cut_like_one_pass() {
    for text in [
        "seqcdc:avg=2k",
        "fixed:size=1",
        "fixed:size=7",
        "mii:length=2,first=0",
        "gear:bits=4,start=carry",
        "gear:bits=4,start=carry,max=20",
    ] {
        let spec: Spec = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
        for size in [0, 1, 2, 8, 70] {
            for data in [SplitMix64::bytes(size as u64, size), vec![0; size]] {
                check(&*spec.chunker(), text, &data, &[1, 2, 69], &[0, 1, 13, 1 << 20]);
            }
        }
    }
}

/// Nearly all seams break without a warm-up, and with the default one none does on noise.
#[test]
fn warm_up_makes_seams_hold_on_noise() {
    let data = SplitMix64::bytes(80, 1_000_000);
    for text in [
        "seqcdc:avg=2k",
        "fastcdc:avg=2k",
        "ae:avg=2k",
        "rabin:avg=2k",
        "gear:bits=11",
        "tttd:avg=2k",
    ] {
        let spec: Spec = text.parse().expect("the spec is right");
        let expected: Vec<usize> = cuts(&*spec.chunker(), &data).collect();
        let without = Ranges::with_warm_up_size(spec.chunker(), 0);
        let (found, repaired_count) = joined(&without, &data, 50_000);
        assert!(found == expected, "{spec}: repaired");
        assert!(repaired_count >= 15, "{spec}: {repaired_count} of 19 seams without a warm-up");
        let (found, repaired_count) = joined(&Ranges::new(spec.chunker()), &data, 50_000);
        assert!(found == expected, "{spec}: with a warm-up");
        assert_eq!(repaired_count, 0, "{spec}: seams with a warm-up");
    }
}

/// Cut-points in a run of equal bytes depend on its start, which no warm-up within it sees.
#[test]
fn run_of_equal_bytes_is_repaired() {
    for text in ["fastcdc:avg=2k", "seqcdc:avg=2k", "tttd:avg=2k", "gear:bits=11,max=8k"] {
        let spec: Spec = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
        for byte in [0, 255] {
            // The run starts off the phase of the ranges.
            let mut data = SplitMix64::bytes(81, 10_003);
            data.resize(600_077, byte);
            data.extend(SplitMix64::bytes(82, 20_000));
            let ends: Vec<usize> = cuts(&*spec.chunker(), &data).collect();
            let sizes = ends.windows(2).map(|ends| ends[1] - ends[0]);
            let largest = sizes.max().expect("there are chunks");
            let ranges = Ranges::with_warm_up_size(spec.chunker(), 50_000);
            // Ranges of multiples of the chunks' size would be in phase with each other.
            let (found, repaired_count) = joined(&ranges, &data, 99_991);
            assert!(found == ends, "{spec}, {byte}");
            assert!(repaired_count > 0, "{spec}, {byte}: chunks of {largest} fit by chance");
        }
    }
}

/// The cut-points of constant sizes are known without a warm-up, wherever ranges begin.
#[test]
fn constant_sizes_need_no_repair() {
    let data = SplitMix64::bytes(83, 50_000);
    for size in [1, 7, 4096, 60_000] {
        let spec: Spec = format!("fixed:size={size}").parse().expect("the spec is right");
        let ranges = Ranges::with_warm_up_size(spec.chunker(), 0);
        for range_size in [701, 9999] {
            let (found, repaired_count) = joined(&ranges, &data, range_size);
            assert!(cuts(&*spec.chunker(), &data).eq(found), "{spec}: {range_size}");
            assert_eq!(repaired_count, 0, "{spec}: ranges of {range_size}");
        }
    }
}

/// A list of a true chain that is joined late: the chunks before the meeting are replaced, the
/// others are kept.
#[test]
fn repair_keeps_what_follows_the_meeting() {
    let data = SplitMix64::bytes(84, 400_000);
    let spec: Spec = "fastcdc:avg=2k".parse().expect("the spec is right");
    let ranges = Ranges::with_warm_up_size(spec.chunker(), 0);
    let end = cuts(&*spec.chunker(), &data).find(|&end| end >= 200_000).expect("a cut-point");
    let list = list(&ranges, &data, 200_000..400_000);
    let (mut seams, mut replaced) = (Seams::at(end as u64), Vec::new());
    assert!(!seams.holds(&(200_000..400_000), span(&list)), "it was cut at no cut-point");
    let read_size = Cell::new(0);
    let read_at = |buffer: &mut [u8], offset: u64| {
        let size = read_from(&data, usize::MAX, buffer, offset);
        read_size.set(read_size.get() + size);
        Ok(size)
    };
    let each = |offset: u64, _: &[u8]| replaced.push(offset);
    let first_true = ranges.repair(&mut seams, read_at, 400_000, &list, each).expect("it is read");
    assert!((1..40).contains(&first_true), "met at {first_true}");
    assert!(replaced.len() < 40, "{} chunks were cut again", replaced.len());
    assert_eq!(seams.end(), 400_000, "joined to the end");
    // No more than a buffer is read, not the whole range.
    assert!(read_size.get() <= 300_000, "{} bytes were read", read_size.get());
}

/// A task reads nothing outside of what it announces.
#[test]
fn reads_stay_within_reach() {
    let data = SplitMix64::bytes(85, 3_000_000);
    for text in ["fastcdc:avg=2k", "ae:avg=2k,max=20k", "gear:bits=8,start=carry,max=4k"] {
        let spec: Spec = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
        let ranges = Ranges::new(spec.chunker());
        for owned in [0..1000, 500_000..1_400_000, 2_999_000..3_000_000] {
            let reach = ranges.reach(&owned);
            let seen = Cell::new((u64::MAX, 0));
            let read_at = |buffer: &mut [u8], offset: u64| {
                let size = read_from(&data, usize::MAX, buffer, offset);
                let (start, end) = seen.get();
                seen.set((start.min(offset), end.max(offset + buffer.len() as u64)));
                Ok(size)
            };
            let mut chunks = ranges.chunks(read_at, owned.clone());
            while chunks.next().expect("it is read").is_some() {}
            let (start, end) = seen.get();
            assert!(start >= reach.start && end <= reach.end, "{spec}: {start}..{end}, {reach:?}");
            assert_eq!(start, reach.start, "{spec}: warm-up and context are read");
        }
    }
    let unlimited: Spec = "gear:bits=8".parse().expect("the spec is right");
    assert_eq!(Ranges::new(unlimited.chunker()).reach(&(5..6)), 0..u64::MAX, "no limit");
}

#[test]
fn error_of_source_is_returned_and_leaves_the_seam() {
    let data = SplitMix64::bytes(86, 100_000);
    for text in ["fastcdc:avg=2k", "gear:bits=8,start=carry"] {
        let spec: Spec = text.parse().expect("the spec is right");
        let ranges = Ranges::with_warm_up_size(spec.chunker(), 0);
        let calls = Cell::new(0);
        // Every other read is interrupted; the third of the others fails.
        let read_at = |buffer: &mut [u8], offset: u64| {
            calls.set(calls.get() + 1);
            match calls.get() {
                call if call % 2 == 1 => Err(ErrorKind::Interrupted.into()),
                6 => Err(io::Error::from(ErrorKind::BrokenPipe)),
                _ => Ok(read_from(&data, 50, buffer, offset)),
            }
        };
        let mut seams = Seams::at(50_000);
        let error = ranges
            .repair(&mut seams, read_at, 60_000, &[51_000, 52_000], |_, _| {})
            .expect_err("it fails");
        assert_eq!((error.kind(), seams.end()), (ErrorKind::BrokenPipe, 50_000), "{spec}");
        // A task continues after an error.
        calls.set(0);
        let mut chunks = ranges.chunks(read_at, 50_000..60_000);
        let (mut found, mut error_count) = (Vec::new(), 0);
        loop {
            match chunks.next() {
                Ok(Some((offset, _))) => found.push(offset),
                Ok(None) => break,
                Err(_) => error_count += 1,
            }
        }
        let mut expected = list(&ranges, &data, 50_000..60_000);
        expected.pop();
        assert_eq!((found, error_count), (expected, 1), "{spec}");
    }
}
