//! Key material, beyond `conformance.rs`: it keeps the mean, and stays secret.

use cutpoint_chunking::algorithm::bfbc;
use cutpoint_chunking::{KeyMaterial, Spec, cuts};
use cutpoint_testing::SplitMix64;

use crate::harness::cases;
use crate::harness::inputs::key_material;

#[test]
fn permutation_rejects_biased_pairs() {
    // Every pair is 65535. It is rejected for each number of choices that does not divide 65536, so
    // the first swap happens (256 choices, 65535 % 256 = 255: in place), and then the material runs
    // out.
    let keyed = |bytes: [u8; KeyMaterial::SIZE]| {
        let spec: Spec = "seqcdc:paper=4k".parse().expect("the spec is right");
        let data = SplitMix64::bytes(5, 100_000);
        let chunker = spec.keyed_chunker(&KeyMaterial::new(bytes)).expect("it can be keyed");
        (
            cuts(&*chunker, &data).collect::<Vec<_>>(),
            cuts(&*spec.chunker(), &data).collect::<Vec<_>>(),
        )
    };
    let (ends, plain) = keyed([255; KeyMaterial::SIZE]);
    assert_eq!(ends, plain, "nothing was moved");
    // The last pair of a multiple, 65535 - 1 for 255 choices, is accepted.
    let mut bytes = [255; KeyMaterial::SIZE];
    (bytes[2], bytes[3]) = (0, 0);
    let (ends, plain) = keyed(bytes);
    assert_ne!(ends, plain, "254 and 0 changed places");
}

#[test]
fn different_keys_cut_differently_and_keep_mean() {
    for text in ["fastcdc:avg=4k", "seqcdc:avg=4k"] {
        let spec: Spec = text.parse().expect("the spec is right");
        let data = SplitMix64::bytes(30, 4096 * 2000);
        let ends: Vec<Vec<usize>> = (0..4)
            .map(|seed| {
                let chunker = spec.keyed_chunker(&key_material(seed)).expect("it can be keyed");
                cuts(&*chunker, &data).collect()
            })
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
        let Ok(chunker) = spec.keyed_chunker(&material) else { continue };
        let shown = format!("{chunker:?}");
        assert!(shown.len() < 300, "{shown}");
    }
}

/// Values that were learned from data are not secret, and keying them is refused.
#[test]
fn keying_of_learned_rules_is_refused() {
    for text in ["bfbc:pairs=6520,min=64,max=4096", "samplebyte:period=64,markers=20,max=500"] {
        let spec: Spec = text.parse().expect("the spec is right");
        let error = spec.keyed_chunker(&key_material(1)).expect_err(text);
        assert_eq!(error.parameter(), "key", "{error}");
        assert_eq!(spec.keyable(), Err(error), "{text}");
    }
    let spec: Spec = "fixed:size=4096".parse().expect("the spec is right");
    assert!(spec.keyed_chunker(&key_material(1)).is_ok(), "there is nothing to hide");
    let params = bfbc::Params { pairs: vec![*b"e "], chunk_size_min: 64, chunk_size_max: None };
    assert!(bfbc::Bfbc::keyed(params.clone(), &key_material(1)).is_err(), "its own constructor");
    assert!(bfbc::Bfbc::new(params).is_ok(), "without a key");
}

/// The cut-points depend on each byte of the keys, and on no other byte of the material.
#[test]
fn aes_uses_every_byte_of_its_keys() {
    let data = SplitMix64::bytes(40, 20_000);
    let random: [u8; KeyMaterial::SIZE] =
        SplitMix64::bytes(41, KeyMaterial::SIZE).try_into().expect("so many bytes");
    for (text, used) in [("aes:bits=5", 80), ("aes:bits=5,window=16", 16)] {
        let spec: Spec = text.parse().expect("the spec is right");
        let ends = |bytes: [u8; KeyMaterial::SIZE]| -> Vec<usize> {
            let material = KeyMaterial::new(bytes);
            cuts(&*spec.keyed_chunker(&material).expect("it can be keyed"), &data).collect()
        };
        let expected = ends(random);
        for place in 0..200 {
            let mut bytes = random;
            bytes[place] ^= 1;
            assert_eq!(ends(bytes) != expected, place < used, "{text}, byte {place}");
        }
    }
}
