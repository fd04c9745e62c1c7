//! A storage on which another client acts in between.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use cutpoint_storage::{Layer, Put, Result, Storage};

/// The moment at which the other client acts.
#[derive(Clone, Copy, Debug)]
pub(crate) enum When {
    /// Before the call of this number, from 0.
    BeforeCall(u64),
    /// Before the first put of a name with this prefix.
    BeforePut(&'static str),
    /// Before the first put of a name with this prefix. From then on listings of its folder lag
    /// behind, and lack the highest name.
    BeforePutUnlisted(&'static str),
    /// After the first listing of this folder.
    AfterList(&'static str),
}

type Act = Box<dyn FnOnce() + Send>;

/// Forwards every call. Once, the other client acts.
pub(crate) struct OvertakenStorage {
    inner: Arc<dyn Storage>,
    when: When,
    calls: AtomicU64,
    act: Mutex<Option<Act>>,
}

impl fmt::Debug for OvertakenStorage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OvertakenStorage").field("when", &self.when).finish_non_exhaustive()
    }
}

impl OvertakenStorage {
    pub(crate) fn new(
        inner: Arc<dyn Storage>,
        when: When,
        act: impl FnOnce() + Send + 'static,
    ) -> Arc<OvertakenStorage> {
        let act: Act = Box::new(act);
        Arc::new(OvertakenStorage {
            inner,
            when,
            calls: AtomicU64::new(0),
            act: Mutex::new(Some(act)),
        })
    }

    /// Returns the number of calls so far, questions about the storage itself included.
    pub(crate) fn calls(&self) -> u64 {
        self.calls.load(Ordering::SeqCst)
    }

    /// Returns `true` if the other client has acted.
    pub(crate) fn has_acted(&self) -> bool {
        self.act.lock().expect("no test panics in here").is_none()
    }

    fn act(&self) {
        // Without the lock, because the other client may call this function as well.
        let act = self.act.lock().expect("no test panics in here").take();
        act.into_iter().for_each(|act| act());
    }
}

impl Layer for OvertakenStorage {
    fn below(&self) -> &dyn Storage {
        let call = self.calls.fetch_add(1, Ordering::SeqCst);
        if matches!(self.when, When::BeforeCall(number) if number == call) {
            self.act();
        }
        &*self.inner
    }

    fn put_new(&self, name: &str, bytes: Bytes) -> Result<Put> {
        if let When::BeforePut(prefix) | When::BeforePutUnlisted(prefix) = self.when
            && name.starts_with(prefix)
        {
            self.act();
        }
        self.below().put_new(name, bytes)
    }

    fn list(&self, prefix: &str) -> Result<Vec<(String, u64)>> {
        let mut listed = self.below().list(prefix)?;
        match self.when {
            When::AfterList(folder) if prefix == folder => self.act(),
            When::BeforePutUnlisted(folder) if prefix == folder && self.has_acted() => {
                listed.sort();
                listed.pop();
            }
            _ => {}
        }
        Ok(listed)
    }
}
