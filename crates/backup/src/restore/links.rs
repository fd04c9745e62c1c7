//! Hard links: the first name of a file is written, and the other names wait for it.

use std::sync::{Arc, Condvar, Mutex, PoisonError};

use super::place::PathNode;
use crate::source::folder::Identity;

/// A file that has several names in the snapshot.
#[derive(Debug, Default)]
pub(super) struct Link {
    state: Mutex<LinkState>,
    changed: Condvar,
}

#[derive(Clone, Debug, Default)]
enum LinkState {
    /// One name is being written.
    #[default]
    Pending,
    /// The file exists under this name.
    Done(FirstName),
    /// The last attempt to write the file failed or was refused.
    Failed,
}

/// The place of the first name.
#[derive(Clone, Debug)]
pub(super) struct FirstName {
    pub(super) folder: Arc<PathNode>,
    pub(super) name: Vec<u8>,
    pub(super) identity: Identity,
}

/// The duty to write the file. If it is dropped before [`LinkOwner::done`], the duty passes to the
/// next name.
#[derive(Debug)]
pub(super) struct LinkOwner(Arc<Link>);

impl LinkOwner {
    /// Creates a link and the duty for its first name.
    pub(super) fn new() -> (Arc<Link>, LinkOwner) {
        let link = Arc::new(Link::default());
        (Arc::clone(&link), LinkOwner(link))
    }

    /// Records that the file is written, and ends the wait of the other names.
    pub(super) fn done(self, written: FirstName) {
        self.0.set(LinkState::Done(written));
    }
}

impl Drop for LinkOwner {
    fn drop(&mut self) {
        let mut state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*state, LinkState::Pending) {
            *state = LinkState::Failed;
            drop(state);
            self.0.changed.notify_all();
        }
    }
}

impl Link {
    fn set(&self, new: LinkState) {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = new;
        self.changed.notify_all();
    }

    /// Waits for the first name. Returns the place of that name, or the duty to write the file.
    ///
    /// Workers do the jobs in the order in which the names come. Therefore the worker that has the
    /// duty is already working on it, and waits for earlier names only.
    pub(super) fn wait(self: &Arc<Link>) -> Result<FirstName, LinkOwner> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match &*state {
                LinkState::Done(written) => return Ok(written.clone()),
                LinkState::Failed => {
                    *state = LinkState::Pending;
                    return Err(LinkOwner(Arc::clone(self)));
                }
                LinkState::Pending => {
                    state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }
}
