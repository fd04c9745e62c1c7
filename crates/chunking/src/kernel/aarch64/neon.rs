//! NEON: 16 bytes at a time.

use core::arch::aarch64::{
    uint8x16_t, uint32x4_t, vandq_u8, vceqq_u8, vcgeq_u8, vcgtq_u8, vdupq_n_u8, vdupq_n_u32,
    vgetq_lane_u64, vld1q_u8, vminq_u32, vminvq_u32, vmlaq_u32, vorrq_u8, vpaddq_u8, vqtbl1q_u8,
    vreinterpretq_u32_u8, vreinterpretq_u64_u8, vshrq_n_u8, vst1q_u32, vtstq_u8,
};

use crate::kernel::{
    BLOCK_SIZE, Block, Kernel, LANE_COUNT, LongNumberBlock, Mapping, NumberBlock, Scalar, Tables,
    Task, VALUE_SIZE_MAX, ValueBlock, number_blocks, parts,
};

/// A proof that this CPU has NEON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Neon(());

impl Neon {
    pub(crate) fn detect() -> Option<Neon> {
        #[cfg(feature = "std")]
        let has = std::arch::is_aarch64_feature_detected!("neon");
        #[cfg(not(feature = "std"))]
        let has = cfg!(target_feature = "neon");
        has.then_some(Neon(()))
    }

    /// Runs `task` in code that was compiled for the level.
    #[inline]
    pub(crate) fn enter<T: Task>(self, task: T) -> T::Output {
        #[target_feature(enable = "neon")]
        fn entered<T: Task>(kernel: Neon, task: T) -> T::Output {
            task.run(kernel)
        }
        // SAFETY: only `detect` creates a value, on a CPU that has NEON.
        unsafe { entered(self, task) }
    }
}

impl Kernel for Neon {
    #[inline(always)]
    fn compare(self, bytes: &[u8; BLOCK_SIZE + 1]) -> (u64, u64) {
        // SAFETY: there is a value of this type, so this CPU has NEON.
        unsafe { compare(bytes) }
    }

    #[inline(always)]
    fn above(self, block: &Block, value: u8) -> u64 {
        // SAFETY: there is a value of this type, so this CPU has NEON.
        unsafe { above(block, value) }
    }

    #[inline(always)]
    fn below(self, block: &Block, value: u8) -> u64 {
        // SAFETY: there is a value of this type, so this CPU has NEON.
        unsafe { below(block, value) }
    }

    #[inline(always)]
    fn pairs_from(self, bytes: &[u8; BLOCK_SIZE + 1], pair: [u8; 2]) -> u64 {
        // SAFETY: there is a value of this type, so this CPU has NEON.
        unsafe { pairs_from(bytes, pair) }
    }

    #[inline(always)]
    fn pairs_to(self, bytes: &[u8; BLOCK_SIZE + 1], pair: [u8; 2]) -> u64 {
        // SAFETY: there is a value of this type, so this CPU has NEON.
        unsafe { pairs_to(bytes, pair) }
    }

    #[inline(always)]
    fn values_from(self, bytes: &ValueBlock, bound: [u8; VALUE_SIZE_MAX], size: usize) -> u64 {
        // SAFETY: there is a value of this type, so this CPU has NEON.
        unsafe { values_from(bytes, bound, size) }
    }

    #[inline(always)]
    fn values_to(self, bytes: &ValueBlock, bound: [u8; VALUE_SIZE_MAX], size: usize) -> u64 {
        // SAFETY: there is a value of this type, so this CPU has NEON.
        unsafe { values_to(bytes, bound, size) }
    }

    #[inline(always)]
    fn least_number(self, bytes: &NumberBlock, mapping: Mapping) -> u32 {
        // SAFETY: there is a value of this type, so this CPU has NEON.
        unsafe { least_number(bytes, mapping) }
    }

    #[inline(always)]
    fn has_number_below(self, bytes: &NumberBlock, mapping: Mapping, bound: u32) -> bool {
        self.least_number(bytes, mapping) < bound
    }

    #[inline(always)]
    fn least_numbers(self, bytes: &LongNumberBlock, mapping: Mapping) -> [u32; LANE_COUNT] {
        // SAFETY: there is a value of this type, so this CPU has NEON.
        unsafe { least_numbers_of_groups(bytes, mapping) }
    }

    #[inline(always)]
    fn first_number(self, bytes: &LongNumberBlock, mapping: Mapping, number: u32) -> usize {
        Scalar.first_number(bytes, mapping, number)
    }

    #[inline(always)]
    fn sift(self, bytes: &[u8; BLOCK_SIZE + 1], tables: &Tables) -> u64 {
        // SAFETY: there is a value of this type, so this CPU has NEON.
        unsafe { sift(bytes, tables) }
    }

