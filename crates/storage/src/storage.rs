//! The operations of a storage.

use std::fmt::Debug;

use bytes::Bytes;

use crate::error::{Error, Kind, Result};
use crate::kind::ObjectKind;

/// The maximum length of an object outside of the folders of objects, in bytes.
const OTHER_LEN_MAX: u64 = 64 * 1024 * 1024;
/// The maximum number of names in a listing outside of the folders of objects.
const OTHER_COUNT_MAX: usize = 100_000;

/// Returns the maximum length of the object `name` in bytes, which depends on its kind.
pub fn len_max(name: &str) -> u64 {
    ObjectKind::of_path(name).map_or(OTHER_LEN_MAX, ObjectKind::len_max)
}

/// Returns the maximum number of names in a listing of `prefix`.
pub fn count_max(prefix: &str) -> usize {
    ObjectKind::of_path(prefix).map_or(OTHER_COUNT_MAX, ObjectKind::count_max)
}

/// Returns the error of an object that is longer than `len_max` bytes.
pub fn too_long(name: &str, len: u64, len_max: u64) -> Error {
    Error::corrupt(name, format!("too long ({len} bytes, expected at most {len_max})"))
}

/// The result of a put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// The object exists now, and did not exist before.
    Created,
    /// An object of this name existed before, and is unchanged.
    Exists,
}

/// A range of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectRange {
    /// The name of the object.
    pub name: String,
    /// The offset of the first byte.
    pub offset: u64,
    /// The number of bytes.
    pub len: usize,
}

/// An object in a listing with stamps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stamped {
    /// The name of the object.
    pub name: String,
    /// The stamp of the object; `None` if the listing does not show it, so that
    /// [`Storage::stamp_ns`] has to be asked.
    pub stamp_ns: Option<i64>,
}

/// The effect of a deletion in a storage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deletion {
    /// Set if a deleted object is only hidden: the storage keeps its bytes as an older version.
    pub hides: bool,
    /// Set if the storage may keep objects from being deleted, so that [`Storage::locks`] makes
    /// requests.
    pub may_be_locked: bool,
}

/// The time for which a storage keeps an object from being deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lock {
    /// Until this time, in nanoseconds since 1970.
    Until(i64),
    /// Until the lock is removed, such as a legal hold of S3.
    Held,
}

