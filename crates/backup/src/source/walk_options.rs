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
    /// Further patterns, which come after the others and ignore the case of letters.
    pub exclude_any_case: Vec<String>,
    /// In a folder with a `CACHEDIR.TAG`, keeps only the folder and the tag.
    pub exclude_caches: bool,
    /// In a folder with one of these tags, keeps only the folder and the tags.
    pub exclude_tagged: Vec<FolderTag>,
    /// Leaves out regular files of more than this number of bytes.
    pub exclude_larger_than: Option<u64>,
    /// Leaves out what the patterns in the `.cutpointignore` of a folder match below that folder,
    /// unless [`WalkOptions::exclude`] decides. The patterns of an inner folder have precedence.
    pub reads_ignore_files: bool,
    /// Treats `.gitignore` files like `.cutpointignore` files, which have precedence in the same
    /// folder.
    pub reads_git_ignore: bool,
}

/// A file that marks its folder as one whose contents are left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FolderTag {
    /// The name of the file.
    pub name: Vec<u8>,
    /// The bytes with which the file begins. If there are none, the tag can be any entry.
    pub header: Vec<u8>,
}

impl FolderTag {
    /// Returns the tag of caches.
    ///
    /// Source: the Cache Directory Tagging Specification, <https://bford.info/cachedir/>.
    pub fn of_caches() -> FolderTag {
        let header = b"Signature: 8a477f597d28d172789f06886806bc55".to_vec();
        FolderTag { name: b"CACHEDIR.TAG".to_vec(), header }
    }
}
