//! The space that the files of a volume may take.

use std::sync::atomic::{AtomicU64, Ordering};

use super::Volume;
use crate::error::{Error, Kind, Result};

/// The number of bytes of writes between two questions for the free space of the storage.
const ASKED_EACH: u64 = 16 * 1024 * 1024;

/// The space that the files of a volume may take. Writes of clients leave a reserve, so that
/// blocks can be trimmed and segments be cleaned if nothing else is left.
#[derive(Debug)]
pub(super) struct Space {
    /// The maximum number of bytes of all files, or `None` for any.
    limit: Option<u64>,
    /// The number of free bytes of the storage that writes of clients leave.
    reserve: u64,
    /// The free bytes of the storage when they were asked for, less what was written since.
    free: AtomicU64,
    /// The number of bytes until they are asked for again.
    countdown: AtomicU64,
}

impl Space {
    pub(super) fn new(limit: Option<u64>, reserve: u64) -> Space {
        Space { limit, reserve, free: AtomicU64::new(0), countdown: AtomicU64::new(0) }
    }

    pub(super) fn limit(&self) -> Option<u64> {
        self.limit
    }

    pub(super) fn reserve(&self) -> u64 {
        self.reserve
    }

    /// Asks the storage again at the next write, because files were deleted.
    pub(super) fn ask_again(&self) {
        self.countdown.store(0, Ordering::Relaxed);
    }
}

impl Volume {
    /// Returns the error that writes may soon meet: they have taken seven eighths of the limit, or as much of the
    /// storage that little is free beside the reserve. Returns `None` if there is room.
    pub(super) fn shortage(&self) -> Option<Error> {
        let Space { limit, reserve, .. } = &self.space;
        let used = self.core.used_bytes.load(Ordering::Relaxed);
        if let Some(limit) = limit.filter(|limit| used > limit / 8 * 7) {
            let problem = format!("the files have {used} bytes, and may have {limit}");
            return Some(Error::new(Kind::Full, "volume", problem));
        }
        let free = self.core.folder.free_bytes().filter(|free| *free < used / 8 + 2 * reserve)?;
        let problem = format!("{free} bytes are free, of which writes leave {reserve}");
        Some(Error::new(Kind::Full, "storage", problem))
    }

    /// Returns `true` if writes may soon be refused.
    pub(super) fn is_short_of_space(&self) -> bool {
        self.shortage().is_some()
    }

    /// Checks that a client may write `len` bytes.
    ///
    /// # Errors
    ///
    /// Fails with [`Kind::Full`] if the limit or the reserve is reached.
    pub(super) fn check_room(&self, len: u64) -> Result<()> {
        if len == 0 {
            // What is freed needs no room, and the storage was perhaps not asked yet.
            return Ok(());
        }
        let Space { limit, reserve, free, countdown } = &self.space;
        if let Some(limit) = limit
            && self.core.used_bytes.load(Ordering::Relaxed).saturating_add(len) > *limit
        {
            let problem = format!("the files have reached the limit of {limit} bytes");
            return Err(Error::new(Kind::Full, "volume", problem));
        }
        let take = |rest: u64| Some(rest.saturating_sub(len));
        let before = countdown.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        if before.unwrap_or_default() < len {
            // A storage that does not tell has room until it refuses.
            let now = self.core.folder.free_bytes().unwrap_or(u64::MAX);
            free.store(now, Ordering::Relaxed);
            // Near the reserve, the storage is asked for each write.
            let until_reserve = now.saturating_sub(*reserve) / 2;
            countdown.store(until_reserve.min(ASKED_EACH), Ordering::Relaxed);
        }
        if free.load(Ordering::Relaxed) < reserve.saturating_add(len) {
            let problem =
                format!("less than {reserve} bytes are free, which are kept for cleaning");
            return Err(Error::new(Kind::Full, "storage", problem));
        }
        Ok(())
    }
}
