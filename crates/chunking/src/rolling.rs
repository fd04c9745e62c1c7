//! A hash of the last bytes, which each new byte enters and the oldest leaves.

use alloc::boxed::Box;

/// What becomes of a hash when a byte comes, but for the bytes that enter and leave. It is linear:
/// `step(a ^ b) == step(a) ^ step(b)`.
pub(crate) trait Step {
    fn step(&self, hash: u64) -> u64;
}

/// A hash of `window` bytes: `step(hash) ^ enter[new] ^ leave[old]`, from 0 on.
#[derive(Clone)]
pub(crate) struct Rolling<S> {
    step: S,
    window: usize,
    enter: Box<[u64; 256]>,
    leave: Box<[u64; 256]>,
}

impl<S: Step> Rolling<S> {
    /// The largest window, in bytes: the table of what leaves takes so many steps for each value.
    pub(crate) const WINDOW_MAX: usize = 65536;

    /// Makes the hash into which a byte `v` goes as `enter(v)`.
    pub(crate) fn new(step: S, window: usize, enter: impl Fn(u8) -> u64) -> Rolling<S> {
        let mut entering = Box::new([0; 256]);
        let mut leaving = Box::new([0; 256]);
        for (value, (entering, leaving)) in
            (0..=255).zip(entering.iter_mut().zip(leaving.iter_mut()))
        {
            *entering = enter(value);
            *leaving = (0..window).fold(*entering, |hash, _| step.step(hash));
        }
        Rolling { step, window, enter: entering, leave: leaving }
    }

    /// How many bytes it knows.
    pub(crate) fn window(&self) -> usize {
        self.window
    }

    pub(crate) fn step(&self) -> &S {
        &self.step
    }

    /// What each byte value brings when it enters.
    pub(crate) fn entering(&self) -> &[u64; 256] {
        &self.enter
    }

    /// What each byte value takes away when it leaves.
    pub(crate) fn leaving(&self) -> &[u64; 256] {
        &self.leave
    }

    /// The hash after one more byte, where none leaves.
    #[inline]
    pub(crate) fn push(&self, hash: u64, byte: u8) -> u64 {
        self.step.step(hash) ^ self.enter[usize::from(byte)]
    }

    /// The hash after `new`, where `old` leaves.
    #[inline]
    pub(crate) fn roll(&self, hash: u64, old: u8, new: u8) -> u64 {
        self.push(hash, new) ^ self.leave[usize::from(old)]
    }

    /// Returns the first offset from `first` on where the hash of the window that ends with that byte
    /// matches; `first` is not below `window - 1`.
    #[inline]
    pub(crate) fn find(
        &self,
        data: &[u8],
        first: usize,
        mut matches: impl FnMut(usize, u64) -> bool,
    ) -> Option<usize> {
        let start = first + 1 - self.window;
        let hash = data.get(start..first)?.iter().fold(0, |hash, &byte| self.push(hash, byte));
        // Nothing leaves for the first byte that is tested.
        let mut hash = self.push(hash, *data.get(first)?);
        if matches(first, hash) {
            return Some(first);
        }
        let pairs = data[start..].iter().zip(&data[first + 1..]);
        for (offset, (&old, &new)) in (first + 1..).zip(pairs) {
            hash = self.roll(hash, old, new);
            if matches(offset, hash) {
                return Some(offset);
            }
        }
        None
    }

    /// The same for the bytes behind `last`, where `hash` is that after it.
    #[inline]
    pub(crate) fn find_behind(
        &self,
        mut hash: u64,
        data: &[u8],
        last: usize,
        matches: impl Fn(u64) -> bool,
    ) -> Option<usize> {
        let pairs = data[last + 1 - self.window..].iter().zip(&data[last + 1..]);
        let found = pairs.into_iter().position(|(&old, &new)| {
            hash = self.roll(hash, old, new);
            matches(hash)
        });
        found.map(|at| last + 1 + at)
    }

    /// The same where nothing before `begin` is hashed, but for a hash of 1 that stands there: the
    /// window is tested before it is full, and holds a one in front of its bytes until it is.
    #[inline]
    pub(crate) fn find_behind_one(
        &self,
        data: &[u8],
        begin: usize,
        first: usize,
        mut matches: impl FnMut(usize, u64) -> bool,
    ) -> Option<usize> {
        let full = begin + self.window - 1;
        let mut hash = 1;
        for (offset, &byte) in data.iter().enumerate().take(full).skip(begin) {
            hash = self.push(hash, byte);
            if offset >= first && matches(offset, hash) {
                return Some(offset);
            }
        }
        self.find(data, full.max(first), matches)
    }
}
