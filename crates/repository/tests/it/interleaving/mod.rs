//! Concurrent writers, readers, prunes and sweeps, one storage call at a time, in an order that a
//! seed chooses. After every call nothing may be lost (`docs/protocol.md`).
//!
//! `CUTPOINT_SEEDS=100000` runs that many seeds, `CUTPOINT_SEED=7` runs and shows one. All actors
//! are the store's own code; what they do, and to what, is random.

mod world;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crate::interleaving::world::{Role, Script, Tally, Until, World, is_rough};
use crate::support::complete_reader::reader_of_all;
use cutpoint_repository::format::commit::Outcome;
use cutpoint_repository::format::prune::Prune;
use cutpoint_repository::format::recipe::Segment as Piece;
use cutpoint_repository::gc::prune::{self as pruning, OptimizeOptions, PruneOptions};
use cutpoint_repository::gc::sweep::{Sweep, SweepOptions, Sweeper};
use cutpoint_repository::rules::{self, Mutant};
use cutpoint_repository::verify::repair::{IndexOptions, repair_index};
use cutpoint_repository::write::prune_log::{Appended, append};
use cutpoint_repository::write::{DeltaEncoder, Inline, RecipeWriter, TreeWriter, end_writer};
use cutpoint_repository::{
    Class, Committed, Content, Entry, EntryKind, Index, ObjectName, Purpose, Reader, Repository,
    Scope, Snapshot, TicketId, Verify, View, Writer,
};
use cutpoint_storage::{Error, Kind, ObjectKind, Result};
use cutpoint_testing::SplitMix64;

/// Number of chunks, small so that writers meet.
const UNIVERSE: usize = 5;
const STEPS: u64 = 4500;
const SEEDS: u64 = 1000;

/// One actor: its world, its number, its repository, its random numbers.
struct Actor {
    world: Arc<World>,
    number: usize,
    repository: Arc<Repository>,
    random: SplitMix64,
}

impl Actor {
    fn chance(&mut self, one_in: usize) -> bool {
        self.random.below(one_in) == 0
    }

    fn pause(&mut self, turns_max: usize) -> Result<()> {
        let turns = 1 + self.random.below(turns_max) as u64;
        self.world.pause(self.number, turns)
    }
}

/// Returns the bytes of a chunk of the universe. All chunks share their bytes except for one inside
/// and the end.
fn chunk(number: usize) -> Vec<u8> {
    let mut bytes = SplitMix64::bytes(0, 400);
    bytes[50 * number] ^= 1;
    bytes.extend(SplitMix64::bytes(1 + number as u64, 20 * number));
    bytes
}

// ---------------------------------------------------------------------------------------------
// Writers.

/// The sources of a writer's comparisons: the reader of its view, and its own index.
struct Old {
    reader: Reader,
    index: Arc<Index>,
    ticket: TicketId,
}

impl Old {
    fn new(actor: &Actor, inline: &mut Inline) -> Old {
        let index = inline.index().clone();
        let (view, ticket) = (inline.writer().view().clone(), inline.writer().ticket());
        let reader = Reader::new(actor.repository.clone(), Arc::new(index.fork()), view);
        Old { reader, index, ticket }
    }
}

/// Stores a file of the given chunks, as a new version of `old`. A file of more than four chunks
/// gets a recipe.
fn store_file(
    actor: &Actor,
    inline: &mut Inline,
    chunks: &[usize],
    old: Option<&Content>,
) -> Result<Content> {
    let before = Old::new(actor, inline);
    let mut encoder = DeltaEncoder::new(&before.reader, &before.index, before.ticket);
    encoder.begin(old);
    let mut recipe = RecipeWriter::new("fixed");
    for number in chunks {
        let bytes = chunk(*number);
        let (fingerprint, is_new) = inline.store_similar(&bytes, &mut encoder)?;
        if !is_new {
            actor.world.was_hit((Class::Data, fingerprint));
        }
        let length = bytes.len() as u64;
        recipe.push(Piece::Chunk { fingerprint, offset: 0, length }, inline)?;
    }
    recipe.finish(inline)
}

