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

/// The number of parts of a chunk over which hashes roll at the same time. One hash alone would wait for
/// its last value at every byte.
const LANES: usize = 4;
/// The number of bytes on which a hash depends.
const WINDOW: usize = 64;

/// The maxima of the linear functions.
type Features = [u64; FEATURE_COUNT];

/// The samples of a part of the chunk.
#[derive(Clone, Copy, Default)]
struct Samples {
    count: usize,
    first: u64,
    last: u64,
}

impl Samples {
    /// Takes a hash as a sample, and raises the features to its values. That of the sample before counts
    /// once, and zero, which stands for no sample, never.
    #[inline(never)]
    fn add(&mut self, hash: u64, features: &mut Features) {
        if hash == self.last || hash == 0 {
            return;
        }
        if self.count == 0 {
            self.first = hash;
        }
        self.last = hash;
        self.count += 1;
        let lines = FACTORS.iter().zip(&SUMMANDS);
        for (feature, (factor, summand)) in features.iter_mut().zip(lines) {
            // The tested bits are shifted out, because they are the same in all samples.
            let value = (hash << SAMPLE_BITS).wrapping_mul(factor | 1).wrapping_add(*summand);
            *feature = (*feature).max(value);
        }
    }
}

/// Returns the hash behind one more byte.
fn rolled(hash: u64, byte: u8) -> u64 {
    (hash << 1).wrapping_add(GEAR[usize::from(byte)])
}

/// Returns the hash behind bytes.
fn hash_behind(bytes: &[u8]) -> u64 {
    let window = &bytes[bytes.len().saturating_sub(WINDOW)..];
    window.iter().fold(0, |hash, byte| rolled(hash, *byte))
}

/// Returns `true` if the value of a hash is a sample. Its uppermost bits depend on all bytes of the
/// window.
fn is_sampled(hash: u64) -> bool {
    hash >> (u64::BITS - SAMPLE_BITS) == 0
}

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
    let mut features = [0; FEATURE_COUNT];
    let mut samples = [Samples::default(); LANES];
    let len = chunk.len() / LANES;
    let mut hashes: [u64; LANES] = std::array::from_fn(|lane| hash_behind(&chunk[..lane * len]));
    let [a, b, c, d] = std::array::from_fn(|lane| &chunk[lane * len..(lane + 1) * len]);
    for (((a, b), c), d) in a.iter().zip(b).zip(c).zip(d) {
        let bytes: [&u8; LANES] = [a, b, c, d];
        for ((hash, byte), samples) in hashes.iter_mut().zip(bytes).zip(&mut samples) {
            *hash = rolled(*hash, *byte);
            if is_sampled(*hash) {
                samples.add(*hash, &mut features);
            }
        }
    }
    let mut hash = hashes[LANES - 1];
    for byte in &chunk[LANES * len..] {
        hash = rolled(hash, *byte);
        if is_sampled(hash) {
            samples[LANES - 1].add(hash, &mut features);
        }
    }
    if count(&samples) < SAMPLES_MIN {
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

/// Returns the number of samples of all lanes. A lane that begins with the last sample of those before
/// has counted it again.
fn count(lanes: &[Samples; LANES]) -> usize {
    let mut last = 0;
    let mut count = 0;
    for lane in lanes.iter().filter(|lane| lane.count > 0) {
        count += lane.count - usize::from(lane.first == last);
        last = lane.last;
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the super-features by one hash that rolls over all bytes.
    fn plain(chunk: &[u8]) -> Option<[u64; SUPER_FEATURE_COUNT]> {
        let mut features = [0; FEATURE_COUNT];
        let (mut hash, mut samples) = (0, Samples::default());
        for byte in chunk {
            hash = rolled(hash, *byte);
            if is_sampled(hash) {
                samples.add(hash, &mut features);
            }
        }
        let parts = features.chunks_exact(FEATURES_OF_ONE);
        let sum = |(number, part): (u64, &[u64])| {
            part.iter().fold(mixed(number), |sum, feature| mixed(sum ^ feature))
        };
        let all: Vec<u64> = (0..).zip(parts).map(sum).collect();
        (samples.count >= SAMPLES_MIN).then(|| all.try_into().expect("three"))
    }

    #[test]
    fn lanes_do_not_change_super_features() {
        let random: Vec<u8> = (0..40_000_u64).map(|at| mixed(at).to_le_bytes()[0]).collect();
        let ramp: Vec<u8> = (0..40_000_u64).map(|at| at.to_le_bytes()[0]).collect();
        let runs: Vec<u8> = (0..40_000_u64).map(|at| mixed(at / 700).to_le_bytes()[0]).collect();
        for input in [&random, &ramp, &runs] {
            for len in (0..1200).chain([4095, 4096, 4097, 30_001, 39_999]) {
                assert_eq!(super_features(&input[..len]), plain(&input[..len]), "{len} bytes");
            }
        }
        // The hash of some constant bytes is sampled at each position, and counts once.
        for byte in 0..=255 {
            let mut chunk = vec![byte; 5000];
            assert_eq!(super_features(&chunk), plain(&chunk), "{byte}");
            chunk.extend(&random[..usize::from(byte) * 8]);
            assert_eq!(super_features(&chunk), plain(&chunk), "{byte} and others");
        }
    }
}