    #[inline(always)]
    fn squeeze(self, bits: u64, kept: u64) -> u64 {
        Scalar.squeeze(bits, kept)
    }

    #[inline(always)]
    fn nth_one(self, mask: u64, n: u32) -> u32 {
        Scalar.nth_one(mask, n)
    }

    /// Does nothing, because Rust has no stable function for it.
    #[inline(always)]
    fn prefetch(self, _: &[u8], _: usize) {}

    #[inline(always)]
    fn prefetch_far(self, _: &[u8], _: usize) {}
}

#[inline]
#[target_feature(enable = "neon")]
fn compare(bytes: &[u8; BLOCK_SIZE + 1]) -> (u64, u64) {
    let (Some(before), Some(after)) = (bytes.first_chunk(), bytes.last_chunk()) else {
        return (0, 0);
    };
    let ([a0, a1, a2, a3], [b0, b1, b2, b3]) = (load_block(before), load_block(after));
    let rising = [vcgtq_u8(b0, a0), vcgtq_u8(b1, a1), vcgtq_u8(b2, a2), vcgtq_u8(b3, a3)];
    let falling = [vcgtq_u8(a0, b0), vcgtq_u8(a1, b1), vcgtq_u8(a2, b2), vcgtq_u8(a3, b3)];
    (mask(rising), mask(falling))
}

#[inline]
#[target_feature(enable = "neon")]
fn above(block: &Block, value: u8) -> u64 {
    let value = vdupq_n_u8(value);
    let [a, b, c, d] = load_block(block);
    mask([vcgtq_u8(a, value), vcgtq_u8(b, value), vcgtq_u8(c, value), vcgtq_u8(d, value)])
}

#[inline]
#[target_feature(enable = "neon")]
fn below(block: &Block, value: u8) -> u64 {
    let value = vdupq_n_u8(value);
    let [a, b, c, d] = load_block(block);
    mask([vcgtq_u8(value, a), vcgtq_u8(value, b), vcgtq_u8(value, c), vcgtq_u8(value, d)])
}

#[inline]
#[target_feature(enable = "neon")]
fn pairs_from(bytes: &[u8; BLOCK_SIZE + 1], pair: [u8; 2]) -> u64 {
    let (Some(firsts), Some(seconds)) = (bytes.first_chunk(), bytes.last_chunk()) else {
        return 0;
    };
    let (firsts, seconds) = (load_block(firsts), load_block(seconds));
    let (first, second) = (vdupq_n_u8(pair[0]), vdupq_n_u8(pair[1]));
    let mut found = firsts;
    for k in 0..4 {
        let kept = vandq_u8(vceqq_u8(firsts[k], first), vcgeq_u8(seconds[k], second));
        found[k] = vorrq_u8(vcgtq_u8(firsts[k], first), kept);
    }
    mask(found)
}

#[inline]
#[target_feature(enable = "neon")]
fn pairs_to(bytes: &[u8; BLOCK_SIZE + 1], pair: [u8; 2]) -> u64 {
    let (Some(firsts), Some(seconds)) = (bytes.first_chunk(), bytes.last_chunk()) else {
        return 0;
    };
    let (firsts, seconds) = (load_block(firsts), load_block(seconds));
    let (first, second) = (vdupq_n_u8(pair[0]), vdupq_n_u8(pair[1]));
    let mut found = firsts;
    for k in 0..4 {
        let kept = vandq_u8(vceqq_u8(firsts[k], first), vcgeq_u8(second, seconds[k]));
        found[k] = vorrq_u8(vcgtq_u8(first, firsts[k]), kept);
    }
    mask(found)
}

#[inline]
#[target_feature(enable = "neon")]
fn values_from(bytes: &ValueBlock, bound: [u8; VALUE_SIZE_MAX], size: usize) -> u64 {
    let mut found = [vdupq_n_u8(0xff); 4];
    for (bytes, &bound) in bytes.windows(BLOCK_SIZE).zip(&bound[..size]).rev() {
        let bound = vdupq_n_u8(bound);
        for (found, bytes) in found.iter_mut().zip(bytes.as_chunks().0) {
            let bytes = load(bytes);
            *found = vorrq_u8(vcgtq_u8(bytes, bound), vandq_u8(vceqq_u8(bytes, bound), *found));
        }
    }
    mask(found)
}

