//! Both implementations, compared on Unix.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use cutpoint_repository::{Entry, Time};

use super::{portable, unix};

/// Describes what both implementations tell of an entry.
fn described(entry: &Entry) -> String {
    let Entry { name, kind, mtime, size, content, .. } = entry;
    format!("{} {kind:?} {mtime:?} {size} {content:?}", String::from_utf8_lossy(name))
}

fn unix_steps(sources: &[PathBuf]) -> Vec<String> {
    let walk = unix::Walk::new(sources, unix::WalkOptions::default()).expect("it is there");
    let steps = walk.map(|step| match step {
        unix::WalkStep::Enter { entry, .. } => format!("enter {}", described(&entry)),
        unix::WalkStep::Item { path, entry, .. } => format!("{path:?} {}", described(&entry)),
        unix::WalkStep::Leave => "leave".to_owned(),
        step => format!("{step:?}"),
    });
    steps.collect()
}

fn portable_steps(sources: &[PathBuf]) -> Vec<String> {
    let walk = portable::Walk::new(sources, portable::WalkOptions {}).expect("it is there");
    let steps = walk.map(|step| match step {
        portable::WalkStep::Enter { entry } => format!("enter {}", described(&entry)),
        portable::WalkStep::Item { path, entry, .. } => format!("{path:?} {}", described(&entry)),
        portable::WalkStep::Leave => "leave".to_owned(),
        portable::WalkStep::Problem { path, error } => {
            format!("{:?}", unix::WalkStep::Problem { path, error })
        }
    });
    steps.collect()
}

/// Makes files, folders and links below `base`.
fn make_tree(base: &Path) {
    for name in ["a-", "a/x/1", "a/y", "a0", "b", "B", "\u{e9}", "other/below/file", "other/rest"] {
        let path = base.join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(path, name).expect("written");
    }
    fs::create_dir(base.join("empty")).expect("made");
    symlink("a/x", base.join("link")).expect("linked");
    symlink("nowhere", base.join("a/dangling")).expect("linked");
}

#[test]
fn steps_of_both_walks_are_equal() {
    let scratch = tempfile::tempdir().expect("a folder");
    let base = scratch.path();
    make_tree(base);
    let sources =
        |names: &[&str]| -> Vec<PathBuf> { names.iter().map(|name| base.join(name)).collect() };
    for names in [
        &[""][..],
        &["a", "b"],
        &["other/below", "a/x", "a0", "other/below/file", "a/x"],
        &["", "a/x"],
        &["link"],
        &["link/"],
        &["link/1", "other/."],
        &["other/below/..", "empty"],
    ] {
        let expected = unix_steps(&sources(names));
        assert!(expected.len() > names.len(), "{names:?}: {expected:?}");
        assert_eq!(portable_steps(&sources(names)), expected, "{names:?}");
    }
}

#[test]
fn sources_that_fail_are_equal() {
    let scratch = tempfile::tempdir().expect("a folder");
    let base = scratch.path();
    make_tree(base);
    let text = |error: Option<io::Error>| error.expect("it fails").to_string();
    for sources in [&[][..], &[base.join("b"), base.join("no/file")], &[base.join("b/below")]] {
        let expected = text(unix::Walk::new(sources, unix::WalkOptions::default()).err());
        let found = text(portable::Walk::new(sources, portable::WalkOptions {}).err());
        assert_eq!(found, expected, "{sources:?}");
    }
}

#[test]
fn name_that_is_not_unicode_is_a_problem() {
    let scratch = tempfile::tempdir().expect("a folder");
    let base = scratch.path().canonicalize().expect("it is there");
    let path = base.join(OsStr::from_bytes(b"\xff"));
    fs::write(&path, "").expect("written");
    fs::write(base.join("file"), "").expect("written");
    let steps = portable_steps(std::slice::from_ref(&base));
    let problems: Vec<_> = steps.iter().filter(|step| step.starts_with("Problem")).collect();
    assert_eq!(problems.len(), 1, "{steps:?}");
    assert!(problems[0].contains(&format!("{path:?}")), "{problems:?}");
    assert!(steps.iter().any(|step| step.contains("file File")), "the walk continues: {steps:?}");
    assert!(portable::Walk::new(&[path], portable::WalkOptions {}).is_err(), "as a source");
}

#[test]
fn bytes_and_metadata_of_files_are_equal() {
    let scratch = tempfile::tempdir().expect("a folder");
    let base = scratch.path().canonicalize().expect("it is there");
    let bytes: Vec<u8> = (0..=255).cycle().take(1000).collect();
    fs::write(base.join("file"), &bytes).expect("written");
    let mut items = portable::Walk::new(&[base.join("file")], portable::WalkOptions {})
        .expect("it is there")
        .filter_map(|step| match step {
            portable::WalkStep::Item { entry, folder, .. } => Some((entry, folder)),
            _ => None,
        });
    let (found, folder) = items.next().expect("the file");
    let mut items = unix::Walk::new(&[base.join("file")], unix::WalkOptions::default())
        .expect("it is there")
        .filter_map(|step| match step {
            unix::WalkStep::Item { entry, folder, .. } => Some((entry, folder)),
            _ => None,
        });
    let (expected, unix_folder) = items.next().expect("the file");
    // Both see the state of the file when it is opened.
    let file = File::options().append(true).open(base.join("file")).expect("opened");
    io::Write::write_all(&mut &file, b"more").expect("written");
    for mtime in [Duration::ZERO, Duration::from_millis(1500), Duration::from_secs(2)] {
        file.set_modified(UNIX_EPOCH - mtime).expect("set");
        let (mut found, mut expected) = (found.clone(), expected.clone());
        let mut portable_file = portable::open_file(&folder, &found).expect("opened");
        let mut unix_file = unix::open_file(&unix_folder, &expected).expect("opened");
        portable::complete(&mut found, &mut portable_file);
        unix::complete(&mut expected, &mut unix_file);
        assert_eq!(described(&found), described(&expected), "{mtime:?} before 1970");
        assert_eq!((found.size, found.mtime < Time::default()), (1004, !mtime.is_zero()), "as set");
        for (offset, len) in [(0, 1004), (0, 10), (3, 200), (1000, 100), (1004, 1), (5000, 7)] {
            let (mut one, mut other) = (vec![7; len], vec![7; len]);
            let count = portable_file.read_at(&mut one, offset).expect("read");
            assert_eq!(count, unix_file.read_at(&mut other, offset).expect("read"), "{offset}");
            assert_eq!(one, other, "{len} bytes at {offset}");
            let extents = portable_file.extents(offset).map(|it| format!("{:?}", it.expect("is")));
            let asked = unix_file.extents(offset).map(|it| format!("{:?}", it.expect("is")));
            assert_eq!(extents.collect::<Vec<_>>(), asked.collect::<Vec<_>>(), "from {offset} on");
        }
    }
    fs::remove_file(base.join("file")).expect("removed");
    fs::create_dir(base.join("file")).expect("made");
    let error = portable::open_file(&folder, &found).expect_err("a folder");
    let expected = unix::open_file(&unix_folder, &expected).expect_err("a folder");
    assert_eq!(error.to_string(), expected.to_string(), "a folder in place of the file");
}
