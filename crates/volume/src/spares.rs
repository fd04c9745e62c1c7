//! Spare segments: dead ones whose files the next segments overwrite. The storage then needs to allocate
//! nothing, which is a good part of the time of a write, and to free nothing.

use crate::format::names;

/// The maximum number of spare segments.
const COUNT_MAX: usize = 8;

/// The spare segments of a volume, which are files of its folder and count as used space.
#[derive(Debug, Default)]
pub(crate) struct Spares {
    numbers: Vec<u64>,
    /// Set once the folder has refused one.
    is_refused: bool,
}

impl Spares {
    /// Keeps a dead segment. Returns `false` if it is not needed.
    pub(crate) fn keep(&mut self, segment: u64) -> bool {
        let is_kept = !self.is_refused && self.numbers.len() < COUNT_MAX;
        self.numbers.extend(is_kept.then_some(segment));
        is_kept
    }

    /// Passes the name of a spare segment to `reuse`, and returns the result. Without a spare segment, and if
    /// the folder refuses, returns `None`.
    pub(crate) fn take<T>(&mut self, reuse: impl Fn(&str) -> std::io::Result<T>) -> Option<T> {
        let reused = reuse(&names::segment(self.numbers.pop()?));
        self.is_refused |= reused.is_err();
        reused.ok()
    }

    /// Returns the numbers of all of them.
    pub(crate) fn numbers(&self) -> &[u64] {
        &self.numbers
    }

    /// Returns the numbers of all of them, and keeps none.
    pub(crate) fn take_all(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.numbers)
    }
}
