//! Media: where objects lie.
//!
//! Nine calls are all that the store asks for. There is no overwriting, no renaming, no appending
//! and no locking among them, so that a folder, an object storage and memory are equally good.
//! `docs/media.md` says what each must do, and which do.
//!
//! What is assumed (`docs/ordering.md`, "What is assumed of the media"): a put that was answered is
//! seen by every later get and list; of several puts of one name one is answered with `Created`
//! (media that cannot promise it can still be written to, but not be pruned); a listing contains
//! what existed throughout.

mod faulty;
mod object;
mod probe;
mod s3;

use std::fmt::Debug;

use bytes::Bytes;

pub use faulty::{Fault, Faulty};
pub use object::{Local, Memory};
pub use probe::{Probed, probe, scratch_name};
pub use s3::{Refusal, S3, S3Settings};

use crate::error::Result;

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
    /// `Full` or `Media`; the object may then exist all the same, whole.
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

    /// Returns a whole object.
    ///
    /// # Errors
    ///
    /// `Missing` where there is none; `Media`.
    fn get(&self, name: &str) -> Result<Bytes>;

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

    /// Returns name and length of every object whose name begins with `prefix` and `/`, sorted by
    /// name.
    fn list(&self, prefix: &str) -> Result<Vec<(String, u64)>>;

    /// Removes an object; there need not be one.
    fn delete(&self, name: &str) -> Result<()>;

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
