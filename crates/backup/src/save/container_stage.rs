//! The container stage: seals regions, in order, into containers and index segments.

use std::sync::Arc;

use cutpoint_repository::write::{
    ContainerStatistics, ContainerWriter, OwnSegments, Upload, Uploads,
};
use cutpoint_repository::{Repository, TicketId};
use cutpoint_storage::{stop, wait};

use super::channels::{ContainerEnds, ToContainers};
use super::in_order::InOrder;
use super::run_state::RunState;
use super::shutdown::{Result, Shutdown};

/// The stage that writes containers.
pub(super) struct ContainerStage {
    repository: Arc<Repository>,
    containers: ContainerWriter,
    uploads: Uploads,
}

/// The result of the container stage.
#[derive(Debug, Default)]
pub(super) struct ContainerStageResult {
    /// The index segments, for the commit.
    pub(super) index_segments: OwnSegments,
    pub(super) statistics: ContainerStatistics,
}

impl ContainerStage {
    pub(super) fn new(repository: Arc<Repository>, ticket: TicketId) -> ContainerStage {
        let containers = ContainerWriter::new(repository.clone(), ticket);
        ContainerStage { repository, containers, uploads: Uploads::default() }
    }

    /// Appends all regions and ends the last container.
    pub(super) fn run(
        mut self,
        ends: ContainerEnds,
        state: &RunState,
    ) -> Result<ContainerStageResult> {
        let shutdown = &state.shutdown;
        // After a request to stop, the remaining data is still stored.
        let repository = self.repository.clone();
        let _storing = wait::finishing(&**repository.environment(), stop::STORING_MAX);
        let mut regions = InOrder::new();
        while !regions.is_complete() {
            match shutdown.expect(&ends.regions)? {
                ToContainers::Region(number, region) => regions.insert(number, region),
                ToContainers::End { region_count, record } => {
                    self.containers.record(record);
                    regions.end_at(region_count);
                }
            }
            while let Some(region) = regions.next() {
                self.containers.append(region)?;
                self.forward(&ends, shutdown)?;
            }
        }
        let embedded = self.containers.finish_embedding()?;
        self.forward(&ends, shutdown)?;
        Ok(ContainerStageResult {
            index_segments: OwnSegments { names: self.containers.segments().to_vec(), embedded },
            statistics: self.containers.statistics(),
        })
    }

    /// Writes the parts of containers that are sealed, and forwards complete objects.
    fn forward(&mut self, ends: &ContainerEnds, shutdown: &Shutdown) -> Result<()> {
        let mut complete = Vec::new();
        let written = self.write_parts(&mut complete, ends, shutdown);
        // Objects that are complete are stored although a later part cannot be written.
        if complete.is_empty() {
            return written;
        }
        let sent = shutdown.send(&ends.uploads, complete);
        written?;
        Ok(sent?)
    }

    /// Writes the parts of containers that are sealed. Adds complete objects to `complete`, which is
    /// forwarded before an index segment, because the segment may name them. Parts are written while
    /// they are in the processor's cache, and so that no complete container is ever in memory.
    fn write_parts(
        &mut self,
        complete: &mut Vec<Upload>,
        ends: &ContainerEnds,
        shutdown: &Shutdown,
    ) -> Result<()> {
        for part in self.containers.take_parts() {
            let written = self.uploads.write(&self.repository, part)?;
            if let Some(buffers) = written.buffers {
                shutdown.offer(&ends.free_buffers, buffers)?;
            }
            let Some(upload) = written.upload else { continue };
            if upload.is_segment() && !complete.is_empty() {
                shutdown.send(&ends.uploads, std::mem::take(complete))?;
            }
            complete.push(upload);
        }
        Ok(())
    }
}
