//! The hints of several runs, merged in rising order.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;

use super::run::{Run, WINDOW_BLOCKS, Window};

/// Reads a run sequentially.
struct Cursor<'a> {
    run: &'a Run,
    next: u64,
    window: Window,
}

impl<'a> Cursor<'a> {
    fn new(run: &'a Run) -> Cursor<'a> {
        Cursor { run, next: 0, window: Window::default() }
    }

    fn next(&mut self) -> io::Result<Option<(u64, u32)>> {
        if self.next == self.run.hint_count {
            return Ok(None);
        }
        let record = self.run.record(self.next, WINDOW_BLOCKS, &mut self.window)?;
        self.next += 1;
        Ok(Some(record))
    }
}

/// Merges the hints of several runs in rising order.
pub(in crate::index) struct MergedHints<'a> {
    cursors: Vec<Cursor<'a>>,
    heap: BinaryHeap<Reverse<((u64, u32), usize)>>,
}

impl<'a> MergedHints<'a> {
    /// Creates a merge of `runs`.
    ///
    /// # Errors
    ///
    /// Returns the number of a run that cannot be read.
    pub(in crate::index) fn new(runs: &[&'a Run]) -> Result<MergedHints<'a>, usize> {
        let cursors = runs.iter().map(|run| Cursor::new(run)).collect();
        let mut merge = MergedHints { cursors, heap: BinaryHeap::with_capacity(runs.len()) };
        for number in 0..runs.len() {
            merge.advance(number)?;
        }
        Ok(merge)
    }

    fn advance(&mut self, number: usize) -> Result<(), usize> {
        if let Some(next) = self.cursors[number].next().map_err(|_| number)? {
            self.heap.push(Reverse((next, number)));
        }
        Ok(())
    }

    /// Returns the next hint, the number of the container in its run's table, and the run's number.
    ///
    /// # Errors
    ///
    /// Returns the number of a run that cannot be read.
    pub(in crate::index) fn next(&mut self) -> Result<Option<(u64, u32, usize)>, usize> {
        let Some(Reverse(((hint, container), number))) = self.heap.pop() else { return Ok(None) };
        self.advance(number)?;
        Ok(Some((hint, container, number)))
    }
}
