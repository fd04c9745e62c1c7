//! Regions that are decoded ahead: another thread decodes them before the encoder needs them.
//!
//! The ordered stage of a backup compares one chunk after another, and decoding old regions is a large
//! part of its work. The bytes that the encoder finds do not depend on this: a region that is not
//! decoded yet, or that cannot be read, is left to the encoder.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::format::fingerprint::{Class, Fingerprint};
use crate::read::Reader;

/// Maximum number of chunks that wait to be decoded. If there are more, the encoder has overtaken the
/// other thread, and the oldest ones are dropped.
const WAITING_MAX: usize = 64;

/// The chunks whose regions are decoded ahead, shared by the encoder and the thread that decodes.
#[derive(Debug, Default)]
pub struct RegionsAhead {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Fingerprint>,
    is_ended: bool,
}

impl RegionsAhead {
    fn lock(&self) -> MutexGuard<'_, State> {
        // A poisoned lock is harmless, because no thread leaves the state halfway.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wants the regions of these chunks, which the encoder will need in this order.
    pub(super) fn want(&self, chunks: impl Iterator<Item = Fingerprint>) {
        let mut state = self.lock();
        let was_empty = state.waiting.is_empty();
        state.waiting.extend(chunks);
        while state.waiting.len() > WAITING_MAX {
            state.waiting.pop_front();
        }
        if was_empty && !state.waiting.is_empty() {
            self.changed.notify_one();
        }
    }

    /// Decodes regions by `reader` until [`RegionsAhead::end`] is called.
    pub fn run(&self, reader: &Reader) {
        while let Some(chunk) = self.next() {
            // An error is left to the encoder, which reads the region itself then.
            reader.prepare(Class::Data, &chunk).ok();
        }
    }

    fn next(&self) -> Option<Fingerprint> {
        let mut state = self.lock();
        loop {
            if state.is_ended {
                return None;
            }
            if let Some(chunk) = state.waiting.pop_front() {
                return Some(chunk);
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Ends [`RegionsAhead::run`], because the encoder needs nothing any more.
    pub fn end(&self) {
        self.lock().is_ended = true;
        self.changed.notify_all();
    }
}