fn store_tree(actor: &Actor, inline: &mut Inline, entries: &[Entry]) -> Result<Content> {
    let mut tree = TreeWriter::new();
    for entry in entries {
        tree.push(entry, actor.repository.keys(), inline)?;
    }
    tree.finish(inline)
}

/// Returns the name of a file, which contains its chunk numbers, so that a reader knows the
/// expected bytes.
fn file_name(place: usize, chunks: &[usize]) -> String {
    let chunks: Vec<String> = chunks.iter().map(ToString::to_string).collect();
    format!("{place} {}", chunks.join(" "))
}

fn size(chunks: &[usize]) -> u64 {
    chunks.iter().map(|number| chunk(*number).len() as u64).sum()
}

/// Makes one backup: files of few chunks, some of them taken over unread from a snapshot of the
/// view (W3).
fn back_up(actor: &mut Actor) -> Result<()> {
    let writer = Writer::begin(actor.repository.clone(), Purpose::Backup)?;
    let ticket = writer.ticket();
    let view = writer.view().clone();
    let parents: Vec<TicketId> =
        view.commits.keys().copied().filter(|id| view.may_take_over(*id)).collect();
    let mut entries: BTreeMap<Vec<u8>, Entry> = BTreeMap::new();
    let mut old: Vec<Content> = Vec::new();
    if !parents.is_empty() && !actor.chance(3) {
        let parent = parents[actor.random.below(parents.len())];
        if let Some(snapshot) = view.commits[&parent].snapshot() {
            for entry in actor.world.entries(&snapshot.root) {
                if entry.kind == EntryKind::File {
                    old.push(entry.content.clone());
                }
                if !actor.chance(3) {
                    entries.insert(entry.name.clone(), entry);
                }
            }
        }
    }
    let mut inline = Inline::new(writer, Verify::Some)?;
    for place in 0..1 + actor.random.below(2) {
        let count = if actor.chance(8) { 6 } else { 1 + actor.random.below(2) };
        let chunks: Vec<usize> = (0..count).map(|_| actor.random.below(UNIVERSE)).collect();
        let mut entry = Entry::new(file_name(place, &chunks), EntryKind::File);
        entry.size = size(&chunks);
        entry.content = store_file(actor, &mut inline, &chunks, old.get(place).or(old.last()))?;
        if actor.chance(4) {
            // In a folder of its own, to be taken over as a full chunk.
            let mut folder = Entry::new(format!("folder {place}"), EntryKind::Folder);
            folder.content = store_tree(actor, &mut inline, &[entry])?;
            entry = folder;
        }
        entries.insert(entry.name.clone(), entry);
        if actor.chance(4) {
            inline.publish()?;
        }
        if actor.chance(6) {
            actor.pause(150)?;
        }
    }
    let entries: Vec<Entry> = entries.into_values().collect();
    let root = store_tree(actor, &mut inline, &entries)?;
    let snapshot = Snapshot { root, ..Snapshot::empty() };
    if actor.chance(2) {
        inline.publish()?;
        // Waits past the next record, if one comes soon, because the record may condemn the chunks
        // that were found.
        let before = actor.world.tally().prunes;
        for _ in 0..8 {
            if actor.world.tally().prunes > before {
                break;
            }
            actor.pause(80)?;
        }
    }
    if inline.commit(Outcome::Snapshot(Box::new(snapshot)))? == Committed::Done
        && !actor.world.was_snapshot(ticket)
    {
        actor.world.fail(format!("promise 1: {ticket} was acknowledged, and is no snapshot"));
    }
    Ok(())
}

// ---------------------------------------------------------------------------------------------
// Readers.

