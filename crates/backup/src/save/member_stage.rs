//! The part of the dedup stage that collects the members of an archive until all of them are known.

use std::path::PathBuf;

use cutpoint_repository::{Entry, Keys};
use cutpoint_storage::{Error, Result};

use super::as_path::folder_above;
use super::monitor::BackupMonitor;
use crate::tar_input::{MemberSpool, SpooledMembers};

/// The members of an archive whose bytes are stored.
pub(super) struct MemberStage<'a> {
    spool: MemberSpool,
    /// The path of the next member.
    path: Option<Vec<u8>>,
    monitor: &'a dyn BackupMonitor,
}

impl<'a> MemberStage<'a> {
    /// Creates a stage with temporary files in `folder`, if there is one.
    pub(super) fn new(folder: Option<PathBuf>, monitor: &'a dyn BackupMonitor) -> MemberStage<'a> {
        MemberStage { spool: MemberSpool::new(folder), path: None, monitor }
    }

    /// Begins the member at `path`.
    pub(super) fn begin(&mut self, path: Vec<u8>) {
        self.path = Some(path);
    }

    /// Takes the complete entry of the member that began last.
    pub(super) fn push(&mut self, entry: &Entry) -> Result<()> {
        let path = self.path.take();
        let path = path.ok_or_else(|| Error::invalid("backup", "a member without a path"))?;
        self.spool.push(&path, entry)
    }

    /// Takes a further name of the member at `target`.
    pub(super) fn link(&mut self, path: &[u8], target: &[u8]) -> Result<()> {
        self.spool.link(path, target)
    }

    /// The monitor of the run.
    pub(super) fn monitor(&self) -> &'a dyn BackupMonitor {
        self.monitor
    }

    /// Ends the archive. Returns the members in the order of the trees.
    pub(super) fn finish(&mut self, keys: &Keys) -> Result<SpooledMembers<'_>> {
        self.spool.finish(|key| keys.name_hash(key), folder_above)
    }
}
