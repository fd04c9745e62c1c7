//! A test whether a storage keeps the promise on which deletion depends: of several puts of one
//! name, exactly one is answered with "created".
//!
//! Two puts in sequence are not a sufficient test. Some storages accept the condition and ignore
//! it; others look before they put, so that all simultaneous puts succeed.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Barrier, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use crate::environment::Environment;
use crate::error::{Error, Kind, Result};
use crate::storage::{Deletion, Put, Storage, Weakness};

/// Number of names that are raced for.
const ROUNDS: u32 = 20;
/// Number of threads that race for each name.
const CREATORS: u8 = 8;
/// Number of rounds at a time: with their creators no more requests than servers accept of one
/// client. A round takes a dozen ways to the storage and back, one after another.
const LANES: u32 = 4;
/// The length of the objects in bytes: more than a packet holds.
const OBJECT_LEN: usize = 4000;
/// The folder that holds the objects for a moment.
const FOLDER: &str = "tmp";
const PREFIX: &str = "tmp/probe-";
/// The age after which the remnants of a probe that was cut off are removed, in nanoseconds, by the
/// storage's own stamps: 24 hours.
const LEFTOVER_NS_MAX: i64 = 24 * 3600 * 1_000_000_000;
/// Number of failed rounds at which a probe gives up and returns the last error: twice as many as may
/// fail together.
const FAULTS_MAX: u32 = 2 * LANES;
/// Maximum number of attempts of a round in which no thread is told that it has created the object.
const NO_WINNER_TRIES: u32 = 3;

/// The behaviour of a storage when one name was put several times at once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Probed {
    /// Number of names that were raced for.
    pub round_count: u32,
    /// Number of threads that raced for each name.
    pub creator_count: u32,
    /// Rounds in which several threads were told that they had created the object.
    pub several_winners_count: u32,
    /// Rounds in which no thread was told so.
    pub no_winner_count: u32,
    /// Rounds with one winner after which the object was absent, or had the bytes of another
    /// thread.
    pub wrong_content_count: u32,
    /// Rounds after which a listing did not show the object, or showed another length.
    pub unlisted_count: u32,
    /// The reason for which the storage itself says that several threads may be told so, if it does.
    pub disclaimer: Option<&'static str>,
    /// Objects that the probe has put, and that the storage did not delete.
    pub undeleted_count: u32,
}

impl Probed {
    /// Returns `true` if exactly one put succeeded in each round, its bytes were stored, and the
    /// storage does not say that this is no promise.
    pub fn creates_atomically(&self) -> bool {
        let found_count =
            self.several_winners_count + self.no_winner_count + self.wrong_content_count;
        found_count == 0 && self.disclaimer.is_none()
    }

    /// Returns `true` if each listing showed the object that was put before.
    pub fn lists_at_once(&self) -> bool {
        self.unlisted_count == 0
    }

    /// Returns `true` if data can be deleted while other clients write, and tickets of other
    /// clients can be ended. Otherwise only a client that is alone may do either.
    pub fn may_be_shared(&self) -> bool {
        self.creates_atomically() && self.lists_at_once()
    }
}

impl fmt::Display for Probed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Probed { round_count, creator_count, .. } = self;
        if self.may_be_shared() {
            return write!(
                f,
                "in each of {round_count} rounds, exactly one of {creator_count} simultaneous puts \
                 of one name created the object"
            );
        }
        let several =
            format!("several of {creator_count} puts reported that they created the same object");
        let findings = [
            (self.several_winners_count, several.as_str()),
            (self.no_winner_count, "no put reported that it created the object"),
            (self.wrong_content_count, "the object differed from what its creator had put"),
            (self.unlisted_count, "a listing did not show an existing object"),
        ];
        let mut separator = "";
        for (count, finding) in findings.into_iter().filter(|(count, _)| *count > 0) {
            write!(f, "{separator}in {count} of {round_count} rounds {finding}")?;
            separator = "; ";
        }
        match self.disclaimer {
            Some(reason) => write!(f, "{separator}{reason}"),
            None => Ok(()),
        }
    }
}

