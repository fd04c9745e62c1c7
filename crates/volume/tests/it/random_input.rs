//! The bodies of the fuzz targets on random input.

use cutpoint_testing::SplitMix64;

use crate::anything;

#[test]
fn random_requests_and_files_make_no_panic() {
    let count = crate::support::seed_count(300);
    let mut numbers = SplitMix64::new(11);
    for _ in 0..count {
        let len = numbers.below(200);
        anything::requests(&numbers.take(len));
        // Few bits, so that most of a file stays as it is.
        let len = 4 + numbers.below(6);
        let mut input = numbers.take(len);
        input[4..].iter_mut().for_each(|byte| *byte = 1 << (*byte % 8));
        anything::files(&input);
    }
}
