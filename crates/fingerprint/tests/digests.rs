//! Every level gives the digests of the crate `blake3`.

use cutpoint_fingerprint::Blake3;
use cutpoint_testing::SplitMix64;

/// Checks the digests of `chunks`, plain and keyed, at every level.
fn check(chunks: &[&[u8]]) {
    let mut key = [0; 32];
    key.copy_from_slice(&SplitMix64::bytes(7, 32));
    let plain: Vec<_> = chunks.iter().map(|chunk| *blake3::hash(chunk).as_bytes()).collect();
    let keyed: Vec<_> =
        chunks.iter().map(|chunk| *blake3::keyed_hash(&key, chunk).as_bytes()).collect();
    for level in Blake3::levels() {
        for (hash, expected) in [(Blake3::plain(), &plain), (Blake3::keyed(&key), &keyed)] {
            let mut digests = Vec::new();
            hash.at_level(level).expect("it is available").digests(chunks, &mut digests);
            let wrong = digests.iter().zip(expected).position(|(digest, each)| digest != each);
            let len = wrong.map(|wrong| chunks[wrong].len());
            assert_eq!(wrong, None, "{level}: digest of {len:?} bytes among {}", chunks.len());
            assert_eq!(digests.len(), chunks.len(), "{level}");
        }
    }
}

/// Lengths around every edge: of blocks, leaves, and trees that are not full.
#[test]
fn every_length_alone() {
    let data = SplitMix64::bytes(1, 70_000);
    let mut lengths: Vec<usize> = (0..=2200).collect();
    for leaf_count in 3..=66_usize {
        lengths.extend([leaf_count * 1024 - 1, leaf_count * 1024, leaf_count * 1024 + 1]);
    }
    for len in lengths {
        check(&[&data[..len]]);
    }
}

#[test]
fn chunks_beside_each_other() {
    let data = SplitMix64::bytes(2, 1 << 20);
    let mut random = SplitMix64::new(3);
    check(&[]);
    for count in 1..=40 {
        for most in [1, 64, 1024, 5000, 100_000] {
            let chunks: Vec<&[u8]> = (0..count)
                .map(|_| {
                    let len = random.below(most + 1);
                    let start = random.below(data.len() - len);
                    &data[start..start + len]
                })
                .collect();
            check(&chunks);
        }
    }
}

/// A run of the tests that leaves a level out must not look like one that has passed it.
#[test]
fn every_level_of_this_cpu_is_run() {
    println!("levels: {}", Blake3::levels().join(", "));
    #[cfg(target_arch = "x86_64")]
    for (name, has) in [
        ("avx2", std::is_x86_feature_detected!("avx2")),
        ("avx512", std::is_x86_feature_detected!("avx512f")),
    ] {
        assert_eq!(Blake3::levels().contains(&name), has, "{name}");
    }
    assert!(Blake3::plain().at_level("avx1024").is_none());
}

/// The key does not leave by the way of messages.
#[test]
fn the_key_is_not_shown() {
    let shown = format!("{:?}", Blake3::keyed(&[7; 32]));
    assert!(shown.contains("keyed: true") && !shown.contains('7'), "{shown}");
}
