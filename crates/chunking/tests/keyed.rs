//! Key material: it does what its documentation says, and keeps the mean.

mod common;

use common::vectors::key_material;
use common::{Feed, fed_cuts};
use cutpoint_chunking::{KeyMaterial, Spec, cuts};
use cutpoint_testing::SplitMix64;

/// The permutation of `SeqCdc::keyed`, once more from its words.
fn permutation(bytes: &[u8]) -> Vec<u8> {
    let mut permutation: Vec<u8> = (0..=255).collect();
    let mut next = 0;
    for i in (1..256u32).rev() {
        let r = loop {
            let r = u32::from(bytes[next]) + 256 * u32::from(bytes[next + 1]);
            next += 2;
            if r < 65536 - 65536 % (i + 1) {
                break r;
            }
        };
        permutation.swap(i as usize, (r % (i + 1)) as usize);
    }
    permutation
}

#[test]
fn keyed_seqcdc_is_seqcdc_of_permuted_bytes() {
    for (seed, text) in
        [(1, "seqcdc:avg=2k"), (2, "seqcdc:avg=4k,mode=dec"), (3, "seqcdc:paper=8k")]
    {
        let spec: Spec = text.parse().expect("the spec is right");
        let permutation = permutation(&SplitMix64::bytes(seed, KeyMaterial::SIZE));
        let mut data = SplitMix64::bytes(seed + 10, 300_000);
        data.extend(cutpoint_testing::input::text(200_001));
        let permuted: Vec<u8> = data.iter().map(|&byte| permutation[usize::from(byte)]).collect();
        let expected: Vec<usize> = cuts(&*spec.chunker(), &permuted).collect();
        let plain: Vec<usize> = cuts(&*spec.chunker(), &data).collect();
        assert_ne!(plain, expected, "{text}");
        let chunker = spec.keyed_chunker(&key_material(seed));
        for feed in Feed::ALL {
            assert_eq!(fed_cuts(&*chunker, &data, feed), expected, "{text}, {feed:?}");
        }
    }
}

#[test]
fn permutation_rejects_what_would_bias_it() {
    // Every pair is 65535: it is refused for each number of choices that does not divide 65536, so
    // the first swap happens (256 choices, 65535 % 256 = 255: in place), then the material runs out.
    let keyed = |bytes: [u8; KeyMaterial::SIZE]| {
        let spec: Spec = "seqcdc:paper=4k".parse().expect("the spec is right");
        let data = SplitMix64::bytes(5, 100_000);
        let chunker = spec.keyed_chunker(&KeyMaterial::new(bytes));
        (
            cuts(&*chunker, &data).collect::<Vec<_>>(),
            cuts(&*spec.chunker(), &data).collect::<Vec<_>>(),
        )
    };
    let (ends, plain) = keyed([255; KeyMaterial::SIZE]);
    assert_eq!(ends, plain, "nothing was moved");
    // The last pair of a multiple, 65535 - 1 for 255 choices: taken.
    let mut bytes = [255; KeyMaterial::SIZE];
    (bytes[2], bytes[3]) = (0, 0);
    let (ends, plain) = keyed(bytes);
    assert_ne!(ends, plain, "254 and 0 changed places");
}

#[test]
fn keyed_fastcdc_takes_the_material_as_its_table() {
    let spec: Spec = "fastcdc:level=1,min=512,normal=2048,max=8192,seed=5".parse().expect("right");
    let bytes = SplitMix64::bytes(7, KeyMaterial::SIZE);
    let mut gear = [0; 256];
    for (entry, bytes) in gear.iter_mut().zip(bytes.as_chunks::<8>().0) {
        *entry = u64::from_le_bytes(*bytes) ^ 5;
    }
    let params = cutpoint_chunking::algorithm::fastcdc::Params {
        level: 1,
        chunk_size_min: 512,
        normal_size: 2048,
        chunk_size_max: 8192,
        seed: 5,
    };
    let data = SplitMix64::bytes(8, 300_001);
    let expected = common::plain_cuts(&data, |rest| common::fastcdc(&params, &gear, rest));
    let chunker = spec.keyed_chunker(&key_material(7));
    for feed in Feed::ALL {
        assert_eq!(fed_cuts(&*chunker, &data, feed), expected, "{feed:?}");
    }
}

#[test]
fn keys_differ_and_keep_the_mean() {
    for text in ["fastcdc:avg=4k", "seqcdc:avg=4k"] {
        let spec: Spec = text.parse().expect("the spec is right");
        let data = SplitMix64::bytes(30, 4096 * 2000);
        let ends: Vec<Vec<usize>> = (0..4)
            .map(|seed| cuts(&*spec.keyed_chunker(&key_material(seed)), &data).collect())
            .collect();
        for (index, one) in ends.iter().enumerate() {
            let mean = data.len() as f64 / one.len() as f64;
            assert!((mean / 4096.0 - 1.0).abs() < 0.05, "{text}, key {index}: {mean}");
            for other in &ends[..index] {
                let shared = one.iter().filter(|end| other.binary_search(end).is_ok()).count();
                assert!(shared < one.len() / 50, "{text}: {shared} of {} shared", one.len());
            }
        }
    }
}

#[test]
fn fixed_has_no_use_for_a_key() {
    let spec: Spec = "fixed:size=100".parse().expect("the spec is right");
    let data = [0; 250];
    let chunker = spec.keyed_chunker(&key_material(1));
    assert_eq!(cuts(&*chunker, &data).collect::<Vec<_>>(), [100, 200, 250], "ends");
}

#[test]
fn debug_shows_no_key() {
    let material = key_material(1);
    assert_eq!(format!("{material:?}"), "KeyMaterial(..)", "the material");
    for text in ["fastcdc:avg=4k", "seqcdc:avg=4k"] {
        let spec: Spec = text.parse().expect("the spec is right");
        let shown = format!("{:?}", spec.keyed_chunker(&material));
        assert!(shown.len() < 250, "{shown}");
    }
}
