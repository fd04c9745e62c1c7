//! Every level cuts like the scalar one, for random specs, data and feeding.
//!
//! `CUTPOINT_SPECS` is the number of specs, and `CUTPOINT_SEED` the first seed. A failure names its
//! seed.

mod common;

use common::{Feed, fed_cuts, key_material, reference_cuts};
use cutpoint_chunking::{Chunker, Level, Parallel, Spec, cuts};
use cutpoint_testing::{SplitMix64, input};
use std::num::NonZero;

fn pick<T: Copy>(random: &mut SplitMix64, list: &[T]) -> T {
    list[random.below(list.len())]
}

fn sizes(random: &mut SplitMix64, min_options: &[usize]) -> (usize, Option<usize>) {
    let min = pick(random, min_options) + random.below(3);
    let max = match random.below(4) {
        0 => None,
        1 => Some(min + random.below(200)),
        2 => Some(min + random.below(20_000)),
        _ => Some(min + random.below(400_000)),
    };
    (min.max(1), max)
}

const MINS: &[usize] = &[
    1, 2, 30, 31, 32, 62, 63, 64, 65, 127, 500, 511, 512, 1000, 4000, 4095, 4160, 10_000, 70_000,
    266_000, 700_000,
];
const WINDOWS: &[usize] = &[
    1, 2, 3, 4, 16, 31, 32, 33, 47, 48, 63, 64, 65, 100, 127, 128, 129, 255, 256, 257, 448, 449,
    510, 511, 512, 513,
];

/// Returns a polynomial that the rule accepts, by trying random ones until one is irreducible.
fn polynomial(random: &mut SplitMix64) -> u64 {
    let degree = pick(random, &[48usize, 49, 50, 51, 52, 53]);
    loop {
        let polynomial = 1 << degree | random.next() & ((1 << degree) - 1) | 1;
        if format!("rabin:bits=9,window=48,poly=0x{polynomial:x}").parse::<Spec>().is_ok() {
            return polynomial;
        }
    }
}

