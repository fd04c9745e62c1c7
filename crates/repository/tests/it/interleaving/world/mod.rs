//! A world in which actors run real code, one storage call at a time, in an order that a seed
//! chooses, and the invariants of `docs/protocol.md`, checked after every call.
//!
//! Each actor has a thread, but only the one that holds the baton runs, and it passes the baton on
//! before its next storage call. Everything else (clock, random numbers, crashes, late requests)
//! comes from the seed as well, so that a seed replays exactly.

mod clients;
mod ledger;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write as _;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use cutpoint_repository::format::commit::Outcome;
use cutpoint_repository::gc::sweep::{AtOnce, SweepOptions};
use cutpoint_repository::{Content, Entry, ObjectName, TicketId};
use cutpoint_storage::{Error, Kind, Memory, ObjectKind, Put, Result, Storage};
use cutpoint_testing::SplitMix64;
use ledger::{ChunkName, Ledger};
use tempfile::TempDir;

const SECOND_NS: u64 = 1_000_000_000;

const HOUR_NS: u64 = 3600 * SECOND_NS;

/// The time by which the listings of some actors lag: a little less than is assumed.
const LAG_NS: u64 = 290 * SECOND_NS;

/// The time at which the world begins.
const CLOCK_BEGIN_NS: u64 = 1_000 * 24 * HOUR_NS;

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
    /// Set if the actor's listings may show what others have put a while later.
    pub(crate) lags: bool,
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
    /// Set if records are swept as soon as they are seen, and otherwise never settle.
    sweeps_at_once: bool,
    memory: Memory,
    /// The caches of the actors.
    caches: TempDir,
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
    /// The time of each put, and the actor that made it.
    births: HashMap<String, (Option<usize>, u64)>,
    /// The seed of the locks of objects, if the storage keeps some of them from deletion.
    locks: Option<u64>,
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
    /// Number of delta chunks that refer to a chunk of the same writer.
    pub(crate) delta_chunks_of_run: u64,
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
        self.delta_chunks_of_run += other.delta_chunks_of_run;
        self.ended_records += other.ended_records;
        self.unstaged += other.unstaged;
    }
}

/// Returns `true` if the clients in the runs of this seed take each other for dead over and over.
pub(crate) fn is_rough(seed: u64) -> bool {
    seed % 5 == 4
}

/// Returns `true` if the records of the runs of this seed are swept as soon as they are seen, and
/// otherwise never settle.
///
/// Few snapshots need a rescue where sweeps come at once, so that most runs sweep by age.
pub(crate) fn sweeps_at_once(seed: u64) -> bool {
    seed.is_multiple_of(3)
}

/// Returns `true` if clients with lagging listings come in the runs of this seed, in which sweeps come
/// at once: one backs up, one prunes.
pub(crate) fn has_lagging_clients(seed: u64) -> bool {
    seed % 12 == 6
}

fn over() -> Error {
    Error::new(Kind::Interrupted, "", "this process has been stopped")
}

