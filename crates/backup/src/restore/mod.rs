//! Restore: from a snapshot to files.
//!
//! A [`restore`] goes through these steps:
//!
//! 1. `snapshot_walk` reads the trees in order, and chooses entries by `selection` and `patterns`.
//!    `traversal`, in the calling thread, creates the folders, and gives everything else to the
//!    `dispatcher`.
//! 2. `dispatcher` splits large files into pieces and finds out which names belong to one file.
//!    `job_queue` holds jobs back, so that the plan of the reader can fetch their chunks.
//! 3. `worker`, in several threads, creates files, links and special files. `file` writes the
//!    bytes, `metadata` sets owner, permissions, attributes and time.
//! 4. The last job of a folder sets the metadata of the folder.
//!
//! `preview` (a dry run), `deletion` and `verification` use `target_visit`, a walk through the snapshot beside the
//! existing folders of the target.
//!
//! If the monitor asks for it, `lookahead` counts meanwhile what is going to be written, for the
//! display of the progress.
//!
//! `place` knows the existing entries of the target, and `restore_state` is the state that all
//! threads share.
//!
//! # Restored files
//!
//! A restored file has the bytes, the size, the modification time, the permission bits, the
//! extended attributes (which include POSIX ACLs) and, on request, the owner and group of the
//! original. Holes stay holes, and stored runs of zeros become holes, too. The size and the bytes
//! are the same then, but the file may take less space. Several names of one file become hard links
//! again. The access time, the inode number, and the time of the last metadata change are set by
//! the system.
//!
//! # Hostile snapshots
//!
//! Whatever the trees of a snapshot say, a restore neither writes nor reads anything outside of the
//! target. Names are checked, every system call names one component below an open folder, and no
//! symbolic link is followed, whether it existed before or comes from the snapshot itself. A tree
//! is rejected from the first name that is out of ascending order, so no name is restored twice.
//!
//! # Failures
//!
//! A file with a damaged or missing chunk is not restored at all: the problem is reported and
//! counted, and the restore continues with the other files. A file of up to [`PIECE_LEN`] bytes is
//! created once all of its bytes are in memory. A larger file is written under a temporary name and
//! gets its own once it is complete. A file that is replaced stays in place until the new one is
//! complete, unless it is to be changed in place.
//!
//! # Bytes that are there already
//!
//! A larger file is compared with what the target has of it, segment by segment, by the
//! fingerprints of the chunks; only other segments are fetched (`present_bytes`). The target has the
//! existing file, from which bytes at the same place are taken, and what an earlier restore wrote
//! under the temporary name before it was interrupted (`partial_file`). The name depends only on
//! that of the file, so the next restore finds it, of the same snapshot or another. It is taken over
//! only if no other user or process can have changed it.
//!
//! A full target ends the restore, because nothing else would fit either. A file that exceeds the
//! limits of the target's file system or of the process is a problem of that file alone.

mod deletion;
mod dispatcher;
mod existing;
mod failure;
mod file;
mod hard_link;
mod job;
mod job_queue;
mod large_file;
mod link_names;
mod links;
mod lookahead;
mod metadata;
mod monitor;
mod options;
mod owner_map;
mod partial_file;
mod patterns;
mod piece;
mod place;
mod present_bytes;
mod preview;
mod report;
mod restore_state;
mod restore_tree;
mod selection;
mod snapshot_reader;
mod snapshot_walk;
mod special;
mod target_visit;
mod traversal;
mod verification;
mod worker;

pub(crate) use link_names::SnapshotLinkKey;
pub(crate) use lookahead::Lookahead;
pub use monitor::{RestoreAction, RestoreMonitor};
pub use options::{Overwrite, PIECE_LEN, RestoreOptions};
pub use owner_map::OwnerMap;
pub use report::RestoreReport;
pub use restore_tree::restore;
pub use snapshot_reader::SnapshotReader;
