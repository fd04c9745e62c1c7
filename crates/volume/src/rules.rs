//! The rules of `docs/volume-format.md` that a test can break: one predicate for each.
//!
//! Production calls a predicate where it decides by a rule. Without the feature `mutants`, each
//! predicate is a constant or a function of its argument. With the feature, the active mutant may
//! turn the answer around, and a test has to notice the damage.

#[cfg(feature = "mutants")]
mod mutant;

#[cfg(feature = "mutants")]
pub use mutant::{Mutant, activate};

/// Evaluates to `true` if the given mutant is active, and to `false` without the feature.
#[cfg(feature = "mutants")]
macro_rules! is_broken {
    ($mutant:ident) => {
        mutant::is_active(Mutant::$mutant)
    };
}
#[cfg(not(feature = "mutants"))]
macro_rules! is_broken {
    ($mutant:ident) => {
        is_never_broken()
    };
}

/// Returns `false`: without the feature, there are no mutants.
#[cfg(not(feature = "mutants"))]
const fn is_never_broken() -> bool {
    false
}

/// T1: a burst counts once at its reference block, and leaves it with the last block that uses the
/// burst.
pub(crate) fn releases_reference(is_last_use: bool) -> bool {
    is_last_use || is_broken!(ReleasesReferenceEachTime)
}

/// T2: a reference block stays as long as a burst needs it.
pub(crate) fn is_pinned(burst_count: u64) -> bool {
    burst_count > 0 && !is_broken!(FreesPinned)
}

/// T3: the entries of HeadDT and TailDT leave the tables with their block.
pub(crate) fn must_remove_entries() -> bool {
    !is_broken!(KeepsEntries)
}

/// T4: a burst that is gone makes room for another one on the entry that had found it.
pub(crate) fn makes_room() -> bool {
    !is_broken!(NeverMakesRoom)
}

/// T5: a block that is stored whole takes over the entries of its head and tail.
pub(crate) fn takes_over_entries() -> bool {
    !is_broken!(KeepsExhausted)
}

/// T6: a block whose reference blocks are exhausted is stored whole.
pub(crate) fn must_store_exhausted() -> bool {
    !is_broken!(DropsExhausted)
}

/// T7: the entry of a burst in BT leaves the table with the burst.
pub(crate) fn must_remove_fingerprint() -> bool {
    !is_broken!(KeepsFingerprint)
}

/// T8: a duplicate counts at its stored block.
pub(crate) fn counts_duplicate() -> bool {
    !is_broken!(ForgetsDuplicates)
}

/// T9: a block whose reference block cannot be read is stored whole.
pub(crate) fn does_without_reference() -> bool {
    !is_broken!(InsistsOnReference)
}

/// T10: a burst takes whole sectors.
pub(crate) fn pads_bursts() -> bool {
    !is_broken!(StoresUnpadded)
}

/// W1: a block is compared with the stored ones under the lock under which its record is made. `is_new` is set if
/// it equalled none of them before.
pub(crate) fn must_look_up(is_new: bool) -> bool {
    !(is_new && is_broken!(LooksUpAhead))
}

/// W2: a reference block whose record was made and is not in the log yet is taken from memory.
pub(crate) fn must_read_added() -> bool {
    !is_broken!(ReadsAddedFromLog)
}

/// L1: a flush syncs every segment that has grown.
pub(crate) fn must_sync_segments() -> bool {
    !is_broken!(SkipsSync)
}

/// L2: a flush syncs the names of segments that were created.
pub(crate) fn must_sync_names() -> bool {
    !is_broken!(SkipsNames)
}

/// L3: a payload that may not have been durable counts only if it is verified.
pub(crate) fn must_verify_tail() -> bool {
    !is_broken!(TrustsTail)
}

/// L4: a record is void if a later segment begins at or before its number.
pub(crate) fn heeds_later_segments() -> bool {
    !is_broken!(IgnoresLaterSegments)
}

/// L5: what an earlier process has appended is synced before anything counts as durable.
pub(crate) fn must_sync_leftovers() -> bool {
    !is_broken!(TrustsLeftovers)
}

/// L6: a record that was durable and is damaged makes its blocks unreadable.
pub(crate) fn must_lose_damaged() -> bool {
    !is_broken!(SkipsDamaged)
}

