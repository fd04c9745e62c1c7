//! Mutants: volumes that break one rule each, for tests that must catch every one of them.

use std::cell::Cell;

/// A volume that breaks one rule. The predicate that consults it is beside this file, in `rules.rs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// T1: lowers the counter of the reference block with each deleted duplicate of a burst, as
    /// listings 3 and 5 of the paper do.
    ReleasesReferenceEachTime,
    /// T2: frees a reference block with its last use as a block.
    FreesPinned,
    /// T3: keeps the entries of freed blocks in HeadDT and TailDT, as listing 5 does.
    KeepsEntries,
    /// T4: never lowers the counters of heads and tails, as listing 5 does.
    NeverMakesRoom,
    /// T5: keeps exhausted entries.
    KeepsExhausted,
    /// T6: does not store a block whose reference blocks are exhausted, as listing 2 does.
    DropsExhausted,
    /// T7: keeps the entries of freed bursts in BT, as listing 5 does.
    KeepsFingerprint,
    /// T8: does not count duplicates at their stored block.
    ForgetsDuplicates,
    /// T9: refuses a block whose reference block cannot be read.
    InsistsOnReference,
    /// T10: counts and stores bursts without padding.
    StoresUnpadded,
    /// W1: takes it that a block is new if it was before another client wrote.
    LooksUpAhead,
    /// W2: reads reference blocks from the log that are not in it yet.
    ReadsAddedFromLog,
    /// L1: syncs no segment.
    SkipsSync,
    /// L2: syncs no names of segments.
    SkipsNames,
    /// L3: does not verify the end of the log.
    TrustsTail,
    /// L4: takes records that a later segment has made void.
    IgnoresLaterSegments,
    /// L5: does not sync what an earlier process has appended.
    TrustsLeftovers,
    /// L6: leaves the older values where a durable record is damaged.
    SkipsDamaged,
    /// L7: goes on after a failed sync.
    ForgetsFailedSync,
    /// L8: writes no summaries.
    SkipsSummaries,
    /// L9: keeps the changes of records whose append failed.
    KeepsUnwritten,
    /// L10: leaves it to later syncs that the remains of a failed append are void.
    TrustsRemains,
    /// C1: publishes a checkpoint of records that are not durable.
    ChecksPointAhead,
    /// C2: deletes the older checkpoint before the newer one is durable.
    DeletesCheckpointEarly,
    /// C3: deletes segments with live blocks.
    DeletesLiveSegments,
    /// C4: deletes segments whose last block was freed since the checkpoint.
    ForgetsFreedBlocks,
    /// C5: publishes a checkpoint whose run may not be durable.
    PublishesEarly,
    /// C6: drops the changes that a failed checkpoint has set aside.
    DropsFrozen,
    /// C7: takes the value of the oldest run.
    TakesOldest,
    /// C8: begins segments in files that an earlier process may have begun anew.
    ReusesOldDead,
    /// C9: takes changes of runs that a merge has taken already.
    KeepsMerged,
    /// S1: removes zeros that hide a block below.
    DropsZeros,
    /// S2: releases all folded blocks.
    DropsFolded,
    /// S3: lets a folded block replace a newer one.
    ReplacesUpper,
    /// S4: folds layers on which several lie into one of them.
    FoldsShared,
    /// S5: writes changes of the catalog once.
    WritesOnce,
    /// R3: takes entries of damaged pages.
    TrustsPages,
    /// R4: reads the reference block of a burst twice.
    ReadsReferenceAgain,
    /// R5: decodes headers, pages and checkpoints whose checksums do not match.
    TrustsChecksums,
    /// R1: returns blocks without verification.
    TrustsPayload,
    /// R2: uses blocks that were found damaged for later writes.
    TrustsDamaged,
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