impl World {
    /// Creates a world without a repository. A `script` replaces chance by a fixed order.
    fn empty(seed: u64, step_max: u64, script: Option<Script>) -> World {
        World {
            state: Mutex::new(State {
                random: SplitMix64::new(seed ^ 0x5eed),
                actors: Vec::new(),
                running: None,
                has_begun: false,
                is_over: false,
                failure: None,
                step: 0,
                step_max,
                clock_ns: CLOCK_BEGIN_NS,
                late: Vec::new(),
                staged: BTreeMap::new(),
                staged_count: 0,
                unstaged_count: 0,
                stamps: HashMap::new(),
                births: HashMap::new(),
                locks: (script.is_none() && seed % 3 == 1).then_some(seed),
                script: script.map(Vec::into_iter),
                line: None,
                trace: Vec::new(),
                trace_hash: 0,
                ledger: Ledger::default(),
            }),
            sweeps_at_once: sweeps_at_once(seed),
            memory: Memory::new(),
            caches: TempDir::new().expect("made"),
        }
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
            voids: count(|outcome| matches!(outcome, Outcome::Void { .. })),
            prunes: state.ledger.prunes.len() as u64,
            rescues: count(|outcome| matches!(outcome, Outcome::Rescue)),
            sweeps: count(|outcome| matches!(outcome, Outcome::Swept(_))),
            deletions: state.ledger.deletions,
            crashes: state.actors.iter().filter(|actor| actor.is_dead).count() as u64,
            delta_chunks: state.ledger.delta_chunks,
            delta_chunk_hits: state.ledger.delta_chunk_hits,
            delta_chunks_deleted: state.ledger.delta_chunks_deleted,
            delta_chunks_of_run: state.ledger.delta_chunks_of_run,
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
        let is_missing = |name: &String| match ObjectName::parse(name) {
            Ok(ObjectName::Container(_, part)) => {
                let commit = ledger.commits.get(&part.ticket);
                commit.is_none_or(|commit| matches!(commit.outcome, Outcome::Rescue))
            }
            _ => false,
        };
        let missing: Vec<String> =
            ledger.present.iter().filter(|name| is_missing(name)).cloned().collect();
        assert!(!missing.is_empty(), "nothing was stored again");
        for name in missing {
            self.memory.delete(&name).expect("memory deletes");
            ledger.present.remove(&name);
        }
    }

    /// Returns the options of the sweeps of this world.
    pub(crate) fn sweeping(&self) -> SweepOptions {
        let (settle_ns, at_once) = match self.sweeps_at_once {
            true => (i64::MAX, AtOnce::AsPromised),
            false => (0, AtOnce::Never),
        };
        SweepOptions { settle_ns, at_once, ..SweepOptions::default() }
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
            let put = self.put(memory, &name, bytes, None);
            self.note(usize::MAX, &format!("late put {name} {put:?}"), true);
        }
    }

    /// Puts an object for an actor, or by a request that comes late.
    fn put(
        &mut self,
        memory: &Memory,
        name: &str,
        bytes: Bytes,
        actor: Option<usize>,
    ) -> Result<Put> {
        if let Err(message) = self.ledger.attempt(name, &bytes) {
            self.fail(message);
            return Err(over());
        }
        let put = memory.put_new(name, bytes.clone())?;
        if put == Put::Created {
            self.births.insert(name.to_owned(), (actor, self.clock_ns));
        }
        if put == Put::Created
            && let Err(message) = self.ledger.created(name, &bytes)
        {
            self.fail(message);
            return Err(over());
        }
        Ok(put)
    }

    /// Returns `true` if a listing of `actor` shows the object.
    fn is_listed(&self, name: &str, actor: usize) -> bool {
        let lagging = [ObjectKind::Ticket, ObjectKind::Commit, ObjectKind::Prune];
        if !ObjectKind::of_path(name).is_some_and(|kind| lagging.contains(&kind)) {
            return true;
        }
        let Some((by, at_ns)) = self.births.get(name) else { return true };
        let is_new = self.clock_ns.saturating_sub(*at_ns) < LAG_NS;
        !(is_new && self.actors[actor].role.lags && *by != Some(actor))
    }

    /// Returns `true` if the storage keeps the object from deletion: for a while, or as long as the
    /// world exists. Objects that other clients than sweeps delete are never locked.
    fn is_locked(&self, name: &str) -> bool {
        let Some(seed) = self.locks.filter(|_| ObjectKind::of_path(name).is_some()) else {
            return false;
        };
        let mut random = SplitMix64::new(seed);
        let chance = name
            .bytes()
            .fold(random.next(), |hash, byte| SplitMix64::new(hash ^ u64::from(byte)).next());
        let elapsed_ns = self.clock_ns - CLOCK_BEGIN_NS;
        match chance % 8 {
            0 => true,
            1 | 2 => elapsed_ns < (chance >> 8) % (10 * HOUR_NS),
            _ => false,
        }
    }

    fn delete(&mut self, memory: &Memory, actor: usize, name: &str) -> Result<()> {
        let result = if self.is_locked(name) {
            Err(format!("S5: actor {actor} deletes {name}, which is locked"))
        } else if self.actors[actor].role.may_delete {
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
