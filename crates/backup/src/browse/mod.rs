//! Browsing: the snapshots of a repository as one tree of numbered nodes, which can be shown as a
//! read-only file system.
//!
//! [`Browser`] answers the questions of such a file system: which node has a name in a folder, what
//! the properties of a node are, and which bytes a range of a file has. It knows nothing of FUSE.
//!
//! # Folders at the top
//!
//! ```text
//! latest -> ids/5f3a91c0
//! by-time/2026-11-20T14:30:00+01:00 -> ../ids/5f3a91c0
//! hosts/laptop/latest -> ../../ids/5f3a91c0
//! hosts/laptop/2026-11-20T14:30:00+01:00 -> ../../ids/5f3a91c0
//! tags/weekly/...
//! ids/5f3a91c0/home/me/...
//! ```
//!
//! Only `ids` has the snapshots themselves; all other names are symbolic links, so that a program
//! that walks through everything sees each snapshot once. A lookup or a listing at the top lists
//! the repository again, if that has not been done for a while.
//!
//! # Files
//!
//! - `snapshots.rs`: the source of the list of snapshots. `top.rs`: the folders at the top.
//! - `table.rs`: the nodes that the caller has been told of. The number of a node is a hash of its
//!   path or, if a file has several names in the snapshot, of what its names have in common. It is
//!   the same after the node was forgotten.
//! - `recipes.rs`, `chunks.rs`, and `trees/` beside this folder: segments and bytes of files, and
//!   folders, decoded and kept within limits.
//! - `read_ahead.rs`: threads that decode what the reader of a large file will need next.
//! - `walks.rs`: readers that go from file to file, and which files they will read next.
//!   `file_cursor.rs`: the order of files. `follower.rs`: the thread that keeps both up to date.
//! - `contents.rs`: entries and bytes by their paths, for a caller without nodes.
//! - `attributes.rs`: the properties of a node. `browser.rs` puts everything together.
//!
//! # Hostile snapshots
//!
//! A name that no folder can hold (empty, `.`, `..`, or with `/` or a zero byte) makes the chunk of
//! the tree that contains it unreadable. Names of hosts and tags, which can be any text, are
//! escaped.
//!
//! # Failures
//!
//! What cannot be read is reported to the [`SnapshotSource`], and fails with `EIO` for that range,
//! name or folder alone. A damaged chunk is not tried again for half a minute.

mod attributes;
mod browser;
mod chunks;
mod contents;
mod file_cursor;
mod follower;
mod position;
mod read_ahead;
mod recipes;
mod snapshots;
mod table;
mod top;
mod walks;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub use attributes::Attributes;
pub use browser::{BrowseOptions, Browser, Xattr};
pub use contents::Contents;
pub use position::ListedEntry;
pub use snapshots::{ListedSnapshot, SnapshotSource};
pub use table::ROOT;

/// Locks a value that no panic leaves in a state that must not be used.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
