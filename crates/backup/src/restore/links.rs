//! Several names of one file: the first is written, the others wait for it.

use std::sync::{Arc, Condvar, Mutex, PoisonError};

use super::place::PathNode;
use crate::files::folder::Identity;

/// A file that has several names in the snapshot.
#[derive(Debug, Default)]
pub(super) struct Link {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Clone, Debug, Default)]
enum State {
    /// One name is being written.
    #[default]
    Pending,
    /// It is there under this name.
    Done(Written),
    /// It could not be written, or stood in the way of something.
    Failed,
}

/// Where the first name is.
#[derive(Clone, Debug)]
pub(super) struct Written {
    pub(super) folder: Arc<PathNode>,
    pub(super) name: Vec<u8>,
    pub(super) identity: Identity,
}

/// The duty to write the file. Dropped before [`LinkOwner::done`], it leaves the duty to the next
/// name.
#[derive(Debug)]
pub(super) struct LinkOwner(Arc<Link>);

impl LinkOwner {
    /// A new link, with the duty for its first name.
    pub(super) fn new() -> (Arc<Link>, LinkOwner) {
        let link = Arc::new(Link::default());
        (Arc::clone(&link), LinkOwner(link))
    }

    /// The file is there.
    pub(super) fn done(self, written: Written) {
        self.0.set(State::Done(written));
    }
}

impl Drop for LinkOwner {
    fn drop(&mut self) {
        let mut state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*state, State::Pending) {
            *state = State::Failed;
            drop(state);
            self.0.changed.notify_all();
        }
    }
}

impl Link {
    fn set(&self, new: State) {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = new;
        self.changed.notify_all();
    }

    /// Waits for the first name. Returns where it is, or the duty to write the file.
    ///
    /// Jobs are taken in the order in which the names come, so whoever has the duty is at work by
    /// now and waits for nobody but names before its own.
    pub(super) fn wait(self: &Arc<Link>) -> Result<Written, LinkOwner> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match &*state {
                State::Done(written) => return Ok(written.clone()),
                State::Failed => {
                    *state = State::Pending;
                    return Err(LinkOwner(Arc::clone(self)));
                }
                State::Pending => {
                    state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }
}