/// A promise that a storage knows it does not keep, with the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weakness {
    /// An object may be created by several clients at once, each of which is told that it was the
    /// one. A test need not find that.
    CreatesInSteps(&'static str),
    /// The newest objects may be lost if the machine of the storage fails.
    MayLoseNewest(&'static str),
}

/// The promise of a storage about its listings. It concerns objects that any client has put, through
/// this storage or by another way to the same objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visibility {
    /// A listing shows every object whose put was completed before the listing began.
    AtOnce,
    /// The same as [`Visibility::AtOnce`], unless a [`probe`](crate::probe()) finds the contrary. The
    /// text is the kind of the storage: a probe of another kind to the same objects proves nothing.
    IfProbed(&'static str),
    /// A listing may show an object some time after its put was completed, because a client or a
    /// server keeps older listings, or because nothing is known about the storage.
    Later,
}

/// An object that is being written to a storage in pieces. An object that is dropped before it is
/// finished never exists, but may leave a remnant that [`Storage::clean`] removes.
pub trait Staged: Debug + Send {
    /// Appends `bytes`.
    ///
    /// # Errors
    ///
    /// Returns a `Full` or `Storage` error if the storage cannot store the bytes.
    fn write(&mut self, bytes: &[u8]) -> Result<()>;

    /// Completes the object, with the same guarantees as [`Storage::put_new`].
    ///
    /// # Errors
    ///
    /// Returns any error of [`Storage::put_new`].
    fn finish(self: Box<Self>) -> Result<Put>;
}

/// A storage of objects. Names are paths with `/`, as `ObjectName` of the repository prints them.
pub trait Storage: Debug + Send + Sync {
    /// Puts an object that must not exist yet. When this returns, the object has reached the disk.
    ///
    /// # Errors
    ///
    /// Returns a `Full` or `Storage` error, never `Missing` or `Corrupt`, which describe objects that
    /// are read. After an error the object may exist all the same, completely.
    fn put_new(&self, name: &str, bytes: Bytes) -> Result<Put>;

    /// Begins an object that must not exist yet and is written in pieces, so that a large object
    /// need not be gathered in memory. Returns `None` if the storage only takes whole objects.
    ///
    /// # Errors
    ///
    /// Returns a `Full` or `Storage` error if the storage cannot begin the object.
    fn stage(&self, name: &str) -> Result<Option<Box<dyn Staged>>> {
        let _ = name;
        Ok(None)
    }

    /// Ensures that a visible object has reached the disk. Called if a put failed, and the object
    /// exists all the same.
    ///
    /// # Errors
    ///
    /// Returns a `Missing` error if there is no such object, or a `Storage` error.
    fn sync(&self, name: &str) -> Result<()>;

    /// Returns a whole object, of at most the maximum length of its kind ([`len_max`]).
    ///
    /// # Errors
    ///
    /// Returns any error of [`Storage::get_at_most`].
    fn get(&self, name: &str) -> Result<Bytes> {
        self.get_at_most(name, len_max(name))
    }

    /// Returns a whole object of at most `len_max` bytes. No more than that is read of a longer
    /// object, and the length that an object claims never determines an allocation.
    ///
    /// # Errors
    ///
    /// Returns a `Missing` error if there is no such object, `Corrupt` if it is longer, or `Storage`.
    fn get_at_most(&self, name: &str, len_max: u64) -> Result<Bytes>;

    /// Returns several whole objects, each given by its name and the maximum length in bytes, in the
    /// same order. A storage with a long way makes several requests at a time. The caller limits
    /// the number of objects, because all of them are held in memory at once.
    ///
    /// # Errors
    ///
    /// Each result is that of [`Storage::get_at_most`].
    fn get_many(&self, wanted: &[(String, u64)]) -> Vec<Result<Bytes>> {
        wanted.iter().map(|(name, len_max)| self.get_at_most(name, *len_max)).collect()
    }

    /// Returns `len` bytes of an object, beginning at `offset`.
    ///
    /// # Errors
    ///
    /// Returns a `Missing` error if there is no such object, `Corrupt` if it is shorter, or
    /// `Storage`.
    fn get_range(&self, name: &str, offset: u64, len: usize) -> Result<Bytes>;

    /// Returns several ranges, in the same order. A storage with a long way makes several requests
    /// at a time. The caller limits the ranges, because all of them are held in memory at once.
    ///
    /// # Errors
    ///
    /// Each result is that of [`Storage::get_range`].
    fn get_ranges(&self, wanted: &[ObjectRange]) -> Vec<Result<Bytes>> {
        wanted.iter().map(|range| self.get_range(&range.name, range.offset, range.len)).collect()
    }

    /// Returns the number of ranges that are worth requesting at once, before they are needed; 0 if
    /// the storage answers as fast as a copy is made.
    fn requests_ahead_max(&self) -> usize {
        0
    }

    /// Returns the length of an object in bytes, or `None` if there is no such object.
    fn head(&self, name: &str) -> Result<Option<u64>>;

    /// Returns `true` if all objects of these names exist. A storage with a long way makes several
    /// requests at a time, and lists if that needs fewer of them.
    ///
    /// # Errors
    ///
    /// Returns any error of [`Storage::head`] and [`Storage::list`].
    fn all_exist(&self, names: &[String]) -> Result<bool> {
        for name in names {
            if self.head(name)?.is_none() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns the time at which an object was put, in nanoseconds since 1970, by the storage's own
    /// clock, which need not be right. The difference of two stamps is exact to 2 s. `None` if
    /// there is no such object, or the storage has no stamps.
    ///
    /// # Errors
    ///
    /// Returns a `Storage` error if the storage fails.
    fn stamp_ns(&self, name: &str) -> Result<Option<i64>> {
        let _ = name;
        Ok(None)
    }

    /// Returns name and length of every object whose name begins with `prefix` and `/`, sorted by
    /// name.
    fn list(&self, prefix: &str) -> Result<Vec<(String, u64)>>;

    /// Passes name and length of each object of [`Storage::list`] to `visit`, in any order. A caller
    /// that keeps a part of them needs no memory for the others.
    ///
    /// # Errors
    ///
    /// Returns any error of [`Storage::list`]. Some objects may have been passed before.
    fn for_each(&self, prefix: &str, visit: &mut dyn FnMut(&str, u64)) -> Result<()> {
        self.list(prefix)?.iter().for_each(|(name, len)| visit(name, *len));
        Ok(())
    }

    /// Returns the objects of [`Storage::list`], with their stamps if the listing shows them.
    ///
    /// # Errors
    ///
    /// Returns any error of [`Storage::list`].
    fn list_stamped(&self, prefix: &str) -> Result<Vec<Stamped>> {
        let listed = self.list(prefix)?.into_iter();
        Ok(listed.map(|(name, _)| Stamped { name, stamp_ns: None }).collect())
    }

    /// Removes an object, if there is one.
    fn delete(&self, name: &str) -> Result<()>;

    /// Removes several objects, and continues after an error. A storage with a long way removes many
    /// objects by one request, in any order.
    ///
    /// # Errors
    ///
    /// Each result is that of [`Storage::delete`] of the name at the same position. It is an error
    /// unless the storage has answered that this object is removed, or that there is none.
    fn delete_many(&self, names: &[String]) -> Vec<Result<()>> {
        names.iter().map(|name| self.delete(name)).collect()
    }

    /// Returns the effect of a deletion here.
    ///
    /// # Errors
    ///
    /// Returns a `Storage` error if the storage does not say it, and the deletion of a locked object
    /// might succeed and hide it.
    fn deletion(&self) -> Result<Deletion> {
        Ok(Deletion::default())
    }

    /// Returns the locks of several objects, in the same order: `None` for an object that may be
    /// deleted, or that does not exist. A deletion of a locked object may succeed and hide it, so
    /// that a caller who must not hide locked objects has to ask before. A storage with a long way
    /// makes several requests at a time, and none if nothing can be locked there.
    ///
    /// # Errors
    ///
    /// Returns any error of [`Storage::deletion`], and a `Storage` error if the storage does not
    /// tell the locks.
    fn locks(&self, names: &[String]) -> Result<Vec<Option<Lock>>> {
        Ok(vec![None; names.len()])
    }

    /// Returns the promises that the storage knows it does not keep. What it does not know,
    /// [`probe`](crate::probe()) has to find.
    ///
    /// # Errors
    ///
    /// Returns a `Storage` error if the storage has to be asked, and fails.
    fn weaknesses(&self) -> Result<Vec<Weakness>> {
        Ok(Vec::new())
    }

    /// Returns the promise of the storage about its listings.
    ///
    /// # Errors
    ///
    /// Returns a `Storage` error if the storage has to be asked, and fails.
    fn visibility(&self) -> Result<Visibility> {
        Ok(Visibility::Later)
    }

    /// Replaces the bytes of an object in one step: a concurrent read returns either the old ones
    /// or the new ones. When this returns, the new bytes have reached the disk. The object need not
    /// exist.
    ///
    /// Only a repair uses this method, to restore the original bytes of an object that damage has
    /// changed. The content of an object never changes.
    ///
    /// # Errors
    ///
    /// Returns a `Full` or `Storage` error, or `Unsupported` if the storage cannot replace objects.
    fn replace(&self, name: &str, bytes: Bytes) -> Result<()> {
        let _ = bytes;
        Err(Error::new(Kind::Unsupported, name, "objects cannot be replaced on this storage"))
    }

    /// Creates the folders of a new repository, if the storage has folders.
    fn prepare(&self) -> Result<()> {
        Ok(())
    }

    /// Removes remnants of unfinished puts for which `is_stale` returns `true`, given the name of
    /// the object and the age in seconds. Returns the number of removed remnants.
    fn clean(&self, is_stale: &dyn Fn(&str, u64) -> bool) -> Result<usize> {
        let _ = is_stale;
        Ok(0)
    }

    /// Returns `true` if a request had no answer after others had one: the storage may have restarted,
    /// and have lost what it had acknowledged before, if it breaks its promise.
    fn had_outage(&self) -> bool {
        false
    }

    /// Returns a short text for messages: a path or an address.
    fn describe(&self) -> String;
}

/// Returns `true` for the name of a file that is to become an object: the name of the object, `#` and
/// digits. Listings hide such files.
pub(crate) fn is_staged(name: &str) -> bool {
    let file = name.rsplit('/').next().unwrap_or(name);
    file.split_once('#').is_some_and(|(_, number)| {
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    })
}

/// Returns the error of an object that ends before a requested range does.
pub(crate) fn too_short(name: &str, offset: u64, len: usize) -> Error {
    Error::corrupt(name, format!("too short (expected {len} bytes at offset {offset})"))
}

/// Refuses a listing of `prefix` with more objects than its kind allows.
///
/// # Errors
///
/// Returns a `Storage` error that names the maximum.
pub(crate) fn require_count(prefix: &str, count: usize) -> Result<()> {
    let count_max = count_max(prefix);
    if count <= count_max {
        return Ok(());
    }
    let message = format!("more than {count_max} objects, the maximum of this kind");
    Err(Error::new(Kind::Storage, prefix, message))
}
