//! The source of a backup: paths of the file system, or a stream.

use std::fmt;
use std::io::Read;
use std::path::PathBuf;

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
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Files { paths, options } => {
                f.debug_struct("Files").field("paths", paths).field("options", options).finish()
            }
            Source::Stream { name, .. } => {
                f.debug_struct("Stream").field("name", name).finish_non_exhaustive()
            }
        }
    }
}
