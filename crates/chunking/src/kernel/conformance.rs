//! One suite for every level of this CPU: each answers what plain expressions say, the scalar one
//! included, so that agreeing with it means something.

use alloc::string::ToString;
use alloc::vec::Vec;
use std::println;

use cutpoint_testing::SplitMix64;

use super::level::NAMES;
use super::{BLOCK_SIZE, Kernel, Level, Task};

/// Compares neighbours among 65 bytes.
struct Compare<'a>(&'a [u8; BLOCK_SIZE + 1]);

impl Task for Compare<'_> {
    type Output = (u64, u64);

    fn run<K: Kernel>(self, kernel: K) -> (u64, u64) {
        kernel.compare(self.0)
    }
}

fn check(bytes: &[u8; BLOCK_SIZE + 1]) {
    let mask = |is_one: &dyn Fn(usize) -> bool| {
        (0..BLOCK_SIZE).map(|k| u64::from(is_one(k)) << k).sum::<u64>()
    };
    let expected = (mask(&|k| bytes[k] < bytes[k + 1]), mask(&|k| bytes[k] > bytes[k + 1]));
    for level in Level::available() {
        assert_eq!(level.dispatch(Compare(bytes)), expected, "{}: {bytes:?}", level.name());
    }
}

/// Bytes with the top bit, which a signed comparison gets wrong, stand beside others; every place.
#[test]
fn one_byte_that_differs_is_seen_wherever_it_is() {
    const VALUES: [u8; 6] = [0, 1, 0x7f, 0x80, 0xfe, 0xff];
    for most in VALUES {
        for other in VALUES {
            for at in 0..=BLOCK_SIZE {
                let mut bytes = [most; BLOCK_SIZE + 1];
                bytes[at] = other;
                check(&bytes);
            }
        }
    }
}

#[test]
fn random_blocks_are_seen_as_they_are() {
    let mut random = SplitMix64::new(1);
    for round in 0..2000 {
        let mut bytes = [0; BLOCK_SIZE + 1];
        bytes.copy_from_slice(&random.take(BLOCK_SIZE + 1));
        // Few values, so that there are equal neighbours.
        if round % 2 == 0 {
            bytes.iter_mut().for_each(|byte| *byte &= 0x83);
        }
        check(&bytes);
    }
}

struct Bits(u64, u64, u32);

impl Task for Bits {
    type Output = (u64, u32);

    fn run<K: Kernel>(self, kernel: K) -> (u64, u32) {
        (kernel.squeeze(self.0, self.1), kernel.nth_one(self.1, self.2))
    }
}

#[test]
fn bits_are_moved_and_counted() {
    let mut random = SplitMix64::new(2);
    let mut masks: Vec<u64> = (0..400).map(|_| random.next() & random.next()).collect();
    masks.extend((0..400).map(|_| random.next() | random.next()));
    masks.extend([0, 1, 1 << 63, u64::MAX, u64::MAX >> 1, u64::MAX << 1, !(1 << 63)]);
    for kept in masks {
        let bits = random.next();
        let places: Vec<u32> = (0..64).filter(|&k| kept >> k & 1 == 1).collect();
        let squeezed: u64 =
            places.iter().enumerate().map(|(to, &from)| (bits >> from & 1) << to).sum();
        for n in 0..64 {
            let place = places.get(n as usize).map_or(64, |&place| place);
            for level in Level::available() {
                let answers = level.dispatch(Bits(bits, kept, n));
                assert_eq!(answers, (squeezed, place), "{}: {kept:#x}, {n}", level.name());
            }
        }
    }
}

/// A run of the tests that leaves a level out must not look like one that has passed it.
#[test]
fn every_level_of_this_cpu_is_run() {
    let available: Vec<&str> = Level::available().into_iter().map(Level::name).collect();
    println!("levels: {}", available.join(", "));
    assert_eq!(available.first(), Some(&"scalar"));
    assert_eq!(available.last(), Some(&Level::best().name()));
    for name in NAMES {
        let level = Level::named(name);
        assert_eq!(level.as_ref().ok().map(|level| level.name()), {
            available.contains(&name).then_some(name)
        });
        #[cfg(target_arch = "x86_64")]
        {
            let has = match name {
                "scalar" => true,
                "sse4.1" => std::is_x86_feature_detected!("sse4.1"),
                "avx2" => std::is_x86_feature_detected!("avx2"),
                "avx512vbmi" => {
                    std::is_x86_feature_detected!("avx512vbmi")
                        && std::is_x86_feature_detected!("avx512bitalg")
                        && std::is_x86_feature_detected!("gfni")
                }
                _ => std::is_x86_feature_detected!("avx512bw"),
            };
            assert_eq!(level.is_ok(), has, "{name}: what the CPU has was left out, or the reverse");
        }
    }
    let error = Level::named("avx1024").expect_err("there is none");
    assert!(error.to_string().contains("scalar, sse4.1, avx2, avx512, avx512vbmi"), "{error}");
}