/// Tests a storage with 20 rounds, four at a time, in each of which 8 threads put the same name at
/// once. Takes about two seconds over a network. The objects are put in `tmp/`, and removed if the
/// storage permits.
///
/// A round counts only if no call has failed, and nothing else has interfered: an object that was
/// put before all rounds still exists. (This process may have been suspended for so long that
/// another client has removed its objects as remnants.) Otherwise the round is repeated under
/// another name, a few times.
///
/// # Errors
///
/// Returns any error of the storage, except one of deleting, if rounds fail repeatedly. Returns
/// `Storage` if the objects vanish. The behaviour of the storage is unknown in these cases.
pub fn probe(storage: &dyn Storage, environment: &dyn Environment) -> Result<Probed> {
    let disclaimer = storage.weaknesses()?.into_iter().find_map(|weakness| match weakness {
        Weakness::CreatesInSteps(reason) => Some(reason),
        Weakness::MayLoseNewest(_) => None,
    });
    let probed = Probed {
        round_count: ROUNDS,
        creator_count: CREATORS.into(),
        disclaimer,
        ..Probed::default()
    };
    let state = Mutex::new(State { probed, ..State::default() });
    let rounds = Rounds { storage, environment, state };
    std::thread::scope(|scope| {
        for _ in 1..LANES {
            scope.spawn(|| rounds.run());
        }
        rounds.run();
    });
    let State { mut probed, witness, failure, .. } =
        rounds.state.into_inner().unwrap_or_else(PoisonError::into_inner);
    // If the storage does not permit deleting, the object stays.
    if let Some(witness) = witness {
        probed.undeleted_count += u32::from(storage.delete(&witness.name).is_err());
    }
    failure.map_or(Ok(probed), Err)
}

/// Tests whether objects can be deleted, by a small object that is put in `tmp/` for this purpose,
/// and returns the effect of a deletion. Also asks for the lock of that object, which needs the same
/// permissions as for other objects.
///
/// # Errors
///
/// Returns any error of [`Storage::put_new`], [`Storage::delete`], [`Storage::deletion`] and
/// [`Storage::locks`]. If the storage does not permit deleting, the object stays.
pub fn try_deletion(storage: &dyn Storage, environment: &dyn Environment) -> Result<Deletion> {
    let name = scratch_name(environment)?;
    storage.put_new(&name, Bytes::from_static(b"probe"))?;
    let deletion = storage.deletion().and_then(|deletion| {
        let locks = storage.locks(std::slice::from_ref(&name))?;
        Ok((deletion, locks.into_iter().flatten().next()))
    });
    match deletion {
        // Such a storage refuses to delete the object, which says nothing about other objects.
        Ok((deletion, Some(_))) if !deletion.hides => Ok(deletion),
        deletion => {
            storage.delete(&name)?;
            deletion.map(|(deletion, _)| deletion)
        }
    }
}

/// An object that is put before the objects of all rounds. A client that removes those as remnants
/// removes this one first, because its name is a prefix of theirs.
#[derive(Debug)]
struct Witness {
    name: String,
}

impl Witness {
    /// Puts a new witness.
    fn put(storage: &dyn Storage, environment: &dyn Environment) -> Result<Witness> {
        let witness = Witness { name: scratch_name(environment)? };
        storage.put_new(&witness.name, Bytes::from_static(b"probe"))?;
        Ok(witness)
    }
}

/// The result of one round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Finding {
    winner_count: usize,
    has_wrong_content: bool,
    is_unlisted: bool,
}

impl Finding {
    fn is_fine(self) -> bool {
        self == Finding { winner_count: 1, ..Finding::default() }
    }
}

impl Probed {
    fn count(&mut self, finding: Finding) {
        self.no_winner_count += u32::from(finding.winner_count == 0);
        self.several_winners_count += u32::from(finding.winner_count > 1);
        self.wrong_content_count += u32::from(finding.has_wrong_content);
        self.unlisted_count += u32::from(finding.is_unlisted);
    }
}

/// The rounds of a probe, which several threads perform.
struct Rounds<'a> {
    storage: &'a dyn Storage,
    environment: &'a dyn Environment,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Number of rounds that have begun.
    begun_count: u32,
    fault_count: u32,
    witness: Option<Arc<Witness>>,
    probed: Probed,
    /// The error of a probe that was given up.
    failure: Option<Error>,
}

