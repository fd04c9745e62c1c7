//! The comparison of a folder with its restored copy.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cutpoint_backup::restore::{RestoreOptions, restore};
use cutpoint_repository::{Reader, Repository, View};

/// Restores the newest snapshot and compares it with `source`.
pub(crate) fn restore_and_compare(repository: &Arc<Repository>, source: &Path) {
    let reader = Reader::open(repository.clone(), View::list(repository).expect("it lists"))
        .expect("reader");
    let view = reader.view();
    let snapshots = view.snapshots();
    let (_, snapshot) = snapshots.last().expect("a snapshot");
    let target = tempfile::tempdir().expect("target");
    let report = restore(&reader, &snapshot.root, target.path(), &RestoreOptions::default(), &())
        .expect("restore");
    assert_eq!(report.failed_entries, 0, "something was not restored");
    compare(source, &target.path().join(source.strip_prefix("/").expect("absolute")));
}

/// Compares the names, contents, modes and times below two folders.
pub(crate) fn compare(left: &Path, right: &Path) {
    let names = |path: &Path| -> Vec<PathBuf> {
        let mut names: Vec<_> = fs::read_dir(path)
            .expect("read folder")
            .map(|entry| PathBuf::from(entry.expect("entry").file_name()))
            .collect();
        names.sort();
        names
    };
    assert_eq!(names(left), names(right), "the names below {}", left.display());
    for name in names(left) {
        let (left, right) = (left.join(&name), right.join(&name));
        let (a, b) =
            (left.symlink_metadata().expect("left"), right.symlink_metadata().expect("right"));
        assert_eq!(a.mode(), b.mode(), "mode of {}", left.display());
        assert_eq!((a.mtime(), a.mtime_nsec()), (b.mtime(), b.mtime_nsec()), "{}", left.display());
        if a.is_dir() {
            compare(&left, &right);
        } else if a.is_symlink() {
            let (a, b) =
                (fs::read_link(&left).expect("link"), fs::read_link(&right).expect("link"));
            assert_eq!(a, b, "target of {}", left.display());
        } else {
            assert!(
                fs::read(&left).expect("left") == fs::read(&right).expect("right"),
                "{} has other bytes",
                left.display()
            );
        }
    }
}
