//! Finds out by trying whether a medium keeps the promise that deleting stands on: of several puts
//! of one name, one is answered with "created".
//!
//! Putting twice, one after the other, is not enough: some storages take the condition and ignore
//! it, others look before they put, and let all win who come at the same time.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Barrier;

use bytes::Bytes;

use super::{Media, Put};
use crate::environment::Environment;
use crate::error::{Error, Kind, Result};

/// So often a name is raced for.
const ROUNDS: u32 = 20;
/// So many race for it.
const CREATORS: u8 = 8;
/// How long each one's object is, in bytes: more than fits into a packet.
const OBJECT_LEN: usize = 4000;
/// Where the objects lie for a moment.
const FOLDER: &str = "tmp";
const PREFIX: &str = "tmp/probe-";
/// The age after which the leftovers of a probe that was cut off are removed, in nanoseconds, by the
/// storage's own stamps: 24 hours.
const LEFTOVER_NS_MAX: i64 = 24 * 3600 * 1_000_000_000;
/// The number of rounds with a fault in one probe at most, the last of which is told.
const FAULTS_MAX: u32 = 5;
/// The number of tries of one round in which nobody is told to have created the object.
const NO_WINNER_TRIES: u32 = 3;

/// What a medium did with creators of one name that came at the same time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Probed {
    /// How many names were raced for.
    pub round_count: u32,
    /// How many raced for each.
    pub creator_count: u32,
    /// Rounds in which several were told that they had created the object.
    pub several_winners_count: u32,
    /// Rounds in which nobody was told so.
    pub no_winner_count: u32,
    /// Rounds with one winner in which another's bytes, or none, lay there afterwards.
    pub wrong_content_count: u32,
    /// Rounds after which a listing did not show the object, or with another length.
    pub unlisted_count: u32,
}

impl Probed {
    /// Whether of several creators one won each time, and its bytes lay there.
    pub fn creates_atomically(&self) -> bool {
        self.several_winners_count + self.no_winner_count + self.wrong_content_count == 0
    }

    /// Whether each listing showed what was put before.
    pub fn lists_at_once(&self) -> bool {
        self.unlisted_count == 0
    }

    /// Whether data can be deleted while others write, and another's ticket be ended. Otherwise only
    /// somebody who is alone may do either.
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
                "in each of {round_count} rounds, one of {creator_count} that put the same name at \
                 once created it"
            );
        }
        let several =
            format!("several of {creator_count} were told that they created the same object");
        let findings = [
            (self.several_winners_count, several.as_str()),
            (self.no_winner_count, "nobody was told to have created the object"),
            (self.wrong_content_count, "the object was not what its creator had put"),
            (self.unlisted_count, "a listing did not show the object that was there"),
        ];
        let mut separator = "";
        for (count, finding) in findings.into_iter().filter(|(count, _)| *count > 0) {
            write!(f, "{separator}in {count} of {round_count} rounds {finding}")?;
            separator = "; ";
        }
        Ok(())
    }
}

/// Tries a medium: 20 rounds in which 8 threads put the same name at once. Takes about two seconds
/// over a network. What it puts is in `tmp/`, and removed, if the medium lets it.
///
/// A round counts only if nothing has failed in it and nothing else has interfered: no call has
/// returned an error, and an object that was put before all rounds still lies there (this process may
/// have been suspended for so long that another client has removed what it took for leftovers). Else
/// it is done again under another name, a few times.
///
/// # Errors
///
/// As the medium, but for deleting, where rounds fail again and again; `Media` where what was put
/// vanishes. What the medium does is not known then.
pub fn probe(media: &dyn Media, environment: &dyn Environment) -> Result<Probed> {
    let mut probed =
        Probed { round_count: ROUNDS, creator_count: CREATORS.into(), ..Probed::default() };
    let mut faults = 0;
    let mut witness = None;
    let result = (|| {
        for _ in 0..ROUNDS {
            loop {
                match round(media, environment, &mut witness) {
                    Ok(finding) => {
                        probed.count(finding);
                        break;
                    }
                    Err(error) => {
                        faults += 1;
                        let may_pass = matches!(error.kind(), Kind::Media | Kind::Missing);
                        if !may_pass || faults >= FAULTS_MAX {
                            return Err(error);
                        }
                    }
                }
            }
        }
        Ok(())
    })();
    // Where nothing may be deleted, it stays.
    if let Some(witness) = witness {
        media.delete(&witness.name).ok();
    }
    result.map(|()| probed)
}

