//! SeqCDC at all its edges: random parameters, every position of a block, every pair of values.

use cutpoint_chunking::algorithm::seqcdc;
use cutpoint_chunking::{Chunker, Level, Spec, cuts};
use cutpoint_testing::SplitMix64;

use crate::harness::checks::{check, reference_cuts};
use crate::harness::feeds::{Feed, fed_cuts};
use crate::harness::inputs::{key_material, kinds, sizes_around};

#[test]
fn random_parameters_cut_like_reference() {
    let mut random = SplitMix64::new(10);
    for round in 0..90 {
        let chunk_size_min = [1, 2, 3, 63, 64, 65, 100, 128, 200, 500][random.below(10)];
        let params = seqcdc::Params {
            mode: [seqcdc::Mode::Increasing, seqcdc::Mode::Decreasing][round % 2],
            length: [1, 2, 3, 4, 5, 6, 7, 8, 9, 31, 32][random.below(11)],
            trigger: [1, 2, 5, 20, 31, 32, 33, 50, 64, 65, 128, 200][random.below(12)],
            skip_size: [0, 1, 2, 17, 63, 64, 256, 3000][random.below(8)],
            chunk_size_min,
            chunk_size_max: chunk_size_min + [0, 1, 63, 64, 65, 128, 700, 2000][random.below(8)],
            equal: [seqcdc::Equal::Absorb, seqcdc::Equal::Break][round / 2 % 2],
            rule: seqcdc::Rule::Released,
            reach: [seqcdc::Reach::At, seqcdc::Reach::Beyond][random.below(2)],
            skipped: [seqcdc::Skipped::Compared, seqcdc::Skipped::Ignored][random.below(2)],
            opposing: [seqcdc::Opposing::Total, seqcdc::Opposing::Run][random.below(2)],
        };
        let trigger_max = if params.opposing == seqcdc::Opposing::Run { 32 } else { 200 };
        let params = seqcdc::Params { trigger: params.trigger.min(trigger_max), ..params };
        let rule = if params.length > 1 && random.below(2) == 0 {
            seqcdc::Rule::Literal
        } else {
            seqcdc::Rule::Released
        };
        let params = seqcdc::Params { rule, ..params };
        let spec = Spec::try_from(params).expect("the parameters are right");
        let (min, max) = (params.chunk_size_min, params.chunk_size_max);
        let edge = [min, max, min + 64, max + min, min + params.skip_size][random.below(5)];
        for size in sizes_around(&[edge]).into_iter().chain([3001]) {
            for (name, data) in kinds(size, random.next()) {
                check(&spec, name, &data);
                at_every_level(params, name, &data);
            }
        }
    }
}

/// Checks that every level of this CPU cuts `data` as the scalar one does, both plain and keyed.
fn at_every_level(params: seqcdc::Params, name: &str, data: &[u8]) {
    let plain = seqcdc::SeqCdc::new(params).expect("the parameters are right");
    let material = key_material(3);
    let keyed = seqcdc::SeqCdc::keyed(params, &material).expect("the parameters are right");
    for chunker in [plain, keyed] {
        let scalar = chunker.clone().at_level(Level::SCALAR);
        let expected: Vec<usize> = cuts(&scalar, data).collect();
        for level in Level::available() {
            let ends: Vec<usize> = cuts(&chunker.clone().at_level(level), data).collect();
            assert_eq!(ends, expected, "{}: {params:?}, {name}, {}", level.name(), data.len());
        }
    }
}

/// A run followed by an opposing pair, at each position of the blocks, with values across the sign
/// bit.
#[test]
fn seqcdc_finds_a_run_at_every_offset() {
    for length in [1, 2, 5, 6, 32] {
        let params = seqcdc::Params {
            mode: seqcdc::Mode::Increasing,
            length,
            trigger: 3,
            skip_size: 10,
            chunk_size_min: 20,
            chunk_size_max: 400,
            equal: seqcdc::Equal::Absorb,
            rule: seqcdc::Rule::Released,
            reach: seqcdc::Reach::At,
            skipped: seqcdc::Skipped::Compared,
            opposing: seqcdc::Opposing::Total,
        };
        let spec = Spec::try_from(params).expect("the parameters are right");
        let chunker = spec.chunker();
        for start in 0..200 {
            for (first, stretch) in [(0, 1), (110, 1), (220, 1), (110, 2), (110, 7)] {
                let mut data = vec![first; 500];
                let mut value = first;
                for (index, byte) in data[start..].iter_mut().enumerate() {
                    *byte = value;
                    if index % stretch == 0 && value < first + 33 {
                        value += 1;
                    }
                }
                check(&spec, "one run", &data);
                // The same data with a fall at each position.
                if start % 16 == 5 {
                    for fall in start..start + 70 {
                        let mut data = data.clone();
                        data[fall..].iter_mut().for_each(|byte| *byte -= first.min(9));
                        let expected = reference_cuts(&spec, &data);
                        let ends = fed_cuts(&*chunker, &data, Feed::Whole);
                        assert_eq!(ends, expected, "run at {start}, fall at {fall}");
                    }
                }
            }
        }
    }
}

/// Every pair of byte values compares correctly.
#[test]
fn seqcdc_compares_every_pair_of_values() {
    for (mode, above) in [(seqcdc::Mode::Increasing, true), (seqcdc::Mode::Decreasing, false)] {
        let params = seqcdc::Params {
            mode,
            length: 1,
            trigger: 1000,
            skip_size: 0,
            chunk_size_min: 1,
            chunk_size_max: 1000,
            equal: seqcdc::Equal::Absorb,
            rule: seqcdc::Rule::Released,
            reach: seqcdc::Reach::At,
            skipped: seqcdc::Skipped::Compared,
            opposing: seqcdc::Opposing::Total,
        };
        let chunker = seqcdc::SeqCdc::new(params).expect("the parameters are right");
        for before in 0..=255 {
            for after in 0..=255 {
                let at = 1 + usize::from(before ^ after) % 64;
                let mut data = [before; 70];
                data[at..].fill(after);
                let cuts_there = if above { before < after } else { before > after };
                let expected = if cuts_there { at } else { 70 };
                let cut = chunker.next_cut(&data, false);
                assert_eq!(cut, Some(expected), "{before} then {after} at {at}, {mode:?}");
            }
        }
    }
}

/// Segments that are cut alongside each other, in data of many segments: with lists that meet,
/// lists that do not, and partly with holes; on every level, at once and in portions.
#[test]
fn segments_are_joined_where_they_meet() {
    let mut random = SplitMix64::new(30);
    for text in ["avg=2k", "avg=2k,mode=dec", "paper=4k,equal=break,rule=literal"] {
        let spec: Spec = format!("seqcdc:{text}").parse().expect("the spec is right");
        let size = 700_000 + random.below(1000);
        for (name, data) in kinds(size, random.next()) {
            let expected = reference_cuts(&spec, &data);
            for level in Level::available().into_iter().chain([Level::EMULATED]) {
                let chunker = spec.chunker_at(level);
                let name = || format!("{spec}, {}, {name}", level.name());
                let mut ends = Vec::new();
                chunker.next_cuts(&data, 0, false, &mut ends);
                assert_eq!(ends, expected, "{}: at once", name());
                let feeds = [Feed::Whole, Feed::Batches(300_000, random.next())];
                for feed in feeds {
                    assert_eq!(fed_cuts(&*chunker, &data, feed), expected, "{}: {feed:?}", name());
                }
            }
        }
    }
}
