//! One run: a world, its actors in threads, and the outcome.

use std::sync::Arc;

use cutpoint_repository::rules::{self, Mutant};
use cutpoint_storage::{Error, Kind, Result};
use cutpoint_testing::SplitMix64;

use super::actor::Actor;
use super::readers::{check, read_all};
use super::removers::{end_random_writer, hold, optimize, prune, prune_and_sweep, repair, sweep};
use super::writers::back_up;
use crate::interleaving::world::{
    Role, Tally, World, has_lagging_clients, is_rough, sweeps_at_once,
};

pub(super) const STEPS: u64 = 4500;

pub(super) type Act = fn(&mut Actor) -> Result<()>;

/// The actors of a run: (role, action, number of repetitions, turns before it begins).
pub(super) type Cast = Vec<(Role, Act, usize, usize)>;

pub(super) fn cast(random: &mut SplitMix64, seed: u64) -> Cast {
    let is_rough = is_rough(seed);
    let writer =
        Role { may_be_mutant: true, may_crash: true, has_bad_network: true, ..Role::default() };
    let sweeper = Role { may_delete: true, ..writer };
    let mut cast: Cast = Vec::new();
    for _ in 0..3 + random.below(3) {
        cast.push((writer, back_up, 8, random.below(60)));
    }
    for number in 0..2 {
        let (role, act): (Role, Act) = match sweeps_at_once(seed) && number == 0 {
            true => (sweeper, prune_and_sweep),
            false => (writer, prune),
        };
        cast.push((role, act, 8, random.below(200)));
    }
    if has_lagging_clients(seed) {
        let lagging = Role { lags: true, ..writer };
        cast.push((lagging, back_up, 8, random.below(1500)));
        cast.push((lagging, prune, 4, random.below(1500)));
    }
    for _ in 0..1 + random.below(2) {
        cast.push((sweeper, sweep, 8, 50 + random.below(200)));
    }
    if random.below(2) == 0 {
        cast.push((writer, hold, 4, random.below(300)));
    }
    cast.push((writer, end_random_writer, if is_rough { 12 } else { 3 }, random.below(500)));
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
pub(super) struct Ran {
    pub(super) failure: Option<String>,
    pub(super) tally: Tally,
    pub(super) trace_hash: u64,
}

pub(super) fn run(seed: u64, mutant: Option<Mutant>) -> Ran {
    let mut random = SplitMix64::new(seed);
    let cast = cast(&mut random, seed);
    let world = World::new(seed, STEPS, None);
    play(seed, &world, cast, mutant)
}

pub(super) fn play(seed: u64, world: &Arc<World>, cast: Cast, mutant: Option<Mutant>) -> Ran {
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
