//! Where in a long stretch of an old stream a new chunk belongs.

/// So many bytes are a key.
const KEY_LEN: usize = 16;
/// One in 2 to the power of so many positions is a mark, by what stands there.
const MARK_BITS: u32 = 6;
/// So many places that agree are believed.
const VOTES_MIN: u32 = 4;
/// So many are enough.
const VOTES_MAX: u32 = 16;
/// Distances that differ by less are one: something was inserted or removed in between.
const BUCKET_LEN: u64 = 16 * 1024;
/// So many distances are told apart.
const BUCKET_COUNT: usize = 64;

/// Remembers where keys of an old stream are, but not what they are: whoever follows it looks there.
/// Old and new bytes are marked at the same places, which their content chooses, so few are looked at.
#[derive(Debug)]
pub struct Scout {
    /// Part of the hash of a key, and its distance from `epoch`, plus 1; 0 is empty.
    table: Vec<(u32, u32)>,
    epoch: u64,
    start: u64,
    end: u64,
}

impl Scout {
    /// Remembers some `capacity` bytes well; of more, the last ones. The next byte that comes is at
    /// `position` of the old stream. It takes an eighth of the capacity in memory.
    #[must_use]
    pub fn new(capacity: usize, position: u64) -> Scout {
        let slots = (capacity >> MARK_BITS).next_power_of_two().max(64);
        Scout { table: vec![(0, 0); slots], epoch: position, start: position, end: position }
    }

    /// Forgets what lies before `position`, which is that of the next byte that comes. What was noted
    /// behind it still holds: one position has one byte.
    pub fn restart(&mut self, position: u64) {
        (self.start, self.end) = (position, position);
        if position < self.epoch || position - self.epoch > u64::from(u32::MAX / 2) {
            self.table.fill((0, 0));
            self.epoch = position;
        }
    }

    /// The position of the next byte that comes.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Notes what follows in the old stream.
    pub fn push(&mut self, old: &[u8]) {
        for (at, hash) in marks(old) {
            let place = u32::try_from(self.end - self.epoch + at as u64 + 1).unwrap_or(0);
            let slot = self.slot(hash);
            self.table[slot] = (check(hash), place);
        }
        self.end += old.len() as u64;
    }

    fn slot(&self, hash: u64) -> usize {
        usize::try_from(hash & 0xffff_ffff).unwrap_or(0) & (self.table.len() - 1)
    }

    /// The position in the old stream where the first byte of `new` would be, about.
    #[must_use]
    pub fn locate(&self, new: &[u8]) -> Option<u64> {
        // Position and votes; what is first in a bucket stands for it.
        let mut buckets: Vec<(u64, u32)> = Vec::new();
        for (at, hash) in marks(new) {
            let (noted, place) = self.table[self.slot(hash)];
            let position = (self.epoch + u64::from(place)).wrapping_sub(1);
            if place == 0 || noted != check(hash) || position < self.start {
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

/// The marks of `bytes`, and hashes of what stands there.
fn marks(bytes: &[u8]) -> impl Iterator<Item = (usize, u64)> + '_ {
    let keys = bytes.windows(KEY_LEN).enumerate();
    keys.filter_map(|(at, key)| {
        let key = key.first_chunk::<KEY_LEN>()?;
        let four = u32::from_le_bytes([key[0], key[1], key[2], key[3]]);
        let is_mark = four.wrapping_mul(0x9E37_79B1) >> (u32::BITS - MARK_BITS) == 0;
        // What repeats is everywhere.
        (is_mark && key[..8] != key[8..]).then(|| (at, hash(key)))
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
