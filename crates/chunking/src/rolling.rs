//! A rolling hash of the last bytes: each new byte enters, and the oldest leaves.

use alloc::boxed::Box;

/// The change of a hash when a byte arrives, apart from the bytes that enter and leave. It is
/// linear: `step(a ^ b) == step(a) ^ step(b)`.
pub(crate) trait Step {
    fn step(&self, hash: u64) -> u64;
}

/// A hash of `window` bytes: `step(hash) ^ enter[new] ^ leave[old]`, beginning with 0.
#[derive(Clone)]
pub(crate) struct Rolling<S> {
    step: S,
    window: usize,
    enter: Box<[u64; 256]>,
    leave: Box<[u64; 256]>,
}

impl<S: Step> Rolling<S> {
    /// The maximum window, in bytes. Computing the table of leaving bytes takes this number of
    /// steps for each value.
    pub(crate) const WINDOW_MAX: usize = 65536;

    /// Creates the hash that a byte `v` enters as `enter(v)`.
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

    /// Returns the number of bytes in the window.
    pub(crate) fn window(&self) -> usize {
        self.window
    }

    pub(crate) fn step(&self) -> &S {
        &self.step
    }

    /// Returns the contribution of each byte value when it enters.
    pub(crate) fn entering(&self) -> &[u64; 256] {
        &self.enter
    }

    /// Returns the correction for each byte value when it leaves.
    pub(crate) fn leaving(&self) -> &[u64; 256] {
        &self.leave
    }

    /// Returns the hash after one more byte, without a byte that leaves.
    #[inline]
    pub(crate) fn push(&self, hash: u64, byte: u8) -> u64 {
        self.step.step(hash) ^ self.enter[usize::from(byte)]
    }

    /// Returns the hash after `new` has entered and `old` has left.
    #[inline]
    pub(crate) fn roll(&self, hash: u64, old: u8, new: u8) -> u64 {
        self.push(hash, new) ^ self.leave[usize::from(old)]
    }

    /// Returns the first offset from `first` on at which the hash of the window ending with that
    /// byte matches; `first` is not below `window - 1`.
    #[inline]
    pub(crate) fn find(
        &self,
        data: &[u8],
        first: usize,
        mut matches: impl FnMut(usize, u64) -> bool,
    ) -> Option<usize> {
        let start = first + 1 - self.window;
        let hash = data.get(start..first)?.iter().fold(0, |hash, &byte| self.push(hash, byte));
        // No byte leaves for the first byte that is tested.
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

    /// Returns the first matching offset behind `last`; `hash` is the hash at `last`.
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

    /// Returns the first matching offset from `first` on, if hashing starts at `begin` with a hash
    /// of 1. The window is tested before it is full, and until then contains a one in front of its
    /// bytes.
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
