//! Resemblance of chunks: super-features, computed as in Odess (Zou et al., "The Dilemma between
//! Deduplication and Locality", FAST 2021, section 4.2, after Broder's min-wise sampling).
//!
//! A gear hash rolls over the chunk. At a sample of the positions, one in 64, which the hash itself
//! selects, its value is put through twelve linear functions. The maximum of each function is a
//! feature. The probability that two chunks have a feature in common is about the probability that
//! a position of one chunk occurs in the other. Four features make a super-feature. Two chunks that
//! share any of the three super-features are likely to have most of their bytes in common.

/// The number of super-features of a chunk.
pub const SUPER_FEATURE_COUNT: usize = 3;
/// The number of features in one super-feature.
const FEATURES_OF_ONE: usize = 4;
const FEATURE_COUNT: usize = SUPER_FEATURE_COUNT * FEATURES_OF_ONE;
/// The sampling rate: one in 2 to the power of this number of positions is sampled.
const SAMPLE_BITS: u32 = 6;
/// The minimum number of samples. With fewer samples, chance decides about resemblance.
const SAMPLES_MIN: usize = 4;

/// Returns a well mixed number for each number (`SplitMix64`).
const fn mixed(number: u64) -> u64 {
    let mut z = number.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

const fn table<const N: usize>(first: u64) -> [u64; N] {
    let mut table = [0; N];
    let mut at = 0;
    while at < N {
        table[at] = mixed(first + at as u64);
        at += 1;
    }
    table
}

static GEAR: [u64; 256] = table(0);
/// The factors of the linear functions. The factors are made odd where they are used, so that no
/// bit of the hash is lost.
static FACTORS: [u64; FEATURE_COUNT] = table(1000);
static SUMMANDS: [u64; FEATURE_COUNT] = table(2000);

/// Returns the super-features of a chunk, or `None` if the chunk is too short or too uniform to
/// have any.
///
/// Super-features compare by position: the first of one chunk with the first of another.
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
    let mut features = [0_u64; FEATURE_COUNT];
    let (mut hash, mut samples, mut last) = (0_u64, 0_usize, 0_u64);
    for byte in chunk {
        hash = (hash << 1).wrapping_add(GEAR[usize::from(*byte)]);
        // The uppermost bits depend on the last 64 bytes. A value that repeats in a row counts
        // once.
        if hash >> (u64::BITS - SAMPLE_BITS) != 0 || hash == last {
            continue;
        }
        last = hash;
        samples += 1;
        let lines = FACTORS.iter().zip(&SUMMANDS);
        for (feature, (factor, summand)) in features.iter_mut().zip(lines) {
            // The tested bits are shifted out, because they are the same in all samples.
            let value = (hash << SAMPLE_BITS).wrapping_mul(factor | 1).wrapping_add(*summand);
            *feature = (*feature).max(value);
        }
    }
    if samples < SAMPLES_MIN {
        return None;
    }
    let mut found = [0; SUPER_FEATURE_COUNT];
    for (number, (super_feature, features)) in
        (0..).zip(found.iter_mut().zip(features.chunks_exact(FEATURES_OF_ONE)))
    {
        *super_feature = features.iter().fold(mixed(number), |sum, feature| mixed(sum ^ feature));
    }
    Some(found)
}
