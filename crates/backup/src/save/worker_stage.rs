//! The workers: fingerprint batches and encode regions, in any order, in several threads.

use cutpoint_repository::Keys;
use cutpoint_repository::write::{RecentRegions, RegionCodec};

use super::bundle::Bundling;
use super::channels::{SaveJob, ToContainers, ToDedup, WorkerEnds};
use super::run_state::RunState;
use super::shutdown::Result;

/// The settings of the workers.
#[derive(Clone, Copy)]
pub(super) struct WorkerStage<'a> {
    pub(super) keys: &'a Keys,
    /// The rules of bundling, if small files share chunks.
    pub(super) bundling: Option<&'a Bundling>,
    /// The compression level.
    pub(super) level: i32,
    /// The place of encoded regions, if chunks are compared with those of the same run.
    pub(super) recent: Option<&'a RecentRegions>,
}

impl WorkerStage<'_> {
    /// Does jobs until the source stage and the dedup stage have ended.
    pub(super) fn run(self, ends: WorkerEnds, state: &RunState) -> Result<()> {
        let shutdown = &state.shutdown;
        // Created on first use, because the tables of a codec take one or two megabytes.
        let mut codec = None;
        while let Some(job) = shutdown.receive(&ends.jobs)? {
            match job {
                SaveJob::Fingerprint(mut batch) => {
                    if let Some(bundling) = self.bundling {
                        bundling.apply(&mut batch);
                    }
                    batch.fingerprint(self.keys);
                    shutdown.send(&ends.dedup, ToDedup::Batch(batch))?;
                }
                SaveJob::Encode(number, region, buffer) => {
                    let codec = match &mut codec {
                        Some(codec) => codec,
                        None => codec.insert(RegionCodec::new(self.level)?),
                    };
                    let region = codec.encode(region, buffer)?;
                    if let Some(recent) = self.recent {
                        recent.put(&region);
                    }
                    shutdown.send(&ends.containers, ToContainers::Region(number, region))?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use cutpoint_repository::{CipherSuite, Keyring, RepositoryId, Secret};

    use super::*;
    use crate::save::batch::{Batch, Cut, Event};
    use crate::save::channels::Channels;

    /// The wait of another stage ends, and the panic is the result of the run.
    #[test]
    fn worker_panic_ends_the_waits_of_other_stages() {
        let (done, ended) = mpsc::channel();
        std::thread::spawn(move || {
            let keyring =
                Keyring { repository: RepositoryId([0; 16]), epochs: vec![(1, Secret([1; 32]))] };
            let keys = Keys::derive(&keyring, CipherSuite::None);
            let mut batch = Batch::new(10);
            // The chunk lies outside of its batch.
            batch.events.push(Event::Chunk(Cut::new(5..105)));
            let Channels { source, mut workers, dedup, .. } = Channels::new(1, 10);
            let ends = workers.pop().expect("one");
            source.jobs.send(SaveJob::Fingerprint(batch)).expect("it is open");
            let state = RunState::default();
            let worker = WorkerStage { keys: &keys, bundling: None, level: 1, recent: None };
            let waited = std::thread::scope(|scope| {
                let waiter = scope.spawn(|| state.shutdown.expect(&dedup.batches).is_err());
                state.shutdown.stage(|| worker.run(ends, &state));
                waiter.join().expect("it waits")
            });
            // The source, which can send batches, still exists, so nothing else ends the wait.
            drop(source);
            let result = || state.shutdown.result();
            let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(result));
            done.send((waited, panic.is_err())).ok();
        });
        let ended = ended.recv_timeout(Duration::from_secs(20)).expect("the wait ends");
        assert_eq!(ended, (true, true), "the wait ends, and the panic goes on");
    }
}
