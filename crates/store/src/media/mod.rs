//! Media: where objects lie.
//!
//! Ten calls are all that the store asks for. There is no overwriting, no renaming, no appending
//! and no locking among them, so that a folder, an object storage and memory are equally good. An
//! eleventh, which replaces, serves the repair of damaged objects alone.
//! `docs/storage.md` says what each must do, and which do.
//!
//! What is assumed (`docs/protocol.md`, "Assumptions about the storage"): a put that was answered is
//! seen by every later get and list; of several puts of one name one is answered with `Created`
//! (media that cannot promise it can still be written to, but not be pruned); a listing contains
//! what existed throughout.

mod faulty;
mod layer;
mod object;
mod probe;
mod s3;

use std::fmt::Debug;

use bytes::Bytes;

pub use faulty::{Fault, Faulty};
pub use layer::Layer;
pub use object::{Local, Memory};
pub use probe::{Probed, probe, scratch_name};
pub use s3::{Refusal, S3, S3Limits, S3Settings};

use crate::error::{Error, Kind, Result};
use crate::name::ObjectKind;

/// The maximum length of what lies in no folder of objects, in bytes.
const OTHER_LEN_MAX: u64 = 64 * 1024 * 1024;
/// The maximum number of names in a listing of what lies in no folder of objects.
const OTHER_COUNT_MAX: usize = 100_000;

/// The maximum length of the object `name` in bytes: that of its kind.
pub fn len_max(name: &str) -> u64 {
    ObjectKind::of_path(name).map_or(OTHER_LEN_MAX, ObjectKind::len_max)
}

/// The maximum number of names in a listing of `prefix`.
pub fn count_max(prefix: &str) -> usize {
    ObjectKind::of_path(prefix).map_or(OTHER_COUNT_MAX, ObjectKind::count_max)
}

pub(crate) fn too_long(name: &str, len: u64, len_max: u64) -> Error {
    Error::corrupt(name, format!("is too long: {len} bytes, at most {len_max} are expected"))
}

/// What became of a put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// The object is there now, and was not before.
    Created,
    /// There was an object of this name before; it is as it was.
    Exists,
}

/// An object that is on its way to a medium, piece by piece. What is dropped unfinished was never
/// there, but for a leftover that [`Media::clean`] removes.
pub trait Staged: Debug + Send {
    /// Appends `bytes`.
    ///
    /// # Errors
    ///
    /// `Full` or `Media`.
    fn write(&mut self, bytes: &[u8]) -> Result<()>;

    /// Ends the object: the same promises as [`Media::put_new`] makes.
    ///
    /// # Errors
    ///
    /// As [`Media::put_new`].
    fn finish(self: Box<Self>) -> Result<Put>;
}

/// Where objects lie. Names are paths with `/`, as [`crate::name::ObjectName`] prints them.
pub trait Media: Debug + Send + Sync {
    /// Puts an object that must not exist yet. When this returns, it has reached the disk.
    ///
    /// # Errors
    ///
    /// `Full` or `Media`, never `Missing` or `Corrupt`: those are said of what is read. The object may
    /// then exist all the same, whole.
    fn put_new(&self, name: &str, bytes: Bytes) -> Result<Put>;

    /// Begins an object that must not exist yet, and takes its bytes as they come, so that a large
    /// one need not be gathered in memory. `None` where the medium takes whole objects only.
    ///
    /// # Errors
    ///
    /// `Full` or `Media`.
    fn stage(&self, name: &str) -> Result<Option<Box<dyn Staged>>> {
        let _ = name;
        Ok(None)
    }

    /// Makes sure that an object that is seen has reached the disk: asked where a put failed, and
    /// the object is there all the same.
    ///
    /// # Errors
    ///
    /// `Missing` where there is none; `Media`.
    fn sync(&self, name: &str) -> Result<()>;

    /// Returns a whole object, of at most the maximum length of its kind ([`len_max`]).
    ///
    /// # Errors
    ///
    /// As [`Media::get_at_most`].
    fn get(&self, name: &str) -> Result<Bytes> {
        self.get_at_most(name, len_max(name))
    }

    /// Returns a whole object of at most `len_max` bytes. Of a longer one no more than that is read,
    /// and nothing is allocated because of the length that it claims.
    ///
    /// # Errors
    ///
    /// `Missing` where there is none; `Corrupt` where it is longer; `Media`.
    fn get_at_most(&self, name: &str, len_max: u64) -> Result<Bytes>;

    /// Returns `len` bytes of an object, from `offset` on.
    ///
    /// # Errors
    ///
    /// `Missing` where there is no such object; `Corrupt` where it is shorter; `Media`.
    fn get_range(&self, name: &str, offset: u64, len: usize) -> Result<Bytes>;

    /// How many ranges are worth being asked for at once, ahead of their need. None where an answer
    /// comes as fast as a copy is made.
    fn requests_ahead_max(&self) -> usize {
        0
    }

    /// Returns the length of an object in bytes, or `None` where there is none.
    fn head(&self, name: &str) -> Result<Option<u64>>;

    /// Returns the time at which an object was put, in nanoseconds since 1970, by the storage's own
    /// clock, which need not be right; stamps of two objects tell the time between them, to 2 s. `None`
    /// where there is no such object, or the medium has no stamps.
    ///
    /// # Errors
    ///
    /// `Media`.
    fn stamp_ns(&self, name: &str) -> Result<Option<i64>> {
        let _ = name;
        Ok(None)
    }

    /// Returns name and length of every object whose name begins with `prefix` and `/`, sorted by
    /// name.
    fn list(&self, prefix: &str) -> Result<Vec<(String, u64)>>;

    /// Removes an object; there need not be one.
    fn delete(&self, name: &str) -> Result<()>;

    /// Gives an object other bytes in one step: a read meanwhile returns the old ones or the new ones.
    /// When this returns, they have reached the disk. There may be no such object.
    ///
    /// For a repair alone, which puts the bytes that the object was put with, where damage has
    /// changed them: no object ever gets another content.
    ///
    /// # Errors
    ///
    /// `Full` or `Media`; `Unsupported` where the medium cannot do it.
    fn replace(&self, name: &str, bytes: Bytes) -> Result<()> {
        let _ = bytes;
        Err(Error::new(Kind::Unsupported, name, "this storage cannot replace an object"))
    }

    /// Makes the folders of a new repository, where the media has folders.
    fn prepare(&self) -> Result<()> {
        Ok(())
    }

    /// Removes what unfinished puts left behind, if `is_stale` says so of the name that was to be
    /// put and of the age in seconds. Returns how many.
    fn clean(&self, is_stale: &dyn Fn(&str, u64) -> bool) -> Result<usize> {
        let _ = is_stale;
        Ok(0)
    }

    /// A short text for messages: a path or an address.
    fn describe(&self) -> String;
}
