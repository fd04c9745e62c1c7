//! Writers that break one rule, for tests: each must be caught. Nothing of this is compiled
//! without the feature `mutants`.

use std::cell::Cell;

/// One rule that is not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// W1: lists commits and prunes before the ticket is put.
    ListsBeforeTicket,
    /// W2: finds chunks in condemned containers as well.
    UsesCondemned,
    /// W3: takes over from snapshots that a prune has taken.
    TakesOverTaken,
    /// W5: does not look whether the containers that gave hits exist.
    TrustsHits,
    /// W6: takes "there is one already" for its own success.
    TakesExistsForOwn,
    /// W6: puts its commit in the place of another.
    Overwrites,
    /// P5: where others were faster, takes the next number without looking at what they have put.
    TakesNextNumber,
    /// P5: does not publish anew what commits of the snapshots that it takes had published.
    DropsSegmentsOfTaken,
    /// P4: takes a put that fails for damage of what is read, and P5: does not look for what it has
    /// put. Each rule alone keeps what is needed here.
    ToleratesFailedPuts,
    /// P5: does not look whether another client has ended it.
    IgnoresItsEnd,
    /// P5: does not look whether the containers exist that its segments name.
    TrustsItsContainers,
    /// S5: does not look whether what it has stored again is still there.
    TrustsItsRescue,
    /// S1: does not wait for writers that may end in a snapshot.
    DoesNotWait,
    /// S3: stores nothing again.
    RescuesNothing,
    /// S3: takes only what its own record condemns for going. Records are swept in order, so that
    /// this alone loses nothing: it sweeps the last one first as well.
    SweepsApart,
    /// S3: passes over snapshots that any prune has taken, swept or not.
    PassesOverTaken,
    /// S5: deletes tickets of writers that have not ended.
    DeletesOpenTickets,
    /// P2: does not ask what composites refer to.
    IgnoresReferences,
    /// S3: stores again what late snapshots reach, but not what composites there refer to.
    RescuesNoReferences,
    /// C1: refers to composites.
    RefersToComposites,
    /// C2: takes a composite for what a composite refers to.
    MeetsReferencesByComposites,
    /// C3: does not ask for what a composite refers to when it is found as a duplicate.
    DoesNotConfirm,
    /// Liveness: judges the age of a renewal by the clocks of two clients.
    TrustsClocks,
    /// Liveness: takes every other boot of a machine for an earlier one, clones of it included.
    TrustsBoots,
    /// Repair: counts prune records that were given up, where they can be read again.
    CountsGivenUp,
    /// Repair: puts a container in its place again without a look at its regions.
    MendsUnread,
    /// E1: writes although something claims a key epoch above its own.
    WritesBelowEpoch,
    /// E2: compares with snapshots of a key epoch that is over.
    ComparesWithOldEpoch,
}

impl Mutant {
    /// Every one.
    pub const ALL: [Mutant; 28] = [
        Mutant::ListsBeforeTicket,
        Mutant::UsesCondemned,
        Mutant::TakesOverTaken,
        Mutant::TrustsHits,
        Mutant::TakesExistsForOwn,
        Mutant::Overwrites,
        Mutant::TakesNextNumber,
        Mutant::DropsSegmentsOfTaken,
        Mutant::ToleratesFailedPuts,
        Mutant::IgnoresItsEnd,
        Mutant::TrustsItsContainers,
        Mutant::TrustsItsRescue,
        Mutant::DoesNotWait,
        Mutant::RescuesNothing,
        Mutant::SweepsApart,
        Mutant::PassesOverTaken,
        Mutant::DeletesOpenTickets,
        Mutant::IgnoresReferences,
        Mutant::RescuesNoReferences,
        Mutant::RefersToComposites,
        Mutant::MeetsReferencesByComposites,
        Mutant::DoesNotConfirm,
        Mutant::TrustsClocks,
        Mutant::TrustsBoots,
        Mutant::CountsGivenUp,
        Mutant::MendsUnread,
        Mutant::WritesBelowEpoch,
        Mutant::ComparesWithOldEpoch,
    ];
}

thread_local! {
    static ACTIVE: Cell<Option<Mutant>> = const { Cell::new(None) };
}

/// Breaks a rule in what this thread does from now on; `None` keeps them all.
pub fn activate(mutant: Option<Mutant>) {
    ACTIVE.set(mutant);
}

/// Whether this thread breaks the rule.
pub(crate) fn is_active(mutant: Mutant) -> bool {
    ACTIVE.get() == Some(mutant)
}