fn read_file(reader: &Reader, entry: &Entry) -> Result<()> {
    let mut bytes = Vec::new();
    for piece in reader.segments(&entry.content) {
        if let Piece::Chunk { fingerprint, .. } = piece? {
            bytes.extend_from_slice(&reader.chunk(Class::Data, &fingerprint)?);
        }
    }
    let name = String::from_utf8_lossy(&entry.name);
    let numbers = name.split(' ').skip(1).map(|number| number.parse().expect("a number"));
    let expected: Vec<u8> = numbers.flat_map(chunk).collect();
    // `Invalid` is returned nowhere else: whatever else happened, this is wrong.
    if bytes == expected { Ok(()) } else { Err(Error::invalid(name, "comes back as other bytes")) }
}

fn read_folder(reader: &Reader, content: &Content) -> Result<()> {
    for entry in reader.tree(content) {
        let entry = entry?;
        match entry.kind {
            EntryKind::Folder => read_folder(reader, &entry.content)?,
            _ => read_file(reader, &entry)?,
        }
    }
    Ok(())
}

/// I6: a reader with an old view restores every snapshot that no prune has taken.
fn read_all(actor: &mut Actor) -> Result<()> {
    let reader = until_quiet(actor, None, |actor| reader_of_all(&actor.repository))?;
    let Some(reader) = reader else { return Ok(()) };
    let view = reader.view();
    for (ticket, snapshot) in view.snapshots() {
        if actor.chance(3) {
            actor.pause(200)?;
        }
        until_quiet(actor, Some(ticket), |_| read_folder(&reader, &snapshot.root))?;
    }
    Ok(())
}

/// Retries `act` until it works or nothing was deleted during an attempt: then the failure is real,
/// unless a prune has taken the snapshot. (A reader lists again once. In this world, without a
/// settle delay, a whole sweep may come between that listing and the next read.)
fn until_quiet<T>(
    actor: &mut Actor,
    snapshot: Option<TicketId>,
    mut act: impl FnMut(&mut Actor) -> Result<T>,
) -> Result<Option<T>> {
    loop {
        let deletions = actor.world.deletions();
        match act(actor) {
            Ok(value) => return Ok(Some(value)),
            Err(error) if error.kind() == Kind::Interrupted => return Err(error),
            Err(_) if snapshot.is_some_and(|id| actor.world.is_taken(id)) => return Ok(None),
            Err(error) => {
                if error.kind() == Kind::Invalid || actor.world.deletions() == deletions {
                    actor.world.fail(format!("I6: a reader cannot restore {snapshot:?}: {error}"));
                    return Err(error);
                }
            }
        }
    }
}

/// Checks what a listing must never show.
fn check(actor: &mut Actor) -> Result<()> {
    let mut seen: Option<View> = None;
    for _ in 0..3 {
        let view = match &seen {
            Some(seen) => seen.list_again(&actor.repository)?,
            None => View::list(&actor.repository)?,
        };
        let numbers: Vec<u64> = view.prunes.keys().copied().collect();
        if numbers.iter().zip(1..).any(|(number, expected)| *number != expected) {
            actor.world.fail(format!("P5: prunes {numbers:?} have a gap"));
        }
        if let Some(seen) = &seen
            && let Some(gone) = seen
                .commits
                .keys()
                .find(|id| !view.commits.contains_key(id) && !view.taken().contains(id))
        {
            actor.world.fail(format!("commit {gone} has vanished"));
        }
        let index = until_quiet(actor, None, |actor| {
            Ok(reader_of_all(&actor.repository)?.index().clone())
        })?;
        if let Some(index) = index {
            for (ticket, snapshot) in view.snapshots() {
                if let Content::Segments(pieces) = &snapshot.root
                    && let Some(Piece::Chunk { fingerprint, .. }) = pieces.first()
                {
                    until_quiet(actor, Some(ticket), |actor| {
                        index.refresh(&View::list(&actor.repository)?)?;
                        let found = index.find(Class::Meta, fingerprint, Scope::Read)?;
                        found.map(|_| ()).ok_or_else(|| Error::missing(fingerprint, "no hint"))
                    })?;
                }
            }
        }
        seen = Some(view);
        actor.pause(100)?;
    }
    Ok(())
}

