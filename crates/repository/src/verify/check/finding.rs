//! The findings of a check, and the monitor that receives them.

use super::remedy::Remedy;

/// The kind of a finding: an error, or a note.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FindingKind {
    /// Bytes differ from those that were written, or the storage does not return them.
    Corrupt,
    /// An object that is named does not exist.
    Missing,
    /// A file or folder of a snapshot cannot be restored, because of another finding.
    Affected,
    /// An object that cutpoint has not written, or a damaged object that nothing names. Not an
    /// error.
    Foreign,
    /// An object that is damaged or gone, and that no listed snapshot needs any more. Not an error;
    /// a prune removes it.
    Unneeded,
    /// A writer that has neither ended nor been ended. Not an error, because the writer may be at
    /// work.
    Unfinished,
}

/// A finding of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The kind of the finding.
    pub kind: FindingKind,
    /// The object, or the snapshot and path.
    pub object: String,
    /// A description of the problem.
    pub message: String,
    /// The commands that resolve the finding, in the order in which they should be tried. After
    /// them, the object is as it was, or nothing misses it any more. Empty if the finding is not an
    /// error, or if no command helps.
    pub remedies: Vec<Remedy>,
}

impl Finding {
    /// Returns `true` if data is lost or damaged.
    pub fn is_error(&self) -> bool {
        use FindingKind::{Affected, Corrupt, Missing};
        matches!(self.kind, Corrupt | Missing | Affected)
    }
}

/// Receives the progress and the findings of a check. Methods can be called from several threads.
pub trait CheckMonitor: Sync {
    /// Announces the number of containers and bytes that will be read.
    fn expected(&self, containers: u64, bytes: u64) {
        let _ = (containers, bytes);
    }

    /// Reports the number of containers and bytes that were read since the last call.
    fn progress(&self, containers: u64, bytes: u64) {
        let _ = (containers, bytes);
    }

    /// Reports a finding.
    fn finding(&self, finding: &Finding) {
        let _ = finding;
    }

    /// Returns `true` to stop the check. Called often.
    fn cancelled(&self) -> bool {
        false
    }
}

/// A monitor that ignores everything.
impl CheckMonitor for () {}
