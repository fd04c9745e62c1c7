//! Every chunker cuts like the plain form of its rule, at every edge and however it is fed.

mod common;

use common::{Feed, check_invariants, fed_cuts, plain_cuts};
use cutpoint_chunking::algorithm::{fastcdc, fixed::Fixed, seqcdc};
use cutpoint_chunking::{Chunker, Spec};
use cutpoint_testing::{SplitMix64, input};

/// Data of `size` bytes of each kind that a rule may trip over.
fn kinds(size: usize, seed: u64) -> Vec<(&'static str, Vec<u8>)> {
    let mut random = SplitMix64::new(seed);
    let noise = random.take(size);
    let slow = (0..size).map(|i| noise[i / 5]).collect();
    let few = noise.iter().map(|byte| byte & 1).collect();
    let signs = noise.iter().map(|byte| 127 + (byte & 1)).collect();
    // Long runs with rare ends: the trigger is reached seldom, the counts cross many blocks.
    let rare = noise.iter().scan(0u8, |last, &byte| {
        *last = match byte {
            0..=2 => last.wrapping_add(1),
            3..=9 => last.saturating_sub(1),
            _ => *last,
        };
        Some(*last)
    });
    let mut falling = input::saw(size);
    falling.reverse();
    vec![
        ("rare changes", rare.collect()),
        ("noise", noise),
        ("each byte five times", slow),
        ("two values", few),
        ("127 and 128", signs),
        ("rising", input::saw(size)),
        ("falling", falling),
        ("text", input::repeated(&input::text(3000), size)),
        ("zeros", vec![0; size]),
        ("255", vec![255; size]),
    ]
}

fn check(chunker: &dyn Chunker, name: &str, data: &[u8], rule: impl Fn(&[u8]) -> usize) {
    let expected = plain_cuts(data, rule);
    for feed in [Feed::Whole, Feed::Slices(1, 1), Feed::Slices(200, 2), Feed::Reader(300, 3)] {
        let ends = fed_cuts(chunker, data, feed);
        assert_eq!(ends, expected, "{chunker:?}, {} bytes of {name}, {feed:?}", data.len());
    }
    check_invariants(chunker, data, &expected);
}

/// The sizes around `edges`, and 0 and 1.
fn sizes_around(edges: &[usize]) -> Vec<usize> {
    let mut sizes = vec![0, 1];
    for &edge in edges {
        sizes.extend(edge.saturating_sub(3)..=edge + 3);
    }
    sizes
}

#[test]
fn seqcdc_cuts_like_its_plain_form() {
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
        };
        let chunker = seqcdc::SeqCdc::new(params).expect("the parameters are right");
        let (min, max) = (params.chunk_size_min, params.chunk_size_max);
        let edge = [min, max, min + 64, max + min, min + params.skip_size][random.below(5)];
        for size in sizes_around(&[edge]).into_iter().chain([3001]) {
            for (name, data) in kinds(size, random.next()) {
                check(&chunker, name, &data, |rest| common::seqcdc(&params, rest));
            }
        }
    }
}

/// A run, then an opposing pair, at each place of the blocks; values over the sign bit.
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
        };
        let chunker = seqcdc::SeqCdc::new(params).expect("the parameters are right");
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
                check(&chunker, "one run", &data, |rest| common::seqcdc(&params, rest));
                // The same with a fall in it, at each place.
                if start % 16 == 5 {
                    for fall in start..start + 70 {
                        let mut data = data.clone();
                        data[fall..].iter_mut().for_each(|byte| *byte -= first.min(9));
                        let expected = plain_cuts(&data, |rest| common::seqcdc(&params, rest));
                        let ends = fed_cuts(&chunker, &data, Feed::Whole);
                        assert_eq!(ends, expected, "run at {start}, fall at {fall}");
                    }
                }
            }
        }
    }
}

/// Every pair of byte values compares as it should.
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

