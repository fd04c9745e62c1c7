//! The put stage: puts containers and index segments, and renews the ticket.

use std::time::Duration;

use cutpoint_repository::write::PutWindow;
use cutpoint_repository::{Index, Writer};
use cutpoint_storage::{stop, wait};

use super::channels::PutEnds;
use super::run_state::RunState;
use super::shutdown::{Result, WaitResult};

/// The interval at which the age of the ticket is checked if there is nothing to put. A check asks the
/// clock only.
const RENEW_TICK: Duration = Duration::from_secs(2);

/// The interval at which puts in progress are looked after.
const PUT_TICK: Duration = Duration::from_millis(100);

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
    let repository = writer.repository().clone();
    // After a request to stop, the remaining data is still stored.
    let _storing = wait::finishing(&**repository.environment(), stop::STORING_MAX);
    // A complete container is in memory until it was put.
    let at_once = if repository.memory().is_limited() { 1 } else { PUTS_AT_ONCE };
    std::thread::scope(|scope| {
        let window = &mut PutWindow::new(scope, repository.clone(), at_once);
        let done = put_all(writer, index, &ends, state, window);
        // The writer may be abandoned, and publishes what was put.
        let finished = writer.finish_puts(window);
        state.add_stored(window.take_stored_len());
        finished?;
        done
    })
}

/// Puts objects, as they come, within `window`.
fn put_all(
    writer: &mut Writer,
    index: &Index,
    ends: &PutEnds,
    state: &RunState,
    window: &mut PutWindow<'_, '_>,
) -> Result<()> {
    let shutdown = &state.shutdown;
    loop {
        let tick = if window.is_empty() { RENEW_TICK } else { PUT_TICK };
        match shutdown.receive_within(&ends.uploads, tick)? {
            WaitResult::Message(uploads) => {
                for upload in uploads {
                    if let Some(published) = writer.put_within(window, upload)? {
                        index.add(published.name, &published.segment)?;
                        shutdown.offer(&ends.published, published.regions)?;
                    }
                }
            }
            WaitResult::Nothing => {}
            WaitResult::Ended => return Ok(()),
        }
        writer.note_puts(window)?;
        state.add_stored(window.take_stored_len());
        writer.renew()?;
        if writer.is_old() {
            state.set_old();
        }
    }
}
