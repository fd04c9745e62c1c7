//! Resemblance of chunks: super-features, after Odess (Zou et al., "The Dilemma between
//! Deduplication and Locality", FAST 2021, section 4.2), which is after Broder's min-wise sampling.
//!
//! At a sample of the positions, which the bytes there select, the hash of the 32 bytes from there on
//! is multiplied by twelve factors. The maximum of each product is a feature. The probability that
//! two chunks have a feature in common is about the probability that a position of one chunk occurs
//! in the other. Four features make a super-feature. Two chunks that share any of the three
//! super-features are likely to have most of their bytes in common.
//!
//! Odess selects by a gear hash that rolls over the chunk. Here a weighted sum of eight bytes selects,
//! which compilers compute for many positions at once, and long chunks have fewer samples.

/// The number of super-features of a chunk.
pub const SUPER_FEATURE_COUNT: usize = 3;
/// The number of features in one super-feature.
const FEATURES_OF_ONE: usize = 4;
const FEATURE_COUNT: usize = SUPER_FEATURE_COUNT * FEATURES_OF_ONE;
/// The minimum number of samples. With fewer samples, chance decides about resemblance.
const SAMPLES_MIN: usize = 4;

/// The number of bytes whose sum selects a position.
const SUM_SIZE: usize = 8;
/// The sum of a sampled position, as far as it is compared. It is not that of eight zeros.
const SAMPLED_SUM: u8 = 0xa8;
/// The bits of a sum that are compared: one in 64 positions is sampled.
const SUM_BITS: u8 = 0xfc;
/// The minimum size of a chunk in bytes of which fewer positions are sampled, one in 256.
const LONG_SIZE: usize = 32 * 1024;

/// The number of bytes of which a hash is taken.
const WINDOW: usize = 32;
/// The number of positions whose sums are computed at once.
const BLOCK_SIZE: usize = 64;

