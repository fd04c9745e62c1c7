//! Runs both parts of regrouping, and checks each container before it is condemned.

use std::collections::HashSet;

use cutpoint_storage::{Error, Result};

use super::mover::{Mover, Reencodings};
use super::newest::move_newest;
use super::rest::move_rest;
use crate::format::fingerprint::{Class, Fingerprint};
use crate::format::names::PartName;
use crate::gc::locate::LiveChunks;
use crate::gc::monitor::PruneMonitor;
use crate::gc::prune::rewrite::rewrite;
use crate::gc::prune::selection::Selection;
use crate::gc::prune::source::{Failure, object};
use crate::gc::prune::survey::Survey;
#[cfg(feature = "mutants")]
use crate::rules::{self, Mutant};
use crate::write::Inline;

/// The result of regrouping.
pub(in crate::gc::prune) struct Regrouping {
    /// Chunks of containers that stay because the chunks could not be stored again.
    pub(in crate::gc::prune) broken: HashSet<Fingerprint>,
    pub(in crate::gc::prune) reencodings: Reencodings,
}

/// Stores again what stays of the rewritten containers. A container is added to `condemned` once
/// all of it was stored again.
///
/// # Errors
///
/// Returns any error of the storage, `Interrupted` if the monitor cancels, and `Conflict` if the
/// survey no longer holds. A source that cannot be read is not an error: its container stays.
pub(in crate::gc::prune) fn regroup(
    inline: &mut Inline,
    survey: &Survey,
    selection: &Selection,
    monitor: &dyn PruneMonitor,
    condemned: &mut Vec<(Class, PartName)>,
) -> Result<Regrouping> {
    let repository = inline.writer().repository().clone();
    let mut mover = Mover::new(inline, &repository, survey, selection, monitor);
    move_newest(&mut mover, survey)?;
    mover.inline.flush()?;
    move_rest(&mut mover, survey, selection)?;
    mover.inline.publish()?;
    let broken = complete(&mut mover, survey, selection, condemned)?;
    Ok(Regrouping { broken, reencodings: mover.reencodings })
}

/// Condemns each container of which everything that stays is stored and published. The other
/// containers stay.
fn complete(
    mover: &mut Mover<'_>,
    survey: &Survey,
    selection: &Selection,
    condemned: &mut Vec<(Class, PartName)>,
) -> Result<HashSet<Fingerprint>> {
    let mut broken = HashSet::new();
    let mut live = survey.placement.live()?;
    for number in &selection.rewritten {
        mover.beat()?;
        let container = &survey.placement.containers[*number as usize];
        let mut missing = live.of(*number)?;
        retain_missing(mover, container.record.class, &mut missing)?;
        if !missing.is_empty() {
            match rewrite(mover.inline, survey, container, &missing) {
                Ok(()) => {}
                Err(Failure::Source(unreadable)) => {
                    let repository = mover.inline.writer().repository().clone();
                    survey.skip(&repository, unreadable, mover.monitor)?;
                    broken.extend(missing.into_keys());
                    continue;
                }
                #[cfg(feature = "mutants")]
                Err(Failure::Other(_)) if rules::is_active(Mutant::ToleratesFailedPuts) => {
                    broken.extend(missing.into_keys());
                    continue;
                }
                Err(Failure::Other(error)) => return Err(error),
            }
            mover.inline.publish()?;
            retain_missing(mover, container.record.class, &mut missing)?;
            if let Some(chunk) = missing.keys().next() {
                let message = format!("chunk {chunk} could not be stored again");
                mover.monitor.skipped(&Error::corrupt(object(container.name()), message));
                broken.extend(missing.into_keys());
                continue;
            }
        }
        condemned.push(container.name());
    }
    live.end()?;
    Ok(broken)
}

/// Removes the chunks that are stored from `chunks`.
fn retain_missing(mover: &Mover<'_>, class: Class, chunks: &mut LiveChunks) -> Result<()> {
    let mut missing = LiveChunks::new();
    for (fingerprint, live) in chunks.drain() {
        if !mover.inline.has(class, &fingerprint, live.is_full)? {
            missing.insert(fingerprint, live);
        }
    }
    *chunks = missing;
    Ok(())
}
