//! Prunes of a storage that restarts and has lost objects that it had acknowledged.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use cutpoint_repository::View;
use cutpoint_repository::gc::prune::{PruneMonitor, prune};
use cutpoint_storage::{Kind, Layer, Put, Result, Staged, Storage};

use super::ALL;
use crate::support::backup::{open, restore_all};
use crate::support::pruning::{assert_clean, start, sweep_all};

/// A storage that loses the first objects of a folder as soon as it has acknowledged them.
#[derive(Debug)]
struct Forgetful {
    below: Arc<dyn Storage>,
    folder: &'static str,
    /// The number of objects that it still loses.
    left: AtomicU64,
    had_outage: AtomicBool,
    /// The containers of metadata that were put. The storage restarts when it gets a prune record, and
    /// loses them, if this is set.
    restarts_at_record: Option<Mutex<Vec<String>>>,
}

impl Forgetful {
    fn new(folder: &'static str, lost_count: u64, had_outage: bool) -> Arc<Forgetful> {
        let (left, had_outage) = (AtomicU64::new(lost_count), AtomicBool::new(had_outage));
        let restarts_at_record = None;
        Arc::new(Forgetful { below: start(), folder, left, had_outage, restarts_at_record })
    }
}

impl Layer for Forgetful {
    fn below(&self) -> &dyn Storage {
        &*self.below
    }

    fn stage(&self, _name: &str) -> Result<Option<Box<dyn Staged>>> {
        Ok(None)
    }

    fn put_new(&self, name: &str, bytes: Bytes) -> Result<Put> {
        let put = self.below.put_new(name, bytes)?;
        if let Some(containers) = &self.restarts_at_record {
            let mut containers = containers.lock().expect("no panics");
            if name.starts_with("meta/") {
                containers.push(name.to_owned());
            } else if name.starts_with("prunes/") {
                for lost in containers.drain(..) {
                    self.below.delete(&lost)?;
                    self.had_outage.store(true, Ordering::SeqCst);
                }
            }
        }
        let lose = |left: u64| left.checked_sub(1);
        if name.starts_with(self.folder)
            && self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, lose).is_ok()
        {
            self.below.delete(name)?;
        }
        Ok(put)
    }

    fn had_outage(&self) -> bool {
        self.had_outage.load(Ordering::SeqCst)
    }
}

/// The number of messages that objects were lost.
#[derive(Default)]
struct Losses(AtomicU64);

impl PruneMonitor for Losses {
    fn lost(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn record_count(storage: &Arc<Forgetful>) -> usize {
    storage.below.list("prunes").expect("it lists").len()
}

#[test]
fn lost_object_is_stored_again_before_the_record() {
    for folder in ["meta/", "index/", "tickets/"] {
        let storage = Forgetful::new(folder, 1, true);
        let repository = open(storage.clone(), 2).expect("it opens");
        let losses = Losses::default();
        let pruned = prune(&repository, &ALL, &losses, |_| true);
        let pruned = pruned.unwrap_or_else(|error| panic!("{folder}: {error}"));
        assert_eq!(pruned.expect("it ran").number, Some(1), "{folder}");
        assert_eq!(losses.0.into_inner(), 1, "{folder}");
        sweep_all(&repository).expect("it works");
        assert_eq!(restore_all(&repository).expect("it restores"), 1, "{folder}");
        assert_clean(&repository, folder);
    }
    // Nothing is asked, and nothing noticed, where every request was answered.
    let storage = Forgetful::new("index/", 1, false);
    let losses = Losses::default();
    let repository = open(storage.clone(), 2).expect("it opens");
    prune(&repository, &ALL, &losses, |_| true).expect("it works").expect("it ran");
    assert_eq!((losses.0.into_inner(), storage.left.load(Ordering::SeqCst)), (0, 0));
}

#[test]
fn nothing_is_recorded_if_objects_are_lost_again() {
    let storage = Forgetful::new("meta/", u64::MAX, true);
    let repository = open(storage.clone(), 2).expect("it opens");
    let error = prune(&repository, &ALL, &(), |_| true).expect_err("objects are lost");
    assert_eq!(error.kind(), Kind::Storage, "{error}");
    assert!(error.to_string().contains("nothing was recorded"), "{error}");
    assert_eq!(record_count(&storage), 0, "no record");
    assert_eq!(restore_all(&repository).expect("it restores"), 1, "what was there stays");
    let view = View::list(&repository).expect("it lists");
    assert_eq!(
        view.commits.len(),
        storage.below.list("tickets").expect("it lists").len(),
        "all ended"
    );
}

#[test]
fn loss_while_the_record_is_put_is_an_error() {
    let mut storage = Forgetful::new("none/", 0, false);
    let unshared = Arc::get_mut(&mut storage).expect("it is not shared yet");
    unshared.restarts_at_record = Some(Mutex::default());
    let repository = open(storage.clone(), 2).expect("it opens");
    let error = prune(&repository, &ALL, &(), |_| true).expect_err("a container is lost");
    assert_eq!(error.kind(), Kind::Storage, "{error}");
    assert!(error.to_string().contains("the record or what it names is lost"), "{error}");
    assert_eq!(record_count(&storage), 1, "it was recorded before that was known");
}
