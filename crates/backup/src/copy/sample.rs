//! A sample of the data that an import will read, for an estimate of its rate.

use std::collections::HashSet;
use std::thread;

use cutpoint_repository::format::recipe::Segment;
use cutpoint_storage::Result;

use super::plan::CopyPlan;
use crate::save::ForeignRepository;
use crate::save::copy_steps::{CopyStep, CopySteps};
use crate::save::foreign_plan::ForeignPlan;

/// The maximum number of steps in which the sample is gathered.
const STEPS_MAX: usize = 20_000;

impl CopyPlan {
    /// Reads about `len` bytes of the files in the first snapshot of the plan, by the number of
    /// threads of an import. Returns the number of bytes that were read.
    ///
    /// # Errors
    ///
    /// Returns any error of the storage. What is damaged is left out.
    pub fn read_sample(&self, repository: &dyn ForeignRepository, len: u64) -> Result<u64> {
        let Some(planned) = self.copies.first() else { return Ok(0) };
        let mut steps =
            CopySteps::new(self.repository.reader(), &planned.snapshot.root, None, &[])?;
        let (mut ids, mut seen, mut wanted_len) = (Vec::new(), HashSet::new(), 0);
        for _ in 0..STEPS_MAX {
            let Some(step) = steps.next()? else { break };
            let CopyStep::File(entry, _) = step else { continue };
            for segment in self.repository.reader().segments(&entry.content) {
                let Segment::Chunk { fingerprint, length, .. } = segment? else { continue };
                if wanted_len < len && seen.insert(fingerprint) {
                    ids.push((fingerprint, length));
                    wanted_len += length;
                }
            }
            if wanted_len >= len {
                break;
            }
        }
        let plan = ForeignPlan::new(repository, usize::MAX);
        let _step = plan.begin(ids.iter().copied());
        let read = thread::scope(|fetchers| {
            for _ in 0..plan.fetcher_count() {
                fetchers.spawn(|| plan.fetch());
            }
            let read = ids.iter().filter_map(|(id, _)| plan.chunk(id).ok());
            let read = read.map(|bytes| bytes.len() as u64).sum();
            plan.end();
            read
        });
        Ok(read)
    }
}
