//! Storages over other storages, for tests.

use std::fmt::Debug;

use bytes::Bytes;

use crate::error::Result;
use crate::storage::{
    Deletion, Lock, ObjectRange, Put, Staged, Stamped, Storage, Visibility, Weakness,
};

/// A storage on top of another one, for tests. Each method behaves as that of [`Storage`], and
/// forwards the call by default. Implementing this trait implements [`Storage`].
///
/// A layer that changes puts and lies on a storage that takes pieces ([`Local`](crate::Local)) has
/// to define [`Layer::stage`], too.
#[allow(clippy::missing_errors_doc, reason = "all are as those of `Media`")]
pub trait Layer: Debug + Send + Sync {
    /// Returns the storage below. Called once for each forwarded call.
    fn below(&self) -> &dyn Storage;

    /// Puts an object, as [`Storage::put_new`] does.
    fn put_new(&self, name: &str, bytes: Bytes) -> Result<Put> {
        self.below().put_new(name, bytes)
    }

    /// Begins an object, as [`Storage::stage`] does.
    fn stage(&self, name: &str) -> Result<Option<Box<dyn Staged>>> {
        self.below().stage(name)
    }

    /// Syncs an object, as [`Storage::sync`] does.
    fn sync(&self, name: &str) -> Result<()> {
        self.below().sync(name)
    }

    /// Reads an object, as [`Storage::get_at_most`] does. [`Storage::get`] uses this method, too.
    fn get_at_most(&self, name: &str, len_max: u64) -> Result<Bytes> {
        self.below().get_at_most(name, len_max)
    }

    /// Reads a range, as [`Storage::get_range`] does.
    fn get_range(&self, name: &str, offset: u64, len: usize) -> Result<Bytes> {
        self.below().get_range(name, offset, len)
    }

    /// Reads several ranges, as [`Storage::get_ranges`] does, one by one.
    fn get_ranges(&self, wanted: &[ObjectRange]) -> Vec<Result<Bytes>> {
        let read =
            |range: &ObjectRange| Layer::get_range(self, &range.name, range.offset, range.len);
        wanted.iter().map(read).collect()
    }

    /// Returns the number of requests to make ahead, as [`Storage::requests_ahead_max`] does.
    fn requests_ahead_max(&self) -> usize {
        self.below().requests_ahead_max()
    }

    /// Returns the length of an object, as [`Storage::head`] does.
    fn head(&self, name: &str) -> Result<Option<u64>> {
        self.below().head(name)
    }

    /// Returns the stamp of an object, as [`Storage::stamp_ns`] does.
    fn stamp_ns(&self, name: &str) -> Result<Option<i64>> {
        self.below().stamp_ns(name)
    }

    /// Lists objects, as [`Storage::list`] does.
    fn list(&self, prefix: &str) -> Result<Vec<(String, u64)>> {
        self.below().list(prefix)
    }

    /// Lists objects with stamps, as [`Storage::list_stamped`] does, without stamps.
    fn list_stamped(&self, prefix: &str) -> Result<Vec<Stamped>> {
        let listed = Layer::list(self, prefix)?.into_iter();
        Ok(listed.map(|(name, _)| Stamped { name, stamp_ns: None }).collect())
    }

    /// Deletes an object, as [`Storage::delete`] does.
    fn delete(&self, name: &str) -> Result<()> {
        self.below().delete(name)
    }

    /// Returns the effect of a deletion, as [`Storage::deletion`] does.
    fn deletion(&self) -> Result<Deletion> {
        self.below().deletion()
    }

    /// Returns the locks of objects, as [`Storage::locks`] does.
    fn locks(&self, names: &[String]) -> Result<Vec<Option<Lock>>> {
        self.below().locks(names)
    }

    /// Returns what the storage does not promise, as [`Storage::weaknesses`] does.
    fn weaknesses(&self) -> Result<Vec<Weakness>> {
        self.below().weaknesses()
    }

    /// Returns the promise about listings, as [`Storage::visibility`] does.
    fn visibility(&self) -> Result<Visibility> {
        self.below().visibility()
    }

    /// Replaces an object, as [`Storage::replace`] does.
    fn replace(&self, name: &str, bytes: Bytes) -> Result<()> {
        self.below().replace(name, bytes)
    }

    /// Prepares the storage, as [`Storage::prepare`] does.
    fn prepare(&self) -> Result<()> {
        self.below().prepare()
    }

    /// Removes leftovers, as [`Storage::clean`] does.
    fn clean(&self, is_stale: &dyn Fn(&str, u64) -> bool) -> Result<usize> {
        self.below().clean(is_stale)
    }

    /// Returns `true` if the storage may have restarted, as [`Storage::had_outage`] does.
    fn had_outage(&self) -> bool {
        self.below().had_outage()
    }

    /// Describes the storage, as [`Storage::describe`] does.
    fn describe(&self) -> String {
        self.below().describe()
    }
}

impl<L: Layer> Storage for L {
    fn put_new(&self, name: &str, bytes: Bytes) -> Result<Put> {
        Layer::put_new(self, name, bytes)
    }

    fn stage(&self, name: &str) -> Result<Option<Box<dyn Staged>>> {
        Layer::stage(self, name)
    }

    fn sync(&self, name: &str) -> Result<()> {
        Layer::sync(self, name)
    }

    fn get_at_most(&self, name: &str, len_max: u64) -> Result<Bytes> {
        Layer::get_at_most(self, name, len_max)
    }

    fn get_range(&self, name: &str, offset: u64, len: usize) -> Result<Bytes> {
        Layer::get_range(self, name, offset, len)
    }

    fn get_ranges(&self, wanted: &[ObjectRange]) -> Vec<Result<Bytes>> {
        Layer::get_ranges(self, wanted)
    }

    fn requests_ahead_max(&self) -> usize {
        Layer::requests_ahead_max(self)
    }

    fn head(&self, name: &str) -> Result<Option<u64>> {
        Layer::head(self, name)
    }

    fn stamp_ns(&self, name: &str) -> Result<Option<i64>> {
        Layer::stamp_ns(self, name)
    }

    fn list(&self, prefix: &str) -> Result<Vec<(String, u64)>> {
        Layer::list(self, prefix)
    }

    fn list_stamped(&self, prefix: &str) -> Result<Vec<Stamped>> {
        Layer::list_stamped(self, prefix)
    }

    fn delete(&self, name: &str) -> Result<()> {
        Layer::delete(self, name)
    }

    fn deletion(&self) -> Result<Deletion> {
        Layer::deletion(self)
    }

    fn locks(&self, names: &[String]) -> Result<Vec<Option<Lock>>> {
        Layer::locks(self, names)
    }

    fn weaknesses(&self) -> Result<Vec<Weakness>> {
        Layer::weaknesses(self)
    }

    fn visibility(&self) -> Result<Visibility> {
        Layer::visibility(self)
    }

    fn replace(&self, name: &str, bytes: Bytes) -> Result<()> {
        Layer::replace(self, name, bytes)
    }

    fn prepare(&self) -> Result<()> {
        Layer::prepare(self)
    }

    fn clean(&self, is_stale: &dyn Fn(&str, u64) -> bool) -> Result<usize> {
        Layer::clean(self, is_stale)
    }

    fn had_outage(&self) -> bool {
        Layer::had_outage(self)
    }

    fn describe(&self) -> String {
        Layer::describe(self)
    }
}
