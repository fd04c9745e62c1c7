//! Browsing: the nodes of snapshots, without a file system that shows them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use cutpoint_backup::browse::{
    Attributes, BrowseOptions, Browser, ListedSnapshot, ROOT, SnapshotSource,
};
use cutpoint_backup::save::backup;
use cutpoint_repository::{Entry, EntryKind, Reader, Repository, Time, View};
use cutpoint_storage::{Error, Memory, Storage};
use cutpoint_testing::SplitMix64;
use rustix::io::Errno;

use crate::backup_options::{files, options};
use crate::forged_snapshot::forge;
use crate::seeded_repository::{SeededEnvironment, init_exact};

/// The snapshots of a view, and the problems that were reported.
#[derive(Default)]
struct Source {
    repository: Option<Arc<Repository>>,
    problems: Mutex<Vec<(PathBuf, String)>>,
}

/// The end of a source that a browser has.
struct Shared(Arc<Source>);

impl SnapshotSource for Shared {
    fn list(&self) -> Option<Vec<ListedSnapshot>> {
        let view = View::list(self.0.repository.as_ref()?).expect("memory lists");
        let listed = |(id, snapshot): (_, &cutpoint_repository::Snapshot)| ListedSnapshot {
            id,
            root: snapshot.root.clone(),
            time: Time { seconds: snapshot.started_ns / 1_000_000_000, nanoseconds: 0 },
            time_name: snapshot.started_ns.to_string(),
            host: snapshot.host.clone(),
            tags: snapshot.tags.clone(),
            is_partial: false,
        };
        Some(view.snapshots().into_iter().map(listed).collect())
    }

    fn problem(&self, path: &Path, error: &Error) {
        self.0.problems.lock().unwrap().push((path.to_owned(), error.to_string()));
    }
}

/// A repository in memory with the snapshots of a folder.
struct Scene {
    scratch: tempfile::TempDir,
    storage: Arc<dyn Storage>,
    repository: Arc<Repository>,
}

impl Scene {
    fn new() -> Scene {
        let storage: Arc<dyn Storage> = Arc::new(Memory::new());
        let repository = init_exact(&storage, &SeededEnvironment::new(1));
        let scratch = tempfile::tempdir().unwrap();
        fs::create_dir(scratch.path().join("source")).unwrap();
        Scene { scratch, storage, repository }
    }

    fn source(&self) -> PathBuf {
        self.scratch.path().canonicalize().unwrap().join("source")
    }

    fn save(&self) {
        backup(&self.repository, files(&self.source()), &options(1), &()).unwrap();
    }

    fn browser(&self) -> (Browser, Arc<Source>) {
        let view = View::list(&self.repository).unwrap();
        let reader = Arc::new(Reader::open(self.repository.clone(), view).unwrap());
        let source = Source { repository: Some(self.repository.clone()), ..Source::default() };
        let source = Arc::new(source);
        let options =
            BrowseOptions { refresh_interval: Duration::ZERO, ..BrowseOptions::default() };
        (Browser::new(reader, Box::new(Shared(Arc::clone(&source))), options), source)
    }

    /// Finds a path of the source in the newest snapshot.
    fn find(&self, browser: &Browser, path: &str) -> Result<Attributes, Errno> {
        let latest = walk(browser, ROOT, Path::new("latest"))?;
        let target = browser.read_link(latest.node)?;
        let target = PathBuf::from(String::from_utf8(target).unwrap());
        let source = self.source();
        let path = target.join(source.strip_prefix("/").unwrap()).join(path);
        walk(browser, ROOT, &path)
    }
}

fn walk(browser: &Browser, from: u64, path: &Path) -> Result<Attributes, Errno> {
    let mut found = browser.attributes(from)?;
    for name in path {
        found = browser.lookup(found.node, name.as_encoded_bytes())?;
    }
    Ok(found)
}

/// Lists a folder, `count` entries at a time. The references are given back.
fn list(browser: &Browser, node: u64, count: usize) -> Result<Vec<(Vec<u8>, u64)>, Errno> {
    let (mut all, mut from) = (Vec::new(), 0);
    loop {
        let before = all.len();
        browser.list(node, from, &mut |entry| {
            let is_taken = all.len() < before + count;
            if is_taken {
                all.push((entry.name.to_vec(), entry.attributes.node));
                from = entry.next;
            }
            is_taken
        })?;
        all[before..].iter().for_each(|(_, node)| browser.forget(*node, 1));
        if all.len() == before {
            return Ok(all);
        }
    }
}