fn text(random: &mut SplitMix64) -> String {
    let kind = random.below(15);
    let (min, max) = sizes(random, MINS);
    let max_text = |max: Option<usize>| max.map_or(String::new(), |max| format!(",max={max}"));
    let window = pick(random, WINDOWS);
    match kind {
        0..=2 => {
            let level = if random.below(2) == 0 { 0 } else { 1 + random.below(3) };
            let bits = (level + 1 + random.below(16)).min(31 - level);
            let mut text = format!("gear:bits={bits}");
            if level > 0 {
                let normal =
                    pick(random, &[1, 63, 64, 100, 1000, 4096, 30_000, 300_000]) + random.below(4);
                text += &format!(",level={level},normal={normal}");
            }
            text += pick(
                random,
                &[
                    "",
                    ",table=cutpoint32",
                    ",table=cdchunking",
                    ",table=gearhash",
                    ",table=dedup-bench",
                ],
            );
            text += pick(random, &["", ",start=cold", ",start=carry"]);
            text += pick(random, &["", ",cut=before"]);
            text += &format!(",min={min}");
            text + &max_text(max)
        }
        3..=5 => {
            let dedup = random.below(2) == 0;
            let odd = |random: &mut SplitMix64, size: usize| {
                if dedup { size + random.below(2) } else { size & !1 }
            };
            let min = 64
                + pick(random, &[0, 2, 62, 64, 448, 1000, 4032, 4096, 60_000])
                + random.below(40);
            let min = odd(random, min);
            let normal = min.max(256) + pick(random, &[0, 2, 100, 1000, 8000, 60_000, 400_000]);
            let normal = odd(random, normal);
            let max = normal.max(1024) + pick(random, &[0, 2, 64, 1000, 30_000, 500_000]);
            let max = odd(random, max).max(normal);
            let level = random.below(4);
            let form = if dedup { ",form=dedup-bench" } else { "" };
            let seed = if random.below(3) == 0 {
                format!(",seed=0x{:x}", random.next())
            } else {
                String::new()
            };
            format!("fastcdc:min={min},normal={normal},max={max},level={level}{form}{seed}")
        }
        6 | 7 => {
            let bits = 1 + random.below(20);
            let poly = pick(random, &["", "p"]);
            let poly = if poly.is_empty() {
                String::new()
            } else {
                format!(",poly=0x{:x}", polynomial(random))
            };
            let start = pick(random, &["", ",start=one"]);
            let max = max.map(|max| max.max(window + random.below(5)));
            format!("rabin:bits={bits},window={window}{poly}{start},min={min}{}", max_text(max))
        }
        8 | 9 => {
            let bits = 1 + random.below(20);
            let window = window.max(4);
            let max = max.map(|max| max.max(window + random.below(5)));
            let cut = pick(random, &["", ",cut=before"]);
            format!("crc:bits={bits},window={window}{cut},min={min}{}", max_text(max))
        }
        10 | 11 => {
            let divisor = match random.below(4) {
                0 => 1 << random.below(31),
                1 => 1 + random.below(20),
                2 => 1 + random.below(10_000),
                _ => (1 + random.below(1000)) << random.below(10),
            };
            let remainder = pick(random, &[0, 0, 1, divisor / 2, divisor - 1]).min(divisor - 1);
            let table = pick(random, &["", ",table=casync", ",table=bita", ",table=cutpoint32"]);
            let max = max.map(|max| max.max(window + random.below(5)));
            format!(
                "buzhash:divisor={divisor},remainder={remainder},window={window}{table},min={min}{}",
                max_text(max)
            )
        }
        14 => {
            let window = pick(random, &[16, 32]);
            let max = max.map(|max| max.max(window + random.below(5)));
            let bits = 1 + random.below(20);
            format!("aes:bits={bits},window={window},min={min}{}", max_text(max))
        }
        12 => {
            let all = 8 * window;
            let threshold = match random.below(5) {
                0 => 1,
                1 => all,
                2 => all / 2,
                3 => all * 5 / 8,
                _ => 1 + random.below(all),
            };
            let max = max.map(|max| max.max(window + random.below(5)));
            format!("pci:window={window},threshold={}{}", threshold.max(1), max_text(max))
        }
        _ => {
            let window = pick(
                random,
                &[1usize, 2, 3, 63, 64, 65, 128, 255, 256, 257, 1000, 1024, 5000, 60_000],
            );
            let cut = pick(random, &["", ",cut=before"]);
            let max = max.map(|max| max.max(2 * window + 2));
            match random.below(8) {
                0 => format!(
                    "ram:window={window}{cut}{}{}",
                    pick(random, &["", ",equal=pass"]),
                    max_text(max)
                ),
                1 => format!(
                    "ae:window={window}{cut}{}{}",
                    pick(random, &[",mode=max", ",mode=min"]),
                    max_text(max)
                ),
                2 => format!(
                    "maxp:window={window}{}{}",
                    pick(random, &["", ",form=released", ",form=strict"]),
                    max_text(max)
                ),
                3 => format!(
                    "mii:length={}{}{}",
                    2 + random.below(31),
                    pick(random, &["", ",first=0"]),
                    max_text(max)
                ),
                4 => {
                    let count = 1 + random.below(12);
                    let mut list: Vec<usize> = (0..count).map(|_| random.below(65_536)).collect();
                    list.sort_unstable();
                    list.dedup();
                    let list: Vec<_> = list.iter().map(|n| format!("{n:04x}")).collect();
                    format!(
                        "bfbc:pairs={},min={}{}",
                        list.join("."),
                        min.max(2),
                        max_text(max.map(|m| m + 2))
                    )
                }
                5 => {
                    let min = min.max(4);
                    let value = pick(random, &["", ",value=plain"]);
                    format!("mincdc:min={min},max={}{value}", max.unwrap_or(2 * min).max(min))
                }
                6 => format!(
                    "seqcdc:mode={},length={},trigger={},skip={},min={min},max={}{}{}",
                    pick(random, &["inc", "dec"]),
                    2 + random.below(9),
                    1 + random.below(200),
                    pick(random, &[0, 1, 64, 256, 1024, 20_000]),
                    max.unwrap_or(4 * min),
                    pick(random, &["", ",equal=break"]),
                    pick(random, &["", ",rule=literal"]),
                ),
                _ => {
                    let count = 1 + random.below(9);
                    let mut list: Vec<usize> = (0..count).map(|_| random.below(256)).collect();
                    list.sort_unstable();
                    list.dedup();
                    let list: Vec<_> = list.iter().map(|n| format!("{n:02x}")).collect();
                    format!(
                        "samplebyte:period={},markers={}{}",
                        2 + 2 * random.below(127),
                        list.join("."),
                        max_text(max)
                    )
                }
            }
        }
    }
}

