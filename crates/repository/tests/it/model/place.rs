//! The process and the storage with which a step acts.

use std::path::PathBuf;
use std::sync::Arc;

use cutpoint_repository::{Repository, Secret, Unlock};
use cutpoint_storage::{Result, Storage};

use super::expected::Model;
use crate::support::machine::Machine;

pub(super) const MINUTE_NS: u64 = 60 * 1_000_000_000;

const HOUR_NS: u64 = 60 * MINUTE_NS;

pub(crate) fn key(secret: u8) -> Unlock {
    Unlock::KeyFile(Secret([secret; 32]))
}

/// The place where a step acts.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// The storage behind every fault.
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) process: u32,
    pub(crate) clock_ns: u64,
    pub(crate) cache: Option<PathBuf>,
}

impl Place {
    /// Opens the repository by a secret of the model.
    pub(crate) fn open(&self, storage: Arc<dyn Storage>, model: &Model) -> Result<Repository> {
        let secret = *model.secrets.first().expect("there is always one");
        self.open_with(storage, secret)
    }

    pub(super) fn open_with(&self, storage: Arc<dyn Storage>, secret: u8) -> Result<Repository> {
        let machine = Machine::at(self.process, self.clock_ns);
        let repository = Repository::open(storage, machine, &key(secret))?;
        Ok(match &self.cache {
            Some(cache) => repository.with_cache(cache.clone()),
            None => repository,
        })
    }

    /// Returns the repository without faults and without a cache, for inspection.
    pub(crate) fn look(&self, model: &Model) -> Arc<Repository> {
        let place = Place { cache: None, ..self.clone() };
        Arc::new(place.open(self.storage.clone(), model).expect("it always opens"))
    }
}

/// Returns the time at which a step begins.
pub(crate) fn clock_ns(step: u64) -> u64 {
    (1 << 60) + step * 9 * HOUR_NS
}
