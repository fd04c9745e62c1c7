//! The source of a backup: paths of the file system, a stream, an archive, or a snapshot.

use std::fmt;
use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;

use super::snapshot_source::SnapshotSource;
use crate::source::WalkOptions;

/// The source of a backup.
pub enum Source {
    /// Everything below some paths of the file system.
    Files {
        /// The paths: of folders, files or anything else.
        paths: Vec<PathBuf>,
        /// Options of the walk, such as the exclusions.
        options: WalkOptions,
    },
    /// A stream, saved as a file in the root folder of the snapshot.
    Stream {
        /// The name of the file.
        name: Vec<u8>,
        /// The content of the file. A reader that has no bytes for a while may return `TimedOut`
        /// from time to time, so that the run notices a cancellation; the run then calls the reader
        /// again.
        reader: Box<dyn Read + Send>,
    },
    /// A tar archive: its members are the entries of the snapshot, below
    /// [`BackupOptions::as_path`](super::BackupOptions::as_path) if that is given. The reader may
    /// return `TimedOut` as that of a stream may.
    Tar(Box<dyn Read + Send>),
    /// A snapshot of another repository, or of the same one. Host, times, tags and other properties
    /// of the result are those of the snapshot.
    Snapshot(Arc<SnapshotSource>),
}

impl Source {
    /// Returns `true` if the source can be read only once.
    pub(super) fn is_stream(&self) -> bool {
        matches!(self, Source::Stream { .. } | Source::Tar(_))
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Files { paths, options } => {
                f.debug_struct("Files").field("paths", paths).field("options", options).finish()
            }
            Source::Snapshot(source) => f.debug_tuple("Snapshot").field(&source.id).finish(),
            Source::Tar(_) => f.write_str("Tar"),
            Source::Stream { name, .. } => {
                f.debug_struct("Stream").field("name", name).finish_non_exhaustive()
            }
        }
    }
}
