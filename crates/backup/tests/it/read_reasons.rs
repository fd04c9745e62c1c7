//! The reasons for which files are read.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, SystemTime};

use cutpoint_backup::save::{
    BackupMonitor, BackupOptions, FileDecision, IgnoredProperties, Parent, ReadReason, backup,
};
use cutpoint_repository::View;
use cutpoint_testing::skipped;

use crate::backup_options::files;
use crate::manual_clock::SECOND_NS;
use crate::unchanged_files::{DAY_NS, Place};

/// A monitor that records the decisions about files.
#[derive(Default)]
struct Decisions(Mutex<Vec<(PathBuf, Option<ReadReason>)>>);

impl BackupMonitor for Decisions {
    fn decided(&self, path: &Path, decision: &FileDecision<'_>) {
        let reason = match decision {
            FileDecision::Read { reason, .. } => Some(*reason),
            _ => None,
        };
        self.0.lock().expect("no panic").push((path.to_owned(), reason));
    }
}

impl Place {
    /// Runs a backup with `options`. Returns the files that it reads, with the reasons.
    #[track_caller]
    pub(crate) fn reasons(&self, options: &BackupOptions) -> Vec<(String, ReadReason)> {
        self.reasons_of(self.folder.path(), options)
    }

    /// Runs a backup of `source` as [`Place::reasons`] does.
    #[track_caller]
    pub(crate) fn reasons_of(
        &self,
        source: &Path,
        options: &BackupOptions,
    ) -> Vec<(String, ReadReason)> {
        let decisions = Decisions::default();
        backup(&self.repository, files(source), options, &decisions).expect("backup");
        // The newest snapshot is the one with the latest start.
        self.advance(SECOND_NS);
        let decisions = decisions.0.into_inner().expect("no panic");
        let mut paths: Vec<&PathBuf> = decisions.iter().map(|(path, _)| path).collect();
        paths.dedup();
        assert_eq!(paths.len(), decisions.len(), "each file once: {decisions:?}");
        let name = |path: &Path| path.file_name().expect("a name").to_string_lossy().into_owned();
        decisions.iter().filter_map(|(path, reason)| Some((name(path), (*reason)?))).collect()
    }
}

fn set_mtime(path: &Path, time: SystemTime) {
    File::options().write(true).open(path).and_then(|file| file.set_modified(time)).expect("set");
}

#[test]
fn each_file_is_read_for_the_property_that_has_changed() {
    use std::os::unix::fs::PermissionsExt;
    let mut place = Place::new();
    for name in ["ctime", "mtime", "same", "size", "twice", "type"] {
        place.write(name, b"bytes");
    }
    fs::hard_link(place.path("same"), place.path("same too")).expect("linked");
    place.advance(30 * SECOND_NS);
    let reasons = place.reasons(&place.options());
    assert_eq!(reasons.len(), 6, "{reasons:?}");
    assert!(reasons.iter().all(|(_, reason)| *reason == ReadReason::New), "{reasons:?}");
    let reasons = place.reasons(&place.options());
    assert!(reasons.iter().all(|(_, reason)| *reason == ReadReason::TooFresh), "{reasons:?}");
    place.advance(DAY_NS);
    place.reasons(&place.options());
    place.advance(DAY_NS);
    assert_eq!(place.reasons(&place.options()), [], "nothing has changed");

    fs::set_permissions(place.path("ctime"), fs::Permissions::from_mode(0o600)).expect("a mode");
    set_mtime(&place.path("mtime"), SystemTime::UNIX_EPOCH);
    fs::write(place.path("size"), b"more bytes").expect("written");
    fs::remove_file(place.path("type")).expect("removed");
    std::os::unix::fs::symlink("same", place.path("type")).expect("linked");
    fs::write(place.path("added"), b"bytes").expect("written");
    place.advance(DAY_NS);
    let expected = [
        ("added", ReadReason::New),
        ("ctime", ReadReason::Ctime),
        ("mtime", ReadReason::Mtime),
        ("size", ReadReason::Size),
    ];
    let expected = expected.map(|(name, reason)| (name.to_owned(), reason));
    assert_eq!(place.reasons(&place.options()), expected, "changes");
    fs::remove_file(place.path("type")).expect("removed");
    fs::write(place.path("type"), b"bytes").expect("written");
    place.advance(DAY_NS);
    assert_eq!(place.reasons(&place.options()), [("type".to_owned(), ReadReason::Type)]);

    let all = |options: &BackupOptions, expected| {
        let reasons = place.reasons(options);
        assert_eq!(reasons.len(), 7, "{reasons:?}");
        assert!(reasons.iter().all(|(_, reason)| *reason == expected), "{reasons:?}");
    };
    all(&BackupOptions { force_read: true, ..place.options() }, ReadReason::Forced);
    place.file_system.identity = "ext4 2".to_owned();
    let all = |options: &BackupOptions, expected| {
        let reasons = place.reasons(options);
        assert!(reasons.iter().all(|(_, reason)| *reason == expected), "{reasons:?}");
    };
    all(&place.options(), ReadReason::FileSystem);
    place.file_system.identity = String::new();
    place.reasons(&place.options());
    let reasons = place.reasons(&place.options());
    assert!(reasons.iter().all(|(_, reason)| *reason == ReadReason::WeakTimes), "{reasons:?}");
}

