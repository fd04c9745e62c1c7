//! Every level cuts like the scalar one, for random specs, data and feeding.
//!
//! `CUTPOINT_SPECS` is the number of specs, and `CUTPOINT_SEED` the first seed. A failure names its
//! seed.

mod random_specs;

use std::num::NonZero;

use cutpoint_chunking::{Chunker, Level, Parallel, Push, Spec, cuts};
use cutpoint_testing::{SplitMix64, input};

use crate::harness::checks::reference_cuts;
use crate::harness::feeds::{Feed, fed_cuts};
use crate::harness::inputs::{key_material, kinds};

fn pick<T: Copy>(random: &mut SplitMix64, list: &[T]) -> T {
    list[random.below(list.len())]
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

/// A spec, data and perhaps a key, with the cut-points of the scalar level.
struct Sample {
    seed: u64,
    spec: Spec,
    key: Option<u64>,
    data: Vec<u8>,
    ends: Vec<usize>,
}

impl Sample {
    /// Draws a sample; `None` if the spec, or the key, is refused, which other tests cover.
    fn draw(seed: u64, random: &mut SplitMix64) -> Option<Sample> {
        let spec: Spec = random_specs::text(random).parse().ok()?;
        let data = data(random);
        let key = (random.below(3) == 0).then(|| random.next());
        let mut sample = Sample { seed, spec, key, data, ends: Vec::new() };
        let scalar = sample.chunker(Level::SCALAR)?;
        assert_eq!(scalar.level(), Level::SCALAR, "{}: the level", sample.name());
        // One chunk at a time, by the rule itself.
        let (data, mut start) = (&sample.data, 0);
        while start < data.len() {
            let (before, rest) = data.split_at(start);
            start += scalar.next_cut_after(before, rest, false).expect("it is the end");
            sample.ends.push(start);
        }
        if data.len() < 30_000 && key.is_none() && random.below(4) == 0 {
            let expected = reference_cuts(&sample.spec, data);
            assert_eq!(sample.ends, expected, "{}: reference", sample.name());
        }
        Some(sample)
    }

    fn chunker(&self, level: Level) -> Option<Box<dyn Chunker>> {
        match self.key {
            None => Some(self.spec.chunker_at(level)),
            Some(key) => self.spec.keyed_chunker_at(&key_material(key), level).ok(),
        }
    }

    fn name(&self) -> String {
        let Sample { seed, spec, key, data, .. } = self;
        format!("seed {seed}: {spec} key {key:?} {} bytes", data.len())
    }

    fn is_dense(&self) -> bool {
        self.ends.len() > self.data.len() / 20
    }

    /// Checks the cut-points found by `way`.
    fn check(&self, ends: &[usize], way: &str) {
        let expected = &self.ends;
        if ends != expected {
            let first = ends.iter().zip(expected).position(|(a, b)| a != b);
            panic!(
                "{}: {way}: {} and {} cuts, first difference {first:?} {:?} {:?}",
                self.name(),
                ends.len(),
                expected.len(),
                first.map(|i| ends[i]),
                first.map(|i| expected[i])
            );
        }
    }

    /// Checks every way to feed `chunker`, which cuts on the level of this name.
    fn check_feeds(&self, chunker: &dyn Chunker, level: &str, random: &mut SplitMix64) {
        let data = &self.data;
        self.check(&cuts(chunker, data).collect::<Vec<_>>(), &format!("{level} whole"));
        let mut ends = Vec::new();
        chunker.next_cuts(data, 0, false, &mut ends);
        self.check(&ends, &format!("{level} next_cuts at once"));
        for feed in [
            Feed::Batches(pick(random, &[5_000, 60_000, 300_000, 1 << 20]), random.next()),
            Feed::Reader(pick(random, &[3_000, 70_000, 1 << 20]), random.next()),
            Feed::Push(pick(random, &[3_000, 17_000, 70_000, 1 << 20]), random.next()),
            Feed::Stopped(pick(random, &[3_000, 17_000, 70_000, 1 << 20]), random.next()),
            Feed::BatchesAgain(pick(random, &[3_000, 17_000, 70_000]), random.next()),
        ] {
            self.check(&fed_cuts(chunker, data, feed), &format!("{level} {feed:?}"));
        }
    }

    /// Checks the cut-points behind some true ones, given only the context before these.
    fn check_restarts(&self, chunker: &dyn Chunker, level: &str, random: &mut SplitMix64) {
        for _ in 0..3 {
            if self.ends.is_empty() {
                break;
            }
            let index = random.below(self.ends.len());
            let start = self.ends[index];
            let context = start - chunker.context_size().min(start);
            let mut ends = Vec::new();
            chunker.next_cuts(&self.data[context..], start - context, false, &mut ends);
            ends.iter_mut().for_each(|end| *end += context);
            assert!(ends == self.ends[index + 1..], "{}: {level} from {start}", self.name());
        }
    }

    fn check_threads(&self, chunker: &dyn Chunker, level: &str, random: &mut SplitMix64) {
        let threads = NonZero::new(2 + random.below(3)).expect("at least 2");
        let parallel = Parallel::new(chunker, threads);
        let ends: Vec<usize> = cuts(&parallel, &self.data).collect();
        self.check(&ends, &format!("{level} {threads} threads"));
        let ends = fed_cuts(&parallel, &self.data, Feed::Reader(100_000, random.next()));
        self.check(&ends, &format!("{level} {threads} threads, reader"));
        let ends = fed_cuts(&parallel, &self.data, Feed::Push(100_000, random.next()));
        self.check(&ends, &format!("{level} {threads} threads, pushed"));
    }
}

#[test]
fn levels_agree() {
    let number = |name, default| {
        std::env::var(name).map_or(default, |text| text.parse().expect("a whole number"))
    };
    let (count, first) = (number("CUTPOINT_SPECS", 200), number("CUTPOINT_SEED", 1));
    let (mut done, mut staged, mut dense) = (0, 0, 0);
    for seed in first..first + count {
        let random = &mut SplitMix64::new(seed);
        let Some(sample) = Sample::draw(seed, random) else { continue };
        let mut levels = Level::available();
        let size = sample.data.len();
        if size < 60_000 || size < 1_000_000 && random.below(20) == 0 {
            levels.push(Level::EMULATED);
        }
        for level in levels {
            let chunker = &*sample.chunker(level).expect("scalar has it, too");
            if chunker.level() != level {
                continue;
            }
            if chunker.batch_size() > 0 {
                staged += 1;
                dense += usize::from(sample.is_dense());
            }
            sample.check_feeds(chunker, level.name(), random);
            sample.check_restarts(chunker, level.name(), random);
            if random.below(6) == 0 {
                sample.check_threads(chunker, level.name(), random);
            }
        }
        done += 1;
    }
    println!("{done} specs, {staged} staged runs, {dense} dense");
    let has_stages = Level::best().name() == "avx512vbmi";
    assert!(staged > 0 && (dense > 0 || !has_stages || count < 100), "nothing was staged");
    assert!(done > 0);
}

/// Rules of all kinds of columns.
const COLUMN_SPECS: [&str; 10] = [
    "rabin:bits=8,window=64,min=300,max=5000",
    "rabin:bits=20,window=33",
    "crc:bits=9,window=100",
    "pci:window=58,threshold=266,max=65536",
    "gear:bits=9,table=gearhash",
    "gear:bits=12,table=cutpoint32",
    "fastcdc:level=1,min=256,normal=4096,max=8192",
    "fastcdc:form=dedup-bench,avg=4k",
    "buzhash:divisor=1024,window=48,min=100",
    "buzhash:divisor=500,window=32,table=casync",
];

/// Rules of columns whose chunks are longer than many slices, or whose hashes cover bytes before
/// the chunk.
const LONG_COLUMN_SPECS: [&str; 6] = [
    "rabin:bits=14,window=64,min=5000,max=64k",
    "crc:bits=14,window=512,min=700",
    "gear:bits=13,start=carry,min=2k,max=40k",
    "gear:bits=14,start=cold,cut=before,min=3001,max=100001",
    "fastcdc:level=2,min=4096,normal=16384,max=65536",
    "fastcdc:form=dedup-bench,level=2,min=8193,normal=16385,max=32769",
];

/// The rules of all columns, with sizes of data around the first positions that are hashed in rows,
/// whole tiles of 32 and 64 rows, and whole stretches.
#[test]
fn columns_agree_at_edges_of_tiles_and_stretches() {
    for text in COLUMN_SPECS {
        let spec: Spec = text.parse().expect("the spec is right");
        let tiles = [2048, 3 * 2048, 4096, 65 * 2048, 65 * 4096];
        let sizes = tiles.iter().flat_map(|tile| [tile - 1, tile + 1, tile + 64, tile + 513]);
        for size in sizes.chain([0, 1, 64, 65, 577]) {
            for (name, data) in kinds(size, size as u64) {
                let scalar = spec.chunker_at(Level::SCALAR);
                let expected: Vec<usize> = cuts(&*scalar, &data).collect();
                for level in Level::available() {
                    let chunker = spec.chunker_at(level);
                    let ends: Vec<usize> = cuts(&*chunker, &data).collect();
                    assert!(ends == expected, "{text}, {size} bytes of {name}: {}", level.name());
                }
            }
        }
    }
}

/// Pushes slices around the sizes of tiles, and around those at which the bytes of a slice are
/// searched, and copied.
#[test]
fn pushed_slices_agree_at_edges() {
    let edges = [2048, 4096, 8192, 16_384, 16_384 + 4096, 32_768, 65_536];
    let sizes = edges.iter().flat_map(|&edge| [edge - 1, edge, edge + 1]);
    let sizes: Vec<usize> = sizes.chain([1, 61, 1000, 17_000, 66_000, 100_000]).collect();
    for text in COLUMN_SPECS.into_iter().chain(LONG_COLUMN_SPECS) {
        let spec: Spec = text.parse().expect("the spec is right");
        for (name, data) in kinds(150_001, text.len() as u64) {
            let expected: Vec<usize> = cuts(&*spec.chunker_at(Level::SCALAR), &data).collect();
            for level in Level::available().into_iter().chain([Level::EMULATED]) {
                let chunker = spec.chunker_at(level);
                if chunker.batch_size() == 0 {
                    continue;
                }
                let is_slow = level == Level::EMULATED;
                if is_slow && !["noise with a hole", "two values"].contains(&name) {
                    continue;
                }
                for &size in sizes.iter().filter(|&&size| !is_slow || size.is_multiple_of(1000)) {
                    let size = if size == 1 && name != "noise" { 61 } else { size };
                    let mut push = Push::new(&*chunker);
                    let (mut ends, mut offset) = (Vec::new(), 0);
                    let mut each = |chunk: &[u8]| {
                        assert!(*chunk == data[offset..][..chunk.len()], "{text}: bytes");
                        offset += chunk.len();
                        ends.push(offset);
                    };
                    data.chunks(size).for_each(|slice| push.push(slice, &mut each));
                    push.finish(&mut each);
                    let level = level.name();
                    assert!(ends == expected, "{text}, {name} in slices of {size}: {level}");
                }
            }
        }
    }
}

/// The bytes in which a chunk has no end are not searched again. Other bytes in their place, which
/// would end the chunk, change nothing.
#[test]
fn known_bytes_are_not_searched_again() {
    for text in
        ["gear:bits=11", "rabin:bits=11,window=64", "fastcdc:level=0,min=256,normal=2048,max=64k"]
    {
        let spec: Spec = text.parse().expect("the spec is right");
        let data = SplitMix64::bytes(90, 3_000_000);
        let ends: Vec<usize> = cuts(&*spec.chunker_at(Level::SCALAR), &data).collect();
        let (start, end) = ends
            .windows(2)
            .map(|pair| (pair[0], pair[1]))
            .max_by_key(|(a, b)| b - a)
            .expect("there are many");
        let chunker = spec.chunker_at(Level::EMULATED);
        let known = chunker.next_cuts_again(&data[start..end - 1], 0, true, 0, &mut Vec::new());
        assert!(
            known > 8_000 && end - 1 - start - known < 5_000,
            "{text}: {known} of {}",
            end - start
        );
        // The start of the stream, in which several chunks end.
        let mut other = data[start..end + 9_000].to_vec();
        other[..known - 600].copy_from_slice(&data[..known - 600]);
        assert!(ends[0] < known - 600, "{text}: the other bytes have an end");
        let mut found = Vec::new();
        chunker.next_cuts_again(&other, 0, true, known, &mut found);
        assert_eq!(found.first(), Some(&(end - start)), "{text}: the end of the chunk");
    }
}

/// Rules that have a first stage use it on levels with columns. Otherwise, the other tests would
/// not test it.
#[test]
fn stages_are_used_on_levels_with_columns() {
    // A rule that is linear has columns by AVX2. One of long hashes that skips much is not worth
    // them by AVX-512 with tables of pairs.
    for (text, is_worth_pairs, is_linear) in [
        ("gear:bits=13", true, false),
        ("gear:bits=13,table=cutpoint32", true, false),
        ("gear:bits=13,min=1k,max=64k,start=carry", false, false),
        ("fastcdc:avg=8k", false, false),
        ("fastcdc:avg=44k", false, false),
        ("fastcdc:avg=64k", false, false),
        ("fastcdc:level=1,min=2048,normal=8192,max=32768", true, false),
        ("fastcdc:form=dedup-bench,avg=16k", true, false),
        ("rabin:bits=13,window=48", true, true),
        ("crc:bits=13,window=256,min=2k", true, true),
        ("buzhash:avg=8k", false, false),
        ("buzhash:divisor=4001,window=48,table=casync", true, false),
        ("pci:avg=8k", true, true),
    ] {
        let spec: Spec = text.parse().expect("the spec is right");
        for level in Level::available().into_iter().chain([Level::EMULATED]) {
            let has_columns = match level.name() {
                "avx512vbmi" | "emulated" => true,
                "avx512" => is_worth_pairs,
                "avx2" => is_linear,
                _ => false,
            };
            let chunker = spec.chunker_at(level);
            let name = format!("{text}, {}", level.name());
            assert_eq!(chunker.level() == level, has_columns || level == Level::SCALAR, "{name}");
            assert_eq!(chunker.batch_size() > 0, has_columns, "{name}");
        }
    }
    // Two masks with hardly a bit in common would mark too many positions, and a search that skips
    // nearly all bytes is faster than marks.
    for text in ["fastcdc:avg=1k", "gear:bits=8,min=64k", "rabin:bits=8,window=48,min=64k"] {
        let spec: Spec = text.parse().expect("the spec is right");
        assert_eq!(spec.chunker_at(Level::EMULATED).level(), Level::SCALAR, "{text}");
    }
}
