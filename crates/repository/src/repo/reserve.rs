//! The reserve: space for the small objects that publish the others, if the disk is full.

use bytes::Bytes;
use cutpoint_storage::Result;

use super::repository::Repository;

/// A file that reserves space. It is deleted when the disk is too full even for the small objects
/// that publish the others.
const RESERVE: &str = "tmp/reserve";
const RESERVE_LEN: usize = 64 * 1024;

impl Repository {
    pub(super) fn put_reserve(&self) -> Result<()> {
        self.storage.put_new(RESERVE, Bytes::from(vec![0; RESERVE_LEN])).map(drop)
    }

    /// Puts the reserve again after it was given up, if there is space.
    pub(crate) fn keep_reserve(&self) {
        if let Ok(None) = self.storage.head(RESERVE) {
            self.put_reserve().ok();
        }
    }

    /// Frees the space that is reserved for a full disk. The reserve is not an object, so that a
    /// writer may delete it. The next writer puts it again, if there is space.
    pub fn give_up_reserve(&self) {
        self.storage.delete(RESERVE).ok();
    }
}
