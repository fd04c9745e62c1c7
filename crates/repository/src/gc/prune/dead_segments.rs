//! Index segments of which nothing stays.
//!
//! A segment that a backup has put names containers of that backup only. Whether anything of it stays
//! follows from the names of the containers that stay, so that it need not be read and merged.

use std::collections::{BTreeSet, HashSet};

use super::survey::Survey;
use crate::format::fingerprint::Class;
use crate::format::names::{PartName, TicketId};
use crate::gc::locate::Container;

/// The segments of backups of which nothing stays.
pub(super) struct DeadSegments {
    /// Segments of which no container exists, because records had condemned all of them. They can
    /// be superseded.
    pub(super) gone: BTreeSet<PartName>,
    /// Segments of which only condemned containers exist. They stay until a sweep has deleted these,
    /// because it finds their chunks by the segments.
    pub(super) going: BTreeSet<PartName>,
}

impl DeadSegments {
    /// Returns the segments among `live` of which nothing stays if the containers of the numbers
    /// `dead` are condemned.
    pub(super) fn of(survey: &Survey, live: &BTreeSet<PartName>, dead: &[u32]) -> DeadSegments {
        let containers = &survey.placement.containers;
        let dead = dead.iter().map(|number| containers[*number as usize].name());
        let mut condemned: HashSet<(Class, PartName)> = survey.view.condemned();
        condemned.extend(dead);
        let ticket = |(_, part): &(Class, PartName)| part.ticket;
        let there: HashSet<TicketId> = survey.there.keys().map(ticket).collect();
        // A container that is lost, although no record condemns it, may come back.
        let listed = containers.iter().map(Container::name);
        let stays = survey.there.keys().copied().chain(listed);
        let stays = stays.filter(|name| !condemned.contains(name));
        let staying: HashSet<TicketId> = stays.map(|name| ticket(&name)).collect();
        let backups = of_backups(survey);
        let of_backups = live.iter().copied().filter(|part| backups.contains(part));
        let dead = of_backups.filter(|part| !staying.contains(&part.ticket));
        let (going, gone) = dead.partition(|part| there.contains(&part.ticket));
        DeadSegments { gone, going }
    }
}

/// Returns the segments of writers that name their own containers only, as backups and rescues do:
/// those of commits of snapshots, and those that a record has taken over from a commit (P5; the voids
/// among these commits have no segments that count, P6). A segment that the writer of a record has put itself may name
/// containers of any writer.
fn of_backups(survey: &Survey) -> HashSet<PartName> {
    let commits = survey.view.commits.values().filter(|commit| commit.snapshot().is_some());
    let mut found: HashSet<PartName> =
        commits.flat_map(|commit| commit.segments.iter().copied()).collect();
    for record in survey.view.prunes.values() {
        let Some(ticket) = record.ticket else { continue };
        found.extend(record.published.iter().filter(|part| part.ticket != ticket));
    }
    for record in survey.view.prunes.values() {
        let of_writer = |part: &&PartName| record.ticket.is_none_or(|it| it == part.ticket);
        for part in record.published.iter().filter(of_writer) {
            found.remove(part);
        }
    }
    found
}
