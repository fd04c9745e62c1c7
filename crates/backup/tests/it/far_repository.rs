//! A repository whose storage is far.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use cutpoint_repository::Repository;
use cutpoint_storage::{Layer, ObjectRange, Result, Storage};

use crate::seeded_repository::{SeededEnvironment, unlock};

/// A storage with a long way, which counts the ranges of data that are asked for together.
#[derive(Debug)]
pub(crate) struct Remote {
    below: Arc<dyn Storage>,
    pub(crate) together_max: AtomicU64,
}

impl Layer for Remote {
    fn below(&self) -> &dyn Storage {
        &*self.below
    }

    fn get_ranges(&self, wanted: &[ObjectRange]) -> Vec<Result<Bytes>> {
        let count = wanted.iter().filter(|range| range.name.starts_with("data/")).count();
        self.together_max.fetch_max(count as u64, Ordering::SeqCst);
        self.below.get_ranges(wanted)
    }

    fn requests_ahead_max(&self) -> usize {
        4
    }
}

/// Opens a repository as if its storage were far.
pub(crate) fn from_far(repository: &Repository) -> (Arc<Repository>, Arc<Remote>) {
    let together_max = AtomicU64::new(0);
    let remote = Arc::new(Remote { below: repository.storage().clone(), together_max });
    let opened = Repository::open(remote.clone(), SeededEnvironment::new(9), &unlock());
    (Arc::new(opened.expect("it opens")), remote)
}
