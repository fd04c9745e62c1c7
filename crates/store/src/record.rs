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
use crate::format::prune::Prune;
use crate::name::{ObjectKind, ObjectName, PartName};
use crate::view::View;
#[cfg(feature = "mutants")]
use crate::writer::mutant::{self, Mutant};
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
    /// (W5): it has ended, and nothing was recorded. Begin again; what was stored is found.
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
        // Before each try: a number may have been fought for as long as a machine slept.
        if !writer.may_commit(hits)? {
            let own = record.published.iter().filter(|part| part.ticket == writer.ticket());
            let own = own.copied().collect();
            writer.void(own)?;
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

/// The number after the highest.
fn next_number(view: &View) -> Result<u64> {
    let highest = view.prunes.keys().next_back().copied().unwrap_or(0);
    highest.checked_add(1).ok_or_else(|| {
        let folder = ObjectKind::Prune.folder();
        Error::new(Kind::Corrupt, folder, format!("no number is left after {highest}"))
    })
}
