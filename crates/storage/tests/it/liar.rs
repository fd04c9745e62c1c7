//! Storages that break the contract.

use bytes::Bytes;
use cutpoint_storage::{Kind, Layer, Memory, Put, Result, Storage};

/// A way in which a storage may be broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lie {
    /// The second put replaces the first.
    Overwrites,
    /// The second put changes nothing, but is told that it created the object.
    SaysCreated,
    /// The first put is told that another object was there.
    SaysExists,
    /// The first put is told that another object was there, once: the answer to the creating put
    /// was lost, and the second attempt found the object.
    SaysExistsOnce,
    /// The first put is told that it created the object, and the last one's bytes stay.
    LastWins,
    /// A range that ends too late comes back short.
    ShortRange,
    /// The last name is missing from listings.
    ForgetsOne,
}

#[derive(Debug)]
pub(crate) struct Liar {
    pub(crate) inner: Memory,
    pub(crate) lie: Lie,
}

impl Layer for Liar {
    fn below(&self) -> &dyn Storage {
        &self.inner
    }

    fn put_new(&self, name: &str, bytes: Bytes) -> Result<Put> {
        let put = self.inner.put_new(name, bytes.clone())?;
        match self.lie {
            Lie::Overwrites | Lie::LastWins => {
                while self.inner.put_new(name, bytes.clone())? == Put::Exists {
                    self.inner.delete(name)?;
                }
                Ok(if self.lie == Lie::Overwrites { Put::Created } else { put })
            }
            Lie::SaysCreated => Ok(Put::Created),
            Lie::SaysExists => Ok(Put::Exists),
            // The first puts of the probe, before its rounds, are shorter.
            Lie::SaysExistsOnce if put == Put::Created && bytes.len() > 5 => {
                let is_first = self.inner.put_new("told", Bytes::new())? == Put::Created;
                Ok(if is_first { Put::Exists } else { put })
            }
            Lie::SaysExistsOnce => Ok(put),
            Lie::ShortRange | Lie::ForgetsOne => Ok(put),
        }
    }

    fn get_range(&self, name: &str, offset: u64, len: usize) -> Result<Bytes> {
        let range = self.inner.get_range(name, offset, len);
        match range {
            Err(error) if self.lie == Lie::ShortRange && error.kind() == Kind::Corrupt => {
                let all = self.inner.get(name)?;
                let start = usize::try_from(offset).unwrap_or(usize::MAX).min(all.len());
                Ok(all.slice(start..))
            }
            other => other,
        }
    }

    fn list(&self, prefix: &str) -> Result<Vec<(String, u64)>> {
        let mut found = self.inner.list(prefix)?;
        if self.lie == Lie::ForgetsOne {
            found.pop();
        }
        Ok(found)
    }
}
