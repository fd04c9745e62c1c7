//! Reads of many objects or ranges, several requests at a time.

use bytes::Bytes;

use super::S3;
use super::failure::{Failure, Meaning};
use crate::error::{Kind, Result};
use crate::remote::settle;
use crate::storage::{ObjectRange, Storage, too_short};

impl S3 {
    /// Returns whole objects, each given by its name and maximum length.
    pub(super) fn read_objects(&self, wanted: &[(String, u64)]) -> Vec<Result<Bytes>> {
        let reads = wanted.iter().map(|(name, len_max)| self.read(name, None, *len_max));
        let read = self.link.at_once(wanted.len(), reads);
        self.settle(read, |at| &wanted[at].0, |at| self.get_at_most(&wanted[at].0, wanted[at].1))
    }

    /// Returns ranges of objects.
    pub(super) fn read_ranges(&self, wanted: &[ObjectRange]) -> Vec<Result<Bytes>> {
        let reads = wanted.iter().map(|range| async move {
            let ObjectRange { name, offset, len } = range;
            let end = offset.saturating_add(*len as u64);
            match len {
                0 => Ok(Bytes::new()),
                len => self.read(name, Some(*offset..end), *len as u64).await,
            }
        });
        let read = self.link.at_once(wanted.len(), reads);
        let again = |at: usize| {
            let ObjectRange { name, offset, len } = &wanted[at];
            self.get_range(name, *offset, *len)
        };
        // A range that begins behind the end of its object is refused. A single read determines the
        // error.
        let is_refused =
            |failure: &Failure| failure.meaning == Meaning::Final && failure.kind == Kind::Storage;
        let read = read.into_iter().map(|read| match read {
            Err(failure) if is_refused(&failure) => {
                Err(Failure { meaning: Meaning::TryAgain, ..failure })
            }
            read => read,
        });
        let read = self.settle(read.collect(), |at| &wanted[at].name, again);
        let is_whole =
            |(read, ObjectRange { name, offset, len }): (Result<Bytes>, &ObjectRange)| {
                let bytes = read?;
                if bytes.len() == *len { Ok(bytes) } else { Err(too_short(name, *offset, *len)) }
            };
        read.into_iter().zip(wanted).map(is_whole).collect()
    }

    /// Makes the requests `again` that failed and may succeed, one after another, until the storage
    /// fails one after all attempts.
    pub(super) fn settle<'a, T>(
        &self,
        answered: Vec<Result<T, Failure>>,
        name: impl Fn(usize) -> &'a String,
        again: impl Fn(usize) -> Result<T>,
    ) -> Vec<Result<T>> {
        settle(answered, |at, failure| self.link.error("get", name(at), 1, failure), again)
    }
}