/// An object that was put before the objects of all rounds, and that any client which removes those
/// for leftovers removes before them, because its name is a prefix of theirs.
#[derive(Debug)]
struct Witness {
    name: String,
}

impl Witness {
    /// Puts a new one, and removes leftovers.
    fn put(media: &dyn Media, environment: &dyn Environment) -> Result<Witness> {
        let witness = Witness { name: scratch_name(environment)? };
        media.put_new(&witness.name, Bytes::from_static(b"probe"))?;
        if let Err(error) = remove_leftovers(media, &witness.name) {
            media.delete(&witness.name).ok();
            return Err(error);
        }
        Ok(witness)
    }
}

/// The outcome of one round.
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

/// One round that counts. A storage may create an object and tell its creator, after a try of its own
/// that failed, that it was there before: so a round without a winner is a finding only if it is one
/// again and again.
///
/// # Errors
///
/// As the medium; `Media` where something else has removed what was put.
fn round(
    media: &dyn Media,
    environment: &dyn Environment,
    witness: &mut Option<Witness>,
) -> Result<Finding> {
    let mut tries = 0;
    loop {
        tries += 1;
        let first = match witness {
            Some(witness) => &*witness,
            None => &*witness.insert(Witness::put(media, environment)?),
        };
        let mut random = [0; 8];
        environment.random(&mut random)?;
        let name = format!("{}-{:016x}", first.name, u64::from_le_bytes(random));
        let raced = race(media, &name);
        // Where nothing may be deleted, it stays.
        media.delete(&name).ok();
        let finding = raced?;
        if finding.is_fine() {
            return Ok(finding);
        }
        if media.head(&first.name)?.is_none() {
            let message = "what was put for a trial has vanished: another client has removed it, or \
                           the storage has lost it";
            let error = Error::new(Kind::Media, &first.name, message);
            *witness = None;
            return Err(error);
        }
        if finding.winner_count > 0 || tries >= NO_WINNER_TRIES {
            return Ok(finding);
        }
    }
}

/// A new name for an object that is to be tried with and deleted again; whatever is appended to it
/// is one, too. A later probe removes it where that does not happen.
///
/// # Errors
///
/// As [`Environment::random`].
pub fn scratch_name(environment: &dyn Environment) -> Result<String> {
    let now_s = environment.now_ns().div_euclid(1_000_000_000);
    let mut random = [0; 8];
    environment.random(&mut random)?;
    Ok(format!("{PREFIX}{now_s}-{:016x}", u64::from_le_bytes(random)))
}

/// Lets all creators put `name` at once.
fn race(media: &dyn Media, name: &str) -> Result<Finding> {
    let start = Barrier::new(CREATORS.into());
    let start = &start;
    let create = |creator: u8| {
        let bytes = Bytes::from(vec![creator; OBJECT_LEN]);
        start.wait();
        media.put_new(name, bytes)
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
    if winners.len() == 1 {
        finding.has_wrong_content = !is_of(media, name, winners.first().copied())?;
    }
    let expected = (name.to_owned(), OBJECT_LEN as u64);
    finding.is_unlisted = !media.list(FOLDER)?.contains(&expected);
    Ok(finding)
}

fn is_of(media: &dyn Media, name: &str, creator: Option<u8>) -> Result<bool> {
    match media.get(name) {
        Ok(bytes) => Ok(creator.is_some_and(|creator| bytes == vec![creator; OBJECT_LEN])),
        Err(error) if error.kind() == crate::error::Kind::Missing => Ok(false),
        Err(error) => Err(error),
    }
}

/// Removes what probes that were cut off have left: by the storage's own stamps, compared with that of
/// `new`, which was just put. The times in names are of other clients' clocks.
fn remove_leftovers(media: &dyn Media, new: &str) -> Result<()> {
    let Some(now_ns) = media.stamp_ns(new)? else { return Ok(()) };
    for (name, _) in media.list(FOLDER)? {
        if !name.starts_with(PREFIX) || name == new {
            continue;
        }
        let Some(stamp_ns) = media.stamp_ns(&name)? else { continue };
        if now_ns.saturating_sub(stamp_ns) > LEFTOVER_NS_MAX {
            media.delete(&name).ok();
        }
    }
    Ok(())
}
