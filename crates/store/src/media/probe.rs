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
use crate::error::Result;

/// So often a name is raced for.
const ROUNDS: u32 = 20;
/// So many race for it.
const CREATORS: u8 = 8;
/// How long each one's object is, in bytes: more than fits into a packet.
const OBJECT_LEN: usize = 4000;
/// Where the objects lie for a moment.
const FOLDER: &str = "tmp";
const PREFIX: &str = "tmp/probe-";
/// What a probe left behind that was cut off is removed after this time, in seconds.
const LEFTOVER_S_MAX: i64 = 24 * 3600;

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
/// # Errors
///
/// As the medium, but for deleting; what it does is not known then.
pub fn probe(media: &dyn Media, environment: &dyn Environment) -> Result<Probed> {
    let now_s = environment.now_ns().div_euclid(1_000_000_000);
    remove_leftovers(media, now_s)?;
    let run = scratch_name(environment)?;
    let mut probed =
        Probed { round_count: ROUNDS, creator_count: CREATORS.into(), ..Probed::default() };
    for round in 0..ROUNDS {
        let name = format!("{run}-{round:02}");
        let raced = race(media, &name, &mut probed);
        // Where nothing may be deleted, it stays.
        media.delete(&name).ok();
        raced?;
    }
    Ok(probed)
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

/// One round.
fn race(media: &dyn Media, name: &str, probed: &mut Probed) -> Result<()> {
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
    let winner = winners.first().copied();
    match winners.len() {
        0 => probed.no_winner_count += 1,
        1 if !is_of(media, name, winner)? => probed.wrong_content_count += 1,
        1 => {}
        _ => probed.several_winners_count += 1,
    }
    let expected = (name.to_owned(), OBJECT_LEN as u64);
    if !media.list(FOLDER)?.contains(&expected) {
        probed.unlisted_count += 1;
    }
    Ok(())
}

fn is_of(media: &dyn Media, name: &str, creator: Option<u8>) -> Result<bool> {
    match media.get(name) {
        Ok(bytes) => Ok(creator.is_some_and(|creator| bytes == vec![creator; OBJECT_LEN])),
        Err(error) if error.kind() == crate::error::Kind::Missing => Ok(false),
        Err(error) => Err(error),
    }
}

fn remove_leftovers(media: &dyn Media, now_s: i64) -> Result<()> {
    for (name, _) in media.list(FOLDER)? {
        let began_s = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next());
        let began_s = began_s.and_then(|text| text.parse::<i64>().ok());
        if began_s.is_some_and(|began_s| now_s.saturating_sub(began_s) > LEFTOVER_S_MAX) {
            media.delete(&name).ok();
        }
    }
    Ok(())
}
