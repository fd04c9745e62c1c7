//! Data of every kind, sizes at edges, and key material.

use cutpoint_chunking::KeyMaterial;
use cutpoint_testing::{SplitMix64, input};

/// Returns the key material of a seed.
pub(crate) fn key_material(seed: u64) -> KeyMaterial {
    let bytes = SplitMix64::bytes(seed, KeyMaterial::SIZE);
    KeyMaterial::new(bytes.try_into().expect("the size is asked for"))
}

/// Returns data of `size` bytes of each kind that may trip a rule.
pub(crate) fn kinds(size: usize, seed: u64) -> Vec<(&'static str, Vec<u8>)> {
    let mut random = SplitMix64::new(seed);
    let noise = random.take(size);
    let slow = (0..size).map(|i| noise[i / 5]).collect();
    let few = noise.iter().map(|byte| byte & 1).collect();
    let signs = noise.iter().map(|byte| 127 + (byte & 1)).collect();
    // Long runs with rare ends: a trigger is reached seldom, and counts cross many blocks.
    let rare = noise.iter().scan(0u8, |last, &byte| {
        *last = match byte {
            0..=2 => last.wrapping_add(1),
            3..=9 => last.saturating_sub(1),
            _ => *last,
        };
        Some(*last)
    });
    let mut falling = input::saw(size);
    falling.reverse();
    // Zeros between noise, with a random start and a random end.
    let mut holes = noise.clone();
    let hole = random.below(size + 1)..;
    let hole_size = random.below(size - hole.start + 1);
    holes[hole][..hole_size].fill(0);
    vec![
        ("rare changes", rare.collect()),
        ("noise", noise),
        ("noise with a hole", holes),
        ("each byte five times", slow),
        ("two values", few),
        ("127 and 128", signs),
        ("rising", input::saw(size)),
        ("falling", falling),
        ("text", input::repeated(&input::text(3000), size)),
        ("zeros", vec![0; size]),
        ("255", vec![255; size]),
    ]
}

/// Returns the sizes around `edges`, and 0 and 1.
pub(crate) fn sizes_around(edges: &[usize]) -> Vec<usize> {
    let mut sizes = vec![0, 1];
    for &edge in edges {
        sizes.extend(edge.saturating_sub(3)..=edge + 3);
    }
    sizes
}
