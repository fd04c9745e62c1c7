//! The resync finds bytes that moved far, and nothing for new bytes.

use cutpoint_delta::Resync;
use cutpoint_testing::SplitMix64;

#[test]
fn moved_bytes_are_located() {
    let old = SplitMix64::bytes(1, 3 << 20);
    let mut resync = Resync::new(old.len(), 7_000);
    for part in old.chunks(50_000) {
        resync.push(part);
    }
    assert_eq!(resync.end(), 7_000 + old.len() as u64);
    for start in [0, 1, 77_777, 1_500_000, old.len() - 20_000] {
        let mut new = old[start..start + 20_000].to_vec();
        new.iter_mut().step_by(300).for_each(|byte| *byte ^= 1);
        let found = resync.locate(&new).expect("it is there");
        assert!(found.abs_diff(7_000 + start as u64) < 16 * 1024, "{start}: {found}");
    }
}

#[test]
fn restarted_resync_looks_ahead_only() {
    let old = SplitMix64::bytes(4, 200_000);
    let mut resync = Resync::new(1 << 20, 0);
    resync.push(&old);
    resync.restart(100_000);
    assert_eq!(resync.locate(&old[..50_000]), None, "what lies before is forgotten");
    let found = resync.locate(&old[150_000..]).expect("one position has one byte");
    assert!(found.abs_diff(150_000) < 16 * 1024, "{found}");
    resync.restart(1 << 40);
    assert_eq!(resync.locate(&old), None, "too far to be told in 32 bits");
    resync.push(&old);
    let found = resync.locate(&old[50_000..]).expect("it is there");
    assert!(found.abs_diff((1 << 40) + 50_000) < 16 * 1024, "{found}");
}

#[test]
fn new_bytes_are_not_located() {
    let mut resync = Resync::new(1 << 20, 0);
    resync.push(&SplitMix64::bytes(2, 1 << 20));
    assert_eq!(resync.locate(&SplitMix64::bytes(3, 100_000)), None);
    // Repeating bytes are no anchors.
    let mut zeros = Resync::new(1 << 20, 0);
    zeros.push(&vec![0; 1 << 20]);
    assert_eq!(zeros.locate(&vec![0; 100_000]), None);
    for short in 0..40 {
        assert_eq!(resync.locate(&vec![1; short]), None, "{short} bytes");
    }
}