/// Ends open writers, and removes what they have staged: disruptive, but safe.
fn end_somebody(actor: &mut Actor) -> Result<()> {
    let live = tickets_without_commit(&actor.repository)?;
    if !live.is_empty() {
        let victim = live[actor.random.below(live.len())];
        end_writer(&actor.repository, victim)?;
        let is_stale = |name: &str, _| match ObjectName::parse(name) {
            Ok(ObjectName::Container(_, part)) => part.ticket == victim,
            _ => false,
        };
        actor.repository.storage().clean(&is_stale)?;
    }
    Ok(())
}

/// Rebuilds the index.
fn repair(actor: &mut Actor) -> Result<()> {
    repair_index(&actor.repository, &IndexOptions::default(), &()).map(drop)
}

fn tickets_without_commit(repository: &Repository) -> Result<Vec<TicketId>> {
    let storage = repository.storage();
    let mut tickets = BTreeSet::new();
    for (path, _) in storage.list(ObjectKind::Ticket.folder())? {
        if let Ok(ObjectName::Ticket { ticket, renewal: 0 }) = ObjectName::parse(&path) {
            tickets.insert(ticket);
        }
    }
    for (path, _) in storage.list(ObjectKind::Commit.folder())? {
        if let Ok(ObjectName::Commit(ticket)) = ObjectName::parse(&path) {
            tickets.remove(&ticket);
        }
    }
    Ok(tickets.into_iter().collect())
}

// ---------------------------------------------------------------------------------------------
// Actors that remove.

/// Forgets some snapshots.
fn forget(actor: &mut Actor) -> Result<()> {
    let share = 2 + actor.random.below(3);
    let mut random = actor.random.clone();
    forget_where(actor, |_, _| random.below(share) == 0)
}

fn forget_where(actor: &mut Actor, mut is_it: impl FnMut(&View, TicketId) -> bool) -> Result<()> {
    let mut writer = Writer::begin(actor.repository.clone(), Purpose::Other)?;
    let snapshots = writer.view().snapshots();
    let chosen: Vec<TicketId> =
        snapshots.into_iter().map(|(id, _)| id).filter(|id| is_it(writer.view(), *id)).collect();
    writer.commit(Outcome::Forget(chosen), Vec::new(), &BTreeSet::new())?;
    Ok(())
}

/// Holds a snapshot, or releases one.
fn hold(actor: &mut Actor) -> Result<()> {
    let mut writer = Writer::begin(actor.repository.clone(), Purpose::Other)?;
    let view = writer.view().clone();
    let known: Vec<TicketId> = view.forgotten().difference(&view.taken()).copied().collect();
    let mut known: Vec<TicketId> =
        known.into_iter().chain(view.snapshots().into_iter().map(|(id, _)| id)).collect();
    known.sort_unstable();
    if known.is_empty() {
        return writer.void(Vec::new());
    }
    let chosen = known[actor.random.below(known.len())];
    let mut record = Prune::default();
    if actor.chance(3) { &mut record.released } else { &mut record.held }.push(chosen);
    let judge = |view: &View, _: &[Arc<Prune>], record: Prune| {
        Ok((!view.taken().contains(&chosen)).then_some(record))
    };
    match append(&mut writer, &view, record, &BTreeSet::new(), judge)? {
        Appended::Stopped(_) => writer.void(Vec::new()),
        _ => Ok(()),
    }
}

fn prune(actor: &mut Actor) -> Result<()> {
    if actor.chance(2) {
        forget(actor)?;
    }
    let options = PruneOptions {
        unused_max: [0.0, 0.3, 1.0][actor.random.below(3)],
        segment_count_max: [2, 500][actor.random.below(2)],
        small_count_max: [2, 64, 64][actor.random.below(3)],
        // With 0, no delta chunk is inlined for being cheaper than its references.
        rewrite_bytes_max: [0, u64::MAX, u64::MAX][actor.random.below(3)],
        ..PruneOptions::default()
    };
    pruning::prune(&actor.repository, &options, &(), |_| true).map(drop)
}

