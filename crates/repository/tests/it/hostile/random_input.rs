//! The bodies of the fuzz targets, on random input.

use cutpoint_testing::SplitMix64;

use crate::support::planted;

/// Runs the bodies of the fuzz targets on random input that is partly meaningful.
fn on_random_input(body: fn(&[u8]), seed: u64, count: usize) {
    let mut random = SplitMix64::new(seed);
    for _ in 0..count {
        let len = random.below(600);
        let mut input = random.take(len);
        // Fewer large numbers, and meaningful pieces.
        for at in 0..input.len() {
            match random.below(8) {
                0..3 => input[at] &= 7,
                3 => input[at] = 0,
                4 if at + 4 < input.len() => {
                    let words: [&[u8]; 6] = [
                        &[0xf9, 0x9f, 0],
                        &[0xa2, 0, 0x41],
                        &[0xf9, 0x9f, 1],
                        &[0x28, 0xb5, 0x2f, 0xfd],
                        &[0xa3, 0, 0, 1],
                        &[0x0e, 0x82, 1],
                    ];
                    let word = words[random.below(6)];
                    input[at..at + word.len()].copy_from_slice(word);
                }
                _ => {}
            }
        }
        body(&input);
    }
}

#[test]
fn random_trees_do_no_harm() {
    on_random_input(planted::trees, 1, 300);
    // Found by the fuzzer: a tree of no bytes.
    planted::trees(&[0x0a, 0x5b]);
}

#[test]
fn random_containers_do_no_harm() {
    on_random_input(planted::containers, 2, 300);
}

#[test]
fn random_objects_do_no_harm() {
    on_random_input(planted::objects, 3, 300);
}

#[test]
fn random_runs_do_no_harm() {
    on_random_input(planted::runs, 4, 300);
}

#[test]
fn random_parity_does_no_harm() {
    on_random_input(planted::parity, 5, 300);
}
