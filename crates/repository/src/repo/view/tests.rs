//! Tests of all parts of a view.

use std::collections::HashSet;
use std::sync::Arc;

use cutpoint_storage::{Error, Kind};

use super::View;
use crate::format::commit::{Commit, Damage, Note, Outcome, ViewRecord};
use crate::format::fingerprint::{Class, Fingerprint};
use crate::format::names::{ObjectName, PartName, TicketId};
use crate::format::prune::{Covering, Prune};

fn ticket(number: u8) -> TicketId {
    TicketId([number; 12])
}

/// Returns a view with one commit for each outcome, each by a writer that has seen all earlier
/// ones.
fn view(outcomes: impl IntoIterator<Item = Outcome>) -> View {
    let mut view = View::default();
    for (outcome, number) in outcomes.into_iter().zip(1..) {
        let (segments, extra) = (Vec::new(), Vec::new());
        let (seen, embedded) = (view.record(), None);
        let commit = Commit { outcome, segments, embedded, view: seen, time_ns: 0, extra };
        view.commits.insert(ticket(number), Arc::new(commit));
    }
    view
}

fn damage(number: u8) -> Outcome {
    let container = PartName { ticket: ticket(1), count: 0 };
    let fingerprint = Fingerprint([number; 32]);
    Outcome::Damage(vec![Damage { class: Class::Data, container, fingerprint }])
}

/// A commit names only those that no other of its view has named; the digest tells whether the
/// rest follows.
#[test]
fn seen_commits_follow_from_named_ones() {
    let nothing = || Outcome::Void { is_own: true };
    let mut view = view([damage(1), nothing(), nothing(), damage(4)]);
    assert_eq!(view.commits[&ticket(3)].view.new, [ticket(2)], "the rest was named before");
    let later = HashSet::from([Fingerprint([4; 32])]);
    assert_eq!(view.damaged_since(ticket(3)), later, "what came after it");
    let commit = &view.commits[&ticket(3)];
    let record = ViewRecord { digest: [0; 32], ..commit.view.clone() };
    let other = Commit { view: record, ..Commit::clone(commit) };
    view.commits.insert(ticket(3), Arc::new(other));
    let all = HashSet::from([1, 4].map(|number| Fingerprint([number; 32])));
    assert_eq!(view.damaged_since(ticket(3)), all, "the first is not certain any more");
}

#[test]
fn notes_are_about_one_snapshot() {
    let note = |of: u8| {
        let (replaces, description) = (Vec::new(), format!("of {of}"));
        Outcome::Note(Note { snapshot: Some(ticket(of)), replaces, tags: Vec::new(), description })
    };
    let nothing = || Outcome::Void { is_own: true };
    let view = view([nothing(), nothing(), note(1), note(2)]);
    for (of, by) in [(1, 3), (2, 4)] {
        let notes = view.notes(ticket(of));
        let found: Vec<_> = notes.iter().map(|(id, note)| (*id, &*note.description)).collect();
        assert_eq!(found, [(ticket(by), &*format!("of {of}"))]);
    }
}

/// A prune record that cannot be read may name containers of any writer.
#[test]
fn failing_storage_is_not_reported_as_damage() {
    for (kind, reported) in [(Kind::Storage, Kind::Storage), (Kind::WrongKey, Kind::Corrupt)] {
        let name = ObjectName::Prune(1);
        let error = Error::new(kind, name, "as the test has it");
        let mut view = view([]);
        view.unreadable.insert(name, Arc::new(error));
        assert_eq!(view.require_prunes().expect_err("it is needed").kind(), reported);
        assert_eq!(view.require_all().expect_err("it is needed").kind(), reported);
    }
}

#[test]
fn unreadable_object_hides_containers_it_may_name() {
    let part = PartName { ticket: ticket(1), count: 0 };
    for (name, hides) in [
        (ObjectName::Commit(ticket(1)), [true, false]),
        (ObjectName::Segment(part), [true, false]),
        (ObjectName::Prune(1), [true, true]),
        (ObjectName::Container(Class::Data, part), [false, false]),
    ] {
        let hidden = View::default().hidden([&name]);
        assert_eq!([1, 2].map(|number| hidden.may_name(ticket(number))), hides, "{name}");
    }
}

/// A covering relies on what earlier records condemn, so it does not count once one of them was
/// given up, unless its own record was made after that.
#[test]
fn coverings_behind_a_record_that_was_given_up_do_not_count() {
    let part = |count| PartName { ticket: ticket(1), count };
    let record = |count, given_up: &[u64]| {
        let covering = Covering { segment: part(count), covered: vec![part(100 + count)] };
        let (published, coverings) = (vec![part(count)], vec![covering]);
        let given_up = given_up.to_vec();
        Arc::new(Prune { published, coverings, given_up, ..Prune::default() })
    };
    let covered = |view: &View| -> Vec<u32> {
        view.coverings().map(|covering| covering.segment.count).collect()
    };
    let mut view = View::default();
    view.prunes.extend([(1, record(1, &[])), (3, record(3, &[])), (4, record(4, &[]))]);
    assert_eq!(covered(&view), [1, 3, 4], "in order");
    view.prunes.insert(5, record(5, &[2]));
    assert_eq!(covered(&view), [1, 5], "what was made without knowing the record that is lost");
    view.prunes.insert(6, record(6, &[2]));
    assert_eq!(covered(&view), [1, 5, 6], "what was made knowing that");
}
