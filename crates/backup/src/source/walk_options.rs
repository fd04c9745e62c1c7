//! The options of a walk.

/// The names that a [`Walk`](super::Walk) leaves out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WalkOptions {
    /// Stays on the file system of each source. A folder on which another file system is mounted is
    /// recorded as an empty folder. A subvolume is another file system.
    pub one_file_system: bool,
    /// Exclusion patterns as in a `.gitignore` of the root folder: `*.o` and `target/` match
    /// anywhere, `/home/me/tmp` and `home/me/tmp` match one place, `**/docs/tmp` matches below any
    /// folder, and `!` cancels an exclusion. The sources themselves and the folders above them are
    /// never excluded.
    pub exclude: Vec<String>,
    /// In a folder with a `CACHEDIR.TAG`, keeps only the folder and the tag.
    pub exclude_caches: bool,
}
