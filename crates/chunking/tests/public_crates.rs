//! Our cut-points beside those of the public crates whose rules ours are, on data of every kind.

mod common;

use common::kinds;
use cutpoint_chunking::{Spec, cuts};
use cutpoint_testing::SplitMix64;

fn ours(text: &str, data: &[u8]) -> Vec<usize> {
    let spec: Spec = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
    cuts(&*spec.chunker(), data).collect()
}

#[test]
fn fastcdc() {
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
