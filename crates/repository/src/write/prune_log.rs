//! Numbered records: `prunes/<n>`, each of which knows all records before it (rule P5).
//!
//! A prune ends by a numbered record, and so does every operation that must not race with a prune:
//! holding a snapshot, releasing it, bringing it back. The number decides which client was first.
//! The second client lists again and judges the first record before it takes the next number.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use cutpoint_storage::{Error, Kind, ObjectKind, Result};

use crate::format::commit::{Commit, Outcome};
use crate::format::fingerprint::Class;
use crate::format::names::{ObjectName, PartName, TicketId};
use crate::format::prune::Prune;
use crate::repo::repository::Repository;
use crate::repo::view::View;
use crate::rules;
use crate::write::commit::put_first;
use crate::write::writer::lost;
use crate::write::{CommitResult, Writer};

/// The outcome of publishing a record.
#[derive(Clone, Debug)]
pub enum AppendResult {
    /// The record exists under this number, and the writer has ended.
    Done(u64),
    /// The judge rejected the record because of the contained view. The writer is still open, and
    /// the objects that it has put are still its own.
    Stopped(Box<View>),
    /// The writer has ended, and nothing was recorded. Either the writer was silent for too long or
    /// a container in which it found chunks is gone (W5), or another client has ended it or a
    /// container that its segments name is gone (P5), or the storage has lost objects
    /// ([`Writer::has_lost`]). The caller should begin again; a new writer finds the chunks that were
    /// stored.
    Ended,
}

/// Publishes `record`, which was made from `view`, under the next free number on behalf of
/// `writer`. After that the writer ends with a `void` that names no segments.
///
/// If another client has taken the number meanwhile, `judge` is called with the view of a new
/// listing, the records that were faster, in order, and the record to be judged. It returns the
/// record that may take the next number, changed or not, or `None` if the record no longer holds.
/// This function sets the ticket and the time of the record. `hits` are the containers of other
/// writers that the record relies on (W5).
///
/// # Errors
///
/// Returns any error of `judge` or of the storage, and `Corrupt` if a record cannot be read. If the
/// outcome of the put is unknown, the error says so, and the record may exist. Returns `Storage` if
/// the storage has lost objects of the writer while the record was put.
pub fn append(
    writer: &mut Writer,
    view: &View,
    mut record: Prune,
    hits: &BTreeSet<(Class, PartName)>,
    mut judge: impl FnMut(&View, &[Arc<Prune>], Prune) -> Result<Option<Prune>>,
) -> Result<AppendResult> {
    let repository = writer.repository().clone();
    let mut view = Cow::Borrowed(view);
    loop {
        view.require_prunes()?;
        let number = next_number(&view)?;
        record.ticket = Some(writer.ticket());
        record.time_ns = repository.environment().now_ns();
        // Each record repeats all numbers that were given up, because the record that gave one up
        // may itself be missing later.
        let own = record.given_up.iter().copied();
        record.given_up =
            own.chain(view.recorded_as_given_up()).collect::<BTreeSet<_>>().into_iter().collect();
        // Checked before each attempt: the machine may have slept between two of them.
        if !writer.may_commit(hits)? {
            let own = record.published.iter().filter(|part| part.ticket == writer.ticket());
            let own: Vec<PartName> = own.copied().collect();
            writer.void(own)?;
            return Ok(AppendResult::Ended);
        }
        if !writer.keeps_stored()? {
            writer.end_as_lost()?;
            return Ok(AppendResult::Ended);
        }
        // All segments have been put by now, so only a later record can condemn a container that
        // they name, and such a record has to take the number first.
        if !writer.stands(&view)? && !writer.stands(&view.list_again(&repository)?)? {
            // The `void` leaves out the writer's segments because they may name a container that is
            // gone. The next prune indexes the orphans among the containers that exist.
            writer.void(Vec::new())?;
            return Ok(AppendResult::Ended);
        }
        let name = ObjectName::Prune(number);
        if put_first(&repository, name, &record.encode())? == CommitResult::Done {
            // The storage may have restarted while the record was put, too.
            if !writer.keeps_stored_and(name)? {
                return Err(lost(name, "the record or what it names is lost").with_remedy(
                    "`check` the repository before a prune deletes what the record condemns",
                ));
            }
            // The record counts even if this fails: another client that finds the ticket open ends
            // it.
            writer.void(Vec::new()).ok();
            return Ok(AppendResult::Done(number));
        }
        let mut newer = view.list_again(&repository)?;
        if !newer.prunes.contains_key(&number) && !newer.unreadable.contains_key(&name) {
            // The listing lags behind: the failed put has shown that the record exists.
            newer.prunes.insert(number, Arc::new(repository.read(name, Prune::decode)?));
        }
        newer.require_prunes()?;
        let faster: Vec<_> = newer.prunes.range(number..).map(|(_, each)| each.clone()).collect();
        view = Cow::Owned(newer);
        if !rules::must_judge_faster_records() {
            continue;
        }
        match judge(&view, &faster, record)? {
            Some(judged) => record = judged,
            None => return Ok(AppendResult::Stopped(Box::new(view.into_owned()))),
        }
    }
}

/// Returns `true` if other clients have condemned, stored again or deleted anything since `view`
/// was listed. The sign of that is a record, a rescue or the end of a sweep that `view` does not
/// have. In that case a missing object need not be a loss, because its contents may have moved.
///
/// # Errors
///
/// Returns any error of [`View::list`].
pub(crate) fn is_overtaken(repository: &Repository, view: &View) -> Result<bool> {
    let newer = view.list_again(repository)?;
    let is_new = |number: &u64| !view.prunes.contains_key(number);
    let has_moved = |(id, commit): (&TicketId, &Arc<Commit>)| {
        matches!(commit.outcome, Outcome::Rescue | Outcome::Swept(_))
            && !view.commits.contains_key(id)
    };
    Ok(newer.prunes.keys().any(is_new) || newer.commits.iter().any(has_moved))
}

/// Returns the error of a command that found an object missing because another client pruned or
/// swept meanwhile.
pub(crate) fn overtaken(object: &str, failure: Error) -> Error {
    let message = format!(
        "other clients pruned or swept meanwhile, which invalidates this run ({failure}); run the \
         same command again when they have ended"
    );
    Error::new(Kind::Conflict, object, message).with_source(failure)
}

/// Returns the first free number above the highest that counts or that a writer has seen. Numbers
/// of missing records that were given up are not free.
fn next_number(view: &View) -> Result<u64> {
    let highest = view.highest_prune();
    let is_free = |number: &u64| !view.unreadable.contains_key(&ObjectName::Prune(*number));
    (highest..u64::MAX).map(|number| number + 1).find(is_free).ok_or_else(|| {
        let folder = ObjectKind::Prune.folder();
        Error::new(Kind::Corrupt, folder, format!("no number is free after {highest}"))
    })
}
