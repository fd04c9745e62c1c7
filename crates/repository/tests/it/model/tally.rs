//! Counts of what happened in a run.

/// Counts of what happened, for the report.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) steps: u64,
    pub(crate) failures: u64,
    pub(crate) backups: u64,
    pub(crate) pruned_snapshots: u64,
    pub(crate) swept_containers: u64,
    pub(crate) rescued_chunks: u64,
    pub(crate) harms: u64,
    pub(crate) losses: u64,
    pub(crate) rollbacks: u64,
}

impl Tally {
    pub(crate) fn add(&mut self, other: &Tally) {
        self.steps += other.steps;
        self.failures += other.failures;
        self.backups += other.backups;
        self.pruned_snapshots += other.pruned_snapshots;
        self.swept_containers += other.swept_containers;
        self.rescued_chunks += other.rescued_chunks;
        self.harms += other.harms;
        self.losses += other.losses;
        self.rollbacks += other.rollbacks;
    }
}
