//! Lookups: from a fingerprint to the places of its chunk.

use std::sync::Arc;

use cutpoint_storage::{Error, Result};

use super::chunk_index::Index;
use super::container_toc::ContainerToc;
use super::location::{Location, Scope};
use super::state::State;
use crate::format::fingerprint::{Class, Fingerprint};
use crate::format::names::PartName;
use crate::format::segment::ContainerRecord;

impl Index {
    /// Returns the containers to which hints lead for a chunk. Some of them may not have the chunk,
    /// because a hint is short.
    ///
    /// # Errors
    ///
    /// Returns a `Storage` error if the cache is damaged, and the storage fails as well.
    pub fn hinted_containers(
        &self,
        class: Class,
        fingerprint: &Fingerprint,
    ) -> Result<Vec<PartName>> {
        let candidates = self.candidates(&mut self.lock(), class, fingerprint)?;
        Ok(candidates.into_iter().map(|(_, container)| container.name).collect())
    }

    /// Returns the containers to which hints lead for a chunk, without repetition and sorted by
    /// name, each with `true` if it is condemned. Condemned ones come last, because they may
    /// disappear at any time.
    pub(super) fn candidates(
        &self,
        state: &mut State,
        class: Class,
        fingerprint: &Fingerprint,
    ) -> Result<Vec<(bool, ContainerRecord)>> {
        let hint = fingerprint.hint();
        loop {
            let mut found = Vec::new();
            let damaged = state.all_runs().position(|run| run.find(hint, &mut found).is_err());
            let Some(damaged) = damaged else {
                found.retain(|container| container.class == class);
                let is_condemned =
                    |record: &ContainerRecord| state.is_condemned(class, record.name);
                let mut found: Vec<_> =
                    found.into_iter().map(|it| (is_condemned(&it), it)).collect();
                found.sort_by_key(|(is_condemned, container)| (*is_condemned, container.name));
                found.dedup_by_key(|(_, container)| container.name);
                return Ok(found);
            };
            // The damaged run is in a file, whereas the run of unnamed containers is in memory and
            // comes last.
            let damaged = state.runs.swap_remove(damaged);
            state.drop_damaged(&damaged);
            self.reread(state)?;
        }
    }

    /// Looks up a chunk.
    ///
    /// # Errors
    ///
    /// Returns a `Corrupt` or `Missing` error if a container to which a hint leads cannot be
    /// opened, and no other place has the chunk.
    pub fn find(
        &self,
        class: Class,
        fingerprint: &Fingerprint,
        scope: Scope,
    ) -> Result<Option<Location>> {
        self.find_where(class, fingerprint, scope, |_| Ok(true))
    }

    /// Offers the places of a chunk to `accepts` until it accepts one. Each place is offered once,
    /// and no lock is held meanwhile. A chunk can have several places, because a damaged chunk is
    /// stored again elsewhere.
    ///
    /// Full chunks come before delta chunks; otherwise, the order is that of the containers' names.
    /// Condemned containers come last. A recently used place comes first of all, but never a
    /// delta chunk if a writer asks: the form that is found must not depend on earlier lookups,
    /// because the stored data depends on it.
    ///
    /// # Errors
    ///
    /// Returns any error of [`Index::find`] and of `accepts`.
    pub fn find_where(
        &self,
        class: Class,
        fingerprint: &Fingerprint,
        scope: Scope,
        mut accepts: impl FnMut(&Location) -> Result<bool>,
    ) -> Result<Option<Location>> {
        // A condemned container may disappear at any time, so that a reader uses it only if there
        // is no other place.
        let recent = {
            let mut state = self.lock();
            let found = state.tocs.find(fingerprint);
            found.filter(|location| {
                state.allows(location, class, scope)
                    && !state.is_condemned(class, location.container.name)
                    && (scope == Scope::Read || location.is_full())
            })
        };
        if let Some(recent) = &recent
            && accepts(recent)?
        {
            return Ok(Some(recent.clone()));
        }
        let offered = recent.map(|recent| recent.key());
        let candidates = self.candidates(&mut self.lock(), class, fingerprint)?;
        let mut failure = None;
        for group in candidates.chunk_by(|(one, _), (other, _)| one == other) {
            let mut delta_chunks = Vec::new();
            for (_, container) in group {
                if scope == Scope::Write && self.lock().is_condemned(class, container.name) {
                    continue;
                }
                let loaded = match self.load(*container) {
                    Ok(loaded) => loaded,
                    Err(error) => {
                        failure = Some(error);
                        continue;
                    }
                };
                for chunk in loaded.records(fingerprint) {
                    let location = Location::new(&loaded, chunk);
                    let is_offered = offered == Some(location.key());
                    if is_offered || !self.lock().allows(&location, class, scope) {
                        continue;
                    }
                    if !location.is_full() {
                        delta_chunks.push(location);
                    } else if accepts(&location)? {
                        self.lock().tocs.remember(&location);
                        return Ok(Some(location));
                    }
                }
            }
            for delta_chunk in delta_chunks {
                if accepts(&delta_chunk)? {
                    return Ok(Some(delta_chunk));
                }
            }
        }
        // A writer stores a chunk again that it cannot confirm, whereas a reader has to know the
        // error.
        match failure {
            Some(error) if scope == Scope::Read => Err(error),
            _ => Ok(None),
        }
    }

    /// Returns the table of contents of a container to which a writer may refer.
    ///
    /// # Errors
    ///
    /// Returns a `Missing` or `Corrupt` error that names the container.
    pub(crate) fn container(
        &self,
        class: Class,
        name: PartName,
    ) -> Result<Option<Arc<ContainerToc>>> {
        let found = {
            let state = self.lock();
            let mut all = state.all_runs().flat_map(|run| run.containers());
            let found = all.find(|record| (record.class, record.name) == (class, name)).copied();
            found.filter(|_| !state.is_condemned(class, name))
        };
        found.map(|record| self.load(record)).transpose()
    }

    /// Returns `true` if the writer of this index has stored the chunk at `location`.
    pub(crate) fn is_own(&self, location: &Location) -> bool {
        let ticket = location.container.name.ticket;
        self.lock().own.iter().any(|segment| segment.ticket == ticket)
    }

    /// Returns every place of a chunk that readers may use, and the error that hides others, if
    /// any.
    pub(crate) fn locations(
        &self,
        class: Class,
        fingerprint: &Fingerprint,
    ) -> (Vec<Location>, Option<Error>) {
        let mut found = Vec::new();
        let failure = self.find_where(class, fingerprint, Scope::Read, |location| {
            found.push(location.clone());
            Ok(false)
        });
        (found, failure.err())
    }
}
