//! Runs in a given order, each of which shows that one rule is needed.

use cutpoint_repository::format::commit::Outcome;
use cutpoint_repository::gc::prune::{self as pruning, PruneOptions};

use cutpoint_repository::gc::sweep::{SweepOptions, Sweeper};
use cutpoint_repository::rules::Mutant;
use cutpoint_repository::write::Inline;
use cutpoint_repository::{Entry, EntryKind, Purpose, Snapshot, Verify, Writer};
use cutpoint_storage::Result;

use super::actor::Actor;
use super::play::{Act, Cast, Ran, STEPS, play};
use super::removers::{end_random_writer, forget_where, prune_all, sweep};
use super::writers::{Old, file_name, store_file, store_tree};
use crate::interleaving::world::{Role, Script, Until, World};

/// Backs up a file of one chunk, always the same.
pub(super) fn back_up_one(actor: &mut Actor) -> Result<()> {
    back_up_files(actor, &[(0, None)])
}

/// Does the same as [`back_up_one`], with the index segment in the commit.
fn back_up_one_small(actor: &mut Actor) -> Result<()> {
    let (inline, snapshot) = store_files(actor, &[(0, None)])?;
    inline.commit_embedding(snapshot)?;
    Ok(())
}

/// Backs up files of one chunk each. Each comes with the chunk of the file of which it is a new
/// version.
fn back_up_files(actor: &mut Actor, files: &[(usize, Option<usize>)]) -> Result<()> {
    let (inline, snapshot) = store_files(actor, files)?;
    inline.commit(Outcome::Snapshot(Box::new(snapshot)))?;
    Ok(())
}

/// Stores the files of [`back_up_files`]. Returns the snapshot of them.
fn store_files(actor: &mut Actor, files: &[(usize, Option<usize>)]) -> Result<(Inline, Snapshot)> {
    let writer = Writer::begin(actor.repository.clone(), Purpose::Backup)?;
    let view = writer.view().clone();
    let mut inline = Inline::new(writer, Verify::All)?;
    let mut entries = Vec::new();
    for (place, (chunk, old)) in files.iter().enumerate() {
        let known = view.snapshots();
        let known = known.iter().flat_map(|(_, snapshot)| actor.world.entries(&snapshot.root));
        let previous = old.map(|old| file_name(0, &[old]).into_bytes());
        let previous = previous.map(|name| known.into_iter().find(|entry| entry.name == name));
        let previous = previous.map(|entry| entry.expect("a previous version").content);
        let mut entry = Entry::new(file_name(place, &[*chunk]), EntryKind::File);
        let before = Old::new(actor, &mut inline);
        let encoder = &mut before.encoder();
        entry.content = store_file(actor, &mut inline, &[*chunk], previous.as_ref(), encoder)?;
        entries.push(entry);
    }
    let root = store_tree(actor, &mut inline, &entries)?;
    let started_ns = actor.repository.environment().now_ns();
    Ok((inline, Snapshot { root, started_ns, ..Snapshot::empty() }))
}

fn play_script(cast: Cast, script: Script, mutant: Option<Mutant>) -> Ran {
    let world = World::new(0, STEPS, Some(script));
    play(0, &world, cast, mutant)
}

/// Takes over the content of some snapshot of the view.
fn take_over(actor: &mut Actor) -> Result<()> {
    let writer = Writer::begin(actor.repository.clone(), Purpose::Backup)?;
    let view = writer.view().clone();
    let mut entries = Vec::new();
    for (id, commit) in &view.commits {
        if let Some(snapshot) = commit.snapshot().filter(|_| view.may_take_over(*id)) {
            entries = actor.world.entries(&snapshot.root);
        }
    }
    let mut inline = Inline::new(writer, Verify::All)?;
    let root = store_tree(actor, &mut inline, &entries)?;
    inline.commit(Outcome::Snapshot(Box::new(Snapshot { root, ..Snapshot::empty() })))?;
    Ok(())
}

