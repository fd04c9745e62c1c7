//! The notices of waits in the libraries, as notes or events: at the beginning of a wait, and then
//! once a minute.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use cutpoint_storage::{WaitNotice, WaitReason};

use crate::event::{Event, WaitingFor};
use crate::report::Report;
use crate::units;

/// The minimum time between two messages about waits of one kind.
const INTERVAL: Duration = Duration::from_secs(60);

/// The times of the last messages.
static TOLD: Mutex<Option<HashMap<WaitReason, Instant>>> = Mutex::new(None);

/// Tells the user of a wait, unless that was done within the last minute.
pub(crate) fn tell(notice: &WaitNotice, report: &Report) {
    let now = Instant::now();
    {
        let mut told = TOLD.lock().unwrap_or_else(PoisonError::into_inner);
        let told = told.get_or_insert_default();
        if told.get(&notice.reason).is_some_and(|last| now.duration_since(*last) < INTERVAL) {
            return;
        }
        told.insert(notice.reason, now);
    }
    let until = units::date_time(notice.until_ns.div_euclid(1_000_000_000));
    let message = format!("Waiting until {until} at the latest: {}", notice.text);
    if report.is_json() {
        report.tell(&Event::Waiting(WaitingFor {
            reason: name(notice.reason),
            prune_number: None,
            until: Some(units::rfc3339_ns(notice.until_ns)),
            writers: Vec::new(),
            message,
        }));
    } else {
        report.note(&format!("{message}."));
    }
}

fn name(reason: WaitReason) -> &'static str {
    match reason {
        WaitReason::LaggingListings => "lagging_listings",
        WaitReason::UnlistedObject => "unlisted_object",
        WaitReason::Retry => "retry",
    }
}