/// A program has changed the mode, and another one has replaced a file by an equal one.
#[test]
fn ignored_ctime_and_inode_are_no_reasons() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    let (changed, replaced) = (place.write("changed", b"bytes"), place.write("replaced", b"bytes"));
    set_mtime(&replaced, SystemTime::UNIX_EPOCH);
    place.advance(DAY_NS);
    place.reasons(&place.options());
    let replace = || {
        let other = place.write("other", b"bytes");
        set_mtime(&other, SystemTime::UNIX_EPOCH);
        fs::rename(&other, &replaced).expect("renamed");
    };
    replace();
    fs::set_permissions(&changed, fs::Permissions::from_mode(0o600)).expect("a mode");
    let flags = rustix::fs::XattrFlags::empty();
    let has_xattrs = rustix::fs::setxattr(&changed, "user.color", b"red", flags).is_ok();
    place.advance(DAY_NS);
    let ignoring = |inode, ctime| BackupOptions {
        ignored: IgnoredProperties { inode, ctime },
        parent: Parent::Snapshot(View::list(&place.repository).expect("view").snapshots()[0].0),
        ..place.options()
    };
    let reasons = |inode, ctime| -> Vec<ReadReason> {
        let reasons = place.reasons(&ignoring(inode, ctime));
        reasons.into_iter().map(|(_, reason)| reason).collect()
    };
    assert_eq!(reasons(false, false), [ReadReason::Ctime, ReadReason::Ctime], "both are read");
    assert_eq!(reasons(true, false), [ReadReason::Ctime, ReadReason::Ctime], "for ctime alone");
    assert_eq!(reasons(false, true), [ReadReason::Inode], "one is another file");
    assert_eq!(reasons(true, true), [], "none is read");
    let entry = place.entry(&changed);
    assert_eq!(entry.mode, 0o600, "the metadata is that of the file");
    if has_xattrs {
        assert_eq!(entry.xattrs.len(), 1, "the attributes are those of the file");
    } else {
        skipped("the temporary folder has no extended attributes");
    }
}

/// Such as sshfs.
#[test]
fn weak_times_are_trusted_if_ctime_is_ignored() {
    let mut place = Place::new();
    place.file_system.settling_ns = None;
    place.file_system.mtime_settling_ns = Some(DAY_NS);
    place.write("file", b"bytes");
    let ignored = IgnoredProperties { ctime: true, inode: false };
    let ignoring = BackupOptions { ignored, ..place.options() };
    place.advance(DAY_NS + SECOND_NS);
    assert_eq!(place.reasons(&ignoring).len(), 1, "new");
    let reason =
        |options: &BackupOptions| place.reasons(options).first().map(|(_, reason)| *reason);
    assert_eq!(reason(&place.options()), Some(ReadReason::WeakTimes), "ctime counts");
    assert_eq!(reason(&ignoring), None, "mtime is old enough");
    set_mtime(&place.path("file"), SystemTime::now() + Duration::from_secs(24 * 3600));
    place.advance(60 * SECOND_NS);
    assert_eq!(reason(&ignoring), Some(ReadReason::Mtime), "changed");
    assert_eq!(reason(&ignoring), Some(ReadReason::TooFresh), "not a day old");
}
