//! The fuzz target `images` on random changes of an image.

use cutpoint_testing::SplitMix64;

use crate::anything::anything;
use crate::made::{DATA, image};

#[test]
fn changed_images_are_read_or_refused() {
    let whole = image();
    assert!(anything(&whole), "the image is well");
    let mut random = SplitMix64::new(1);
    let mut refused = 0;
    for _ in 0..20_000 {
        let mut bytes = whole.clone();
        for _ in 0..=random.below(3) {
            // Most changes are of the header and the used entries of the tables.
            let at = match random.below(4) {
                0 => random.below(112),
                1 => 4096 + random.below(8),
                2 => 8192 + random.below(64),
                _ => random.below(bytes.len()),
            };
            bytes[at] = match random.below(3) {
                0 => random.byte(),
                1 => bytes[at] ^ 1 << random.below(8),
                _ => 0xff,
            };
        }
        if random.below(8) == 0 {
            bytes.truncate(random.below(bytes.len() + 1));
        }
        refused += usize::from(!anything(&bytes));
    }
    assert!((2000..19_000).contains(&refused), "{refused} are refused");
    assert!(!anything(&whole[..DATA]), "truncated");
}
