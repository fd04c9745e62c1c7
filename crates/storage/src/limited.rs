//! A storage that keeps limits of rates, on top of one that does not keep them itself.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};

use crate::error::Result;
use crate::storage::{
    Deletion, Lock, ObjectRange, Put, Staged, Stamped, Storage, Visibility, Weakness,
};
use crate::throttle::{Direction, Throttle};

/// The maximum allocation before bytes are read, in bytes.
const CAPACITY_MAX: u64 = 16 * 1024 * 1024;

/// A storage whose transfers keep the limits of a [`Throttle`]. Objects move in pieces: those that
/// are read as ranges, and those that are put as staged objects, or all at once after the whole wait
/// if the storage below only takes whole objects. The storages behind a connection keep the limits
/// within their requests, and need no such layer.
#[derive(Debug)]
pub struct Limited {
    below: Arc<dyn Storage>,
    throttle: Throttle,
}

impl Limited {
    /// Wraps `below`, unless there is no limit.
    pub fn wrap(below: Arc<dyn Storage>, throttle: &Throttle) -> Arc<dyn Storage> {
        match throttle.is_limited() {
            true => Arc::new(Limited { below, throttle: throttle.clone() }),
            false => below,
        }
    }

    /// Waits until all of `bytes` may be sent.
    fn wait_for_all(&self, name: &str, bytes: &Bytes) -> Result<()> {
        let piece_len = self.throttle.piece_len(Direction::Upload).unwrap_or(usize::MAX);
        let mut pieces = bytes.chunks(piece_len);
        pieces.try_for_each(|piece| self.throttle.wait(Direction::Upload, piece.len(), name))
    }

    /// Reads `len` bytes piece by piece. `None` if they are no more than one piece, or if there is
    /// no limit.
    fn read_pieces(&self, name: &str, offset: u64, len: u64) -> Option<Result<Bytes>> {
        let piece_len = self.throttle.piece_len(Direction::Download)? as u64;
        let end = offset.checked_add(len)?;
        if len <= piece_len {
            return None;
        }
        let capacity = usize::try_from(len.min(CAPACITY_MAX)).unwrap_or(0);
        let mut bytes = BytesMut::with_capacity(capacity);
        let mut at = offset;
        while at < end {
            let len = usize::try_from(piece_len.min(end - at)).unwrap_or(usize::MAX);
            match self.below.get_range(name, at, len) {
                Ok(piece) => bytes.extend_from_slice(&piece),
                Err(error) => return Some(Err(error)),
            }
            if let Err(error) = self.throttle.wait(Direction::Download, len, name) {
                return Some(Err(error));
            }
            at += len as u64;
        }
        Some(Ok(bytes.freeze()))
    }

    fn received(&self, name: &str, bytes: Bytes) -> Result<Bytes> {
        self.throttle.wait(Direction::Download, bytes.len(), name)?;
        Ok(bytes)
    }
}

// A method that is added to the trait with a default has to be forwarded here, too.
#[deny(clippy::missing_trait_methods)]
impl Storage for Limited {
    fn put_new(&self, name: &str, bytes: Bytes) -> Result<Put> {
        let Some(piece_len) = self.throttle.piece_len(Direction::Upload) else {
            return self.below.put_new(name, bytes);
        };
        if bytes.len() > piece_len
            && let Some(mut staged) = self.stage(name)?
        {
            staged.write(&bytes)?;
            return staged.finish();
        }
        self.wait_for_all(name, &bytes)?;
        self.below.put_new(name, bytes)
    }

    fn stage(&self, name: &str) -> Result<Option<Box<dyn Staged>>> {
        let (name, throttle) = (name.to_owned(), self.throttle.clone());
        let staged = self.below.stage(&name)?;
        Ok(staged.map(|below| Box::new(LimitedStaged { below, name, throttle }) as Box<dyn Staged>))
    }

    fn sync(&self, name: &str) -> Result<()> {
        self.below.sync(name)
    }

