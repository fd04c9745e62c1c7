//! Our cut-points equal those of the public crates with the same rules, on data of every kind.

use cutpoint_chunking::{KeyMaterial, Spec, cuts};
use cutpoint_testing::SplitMix64;

use crate::harness::inputs::{key_material, kinds};

fn spec(text: &str) -> Spec {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn ours(text: &str, data: &[u8]) -> Vec<usize> {
    cuts(&*spec(text).chunker(), data).collect()
}

#[test]
fn fastcdc_cuts_like_public_crate() {
    use ::fastcdc::v2020::{FastCDC, Normalization};
    let levels = [
        Normalization::Level0,
        Normalization::Level1,
        Normalization::Level2,
        Normalization::Level3,
    ];
    let mut random = SplitMix64::new(40);
    for (number, level) in levels.into_iter().enumerate().cycle().take(12) {
        let (min, normal, max) =
            [(64, 256, 1024), (512, 2048, 8192), (1024, 5000, 16_384)][random.below(3)];
        let seed = [0, 666, random.next()][random.below(3)];
        for (name, data) in kinds(200_000 + random.below(2), random.next()) {
            let theirs = FastCDC::with_level_and_seed(&data, min, normal, max, level, seed);
            let theirs: Vec<usize> = theirs.map(|chunk| chunk.offset + chunk.length).collect();
            let text =
                format!("fastcdc:level={number},min={min},normal={normal},max={max},seed={seed}");
            assert_eq!(ours(&text, &data), theirs, "{text}, {name}");
        }
    }
}

#[test]
fn ronomon_cuts_like_public_crate() {
    use ::fastcdc::ronomon::FastCDC;
    let sizes = [(64, 256, 1024), (512, 2048, 8192), (1000, 700, 1024), (5000, 16_385, 70_000)];
    let mut random = SplitMix64::new(43);
    for (min, average, max) in sizes {
        for (name, data) in kinds(200_000 + random.below(2), random.next()) {
            let theirs = FastCDC::new(&data, min, average, max);
            let theirs: Vec<usize> = theirs.map(|chunk| chunk.offset + chunk.length).collect();
            let text = format!("ronomon:min={min},average={average},max={max}");
            assert_eq!(ours(&text, &data), theirs, "{text}, {name}");
        }
    }
}

/// Cuts `data` where `hasher` matches, between the minimum and the maximum size of a chunk. The
/// state of the hasher restarts behind a cut-point unless `carries` is set.
fn gearhash_cuts(
    mut hasher: ::gearhash::Hasher<'_>,
    bits: u32,
    (min, max): (usize, usize),
    carries: bool,
    data: &[u8],
) -> Vec<usize> {
    let mut ends = Vec::new();
    let mut start = 0;
    while start < data.len() {
        let (first, limit) = (start + min - 1, data.len().min(start.saturating_add(max)));
        let mut end = limit;
        if first < limit {
            hasher.update(&data[start..first]);
            let found = hasher.next_match(&data[first..limit], u64::MAX << (64 - bits));
            end = found.map_or(limit, |size| first + size);
        }
        ends.push(end);
        start = end;
        if !carries {
            hasher.set_hash(0);
        }
    }
    ends
}

/// The crate finds positions in a buffer, without limits; restarting the hash is left to its user.
#[test]
fn gearhash_cuts_like_public_crate() {
    let mut random = SplitMix64::new(41);
    for round in 0..12 {
        let bits = [1, 5, 8, 11][round % 4];
        let carries = round % 3 == 2;
        let (min, max) = [(1, usize::MAX), (100, usize::MAX), (64, 3000)][random.below(3)];
        let mut text = format!("gear:bits={bits},table=gearhash,min={min}");
        if max != usize::MAX {
            text += &format!(",max={max}");
        }
        if carries {
            text += ",start=carry";
        }
        for (name, data) in kinds(200_000 + random.below(8), random.next()) {
            let hasher = ::gearhash::Hasher::default();
            let theirs = gearhash_cuts(hasher, bits, (min, max), carries, &data);
            assert_eq!(ours(&text, &data), theirs, "{text}, {name}");
        }
    }
}

/// Key material is a table, which the crate accepts as well.
#[test]
fn keyed_gear_cuts_like_gearhash_crate() {
    for seed in 0..4 {
        let text = ["gear:bits=9", "gear:bits=7,min=65,max=700,start=carry"][usize::from(seed > 1)];
        let material = SplitMix64::bytes(seed, KeyMaterial::SIZE);
        let mut table = [0; 256];
        for (entry, bytes) in table.iter_mut().zip(material.as_chunks::<8>().0) {
            *entry = u64::from_le_bytes(*bytes);
        }
        let chunker = spec(text).keyed_chunker(&key_material(seed)).expect("it can be keyed");
        let (bits, sizes) = if seed > 1 { (7, (65, 700)) } else { (9, (1, usize::MAX)) };
        for (name, data) in kinds(50_000, 100 + seed) {
            let hasher = ::gearhash::Hasher::new(&table);
            let theirs = gearhash_cuts(hasher, bits, sizes, seed > 1, &data);
            let ours: Vec<usize> = cuts(&*chunker, &data).collect();
            assert_eq!(ours, theirs, "{text}, key {seed}, {name}");
        }
    }
}

#[test]
fn mincdc_cuts_like_public_crate() {
    use ::mincdc::{MinCdc4, MinCdcHash4, SliceChunker};
    let sizes = [(4, 4), (4, 5), (5, 100), (64, 64), (100, 199), (1000, 3000), (4096, 50_000)];
    let mut random = SplitMix64::new(42);
    for (min, max) in sizes {
        for (name, data) in kinds(100_000 + random.below(8), random.next()) {
            let hash = SliceChunker::new(&data, min, max, MinCdcHash4::new());
            let hash: Vec<usize> = hash.map(|chunk| chunk.offset() + chunk.len()).collect();
            let text = format!("mincdc:min={min},max={max}");
            assert_eq!(ours(&text, &data), hash, "{text}, {name}");
            let plain = SliceChunker::new(&data, min, max, MinCdc4::default());
            let plain: Vec<usize> = plain.map(|chunk| chunk.offset() + chunk.len()).collect();
            let text = format!("{text},value=plain");
            assert_eq!(ours(&text, &data), plain, "{text}, {name}");
        }
    }
}