pub(super) fn sweep_once(actor: &mut Actor) -> Result<()> {
    let options = SweepOptions { commit_ns: i64::MIN, ..actor.world.sweeping() };
    Sweeper::new(actor.repository.clone(), options).step(&()).map(drop)
}

/// Runs a script with all rules kept, then with one broken.
pub(super) fn rule_is_needed(
    mutant: Mutant,
    snapshots: u64,
    cast: &[(Act, bool)],
    script: &Script,
) {
    let role = |may_delete| Role { may_delete, ..Role::default() };
    let cast: Vec<(Act, Role)> =
        cast.iter().map(|(act, may_delete)| (*act, role(*may_delete))).collect();
    rule_is_needed_by(mutant, snapshots, &cast, script);
}

/// Does the same as [`rule_is_needed`] for actors of these roles.
pub(super) fn rule_is_needed_by(
    mutant: Mutant,
    snapshots: u64,
    cast: &[(Act, Role)],
    script: &Script,
) {
    let run = |mutant| {
        let role = |role: Role| Role { may_be_mutant: true, ..role };
        let cast = cast.iter().map(|(act, each)| (role(*each), *act, 1, 0)).collect();
        play_script(cast, script.clone(), mutant)
    };
    let kept = run(None);
    assert!(kept.failure.is_none(), "the rules as written: {}", kept.failure.unwrap_or_default());
    assert_eq!(kept.tally.snapshots, snapshots, "the script no longer runs as it says");
    let failure = run(Some(mutant)).failure;
    let is_loss =
        |failure: &String| ["I2", "I5", "I6", "I7"].iter().any(|it| failure.starts_with(it));
    assert!(failure.as_ref().is_some_and(is_loss), "{mutant:?} stays unnoticed: {failure:?}");
}

/// Runs a sweep past its listing of tickets, up to the listing of commits that shows which writers
/// have ended.
pub(super) fn past_tickets(actor: usize) -> Script {
    let steps = ["list tickets", "list commits"];
    steps.into_iter().map(|call| (actor, Until::Before(call))).collect()
}

/// W3: the writer begins when a sweep no longer waits for it, sees that the snapshot was taken, and
/// takes over from it all the same.
#[test]
fn taken_snapshot_is_not_taken_over() {
    let cast: [(Act, bool); 4] =
        [(back_up_one, false), (prune_all, false), (sweep_once, true), (take_over, false)];
    let mut script = vec![(1, Until::End), (2, Until::End)];
    script.extend(past_tickets(3));
    script.extend([(4, Until::Before("put commits/")), (3, Until::End), (4, Until::End)]);
    rule_is_needed(Mutant::TakesOverTaken, 2, &cast, &script);
}

/// S3: a snapshot that another prune has taken may still be a parent.
#[test]
fn taken_snapshot_counts_until_it_is_swept() {
    let cast: [(Act, bool); 6] = [
        (back_up_one, false),
        (back_up_one, false),
        (prune_all, false),
        (sweep_once, true),
        (take_over, false),
        (prune_all, false),
    ];
    let mut script = vec![
        (1, Until::End),
        // Finds all chunks in the containers of the first, which are then condemned.
        (2, Until::Before("put commits/")),
        (3, Until::End),
        (2, Until::End),
    ];
    script.extend(past_tickets(4));
    script.extend([
        // Sees the second snapshot, but not the prune that takes it at this moment.
        (5, Until::Before("put commits/")),
        (6, Until::End),
        (4, Until::End),
        (5, Until::End),
    ]);
    rule_is_needed(Mutant::PassesOverTaken, 3, &cast, &script);
}

