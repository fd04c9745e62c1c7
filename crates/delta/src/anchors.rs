//! Anchors: positions that their content selects, so that they are found again wherever old and
//! new bytes are equal.

/// The length of a key in bytes.
pub(crate) const KEY_LEN: usize = 16;
/// The multiplier by which words are mixed: the golden ratio, as in the table of a window.
const MIXER: u64 = 0x9E37_79B9_7F4A_7C15;

/// The flag in the distance of a key that occurs at several positions, if such keys are dropped.
const REPEATED: u32 = 1 << 31;
/// The distance from which on positions count from a new epoch. Far below the flag, so that it is
/// not reached within the bytes of one push.
const DISTANCE_MAX: u64 = 1 << 30;

/// The treatment of a key that occurs at several positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repeats {
    /// The position that was pushed last is kept.
    Last,
    /// No position is kept.
    Dropped,
}

/// The positions of the anchors of an old stream.
///
/// The index has hashes of the keys only, so the caller must compare the bytes at the position
/// found.
#[derive(Debug)]
pub(crate) struct AnchorIndex {
    /// A part of the hash of a key, and the distance of the key from `epoch` plus 1; 0 if empty.
    table: Vec<(u32, u32)>,
    /// One position in 2 to the power of this number is an anchor.
    density_bits: u32,
    repeats: Repeats,
    epoch: u64,
    start: u64,
    end: u64,
}

impl AnchorIndex {
    /// Creates an index for about the last `capacity` bytes pushed. The next byte that is pushed is
    /// at `position` of the old stream. The index takes 8 bytes an anchor, with the number of slots
    /// rounded up to a power of two.
    pub(crate) fn new(
        capacity: usize,
        density_bits: u32,
        repeats: Repeats,
        position: u64,
    ) -> AnchorIndex {
        let slots = (capacity >> density_bits).next_power_of_two().max(64);
        let (epoch, start, end) = (position, position, position);
        AnchorIndex { table: vec![(0, 0); slots], density_bits, repeats, epoch, start, end }
    }

    /// Forgets the keys before `position`, which is that of the next byte pushed. Keys already
    /// indexed after `position` stay valid, because the old stream does not change.
    pub(crate) fn restart(&mut self, position: u64) {
        (self.start, self.end) = (position, position);
        if position < self.epoch || position - self.epoch > DISTANCE_MAX {
            self.table.fill((0, 0));
            self.epoch = position;
        }
    }

    /// Returns the position of the next byte that is pushed.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Indexes the next bytes of the old stream.
    pub(crate) fn push(&mut self, old: &[u8]) {
        // Distances from the epoch have 32 bits.
        if self.end - self.epoch > DISTANCE_MAX {
            self.restart(self.end);
        }
        for (at, hash) in self.of(old) {
            let position = self.end + at as u64;
            let distance = u32::try_from(position - self.epoch + 1).ok();
            let Some(distance) = distance.filter(|it| *it < REPEATED) else { break };
            let is_repeated = self.repeats == Repeats::Dropped
                && self.last_position(hash).is_some_and(|last| last != position);
            let slot = self.slot(hash);
            self.table[slot] =
                (check(hash), if is_repeated { distance | REPEATED } else { distance });
        }
        self.end += old.len() as u64;
    }

    /// Returns the anchors of `bytes`, and the hashes of the keys at these positions.
    pub(crate) fn of<'a>(&self, bytes: &'a [u8]) -> impl Iterator<Item = (usize, u64)> + use<'a> {
        let shift = u64::BITS - self.density_bits;
        let keys = bytes.windows(KEY_LEN).enumerate();
        keys.filter_map(move |(at, key)| {
            let (first, second) = key.split_first_chunk::<8>()?;
            let word = u64::from_le_bytes(*first);
            // A key that repeats itself says nothing about a position.
            let is_anchor = word.wrapping_mul(MIXER) >> shift == 0 && first[..] != *second;
            is_anchor.then(|| (at, hash(word, second)))
        })
    }

    /// Returns the position of the key with this hash in the old stream, if it is known.
    pub(crate) fn look_up(&self, hash_of_key: u64) -> Option<u64> {
        let (_, distance) = self.table[self.slot(hash_of_key)];
        self.last_position(hash_of_key).filter(|_| distance & REPEATED == 0)
    }

    /// Returns the last position of the key with this hash, which may be one of several.
    fn last_position(&self, hash_of_key: u64) -> Option<u64> {
        let (check_of_key, distance) = self.table[self.slot(hash_of_key)];
        let distance = (distance & !REPEATED).checked_sub(1)?;
        let position = self.epoch + u64::from(distance);
        (check_of_key == check(hash_of_key) && position >= self.start).then_some(position)
    }

    fn slot(&self, hash: u64) -> usize {
        usize::try_from(hash & 0xffff_ffff).unwrap_or(0) & (self.table.len() - 1)
    }
}

fn hash(first: u64, second: &[u8]) -> u64 {
    let second = second.first_chunk().map_or(0, |second| u64::from_le_bytes(*second));
    let mixed = (first ^ MIXER).wrapping_mul(0xBF58_476D_1CE4_E5B9)
        ^ second.wrapping_mul(0x94D0_49BB_1331_11EB);
    (mixed ^ (mixed >> 29)).wrapping_mul(MIXER)
}

fn check(hash: u64) -> u32 {
    u32::try_from(hash >> 32).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns bytes that are one anchor.
    fn anchor(index: &AnchorIndex) -> [u8; KEY_LEN] {
        let keys =
            (0_u128..).map(|number| number.wrapping_mul(0x1234_5678_9abc_def1).to_le_bytes());
        let mut anchors = keys.filter(|key| index.of(key).next().is_some());
        anchors.next().expect("one key in some thousand")
    }

    #[test]
    fn repeated_key_has_its_last_position_or_none() {
        for (repeats, expected) in [(Repeats::Last, Some(KEY_LEN as u64)), (Repeats::Dropped, None)]
        {
            let mut index = AnchorIndex::new(1 << 10, 5, repeats, 0);
            let key = anchor(&index);
            let (_, hash) = index.of(&key).next().expect("it is an anchor");
            assert_eq!(index.look_up(hash), None, "nothing was pushed");
            index.push(&key);
            assert_eq!(index.look_up(hash), Some(0));
            index.push(&key);
            assert_eq!(index.look_up(hash), expected, "{repeats:?}");
            // What lies before the start is no repetition.
            index.restart(1000);
            assert_eq!(index.look_up(hash), None);
            index.push(&key);
            assert_eq!(index.look_up(hash), Some(1000), "{repeats:?}");
            // The same bytes at the same position are no repetition.
            index.restart(1000);
            index.push(&key);
            assert_eq!(index.look_up(hash), Some(1000), "{repeats:?}");
        }
    }

    #[test]
    fn positions_far_from_the_epoch_are_kept() {
        for repeats in [Repeats::Last, Repeats::Dropped] {
            let mut index = AnchorIndex::new(1 << 10, 5, repeats, 0);
            let key = anchor(&index);
            let (_, hash) = index.of(&key).next().expect("it is an anchor");
            for position in [DISTANCE_MAX - 8, DISTANCE_MAX, 5 * DISTANCE_MAX, 1 << 60] {
                index.restart(position);
                index.push(&key);
                assert_eq!(index.look_up(hash), Some(position), "{repeats:?}");
            }
            assert_eq!(index.end(), (1 << 60) + KEY_LEN as u64);
        }
    }
}
