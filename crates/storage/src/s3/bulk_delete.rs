//! Deletion of many objects by one request.
//!
//! The answer to such a request names each object with its result. `object_store` takes every
//! object for deleted that the answer does not name with an error. An object counts as deleted here
//! only if the answer names it, so [`is_answered`](super::xml::is_answered) compares the answer with the request before
//! `object_store` sees it.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::StreamExt;
use object_store::ObjectStore;
use object_store::path::Path as StorePath;

use super::S3;
use super::failure::{Failure, Meaning};
use crate::error::{Kind, Result};
use crate::storage::Storage;

/// Maximum number of objects in one request; the limit is S3's.
pub(super) const KEYS_MAX: usize = 1000;
/// The time that a server may take to delete one object, in milliseconds. It extends the time limit
/// of a request.
const KEY_MS: u64 = 20;

impl S3 {
    /// Deletes at most [`KEYS_MAX`] objects: by one request, and those that it did not delete one
    /// by one.
    pub(super) fn delete_chunk(&self, names: &[String]) -> Vec<Result<()>> {
        let is_deleted = match names.len() {
            0 | 1 => vec![false; names.len()],
            _ if self.has_no_bulk_delete.load(Ordering::Relaxed) => vec![false; names.len()],
            _ => self.delete_by_one_request(names),
        };
        // A storage that fails for one object, after all attempts, is not asked for the others.
        let mut failed = None;
        let results = names.iter().zip(is_deleted).map(|(name, is_deleted)| {
            if is_deleted {
                return Ok(());
            }
            if let Some(kind) = failed {
                let failure = Failure { kind, ..Failure::passing("the storage has failed before") };
                return Err(self.link.error("delete", name, 0, failure));
            }
            self.delete(name).inspect_err(|error| {
                let is_refused = std::error::Error::source(error).is_some();
                if matches!(error.kind(), Kind::Interrupted) || !is_refused {
                    failed = Some(error.kind());
                }
            })
        });
        results.collect()
    }

    /// Returns, for each name, `true` if the storage has answered that the object is deleted.
    fn delete_by_one_request(&self, names: &[String]) -> Vec<bool> {
        let answered = self.link.patience.attempts(|| {
            let paths: Vec<_> = names.iter().map(|name| Ok(self.path(name))).collect();
            let limit = self.limits.silence + Duration::from_millis(KEY_MS * names.len() as u64);
            self.link.block_on(async {
                let mut deleted =
                    self.second.delete_stream(futures_util::stream::iter(paths).boxed());
                let mut answers: Vec<Result<StorePath, Failure>> = Vec::new();
                let all = async {
                    while let Some(answer) = deleted.next().await {
                        answers.push(answer.map_err(|error| Failure::of(&error)));
                    }
                    Ok(())
                };
                self.within(limit, all).await?;
                // One error for all is the failure of the request.
                match <[_; 1]>::try_from(answers) {
                    Ok([Err(failure)]) => Err(failure),
                    Ok(answer) => Ok(Vec::from(answer)),
                    Err(answers) => Ok(answers),
                }
            })
        });
        match answered {
            Ok(answers) => {
                let deleted: BTreeSet<StorePath> = answers.into_iter().flatten().collect();
                names.iter().map(|name| deleted.contains(&self.path(name))).collect()
            }
            Err((_, failure)) => {
                let is_final = matches!(failure.meaning, Meaning::Final | Meaning::NoConditions);
                if is_final && failure.kind == Kind::Storage {
                    self.has_no_bulk_delete.store(true, Ordering::Relaxed);
                }
                vec![false; names.len()]
            }
        }
    }
}