fn data(random: &mut SplitMix64) -> Vec<u8> {
    // Larger than a batch, which is four stretches of 266,240 bytes.
    let is_large = std::env::var("CUTPOINT_LARGE").is_ok();
    let size = match random.below(8) {
        _ if is_large => 1_060_000 + random.below(4_000_000),
        0 => random.below(9000),
        1 => 4096 * (1 + random.below(70)) + random.below(140),
        2 => 266_240 + random.below(200),
        3 => random.below(1 << 20),
        _ => random.below(400_000),
    };
    let mut data = match random.below(6) {
        0 => input::repeated(&random.take(1 + random.clone().below(300)), size),
        1 => random.take(size).iter().map(|b| b & 1).collect(),
        2 => input::repeated(&input::text(3000), size),
        _ => random.take(size),
    };
    data.truncate(size);
    for _ in 0..random.below(30) {
        if data.is_empty() {
            break;
        }
        let start = random.below(data.len());
        let span = pick(random, &[3usize, 70, 600, 5000, 60_000]);
        let end = (start + random.below(span)).min(data.len());
        let byte = pick(random, &[0u8, 0, 255, 1, 128, 97]);
        data[start..end].fill(byte);
    }
    data
}

#[test]
fn levels_agree() {
    let number = |name, default| {
        std::env::var(name).map_or(default, |text| text.parse().expect("a whole number"))
    };
    let (count, first) = (number("CUTPOINT_SPECS", 200), number("CUTPOINT_SEED", 1));
    let (mut done, mut staged, mut dense) = (0, 0, 0);
    for this in first..first + count {
        let mut random = SplitMix64::new(this);
        let text = text(&mut random);
        // Some texts are refused, which other tests cover.
        let Ok(spec) = text.parse::<Spec>() else { continue };
        let data = data(&mut random);
        let key = (random.below(3) == 0).then(|| random.next());
        let at = |level: Level| -> Option<Box<dyn Chunker>> {
            match key {
                None => Some(spec.chunker_at(level)),
                Some(key) => spec.keyed_chunker_at(&key_material(key), level).ok(),
            }
        };
        let Some(scalar) = at(Level::SCALAR) else { continue };
        assert_eq!(scalar.level(), Level::SCALAR);
        // One chunk at a time, by the rule itself.
        let mut expected = Vec::new();
        let mut start = 0;
        while start < data.len() {
            start += scalar
                .next_cut_after(&data[..start], &data[start..], false)
                .expect("it is the end");
            expected.push(start);
        }
        if data.len() < 30_000 && key.is_none() && random.below(4) == 0 {
            assert_eq!(reference_cuts(&spec, &data), expected, "seed {this}: {text}: reference");
        }
        let check = |ends: Vec<usize>, what: &str| {
            if ends != expected {
                let first = ends.iter().zip(&expected).position(|(a, b)| a != b);
                panic!(
                    "seed {this}: {text} key {key:?} {} bytes: {what}: {} and {} cuts, first difference {first:?} {:?} {:?}",
                    data.len(),
                    ends.len(),
                    expected.len(),
                    first.map(|i| ends[i]),
                    first.map(|i| expected[i])
                );
            }
        };
        let mut levels = Level::available();
        if data.len() < 60_000 || data.len() < 1_000_000 && random.below(20) == 0 {
            levels.push(Level::EMULATED);
        }
        for level in levels {
            let chunker = at(level).expect("scalar has it, too");
            if chunker.level() != level {
                continue;
            }
            if chunker.batch_size() > 0 {
                staged += 1;
                if expected.len() > data.len() / 20 {
                    dense += 1;
                }
            }
            let name = level.name();
            check(cuts(&*chunker, &data).collect(), &format!("{name} whole"));
            let mut ends = Vec::new();
            chunker.next_cuts(&data, 0, false, &mut ends);
            check(ends, &format!("{name} next_cuts at once"));
            for feed in [
                Feed::Batches(pick(&mut random, &[5_000, 60_000, 300_000, 1 << 20]), random.next()),
                Feed::Reader(pick(&mut random, &[3_000, 70_000, 1 << 20]), random.next()),
                Feed::Push(pick(&mut random, &[3_000, 70_000, 1 << 20]), random.next()),
            ] {
                check(fed_cuts(&*chunker, &data, feed), &format!("{name} {feed:?}"));
            }
            // From each of some true cut-points, with only the context before it.
            for _ in 0..3 {
                if expected.is_empty() {
                    break;
                }
                let index = random.below(expected.len());
                let start = expected[index];
                let context = start - chunker.context_size().min(start);
                let mut ends = Vec::new();
                chunker.next_cuts(&data[context..], start - context, false, &mut ends);
                ends.iter_mut().for_each(|end| *end += context);
                if ends != expected[index + 1..] {
                    panic!("seed {this}: {text} key {key:?}: {name} from {start}");
                }
            }
            if random.below(6) == 0 {
                let threads = NonZero::new(2 + random.below(3)).expect("at least 2");
                let parallel = Parallel::new(&*chunker, threads);
                check(cuts(&parallel, &data).collect(), &format!("{name} {threads} threads"));
                check(
                    fed_cuts(&parallel, &data, Feed::Reader(100_000, random.next())),
                    &format!("{name} {threads} threads, reader"),
                );
            }
        }
        done += 1;
    }
    println!("{done} specs, {staged} staged runs, {dense} dense");
    let has_stages = Level::best().name() == "avx512vbmi";
    assert!(staged > 0 && (dense > 0 || !has_stages || count < 100), "nothing was staged");
    assert!(done > 0);
}

