//! The rules that look at blocks of bytes, at the edges of blocks and windows, on every level.

use cutpoint_chunking::algorithm::{bfbc, samplebyte};
use cutpoint_chunking::{Chunker, Level, Spec, cuts};
use cutpoint_testing::SplitMix64;

use crate::harness::checks::reference_cuts;

/// Checks that every level cuts `data` like the reference, and that it has code for this spec.
fn check(spec: &Spec, data: &[u8], name: &dyn Fn() -> String) {
    let expected = reference_cuts(spec, data);
    for level in Level::available().into_iter().chain([Level::EMULATED]) {
        let chunker = spec.chunker_at(level);
        // `avx512vbmi` has no block operations beyond those of the level below.
        let expected_name = if level.name() == "avx512vbmi" { "avx512" } else { level.name() };
        assert_eq!(chunker.level().name(), expected_name, "{spec}");
        let ends: Vec<usize> = cuts(&*chunker, data).collect();
        assert_eq!(ends, expected, "{spec}, {}, {} bytes, {}", level.name(), data.len(), name());
    }
}

fn specs(texts: &[String]) -> Vec<Spec> {
    texts
        .iter()
        .map(|text| text.parse().unwrap_or_else(|error| panic!("{text}: {error}")))
        .collect()
}

/// Returns specs of the extremum rules with this window.
fn extremum_specs(window: usize) -> Vec<Spec> {
    let mut texts = vec![
        format!("ram:window={window}"),
        format!("ram:window={window},cut=before,max={}", window + 70),
        format!("ram:window={window},equal=pass,max={}", 2 * window + 3),
        format!("ae:mode=max,window={window}"),
        format!("ae:mode=min,window={window},cut=before"),
        format!("ae:mode=max,window={window},max={}", window + 65),
        format!("maxp:window={window}"),
        format!("maxp:window={window},form=strict"),
        format!("maxp:window={window},form=strict,max={}", 2 * window + 64),
        format!("maxp:window={window},max={}", 2 * window + 1),
        format!("ae:mode=max,window={window},bytes=8"),
        format!("ae:mode=min,window={window},bytes=4,cut=before"),
        format!("ae:mode=min,window={window},bytes=2,max={}", window + 66),
        format!("maxp:window={window},bytes=8,max={}", 2 * window + 8),
        format!("maxp:window={window},bytes=4,form=strict"),
        format!("maxp:window={window},bytes=2"),
    ];
    if window >= 2 {
        texts.push(format!("ae:mode=min,window={window},lest={}", window.min(66)));
    }
    specs(&texts)
}

const WINDOWS: [usize; 10] = [1, 2, 31, 63, 64, 65, 127, 128, 129, 200];

/// One value, with the most extreme value or another one at each position, alone or with a second
/// one behind it at the distance of a window, a byte less, and a byte more. Windows end with it,
/// before it and behind it.
#[test]
fn extreme_value_is_found_at_every_position() {
    let values = [(0, 255), (255, 0), (127, 128), (128, 127), (254, 255), (1, 0), (100, 200)];
    for (round, window) in WINDOWS.into_iter().enumerate() {
        for spec in extremum_specs(window) {
            let size = 2 * window + 150;
            for at in 0..size {
                let (most, other) = values[(at + round) % values.len()];
                for distance in [None, Some(window - 1), Some(window), Some(window + 1)] {
                    let mut data = vec![most; size + window];
                    data[at] = other;
                    if let Some(second) = distance.and_then(|distance| data.get_mut(at + distance))
                    {
                        *second = other;
                    }
                    check(&spec, &data, &|| format!("{most}, {other} at {at} and {distance:?}"));
                }
            }
        }
    }
}

/// Noise of few values has equal ones in every window. Saturated values occur nearly everywhere, or
/// rarely. The sizes are around those of windows and blocks.
#[test]
fn noise_of_few_values_is_cut_like_the_reference() {
    let mut random = SplitMix64::new(20);
    for window in WINDOWS {
        for spec in extremum_specs(window) {
            for mask in [0x00, 0x01, 0x81, 0xc0, 0xff] {
                for (rare, saturated) in [(1, 255), (1, 0), (200, 255), (200, 0), (40, 7)] {
                    let size = random.below(6 * window + 200);
                    let data: Vec<u8> = random
                        .take(size)
                        .into_iter()
                        .map(|byte| if random.below(rare) == 1 { saturated } else { byte & mask })
                        .collect();
                    check(&spec, &data, &|| format!("{mask:#x}, {saturated} one in {rare}"));
                }
            }
        }
    }
}

/// A rising run of about the length of the rule, at each position of the blocks.
#[test]
fn rising_run_is_found_at_every_position() {
    for length in [2, 3, 7, 8, 31, 32] {
        let texts = ["", ",first=0", ",max=100"].map(|more| format!("mii:length={length}{more}"));
        for spec in specs(&texts) {
            for start in 0..200 {
                for run in [length - 1, length, length + 1] {
                    let mut data = vec![120; 300];
                    let bytes = &mut data[start..start + run];
                    bytes.iter_mut().zip(110..).for_each(|(byte, up)| *byte = up);
                    data[start + run..].fill(0);
                    check(&spec, &data, &|| format!("{run} from {start} on"));
                }
            }
        }
    }
}

