//! A world in which actors run real code, one storage call at a time, in an order that a seed
//! chooses, and the invariants of `docs/protocol.md`, checked after every call.
//!
//! Each actor has a thread, but only the one that holds the baton runs, and it passes the baton on
//! before its next storage call. Everything else (clock, random numbers, crashes, late requests)
//! comes from the seed as well, so that a seed replays exactly.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt::Write as _;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};

use bytes::Bytes;
use cutpoint_repository::crypto::{HEADER_LEN, Opener, PartKind, Trailer, open_object};
use cutpoint_repository::format::commit::{Commit, Outcome};
use cutpoint_repository::format::extents;
use cutpoint_repository::format::prune::Prune;
use cutpoint_repository::format::recipe::{RecipeChunk, Segment as Piece};
use cutpoint_repository::format::segment::Segment;
use cutpoint_repository::format::toc::{Codec, Form, Toc};
use cutpoint_repository::{
    CipherSuite, Class, Content, Entry, Fingerprint, InitOptions, Keys, ObjectName, PartName,
    Repository, TicketId, Unlock,
};
use cutpoint_storage::{Environment, Error, Kind, Memory, Process, Put, Result, Staged, Storage};
use cutpoint_testing::SplitMix64;
use minicbor::Decoder;

pub(crate) type ChunkName = (Class, Fingerprint);
pub(crate) type ContainerName = (Class, PartName);

const SECOND_NS: u64 = 1_000_000_000;
const HOUR_NS: u64 = 3600 * SECOND_NS;
/// Number of the last calls that a failure shows.
const TRACE_LEN: usize = 80;

/// The abilities of an actor.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Role {
    /// Only sweeps delete (W7).
    pub(crate) may_delete: bool,
    /// Set if the actor breaks the rule that the test breaks.
    pub(crate) may_be_mutant: bool,
    /// Set if the actor may stop for ever in the middle.
    pub(crate) may_crash: bool,
    /// Set if the actor's puts may come late: after an error, or a second time.
    pub(crate) has_bad_network: bool,
}

/// The order of actors, in tests that determine it. Each line is an actor and a moment; a call is
/// given by its prefix, as `put commits/`.
pub(crate) type Script = Vec<(usize, Until)>;

/// The moment at which the next line of a script begins.
#[derive(Clone, Debug)]
pub(crate) enum Until {
    /// Before a call with this prefix.
    Before(&'static str),
    /// The end of the actor.
    End,
}

/// The world.
#[derive(Debug)]
pub(crate) struct World {
    state: Mutex<State>,
    memory: Memory,
}

#[derive(Debug)]
struct State {
    random: SplitMix64,
    actors: Vec<Actor>,
    running: Option<usize>,
    has_begun: bool,
    is_over: bool,
    failure: Option<String>,
    step: u64,
    step_max: u64,
    clock_ns: u64,
    late: Vec<(u64, String, Bytes)>,
    /// Staged objects that are not put yet: the name, and the time at which each was begun.
    staged: BTreeMap<u64, (String, u64)>,
    staged_count: u64,
    /// Number of puts that found that another client had removed the staged object.
    unstaged_count: u64,
    /// The stamp of each object, except for those that came late.
    stamps: HashMap<String, i64>,
    script: Option<std::vec::IntoIter<(usize, Until)>>,
    line: Option<(usize, Until)>,
    trace: Vec<String>,
    trace_hash: u64,
    ledger: Ledger,
}

#[derive(Debug)]
struct Actor {
    role: Role,
    weight: u64,
    asleep_until: u64,
    is_dead: bool,
    is_done: bool,
    pending: String,
    wake: Arc<Condvar>,
}

/// The present and all earlier objects, decoded.
#[derive(Debug, Default)]
struct Ledger {
    keys: Option<Keys>,
    /// Every name that ever existed, with its bytes (I1, I3).
    ever: HashMap<String, Bytes>,
    /// The bytes that were sealed under each key, by the header that determines the key (I1).
    sealed: HashMap<[u8; 48], Bytes>,
    present: BTreeSet<String>,
    commits: BTreeMap<TicketId, Arc<Commit>>,
    prunes: BTreeMap<u64, Arc<Prune>>,
    segments: HashMap<PartName, Arc<Segment>>,
    containers: HashMap<ContainerName, Arc<Held>>,
    chunks: HashMap<ChunkName, Arc<Vec<u8>>>,
    /// Chunks that have ever been stored as a full chunk.
    full_chunks: HashSet<ChunkName>,
    needs: HashMap<TicketId, Arc<BTreeSet<ChunkName>>>,
    deletions: u64,
    delta_chunks: u64,
    delta_chunk_hits: u64,
    delta_chunks_deleted: u64,
    /// Number of records of writers that had ended before.
    ended_records: u64,
}

/// The content of a container.
#[derive(Debug, Default)]
struct Held {
    full_chunks: Vec<Fingerprint>,
    /// Each delta chunk with the references of its region.
    delta_chunks: Vec<(Fingerprint, Arc<Vec<Fingerprint>>)>,
}

/// Counts of what happened, for the report.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) steps: u64,
    pub(crate) snapshots: u64,
    pub(crate) voids: u64,
    pub(crate) prunes: u64,
    pub(crate) rescues: u64,
    pub(crate) sweeps: u64,
    pub(crate) deletions: u64,
    pub(crate) crashes: u64,
    /// Number of stored delta chunks.
    pub(crate) delta_chunks: u64,
    /// Number of chunks that a writer found to be stored only as delta chunks.
    pub(crate) delta_chunk_hits: u64,
    /// Number of delta chunks that were deleted with their container.
    pub(crate) delta_chunks_deleted: u64,
    /// Number of records of writers that had ended before.
    pub(crate) ended_records: u64,
    /// Number of puts that found their staged object removed.
    pub(crate) unstaged: u64,
}