#[test]
fn fastcdc_cuts_like_its_plain_form() {
    let gear = common::gear();
    let mut random = SplitMix64::new(11);
    for round in 0..60 {
        let chunk_size_min = [64, 66, 70, 128, 256, 300][random.below(6)];
        let normal_size = [256, 258, 264, 300, 362, 364, 512, 724, 726, 1000][random.below(10)]
            .max(chunk_size_min);
        let params = fastcdc::Params {
            level: [0, 1, 2, 3][round % 4],
            chunk_size_min,
            normal_size,
            chunk_size_max: [1024, 1026, 1030, 1500, 4000][random.below(5)],
            seed: [0, 1, u64::MAX, random.next()][random.below(4)],
        };
        let chunker = fastcdc::FastCdc::new(params).expect("the parameters are right");
        let gear = gear.map(|entry| entry ^ params.seed);
        let edges = [chunk_size_min, normal_size, params.chunk_size_max];
        for size in
            sizes_around(&[edges[round % 3], edges[round % 3] * 2]).into_iter().chain([6001])
        {
            for (name, data) in kinds(size, random.next()) {
                check(&chunker, name, &data, |rest| common::fastcdc(&params, &gear, rest));
            }
        }
    }
}

/// Where a match falls on the last byte of an odd stream, it does not count; with more to come it does.
#[test]
fn fastcdc_never_tests_the_last_byte_of_an_odd_stream() {
    let spec: Spec = "fastcdc:level=0,min=64,normal=256,max=4096".parse().expect("right");
    let chunker = spec.chunker();
    let mut odd_matches = 0;
    for seed in 0..200 {
        let data = SplitMix64::bytes(seed, 4096);
        let cut = chunker.next_cut(&data, false).expect("a cut-point");
        // The matching byte is the last one here.
        let data = &data[..=cut];
        let expected = if data.len() % 2 == 1 { data.len() } else { cut };
        odd_matches += usize::from(data.len() % 2 == 1);
        assert_eq!(chunker.next_cut(data, false), Some(expected), "seed {seed}, at the end");
        assert_eq!(chunker.next_cut(data, true), Some(cut), "seed {seed}, with more");
    }
    assert!(odd_matches > 50, "{odd_matches} matches at an odd end");
}

#[test]
fn fixed_cuts_like_its_plain_form() {
    for size in [1, 2, 3, 64, 1000] {
        let chunker = Fixed::new(size).expect("the size is right");
        for data_size in sizes_around(&[size, 3 * size]) {
            let data = SplitMix64::bytes(12, data_size);
            check(&chunker, "noise", &data, |rest| common::fixed(size, rest));
        }
    }
}

/// Empty data, and the promise about the largest size.
#[test]
fn the_contract_at_its_edges() {
    for text in ["seqcdc:paper=4k", "fastcdc:avg=4k", "fixed:size=4k"] {
        let spec: Spec = text.parse().expect("the spec is right");
        let chunker = spec.chunker();
        let max = chunker.chunk_size_max().expect("all have one");
        assert_eq!(chunker.chunk_size_min(), spec.chunk_size_min(), "{text}");
        assert_eq!(max, spec.chunk_size_max(), "{text}");
        for more in [false, true] {
            assert_eq!(chunker.next_cut(&[], more), None, "{text}, empty");
            assert_eq!(chunker.next_cut(&vec![0; max], more), Some(max), "{text}, max");
            assert_eq!(chunker.next_cut(&vec![0; max + 1], more), Some(max), "{text}, max + 1");
        }
        assert_eq!(chunker.next_cut(&vec![0; max - 1], true), None, "{text}, max - 1");
        assert_eq!(chunker.next_cut(&vec![0; max - 1], false), Some(max - 1), "{text}, max - 1");
        assert_eq!(chunker.next_cut(&[7], false), Some(1), "{text}, one byte");
        assert_eq!(chunker.next_cut(&[7], true), None, "{text}, one byte and more");
    }
}