/// L8: a summary of the last records is in the log after each 32 of them.
pub(crate) fn must_summarize() -> bool {
    !is_broken!(SkipsSummaries)
}

/// L7: nothing is written after a sync has failed.
pub(crate) fn must_stop_after_failed_sync() -> bool {
    !is_broken!(ForgetsFailedSync)
}

/// L9: a record whose append failed leaves nothing in the tables.
pub(crate) fn must_roll_back() -> bool {
    !is_broken!(KeepsUnwritten)
}

/// L10: after a failed append, the header of the next segment is durable before its records.
pub(crate) fn must_void_remains() -> bool {
    !is_broken!(TrustsRemains)
}

/// C1: the log is durable up to a checkpoint before the checkpoint is.
pub(crate) fn must_sync_before_checkpoint() -> bool {
    !is_broken!(ChecksPointAhead)
}

/// C2: older checkpoints stay until a newer one is durable.
pub(crate) fn must_sync_checkpoint() -> bool {
    !is_broken!(DeletesCheckpointEarly)
}

/// C3: a segment is deleted only if a durable checkpoint needs none of its records.
pub(crate) fn may_delete_segment(is_before_checkpoint: bool, is_live: bool) -> bool {
    is_before_checkpoint && (!is_live || is_broken!(DeletesLiveSegments))
}

/// C4: a block that was freed since the last checkpoint keeps its segment until the next one.
pub(crate) fn must_keep_freed_blocks() -> bool {
    !is_broken!(ForgetsFreedBlocks)
}

/// C5: a run is durable, with its name, before a checkpoint that has it.
pub(crate) fn must_sync_run() -> bool {
    !is_broken!(PublishesEarly)
}

/// C6: changes of the tables that a failed checkpoint has set aside are in the next one.
pub(crate) fn must_keep_frozen() -> bool {
    !is_broken!(DropsFrozen)
}

/// C7: the newest change of a key counts.
pub(crate) fn newest_counts() -> bool {
    !is_broken!(TakesOldest)
}

/// C8: a dead segment is begun anew only if it was not dead when the volume was opened.
pub(crate) fn may_reuse_segment(was_dead_at_open: bool) -> bool {
    !was_dead_at_open || is_broken!(ReusesOldDead)
}

/// C9: the changes of a run that a merge has taken count in its result alone.
pub(crate) fn must_hide_merged() -> bool {
    !is_broken!(KeepsMerged)
}

/// S1: zeros hide what a layer below has.
pub(crate) fn must_keep_zeros() -> bool {
    !is_broken!(DropsZeros)
}

/// S2: a folded block goes to the layer above if that does not have it.
pub(crate) fn must_move_folded() -> bool {
    !is_broken!(DropsFolded)
}

/// S3: a folded block does not replace one of the layer above.
pub(crate) fn must_keep_upper() -> bool {
    !is_broken!(ReplacesUpper)
}

/// S4: a layer that several disks or snapshots lie on stays.
pub(crate) fn must_keep_shared() -> bool {
    !is_broken!(FoldsShared)
}

/// S5: changes of the catalog and folded blocks are in the log twice.
pub(crate) fn must_write_twice() -> bool {
    !is_broken!(WritesOnce)
}

/// R1: a block is returned only if the checksum in its fingerprint matches.
pub(crate) fn must_verify_block() -> bool {
    !is_broken!(TrustsPayload)
}

/// R3: an entry of a table counts only if the checksum of its page matches.
pub(crate) fn must_verify_page() -> bool {
    !is_broken!(TrustsPages)
}

/// R4: a burst is read with one read of its reference block and one of its own bytes. Returns the
/// number of reads of the reference block.
pub(crate) fn reference_read_count() -> usize {
    1 + usize::from(is_broken!(ReadsReferenceAgain))
}

/// R5: a superblock, checkpoint, header or page counts only if its checksum matches. Bytes that were planted may
/// have one that matches, so that decoders check all fields as well: the fuzz targets break this rule.
pub(crate) fn is_authentic(is_matching: bool) -> bool {
    is_matching || is_broken!(TrustsChecksums)
}

/// R2: a block that was found damaged is no duplicate and no reference of later writes.
pub(crate) fn must_distrust_damaged() -> bool {
    !is_broken!(TrustsDamaged)
}
