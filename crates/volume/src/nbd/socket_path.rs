//! The path of a Unix socket.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The path of a Unix socket that this process listens at.
///
/// With the value, the socket is removed, if it is still the one at the path: where a folder was moved,
/// another server may have its socket there. The value must be dropped before the listener.
#[derive(Debug)]
pub struct SocketPath {
    path: PathBuf,
    identity: Option<(u64, u64)>,
}

impl SocketPath {
    /// Takes the path of a socket that was just bound.
    #[must_use]
    pub fn of(path: &Path) -> SocketPath {
        SocketPath { path: path.to_owned(), identity: identity(path) }
    }

    /// Returns the path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for SocketPath {
    fn drop(&mut self) {
        if identity(&self.path) == self.identity {
            // A socket that is left behind is replaced by the next server.
            fs::remove_file(&self.path).ok();
        }
    }
}

/// Returns the device and the inode of what is at a path.
fn identity(path: &Path) -> Option<(u64, u64)> {
    fs::symlink_metadata(path).ok().map(|about| (about.dev(), about.ino()))
}
