//! Numbered records: `prunes/<n>`, of which each knows all before it (rule P5).
//!
//! A prune ends by one, and so does what must not race with a prune: holding a snapshot, letting go
//! of it, bringing it back. The number decides who was first; who comes second lists again, and
//! judges what the first has put before it takes the next number.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use crate::error::{Error, Kind, Result};
use crate::fingerprint::Class;
use crate::format::commit::{Commit, Outcome};
use crate::format::prune::Prune;
#[cfg(feature = "mutants")]
use crate::mutant::{self, Mutant};
use crate::name::{ObjectKind, ObjectName, PartName, TicketId};
use crate::repository::Repository;
use crate::view::View;
use crate::writer::{Committed, Writer, put_first};

/// How the putting of a record went.
#[derive(Clone, Debug)]
pub enum Recorded {
    /// It stands under this number, and the writer has ended.
    Done(u64),
    /// The judge stopped it, because of what this view has. The writer goes on: what it has put is
    /// still its own.
    Stopped(Box<View>),
    /// The writer had been silent for too long, or a container in which it found chunks is gone
    /// (W5), or another client has ended it, or a container that its segments name is gone (P5): it
    /// has ended, and nothing was recorded. Begin again; what was stored is found.
    Ended,
}

/// Puts `record`, which was made by what `view` has, under the next number, as `writer`; after that
/// the writer ends with a `void` that names nothing.
///
/// Where others have taken the number meanwhile, `judge` hears of it: the view of a new listing, the
/// records that were faster, in order, and the record that has to be judged by them. It returns what
/// may take the next number, the record as it was or changed, or `None` where what it says no longer
/// holds. Ticket and time of the record are set here. `hits` are the containers of others that the record relies on (W5).
///
/// # Errors
///
/// Those of `judge`; `Corrupt` where a record cannot be read; as the medium. Where the outcome of
/// the put stays unknown the error says so: the record may then exist.
pub fn publish(
    writer: &mut Writer,
    view: &View,
    mut record: Prune,
    hits: &BTreeSet<(Class, PartName)>,
    mut judge: impl FnMut(&View, &[Arc<Prune>], Prune) -> Result<Option<Prune>>,
) -> Result<Recorded> {
    let repository = writer.repository().clone();
    let mut view = Cow::Borrowed(view);
    loop {
        view.require_prunes()?;
        let number = next_number(&view)?;
        record.ticket = Some(writer.ticket());
        record.time_ns = repository.environment().now_ns();
        // Each record says it of all: the one that gave them up may be lost itself.
        let own = record.given_up.iter().copied();
        record.given_up =
            own.chain(view.recorded_as_given_up()).collect::<BTreeSet<_>>().into_iter().collect();
        // Before each try: a number may have been fought for as long as a machine slept.
        if !writer.may_commit(hits)? {
            let own = record.published.iter().filter(|part| part.ticket == writer.ticket());
            let own = own.copied().collect();
            writer.void(own)?;
            return Ok(Recorded::Ended);
        }
        // All segments have been put by now: from here on only a record can take away what they
        // name, and for that the number must be taken first.
        if !writer.stands(&view)? && !writer.stands(&view.list_again(&repository)?)? {
            // Not its segments: they may name what is gone. The next prune adopts what is there.
            writer.void(Vec::new())?;
            return Ok(Recorded::Ended);
        }
        let name = ObjectName::Prune(number);
        if put_first(&repository, name, &record.encode())? == Committed::Done {
            // The record stands, whatever becomes of this: who finds the ticket open ends it.
            writer.void(Vec::new()).ok();
            return Ok(Recorded::Done(number));
        }
        let mut newer = view.list_again(&repository)?;
        if !newer.prunes.contains_key(&number) && !newer.unreadable.contains_key(&name) {
            // The listing lags behind: what lies there was seen.
            newer.prunes.insert(number, Arc::new(repository.read(name, Prune::decode)?));
        }
        newer.require_prunes()?;
        let faster: Vec<_> = newer.prunes.range(number..).map(|(_, each)| each.clone()).collect();
        view = Cow::Owned(newer);
        #[cfg(feature = "mutants")]
        if mutant::is_active(Mutant::TakesNextNumber) {
            continue;
        }
        match judge(&view, &faster, record)? {
            Some(judged) => record = judged,
            None => return Ok(Recorded::Stopped(Box::new(view.into_owned()))),
        }
    }
}

/// Whether others have condemned, stored again or deleted something since `view` was listed: a record, a
/// rescue or the end of a sweep is there that `view` does not have. If so, an object that is gone need
/// not be a loss, and who looks anew may find what it had elsewhere.
///
/// # Errors
///
/// As [`View::list`].
pub(crate) fn is_overtaken(repository: &Repository, view: &View) -> Result<bool> {
    let newer = view.list_again(repository)?;
    let is_new = |number: &u64| !view.prunes.contains_key(number);
    let has_moved = |(id, commit): (&TicketId, &Arc<Commit>)| {
        matches!(commit.outcome, Outcome::Rescue | Outcome::Swept(_))
            && !view.commits.contains_key(id)
    };
    Ok(newer.prunes.keys().any(is_new) || newer.commits.iter().any(has_moved))
}

/// The error of a command that found something gone because others pruned or swept meanwhile.
pub(crate) fn overtaken(object: &str, failure: Error) -> Error {
    let message = format!(
        "other clients pruned or swept meanwhile, and this run no longer holds ({failure}); run the same \
         command again when they have ended"
    );
    Error::new(Kind::Conflict, object, message).with_source(failure)
}

/// The number after the highest that counts, or that a writer has seen; not one at which something lies
/// that was given up.
fn next_number(view: &View) -> Result<u64> {
    let highest = view.highest_prune();
    let is_free = |number: &u64| !view.unreadable.contains_key(&ObjectName::Prune(*number));
    (highest..u64::MAX).map(|number| number + 1).find(is_free).ok_or_else(|| {
        let folder = ObjectKind::Prune.folder();
        Error::new(Kind::Corrupt, folder, format!("no number is left after {highest}"))
    })
}
