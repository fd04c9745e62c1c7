//! The time zone of the output, and of the boundaries of days.

use std::sync::atomic::{AtomicBool, Ordering};

use chrono::{DateTime, Local, Offset, TimeZone, Utc};

/// Set if all times are shown in UTC. Written once, at the start of the process.
static IS_UTC: AtomicBool = AtomicBool::new(false);

/// Makes UTC the time zone of this process.
pub(crate) fn use_utc() {
    IS_UTC.store(true, Ordering::Relaxed);
}

/// Returns `true` if UTC is the time zone of this process.
pub(crate) fn is_utc() -> bool {
    IS_UTC.load(Ordering::Relaxed)
}

/// Returns the number of seconds that the time zone is ahead of UTC at a time given in seconds since
/// 1970. Returns 0 for times that no calendar has.
pub(crate) fn offset_s(seconds: i64) -> i64 {
    if is_utc() {
        return 0;
    }
    let offset = |time: DateTime<Utc>| {
        Local.offset_from_utc_datetime(&time.naive_utc()).fix().local_minus_utc()
    };
    DateTime::from_timestamp(seconds, 0).map_or(0, |time| i64::from(offset(time)))
}
