//! The permissions and the group of everything in the folder of a repository.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::io::Errno;

use super::files::io_error;
use crate::error::{Error, Kind, Result};

/// The permissions and the group of a repository's folder, which all entries in it receive,
/// whichever client and umask creates them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Access {
    pub(super) mode: u32,
    group: u32,
}

impl Access {
    pub(super) fn of(root: &Path) -> std::io::Result<Access> {
        let about = std::fs::metadata(root)?;
        Ok(Access { mode: about.mode() & 0o7777, group: about.gid() })
    }

    /// Gives `file` the group and the permissions. `file` is a folder, or will become the object
    /// `name`.
    ///
    /// # Errors
    ///
    /// Returns a `Storage` error if the group of the repository's folder has rights, but `file`
    /// cannot be given that group, because the members of the group could not read it.
    pub(super) fn give(self, name: &str, file: &File, is_folder: bool) -> Result<()> {
        let about = file.metadata().map_err(|error| io_error(&name, error))?;
        if about.gid() != self.group {
            let group = rustix::fs::Gid::from_raw(self.group);
            match rustix::fs::fchown(file, None, Some(group)) {
                Ok(()) => {}
                // The group has no rights, and those of other users do not depend on the group.
                Err(_) if self.mode & 0o070 == 0 => {}
                Err(error) => {
                    let message = format!(
                        "cannot be assigned to group {}, whose members share the repository's \
                         folder: {error}; write as a member of that group",
                        self.group
                    );
                    return Err(Error::new(Kind::Storage, name, message));
                }
            }
        }
        let mode = if is_folder { self.mode } else { self.mode & 0o666 };
        // The type of the mode depends on the platform; the permissions have 12 bits.
        #[allow(clippy::cast_possible_truncation, reason = "16 bits hold the permissions")]
        let mode = rustix::fs::Mode::from_raw_mode(mode as rustix::fs::RawMode);
        match rustix::fs::fchmod(file, mode) {
            // The file is owned by this user, so that only a file system without permissions
            // refuses.
            Ok(()) | Err(Errno::PERM | Errno::NOTSUP | Errno::NOSYS | Errno::INVAL) => Ok(()),
            Err(error) => Err(io_error(&name, error.into())),
        }
    }
}
