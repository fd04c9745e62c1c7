//! The steps of a walk: their order, exclusions, and failures.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};

use cutpoint_backup::source::{FileExtent, Walk, WalkOptions, WalkStep, open_file};
use cutpoint_repository::{Entry, EntryKind};
use rustix::fs::{CWD, FileType, Mode};

/// Returns the steps below `base` as lines: `+folder`, `item`, `-`, `!problem`.
fn lines(base: &Path, sources: &[&Path], options: WalkOptions) -> (Vec<String>, u64) {
    let base = base.canonicalize().unwrap();
    let sources: Vec<PathBuf> = sources.iter().map(|source| source.to_path_buf()).collect();
    let mut walk = Walk::new(&sources, options).unwrap();
    let mut lines = vec![];
    let mut depth = 0;
    let inside = |path: &Path| {
        path.strip_prefix(&base)
            .ok()
            .filter(|path| path.components().count() > 0)
            .map(|path| path.to_string_lossy().into_owned())
    };
    let mut outside = 0;
    for step in &mut walk {
        match step {
            WalkStep::Enter { path, entry, .. } => {
                assert_eq!(path.file_name().unwrap().as_bytes(), entry.name, "the name");
                assert_eq!((entry.kind, entry.links), (EntryKind::Folder, 1), "a folder");
                depth += 1;
                match inside(&path) {
                    Some(path) => lines.push(format!("+{path}")),
                    None => outside += 1,
                }
            }
            WalkStep::Item { path, .. } => lines.push(inside(&path).unwrap()),
            WalkStep::Leave => {
                depth -= 1;
                if depth >= outside {
                    lines.push("-".to_owned());
                }
            }
            WalkStep::Excluded { .. } | WalkStep::Warning { .. } => {}
            WalkStep::Problem { path, .. } => lines.push(format!("!{}", inside(&path).unwrap())),
        }
    }
    assert_eq!(depth, 0, "each folder is left");
    assert!(walk.next().is_none(), "the end is the end");
    (lines, walk.excluded())
}

fn touch(path: &Path) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, b"x").unwrap();
}

#[test]
fn names_ascend_by_bytes_and_sources_merge() {
    let scratch = tempfile::tempdir().unwrap();
    let base = scratch.path();
    for name in ["b", "a-", "a/y", "a/x/1", "a0", "B", "\u{e9}", "c/only", "c/not"] {
        touch(&base.join(name));
    }
    touch(&base.join(OsStr::from_bytes(b"\xff")));
    let all = |sources: &[&Path]| lines(base, sources, WalkOptions::default()).0;
    let whole = all(&[base]);
    let replaced = "\u{fffd}";
    assert_eq!(
        whole,
        [
            "B", "+a", "+a/x", "a/x/1", "-", "a/y", "-", "a-", "a0", "b", "+c", "c/not", "c/only",
            "-", "\u{e9}", replaced
        ],
        "byte order of names, not of paths"
    );
    assert_eq!(all(&[base, &base.join("a/x"), &base.join("b"), base]), whole, "each once");
    assert_eq!(
        all(&[&base.join("c/only"), &base.join("b"), &base.join("a/x"), &base.join("a/x/1")]),
        ["+a", "+a/x", "a/x/1", "-", "-", "b", "+c", "c/only", "-"],
        "only what was named"
    );
    assert_eq!(all(&[&base.join("a/../c/./only")]), ["+c", "c/only", "-"], "made absolute");
}

#[test]
fn link_as_source_is_resolved_only_with_a_slash() {
    let scratch = tempfile::tempdir().unwrap();
    let base = scratch.path();
    touch(&base.join("real/file"));
    symlink("real", base.join("link")).unwrap();
    let all = |source: &str| lines(base, &[&base.join(source)], WalkOptions::default()).0;
    assert_eq!(all("link"), ["link"], "the link itself");
    assert_eq!(all("link/"), ["+real", "real/file", "-"], "what it leads to");
    assert_eq!(all("link/."), ["+real", "real/file", "-"], "what it leads to");
    assert_eq!(all("link/file"), ["+real", "real/file", "-"], "on the way");
    for missing in ["none", "real/none", "link/none", "real/file/x"] {
        let error = Walk::new(&[base.join(missing)], WalkOptions::default()).unwrap_err();
        assert!(error.to_string().contains(missing), "{error}");
    }
    assert!(Walk::new(&[], WalkOptions::default()).is_err(), "nothing to do");
}

