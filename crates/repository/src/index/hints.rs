//! All hints in rising order, for a prune to compare with the live chunks.

use std::collections::HashMap;
use std::sync::Arc;

use cutpoint_storage::{Error, Kind, Result};

use super::chunk_index::Index;
use super::runs::{MergedHints, Run};
use crate::format::fingerprint::Class;
use crate::format::names::PartName;
use crate::format::segment::{ContainerRecord, Segment};

/// All hints of an index at one moment, and the numbered containers to which they lead.
#[derive(Debug)]
pub(crate) struct Hints<'a> {
    index: &'a Index,
    runs: Vec<Arc<Run>>,
    containers: Vec<ContainerRecord>,
    /// The numbers in `containers` of the containers of each run.
    numbers: Vec<Vec<u32>>,
}

impl Hints<'_> {
    /// Returns the containers, without repetition.
    pub(crate) fn containers(&self) -> &[ContainerRecord] {
        &self.containers
    }

    /// Calls `accept` with every hint and the number of the container to which it leads, in rising
    /// order. The same pair may occur several times.
    ///
    /// # Errors
    ///
    /// Returns a `Conflict` error if a cached run is damaged. The index has replaced the run by
    /// then, and the caller has to restart with new numbers. Also returns any error of `accept`.
    pub(crate) fn each(&self, mut accept: impl FnMut(u64, u32) -> Result<()>) -> Result<()> {
        let runs: Vec<&Run> = self.runs.iter().map(|run| &**run).collect();
        let mut merge = MergedHints::new(&runs).map_err(|run| self.replace(run))?;
        while let Some((hint, container, run)) = merge.next().map_err(|run| self.replace(run))? {
            let number = self.numbers[run].get(container as usize);
            let number =
                number.ok_or_else(|| Error::corrupt("the index", "no container listed"))?;
            accept(hint, *number)?;
        }
        Ok(())
    }

    fn replace(&self, run: usize) -> Error {
        match self.index.replace(&self.runs[run]) {
            Ok(()) => Error::new(Kind::Conflict, "the cached index", "damaged, and rebuilt"),
            Err(error) => error,
        }
    }
}

impl Index {
    /// Returns all hints, including those of `more`, whose containers no segment names yet.
    ///
    /// # Errors
    ///
    /// Returns `Corrupt` if there are more containers than a number of 32 bits counts.
    pub(crate) fn hints(&self, more: &Segment) -> Result<Hints<'_>> {
        let mut runs: Vec<Arc<Run>> = {
            let state = self.lock();
            state.runs.iter().chain(&state.unnamed).cloned().collect()
        };
        runs.push(Arc::new(Run::in_memory(Vec::new(), more)));
        let mut containers = Vec::new();
        let mut known: HashMap<(Class, PartName), u32> = HashMap::new();
        let mut number = |container: &ContainerRecord| {
            // The last number is left out because `NO_CONTAINER` of a prune has it.
            let next = u32::try_from(containers.len()).ok().filter(|next| *next < u32::MAX);
            let next = next.ok_or_else(|| Error::corrupt("the index", "too many containers"))?;
            let number = *known.entry((container.class, container.name)).or_insert(next);
            if number == next {
                containers.push(*container);
            }
            Ok(number)
        };
        let numbers = runs
            .iter()
            .map(|run| run.containers().iter().map(&mut number).collect())
            .collect::<Result<_>>()?;
        Ok(Hints { index: self, runs, containers, numbers })
    }

    /// Rebuilds a damaged run from the segments.
    fn replace(&self, damaged: &Arc<Run>) -> Result<()> {
        let mut state = self.lock();
        let Some(found) = state.runs.iter().position(|run| Arc::ptr_eq(run, damaged)) else {
            return Ok(());
        };
        let damaged = state.runs.swap_remove(found);
        state.drop_damaged(&damaged);
        self.reread(&mut state)
    }
}