/// Rules that have a first stage use it on levels with columns. Otherwise, the other tests would
/// not test it.
#[test]
fn stages_are_used_on_levels_with_columns() {
    for text in [
        "gear:bits=13",
        "gear:bits=13,table=cutpoint32",
        "gear:bits=13,min=1k,max=64k,start=carry",
        "fastcdc:avg=8k",
        "fastcdc:avg=44k",
        "fastcdc:avg=64k",
        "fastcdc:form=dedup-bench,avg=16k",
        "rabin:bits=13,window=48",
        "crc:bits=13,window=256,min=2k",
        "buzhash:avg=8k",
        "buzhash:divisor=4001,window=48,table=casync",
        "pci:avg=8k",
    ] {
        let spec: Spec = text.parse().expect("the spec is right");
        for level in Level::available().into_iter().chain([Level::EMULATED]) {
            let has_columns = ["avx512vbmi", "emulated"].contains(&level.name());
            let chunker = spec.chunker_at(level);
            assert_eq!(chunker.level() == level, has_columns || level == Level::SCALAR, "{text}");
            assert_eq!(chunker.batch_size() > 0, has_columns, "{text}, {}", level.name());
        }
    }
    // Two masks with hardly a bit in common would mark too many positions, and a search that skips
    // nearly all bytes is faster than marks.
    for text in ["fastcdc:avg=1k", "gear:bits=8,min=64k", "rabin:bits=8,window=48,min=64k"] {
        let spec: Spec = text.parse().expect("the spec is right");
        assert_eq!(spec.chunker_at(Level::EMULATED).level(), Level::SCALAR, "{text}");
    }
}
