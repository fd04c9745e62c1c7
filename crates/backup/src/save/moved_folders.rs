//! The folders of previous versions that are no longer at their paths, because they were moved.
//!
//! A moved folder keeps its inode number, and so do the files in it, which keep their times as well.
//! The number leads to the tree of the folder in a previous version. Rule W3 then decides about each
//! file in it as about any other; where the tree was found does not matter for that.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use cutpoint_repository::{Content, Entry, EntryKind};

use super::previous_version::{PreviousVersion, item};

/// The maximum number of folders that are remembered, which bounds the memory.
const FOLDERS_MAX: usize = 200_000;

/// The folders of previous versions that are no longer at their paths, by the identity of their
/// file system and their inode number.
#[derive(Debug, Default)]
pub(super) struct MovedFolders(HashMap<(String, u64), MovedFolder>);

/// A folder of a previous version.
#[derive(Debug)]
struct MovedFolder {
    /// The index of the previous version.
    version: usize,
    entry: Entry,
}

/// A folder whose entries are still to be searched.
struct OpenFolder {
    path: PathBuf,
    content: Content,
    /// Set if the folder is no longer at its path, so that nothing below it is.
    is_gone: bool,
}

impl MovedFolders {
    /// Searches the trees of `previous_versions`. A tree that cannot be read is skipped.
    pub(super) fn search(previous_versions: &[PreviousVersion<'_>]) -> MovedFolders {
        let mut found = MovedFolders::default();
        for (version, previous) in previous_versions.iter().enumerate() {
            found.search_in(version, previous);
        }
        found
    }

    fn search_in(&mut self, version: usize, previous: &PreviousVersion<'_>) {
        let (path, content) = (PathBuf::from("/"), previous.root.clone());
        let mut open = vec![OpenFolder { path, content, is_gone: false }];
        while let Some(folder) = open.pop() {
            let entries = previous.reader.tree(&folder.content).map_while(Result::ok);
            for entry in entries.filter(|entry| entry.kind == EntryKind::Folder) {
                let path = folder.path.join(OsStr::from_bytes(&entry.name));
                let is_there = || {
                    let found = fs::symlink_metadata(&path);
                    found.is_ok_and(|found| entry.inode == 0 || found.ino() == entry.inode)
                };
                let is_gone = folder.is_gone || !is_there();
                let content = entry.content.clone();
                if is_gone {
                    self.add(version, previous, entry);
                }
                open.push(OpenFolder { path, content, is_gone });
            }
        }
    }

    fn add(&mut self, version: usize, previous: &PreviousVersion<'_>, entry: Entry) {
        let Some(identity) = item(&previous.file_systems, entry.device) else { return };
        if identity.is_empty() || entry.inode == 0 || self.0.len() >= FOLDERS_MAX {
            return;
        }
        // Earlier versions in the list have precedence.
        let key = (identity.clone(), entry.inode);
        self.0.entry(key).or_insert(MovedFolder { version, entry });
    }

    /// Returns the folder with this inode number on the file system `identity`, and the index of its
    /// previous version.
    pub(super) fn find(&self, identity: &str, inode: u64) -> Option<(usize, &Entry)> {
        let moved = self.0.get(&(identity.to_owned(), inode))?;
        Some((moved.version, &moved.entry))
    }
}