/// Forgets the snapshot that has published segments, or one that has not; prunes and sweeps.
fn retire_publisher(actor: &mut Actor) -> Result<()> {
    let mut is_first = true;
    forget_where(actor, |view, id| {
        let has_published = |id| !view.commits[&id].segments.is_empty();
        let is_any = view.snapshots().into_iter().any(|(id, _)| has_published(id));
        has_published(id) || (!is_any && std::mem::take(&mut is_first))
    })?;
    let options = PruneOptions { unused_max: 1.0, ..PruneOptions::default() };
    pruning::prune(&actor.repository, &options, &(), |_| true)?;
    sweep_once(actor)
}

/// P5: the segments that only the commit of a taken snapshot has named.
#[test]
fn segments_of_taken_snapshots_are_published_again() {
    let cast: [(Act, bool); 5] = [
        (back_up_one, false),
        (back_up_one, false),
        (back_up_one, false),
        (retire_publisher, true),
        (retire_publisher, true),
    ];
    let script = (1..=5).map(|actor| (actor, Until::End)).collect();
    rule_is_needed(Mutant::DropsSegmentsOfTaken, 2, &cast, &script);
}

/// P5: a segment that lies in the commit of a taken snapshot, and goes with it.
#[test]
fn segments_in_taken_commits_are_merged() {
    let cast: [(Act, bool); 5] = [
        (back_up_one_small, false),
        (back_up_one, false),
        (back_up_one, false),
        (retire_publisher, true),
        (retire_publisher, true),
    ];
    let script = (1..=5).map(|actor| (actor, Until::End)).collect();
    rule_is_needed(Mutant::DropsEmbedded, 2, &cast, &script);
}

/// S3: two concurrent sweeps must not each rely for a chunk on a container that the other deletes.
#[test]
fn containers_condemned_by_any_prune_count_as_condemned() {
    /// Forgets the older snapshot and prunes.
    fn prune_older(actor: &mut Actor) -> Result<()> {
        let mut is_first = true;
        forget_where(actor, |_, _| std::mem::take(&mut is_first))?;
        pruning::prune(&actor.repository, &PruneOptions::default(), &(), |_| true).map(drop)
    }
    let cast: [(Act, bool); 7] = [
        (back_up_one, false),
        (back_up_one, false),
        (take_over, false),
        (prune_older, false),
        (prune_older, false),
        (sweep_once, true),
        (sweep_once, true),
    ];
    let script = vec![
        // Both store the chunk, because neither sees the other.
        (1, Until::Before("put data/")),
        (2, Until::Before("put data/")),
        (1, Until::End),
        (2, Until::End),
        // Needs the chunks of both, and comes too late to be marked.
        (3, Until::Before("put commits/")),
        (4, Until::End),
        (6, Until::Before("list tickets")),
        (5, Until::End),
        (3, Until::End),
        (6, Until::Before("delete ")),
        (7, Until::Before("delete ")),
        (6, Until::End),
        (7, Until::End),
    ];
    rule_is_needed(Mutant::SweepsApart, 3, &cast, &script);
}

/// Backs up the second version of a file of one chunk: a delta chunk.
fn back_up_second(actor: &mut Actor) -> Result<()> {
    back_up_files(actor, &[(1, Some(0))])
}

/// Forgets the snapshots that have one of these files of one chunk, and condemns what nothing
/// needs. Stores nothing again.
fn retire_files(actor: &mut Actor, chunks: &[usize]) -> Result<()> {
    let world = actor.world.clone();
    let names: Vec<_> = chunks.iter().map(|chunk| file_name(0, &[*chunk]).into_bytes()).collect();
    forget_where(actor, |view, id| {
        let entries = view.commits[&id].snapshot().map(|snapshot| world.entries(&snapshot.root));
        entries.into_iter().flatten().any(|entry| names.contains(&entry.name))
    })?;
    let options = PruneOptions { rewrite_bytes_max: 0, unused_max: 1.0, ..PruneOptions::default() };
    pruning::prune(&actor.repository, &options, &(), |_| true).map(drop)
}

