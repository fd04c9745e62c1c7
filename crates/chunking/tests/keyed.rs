//! Key material: what `tests/conformance.rs` does not say of it. It keeps the mean, and stays secret.

mod common;

use common::{cases, key_material};
use cutpoint_chunking::{KeyMaterial, Spec, cuts};
use cutpoint_testing::SplitMix64;

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
fn debug_shows_no_key() {
    let material = key_material(1);
    assert_eq!(format!("{material:?}"), "KeyMaterial(..)", "the material");
    for text in cases::ALL.iter().flat_map(|cases| cases.specs) {
        let spec: Spec = text.parse().expect("the spec is right");
        let shown = format!("{:?}", spec.keyed_chunker(&material));
        assert!(shown.len() < 300, "{shown}");
    }
}