#[test]
fn nodes_have_the_properties_and_bytes_of_files() {
    let scene = Scene::new();
    let source = scene.source();
    let bytes = SplitMix64::bytes(1, 900_000);
    fs::create_dir(source.join("sub")).unwrap();
    fs::write(source.join("large"), &bytes).unwrap();
    fs::write(source.join("small"), b"small").unwrap();
    fs::write(source.join("empty"), b"").unwrap();
    fs::hard_link(source.join("small"), source.join("sub/other name")).unwrap();
    symlink("../small", source.join("sub/link")).unwrap();
    let sparse = fs::File::create(source.join("sparse")).unwrap();
    sparse.set_len(1_000_000).unwrap();
    sparse.write_all_at(b"data", 500_000).unwrap();
    scene.save();
    let (browser, problems) = scene.browser();
    let mut nodes: HashMap<u64, u64> = HashMap::new();
    for name in ["large", "small", "empty", "sub", "sub/other name", "sub/link", "sparse"] {
        let stat = source.join(name).symlink_metadata().unwrap();
        let found = scene.find(&browser, name).unwrap();
        assert_eq!(browser.attributes(found.node), Ok(found), "{name}: the same again");
        assert_eq!(found.mode, stat.mode() & 0o7777, "{name}");
        assert_eq!((found.user_id, found.group_id), (stat.uid(), stat.gid()), "{name}");
        let mtime = (found.mtime.seconds, i64::from(found.mtime.nanoseconds));
        assert_eq!(mtime, (stat.mtime(), stat.mtime_nsec()), "{name}");
        if !stat.is_dir() {
            assert_eq!((found.size, found.links), (stat.size(), stat.nlink()), "{name}");
        }
        let inode = *nodes.entry(found.node).or_insert(stat.ino());
        assert_eq!(inode, stat.ino(), "{name}: one node for each file");
        if stat.is_file() {
            let read = browser.read(found.node, 0, 2_000_000).unwrap();
            assert!(read == fs::read(source.join(name)).unwrap(), "{name}");
        }
    }
    assert_eq!(nodes.len(), 6, "two names are one file");
    let sparse = scene.find(&browser, "sparse").unwrap();
    assert_eq!(sparse.blocks, 8, "one page");
    let data = browser.seek(sparse.node, 0, false).unwrap();
    assert_eq!(data, 500_000 / 4096 * 4096, "the page with data");
    assert_eq!(browser.seek(sparse.node, data, true), Ok(data + 4096), "behind it");
    assert_eq!(browser.seek(sparse.node, data + 4096, false), Err(Errno::NXIO), "no more data");
    assert_eq!(browser.seek(sparse.node, 0, true), Ok(0), "a hole at the start");
    let large = scene.find(&browser, "large").unwrap();
    assert_eq!(large.blocks, 900_000_u64.div_ceil(4096) * 8, "no hole");
    for (start, len) in [(0, 1), (899_999, 10), (123_456, 300_000), (900_000, 1), (u64::MAX, 9)] {
        let read = browser.read(large.node, start, len).unwrap();
        let start = usize::try_from(start).unwrap().min(bytes.len());
        assert!(read == bytes[start..bytes.len().min(start.saturating_add(len))], "at {start}");
    }
    let link = scene.find(&browser, "sub/link").unwrap();
    assert_eq!(browser.read_link(link.node).unwrap(), b"../small");
    assert_eq!(browser.read_link(large.node), Err(Errno::INVAL), "no link");
    assert_eq!(browser.read(ROOT, 0, 10), Err(Errno::ISDIR), "no file");
    assert_eq!(browser.lookup(large.node, b"x"), Err(Errno::NOTDIR), "no folder");
    assert_eq!(scene.find(&browser, "absent"), Err(Errno::NOENT), "nothing");
    assert_eq!(*problems.problems.lock().unwrap(), [], "no problem");
}

#[test]
fn listing_goes_on_from_any_position() {
    let scene = Scene::new();
    let names: BTreeSet<String> = (0..1500).map(|number| format!("{number:050}")).collect();
    for name in &names {
        fs::write(scene.source().join(name), name).unwrap();
    }
    scene.save();
    let (browser, _) = scene.browser();
    let folder = scene.find(&browser, "").unwrap().node;
    for count in [1, 7, 10_000] {
        let listed = list(&browser, folder, count).unwrap();
        let found: Vec<_> = listed.iter().map(|(name, _)| name.clone()).collect();
        let expected: Vec<_> = names.iter().map(|name| name.clone().into_bytes()).collect();
        assert!(found == expected, "{count} at a time");
    }
    let listed = list(&browser, folder, 100).unwrap();
    for (name, node) in &listed {
        let found = browser.lookup(folder, name).unwrap();
        assert_eq!(found.node, *node, "found by name");
        assert_eq!(browser.read(*node, 0, 100).unwrap(), *name, "its bytes");
    }
}