fn retire_first(actor: &mut Actor) -> Result<()> {
    retire_files(actor, &[0])
}

/// P2: the references of a delta chunk are needed, although no snapshot reaches them.
#[test]
fn references_of_delta_chunks_stay() {
    let cast: [(Act, bool); 4] =
        [(back_up_one, false), (back_up_second, false), (retire_first, false), (sweep_once, true)];
    let script = (1..=4).map(|actor| (actor, Until::End)).collect();
    rule_is_needed(Mutant::IgnoresReferences, 2, &cast, &script);
}

/// S3: a late snapshot has a delta chunk in a staying container, with references that are
/// condemned.
#[test]
fn references_of_late_delta_chunks_are_stored_again() {
    let cast: [(Act, bool); 4] =
        [(back_up_one, false), (back_up_second, false), (retire_first, false), (sweep_once, true)];
    let script = vec![
        (1, Until::End),
        (2, Until::Before("put commits/")),
        (3, Until::End),
        (2, Until::End),
        (4, Until::End),
    ];
    rule_is_needed(Mutant::RescuesNoReferences, 2, &cast, &script);
}

/// C1: the third version refers to the full chunks that the second refers to.
#[test]
fn delta_chunks_refer_only_to_full_chunks() {
    fn back_up_third(actor: &mut Actor) -> Result<()> {
        back_up_files(actor, &[(2, Some(1))])
    }
    let cast: [(Act, bool); 3] =
        [(back_up_one, false), (back_up_second, false), (back_up_third, false)];
    let script = (1..=3).map(|actor| (actor, Until::End)).collect();
    rule_is_needed(Mutant::RefersToDeltaChunks, 3, &cast, &script);
}

/// C2: the reference of a delta chunk is stored as a full chunk, and also as another delta chunk.
#[test]
fn references_of_delta_chunks_stay_as_full_chunks() {
    fn back_up_whole(actor: &mut Actor) -> Result<()> {
        back_up_files(actor, &[(1, None)])
    }
    fn back_up_third(actor: &mut Actor) -> Result<()> {
        back_up_files(actor, &[(2, Some(1))])
    }
    fn retire_second(actor: &mut Actor) -> Result<()> {
        retire_files(actor, &[1])
    }
    // Among several containers the least name is chosen: that of the delta chunk.
    let cast: [(Act, bool); 6] = [
        (back_up_one, false),
        (back_up_second, false),
        (back_up_whole, false),
        (back_up_third, false),
        (retire_second, false),
        (sweep_once, true),
    ];
    let script = vec![
        (1, Until::End),
        (2, Until::Before("put data/")),
        (3, Until::End),
        (4, Until::End),
        (2, Until::End),
        (5, Until::End),
        (6, Until::End),
    ];
    rule_is_needed(Mutant::MeetsReferencesByDeltaChunks, 4, &cast, &script);
}

/// C3: a delta chunk lies in a container that stays for other chunks, and its references are gone.
#[test]
fn references_of_a_duplicate_are_confirmed() {
    fn back_up_two(actor: &mut Actor) -> Result<()> {
        back_up_files(actor, &[(1, Some(0)), (4, None)])
    }
    fn back_up_fifth(actor: &mut Actor) -> Result<()> {
        back_up_files(actor, &[(4, None)])
    }
    fn retire_two(actor: &mut Actor) -> Result<()> {
        retire_files(actor, &[0, 1])
    }
    fn back_up_again(actor: &mut Actor) -> Result<()> {
        back_up_files(actor, &[(1, None)])
    }
    let cast: [(Act, bool); 6] = [
        (back_up_one, false),
        (back_up_two, false),
        (back_up_fifth, false),
        (retire_two, false),
        (sweep_once, true),
        (back_up_again, false),
    ];
    let script = (1..=6).map(|actor| (actor, Until::End)).collect();
    rule_is_needed(Mutant::DoesNotConfirm, 4, &cast, &script);
}