/// Stores again what stays, in another order and compressed more.
fn optimize(actor: &mut Actor) -> Result<()> {
    if actor.chance(3) {
        forget(actor)?;
    }
    let options = OptimizeOptions {
        region_size: [16 * 1024, 64 * 1024][actor.random.below(2)],
        compression_level: [1, 3][actor.random.below(2)],
        rewrite_bytes_max: [70_000, u64::MAX, u64::MAX][actor.random.below(3)],
        spares_incompressible: false,
        ..OptimizeOptions::default()
    };
    pruning::optimize(&actor.repository, &options, &(), |_| true).map(drop)
}

/// Forgets every snapshot, and condemns every container.
fn prune_all(actor: &mut Actor) -> Result<()> {
    forget_where(actor, |_, _| true)?;
    pruning::prune(&actor.repository, &PruneOptions::default(), &(), |_| true).map(drop)
}

fn sweep(actor: &mut Actor) -> Result<()> {
    // Commits of deleted snapshots stay, because requests come late in this world.
    let end_others = actor.chance(4);
    let options = SweepOptions { settle_ns: 0, end_others, ..SweepOptions::default() };
    let mut sweeper = Sweeper::new(actor.repository.clone(), options);
    for _ in 0..1 + actor.random.below(15) {
        match sweeper.step(&())? {
            Sweep::Waiting { .. } => actor.pause(20)?,
            _ => return Ok(()),
        }
    }
    // The sweep has waited long enough.
    let options = SweepOptions { end_others: true, ..options };
    Sweeper::new(actor.repository.clone(), options).step(&()).map(drop)
}

// ---------------------------------------------------------------------------------------------
// Runs.

type Act = fn(&mut Actor) -> Result<()>;

/// The actors of a run: (role, action, number of repetitions, turns before it begins).
type Cast = Vec<(Role, Act, usize, usize)>;

fn cast(random: &mut SplitMix64, is_rough: bool) -> Cast {
    let writer =
        Role { may_be_mutant: true, may_crash: true, has_bad_network: true, ..Role::default() };
    let sweeper = Role { may_delete: true, ..writer };
    let mut cast: Cast = Vec::new();
    for _ in 0..3 + random.below(3) {
        cast.push((writer, back_up, 8, random.below(60)));
    }
    for _ in 0..2 {
        cast.push((writer, prune, 8, random.below(200)));
    }
    for _ in 0..1 + random.below(2) {
        cast.push((sweeper, sweep, 8, 50 + random.below(200)));
    }
    if random.below(2) == 0 {
        cast.push((writer, hold, 4, random.below(300)));
    }
    cast.push((writer, end_somebody, if is_rough { 12 } else { 3 }, random.below(500)));
    if is_rough {
        cast.push((writer, repair, 2, random.below(400)));
    }
    let reader = Role::default();
    match random.below(3) {
        0 => cast.push((reader, check, 2, random.below(300))),
        _ => cast.push((reader, read_all, 3, random.below(300))),
    }
    if random.below(4) == 0 {
        cast.push((writer, optimize, 4, random.below(300)));
    }
    cast
}

/// The result of one run.
struct Ran {
    failure: Option<String>,
    tally: Tally,
    trace_hash: u64,
}

fn run(seed: u64, mutant: Option<Mutant>) -> Ran {
    let mut random = SplitMix64::new(seed);
    let cast = cast(&mut random, is_rough(seed));
    let world = World::new(seed, STEPS, None);
    play(seed, &world, cast, mutant)
}

