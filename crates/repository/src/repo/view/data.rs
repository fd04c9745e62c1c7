//! The segments, containers and chunks that commits and prune records of a view are about.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use super::View;
use crate::format::commit::{Damage, Outcome};
use crate::format::fingerprint::{Class, Fingerprint};
use crate::format::names::{ObjectName, PartName, TicketId};
use crate::format::prune::{Covering, Prune};
use crate::format::segment::Segment;
use crate::rules;

/// The writers whose containers may be named only by objects that cannot be read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hidden {
    writers: BTreeSet<TicketId>,
    is_anybody: bool,
}

impl Hidden {
    /// Returns `true` if an object that cannot be read may name containers of `writer`.
    pub(crate) fn may_name(&self, writer: TicketId) -> bool {
        self.is_anybody || self.writers.contains(&writer)
    }
}

impl View {
    /// Returns the writers whose containers `unreadable` objects may name. A segment or a commit
    /// can name only containers of its own writer; a prune record, or a segment that it has
    /// published, those of any writer.
    pub(crate) fn hidden<'a>(
        &self,
        unreadable: impl IntoIterator<Item = &'a ObjectName>,
    ) -> Hidden {
        let mut hidden = Hidden::default();
        for name in unreadable {
            match name {
                ObjectName::Commit(ticket) => {
                    hidden.writers.insert(*ticket);
                }
                ObjectName::Segment(part) => {
                    hidden.writers.insert(part.ticket);
                    hidden.is_anybody |=
                        self.prunes.values().any(|prune| prune.published.contains(part));
                }
                ObjectName::Prune(_) => hidden.is_anybody = true,
                _ => {}
            }
        }
        hidden
    }

    /// Returns the segments that count: those named by a commit or a prune, and not superseded.
    ///
    /// Segments named by the void of a writer whose lost commit was given up do not count: the next
    /// sweep deletes the void, and no prune has republished them.
    pub fn segments(&self) -> BTreeSet<PartName> {
        let mut segments: BTreeSet<PartName> = BTreeSet::new();
        let taken = self.taken();
        for (ticket, commit) in &self.commits {
            if commit.snapshot().is_some() || !taken.contains(ticket) {
                segments.extend(&commit.segments);
            }
        }
        for prune in self.prunes.values() {
            segments.extend(&prune.published);
        }
        for prune in self.prunes.values() {
            for segment in &prune.superseded {
                segments.remove(segment);
            }
        }
        segments
    }

    /// Returns the body of the index segment `part`, if it lies in the commit of its writer.
    pub fn embedded_segment(&self, part: &PartName) -> Option<&Segment> {
        self.commits.get(&part.ticket)?.embedded_segment(part)
    }

    /// Returns the numbers of the records of which everything was deleted.
    pub(crate) fn swept(&self) -> BTreeSet<u64> {
        let outcomes = self.commits.values().map(|commit| &commit.outcome);
        let said = outcomes.filter_map(|outcome| match outcome {
            Outcome::Swept(number) => Some(*number),
            _ => None,
        });
        said.chain(self.prunes.values().flat_map(|prune| prune.swept.iter().copied())).collect()
    }

    /// Returns the snapshots whose chunks the prune of this number has kept. A snapshot is left out
    /// if the record on which that of the prune builds was given up.
    pub(crate) fn marked_by(&self, number: u64) -> HashSet<TicketId> {
        let mut records = Vec::new();
        let mut next = Some(number);
        while let Some(number) = next {
            let Some(record) = self.prunes.get(&number) else { break };
            records.push(record);
            next = record.marked_base.filter(|base| *base < number);
        }
        let mut marked = HashSet::new();
        for record in records.into_iter().rev() {
            if rules::must_unmark() {
                let unmarked: HashSet<TicketId> = record.unmarked.iter().copied().collect();
                marked.retain(|id| !unmarked.contains(id));
            }
            marked.extend(&record.marked);
        }
        marked
    }

    /// Returns what merged segments have taken from superseded ones, in the order of the records.
    ///
    /// A merged segment leaves out containers that earlier records had condemned. If such a record
    /// was given up, its containers are not condemned any more, so the coverings of later records
    /// do not count, unless a later record was made after that.
    pub(crate) fn coverings(&self) -> impl DoubleEndedIterator<Item = &Covering> {
        self.later_records().flat_map(|prune| &prune.coverings)
    }

    /// Returns the index segments all of whose containers are condemned, as the records say that have
    /// taken the commits in which these segments lie. What holds for coverings holds for them.
    pub(crate) fn spent_segments(&self) -> impl Iterator<Item = &PartName> {
        self.later_records().flat_map(|prune| &prune.spent)
    }

    /// Returns the records that were made with all earlier records that count, in their order.
    fn later_records(&self) -> impl DoubleEndedIterator<Item = &Arc<Prune>> {
        let given_up = self.given_up_prunes();
        let counts = move |(number, prune): &(&u64, &Arc<Prune>)| {
            given_up.range(..**number).all(|earlier| prune.given_up.contains(earlier))
        };
        self.prunes.iter().filter(counts).map(|(_, prune)| prune)
    }

    /// Returns the condemned containers: writers never refer to them, and readers use them as long
    /// as they exist.
    pub fn condemned(&self) -> HashSet<(Class, PartName)> {
        self.prunes.values().flat_map(|prune| prune.condemned.iter().copied()).collect()
    }

    /// Returns the chunk records that a check found to be broken.
    pub fn damaged(&self) -> HashSet<Damage> {
        self.commits
            .values()
            .filter_map(|commit| match &commit.outcome {
                Outcome::Damage(damages) => Some(damages),
                _ => None,
            })
            .flatten()
            .copied()
            .collect()
    }

    /// Returns the chunks that a check has found broken after the writer of `snapshot` took its
    /// view, and to which that writer may have referred. Chunks found broken earlier were stored
    /// again by the writer, or found elsewhere.
    pub fn damaged_since(&self, snapshot: TicketId) -> HashSet<Fingerprint> {
        let known = self.seen_by(snapshot);
        self.commits
            .iter()
            .filter(|(id, _)| !known.contains(id))
            .filter_map(|(_, commit)| match &commit.outcome {
                Outcome::Damage(damages) => Some(damages),
                _ => None,
            })
            .flatten()
            .map(|damage| damage.fingerprint)
            .collect()
    }
}