/// Returns a well mixed number for each number (`SplitMix64`).
const fn mixed(number: u64) -> u64 {
    let mut z = number.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// The factors of the features, which are odd, so that no bit of the hash is lost.
static FACTORS: [u64; FEATURE_COUNT] = {
    let mut factors = [0; FEATURE_COUNT];
    let mut at = 0;
    while at < FEATURE_COUNT {
        factors[at] = mixed(1000 + at as u64) | 1;
        at += 1;
    }
    factors
};

/// The greatest products so far.
#[derive(Clone, Copy, Default)]
struct Features {
    products: [u64; FEATURE_COUNT],
    /// The number of samples.
    count: usize,
    last: u64,
}

impl Features {
    /// Takes the hash of a sampled position. That of the sample before counts once.
    #[inline(never)]
    fn add(&mut self, hash: u64) {
        if hash == self.last {
            return;
        }
        self.last = hash;
        self.count += 1;
        for (product, factor) in self.products.iter_mut().zip(&FACTORS) {
            *product = (*product).max(hash.wrapping_mul(*factor));
        }
    }
}

/// Returns the sum of eight bytes, each with half the weight of the one before. Its uppermost bits
/// depend on all of them.
fn sum(bytes: &[u8]) -> u8 {
    bytes[..SUM_SIZE].iter().fold(0, |sum: u8, byte| sum.wrapping_add(sum).wrapping_add(*byte))
}

/// Returns a 1 for each position of a block that is sampled, and zeros for the others.
fn sampled(bytes: &[u8; BLOCK_SIZE + WINDOW - 1], bits: u8) -> [u8; BLOCK_SIZE] {
    let mut sampled = [0; BLOCK_SIZE];
    for (at, sampled) in sampled.iter_mut().enumerate() {
        *sampled = u8::from(sum(&bytes[at..at + SUM_SIZE]) & bits == SAMPLED_SUM & bits);
    }
    sampled
}

/// Returns the hash of a window.
fn window_hash(window: &[u8; WINDOW]) -> u64 {
    window.as_chunks().0.iter().fold(0, |hash, word| {
        let hash = (hash ^ u64::from_le_bytes(*word)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        hash ^ (hash >> 32)
    })
}

/// Returns the super-features of a chunk, or `None` if the chunk is too short or too uniform to
/// have any.
///
/// Super-features compare by position: the first of one chunk with the first of another. Those of a
/// chunk of 32 KiB or more compare with those of such chunks only.
///
/// ```
/// use cutpoint_delta::super_features;
///
/// let numbers = (0..20_000_u32).map(|number| number.wrapping_mul(0x9E37_79B1));
/// let one: Vec<u8> = numbers.flat_map(u32::to_be_bytes).collect();
/// let mut other = one.clone();
/// other[40_000] ^= 1;
/// let (one, other) = (super_features(&one).unwrap(), super_features(&other).unwrap());
/// assert!(one.iter().zip(&other).any(|(one, other)| one == other));
/// ```
#[must_use]
pub fn super_features(chunk: &[u8]) -> Option<[u64; SUPER_FEATURE_COUNT]> {
    let bits = if chunk.len() < LONG_SIZE { SUM_BITS } else { u8::MAX };
    let count = (chunk.len() + 1).saturating_sub(WINDOW);
    let mut features = Features::default();
    for start in (0..count).step_by(BLOCK_SIZE) {
        let rest = &chunk[start..];
        let mut end = [0; BLOCK_SIZE + WINDOW - 1];
        let bytes = rest.first_chunk().unwrap_or_else(|| {
            end[..rest.len()].copy_from_slice(rest);
            &end
        });
        let sampled = sampled(bytes, bits);
        for (first, eight) in (0..).step_by(8).zip(sampled.as_chunks().0) {
            let mut marks = u64::from_le_bytes(*eight);
            while marks != 0 {
                let at = first + marks.trailing_zeros() as usize / 8;
                marks &= marks - 1;
                // The zeros behind the end of the chunk belong to no window.
                if let Some(window) = rest.get(at..).and_then(|rest| rest.first_chunk()) {
                    features.add(window_hash(window));
                }
            }
        }
    }
    if features.count < SAMPLES_MIN {
        return None;
    }
    let mut found = [0; SUPER_FEATURE_COUNT];
    let parts = features.products.as_chunks::<FEATURES_OF_ONE>().0;
    for (number, (super_feature, products)) in (0..).zip(found.iter_mut().zip(parts)) {
        *super_feature = products.iter().fold(mixed(number), |sum, product| mixed(sum ^ product));
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the super-features by looking at one position after the other.
    fn plain(chunk: &[u8]) -> Option<[u64; SUPER_FEATURE_COUNT]> {
        let bits = if chunk.len() < LONG_SIZE { SUM_BITS } else { u8::MAX };
        let mut features = Features::default();
        for window in chunk.windows(WINDOW) {
            let sum =
                (0..SUM_SIZE).map(|at| u32::from(window[at]) << (SUM_SIZE - 1 - at)).sum::<u32>();
            if (sum ^ u32::from(SAMPLED_SUM)) & u32::from(bits) == 0 {
                features.add(window_hash(window.first_chunk().expect("a window")));
            }
        }
        let parts = features.products.chunks_exact(FEATURES_OF_ONE);
        let fold = |(number, part): (u64, &[u64])| {
            part.iter().fold(mixed(number), |sum, product| mixed(sum ^ product))
        };
        let all: Vec<u64> = (0..).zip(parts).map(fold).collect();
        (features.count >= SAMPLES_MIN).then(|| all.try_into().expect("three"))
    }

    #[test]
    fn blocks_do_not_change_super_features() {
        let random: Vec<u8> = (0..40_000_u64).map(|at| mixed(at).to_le_bytes()[0]).collect();
        let ramp: Vec<u8> = (0..40_000_u64).map(|at| at.to_le_bytes()[0]).collect();
        let runs: Vec<u8> = (0..40_000_u64).map(|at| mixed(at / 700).to_le_bytes()[0]).collect();
        for input in [&random, &ramp, &runs] {
            for len in (0..1200).chain([4095, 4096, 4097, 30_001, 32_767, 32_768, 39_999]) {
                assert_eq!(super_features(&input[..len]), plain(&input[..len]), "{len} bytes");
            }
        }
        // Some constant bytes are sampled at each position, and count once.
        for byte in 0..=255 {
            let mut chunk = vec![byte; 5000];
            assert_eq!(super_features(&chunk), None, "{byte}");
            chunk.extend(&random[..usize::from(byte) * 8]);
            assert_eq!(super_features(&chunk), plain(&chunk), "{byte} and others");
        }
    }
}
