//! Mutants: clients that break one rule each, for tests that must catch every one of them.

use std::cell::Cell;

/// A client that breaks one rule. The predicate that consults it is beside this file, in
/// `rules.rs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// W1: lists commits and prunes before the ticket is put.
    ListsBeforeTicket,
    /// W2: finds chunks in condemned containers as well.
    UsesCondemned,
    /// W3: reuses contents of snapshots that a prune has taken.
    TakesOverTaken,
    /// W5: does not check that the containers in which chunks were found exist.
    TrustsHits,
    /// W6: takes "exists already" for its own success.
    TakesExistsForOwn,
    /// W6: replaces the commit of another client by its own.
    Overwrites,
    /// W9: does not announce that its listings may lag.
    HidesLag,
    /// W9: does not wait after its announcement.
    DoesNotWaitOutLag,
    /// W9: does not wait if another client has announced itself, although that one still waits.
    TrustsNewMark,
    /// W9: counts the time for which the machine sleeps as waited.
    CountsSleep,
    /// R3: lists again only once.
    ListsAgainOnce,
    /// P5: if other clients were faster, takes the next number without judging their records.
    TakesNextNumber,
    /// P5: does not publish again what commits of the snapshots that it takes had published.
    DropsSegmentsOfTaken,
    /// P5: does not merge the segments that lie in the commits which it takes.
    DropsEmbedded,
    /// P4: takes a failed put for damage of a source, and P5: does not check that its containers
    /// exist. Either rule alone would protect the data here.
    ToleratesFailedPuts,
    /// P5: does not check whether another client has ended it.
    IgnoresItsEnd,
    /// P5: does not check that the containers that its segments name exist.
    TrustsItsContainers,
    /// S5: does not check that what it has stored again is still there.
    TrustsItsRescue,
    /// P2: counts snapshots as marked that the base of a record had marked and the record has not.
    KeepsMarks,
    /// P6: takes voids that were put in place of the commits of other writers.
    TakesVoidsOfOthers,
    /// P6: takes a `forget` that names snapshots which are not taken.
    TakesForgetsEarly,
    /// P6: takes a `swept` commit while commits exist that its record took.
    TakesSweptEarly,
    /// P6: does not record what the `swept` commits said that it takes.
    DropsSwept,
    /// P7: does not record what the commits attested that it takes.
    DropsAttested,
    /// S1: does not wait for writers that may commit a snapshot.
    DoesNotWait,
    /// S1: lists tickets before the records.
    LooksTooEarly,
    /// S1: sweeps at once on any storage.
    HurriesAnywhere,
    /// S1: sweeps at once although clients with lagging listings are announced.
    IgnoresLaggingClients,
    /// S1: sweeps at once although the second mark of such a client exists, if the first is missing.
    HeedsFirstMarkOnly,
    /// S1: sweeps at once a record that is visible and need not have reached the disk.
    TrustsVisibleRecord,
    /// S1: skips snapshots by records that are visible and need not have reached the disk.
    ConfirmsOwnRecordOnly,
    /// S1: sweeps records by a look at other writers that had not seen these records.
    SharesLook,
    /// S3: stores nothing again.
    RescuesNothing,
    /// S3: treats only what its own record condemns as condemned. Because records are swept in
    /// order, that alone loses nothing, so it also sweeps the last record first.
    SweepsApart,
    /// S3: skips snapshots that any prune has taken, swept or not.
    PassesOverTaken,
    /// S5: deletes tickets of writers that have not ended.
    DeletesOpenTickets,
    /// S5: deletes objects that the storage keeps, which hides them.
    HidesLocked,
    /// S5: records a prune as swept although the storage keeps objects that it condemned.
    ForgetsLocked,
    /// P2: ignores the references of delta chunks.
    IgnoresReferences,
    /// S3: stores again what late snapshots reach, but not the references of delta chunks there.
    RescuesNoReferences,
    /// C1: makes delta chunks refer to delta chunks.
    RefersToDeltaChunks,
    /// C2: accepts a delta chunk as the reference of a delta chunk.
    MeetsReferencesByDeltaChunks,
    /// C3: does not confirm the references of a delta chunk that is found as a duplicate.
    DoesNotConfirm,
    /// Liveness: judges the age of a renewal by the clocks of two clients.
    TrustsClocks,
    /// Liveness: takes every other boot of a machine for an earlier one, including those of clones.
    TrustsBoots,
    /// Repair: counts prune records that were given up once they can be read again.
    CountsGivenUp,
    /// Repair: puts a container back without reading its regions.
    MendsUnread,
    /// E1: writes although an object claims a key epoch above its own.
    WritesBelowEpoch,
    /// E2: compares with snapshots of a past key epoch.
    ComparesWithOldEpoch,
}

impl Mutant {
    /// All mutants.
    pub const ALL: [Mutant; 49] = [
        Mutant::ListsBeforeTicket,
        Mutant::UsesCondemned,
        Mutant::TakesOverTaken,
        Mutant::TrustsHits,
        Mutant::TakesExistsForOwn,
        Mutant::Overwrites,
        Mutant::HidesLag,
        Mutant::DoesNotWaitOutLag,
        Mutant::TrustsNewMark,
        Mutant::CountsSleep,
        Mutant::ListsAgainOnce,
        Mutant::TakesNextNumber,
        Mutant::DropsSegmentsOfTaken,
        Mutant::DropsEmbedded,
        Mutant::ToleratesFailedPuts,
        Mutant::IgnoresItsEnd,
        Mutant::TrustsItsContainers,
        Mutant::TrustsItsRescue,
        Mutant::KeepsMarks,
        Mutant::TakesVoidsOfOthers,
        Mutant::TakesForgetsEarly,
        Mutant::TakesSweptEarly,
        Mutant::DropsSwept,
        Mutant::DropsAttested,
        Mutant::DoesNotWait,
        Mutant::LooksTooEarly,
        Mutant::HurriesAnywhere,
        Mutant::IgnoresLaggingClients,
        Mutant::HeedsFirstMarkOnly,
        Mutant::TrustsVisibleRecord,
        Mutant::ConfirmsOwnRecordOnly,
        Mutant::SharesLook,
        Mutant::RescuesNothing,
        Mutant::SweepsApart,
        Mutant::PassesOverTaken,
        Mutant::DeletesOpenTickets,
        Mutant::HidesLocked,
        Mutant::ForgetsLocked,
        Mutant::IgnoresReferences,
        Mutant::RescuesNoReferences,
        Mutant::RefersToDeltaChunks,
        Mutant::MeetsReferencesByDeltaChunks,
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

/// Makes this thread break a rule from now on; `None` keeps all rules.
pub fn activate(mutant: Option<Mutant>) {
    ACTIVE.set(mutant);
}

/// Returns `true` if `mutant` is active in this thread.
pub(super) fn is_active(mutant: Mutant) -> bool {
    ACTIVE.get() == Some(mutant)
}
