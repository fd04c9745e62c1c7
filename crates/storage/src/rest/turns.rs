//! Turns of threads that put the same name.

use std::collections::BTreeSet;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::environment::Environment;
use crate::wait;

/// The names that are being put, each by one thread.
#[derive(Debug, Default)]
pub(super) struct Turns {
    names: Mutex<BTreeSet<String>>,
    is_over: Condvar,
}

/// The turn of a thread, which ends when it is dropped.
#[derive(Debug)]
pub(super) struct Turn<'a> {
    turns: &'a Turns,
    name: &'a str,
}

impl Turns {
    /// Waits until no other thread puts `name`. Returns `None` if a request to stop ends the wait.
    pub(super) fn take<'a>(
        &'a self,
        name: &'a str,
        environment: &dyn Environment,
    ) -> Option<Turn<'a>> {
        let mut names = self.lock();
        while names.contains(name) {
            if wait::is_over(environment) {
                return None;
            }
            let waited = self.is_over.wait_timeout(names, wait::LOOK_EVERY);
            names = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        names.insert(name.to_owned());
        Some(Turn { turns: self, name })
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.turns.lock().remove(self.name);
        self.turns.is_over.notify_all();
    }
}
