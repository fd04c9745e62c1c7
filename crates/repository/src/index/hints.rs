//! All hints in rising order, for a prune to compare with the live chunks.

use std::sync::Arc;

use cutpoint_storage::{Error, Kind, Result};

use super::chunk_index::Index;
use super::runs::{MergedHints, Run};
use crate::format::segment::{ContainerRecord, Segment};

/// All hints of an index at one moment, and the numbered containers to which they lead.
#[derive(Debug)]
pub(crate) struct Hints<'a> {
    index: &'a Index,
    runs: Vec<Arc<Run>>,
    numbering: Numbering,
}

/// The numbers of the containers of several runs, the same for those of one name. They rise in the
/// order in which the names occur first.
#[derive(Debug)]
struct Numbering {
    /// Number of different containers.
    count: usize,
    /// The numbers of the containers of all runs, run by run.
    numbers: Vec<u32>,
    /// The place in `numbers` of the first container of each run, and the end.
    starts: Vec<usize>,
}

impl Numbering {
    /// Numbers the containers of `runs`.
    ///
    /// # Errors
    ///
    /// Returns `Corrupt` if there are more containers than a number of 32 bits counts.
    fn new(runs: &[Arc<Run>]) -> Result<Numbering> {
        let mut starts = vec![0];
        for run in runs {
            starts.push(starts[starts.len() - 1] + run.containers().len());
        }
        // The last number is left out because `NO_CONTAINER` of a prune has it.
        let count = u32::try_from(starts[runs.len()]).ok().filter(|count| *count < u32::MAX);
        let count = count.ok_or_else(|| Error::corrupt("the index", "too many containers"))?;
        let record = |place: u32| -> &ContainerRecord {
            let run = starts.partition_point(|start| *start <= place as usize) - 1;
            &runs[run].containers()[place as usize - starts[run]]
        };
        let name = |place: u32| (record(place).class, record(place).name);
        // Sorted places instead of a map, which would take ten times the memory.
        let mut sorted: Vec<u32> = (0..count).collect();
        sorted.sort_unstable_by_key(|place| (name(*place), *place));
        let mut numbers = vec![0; count as usize];
        for of_name in sorted.chunk_by(|one, other| name(*one) == name(*other)) {
            of_name.iter().for_each(|place| numbers[*place as usize] = of_name[0]);
        }
        drop(sorted);
        // So far each entry is the first place of the name, which the number replaces.
        let mut next = 0;
        for place in 0..count {
            let first = numbers[place as usize];
            if first == place {
                numbers[place as usize] = next;
                next += 1;
            } else {
                numbers[place as usize] = numbers[first as usize];
            }
        }
        Ok(Numbering { count: next as usize, numbers, starts })
    }

    /// Returns the number of the container at this place in the table of a run.
    fn get(&self, run: usize, container: u32) -> Option<u32> {
        self.numbers.get(self.starts[run]..self.starts[run + 1])?.get(container as usize).copied()
    }
}

impl Hints<'_> {
    /// Returns the number of containers.
    pub(crate) fn container_count(&self) -> usize {
        self.numbering.count
    }

    /// Returns the containers in the order of their numbers, without repetition.
    pub(crate) fn containers(&self) -> impl Iterator<Item = ContainerRecord> {
        let all = self.runs.iter().flat_map(|run| run.containers());
        let mut next = 0;
        let is_first = move |(number, _): &(&u32, &ContainerRecord)| {
            let is_first = **number == next;
            next += u32::from(is_first);
            is_first
        };
        self.numbering.numbers.iter().zip(all).filter(is_first).map(|(_, record)| *record)
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
            let number = self.numbering.get(run, container);
            accept(
                hint,
                number.ok_or_else(|| Error::corrupt("the index", "no container listed"))?,
            )?;
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
        let numbering = Numbering::new(&runs)?;
        Ok(Hints { index: self, runs, numbering })
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::fingerprint::Class;
    use crate::format::names::{PartName, TicketId};

    #[test]
    fn containers_of_one_name_have_one_number() {
        let record = |class, count| ContainerRecord {
            name: PartName { ticket: TicketId([1; 12]), count },
            class,
            has_delta_chunks: false,
            stored_len: 1,
            toc_offset: 2,
            toc_len: 3,
        };
        let run = |containers: &[(Class, u32)]| {
            let containers = containers.iter().map(|(class, count)| record(*class, *count));
            let segment = Segment { containers: containers.collect(), ..Segment::default() };
            Arc::new(Run::in_memory(Vec::new(), &segment))
        };
        let (data, meta) = (Class::Data, Class::Meta);
        let runs =
            [run(&[(data, 7), (meta, 1)]), run(&[]), run(&[(meta, 7), (data, 1), (data, 7)])];
        let numbering = Numbering::new(&runs).expect("few");
        assert_eq!(numbering.count, 4);
        let number = |run, container| numbering.get(run, container);
        assert_eq!([number(0, 0), number(0, 1), number(0, 2)], [Some(0), Some(1), None]);
        assert_eq!(number(1, 0), None);
        assert_eq!([0, 1, 2, 3].map(|at| number(2, at)), [Some(2), Some(3), Some(0), None]);
    }
}
