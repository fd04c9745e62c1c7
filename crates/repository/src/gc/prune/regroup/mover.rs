//! Stores the chunks of rewritten containers again, one by one.

use std::collections::{HashMap, HashSet};

use cutpoint_storage::Result;

use super::bases::{BASES_MAX, Bases};
use crate::format::commit::Damage;
use crate::format::fingerprint::{Class, Fingerprint};
use crate::format::names::PartName;
use crate::gc::monitor::{Phase, PruneMonitor, stop_if_cancelled};
use crate::gc::prune::pulse::renew;
use crate::gc::prune::selection::Selection;
use crate::gc::prune::source::{Sources, readable};
use crate::gc::prune::survey::Survey;
use crate::index::Location;
use crate::repo::repository::Repository;
use crate::write::Inline;

/// Minimum length of a chunk that is stored as a delta chunk, in bytes. A shorter one is not worth
/// a reference.
const RESEMBLING_LEN_MIN: usize = 1024;

/// Counts of full chunks that became delta chunks.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::gc::prune) struct Reencodings {
    pub(in crate::gc::prune) count: u64,
    /// Total size of these chunks in bytes.
    pub(in crate::gc::prune) bytes: u64,
}

/// Stores the chunks of rewritten containers again, each once.
pub(super) struct Mover<'a> {
    pub(super) inline: &'a mut Inline,
    pub(super) sources: Sources<'a>,
    pub(super) monitor: &'a dyn PruneMonitor,
    /// The containers that count, with `true` if they are rewritten.
    moves: HashMap<(Class, PartName), bool>,
    damaged: HashSet<Damage>,
    has_delta_chunks: bool,
    pub(super) bases: Bases,
    /// Total size of the chunks that are moved, and of those that were moved so far, in bytes.
    raw_bytes: u64,
    done_bytes: u64,
    pub(super) reencodings: Reencodings,
}

impl<'a> Mover<'a> {
    /// Creates a mover of the chunks in containers that are rewritten.
    pub(super) fn new(
        inline: &'a mut Inline,
        repository: &'a Repository,
        survey: &'a Survey,
        selection: &Selection,
        monitor: &'a dyn PruneMonitor,
    ) -> Mover<'a> {
        Mover {
            inline,
            sources: Sources::new(repository, &survey.reader),
            monitor,
            moves: moves(survey, selection),
            damaged: survey.view.damaged(),
            has_delta_chunks: repository.config().uses_delta_chunks(),
            bases: Bases::default(),
            raw_bytes: selection.plan.raw_bytes,
            done_bytes: 0,
            reencodings: Reencodings::default(),
        }
    }

    /// Renews the ticket if that is due, and checks for cancellation.
    pub(super) fn beat(&mut self) -> Result<()> {
        renew(self.inline.writer());
        stop_if_cancelled(self.monitor)
    }

    /// Stores a chunk that has to move, unless that was done before. Returns `true` if the chunk
    /// has a place that stays or has been stored. If `must_be_full` is set, only full chunks count.
    pub(super) fn move_chunk(
        &mut self,
        class: Class,
        fingerprint: &Fingerprint,
        must_be_full: bool,
    ) -> Result<bool> {
        self.beat()?;
        if self.inline.has(class, fingerprint, must_be_full)? {
            return Ok(true);
        }
        let locations = self.sources.locations(class, fingerprint)?;
        let mut found: Option<Location> = None;
        for location in locations.into_iter().filter(|location| location.is_full() || !must_be_full)
        {
            let container = location.container.name;
            let damage = Damage { class, container, fingerprint: *fingerprint };
            match self.moves.get(&(class, container)) {
                _ if self.damaged.contains(&damage) => {}
                Some(false) => return Ok(true),
                Some(true) if found.as_ref().is_none_or(|found| !found.is_full()) => {
                    found = Some(location);
                }
                _ => {}
            }
        }
        found.map_or(Ok(false), |location| self.store(class, &location))
    }

    /// Stores a chunk again: a full chunk as a full chunk, a delta chunk in its present form behind
    /// the full chunks that it refers to. Returns `true` if the chunk could be read.
    pub(super) fn store(&mut self, class: Class, location: &Location) -> Result<bool> {
        let record = location.chunk();
        let name = record.fingerprint;
        let Some(bytes) = readable(self.sources.read(class, location))? else { return Ok(false) };
        if location.is_full() {
            self.inline.store_full_chunk(class, name, &bytes)?;
            if self.has_delta_chunks && class == Class::Data {
                self.bases.find_or_add((class, name), &bytes, BASES_MAX / 2);
            }
        } else {
            let Some(extents) = readable(self.sources.extents(class, location))? else {
                return Ok(false);
            };
            let references = location.references();
            let mut seen = HashSet::new();
            let mut is_stored = true;
            for extent in extents.iter().filter(|extent| seen.insert(extent.reference)) {
                // The full chunk may be nowhere else if this record is not the one that was chosen
                // to stay.
                is_stored &=
                    self.move_chunk(class, &references[usize::from(extent.reference)], true)?;
            }
            let inline = &mut self.inline;
            if !(is_stored
                && inline.store_delta_chunk((class, name), &bytes, &extents, references)?)
            {
                inline.store_full_chunk(class, name, &bytes)?;
            }
        }
        self.progress(record.payload_len);
        Ok(true)
    }

    fn progress(&mut self, len: u32) {
        self.done_bytes += u64::from(len);
        let total = self.raw_bytes.max(self.done_bytes);
        self.monitor.progress(Phase::Rewrite, self.done_bytes, total);
    }

    /// Stores a full chunk as a delta chunk of a similar chunk that was stored as a full chunk.
    /// Returns `true` if that was possible and worthwhile.
    pub(super) fn reencode(&mut self, class: Class, location: &Location) -> Result<bool> {
        let record = location.chunk();
        let name = record.fingerprint;
        let is_large = record.chunk_len as usize >= RESEMBLING_LEN_MIN;
        if !(self.has_delta_chunks && class == Class::Data && location.is_full() && is_large) {
            return Ok(false);
        }
        let Some(bytes) = readable(self.sources.read(class, location))? else { return Ok(false) };
        let found = self.bases.find_or_add((class, name), &bytes, 0);
        let Some((_, base)) = found.map(|number| self.bases.full_chunks[number as usize]) else {
            return Ok(false);
        };
        // Rule C1: a chunk must not become a delta chunk of itself, nor of a chunk that is not a
        // full chunk.
        if base == name || !self.inline.has(class, &base, true)? {
            return Ok(false);
        }
        let Some(base_bytes) = readable(self.sources.chunk(class, &base))? else {
            return Ok(false);
        };
        let stored = self.inline.store_resembling((class, name), &bytes, (base, &base_bytes))?;
        if stored {
            self.reencodings.count += 1;
            self.reencodings.bytes += bytes.len() as u64;
            self.progress(record.payload_len);
        }
        Ok(stored)
    }
}

/// Returns the containers that count, each with `true` if it is rewritten and `false` if it stays.
/// Dead and condemned containers are not included.
fn moves(survey: &Survey, selection: &Selection) -> HashMap<(Class, PartName), bool> {
    let dead: HashSet<u32> = selection.dead.iter().copied().collect();
    let containers = (0..).zip(&survey.placement.containers);
    containers
        .filter(|(number, container)| container.is_usable() && !dead.contains(number))
        .map(|(number, container)| (container.name(), selection.rewritten.contains(&number)))
        .collect()
}