impl Rounds<'_> {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Performs rounds until all have begun, or the probe is given up.
    fn run(&self) {
        while self.begin() {
            while let Err(error) = self.round().map(|finding| self.state().probed.count(finding)) {
                let mut state = self.state();
                state.fault_count += 1;
                let may_pass = matches!(error.kind(), Kind::Storage | Kind::Missing);
                if state.failure.is_some() || !may_pass || state.fault_count >= FAULTS_MAX {
                    state.failure.get_or_insert(error);
                    return;
                }
            }
        }
    }

    /// Begins a round. Returns `false` if no more are needed.
    fn begin(&self) -> bool {
        let mut state = self.state();
        let is_needed = state.failure.is_none() && state.begun_count < ROUNDS;
        state.begun_count += u32::from(is_needed);
        is_needed
    }

    /// Returns the witness, which is put if there is none. The round that has put it removes
    /// remnants, while others race.
    fn witness(&self) -> Result<Arc<Witness>> {
        let witness = {
            let mut state = self.state();
            if let Some(witness) = &state.witness {
                return Ok(witness.clone());
            }
            let witness = Arc::new(Witness::put(self.storage, self.environment)?);
            state.witness.insert(witness).clone()
        };
        remove_leftovers(self.storage, &witness.name)?;
        Ok(witness)
    }

    /// Performs one round that counts. A storage may create an object, retry by itself after a
    /// failure, and then tell the creator that the object existed before. Therefore a round without a
    /// winner is a finding only if it has none repeatedly.
    ///
    /// # Errors
    ///
    /// Returns any error of the storage, or `Storage` if another client has removed the objects.
    fn round(&self) -> Result<Finding> {
        let storage = self.storage;
        let mut tries = 0;
        loop {
            tries += 1;
            let witness = self.witness()?;
            let mut random = [0; 8];
            self.environment.random(&mut random)?;
            let name = format!("{}-{:016x}", witness.name, u64::from_le_bytes(random));
            let raced = race(storage, &name);
            // Deleted at once, because a prune that finds no free byte has the space of the reserve
            // only. If the storage does not permit deleting, the object stays.
            if storage.delete(&name).is_err() {
                self.state().probed.undeleted_count += 1;
            }
            let finding = raced?;
            if finding.is_fine() {
                return Ok(finding);
            }
            if storage.head(&witness.name)?.is_none() {
                let mut state = self.state();
                // Other rounds miss the same one.
                if state.witness.as_ref().is_some_and(|known| known.name == witness.name) {
                    state.witness = None;
                }
                let message = "a test object has vanished: another client has removed it, or the \
                               storage has lost it";
                return Err(Error::new(Kind::Storage, &witness.name, message));
            }
            if finding.winner_count > 0 || tries >= NO_WINNER_TRIES {
                return Ok(finding);
            }
        }
    }
}

/// Returns a new name for a temporary object. Any name with this prefix is also temporary. If the
/// object is not deleted, a later probe removes it.
///
/// # Errors
///
/// Returns any error of [`Environment::random`].
pub fn scratch_name(environment: &dyn Environment) -> Result<String> {
    let now_s = environment.now_ns().div_euclid(1_000_000_000);
    let mut random = [0; 8];
    environment.random(&mut random)?;
    Ok(format!("{PREFIX}{now_s}-{:016x}", u64::from_le_bytes(random)))
}

/// Lets all threads put `name` at once.
fn race(storage: &dyn Storage, name: &str) -> Result<Finding> {
    let start = Barrier::new(CREATORS.into());
    let start = &start;
    let create = |creator: u8| {
        let bytes = Bytes::from(vec![creator; OBJECT_LEN]);
        start.wait();
        storage.put_new(name, bytes)
    };
    let create = &create;
    let answers: Vec<Result<Put>> = std::thread::scope(|scope| {
        let creators: Vec<_> =
            (0..CREATORS).map(|creator| scope.spawn(move || create(creator))).collect();
        let joined = creators.into_iter().map(|creator| match creator.join() {
            Ok(answer) => answer,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        joined.collect()
    });
    let mut winners = BTreeSet::new();
    for (creator, answer) in (0..CREATORS).zip(answers) {
        if answer? == Put::Created {
            winners.insert(creator);
        }
    }
    let mut finding = Finding { winner_count: winners.len(), ..Finding::default() };
    // Of several winners, the object is that of one.
    let winner = winners.first().copied().filter(|_| winners.len() == 1);
    let (has_content, listed) = std::thread::scope(|scope| {
        let listed = scope.spawn(|| storage.list(FOLDER));
        let has_content = winner.map_or(Ok(true), |winner| is_of(storage, name, winner));
        (has_content, listed.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    });
    finding.has_wrong_content = !has_content?;
    finding.is_unlisted = !listed?.contains(&(name.to_owned(), OBJECT_LEN as u64));
    Ok(finding)
}

fn is_of(storage: &dyn Storage, name: &str, creator: u8) -> Result<bool> {
    match storage.get(name) {
        Ok(bytes) => Ok(bytes == vec![creator; OBJECT_LEN]),
        Err(error) if error.kind() == crate::error::Kind::Missing => Ok(false),
        Err(error) => Err(error),
    }
}

/// Removes the remnants of probes that were cut off, judged by the storage's own stamps relative to
/// that of `new`, which was just put. The times in names cannot be used, because they are from the
/// clocks of other clients.
fn remove_leftovers(storage: &dyn Storage, new: &str) -> Result<()> {
    let Some(now_ns) = storage.stamp_ns(new)? else { return Ok(()) };
    for (name, _) in storage.list(FOLDER)? {
        if !name.starts_with(PREFIX) || name == new {
            continue;
        }
        let Some(stamp_ns) = storage.stamp_ns(&name)? else { continue };
        // A storage that does not permit deleting is asked once.
        if now_ns.saturating_sub(stamp_ns) > LEFTOVER_NS_MAX && storage.delete(&name).is_err() {
            break;
        }
    }
    Ok(())
}
