//! The put stage: puts containers and index segments, and renews the ticket.

use std::time::Duration;

use cutpoint_repository::write::Upload;
use cutpoint_repository::{Index, Writer};
use cutpoint_storage::{stop, wait};

use super::channels::PutEnds;
use super::run_state::RunState;
use super::shutdown::{Result, WaitResult};

/// The interval at which the age of the ticket is checked if there is nothing to put. A check asks the
/// clock only.
const RENEW_TICK: Duration = Duration::from_secs(2);

/// The number of containers that are put at the same time, if the storage has a long way.
const PUTS_AT_ONCE: usize = 3;

/// Puts objects until the container stage has ended. The chunks of a published index segment are
/// added to `index`.
pub(super) fn run(
    writer: &mut Writer,
    index: &Index,
    ends: PutEnds,
    state: &RunState,
) -> Result<()> {
    let shutdown = &state.shutdown;
    let repository = writer.repository().clone();
    // After a request to stop, the remaining data is still stored.
    let _storing = wait::finishing(&**repository.environment(), stop::STORING_MAX);
    // A complete container is in memory until it was put.
    let at_once = if repository.memory().is_limited() { 1 } else { PUTS_AT_ONCE };
    let mut next = None;
    loop {
        let received = match next.take() {
            Some(uploads) => WaitResult::Message(uploads),
            None => shutdown.receive_within(&ends.uploads, RENEW_TICK)?,
        };
        match received {
            WaitResult::Message(mut uploads) => {
                while uploads.len() < at_once
                    && let Ok(more) = ends.uploads.try_recv()
                {
                    // A segment names containers that were put before.
                    if more.iter().any(Upload::is_segment) {
                        next = Some(more);
                        break;
                    }
                    uploads.extend(more);
                }
                let len = uploads.iter().map(Upload::len).sum();
                let published = writer.put_all(uploads)?;
                state.add_stored(len);
                for published in published {
                    index.add(published.name, &published.segment)?;
                    shutdown.offer(&ends.published, published.regions)?;
                }
            }
            WaitResult::Nothing => {}
            WaitResult::Ended => return Ok(()),
        }
        writer.renew()?;
        if writer.is_old() {
            state.set_old();
        }
    }
}
