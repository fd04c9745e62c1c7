//! Copies of the same snapshots by two processes at once.

use std::path::Path;
use std::sync::{Arc, Mutex};

use cutpoint_backup::copy::{CopyMonitor, CopyReport};
use cutpoint_backup::save::BackupMonitor;
use cutpoint_repository::Repository;

use crate::copies::{assert_same_snapshots, assert_sound, copy_all, copy_with, other, source};

/// Copies all snapshots when the outer copy reads its first file, as another process would.
struct CopiesAlso {
    source: Arc<Repository>,
    target: Arc<Repository>,
    report: Mutex<Option<CopyReport>>,
}

impl BackupMonitor for CopiesAlso {
    fn reading(&self, _: &Path) {
        let mut report = self.report.lock().expect("no panic");
        if report.is_none() {
            *report = Some(copy_all(&self.source, &self.target));
        }
    }
}

impl CopyMonitor for CopiesAlso {}

#[test]
fn copy_made_by_another_process_meanwhile_is_not_made_twice() {
    let folder = tempfile::tempdir().expect("a folder");
    let source = source(folder.path());
    let target = other();
    let (report, own) = (Mutex::default(), target.clone());
    let monitor = CopiesAlso { source: source.clone(), target: own, report };
    let outer = copy_with(&source, &target, &monitor).expect("a copy");
    let inner = monitor.report.into_inner().expect("no panic").expect("a copy");
    assert_eq!((inner.saved.len(), inner.unchanged_count), (2, 0), "{inner:?}");
    assert_eq!((outer.saved.len(), outer.unchanged_count), (0, 2), "{outer:?}");
    assert_same_snapshots(&source, &target);
    assert_sound(&target);
}
