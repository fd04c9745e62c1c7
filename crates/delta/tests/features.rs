//! Super-features: chunks that resemble each other share one, and unrelated chunks do not.

use cutpoint_delta::super_features;
use cutpoint_testing::SplitMix64;

fn resemble(one: &[u8], other: &[u8]) -> bool {
    let (Some(one), Some(other)) = (super_features(one), super_features(other)) else {
        return false;
    };
    one.iter().zip(&other).any(|(one, other)| one == other)
}

#[test]
fn few_changes_leave_a_super_feature() {
    let (mut changed, mut moved) = (0, 0);
    for seed in 0..200 {
        let one = SplitMix64::bytes(seed, 64 * 1024);
        let mut other = one.clone();
        let mut random = SplitMix64::new(1000 + seed);
        for _ in 0..20 {
            let at = random.below(other.len());
            other[at] ^= 0x55;
        }
        changed += u32::from(resemble(&one, &other));
        // Shifted cuts: a tenth is missing at the start, and as much is new at the end.
        let mut shifted = one[6 * 1024..].to_vec();
        shifted.extend(SplitMix64::bytes(5000 + seed, 6 * 1024));
        moved += u32::from(resemble(&one, &shifted));
    }
    assert!(changed >= 190, "{changed} of 200");
    assert!(moved >= 150, "{moved} of 200");
}

#[test]
fn unrelated_chunks_share_no_super_feature() {
    let chunks: Vec<Vec<u8>> =
        (0..100).map(|seed| SplitMix64::bytes(9000 + seed, 16 * 1024)).collect();
    for (at, one) in chunks.iter().enumerate() {
        assert!(resemble(one, one), "equal ones are alike");
        assert!(chunks[at + 1..].iter().all(|other| !resemble(one, other)), "chunk {at}");
    }
}

#[test]
fn short_or_uniform_chunks_have_no_super_features() {
    assert_eq!(super_features(&[]), None);
    assert_eq!(super_features(b"a few bytes"), None);
    for byte in [0, 1, 0x20, 0xff] {
        assert_eq!(super_features(&[byte; 100_000]), None, "{byte}");
    }
}
