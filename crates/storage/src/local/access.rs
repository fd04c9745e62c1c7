//! The permissions and the group of everything in the folder of a repository.

use std::fs::{File, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use rustix::io::Errno;

use super::files::io_error;
use crate::error::{Error, Kind, Result};

/// The mode of the folder of a repository that a group shares: new entries inherit the group.
const SHARED_MODE: u32 = 0o2770;

/// The permissions and the group of a repository's folder, which all entries in it receive,
/// whichever client and umask creates them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Access {
    mode: u32,
    group: u32,
}

impl Access {
    pub(super) fn of(root: &Path) -> std::io::Result<Access> {
        let about = std::fs::metadata(root)?;
        Ok(Access { mode: about.mode() & 0o7777, group: about.gid() })
    }

    /// Gives all members of its group access to the folder `root`.
    pub(super) fn share(root: &Path) -> std::io::Result<()> {
        std::fs::set_permissions(root, Permissions::from_mode(SHARED_MODE))
    }

    /// Returns `true` if all users of this machine can read the contents of the folder.
    pub(super) fn is_open_to_all(self) -> bool {
        self.mode & 0o005 == 0o005
    }

    /// Gives `file`, which will become the object `name`, the group and the permissions. See
    /// [`Access::give_folder`] for errors.
    pub(super) fn give(self, name: &str, file: &File) -> Result<()> {
        self.give_mode(name, file, self.mode & 0o666)
    }

    /// Gives `folder` the group and the permissions.
    ///
    /// # Errors
    ///
    /// Returns a `Storage` error if the group of the repository's folder has rights, but `folder`
    /// cannot be given that group, because the members of the group could not read it.
    pub(super) fn give_folder(self, name: &str, folder: &Path) -> Result<()> {
        let folder = File::open(folder).map_err(|error| io_error(&name, error))?;
        self.give_mode(name, &folder, self.mode)
    }

    fn give_mode(self, name: &str, file: &File, mode: u32) -> Result<()> {
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