/// The least number at each position of blocks and behind the last whole one, alone and with a
/// second one that is equal.
#[test]
fn least_number_of_four_bytes_is_found_at_every_position() {
    for (min, max) in
        [(4, 4), (4, 5), (5, 70), (10, 73), (10, 74), (63, 200), (64, 211), (100, 400)]
    {
        let texts = ["", ",value=plain"].map(|more| format!("mincdc:min={min},max={max}{more}"));
        for spec in specs(&texts) {
            for at in 0..max + 3 {
                for distance in [None, Some(1), Some(4), Some(64), Some(65)] {
                    // Of the numbers of eights with a zero in them, the least has the zero as its
                    // last byte.
                    let mut data = vec![8; 2 * max + 5];
                    data[at] = 0;
                    if let Some(second) = distance.and_then(|distance| data.get_mut(at + distance))
                    {
                        *second = 0;
                    }
                    check(&spec, &data, &|| format!("a zero at {at} and {distance:?}"));
                }
            }
        }
    }
    let mut random = SplitMix64::new(23);
    for round in 0..400 {
        let min = 4 + random.below(150);
        let max = min + random.below(300);
        let value = ["hash", "plain"][round % 2];
        let mask = [0xff, 0x81, 0x01, 0x00][round / 2 % 4];
        let size = random.below(4 * max);
        let data: Vec<u8> = random.take(size).iter().map(|byte| byte & mask).collect();
        for spec in specs(&[format!("mincdc:min={min},max={max},value={value}")]) {
            check(&spec, &data, &|| format!("{mask:#x}"));
        }
    }
}

/// Sets of few members, for which the sieve is exact, and of more.
#[test]
fn set_members_are_found_at_every_position() {
    let mut random = SplitMix64::new(21);
    for count in [1, 3, 7, 8, 9, 20, 100] {
        for round in 0..20 {
            // Few values, so that pairs and their halves nearly match.
            let kinds = if round % 2 == 0 { 0x93 } else { 0xff };
            let mut pairs: Vec<[u8; 2]> = (0..count)
                .map(|_| random.next().to_le_bytes().map(|byte| byte & kinds))
                .map(|[a, b, ..]| [a, b])
                .collect();
            pairs.sort_unstable();
            pairs.dedup();
            let members = pairs.clone();
            let params =
                bfbc::Params { pairs, chunk_size_min: 2 + random.below(90), chunk_size_max: None };
            let is_fine = bfbc::Bfbc::new(params.clone()).expect("right").level() != Level::SCALAR;
            assert!(is_fine || count > 8, "{count} members need no other way");
            let spec = Spec::try_from(params).expect("the parameters are right");
            for size in 60..200 {
                let mut data: Vec<u8> = random.take(size).iter().map(|byte| byte & kinds).collect();
                let at = random.below(size - 1);
                data[at..at + 2].copy_from_slice(&members[random.below(members.len())]);
                if is_fine {
                    check(&spec, &data, &|| format!("a member at {at}"));
                } else {
                    let ends: Vec<usize> = cuts(&*spec.chunker(), &data).collect();
                    assert_eq!(ends, reference_cuts(&spec, &data), "{spec}");
                }
            }
        }
    }
}

/// A set whose sieve would pass nearly all members is searched byte by byte.
#[test]
fn coarse_sieve_is_not_used() {
    let pairs: Vec<[u8; 2]> = (0..=255).map(|byte: u8| [byte, byte.wrapping_mul(37)]).collect();
    let params = bfbc::Params { pairs, chunk_size_min: 2, chunk_size_max: None };
    let chunker = bfbc::Bfbc::new(params).expect("the parameters are right");
    assert_eq!(chunker.level(), Level::SCALAR, "the sieve of 256 pairs of all kinds");
    let markers: Vec<u8> = (0..=255).step_by(5).collect();
    let params = samplebyte::Params { period: 2, markers, chunk_size_max: None };
    let chunker = samplebyte::SampleByte::new(params).expect("the parameters are right");
    assert_eq!(chunker.level(), Level::SCALAR, "the sieve of 52 bytes");
}

/// Every byte as a marker, among other bytes, at each position.
#[test]
fn markers_are_found_at_every_position() {
    let mut random = SplitMix64::new(22);
    for marker in 0..=u8::MAX {
        let text = format!("samplebyte:period=40,markers={marker:02x}.{:02x}", marker ^ 0x11);
        let texts = if marker & 0x10 == 0 {
            text
        } else {
            format!("samplebyte:period=2,markers={marker:02x}")
        };
        let [spec] = &specs(&[texts])[..] else { unreachable!("it is one") };
        for at in [0, 19, 20, 21, 62, 63, 64, 65, 83, 84, 85, 147, 148, 149] {
            let size = (at + 1 + random.below(70)).max(130);
            let mut data = vec![marker.wrapping_add(1); size];
            data[at] = marker;
            check(spec, &data, &|| format!("{marker} at {at}"));
        }
    }
}