/// W1: the writer begins before a prune condemns what it needs, and puts its ticket when the sweep
/// has already listed tickets.
#[test]
fn ticket_is_put_before_the_listing() {
    let run = |mutant| {
        let writer = Role::default();
        let cast: Cast = vec![
            (writer, back_up_one, 1, 0),
            (Role { may_be_mutant: true, ..writer }, back_up_one, 1, 0),
            (writer, prune_all, 1, 0),
            (Role { may_delete: true, ..writer }, sweep, 1, 0),
        ];
        // The founder of the repository has number 0.
        let script = vec![
            (1, Until::End),
            (2, Until::Before("put tickets/")),
            (3, Until::End),
            (4, Until::Before("delete data/")),
            (2, Until::Before("put commits/")),
            (4, Until::End),
            (2, Until::End),
        ];
        play_script(cast, script, mutant)
    };
    let kept = run(None);
    assert!(kept.failure.is_none(), "the rules as written: {:?}", kept.failure);
    // The sweep goes on until nothing is left, and deletes the commit of the first snapshot.
    assert_eq!(
        (kept.tally.snapshots, kept.tally.prunes, kept.tally.sweeps),
        (1, 1, 1),
        "the script no longer runs as it says: {:?}",
        kept.tally
    );
    let failure = run(Some(Mutant::ListsBeforeTicket)).failure;
    assert!(failure.is_some_and(|f| f.starts_with("I2")), "W1 can be broken unnoticed");
}

/// S1: the sweep waits for a writer that has made its last check and is about to commit.
#[test]
fn sweep_waits_for_writers_that_may_commit() {
    let cast: [(Act, bool); 4] =
        [(back_up_one, false), (back_up_one, false), (prune_all, false), (sweep_once, true)];
    let script = vec![
        (1, Until::End),
        (2, Until::Before("put commits/")),
        (3, Until::End),
        (4, Until::End),
        (2, Until::End),
    ];
    rule_is_needed(Mutant::DoesNotWait, 2, &cast, &script);
}

/// Backs up two files of one chunk each, of which a later snapshot has only the second.
fn back_up_both(actor: &mut Actor) -> Result<()> {
    back_up_files(actor, &[(0, None), (4, None)])
}

fn back_up_other(actor: &mut Actor) -> Result<()> {
    back_up_files(actor, &[(4, None)])
}

/// Forgets the first of them, and stores again what stays of its container.
fn rewrite(actor: &mut Actor) -> Result<()> {
    let world = actor.world.clone();
    let name = file_name(0, &[0]).into_bytes();
    forget_where(actor, |view, id| {
        let entries = view.commits[&id].snapshot().map(|snapshot| world.entries(&snapshot.root));
        entries.into_iter().flatten().any(|entry| entry.name == name)
    })?;
    let options = PruneOptions { unused_max: 0.0, ..PruneOptions::default() };
    pruning::prune(&actor.repository, &options, &(), |_| true).map(drop)
}

fn lose_stored_again(actor: &mut Actor) -> Result<()> {
    actor.world.lose_stored_again();
    Ok(())
}

/// P5: the containers that the record relies on are checked before each attempt. Here the storage
/// has lost one.
#[test]
fn record_relies_on_nothing_that_is_gone() {
    let cast: [(Act, bool); 5] = [
        (back_up_both, false),
        (back_up_other, false),
        (rewrite, false),
        (lose_stored_again, false),
        (sweep_once, true),
    ];
    let script = vec![
        (1, Until::End),
        (2, Until::End),
        (3, Until::Before("put index/")),
        (4, Until::End),
        (3, Until::End),
        (5, Until::End),
    ];
    rule_is_needed(Mutant::TrustsItsContainers, 2, &cast, &script);
}