#[test]
fn exclude_patterns_spare_named_sources() {
    let scratch = tempfile::tempdir().unwrap();
    let base = scratch.path().canonicalize().unwrap();
    for name in ["a.o", "keep.o", "target/x", "src/target/y", "src/a.c", "tmp/t", "src/tmp/t"] {
        touch(&base.join(name));
    }
    let exclude = [
        "*.o".to_owned(),
        "!keep.o".to_owned(),
        "target/".to_owned(),
        format!("{}/tmp", base.display()),
        "# a comment".to_owned(),
        String::new(),
    ];
    let options = WalkOptions { exclude: exclude.to_vec(), ..WalkOptions::default() };
    let (found, excluded) = lines(&base, &[&base], options.clone());
    assert_eq!(
        found,
        ["keep.o", "+src", "src/a.c", "+src/tmp", "src/tmp/t", "-", "-"],
        "what no pattern matches"
    );
    assert_eq!(excluded, 4, "a.o, two targets, tmp");
    let (found, _) = lines(&base, &[&base, &base.join("target/x"), &base.join("a.o")], options);
    assert_eq!(
        found,
        [
            "a.o",
            "keep.o",
            "+src",
            "src/a.c",
            "+src/tmp",
            "src/tmp/t",
            "-",
            "-",
            "+target",
            "target/x",
            "-"
        ],
        "what was named is not excluded"
    );
    for pattern in ["a{", "[", "a[", "**/[b", "\\"] {
        let options = WalkOptions { exclude: vec![pattern.into()], ..WalkOptions::default() };
        let error = Walk::new(std::slice::from_ref(&base), options).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput, "{error}");
        assert!(error.to_string().contains(pattern), "{error}");
    }
}

#[test]
fn tagged_cache_keeps_only_its_tag() {
    let scratch = tempfile::tempdir().unwrap();
    let base = scratch.path();
    for name in ["cache/x", "cache/y/z", "other/x"] {
        touch(&base.join(name));
    }
    let tag = b"Signature: 8a477f597d28d172789f06886806bc55\n# more";
    fs::write(base.join("cache/CACHEDIR.TAG"), tag).unwrap();
    fs::write(base.join("other/CACHEDIR.TAG"), b"Signature: another").unwrap();
    let options = WalkOptions { exclude_caches: true, ..WalkOptions::default() };
    let (found, excluded) = lines(base, &[base], options.clone());
    let tag = "cache/CACHEDIR.TAG";
    let other = ["+other", "other/CACHEDIR.TAG", "other/x", "-"];
    assert_eq!(found, [&["+cache", tag, "-"], &other[..]].concat(), "the tag stays");
    assert_eq!(excluded, 2, "x and y");
    let (found, _) = lines(base, &[base, &base.join("cache/x")], options);
    assert_eq!(found, [&["+cache", tag, "cache/x", "-"], &other[..]].concat(), "x was named");
}

#[test]
fn other_file_systems_are_not_entered() {
    let options = WalkOptions { one_file_system: true, ..WalkOptions::default() };
    let home = fs::metadata("/dev").unwrap().dev();
    let mut foreign = None;
    for step in Walk::new(&["/dev".into()], options).unwrap() {
        match step {
            WalkStep::Enter { path, .. } => {
                assert_eq!(foreign, None, "nothing is entered in another file system");
                let device = fs::symlink_metadata(&path).unwrap().dev();
                foreign = (device != home && path != Path::new("/dev")).then_some(path);
            }
            WalkStep::Leave => foreign = None,
            WalkStep::Item { path, .. } => assert_eq!(foreign, None, "{}", path.display()),
            WalkStep::Excluded { .. } | WalkStep::Warning { .. } => {}
            WalkStep::Problem { .. } => {}
        }
    }
}

#[test]
fn entries_have_all_metadata() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("file");
    fs::write(&path, b"12345").unwrap();
    fs::hard_link(&path, scratch.path().join("other")).unwrap();
    let meta = fs::metadata(&path).unwrap();
    let entry = entry_of(&path);
    assert_eq!(entry.mode, meta.mode() & 0o7777, "mode");
    assert_eq!((entry.user_id, entry.group_id), (meta.uid(), meta.gid()), "owners");
    if meta.uid() == 0 {
        assert_eq!(entry.user, "root", "the owner's name");
    }
    let time = (entry.mtime.seconds, i64::from(entry.mtime.nanoseconds));
    assert_eq!(time, (meta.mtime(), meta.mtime_nsec()), "time");
    assert_eq!((entry.inode, entry.links, entry.size), (meta.ino(), 2, 5), "file");
    assert_eq!(entry.device, 0, "the first file system, or one of few");
    let null = entry_of(Path::new("/dev/null"));
    assert_eq!((null.kind, null.device_number), (EntryKind::CharDevice, 1 << 32 | 3), "device");
}

fn entry_of(path: &Path) -> Entry {
    let walk = Walk::new(&[path.to_owned()], WalkOptions::default()).unwrap();
    let mut items = walk.filter_map(|step| match step {
        WalkStep::Item { entry, .. } => Some(Entry { device: 0, ..entry }),
        _ => None,
    });
    items.next().unwrap()
}

