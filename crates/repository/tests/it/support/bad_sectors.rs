//! A storage with bad sectors.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use cutpoint_storage::{Error, Kind, Layer, Result, Storage};

/// A storage that cannot read objects whose names begin with a prefix, or one byte of them.
#[derive(Debug)]
pub(crate) struct BadSectors {
    pub(crate) inner: Arc<dyn Storage>,
    pub(crate) prefix: String,
    /// The byte that cannot be read; `None` if all of them cannot.
    pub(crate) at: Option<u64>,
}

impl BadSectors {
    fn fails(&self, name: &str, read: Range<u64>) -> Result<()> {
        if name.starts_with(&self.prefix) && self.at.is_none_or(|at| read.contains(&at)) {
            return Err(Error::new(Kind::Storage, name, "a bad sector"));
        }
        Ok(())
    }
}

impl Layer for BadSectors {
    fn below(&self) -> &dyn Storage {
        &*self.inner
    }

    fn get_at_most(&self, name: &str, len_max: u64) -> Result<Bytes> {
        self.fails(name, 0..u64::MAX)?;
        self.inner.get_at_most(name, len_max)
    }

    fn get_range(&self, name: &str, offset: u64, len: usize) -> Result<Bytes> {
        self.fails(name, offset..offset + len as u64)?;
        self.inner.get_range(name, offset, len)
    }
}
