//! FastCDC as crate fastcdc 5.0.0 does it: two bytes a step, each table entry also doubled.

use cutpoint_testing::digest::md5;

use crate::{Rule, Values, gear_of};

pub(crate) fn rule(values: &Values, key: Option<&[u8]>) -> Rule {
    let (min, normal, max) = (values.number("min"), values.number("normal"), values.number("max"));
    let level = values.number("level") as f64;
    let seed: u64 = values.word("seed").parse().expect("a seed");
    let gear = key.map_or_else(gear, gear_of).map(|entry| entry ^ seed);
    let bits = (normal as f64).log2().round();
    let (mask_s, mask_l) = (mask(bits + level), mask(bits - level));
    Box::new(move |data| {
        let mut remaining = data.len();
        if remaining <= min {
            return remaining;
        }
        let mut center = normal;
        if remaining > max {
            remaining = max;
        } else if remaining < center {
            center = remaining;
        }
        let mut index = min / 2;
        let mut hash = 0u64;
        while index < remaining / 2 {
            let mask = if index < center / 2 { mask_s } else { mask_l };
            let a = index * 2;
            hash = (hash << 2).wrapping_add(gear[usize::from(data[a])] << 1);
            if hash & (mask << 1) == 0 {
                return a;
            }
            hash = hash.wrapping_add(gear[usize::from(data[a + 1])]);
            if hash & mask == 0 {
                return a + 1;
            }
            index += 1;
        }
        remaining
    })
}

/// The gear table of crate fastcdc, derived: the first 8 bytes, big-endian, of the MD5 digest of 64
/// bytes of the value.
fn gear() -> [u64; 256] {
    std::array::from_fn(|value| {
        let value = u8::try_from(value).expect("256 values");
        u64::from_be_bytes(md5(&[value; 64])[..8].try_into().expect("8 bytes"))
    })
}

/// The masks of crate fastcdc 5.0.0, once more, so that a slip in the library's table shows.
fn mask(bits: f64) -> u64 {
    const MASKS: [u64; 21] = [
        0x1804110,
        0x1803110,
        0x18035100,
        0x1800035300,
        0x19000353000,
        0x590003530000,
        0xd90003530000,
        0xd90103530000,
        0xd90303530000,
        0xd90313530000,
        0xd90f03530000,
        0xd90303537000,
        0xd90703537000,
        0xd90707537000,
        0xd91707537000,
        0xd91747537000,
        0xd91767537000,
        0xd93767537000,
        0xd93777537000,
        0xd93777577000,
        0xdb3777577000,
    ];
    let index = (5u32..26).position(|count| f64::from(count) == bits).expect("at least 5 bits");
    MASKS[index]
}