#[test]
fn unlistable_folder_is_entered_and_left() {
    let scratch = tempfile::tempdir().unwrap();
    let base = scratch.path();
    touch(&base.join("gone/file"));
    touch(&base.join("still"));
    // Root can list everything, so the folder is removed during the walk instead.
    let walk = Walk::new(&[base.to_owned()], WalkOptions::default()).unwrap();
    let mut problems = 0;
    let mut items = 0;
    let mut depth = 0;
    let base_depth = base.canonicalize().unwrap().components().count() - 1;
    for step in walk {
        match step {
            WalkStep::Enter { .. } => {
                depth += 1;
                if depth == base_depth {
                    fs::remove_dir_all(base.join("gone")).unwrap();
                }
            }
            WalkStep::Leave => depth -= 1,
            WalkStep::Item { .. } => items += 1,
            WalkStep::Excluded { .. } | WalkStep::Warning { .. } => {}
            WalkStep::Problem { path, error } => {
                assert!(path.ends_with("gone"), "{}", path.display());
                assert_eq!(error.kind(), std::io::ErrorKind::NotFound, "{error}");
                problems += 1;
            }
        }
    }
    assert_eq!((problems, items), (1, 1), "one is gone, one is there");
    if rustix::process::geteuid().is_root() {
        eprintln!("not tested: a folder without permissions, since root may do all");
        return;
    }
    fs::create_dir(base.join("closed")).unwrap();
    rustix::fs::chmod(base.join("closed"), Mode::empty()).unwrap();
    let (found, _) = lines(base, &[base], WalkOptions::default());
    assert_eq!(found, ["+closed", "!closed", "-", "still"], "entered, a problem, left");
}

#[test]
fn file_replaced_by_another_kind_is_not_opened() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("file");
    let replacements: [&dyn Fn(); 4] = [
        &|| rustix::fs::mknodat(CWD, &path, FileType::Fifo, Mode::RUSR, 0).unwrap(),
        &|| symlink("/dev/zero", &path).unwrap(),
        &|| fs::create_dir(&path).unwrap(),
        &|| drop(std::os::unix::net::UnixListener::bind(&path).unwrap()),
    ];
    for replace in replacements {
        fs::write(&path, b"bytes").unwrap();
        for step in Walk::new(std::slice::from_ref(&path), WalkOptions::default()).unwrap() {
            let WalkStep::Item { entry, folder, .. } = step else { continue };
            fs::remove_file(&path).unwrap();
            replace();
            let error = open_file(&folder, &entry).unwrap_err();
            assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput, "{error}");
        }
        fs::remove_dir(&path).or_else(|_| fs::remove_file(&path)).unwrap();
    }
}

#[test]
fn holes_and_changes_are_detected() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("file");
    let file = fs::File::create(&path).unwrap();
    file.set_len(10 << 20).unwrap();
    file.write_all_at(&[1; 4096], 1 << 20).unwrap();
    for step in Walk::new(std::slice::from_ref(&path), WalkOptions::default()).unwrap() {
        let WalkStep::Item { mut entry, folder, .. } = step else { continue };
        let source = open_file(&folder, &entry).unwrap();
        let extents: Vec<_> = source.extents(0).map(|extent| extent.unwrap()).collect();
        let mut end = 0;
        let mut data = 0;
        for extent in &extents {
            let (FileExtent::Data { offset, len } | FileExtent::Hole { offset, len }) = *extent;
            assert_eq!(offset, end, "no gaps: {extents:?}");
            assert!(len > 0, "something: {extents:?}");
            end += len;
            data += if matches!(extent, FileExtent::Data { .. }) { len } else { 0 };
        }
        assert_eq!(end, 10 << 20, "all of it");
        assert!(data >= 4096, "the data is found");
        if data == end {
            eprintln!("not tested: holes, which this file system does not tell");
        }
        let mut buffer = [9; 10];
        assert_eq!(source.read_at(&mut buffer, (10 << 20) - 4).unwrap(), 4, "until the end");
        assert_eq!(source.changed(&entry).unwrap(), None, "nothing yet");
        file.set_len(5).unwrap();
        let change = source.changed(&entry).unwrap().unwrap();
        assert!(change.contains("to 5 bytes"), "{change}");
        open_file(&folder, &entry).unwrap().refresh(&mut entry);
        assert_eq!(entry.size, 5, "as it is now");
        assert_eq!(source.changed(&entry).unwrap(), None, "up to date");
        file.write_all_at(b"1", 0).unwrap();
        assert!(source.changed(&entry).unwrap().is_some() || entry.ctime == now(&path), "written");
    }
}

fn now(path: &Path) -> cutpoint_repository::Time {
    entry_of(path).ctime
}