    fn get(&self, name: &str) -> Result<Bytes> {
        self.get_at_most(name, crate::storage::len_max(name))
    }

    fn get_at_most(&self, name: &str, len_max: u64) -> Result<Bytes> {
        if self.throttle.piece_len(Direction::Download).is_some() {
            // An object that is missing or too long gets its error from the storage.
            let len = self.below.head(name)?.filter(|len| *len <= len_max);
            if let Some(read) = len.and_then(|len| self.read_pieces(name, 0, len)) {
                return read;
            }
        }
        self.received(name, self.below.get_at_most(name, len_max)?)
    }

    fn get_many(&self, wanted: &[(String, u64)]) -> Vec<Result<Bytes>> {
        wanted.iter().map(|(name, len_max)| self.get_at_most(name, *len_max)).collect()
    }

    fn get_range(&self, name: &str, offset: u64, len: usize) -> Result<Bytes> {
        match self.read_pieces(name, offset, len as u64) {
            // Only a whole range determines the error.
            Some(Err(error)) if error.is_loss() => self.below.get_range(name, offset, len),
            Some(read) => read,
            None => self.received(name, self.below.get_range(name, offset, len)?),
        }
    }

    fn get_ranges(&self, wanted: &[ObjectRange]) -> Vec<Result<Bytes>> {
        wanted.iter().map(|range| self.get_range(&range.name, range.offset, range.len)).collect()
    }

    fn requests_ahead_max(&self) -> usize {
        self.below.requests_ahead_max()
    }

    fn head(&self, name: &str) -> Result<Option<u64>> {
        self.below.head(name)
    }

    fn all_exist(&self, names: &[String]) -> Result<bool> {
        self.below.all_exist(names)
    }

    fn stamp_ns(&self, name: &str) -> Result<Option<i64>> {
        self.below.stamp_ns(name)
    }

    fn list(&self, prefix: &str) -> Result<Vec<(String, u64)>> {
        self.below.list(prefix)
    }

    fn for_each(&self, prefix: &str, visit: &mut dyn FnMut(&str, u64)) -> Result<()> {
        self.below.for_each(prefix, visit)
    }

    fn list_stamped(&self, prefix: &str) -> Result<Vec<Stamped>> {
        self.below.list_stamped(prefix)
    }

    fn delete(&self, name: &str) -> Result<()> {
        self.below.delete(name)
    }

    fn delete_many(&self, names: &[String]) -> Vec<Result<()>> {
        self.below.delete_many(names)
    }

    fn deletion(&self) -> Result<Deletion> {
        self.below.deletion()
    }

    fn locks(&self, names: &[String]) -> Result<Vec<Option<Lock>>> {
        self.below.locks(names)
    }

    fn weaknesses(&self) -> Result<Vec<Weakness>> {
        self.below.weaknesses()
    }

    fn visibility(&self) -> Result<Visibility> {
        self.below.visibility()
    }

    fn replace(&self, name: &str, bytes: Bytes) -> Result<()> {
        self.wait_for_all(name, &bytes)?;
        self.below.replace(name, bytes)
    }

    fn prepare(&self) -> Result<()> {
        self.below.prepare()
    }

    fn clean(&self, is_stale: &dyn Fn(&str, u64) -> bool) -> Result<usize> {
        self.below.clean(is_stale)
    }

    fn had_outage(&self) -> bool {
        self.below.had_outage()
    }

    fn describe(&self) -> String {
        self.below.describe()
    }
}

/// An object that is written no faster than the limit.
#[derive(Debug)]
struct LimitedStaged {
    below: Box<dyn Staged>,
    name: String,
    throttle: Throttle,
}

impl Staged for LimitedStaged {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let piece_len = self.throttle.piece_len(Direction::Upload).unwrap_or(usize::MAX);
        bytes.chunks(piece_len).try_for_each(|piece| {
            self.throttle.wait(Direction::Upload, piece.len(), &self.name)?;
            self.below.write(piece)
        })
    }

    fn finish(self: Box<Self>) -> Result<Put> {
        self.below.finish()
    }
}
