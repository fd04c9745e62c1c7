//! The local folder: its name, failed puts, and the leftovers of interrupted ones.

use std::path::Path;
use std::sync::Mutex;

use bytes::Bytes;
use cutpoint_storage::{Environment, Kind, Local, ObjectKind, Storage, System};

#[cfg(target_os = "linux")]
use crate::contract::keeps_the_contract;
use crate::contract::names;

/// A name of any bytes, including the answer if an object exists.
#[cfg(target_os = "linux")]
#[test]
fn folder_may_have_any_name() {
    use std::os::unix::ffi::OsStrExt;

    let folder = tempfile::tempdir().expect("a temporary folder");
    let name = std::ffi::OsStr::from_bytes(b"re\xffpo # 1%20\n");
    let created = Local::create(&folder.path().join(name)).expect("it can be made");
    keeps_the_contract(&created).expect("a folder with an odd name");
}

/// A put never reports that its object is missing, because readers take that for a loss of stored
/// data. The staged file or the folder is removed before each step.
#[test]
fn failed_put_is_an_error_of_the_storage() {
    type Harm = fn(&Path);
    let harms: [(&str, Harm); 2] = [
        ("the staged file is removed", |root| {
            for entry in std::fs::read_dir(root.join("data/ab")).expect("a folder") {
                std::fs::remove_file(entry.expect("an entry").path()).expect("it goes");
            }
        }),
        ("its folder is removed", |root| {
            std::fs::remove_dir_all(root.join("data")).expect("it goes");
        }),
    ];
    for (what, harm) in harms {
        let folder = tempfile::tempdir().expect("a folder");
        let local = Local::create(folder.path()).expect("it is made");
        let mut staged = local.stage("data/ab/cd").expect("it begins").expect("folders stage");
        staged.write(b"some").expect("it is written");
        harm(folder.path());
        let error = staged.finish().expect_err(what);
        assert_eq!(error.kind(), Kind::Storage, "{what}: {error}");
    }
    // The repository itself is gone, or a file stands in the place of its folder.
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().join("repository");
    let local = Local::create(&root).expect("it is made");
    std::fs::remove_dir(&root).expect("it is empty");
    std::fs::write(&root, b"no folder").expect("it is written");
    for (what, error) in [
        ("put", local.put_new("data/ab/cd", Bytes::from_static(b"some")).map(drop)),
        ("stage", local.stage("data/ab/cd").map(drop)),
    ] {
        let error = error.expect_err(what);
        assert_eq!(error.kind(), Kind::Storage, "{what}: {error}");
    }
}

/// Leftovers of an interrupted put are not objects, and can be removed.
#[test]
fn staging_files_are_hidden_and_cleaned() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let storage = Local::open(folder.path()).expect("it is there");
    storage.prepare().expect("it is empty");
    let names = names();
    for name in &names {
        storage.put_new(name, Bytes::from_static(b"whole")).expect("it is put");
        std::fs::write(folder.path().join(format!("{name}#1")), "half").expect("it is written");
    }
    let listed = || {
        let each = ObjectKind::ALL.map(|kind| storage.list(kind.folder()).expect("it lists"));
        each.iter().map(Vec::len).sum::<usize>()
    };
    assert_eq!(listed(), names.len(), "staging files are no objects");
    let spared = storage.clean(&|_, age_s| age_s > 3600).expect("it cleans");
    assert_eq!(spared, 0, "nothing is that old");
    let removed = storage.clean(&|name, _| name.starts_with("data/")).expect("it cleans");
    assert_eq!(removed, 20, "those of containers only");
    let removed = storage.clean(&|name, _| names.iter().any(|n| n == name)).expect("it cleans");
    assert_eq!(removed, names.len() - 20, "the rest");
    assert_eq!(listed(), names.len(), "objects stay");
    for name in &names {
        let staged = folder.path().join(format!("{name}#1"));
        assert!(!staged.exists(), "{} is still there", staged.display());
    }
}

/// Leftovers of interrupted puts are removed by the time of the file system.
#[test]
fn age_of_staged_files_is_by_the_file_system() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let storage = Local::open(folder.path()).expect("it is there");
    storage.prepare().expect("it is empty");
    std::fs::write(folder.path().join("commits/x#1"), "half").expect("it is written");
    let ages = Mutex::new(Vec::new());
    let keep = |name: &str, age_s: u64| {
        ages.lock().expect("no panics").push((name.to_owned(), age_s));
        false
    };
    assert_eq!(storage.clean(&keep).expect("it cleans"), 0, "all is kept");
    let ages = ages.into_inner().expect("no panics");
    assert!(ages.iter().any(|(name, age_s)| name == "commits/x" && *age_s < 60), "{ages:?}");
    let left = std::fs::read_dir(folder.path().join("tickets")).expect("a folder").count();
    assert_eq!(left, 0, "nothing is left of the question for the time");
    let stamp = |name: &str| storage.stamp_ns(name).expect("it answers");
    assert_eq!(stamp("commits/y"), None, "there is no such object");
    storage.put_new("commits/y", Bytes::new()).expect("it is put");
    let age_ns = System.now_ns() - stamp("commits/y").expect("files have times");
    assert!(age_ns.abs() < 60_000_000_000, "{age_ns}");
}

/// Another repository at the path of an open one, with objects of the same names, as two copies of one
/// repository on two disks have them.
#[cfg(unix)]
#[test]
fn repository_at_the_path_of_a_moved_one_is_not_changed() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (root, moved) = (folder.path().join("repository"), folder.path().join("moved"));
    let create = || {
        let local = Local::create(&root).expect("it is made");
        local.prepare().expect("it is empty");
        local.put_new("data/ab/cd", Bytes::from_static(b"whole")).expect("it is put");
        std::fs::write(root.join("data/ab/ef#1"), "half").expect("it is written");
        local
    };
    let local = create();
    let mut staged = local.stage("data/ab/ce").expect("it begins").expect("folders stage");
    staged.write(b"some").expect("it is written");
    std::fs::rename(&root, &moved).expect("it moves");
    create();
    let files = |path: &Path| {
        let mut names: Vec<_> = std::fs::read_dir(path.join("data/ab"))
            .expect("a folder")
            .map(|entry| entry.expect("an entry").file_name())
            .collect();
        names.sort_unstable();
        names
    };
    let before = (files(&root), files(&moved));
    let bytes = || Bytes::from_static(b"other");
    let errors = [
        ("put", local.put_new("data/ab/new", bytes()).map(drop)),
        ("stage", local.stage("data/ab/new").map(drop)),
        ("finish", staged.finish().map(drop)),
        ("replace", local.replace("data/ab/cd", bytes())),
        ("delete", local.delete("data/ab/cd")),
        ("clean", local.clean(&|_, _| true).map(drop)),
        ("prepare", local.prepare()),
    ];
    for (what, done) in errors {
        assert_eq!(done.expect_err(what).kind(), Kind::Storage, "{what}");
    }
    assert_eq!((files(&root), files(&moved)), before);
    assert_eq!(local.get("data/ab/cd").expect("it is read"), b"whole"[..]);
    // The folder is back, and its object can be deleted.
    std::fs::rename(&root, folder.path().join("other")).expect("it moves");
    std::fs::rename(&moved, &root).expect("it moves");
    local.delete("data/ab/cd").expect("the folder that was opened");
}