#[test]
fn nodes_are_forgotten() {
    let scene = Scene::new();
    fs::create_dir_all(scene.source().join("a/b")).unwrap();
    fs::write(scene.source().join("a/b/file"), b"x").unwrap();
    scene.save();
    let (browser, _) = scene.browser();
    assert_eq!(browser.node_count(), 1, "only the root");
    let file = scene.find(&browser, "a/b/file").unwrap().node;
    let count = browser.node_count();
    let some = browser.some_nodes(usize::MAX);
    assert_eq!(some.iter().map(|(_, name)| &**name).collect::<Vec<_>>(), [b"file"], "a leaf");
    browser.forget(file, 1);
    assert_eq!(browser.node_count(), count - 1, "the file alone, because folders are referred to");
    assert_eq!(browser.read(file, 0, 1), Err(Errno::STALE), "not referred to any more");
    let again = scene.find(&browser, "a/b/file").unwrap();
    assert_eq!(again.node, file, "the same number");
}

#[test]
fn new_snapshot_appears_and_both_can_be_read() {
    let scene = Scene::new();
    fs::write(scene.source().join("file"), b"first").unwrap();
    scene.save();
    let (browser, _) = scene.browser();
    let first = scene.find(&browser, "file").unwrap().node;
    fs::write(scene.source().join("file"), b"second, of another length").unwrap();
    scene.save();
    let second = scene.find(&browser, "file").unwrap().node;
    assert_eq!(browser.read(second, 0, 100).unwrap(), b"second, of another length");
    assert_eq!(browser.read(first, 0, 100).unwrap(), b"first", "still there");
    let ids = walk(&browser, ROOT, Path::new("ids")).unwrap().node;
    assert_eq!(list(&browser, ids, 10).unwrap().len(), 2, "two snapshots");
}

#[test]
fn hostile_names_and_sizes_are_not_shown() {
    let names: [&[u8]; 6] = [b"..", b".", b"", b"a/b", b"a\0b", b"../../etc"];
    for name in names {
        let scene = Scene::new();
        fs::write(scene.source().join("file"), b"bytes").unwrap();
        scene.save();
        let view = View::list(&scene.repository).unwrap();
        let (_, snapshot) = view.snapshots()[0];
        let change = |entry: &mut Entry, _: &mut _| entry.name = name.to_vec();
        forge(&scene.repository, snapshot, &change);
        let (browser, source) = scene.browser();
        let folder = scene.find(&browser, "").unwrap().node;
        assert_eq!(list(&browser, folder, 10), Err(Errno::IO), "{name:?}");
        for wanted in [name, b"file"] {
            assert_eq!(browser.lookup(folder, wanted), Err(Errno::IO), "{name:?}");
        }
        assert_eq!(source.problems.lock().unwrap().len(), 3, "the folder, and two names in it");
    }
    // A file that is larger than its recipe.
    let scene = Scene::new();
    fs::write(scene.source().join("file"), b"bytes").unwrap();
    scene.save();
    let view = View::list(&scene.repository).unwrap();
    let change = |entry: &mut Entry, _: &mut _| entry.size = u64::MAX;
    forge(&scene.repository, view.snapshots()[0].1, &change);
    let (browser, _) = scene.browser();
    let file = scene.find(&browser, "file").unwrap();
    assert_eq!((file.kind, file.size), (EntryKind::File, u64::MAX));
    assert_eq!(browser.read(file.node, 0, 5).unwrap(), b"bytes", "what there is");
    assert_eq!(browser.read(file.node, 0, 4096), Err(Errno::IO), "beyond the recipe");
    assert_eq!(browser.read(file.node, u64::MAX - 1, 4096), Err(Errno::IO), "far beyond");
}

