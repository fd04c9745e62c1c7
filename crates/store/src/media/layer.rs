//! Media over other media, for tests.

use std::fmt::Debug;

use bytes::Bytes;

use super::{Media, Put, Staged};
use crate::error::Result;

/// A medium over another one, for tests. Each method is as that of [`Media`], and passes the call on
/// where an implementation does not define it; [`Media`] comes with this trait.
///
/// A layer that changes puts and lies over a medium that takes pieces ([`Local`](super::Local))
/// defines [`Layer::stage`], too.
#[allow(clippy::missing_errors_doc, reason = "all are as those of `Media`")]
pub trait Layer: Debug + Send + Sync {
    /// The medium below. Asked for once in each call that is passed on.
    fn below(&self) -> &dyn Media;

    /// As [`Media::put_new`].
    fn put_new(&self, name: &str, bytes: Bytes) -> Result<Put> {
        self.below().put_new(name, bytes)
    }

    /// As [`Media::stage`].
    fn stage(&self, name: &str) -> Result<Option<Box<dyn Staged>>> {
        self.below().stage(name)
    }

    /// As [`Media::sync`].
    fn sync(&self, name: &str) -> Result<()> {
        self.below().sync(name)
    }

    /// As [`Media::get_at_most`], by which [`Media::get`] goes, too.
    fn get_at_most(&self, name: &str, len_max: u64) -> Result<Bytes> {
        self.below().get_at_most(name, len_max)
    }

    /// As [`Media::get_range`].
    fn get_range(&self, name: &str, offset: u64, len: usize) -> Result<Bytes> {
        self.below().get_range(name, offset, len)
    }

    /// As [`Media::requests_ahead_max`].
    fn requests_ahead_max(&self) -> usize {
        self.below().requests_ahead_max()
    }

    /// As [`Media::head`].
    fn head(&self, name: &str) -> Result<Option<u64>> {
        self.below().head(name)
    }

    /// As [`Media::stamp_ns`].
    fn stamp_ns(&self, name: &str) -> Result<Option<i64>> {
        self.below().stamp_ns(name)
    }

    /// As [`Media::list`].
    fn list(&self, prefix: &str) -> Result<Vec<(String, u64)>> {
        self.below().list(prefix)
    }

    /// As [`Media::delete`].
    fn delete(&self, name: &str) -> Result<()> {
        self.below().delete(name)
    }

    /// As [`Media::replace`].
    fn replace(&self, name: &str, bytes: Bytes) -> Result<()> {
        self.below().replace(name, bytes)
    }

    /// As [`Media::prepare`].
    fn prepare(&self) -> Result<()> {
        self.below().prepare()
    }

    /// As [`Media::clean`].
    fn clean(&self, is_stale: &dyn Fn(&str, u64) -> bool) -> Result<usize> {
        self.below().clean(is_stale)
    }

    /// As [`Media::describe`].
    fn describe(&self) -> String {
        self.below().describe()
    }
}

impl<L: Layer> Media for L {
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

    fn delete(&self, name: &str) -> Result<()> {
        Layer::delete(self, name)
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

    fn describe(&self) -> String {
        Layer::describe(self)
    }
}
