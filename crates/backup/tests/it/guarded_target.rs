//! A target with a folder beside it that must not change.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use cutpoint_backup::restore::{Overwrite, RestoreOptions};
use cutpoint_repository::{Content, Entry, EntryKind};

use crate::memory_store::{MemoryStore, restore_into};

/// Returns a symbolic link to `target`.
pub(crate) fn link(name: &str, target: &Path) -> Entry {
    let mut entry = Entry::new(name, EntryKind::Symlink);
    entry.content = Content::Raw(target.as_os_str().as_encoded_bytes().to_vec());
    entry.size = target.as_os_str().len() as u64;
    entry
}

/// All treatments of existing entries.
pub(crate) const ALL: [Overwrite; 3] = [Overwrite::Never, Overwrite::Changed, Overwrite::Replace];

/// A target, and a folder beside it in which nothing may ever appear or change.
pub(crate) struct GuardedTarget {
    pub(crate) scratch: tempfile::TempDir,
}

impl GuardedTarget {
    pub(crate) fn new() -> GuardedTarget {
        let scratch = tempfile::tempdir().unwrap();
        fs::create_dir(scratch.path().join("outside")).unwrap();
        fs::write(scratch.path().join("outside/precious"), b"precious").unwrap();
        GuardedTarget { scratch }
    }

    pub(crate) fn outside(&self) -> PathBuf {
        self.scratch.path().join("outside")
    }

    pub(crate) fn target(&self) -> PathBuf {
        self.scratch.path().join("target")
    }

    /// Restores, and checks that nothing happened outside of the target.
    pub(crate) fn restore(
        &self,
        store: &MemoryStore,
        entries: Content,
        overwrite: Overwrite,
    ) -> Vec<PathBuf> {
        let options = RestoreOptions { overwrite, ..RestoreOptions::default() };
        let before = self.look();
        let (_, monitor) = restore_into(store, &entries, &self.target(), options);
        assert_eq!(self.look(), before, "something happened outside, {overwrite:?}");
        monitor.problem_paths()
    }

    /// Returns the state of everything beside the target.
    pub(crate) fn look(&self) -> Vec<(PathBuf, u32, i64, i64, Vec<u8>)> {
        let mut seen = vec![];
        for path in [self.outside(), self.outside().join("precious")] {
            let meta = fs::symlink_metadata(&path).unwrap();
            let bytes = fs::read(&path).unwrap_or_default();
            seen.push((path, meta.mode(), meta.mtime_nsec(), meta.ctime_nsec(), bytes));
        }
        assert_eq!(fs::read_dir(self.outside()).unwrap().count(), 1, "names outside");
        assert!(fs::read_dir(self.scratch.path()).unwrap().count() <= 2, "names beside");
        seen
    }
}
