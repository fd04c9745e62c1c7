//! A medium with bad sectors.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use cutpoint_store::error::{Error, Kind, Result};
use cutpoint_store::media::{Media, Put};

/// A medium that cannot read objects whose names begin so, or one byte of them.
#[derive(Debug)]
pub(crate) struct BadSectors {
    pub(crate) inner: Arc<dyn Media>,
    pub(crate) prefix: String,
    /// The byte that cannot be read; none can without.
    pub(crate) at: Option<u64>,
}

impl BadSectors {
    fn fails(&self, name: &str, read: Range<u64>) -> Result<()> {
        if name.starts_with(&self.prefix) && self.at.is_none_or(|at| read.contains(&at)) {
            return Err(Error::new(Kind::Media, name, "a bad sector"));
        }
        Ok(())
    }
}

impl Media for BadSectors {
    fn put_new(&self, name: &str, bytes: Bytes) -> Result<Put> {
        self.inner.put_new(name, bytes)
    }

    fn sync(&self, name: &str) -> Result<()> {
        self.inner.sync(name)
    }

    fn get(&self, name: &str) -> Result<Bytes> {
        self.fails(name, 0..u64::MAX)?;
        self.inner.get(name)
    }

    fn get_range(&self, name: &str, offset: u64, len: usize) -> Result<Bytes> {
        self.fails(name, offset..offset + len as u64)?;
        self.inner.get_range(name, offset, len)
    }

    fn head(&self, name: &str) -> Result<Option<u64>> {
        self.inner.head(name)
    }

    fn list(&self, prefix: &str) -> Result<Vec<(String, u64)>> {
        self.inner.list(prefix)
    }

    fn delete(&self, name: &str) -> Result<()> {
        self.inner.delete(name)
    }

    fn describe(&self) -> String {
        "bad sectors".to_owned()
    }
}
