//! The rules of `docs/protocol.md` that a test can break: one predicate for each.
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

/// W1: a writer lists commits and prunes only after its ticket was put.
pub(crate) fn must_list_after_ticket() -> bool {
    !is_broken!(ListsBeforeTicket)
}

/// W2: a writer finds no chunk in a container that is condemned.
pub(crate) fn may_use_condemned() -> bool {
    is_broken!(UsesCondemned)
}

/// W3: a writer reuses contents unread only from a snapshot that no prune has taken.
pub(crate) fn may_take_over(is_taken: bool) -> bool {
    !is_taken || is_broken!(TakesOverTaken)
}

/// W5: before its commit, a writer checks that the containers exist in which it found chunks.
pub(crate) fn must_check_hits() -> bool {
    !is_broken!(TrustsHits)
}

/// W6: a commit is acknowledged if the put created the object. An object that existed counts only
/// after a comparison with the writer's own bytes.
pub(crate) fn counts_as_committed(is_created: bool) -> bool {
    is_created || is_broken!(TakesExistsForOwn)
}

/// W6: a commit never replaces that of another client.
pub(crate) fn may_replace_commit() -> bool {
    is_broken!(Overwrites)
}

/// W9: a client whose listings may lag announces itself before its first ticket.
pub(crate) fn must_announce_lag() -> bool {
    !is_broken!(HidesLag)
}

/// W9: after its announcement, such a client waits until its listings show what was put before.
pub(crate) fn must_wait_out_lag() -> bool {
    !is_broken!(DoesNotWaitOutLag)
}

/// W9: an announcement of another client counts once that client has waited.
pub(crate) fn must_await_mark() -> bool {
    !is_broken!(TrustsNewMark)
}

/// W9: that wait does not count the time for which the machine sleeps.
pub(crate) fn may_count_sleep() -> bool {
    is_broken!(CountsSleep)
}

/// S1: the second mark of W9 alone keeps a sweep from deleting at once.
pub(crate) fn must_heed_second_mark() -> bool {
    !is_broken!(HeedsFirstMarkOnly)
}

/// R3: the maximum number of further listings for one chunk, while each shows something new.
pub(crate) fn listings_max() -> u32 {
    if is_broken!(ListsAgainOnce) { 1 } else { 8 }
}

/// E1: a writer writes nothing if an object claims a key epoch above its own.
pub(crate) fn may_write_below_epoch() -> bool {
    is_broken!(WritesBelowEpoch)
}

/// E2: a backup compares only with snapshots of the present key epoch.
pub(crate) fn may_compare_with_old_epoch() -> bool {
    is_broken!(ComparesWithOldEpoch)
}

/// P2: a prune marks what the delta chunks refer to that stay.
pub(crate) fn must_mark_references() -> bool {
    !is_broken!(IgnoresReferences)
}

/// P4: a put that fails is no damage of the source that was read, and stops the prune.
pub(crate) fn may_tolerate_failed_put() -> bool {
    is_broken!(ToleratesFailedPuts)
}

/// P5: a prune judges the records that were faster before it takes the next number.
pub(crate) fn must_judge_faster_records() -> bool {
    !is_broken!(TakesNextNumber)
}

/// P5: a prune publishes again the segments of the snapshots that it takes, besides its own.
pub(crate) fn must_republish(is_own: bool) -> bool {
    is_own || !is_broken!(DropsSegmentsOfTaken)
}

/// P5: a prune merges the segments that lie in the commits which it takes, unless they are spent.
pub(crate) fn must_merge_embedded() -> bool {
    !is_broken!(DropsEmbedded)
}

/// P5: before each attempt, a prune checks that no other client has ended it.
pub(crate) fn must_check_own_end() -> bool {
    !is_broken!(IgnoresItsEnd)
}

/// P5: before each attempt, a prune checks that the containers exist that its segments name.
pub(crate) fn must_check_own_containers() -> bool {
    !is_broken!(TrustsItsContainers) && !is_broken!(ToleratesFailedPuts)
}

/// P2: the marked snapshots of a record are those of its base without the unmarked ones.
pub(crate) fn must_unmark() -> bool {
    !is_broken!(KeepsMarks)
}

/// P6: a prune takes a void only if the writer of the ticket itself has put it.
pub(crate) fn may_take_void(is_own: bool) -> bool {
    is_own || is_broken!(TakesVoidsOfOthers)
}

/// P6: a prune takes a `forget` only if all snapshots that it names are taken.
pub(crate) fn may_take_forget(are_all_taken: bool) -> bool {
    are_all_taken || is_broken!(TakesForgetsEarly)
}

/// P6: a prune takes a `swept` commit only if the commits that its record took are gone.
pub(crate) fn may_take_swept(are_commits_gone: bool) -> bool {
    are_commits_gone || is_broken!(TakesSweptEarly)
}

