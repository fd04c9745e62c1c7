//! The fuzz targets `feeding` and `spec` on random input: any algorithm, any parameters, any data
//! and any split of it. `fuzz/` does the same with a fuzzer.

use std::collections::BTreeMap;

use arbitrary::Unstructured;
use cutpoint_chunking::Spec;
use cutpoint_testing::SplitMix64;

use crate::harness::cases;
use crate::harness::fuzz_bodies;

#[test]
fn cut_points_are_independent_of_feeding() {
    const ENOUGH: usize = 30;
    let mut counts: BTreeMap<&str, usize> =
        cases::chosen().map(|cases| (cases.algorithm, 0)).collect();
    // Some algorithms refuse most random parameters.
    for seed in 0..30_000 {
        let input = SplitMix64::bytes(seed, 400);
        let is_wanted =
            |spec: &Spec| counts.get(spec.algorithm()).is_some_and(|&count| count < ENOUGH);
        if let Some(spec) = fuzz_bodies::feeding(&input, is_wanted) {
            *counts.entry(spec.algorithm()).or_default() += 1;
        }
        if counts.values().all(|&count| count >= ENOUGH) {
            return;
        }
    }
    panic!("of some algorithms too few specs were taken: {counts:?}");
}

#[test]
fn any_text_is_a_spec_or_refused() {
    let mut random = SplitMix64::new(70);
    let (mut taken, mut refused) = (0, 0);
    for _ in 0..20_000 {
        let input = random.take(200);
        let text =
            fuzz_bodies::spec_text(&mut Unstructured::new(&input)).expect("it is long enough");
        let mut text = text.into_bytes();
        if random.below(2) == 0 {
            let at = random.below(text.len());
            match random.below(4) {
                0 => text.truncate(at),
                1 => text[at] = random.byte(),
                2 => text.insert(at, b",=:.0k"[random.below(6)]),
                _ => drop(text.remove(at)),
            }
        }
        *if fuzz_bodies::spec(&text).is_some() { &mut taken } else { &mut refused } += 1;
    }
    assert!(taken > 1000 && refused > 1000, "{taken} taken, {refused} refused");
}
