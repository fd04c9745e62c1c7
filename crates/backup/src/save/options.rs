//! The options of a backup.

use std::path::PathBuf;
use std::sync::Arc;

use cutpoint_repository::{TicketId, Verify};

use super::changed_blocks::ChangedBlocks;
use crate::source::{FileSystems, Kernel};

/// The default of [`BackupOptions::readers`]. Disks and servers answer this number of requests at a
/// time faster than fewer, and more of them hardly faster.
const READERS: usize = 32;

/// The snapshot that a backup compares its source with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Parent {
    /// The newest snapshot of the same host and sources, which can be a partial one. If there is
    /// none, the newest complete snapshot of the host that has any of the sources.
    #[default]
    Newest,
    /// No snapshot.
    None,
    /// The snapshot with this identifier.
    Snapshot(TicketId),
}

/// The properties of files that need not agree with the previous version, by which rule W3 is
/// weakened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IgnoredProperties {
    /// Takes a file over although its inode number has changed.
    pub inode: bool,
    /// Takes a file over although its time of the last metadata change (ctime) has changed: the
    /// time of modification decides, also on file systems whose ctime proves nothing.
    pub ctime: bool,
}

/// Options of a backup.
#[derive(Clone, Debug)]
pub struct BackupOptions {
    /// The snapshot to compare with, so that unchanged files need not be read.
    pub parent: Parent,
    /// Reads every file, whatever the parent says about it.
    pub force_read: bool,
    /// The properties of files that need not agree with the parent.
    pub ignored: IgnoredProperties,
    /// The absolute path that the only source gets in the snapshot, in place of its own.
    pub as_path: Option<PathBuf>,
    /// The map of the changed blocks of the only source, a device or file, which is read by it.
    pub changed_blocks: Option<Arc<ChangedBlocks>>,
    /// Makes no snapshot if nothing has changed.
    pub skip_if_unchanged: bool,
    /// The regions that are decoded before they are put.
    pub verify: Verify,
    /// The number of threads that fingerprint and compress; 0 stands for as many as the machine
    /// has.
    pub threads: usize,
    /// The maximum number of threads that examine, open and read files ahead of the others; 0 for none.
    /// They wait for the disk most of the time, and begin once the files are found not to be in memory.
    /// Nothing that is stored depends on it.
    pub readers: usize,
    /// Set if these threads begin at once.
    pub readers_begin_at_once: bool,
    /// Tags by which the snapshot can be found.
    pub tags: Vec<String>,
    /// Free text, for the snapshot.
    pub description: String,
    /// The name of the machine, for the snapshot.
    pub host: String,
    /// The name of the user that runs the backup, for the snapshot.
    pub user: String,
    /// The name and version of the program, for the snapshot.
    pub program: String,
    /// Tells file systems apart: [`Kernel`], except in tests.
    pub file_systems: Arc<dyn FileSystems>,
}

impl Default for BackupOptions {
    /// The options of the command line: compares with the newest snapshot, reads changed files
    /// only, always makes a snapshot, verifies some regions, and uses all processors. The names of
    /// the machine and of the user come from the system.
    fn default() -> BackupOptions {
        BackupOptions {
            parent: Parent::Newest,
            force_read: false,
            ignored: IgnoredProperties::default(),
            as_path: None,
            changed_blocks: None,
            skip_if_unchanged: false,
            verify: Verify::Some,
            threads: 0,
            readers: READERS,
            readers_begin_at_once: false,
            tags: Vec::new(),
            description: String::new(),
            host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            user: user(),
            program: concat!("cutpoint ", env!("CARGO_PKG_VERSION")).to_owned(),
            file_systems: Arc::new(Kernel),
        }
    }
}

/// Returns the name of the user from the environment; the user id if there is none.
fn user() -> String {
    let named = ["USER", "LOGNAME"].iter().find_map(|variable| std::env::var(variable).ok());
    named
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| rustix::process::geteuid().as_raw().to_string())
}
