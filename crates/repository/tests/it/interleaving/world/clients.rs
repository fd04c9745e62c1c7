//! The storage and the environment of each actor.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use bytes::Bytes;
use cutpoint_repository::{CipherSuite, InitOptions, Repository, Unlock};
use cutpoint_storage::{
    Environment, Error, Kind, Lock, Memory, Process, Put, Result, Staged, Storage, Visibility,
};
use cutpoint_testing::SplitMix64;

use super::{Role, Script, State, World, is_rough, over};

impl World {
    /// Creates a world with a new, empty repository. A `script` replaces chance by a fixed order.
    pub(crate) fn new(seed: u64, step_max: u64, script: Option<Script>) -> Arc<World> {
        let world = Arc::new(World::empty(seed, step_max, script));
        let options = InitOptions {
            suite: CipherSuite::None,
            cut: "fixed".to_owned(),
            region_size: 16 * 1024,
            container_size: 4 * 1024 * 1024,
            compression_level: 1,
            delta_chunks: true,
            // Mostly off, as by default.
            parity_percent: if seed % 8 == 5 { 10 } else { 0 },
            ..InitOptions::default()
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

    fn sides_of(
        self: &Arc<World>,
        actor: usize,
        seed: u64,
    ) -> (Arc<dyn Storage>, Arc<dyn Environment>) {
        let mut random = SplitMix64::new(seed.wrapping_mul(1009).wrapping_add(actor as u64));
        // Wall clocks are wrong by days, in either direction, and in rough runs by up to forty
        // days; not in a script, where clients must not take each other for dead by chance.
        let is_scripted = self.lock().script.is_some();
        let skew_s = match random.below(3) {
            _ if is_scripted => 0,
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

    /// Returns the repository as the actor opens it. Every second actor has a cache.
    pub(crate) fn repository(self: &Arc<World>, actor: usize, seed: u64) -> Arc<Repository> {
        let (storage, environment) = self.sides_of(actor, seed);
        let repository = Repository::open(storage, environment, &Unlock::Nothing);
        let repository = repository.expect("the repository opens");
        Arc::new(match actor % 2 {
            0 => repository,
            _ => repository.with_cache(self.caches.path().join(actor.to_string())),
        })
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
                return Err(Error::missing(name, "no such file or directory"));
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
                        let put = state.put(memory, name, bytes, Some(self.actor))?;
                        self.stamp(state, name, put);
                        return Err(Error::new(Kind::Storage, name, "the connection broke"));
                    }
                    // Sent twice.
                    2..6 => state.late.push((late, name.to_owned(), bytes.clone())),
                    _ => {}
                }
            }
            let put = state.put(memory, name, bytes, Some(self.actor))?;
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
        self.call(format!("list {prefix}"), |state, memory| {
            let mut found = memory.list(prefix)?;
            found.retain(|(name, _)| state.is_listed(name, self.actor));
            Ok(found)
        })
    }

    fn delete(&self, name: &str) -> Result<()> {
        self.call(format!("delete {name}"), |state, memory| state.delete(memory, self.actor, name))
    }

    fn locks(&self, names: &[String]) -> Result<Vec<Option<Lock>>> {
        if self.world.upgrade().is_none_or(|world| world.lock().locks.is_none()) {
            return Ok(vec![None; names.len()]);
        }
        self.call("locks".to_owned(), |state, _| {
            Ok(names.iter().map(|name| state.is_locked(name).then_some(Lock::Held)).collect())
        })
    }

    fn visibility(&self) -> Result<Visibility> {
        let world = self.world.upgrade().ok_or_else(over)?;
        let lags = world.lock().actors[self.actor].role.lags;
        Ok(if lags { Visibility::Later } else { Visibility::AtOnce })
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

    fn block(&self, time: Duration) {
        if let Some(world) = self.world.upgrade() {
            world.lock().clock_ns += u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        }
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