fn play(seed: u64, world: &Arc<World>, cast: Cast, mutant: Option<Mutant>) -> Ran {
    let mut threads = Vec::new();
    for (role, act, times, delay) in cast {
        let number = world.add_actor(role);
        let mut actor = Actor {
            world: world.clone(),
            number,
            repository: world.repository(number, seed),
            random: SplitMix64::new(seed.wrapping_mul(31).wrapping_add(number as u64)),
        };
        threads.push(std::thread::spawn(move || {
            let world = actor.world.clone();
            world.enter(number);
            rules::activate(mutant.filter(|_| role.may_be_mutant));
            let live = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                if delay > 0 && world.pause(number, delay as u64).is_err() {
                    return;
                }
                for _ in 0..times {
                    match act(&mut actor) {
                        Err(error) if error.kind() == Kind::Interrupted => return,
                        // After an unexpected error the run is given up, and a new one begins.
                        Err(error) if !is_expected(&error) => {
                            world.fail(format!("actor {number} fails: {error}"));
                            return;
                        }
                        _ => {}
                    }
                }
            }));
            if live.is_err() {
                world.fail(format!("actor {number} has panicked"));
            }
            world.leave(number);
        }));
    }
    world.begin();
    for thread in threads {
        thread.join().expect("panics were caught");
    }
    Ran { failure: world.failure(), tally: world.tally(), trace_hash: world.trace_hash() }
}

/// Returns `true` for errors that can happen although nothing is wrong with the repository.
fn is_expected(error: &Error) -> bool {
    // A lost request; an object that a sweep deleted between a listing and a read; a client that
    // was faster.
    matches!(error.kind(), Kind::Storage | Kind::Missing | Kind::Conflict)
}

fn seeds_of_command() -> u64 {
    let seeds = std::env::var("CUTPOINT_SEEDS").ok().and_then(|text| text.parse().ok());
    seeds.unwrap_or(SEEDS)
}

fn report(seed: u64, failure: &str) -> String {
    format!(
        "seed {seed}: {failure}\n\nto replay it: CUTPOINT_SEED={seed} cargo test -p cutpoint-repository \
         --test interleaving -- random_interleavings_lose_nothing"
    )
}

#[test]
fn random_interleavings_lose_nothing() {
    if let Some(seed) = std::env::var("CUTPOINT_SEED").ok().and_then(|text| text.parse().ok()) {
        let ran = run(seed, None);
        assert!(ran.failure.is_none(), "{}", report(seed, &ran.failure.unwrap_or_default()));
        return;
    }
    let seeds = seeds_of_command();
    let began = std::time::Instant::now();
    let next = AtomicU64::new(0);
    let total = Mutex::new(Tally::default());
    let failed: Mutex<Option<(u64, String)>> = Mutex::new(None);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::SeqCst);
                    if seed >= seeds || failed.lock().expect("no panics").is_some() {
                        return;
                    }
                    let ran = run(seed, None);
                    total.lock().expect("no panics").add(&ran.tally);
                    if let Some(failure) = ran.failure {
                        failed.lock().expect("no panics").get_or_insert((seed, failure));
                    }
                }
            });
        }
    });
    let total = total.into_inner().expect("no panics");
    println!("{seeds} seeds in {:.1} s: {total:?}", began.elapsed().as_secs_f64());
    let failed = failed.into_inner().expect("no panics");
    if let Some((seed, failure)) = failed {
        panic!("{}", report(seed, &failure));
    }
    // A run in which nothing meets would pass as well.
    let is_wild = total.rescues * 20 > seeds
        && total.delta_chunks > 2 * seeds
        && total.delta_chunk_hits > seeds
        && total.delta_chunks_deleted * 5 > seeds
        && total.unstaged * 20 > seeds;
    assert!(seeds < 100 || is_wild, "the runs are too tame: {total:?}");
}

#[test]
fn seed_replays_exactly() {
    for seed in 0..10 {
        let (first, second) = (run(seed, None), run(seed, None));
        assert_eq!(first.trace_hash, second.trace_hash, "seed {seed} ran differently");
    }
}

/// Returns the number of seeds that it takes to catch a mutant, and what caught it.
fn caught(mutant: Mutant, seeds: u64) -> Option<(u64, String)> {
    (0..seeds).find_map(|seed| Some((seed, run(seed, Some(mutant)).failure?)))
}

