//! A storage with a long way, which records the requests.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use cutpoint_storage::{Layer, ObjectRange, Result, Stamped, Storage};

/// Requests that were made at once.
pub(crate) type Round = Vec<ObjectRange>;

/// Forwards every call, and records what is read.
#[derive(Debug)]
pub(crate) struct Far {
    below: Arc<dyn Storage>,
    rounds: Mutex<Vec<Round>>,
}

impl Far {
    pub(crate) fn over(below: &Arc<dyn Storage>) -> Arc<Far> {
        Arc::new(Far { below: below.clone(), rounds: Mutex::default() })
    }

    /// Returns the reads of objects whose names `accepts` admits, since the last call. Each round
    /// was requested at once; those of which nothing is left are omitted.
    pub(crate) fn take_rounds(&self, accepts: impl Fn(&str) -> bool) -> Vec<Round> {
        let mut rounds = std::mem::take(&mut *self.rounds.lock().expect("no panics"));
        rounds.iter_mut().for_each(|round| round.retain(|range| accepts(&range.name)));
        rounds.retain(|round| !round.is_empty());
        rounds
    }

    fn record(&self, round: Round) {
        self.rounds.lock().expect("no panics").push(round);
    }
}

impl Layer for Far {
    fn below(&self) -> &dyn Storage {
        &*self.below
    }

    fn requests_ahead_max(&self) -> usize {
        8
    }

    fn get_at_most(&self, name: &str, len_max: u64) -> Result<Bytes> {
        self.record(vec![ObjectRange { name: name.to_owned(), offset: 0, len: usize::MAX }]);
        self.below.get_at_most(name, len_max)
    }

    fn get_range(&self, name: &str, offset: u64, len: usize) -> Result<Bytes> {
        self.record(vec![ObjectRange { name: name.to_owned(), offset, len }]);
        self.below.get_range(name, offset, len)
    }

    fn get_ranges(&self, wanted: &[ObjectRange]) -> Vec<Result<Bytes>> {
        self.record(wanted.to_vec());
        self.below.get_ranges(wanted)
    }

    fn stamp_ns(&self, name: &str) -> Result<Option<i64>> {
        self.record(vec![ObjectRange { name: name.to_owned(), offset: 0, len: 0 }]);
        self.below.stamp_ns(name)
    }

    fn list_stamped(&self, prefix: &str) -> Result<Vec<Stamped>> {
        let stamped = |(name, _): (String, u64)| {
            let stamp_ns = self.below.stamp_ns(&name)?;
            Ok(Stamped { name, stamp_ns })
        };
        self.below.list(prefix)?.into_iter().map(stamped).collect()
    }
}