/// Reads the files below `folder` in the order of their names, as a program does that reads a whole
/// folder: files that were handed over are not read. Returns the handed-over files by their paths.
fn read_all(browser: &Browser, folder: u64, path: &Path) -> HashMap<PathBuf, Vec<u8>> {
    let (mut entries, mut handed_over) = (Vec::new(), HashMap::new());
    for (name, _) in list(browser, folder, 100).unwrap() {
        let path = path.join(String::from_utf8(name.clone()).unwrap());
        let found = browser.lookup(folder, &name).unwrap();
        entries.push((path, found));
    }
    let mut by_node: HashMap<u64, Vec<u8>> = browser.follow_listing(folder).flatten().collect();
    for (path, found) in entries {
        if found.kind == EntryKind::Folder {
            handed_over.extend(read_all(browser, found.node, &path));
        } else if let Some(bytes) = by_node.remove(&found.node) {
            handed_over.insert(path, bytes);
        } else {
            browser.read(found.node, 0, 128 * 1024).unwrap();
            for (node, bytes) in browser.follow_read(found.node, 0).flatten() {
                assert!(by_node.insert(node, bytes).is_none(), "{node}: a second time");
            }
        }
    }
    assert!(by_node.is_empty(), "handed over and not in the folder, or read before: {by_node:?}");
    handed_over
}

#[test]
fn files_are_handed_over_to_reader_of_whole_folder() {
    let scene = Scene::new();
    for folder in 0..20 {
        let path = scene.source().join(format!("{folder:02}"));
        fs::create_dir(&path).unwrap();
        for file in 0..10 {
            fs::write(path.join(format!("{file}")), SplitMix64::bytes(folder * 10 + file, 3000))
                .unwrap();
        }
        fs::write(path.join("empty"), b"").unwrap();
        fs::write(path.join("large"), SplitMix64::bytes(folder, 150_000)).unwrap();
        fs::write(path.join("linked"), SplitMix64::bytes(folder, 1000)).unwrap();
        fs::hard_link(path.join("linked"), path.join("linked too")).unwrap();
        fs::write(path.join("small"), b"small").unwrap();
    }
    scene.save();
    let (browser, source) = scene.browser();
    let root = scene.find(&browser, "").unwrap().node;
    // The thread that finds the files may be late.
    let deadline = Instant::now() + Duration::from_secs(60);
    let mut handed_over = HashMap::new();
    while handed_over.len() < 100 {
        assert!(Instant::now() < deadline, "only {} files are handed over", handed_over.len());
        handed_over = read_all(&browser, root, &scene.source());
    }
    for (path, bytes) in &handed_over {
        assert!(*bytes == fs::read(path).unwrap(), "{}", path.display());
        let name = path.file_name().unwrap().to_str().unwrap();
        assert!(!["large", "linked", "linked too"].contains(&name), "{}", path.display());
    }
    assert!(source.problems.lock().unwrap().is_empty(), "no problem");
}

#[test]
fn damage_affects_its_range_alone_and_is_reported_once() {
    let scene = Scene::new();
    let bytes = SplitMix64::bytes(1, 2_000_000);
    fs::write(scene.source().join("damaged"), &bytes).unwrap();
    fs::write(scene.source().join("well"), b"well").unwrap();
    scene.save();
    let mut containers = scene.storage.list("data/").unwrap();
    containers.sort_by_key(|(_, len)| *len);
    let (name, _) = containers.last().unwrap();
    let mut container = scene.storage.get(name).unwrap().to_vec();
    container[1_000_000] ^= 1;
    scene.storage.replace(name, container.into()).unwrap();
    let (browser, source) = scene.browser();
    let file = scene.find(&browser, "damaged").unwrap().node;
    let mut lost = BTreeMap::new();
    for _ in 0..2 {
        for start in (0..bytes.len()).step_by(4096) {
            let end = bytes.len().min(start + 4096);
            match browser.read(file, start as u64, 4096) {
                Ok(read) => assert!(read == bytes[start..end], "at {start}"),
                Err(error) => drop(lost.insert(start, error)),
            }
        }
    }
    assert!(lost.values().all(|error| *error == Errno::IO), "{lost:?}");
    let range = lost.keys().next_back().unwrap() - lost.keys().next().unwrap();
    assert!(range < 256 * 1024, "a region and the chunks at its ends: {lost:?}");
    let well = scene.find(&browser, "well").unwrap().node;
    assert_eq!(browser.read(well, 0, 10).unwrap(), b"well", "the other file");
    let problems = source.problems.lock().unwrap();
    let [(path, message)] = &problems[..] else { panic!("{problems:?}") };
    let expected = format!(":{}/damaged", scene.source().display());
    assert!(path.to_str().unwrap().ends_with(&expected), "{path:?}");
    assert!(message.contains(name), "the container is named: {message}");
}
