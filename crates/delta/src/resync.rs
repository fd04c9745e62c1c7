//! The position of a new chunk in a long stretch of an old stream.

/// The length of a key in bytes.
const KEY_LEN: usize = 16;
/// The density of anchors: the content selects one in 2 to the power of this number of positions.
const ANCHOR_BITS: u32 = 6;
/// The minimum number of anchors that agree on a position, for the position to be returned.
const VOTES_MIN: u32 = 4;
/// The number of anchors that agree on a position at which the search stops.
const VOTES_MAX: u32 = 16;
/// The difference below which two positions count as the same, in bytes. Such positions differ
/// because bytes were inserted or removed in between.
const BUCKET_LEN: u64 = 16 * 1024;
/// The maximum number of candidate positions in a search.
const BUCKET_COUNT: usize = 64;

/// An index of the positions of keys in an old stream.
///
/// The index has hashes of the keys only, so the caller must compare the bytes at the position
/// found. Content selects the anchors, so that old and new bytes are anchors at the same
/// positions and few positions are hashed.
#[derive(Debug)]
pub struct Resync {
    /// A part of the hash of a key, and the distance of the key from `epoch` plus 1; 0 if empty.
    table: Vec<(u32, u32)>,
    epoch: u64,
    start: u64,
    end: u64,
}

impl Resync {
    /// Creates an index for about the last `capacity` bytes pushed. The next byte that is pushed is
    /// at `position` of the old stream. The index takes an eighth of the capacity in memory, with
    /// the number of slots rounded up to a power of two.
    #[must_use]
    pub fn new(capacity: usize, position: u64) -> Resync {
        let slots = (capacity >> ANCHOR_BITS).next_power_of_two().max(64);
        Resync { table: vec![(0, 0); slots], epoch: position, start: position, end: position }
    }

    /// Forgets the keys before `position`, which is that of the next byte pushed. Keys already
    /// indexed after `position` stay valid, because the old stream does not change.
    pub fn restart(&mut self, position: u64) {
        (self.start, self.end) = (position, position);
        if position < self.epoch || position - self.epoch > u64::from(u32::MAX / 2) {
            self.table.fill((0, 0));
            self.epoch = position;
        }
    }

    /// Returns the position of the next byte that is pushed.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Indexes the next bytes of the old stream.
    pub fn push(&mut self, old: &[u8]) {
        for (at, hash) in anchors(old) {
            let distance = u32::try_from(self.end - self.epoch + at as u64 + 1).unwrap_or(0);
            let slot = self.slot(hash);
            self.table[slot] = (check(hash), distance);
        }
        self.end += old.len() as u64;
    }

    fn slot(&self, hash: u64) -> usize {
        usize::try_from(hash & 0xffff_ffff).unwrap_or(0) & (self.table.len() - 1)
    }

    /// Returns the approximate position in the old stream that corresponds to the first byte of
    /// `new`, or `None` if too few anchors agree on one.
    #[must_use]
    pub fn locate(&self, new: &[u8]) -> Option<u64> {
        // Position and votes. The first position of a bucket stands for the bucket.
        let mut buckets: Vec<(u64, u32)> = Vec::new();
        for (at, hash) in anchors(new) {
            let (check_of_key, distance) = self.table[self.slot(hash)];
            let position = (self.epoch + u64::from(distance)).wrapping_sub(1);
            if distance == 0 || check_of_key != check(hash) || position < self.start {
                continue;
            }
            let position = position.saturating_sub(at as u64);
            let near = |(other, _): &(u64, u32)| other.abs_diff(position) < BUCKET_LEN;
            match buckets.iter().position(near) {
                Some(bucket) => {
                    buckets[bucket].1 += 1;
                    if buckets[bucket].1 == VOTES_MAX {
                        break;
                    }
                }
                None if buckets.len() < BUCKET_COUNT => buckets.push((position, 1)),
                None => {}
            }
        }
        let best = buckets.into_iter().max_by_key(|(_, votes)| *votes);
        best.filter(|(_, votes)| *votes >= VOTES_MIN).map(|(position, _)| position)
    }
}

/// Returns the anchors of `bytes`, and the hashes of the keys at these positions.
fn anchors(bytes: &[u8]) -> impl Iterator<Item = (usize, u64)> + '_ {
    let keys = bytes.windows(KEY_LEN).enumerate();
    keys.filter_map(|(at, key)| {
        let key = key.first_chunk::<KEY_LEN>()?;
        let four = u32::from_le_bytes([key[0], key[1], key[2], key[3]]);
        let is_anchor = four.wrapping_mul(0x9E37_79B1) >> (u32::BITS - ANCHOR_BITS) == 0;
        // A key that repeats itself says nothing about a position.
        (is_anchor && key[..8] != key[8..]).then(|| (at, hash(key)))
    })
}

fn hash(key: &[u8; KEY_LEN]) -> u64 {
    let [low, high] = [0, 8].map(|at| {
        let mut word = [0; 8];
        word.copy_from_slice(&key[at..at + 8]);
        u64::from_le_bytes(word)
    });
    let mixed = (low ^ 0x9E37_79B9_7F4A_7C15).wrapping_mul(0xBF58_476D_1CE4_E5B9)
        ^ high.wrapping_mul(0x94D0_49BB_1331_11EB);
    (mixed ^ (mixed >> 29)).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

fn check(hash: u64) -> u32 {
    u32::try_from(hash >> 32).unwrap_or(0)
}