/// S5: the chunks of late snapshots were stored again, and are gone when the sweep is about to
/// delete.
#[test]
fn sweep_checks_its_rescue_before_deleting() {
    let cast: [(Act, bool); 5] = [
        (back_up_one, false),
        (back_up_one, false),
        (prune_all, false),
        (sweep_once, true),
        (lose_stored_again, false),
    ];
    let script = vec![
        (1, Until::End),
        (2, Until::Before("put commits/")),
        (3, Until::End),
        (2, Until::End),
        (4, Until::Before("put commits/")),
        (4, Until::Before("list data")),
        (5, Until::End),
        (4, Until::End),
    ];
    rule_is_needed(Mutant::TrustsItsRescue, 2, &cast, &script);
}

/// P5: a writer that another client has ended publishes no record, and begins again.
#[test]
fn ended_writer_records_nothing() {
    let run = |mutant| {
        let role = Role { may_be_mutant: true, ..Role::default() };
        let acts: [Act; 4] = [back_up_both, back_up_other, rewrite, end_random_writer];
        let cast = acts.into_iter().map(|act| (role, act, 1, 0)).collect();
        let script = vec![
            (1, Until::End),
            (2, Until::End),
            (3, Until::Before("put index/")),
            (4, Until::End),
            (3, Until::End),
        ];
        play_script(cast, script, mutant)
    };
    let kept = run(None);
    assert!(kept.failure.is_none(), "the rules as written: {:?}", kept.failure);
    assert_eq!((kept.tally.prunes, kept.tally.ended_records), (1, 0), "{:?}", kept.tally);
    let broken = run(Some(Mutant::IgnoresItsEnd));
    assert_eq!(broken.tally.ended_records, 1, "P5 can be broken unnoticed: {:?}", broken.tally);
}

fn retire_other(actor: &mut Actor) -> Result<()> {
    retire_files(actor, &[4])
}

fn back_up_third_file(actor: &mut Actor) -> Result<()> {
    back_up_files(actor, &[(2, None)])
}

/// P2: a prune does not see a snapshot that an earlier record has marked, because the snapshot was
/// committed between its two listings.
#[test]
fn snapshots_of_the_base_that_are_not_marked_count_as_late() {
    let cast: [(Act, bool); 9] = [
        (back_up_one, false),
        (take_over, false),
        (back_up_other, false),
        (back_up_third_file, false),
        (back_up_third_file, false),
        (retire_other, false),
        (retire_first, false),
        (sweep_once, true),
        (sweep_once, true),
    ];
    let script = vec![
        (1, Until::End),
        (2, Until::Before("put commits/")),
        (3, Until::End),
        (4, Until::End),
        (5, Until::End),
        // Forgets the first snapshot, and lists commits for its prune.
        (7, Until::Before("put commits/")),
        (7, Until::Before("put tickets/")),
        (7, Until::Before("list prunes")),
        // This one's `forget` does not name the second snapshot, or the record would attest it.
        (6, Until::Before("put commits/")),
        (2, Until::End),
        // Takes the first snapshot as well, and keeps its container for the second.
        (6, Until::End),
        (7, Until::End),
        (8, Until::End),
        (9, Until::End),
    ];
    rule_is_needed(Mutant::KeepsMarks, 3, &cast, &script);
}

/// P6: the void that another client has put in place of a writer's commit stays, because the writer
/// may be alive.
#[test]
fn voids_of_others_stay() {
    let cast: [(Act, bool); 6] = [
        (back_up_one, false),
        (back_up_one, false),
        (end_random_writer, false),
        (prune_all, false),
        (sweep_once, true),
        (sweep_once, true),
    ];
    let script = vec![
        (1, Until::End),
        (2, Until::Before("put commits/")),
        (3, Until::End),
        (4, Until::End),
        (5, Until::End),
        // Deletes the commits that the record has taken.
        (6, Until::End),
        (2, Until::End),
    ];
    rule_is_needed(Mutant::TakesVoidsOfOthers, 0, &cast, &script);
}