/// P6: a record says itself what the `swept` commits said that it takes.
pub(crate) fn must_record_swept() -> bool {
    !is_broken!(DropsSwept)
}

/// P7: a record attests what only the commits that it takes had attested.
pub(crate) fn must_attest() -> bool {
    !is_broken!(DropsAttested)
}

/// S1: a sweep waits for writers that may commit a snapshot.
pub(crate) fn must_wait_for_writers() -> bool {
    !is_broken!(DoesNotWait)
}

/// S1: tickets are listed after the record was seen.
pub(crate) fn must_look_after_record() -> bool {
    !is_broken!(LooksTooEarly)
}

/// S1: a record is swept at once only if the storage promises that listings show puts at once, and
/// no client is announced to which this does not apply. A client that prunes on a storage without
/// the promise is announced itself, so that either condition alone would protect the data there.
pub(crate) fn may_sweep_at_once(is_promised: bool, is_announced: bool) -> bool {
    let is_heeded = is_announced && !is_broken!(IgnoresLaggingClients);
    (is_promised && !is_heeded) || is_broken!(HurriesAnywhere)
}

/// S1: records that have not settled by age are synced before anything is deleted: that which is
/// swept, and the others by which the sweep skips snapshots.
pub(crate) fn must_confirm_record(is_swept_now: bool) -> bool {
    !is_broken!(TrustsVisibleRecord) && (is_swept_now || !is_broken!(ConfirmsOwnRecordOnly))
}

/// S1: one look at other writers serves the records that all of them had seen then, and no others.
pub(crate) fn may_share_look(is_seen: bool) -> bool {
    is_seen || is_broken!(SharesLook)
}

/// S3: a sweep stores again what late snapshots reach.
pub(crate) fn must_rescue() -> bool {
    !is_broken!(RescuesNothing)
}

/// S3: a sweep stores again what delta chunks of late snapshots refer to, besides what the
/// snapshots reach themselves.
pub(crate) fn must_rescue_chunk(is_reached: bool) -> bool {
    is_reached || !is_broken!(RescuesNoReferences)
}

/// S3: a sweep counts as condemned what any record condemns, not only its own. Because records are
/// swept in order ([`must_sweep_in_order`]), its own alone would lose nothing.
pub(crate) fn must_count_all_condemned() -> bool {
    !is_broken!(SweepsApart)
}

/// S3: records are swept in the order of their numbers.
pub(crate) fn must_sweep_in_order() -> bool {
    !is_broken!(SweepsApart)
}

/// S3: a sweep skips a snapshot only if its own prune, a swept one or a settled one has taken it.
pub(crate) fn may_skip_all_taken() -> bool {
    is_broken!(PassesOverTaken)
}

/// S5: before its first deletion, a sweep checks that what it has stored again is still there.
pub(crate) fn must_check_rescue() -> bool {
    !is_broken!(TrustsItsRescue)
}

/// S5: a sweep leaves an object that the storage keeps.
pub(crate) fn must_leave_locked(is_locked: bool) -> bool {
    is_locked && !is_broken!(HidesLocked)
}

/// S5: a record is swept once the storage keeps nothing that it condemned.
pub(crate) fn may_record_swept(locked_count: u64) -> bool {
    locked_count == 0 || is_broken!(ForgetsLocked)
}

/// S5: a sweep deletes the tickets of ended writers only.
pub(crate) fn may_delete_ticket(has_ended: bool) -> bool {
    has_ended || is_broken!(DeletesOpenTickets)
}

/// C1: delta chunks refer to full chunks only.
pub(crate) fn may_refer_to(is_full: bool) -> bool {
    is_full || is_broken!(RefersToDeltaChunks)
}

/// C2: only a full record satisfies a reference.
pub(crate) fn satisfies_reference(is_full: bool) -> bool {
    is_full || is_broken!(MeetsReferencesByDeltaChunks)
}

/// C3: the references of a delta chunk are confirmed when a writer finds it as a duplicate.
pub(crate) fn must_confirm_references() -> bool {
    !is_broken!(DoesNotConfirm)
}

/// Liveness: ages are differences of two stamps of the storage, not of the clocks of two clients.
pub(crate) fn may_compare_clocks() -> bool {
    is_broken!(TrustsClocks)
}

/// Liveness: another boot of a machine counts as an earlier one only if the ticket is older than
/// the present boot, because a clone of the machine boots on its own.
pub(crate) fn counts_as_earlier_boot(is_older: bool) -> bool {
    is_older || is_broken!(TrustsBoots)
}

/// Repair: a prune record that was given up does not count, even if it can be read again.
pub(crate) fn counts_given_up() -> bool {
    is_broken!(CountsGivenUp)
}

/// Repair: a container is put back only if each of its regions was read.
pub(crate) fn may_put_back(is_read: bool) -> bool {
    is_read || is_broken!(MendsUnread)
}