/// The mutants that have a script below are met too seldom by chance, and so is W5, which has one
/// in `crash.rs`.
#[test]
fn mutants_are_caught_by_chance() {
    for mutant in [
        Mutant::UsesCondemned,
        Mutant::TakesExistsForOwn,
        Mutant::Overwrites,
        Mutant::TakesNextNumber,
        Mutant::RescuesNothing,
        Mutant::DeletesOpenTickets,
    ] {
        let began = std::time::Instant::now();
        let (seed, failure) = caught(mutant, 300).expect("who breaks a rule is caught");
        let failure = failure.lines().next().unwrap_or_default().to_owned();
        println!("{mutant:?}: seed {seed}, {:.1} s, {failure}", began.elapsed().as_secs_f64());
    }
}

/// Backs up a file of one chunk, always the same.
fn back_up_one(actor: &mut Actor) -> Result<()> {
    back_up_files(actor, &[(0, None)])
}

/// Backs up files of one chunk each. Each comes with the chunk of the file of which it is a new
/// version.
fn back_up_files(actor: &mut Actor, files: &[(usize, Option<usize>)]) -> Result<()> {
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
        entry.content = store_file(actor, &mut inline, &[*chunk], previous.as_ref())?;
        entries.push(entry);
    }
    let root = store_tree(actor, &mut inline, &entries)?;
    let started_ns = actor.repository.environment().now_ns();
    let snapshot = Snapshot { root, started_ns, ..Snapshot::empty() };
    inline.commit(Outcome::Snapshot(Box::new(snapshot)))?;
    Ok(())
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

fn sweep_once(actor: &mut Actor) -> Result<()> {
    let options = SweepOptions { settle_ns: 0, commit_ns: i64::MIN, end_others: false };
    Sweeper::new(actor.repository.clone(), options).step(&()).map(drop)
}

/// Runs a script with all rules kept, then with one broken.
fn rule_is_needed(mutant: Mutant, snapshots: u64, cast: &[(Act, bool)], script: &Script) {
    let run = |mutant| {
        let role = |may_delete| Role { may_be_mutant: true, may_delete, ..Role::default() };
        let cast = cast.iter().map(|(act, may_delete)| (role(*may_delete), *act, 1, 0)).collect();
        play_script(cast, script.clone(), mutant)
    };
    let kept = run(None);
    assert!(kept.failure.is_none(), "the rules as written: {}", kept.failure.unwrap_or_default());
    assert_eq!(kept.tally.snapshots, snapshots, "the script no longer runs as it says");
    let failure = run(Some(mutant)).failure;
    let is_loss = |failure: &String| failure.starts_with("I2") || failure.starts_with("I5");
    assert!(failure.as_ref().is_some_and(is_loss), "{mutant:?} stays unnoticed: {failure:?}");
}

/// Runs a sweep past its listing of tickets, up to the listing of commits that shows which writers
/// have ended.
fn past_tickets(actor: usize) -> Script {
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

/// P5: the segments that only the commit of a taken snapshot has named.
#[test]
fn segments_of_taken_snapshots_are_published_again() {
    /// Forgets the snapshot that has published segments, or one that has not; prunes and sweeps.
    fn retire(actor: &mut Actor) -> Result<()> {
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
    let cast: [(Act, bool); 5] = [
        (back_up_one, false),
        (back_up_one, false),
        (back_up_one, false),
        (retire, true),
        (retire, true),
    ];
    let script = (1..=5).map(|actor| (actor, Until::End)).collect();
    rule_is_needed(Mutant::DropsSegmentsOfTaken, 2, &cast, &script);
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

/// S3: a late snapshot has a delta chunk in a staying container, with references that are condemned.
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
    assert_eq!(
        (kept.tally.snapshots, kept.tally.prunes, kept.tally.sweeps),
        (2, 1, 1),
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
        let acts: [Act; 4] = [back_up_both, back_up_other, rewrite, end_somebody];
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