impl Tally {
    /// Adds the counts of another run.
    pub(crate) fn add(&mut self, other: &Tally) {
        self.steps += other.steps;
        self.snapshots += other.snapshots;
        self.voids += other.voids;
        self.prunes += other.prunes;
        self.rescues += other.rescues;
        self.sweeps += other.sweeps;
        self.deletions += other.deletions;
        self.crashes += other.crashes;
        self.delta_chunks += other.delta_chunks;
        self.delta_chunk_hits += other.delta_chunk_hits;
        self.delta_chunks_deleted += other.delta_chunks_deleted;
        self.ended_records += other.ended_records;
        self.unstaged += other.unstaged;
    }
}

/// Returns `true` if the clients in the runs of this seed take each other for dead over and over.
pub(crate) fn is_rough(seed: u64) -> bool {
    seed % 5 == 4
}

fn over() -> Error {
    Error::new(Kind::Interrupted, "", "this process has been stopped")
}

impl World {
    /// Creates a world with a new, empty repository. A `script` replaces chance by a fixed order.
    pub(crate) fn new(seed: u64, step_max: u64, script: Option<Script>) -> Arc<World> {
        let world = Arc::new(World {
            state: Mutex::new(State {
                random: SplitMix64::new(seed ^ 0x5eed),
                actors: Vec::new(),
                running: None,
                has_begun: false,
                is_over: false,
                failure: None,
                step: 0,
                step_max,
                clock_ns: 1_000 * 24 * HOUR_NS,
                late: Vec::new(),
                staged: BTreeMap::new(),
                staged_count: 0,
                unstaged_count: 0,
                stamps: HashMap::new(),
                script: script.map(Vec::into_iter),
                line: None,
                trace: Vec::new(),
                trace_hash: 0,
                ledger: Ledger::default(),
            }),
            memory: Memory::new(),
        });
        let options = InitOptions {
            suite: CipherSuite::None,
            cut: "fixed".to_owned(),
            region_size: 16 * 1024,
            container_size: 4 * 1024 * 1024,
            compression_level: 1,
            delta_chunks: true,
            // Mostly off, as by default.
            parity_percent: if seed % 8 == 5 { 10 } else { 0 },
        };
        // The founder of the repository is not an actor: it ends before the others begin.
        let founder = world.add_actor(Role { may_delete: true, ..Role::default() });
        let (storage, environment) = world.sides_of(founder, seed);
        let repository = Repository::init(storage, environment, &Unlock::Nothing, &options)
            .expect("an empty memory takes a repository");
        let mut state = world.lock();
        state.ledger.keys = Some(repository.keys().clone());
        state.actors[founder].is_done = true;
        drop(state);
        world
    }

    /// Adds an actor and returns its number.
    pub(crate) fn add_actor(&self, role: Role) -> usize {
        let mut state = self.lock();
        let weight = 5 + state.random.next() % 100;
        state.actors.push(Actor {
            role,
            weight,
            asleep_until: 0,
            is_dead: false,
            is_done: false,
            pending: String::new(),
            wake: Arc::default(),
        });
        state.actors.len() - 1
    }

    fn sides_of(
        self: &Arc<World>,
        actor: usize,
        seed: u64,
    ) -> (Arc<dyn Storage>, Arc<dyn Environment>) {
        let mut random = SplitMix64::new(seed.wrapping_mul(1009).wrapping_add(actor as u64));
        // Wall clocks are wrong by days, in either direction, and in rough runs by up to forty
        // days.
        let skew_s = match random.below(3) {
            0 => 0,
            _ if is_rough(seed) => random.below(80 * 24 * 3600) as i64 - 40 * 24 * 3600,
            _ => random.below(5 * 24 * 3600) as i64 - 2 * 24 * 3600,
        };
        let skew_ns = skew_s * 1_000_000_000;
        let storage = Turnstile { world: Arc::downgrade(self), actor, skew_ns };
        let random = Mutex::new(random);
        let place = Place { world: Arc::downgrade(self), actor, random, skew_ns };
        (Arc::new(storage), Arc::new(place))
    }