#[inline]
#[target_feature(enable = "neon")]
fn values_to(bytes: &ValueBlock, bound: [u8; VALUE_SIZE_MAX], size: usize) -> u64 {
    let mut found = [vdupq_n_u8(0xff); 4];
    for (bytes, &bound) in bytes.windows(BLOCK_SIZE).zip(&bound[..size]).rev() {
        let bound = vdupq_n_u8(bound);
        for (found, bytes) in found.iter_mut().zip(bytes.as_chunks().0) {
            let bytes = load(bytes);
            *found = vorrq_u8(vcgtq_u8(bound, bytes), vandq_u8(vceqq_u8(bytes, bound), *found));
        }
    }
    mask(found)
}

#[inline]
#[target_feature(enable = "neon")]
fn least_number(bytes: &NumberBlock, mapping: Mapping) -> u32 {
    vminvq_u32(least_of_four(bytes, mapping))
}

#[inline]
#[target_feature(enable = "neon")]
fn least_numbers_of_groups(bytes: &LongNumberBlock, mapping: Mapping) -> [u32; LANE_COUNT] {
    let Some([a, b]) = parts(bytes) else {
        return [u32::MAX; LANE_COUNT];
    };
    let (first, second) = (least_of_four(a, mapping), least_of_four(b, mapping));
    let mut groups = [u32::MAX; LANE_COUNT];
    let (low, high) = groups.split_at_mut(4);
    // SAFETY: `low` is 16 writable bytes, and the store requires no alignment.
    unsafe { vst1q_u32(low.as_mut_ptr(), first) };
    // SAFETY: as above.
    unsafe { vst1q_u32(high.as_mut_ptr(), second) };
    groups
}

/// Returns the minimum of every sixteen numbers.
#[inline]
#[target_feature(enable = "neon")]
fn least_of_four(bytes: &NumberBlock, mapping: Mapping) -> uint32x4_t {
    let (factor, summand) = (vdupq_n_u32(mapping.factor), vdupq_n_u32(mapping.summand));
    let mut least = vdupq_n_u32(u32::MAX);
    for block in number_blocks(bytes).into_iter().flatten() {
        for bytes in load_block(block) {
            let numbers = vreinterpretq_u32_u8(bytes);
            least = vminq_u32(least, vmlaq_u32(summand, numbers, factor));
        }
    }
    least
}

#[inline]
#[target_feature(enable = "neon")]
fn sift(bytes: &[u8; BLOCK_SIZE + 1], tables: &Tables) -> u64 {
    let (Some(before), Some(after)) = (bytes.first_chunk(), bytes.last_chunk()) else {
        return 0;
    };
    let (before, after) = (load_block(before), load_block(after));
    let [low0, high0, low1, high1] = tables;
    let (low0, high0, low1, high1) = (load(low0), load(high0), load(low1), load(high1));
    let mut common = before;
    for k in 0..4 {
        let set0 = look_up(low0, high0, before[k]);
        common[k] = vtstq_u8(set0, look_up(low1, high1, after[k]));
    }
    mask(common)
}

/// Returns, for each byte, the common bits of the entry of its lower half in `low` and of its upper
/// half in `high`.
#[inline]
#[target_feature(enable = "neon")]
fn look_up(low: uint8x16_t, high: uint8x16_t, bytes: uint8x16_t) -> uint8x16_t {
    let lower = vandq_u8(bytes, vdupq_n_u8(15));
    vandq_u8(vqtbl1q_u8(low, lower), vqtbl1q_u8(high, vshrq_n_u8::<4>(bytes)))
}

/// Returns a bit for each of 64 bytes that are all ones or all zeros.
#[inline]
#[target_feature(enable = "neon")]
fn mask([a, b, c, d]: [uint8x16_t; 4]) -> u64 {
    let bits = load(&[1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128]);
    // Three sums of neighbours leave a byte of 8 bits for each 8 bytes.
    let (a, b) = (vandq_u8(a, bits), vandq_u8(b, bits));
    let (c, d) = (vandq_u8(c, bits), vandq_u8(d, bits));
    let sums = vpaddq_u8(vpaddq_u8(a, b), vpaddq_u8(c, d));
    vgetq_lane_u64::<0>(vreinterpretq_u64_u8(vpaddq_u8(sums, sums)))
}

#[inline]
#[target_feature(enable = "neon")]
fn load_block(block: &Block) -> [uint8x16_t; 4] {
    let (parts, _) = block.as_chunks();
    [load(&parts[0]), load(&parts[1]), load(&parts[2]), load(&parts[3])]
}

#[inline]
#[target_feature(enable = "neon")]
fn load(bytes: &[u8; 16]) -> uint8x16_t {
    // SAFETY: `bytes` is 16 readable bytes, and the load requires no alignment.
    unsafe { vld1q_u8(bytes.as_ptr()) }
}
