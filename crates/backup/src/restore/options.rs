//! The options of a restore.

use std::ffi::OsString;
use std::path::PathBuf;

use cutpoint_repository::Entry;

use super::owner_map::OwnerMap;

/// The size in bytes above which a file is written in pieces of about this size, several of them in
/// parallel.
pub const PIECE_LEN: u64 = 4 << 20;

/// The default of [`RestoreOptions::plan_bytes_max`], in bytes.
const PLAN_BYTES_MAX: usize = 40 << 20;

/// The treatment of entries that already exist in the target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overwrite {
    /// An existing entry stays as it is and is reported as a problem. A folder is entered, but
    /// keeps its own metadata.
    #[default]
    Never,
    /// The content of an entry of the same kind, size and modification time (for a symbolic link: of
    /// the same target) stays as it is; its owner, permissions and extended attributes are set where
    /// they differ. Everything else is replaced, as by `Replace`. This continues an interrupted
    /// restore.
    Changed,
    /// A new file takes the place of the existing one, so other names of the existing file and the
    /// target of a symbolic link stay unchanged. The existing entry stays until the new one is
    /// complete. (A restore that is killed can leave a file `.cutpoint-restore-PROCESS-N` beside
    /// it.) Bytes that a large existing file has at the same place are shared with the new file or,
    /// if the file system cannot do that, copied; they are not fetched. A folder is entered and gets the metadata of the snapshot. A folder in the place of
    /// something else is never removed, but reported as a problem.
    Replace,
}

/// Options of a restore.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoreOptions {
    /// The number of threads that write files; 0 stands for as many as the machine has.
    pub threads: usize,
    /// The maximum number of decoded bytes held because they will be needed soon. A smaller value
    /// causes repeated reads and has no other effect.
    pub plan_bytes_max: usize,
    /// The treatment of entries that already exist in the target.
    pub overwrite: Overwrite,
    /// Sets owners and groups.
    pub owners: bool,
    /// Takes owners and groups by their ids alone. Otherwise, they are found by name, and by id if
    /// this system does not know the name.
    pub numeric_owners: bool,
    /// Rules that give files other owners, before [`RestoreOptions::numeric_owners`] applies. Without
    /// [`RestoreOptions::owners`], the rules have no effect.
    pub owner_map: OwnerMap,
    /// Restores devices, pipes and sockets.
    pub specials: bool,
    /// Restores the bits that let a program run with the rights of its owner or group
    /// (set-user-id and set-group-id), and the capabilities of programs.
    pub privileges: bool,
    /// Writes nothing. The report counts what would be done, and the monitor gets each change. The
    /// target need not exist.
    pub dry_run: bool,
    /// Changes existing files in place, so that only the blocks that differ are written. Until such a
    /// file is complete, it is a mixture of old and new. A file with several names is replaced
    /// nevertheless, so that its other names keep their content.
    pub in_place: bool,
    /// Deletes, before anything is restored, entries of the target that are not in the snapshot: in
    /// folders that are restored completely, and of these only entries that the patterns include.
    /// Mount points and what is on them stay. A folder in the place of something else is deleted,
    /// too.
    pub delete: bool,
    /// Folders from which [`RestoreOptions::delete`] deletes nothing, such as the repository. They
    /// are recognized by any path that leads to them.
    pub kept_folders: Vec<PathBuf>,
    /// Reads all files back at the end, those that were unchanged as well, and compares them with
    /// the snapshot. A difference is a problem.
    pub verify: bool,
    /// The paths in the snapshot to restore, each with everything below it; an empty list selects
    /// the whole snapshot. Each path begins at the root of the snapshot, with or without a `/`.
    /// Folders on the way to a selected path are created with their metadata, and left as they are
    /// if they exist.
    pub selection: Vec<PathBuf>,
    /// The path of `root` in the snapshot, at which the paths that patterns are compared with begin.
    /// A selected file keeps its own name there.
    pub root_path: PathBuf,
    /// The paths that the snapshot has saved. Nothing is deleted in a folder above them, where the
    /// snapshot has only a part of what was there.
    pub sources: Vec<Vec<u8>>,
    /// Patterns of entries that are left out, by the rules of a `.gitignore` file in the root of the
    /// snapshot. An excluded folder is left out with everything below it.
    pub exclude: Vec<String>,
    /// Patterns of the only entries to restore, by the same rules; an empty list stands for all
    /// entries. A folder that matches is restored with everything below it that no negated pattern
    /// matches. Parents of restored entries are created with their metadata, and left as they are
    /// if they exist.
    pub include: Vec<String>,
    /// The name in the target of the only selected path, which is a name in `root`; `None` keeps
    /// the name. Problems and warnings use the name in the target.
    pub new_name: Option<OsString>,
    /// The folder that has `root` as its content, if there is one. The target gets its metadata.
    pub folder: Option<Entry>,
}

impl Default for RestoreOptions {
    /// Restores the whole snapshot, overwrites nothing, and sets owners if the caller is root.
    fn default() -> RestoreOptions {
        RestoreOptions {
            threads: 0,
            plan_bytes_max: PLAN_BYTES_MAX,
            overwrite: Overwrite::Never,
            owners: rustix::process::geteuid().is_root(),
            numeric_owners: false,
            owner_map: OwnerMap::default(),
            specials: true,
            privileges: true,
            dry_run: false,
            in_place: false,
            delete: false,
            kept_folders: Vec::new(),
            verify: false,
            selection: Vec::new(),
            root_path: PathBuf::new(),
            sources: Vec::new(),
            exclude: Vec::new(),
            include: Vec::new(),
            new_name: None,
            folder: None,
        }
    }
}