    /// Returns the repository as the actor opens it.
    pub(crate) fn repository(self: &Arc<World>, actor: usize, seed: u64) -> Arc<Repository> {
        let (storage, environment) = self.sides_of(actor, seed);
        let repository = Repository::open(storage, environment, &Unlock::Nothing);
        Arc::new(repository.expect("the repository opens"))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the baton to the first actor.
    pub(crate) fn begin(&self) {
        let mut state = self.lock();
        state.has_begun = true;
        state.pass_on();
    }

    /// Waits for the first turn. Must be called by an actor's thread before anything else.
    pub(crate) fn enter(&self, actor: usize) {
        let wake = self.lock().actors[actor].wake.clone();
        let mut state = self.lock();
        while !(state.running == Some(actor) || state.is_over) {
            state = wake.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Ends the actor, and passes the baton on.
    pub(crate) fn leave(&self, actor: usize) {
        let mut state = self.lock();
        state.actors[actor].is_done = true;
        if state.running == Some(actor) {
            state.pass_on();
        }
    }

    /// Records a failure, which stops all actors.
    pub(crate) fn fail(&self, message: impl Into<String>) {
        self.lock().fail(message.into());
    }

    /// Returns the failure, if there is one.
    pub(crate) fn failure(&self) -> Option<String> {
        self.lock().failure.clone()
    }

    /// Returns a number that depends on every call and its answer.
    pub(crate) fn trace_hash(&self) -> u64 {
        self.lock().trace_hash
    }

    /// Returns the counts.
    pub(crate) fn tally(&self) -> Tally {
        let state = self.lock();
        let count = |is: fn(&Outcome) -> bool| {
            state.ledger.commits.values().filter(|commit| is(&commit.outcome)).count() as u64
        };
        Tally {
            steps: state.step,
            snapshots: count(|outcome| matches!(outcome, Outcome::Snapshot(_))),
            voids: count(|outcome| matches!(outcome, Outcome::Void)),
            prunes: state.ledger.prunes.len() as u64,
            rescues: count(|outcome| matches!(outcome, Outcome::Rescue)),
            sweeps: count(|outcome| matches!(outcome, Outcome::Swept(_))),
            deletions: state.ledger.deletions,
            crashes: state.actors.iter().filter(|actor| actor.is_dead).count() as u64,
            delta_chunks: state.ledger.delta_chunks,
            delta_chunk_hits: state.ledger.delta_chunk_hits,
            delta_chunks_deleted: state.ledger.delta_chunks_deleted,
            ended_records: state.ledger.ended_records,
            unstaged: state.unstaged_count,
        }
    }

    /// Waits while other actors make `turns` calls.
    pub(crate) fn pause(&self, actor: usize, turns: u64) -> Result<()> {
        {
            let mut state = self.lock();
            state.actors[actor].asleep_until = state.step + turns;
        }
        self.call(actor, "pause".to_owned(), |_, _| Ok(()))
    }

    /// Returns the entries of a folder. An oracle.
    pub(crate) fn entries(&self, content: &Content) -> Vec<Entry> {
        let state = self.lock();
        let mut entries = Vec::new();
        state.ledger.walk(content, true, &mut BTreeSet::new(), &mut entries).ok();
        entries
    }

    /// Returns `true` if a prune has taken the snapshot.
    pub(crate) fn is_taken(&self, snapshot: TicketId) -> bool {
        self.lock().ledger.taken().contains(&snapshot)
    }

    /// Returns `true` if `commits/<t>` is a snapshot, or was one.
    pub(crate) fn was_snapshot(&self, ticket: TicketId) -> bool {
        self.lock().ledger.needs.contains_key(&ticket)
    }

    /// Records that a writer has found the chunk to be stored already.
    pub(crate) fn was_hit(&self, chunk: ChunkName) {
        let ledger = &mut self.lock().ledger;
        ledger.delta_chunk_hits += u64::from(!ledger.full_chunks.contains(&chunk));
    }

    /// Removes every container of writers that store again: those without a commit, and those of
    /// rescues.
    pub(crate) fn lose_stored_again(&self) {
        let ledger = &mut self.lock().ledger;
        let is_lost = |name: &String| match ObjectName::parse(name) {
            Ok(ObjectName::Container(_, part)) => {
                let commit = ledger.commits.get(&part.ticket);
                commit.is_none_or(|commit| matches!(commit.outcome, Outcome::Rescue))
            }
            _ => false,
        };
        let lost: Vec<String> =
            ledger.present.iter().filter(|name| is_lost(name)).cloned().collect();
        assert!(!lost.is_empty(), "nothing was stored again");
        for name in lost {
            self.memory.delete(&name).expect("memory deletes");
            ledger.present.remove(&name);
        }
    }

    /// Returns the number of deleted objects so far.
    pub(crate) fn deletions(&self) -> u64 {
        self.lock().ledger.deletions
    }

    /// Makes one call of an actor: waits for its turn, acts, checks.
    fn call<T>(
        &self,
        actor: usize,
        what: String,
        act: impl FnOnce(&mut State, &Memory) -> Result<T>,
    ) -> Result<T> {
        let mut state = self.lock();
        if !state.has_begun {
            return act(&mut state, &self.memory);
        }
        state.actors[actor].pending.clone_from(&what);
        if state.running == Some(actor) {
            state.pass_on();
        }
        let wake = state.actors[actor].wake.clone();
        while !(state.running == Some(actor) || state.is_over) {
            state = wake.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.is_over || state.actors[actor].is_dead {
            return Err(over());
        }
        state.step += 1;
        let is_scripted = state.script.is_some();
        state.clock_ns += match state.random.below(2000) {
            _ if is_scripted => SECOND_NS / 10,
            0 => 13 * HOUR_NS,
            1 => 25 * HOUR_NS,
            2..6 => 2 * HOUR_NS,
            6..40 => 90 * SECOND_NS,
            _ => SECOND_NS / 10,
        };
        state.deliver_late(&self.memory);
        let result = act(&mut state, &self.memory);
        state.note(actor, &what, result.is_ok());
        if state.step >= state.step_max {
            state.stop();
        }
        result
    }
}

impl State {
    fn fail(&mut self, message: String) {
        if self.failure.is_none() {
            let mut text = message;
            for line in &self.trace[self.trace.len().saturating_sub(TRACE_LEN)..] {
                let _ = write!(text, "\n  {line}");
            }
            self.failure = Some(text);
        }
        self.stop();
    }

    fn stop(&mut self) {
        self.is_over = true;
        self.actors.iter().for_each(|actor| actor.wake.notify_all());
    }

    fn note(&mut self, actor: usize, what: &str, is_ok: bool) {
        let line =
            format!("{:5} {actor} {what}{}", self.step, if is_ok { "" } else { " -> error" });
        for byte in line.bytes() {
            self.trace_hash = (self.trace_hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
        self.trace.push(line);
        if self.trace.len() > 4 * TRACE_LEN {
            self.trace.drain(..2 * TRACE_LEN);
        }
    }

    /// Chooses the next actor.
    fn pass_on(&mut self) {
        if self.is_over {
            return;
        }
        let next =
            if self.script.is_some() { self.next_of_script() } else { self.next_by_chance() };
        match next {
            Some(next) => {
                self.running = Some(next);
                self.actors[next].wake.notify_all();
            }
            None => self.stop(),
        }
    }

    fn next_of_script(&mut self) -> Option<usize> {
        loop {
            if let Some((actor, until)) = &self.line {
                let each = &self.actors[*actor];
                let is_reached = match until {
                    Until::Before(call) => each.pending.starts_with(call),
                    Until::End => false,
                };
                if !each.is_done && !is_reached {
                    return Some(*actor);
                }
            }
            self.line = self.script.as_mut().and_then(Iterator::next);
            self.line.as_ref()?;
        }
    }

    fn next_by_chance(&mut self) -> Option<usize> {
        loop {
            let step = self.step;
            let awake =
                |actor: &Actor| !actor.is_done && !actor.is_dead && actor.asleep_until <= step;
            let total: u64 = self.actors.iter().filter(|a| awake(a)).map(|a| a.weight).sum();
            if total == 0 {
                // All actors sleep: time passes until the first wakes up.
                let sleeping = self.actors.iter().filter(|a| !a.is_done && !a.is_dead);
                self.step = sleeping.map(|actor| actor.asleep_until).min()?;
                continue;
            }
            let mut number = self.random.next() % total;
            let chosen = self.actors.iter().position(|actor| {
                if !awake(actor) {
                    return false;
                }
                let is_it = number < actor.weight;
                number = number.saturating_sub(actor.weight);
                is_it
            })?;
            if self.random.below(60) == 0 {
                self.actors[chosen].weight = [1, 30, 100, 400][self.random.below(4)];
            }
            if self.actors[chosen].role.may_crash && self.random.below(600) == 0 {
                self.actors[chosen].is_dead = true;
                continue;
            }
            return Some(chosen);
        }
    }

    /// Delivers requests that seemed lost, or were sent twice.
    fn deliver_late(&mut self, memory: &Memory) {
        let step = self.step;
        let mut at = 0;
        while at < self.late.len() {
            if self.late[at].0 > step {
                at += 1;
                continue;
            }
            let (_, name, bytes) = self.late.swap_remove(at);
            let put = self.put(memory, &name, bytes);
            self.note(usize::MAX, &format!("late put {name} {put:?}"), true);
        }
    }

    fn put(&mut self, memory: &Memory, name: &str, bytes: Bytes) -> Result<Put> {
        if let Err(message) = self.ledger.attempt(name, &bytes) {
            self.fail(message);
            return Err(over());
        }
        let put = memory.put_new(name, bytes.clone())?;
        if put == Put::Created
            && let Err(message) = self.ledger.created(name, &bytes)
        {
            self.fail(message);
            return Err(over());
        }
        Ok(put)
    }

    fn delete(&mut self, memory: &Memory, actor: usize, name: &str) -> Result<()> {
        let result = if self.actors[actor].role.may_delete {
            self.ledger.may_delete(name)
        } else {
            Err(format!("W7: actor {actor} deletes {name}"))
        };
        memory.delete(name)?;
        if let Err(message) = result.and_then(|()| self.ledger.deleted(name)) {
            self.fail(message);
            return Err(over());
        }
        Ok(())
    }
}

impl Ledger {
    /// I1: no name is put twice with different bytes, and nothing is sealed twice under one key.
    fn attempt(&mut self, name: &str, bytes: &Bytes) -> Result<(), String> {
        // Several clients may put these, by design, and the first one wins.
        let is_contended = name.starts_with("commits/") || name.starts_with("prunes/");
        if let Some(first) = self.ever.get(name)
            && first != bytes
            && !is_contended
        {
            return Err(format!("I1: {name} is put with other bytes than before"));
        }
        let Some(header) = bytes.first_chunk::<48>().filter(|_| !name.starts_with("tmp/")) else {
            return Ok(());
        };
        let sealed = self.sealed.entry(*header).or_insert_with(|| bytes.clone());
        if sealed != bytes {
            return Err(format!("I1: {name} is sealed twice under one key and nonce"));
        }
        Ok(())
    }

    fn created(&mut self, name: &str, bytes: &Bytes) -> Result<(), String> {
        let first = self.ever.entry(name.to_owned()).or_insert_with(|| bytes.clone());
        if first != bytes {
            return Err(format!("I3: {name} has two values"));
        }
        self.present.insert(name.to_owned());
        let (Some(keys), Ok(name)) = (self.keys.clone(), ObjectName::parse(name)) else {
            return Ok(());
        };
        let is_new = self.decode(&keys, name, bytes).map_err(|error| error.to_string())?;
        if is_new { self.check() } else { Ok(()) }
    }

    /// Reads what was put. Returns `true` if it can change what resolves.
    fn decode(&mut self, keys: &Keys, name: ObjectName, bytes: &Bytes) -> Result<bool> {
        match name {
            ObjectName::Commit(ticket) => {
                let commit = Commit::decode(&open_object(keys, name, bytes)?)?;
                if let Some(snapshot) = commit.snapshot() {
                    let mut needs = BTreeSet::new();
                    self.walk(&snapshot.root, true, &mut needs, &mut Vec::new())
                        .map_err(|error| error.of(format!("I2: snapshot {ticket}")))?;
                    self.needs.insert(ticket, Arc::new(needs));
                }
                self.commits.insert(ticket, Arc::new(commit));
                Ok(true)
            }
            ObjectName::Prune(number) => {
                let prune = Prune::decode(&open_object(keys, name, bytes)?)?;
                self.no_held_is_taken(number, &prune)?;
                let has_ended = prune.ticket.is_some_and(|id| self.commits.contains_key(&id));
                self.ended_records += u64::from(has_ended);
                self.prunes.insert(number, Arc::new(prune));
                Ok(true)
            }
            ObjectName::Segment(part) => {
                let segment = Segment::decode(&open_object(keys, name, bytes)?)?;
                self.segments.insert(part, Arc::new(segment));
                Ok(false)
            }
            ObjectName::Container(class, part) => {
                let held = self.decode_container(keys, name, class, bytes)?;
                self.delta_chunks += held.delta_chunks.len() as u64;
                self.containers.insert((class, part), Arc::new(held));
                Ok(false)
            }
            _ => Ok(false),
        }
    }

    /// P5: snapshots that were held before a prune are not in its F.
    fn no_held_is_taken(&self, number: u64, prune: &Prune) -> Result<()> {
        let mut held = BTreeSet::new();
        for (_, before) in self.prunes.range(..number) {
            held.retain(|id| !before.released.contains(id));
            held.extend(before.held.iter().copied());
        }
        match prune.forgotten.iter().find(|id| held.contains(id)) {
            None => Ok(()),
            Some(id) => Err(Error::invalid(id, "P5: is held, and taken")),
        }
    }

    fn decode_container(
        &mut self,
        keys: &Keys,
        name: ObjectName,
        class: Class,
        bytes: &Bytes,
    ) -> Result<Held> {
        let opener = Opener::new(keys, name, &bytes[..HEADER_LEN])?;
        let trailer = Trailer::decode(&name, bytes, bytes.len() as u64)?;
        let open = |kind, offset: u64, len: u32| {
            let start = usize::try_from(offset).expect("it fits");
            let mut part = bytes[start..start + len as usize].to_vec();
            opener.open(kind, &mut part).map(|()| part)
        };
        let toc = open(PartKind::Toc, trailer.offset, trailer.length)?;
        let toc = Toc::decode(&toc, trailer.offset)?;
        let mut regions = Vec::new();
        for (number, region) in (0..).zip(&toc.regions) {
            let kind = PartKind::Region(number);
            let part = open(kind, u64::from(region.offset), region.stored_len)?;
            regions.push(match region.codec {
                Codec::Store => part,
                Codec::Zstd => zstd::bulk::decompress(&part, region.raw_len as usize)
                    .map_err(|error| Error::corrupt(name, error))?,
            });
        }
        let mut held = Held::default();
        let references = toc.regions.iter().map(|region| Arc::new(region.references.clone()));
        let references: Vec<_> = references.collect();
        for chunk in &toc.chunks {
            let start = chunk.offset as usize;
            let region = &regions[usize::from(chunk.region)];
            let payload = &region[start..start + chunk.payload_len as usize];
            let references = &references[usize::from(chunk.region)];
            let bytes = if chunk.form == Form::Delta {
                held.delta_chunks.push((chunk.fingerprint, references.clone()));
                self.rebuild(class, payload, chunk.chunk_len, references)?
            } else {
                held.full_chunks.push(chunk.fingerprint);
                self.full_chunks.insert((class, chunk.fingerprint));
                payload.to_vec()
            };
            if keys.fingerprint(class, &bytes) != chunk.fingerprint {
                return Err(Error::corrupt(name, "R4: a chunk is not what its record says"));
            }
            self.chunks.entry((class, chunk.fingerprint)).or_insert_with(|| Arc::new(bytes));
        }
        Ok(held)
    }

    /// Returns the bytes of a delta chunk from its full chunks, wherever they were once stored.
    fn rebuild(
        &self,
        class: Class,
        payload: &[u8],
        chunk_len: u32,
        references: &[Fingerprint],
    ) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        for extent in extents::decode(payload, chunk_len, references.len())? {
            let reference = references[usize::from(extent.reference)];
            let whole = self.chunks.get(&(class, reference));
            let start = extent.offset as usize;
            let extent = whole.and_then(|whole| whole.get(start..start + extent.len as usize));
            let extent = extent.ok_or_else(|| Error::missing(reference, "was never stored"))?;
            bytes.extend_from_slice(extent);
        }
        Ok(bytes)
    }

    /// Collects the chunks of a stream, and for a folder those below it.
    fn walk(
        &self,
        content: &Content,
        is_tree: bool,
        needs: &mut BTreeSet<ChunkName>,
        entries: &mut Vec<Entry>,
    ) -> Result<()> {
        let meta = |fingerprint: &Fingerprint| {
            self.chunks
                .get(&(Class::Meta, *fingerprint))
                .ok_or_else(|| Error::missing(fingerprint, "was never stored"))
        };
        match content {
            Content::Empty | Content::Raw(_) => Ok(()),
            Content::Recipe(fingerprint) => {
                needs.insert((Class::Meta, *fingerprint));
                let recipe = RecipeChunk::decode(meta(fingerprint)?)?;
                if recipe.level == 0 {
                    return self.walk(&Content::Segments(recipe.segments), is_tree, needs, entries);
                }
                for piece in &recipe.segments {
                    if let Piece::Chunk { fingerprint, .. } = piece {
                        let below = Content::Recipe(*fingerprint);
                        self.walk(&below, is_tree, needs, entries)?;
                    }
                }
                Ok(())
            }
            Content::Segments(pieces) => {
                for piece in pieces {
                    let Piece::Chunk { fingerprint, .. } = piece else { continue };
                    if !is_tree {
                        needs.insert((Class::Data, *fingerprint));
                        continue;
                    }
                    needs.insert((Class::Meta, *fingerprint));
                    let bytes = meta(fingerprint)?;
                    let d = &mut Decoder::new(bytes);
                    while d.position() < bytes.len() {
                        let entry = Entry::decode(d)?;
                        let is_folder = entry.kind == cutpoint_repository::EntryKind::Folder;
                        self.walk(&entry.content, is_folder, needs, &mut Vec::new())?;
                        entries.push(entry);
                    }
                }
                Ok(())
            }
        }
    }

    fn taken(&self) -> HashSet<TicketId> {
        self.prunes.values().flat_map(|prune| prune.forgotten.iter().copied()).collect()
    }

    /// I4: nothing is deleted except what a prune has condemned or superseded, tickets of ended
    /// writers, and commits of snapshots whose prune was swept.
    fn may_delete(&self, name: &str) -> Result<(), String> {
        let is_fine = match ObjectName::parse(name) {
            Ok(ObjectName::Ticket { ticket, .. }) => self.commits.contains_key(&ticket),
            Ok(ObjectName::Segment(part)) => {
                self.prunes.values().any(|prune| prune.superseded.contains(&part))
            }
            Ok(
                ObjectName::Container(class, part)
                | ObjectName::Parity { class, container: part, .. },
            ) => self.prunes.values().any(|prune| prune.condemned.contains(&(class, part))),
            Ok(ObjectName::Commit(ticket)) => self.commits.values().any(|commit| {
                let Outcome::Swept(number) = commit.outcome else { return false };
                self.prunes.get(&number).is_some_and(|prune| prune.forgotten.contains(&ticket))
            }),
            Ok(_) => false,
            Err(_) => name.starts_with("tmp/"),
        };
        if is_fine { Ok(()) } else { Err(format!("I4: {name} is deleted")) }
    }

    fn deleted(&mut self, name: &str) -> Result<(), String> {
        if self.present.remove(name) {
            self.deletions += 1;
            if let Ok(ObjectName::Container(class, part)) = ObjectName::parse(name)
                && let Some(held) = self.containers.get(&(class, part))
            {
                self.delta_chunks_deleted += held.delta_chunks.len() as u64;
            }
        }
        if let Ok(ObjectName::Commit(ticket)) = ObjectName::parse(name) {
            self.commits.remove(&ticket);
        }
        if name.starts_with("tickets/") { Ok(()) } else { self.check() }
    }

    /// I2: each snapshot that no prune has taken resolves to existing, named records. I5: all
    /// references of a delta chunk's region resolve to full chunks.
    fn check(&self) -> Result<(), String> {
        let mut named: BTreeSet<PartName> = BTreeSet::new();
        named.extend(self.commits.values().flat_map(|commit| &commit.segments));
        named.extend(self.prunes.values().flat_map(|prune| &prune.published));
        for superseded in self.prunes.values().flat_map(|prune| &prune.superseded) {
            named.remove(superseded);
        }
        let mut full_chunks: HashSet<ChunkName> = HashSet::new();
        let mut delta_chunks: HashMap<ChunkName, Vec<&[Fingerprint]>> = HashMap::new();
        for part in named {
            let path = ObjectName::Segment(part).to_string();
            let segment = self.segments.get(&part).filter(|_| self.present.contains(&path));
            let Some(segment) = segment else {
                return Err(format!("I2: {path} is named, but does not exist"));
            };
            for container in &segment.containers {
                let path = ObjectName::Container(container.class, container.name).to_string();
                if !self.present.contains(&path) {
                    continue;
                }
                if let Some(held) = self.containers.get(&(container.class, container.name)) {
                    full_chunks
                        .extend(held.full_chunks.iter().map(|chunk| (container.class, *chunk)));
                    for (chunk, references) in &held.delta_chunks {
                        let known = delta_chunks.entry((container.class, *chunk)).or_default();
                        known.push(references);
                    }
                }
            }
        }
        let taken = self.taken();
        for ticket in self.commits.keys().filter(|ticket| !taken.contains(ticket)) {
            let Some(needs) = self.needs.get(ticket) else { continue };
            for need @ (class, chunk) in needs.iter().filter(|need| !full_chunks.contains(need)) {
                let Some(delta_chunks) = delta_chunks.get(need) else {
                    return Err(format!(
                        "I2: snapshot {ticket} has lost the {class} chunk {chunk}"
                    ));
                };
                let is_met = |references: &&[Fingerprint]| {
                    references.iter().all(|reference| full_chunks.contains(&(*class, *reference)))
                };
                if !delta_chunks.iter().any(is_met) {
                    return Err(format!(
                        "I5: snapshot {ticket} has lost what the {class} chunk {chunk} refers to"
                    ));
                }
            }
        }
        Ok(())
    }
}

/// The storage as one actor sees it.
#[derive(Clone, Debug)]
struct Turnstile {
    world: Weak<World>,
    actor: usize,
    skew_ns: i64,
}

impl Turnstile {
    fn call<T>(
        &self,
        what: String,
        act: impl FnOnce(&mut State, &Memory) -> Result<T>,
    ) -> Result<T> {
        self.world.upgrade().ok_or_else(over)?.call(self.actor, what, act)
    }
}

/// An object in pieces, staged as in a folder: gathered here, and gone if another client removes
/// it.
#[derive(Debug)]
struct Pieces {
    turnstile: Turnstile,
    number: u64,
    name: String,
    bytes: Vec<u8>,
}

impl Staged for Pieces {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<Put> {
        let bytes = Bytes::from(std::mem::take(&mut self.bytes));
        self.turnstile.put(&self.name, bytes, Some(self.number))
    }
}

impl Drop for Pieces {
    fn drop(&mut self) {
        if let Some(world) = self.turnstile.world.upgrade() {
            world.lock().staged.remove(&self.number);
        }
    }
}

impl Turnstile {
    /// Puts an object that was given at once, or was staged under this number.
    fn put(&self, name: &str, bytes: Bytes, staged: Option<u64>) -> Result<Put> {
        self.call(format!("put {name}"), |state, memory| {
            if staged.is_some_and(|number| state.staged.remove(&number).is_none()) {
                state.unstaged_count += 1;
                // The error that a folder returns.
                return Err(Error::missing(name, "no such file or table of contents"));
            }
            if state.has_begun && state.actors[self.actor].role.has_bad_network {
                let late = state.step + 1 + state.random.next() % 200;
                match state.random.below(120) {
                    // Lost, as it seems, but it may arrive later.
                    0 => {
                        if state.random.below(2) == 0 {
                            state.late.push((late, name.to_owned(), bytes));
                        }
                        return Err(Error::new(Kind::Storage, name, "timed out"));
                    }
                    // Done, but the answer is lost.
                    1 => {
                        let put = state.put(memory, name, bytes)?;
                        self.stamp(state, name, put);
                        return Err(Error::new(Kind::Storage, name, "the connection broke"));
                    }
                    // Sent twice.
                    2..6 => state.late.push((late, name.to_owned(), bytes.clone())),
                    _ => {}
                }
            }
            let put = state.put(memory, name, bytes)?;
            self.stamp(state, name, put);
            Ok(put)
        })
    }

    /// Stamps an object. This storage has no clock of its own, so the wrong clock of the client
    /// that puts an object stamps it, and clients take each other for dead.
    fn stamp(&self, state: &mut State, name: &str, put: Put) {
        if put == Put::Created {
            let now_ns = i64::try_from(state.clock_ns).unwrap_or(i64::MAX);
            state.stamps.insert(name.to_owned(), now_ns.saturating_add(self.skew_ns));
        }
    }
}

impl Storage for Turnstile {
    fn put_new(&self, name: &str, bytes: Bytes) -> Result<Put> {
        self.put(name, bytes, None)
    }

    fn stage(&self, name: &str) -> Result<Option<Box<dyn Staged>>> {
        let number = self.call(format!("stage {name}"), |state, _| {
            let number = state.staged_count;
            state.staged_count += 1;
            state.staged.insert(number, (name.to_owned(), state.clock_ns));
            Ok(number)
        })?;
        let (turnstile, name) = (self.clone(), name.to_owned());
        Ok(Some(Box::new(Pieces { turnstile, number, name, bytes: Vec::new() })))
    }

    fn clean(&self, is_stale: &dyn Fn(&str, u64) -> bool) -> Result<usize> {
        self.call("clean".to_owned(), |state, _| {
            // By the clock of the machine that looks.
            let now_ns = i128::from(state.clock_ns) + i128::from(self.skew_ns);
            let age_s = |born_ns: u64| {
                u64::try_from((now_ns - i128::from(born_ns)) / 1_000_000_000).unwrap_or(0)
            };
            let before = state.staged.len();
            state.staged.retain(|_, (name, born_ns)| !is_stale(name, age_s(*born_ns)));
            Ok(before - state.staged.len())
        })
    }

    fn sync(&self, name: &str) -> Result<()> {
        self.call(format!("sync {name}"), |_, memory| memory.sync(name))
    }

    fn get_at_most(&self, name: &str, len_max: u64) -> Result<Bytes> {
        self.call(format!("get {name}"), |_, memory| memory.get_at_most(name, len_max))
    }

    fn get_range(&self, name: &str, offset: u64, len: usize) -> Result<Bytes> {
        self.call(format!("range {name}"), |_, memory| memory.get_range(name, offset, len))
    }

    fn head(&self, name: &str) -> Result<Option<u64>> {
        self.call(format!("head {name}"), |_, memory| memory.head(name))
    }

    fn stamp_ns(&self, name: &str) -> Result<Option<i64>> {
        self.call(format!("stamp {name}"), |state, _| Ok(state.stamps.get(name).copied()))
    }

    fn list(&self, prefix: &str) -> Result<Vec<(String, u64)>> {
        self.call(format!("list {prefix}"), |_, memory| memory.list(prefix))
    }

    fn delete(&self, name: &str) -> Result<()> {
        self.call(format!("delete {name}"), |state, memory| state.delete(memory, self.actor, name))
    }

    fn describe(&self) -> String {
        "a turnstile".to_owned()
    }
}

/// Clock, random numbers and identity of one actor.
#[derive(Debug)]
struct Place {
    world: Weak<World>,
    actor: usize,
    random: Mutex<SplitMix64>,
    skew_ns: i64,
}

impl Place {
    fn clock_ns(&self) -> u64 {
        self.world.upgrade().map_or(0, |world| world.lock().clock_ns)
    }
}

impl Environment for Place {
    fn now_ns(&self) -> i64 {
        i64::try_from(self.clock_ns()).unwrap_or(i64::MAX) + self.skew_ns
    }

    fn elapsed_ns(&self) -> u64 {
        self.clock_ns()
    }

    fn random(&self, bytes: &mut [u8]) -> Result<()> {
        let mut random = self.random.lock().unwrap_or_else(PoisonError::into_inner);
        bytes.copy_from_slice(&random.take(bytes.len()));
        Ok(())
    }

    fn process(&self) -> Process {
        Process {
            host: format!("host {}", self.actor % 2),
            boot_id: "boot".to_owned(),
            namespace: String::new(),
            process_id: u32::try_from(self.actor).unwrap_or(0),
            started: 1,
        }
    }

    fn machine_id(&self) -> Option<[u8; 16]> {
        Some([u8::from(self.actor % 2 == 1); 16])
    }

    fn may_be_alive(&self, other: &Process) -> bool {
        let Some(world) = self.world.upgrade() else { return true };
        let state = world.lock();
        let actor = state.actors.get(other.process_id as usize);
        other.host != self.process().host || actor.is_some_and(|a| !a.is_dead && !a.is_done)
    }
}
