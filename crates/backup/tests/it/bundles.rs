//! Small files that share chunks: each is restored, the bundles are found again, and they are
//! compared with the previous versions of their files.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use cutpoint_backup::save::backup;
use cutpoint_repository::format::recipe::Segment;
use cutpoint_repository::verify::check::{CheckOptions, Portion, check};
use cutpoint_repository::{Content, Entry, EntryKind, Reader, Repository, Statistics, View};
use cutpoint_storage::{Memory, Storage};
use cutpoint_testing::SplitMix64;

use crate::backup_options::{files, options};
use crate::folder_comparison::restore_and_compare;
use crate::seeded_repository::{SeededEnvironment, contents, init};

/// The number of folders, and of files in each of them.
const FOLDERS: usize = 12;
const FILES: usize = 40;

/// Makes small files of random bytes, some of zeros, an empty one, and a large one in each folder.
fn make_folder(root: &Path) {
    let mut random = SplitMix64::new(3);
    for folder in 0..FOLDERS {
        let folder = root.join(format!("folder {folder:02}"));
        fs::create_dir_all(&folder).expect("a folder");
        for file in 0..FILES {
            let len = 1 + random.below(6000);
            fs::write(folder.join(format!("file {file:02}")), random.take(len)).expect("a file");
        }
        fs::write(folder.join("file 10 of zeros"), vec![0; 5000]).expect("a file");
        fs::write(folder.join("file 20 of nothing"), b"").expect("a file");
        fs::write(folder.join("file 30 of many"), random.take(100_000)).expect("a file");
    }
}

fn save(repository: &Arc<Repository>, root: &Path, threads: usize) -> Statistics {
    let report = backup(repository, files(root), &options(threads), &());
    let report = report.expect("it is saved");
    restore_and_compare(repository, root);
    report.statistics
}

/// Returns the files of the newest snapshot.
fn entries(repository: &Arc<Repository>) -> Vec<Entry> {
    let view = View::list(repository).expect("it lists");
    let reader = Reader::open(repository.clone(), view).expect("it opens");
    let view = reader.view();
    let root = view.snapshots().last().expect("a snapshot").1.root.clone();
    let (mut folders, mut found) = (vec![root], Vec::new());
    while let Some(content) = folders.pop() {
        for entry in reader.tree(&content) {
            let entry = entry.expect("an entry");
            match entry.kind {
                EntryKind::Folder => folders.push(entry.content),
                _ => found.push(entry),
            }
        }
    }
    found
}

#[test]
fn small_files_share_chunks_that_are_found_again() {
    let mut first = None;
    for threads in [1, 2, 7] {
        let root = tempfile::tempdir().expect("a folder");
        make_folder(root.path());
        let storage: Arc<dyn Storage> = Arc::new(Memory::new());
        let repository = init(&storage, &SeededEnvironment::new(1));
        let begun = save(&repository, root.path(), threads);
        let parts = |entry: &Entry| {
            matches!(entry.content, Content::Segments(ref segments)
                if matches!(segments[..], [Segment::Chunk { offset: 1.., .. }]))
        };
        let part_count = entries(&repository).iter().filter(|entry| parts(entry)).count();
        assert!(part_count > FOLDERS * FILES * 3 / 4, "{part_count} files lie within chunks");
        let mut stored = contents(&*storage);
        stored.retain(|name, _| name.starts_with("data/"));
        match &first {
            None => first = Some(stored),
            Some(first) => assert!(*first == stored, "{threads} threads put other bytes"),
        }

        // Files that are not read are taken over.
        let same = save(&repository, root.path(), threads);
        assert_eq!((same.read_file_count, same.new_chunk_count), (0, 0));

        // Half of the folders are replaced by copies, which are read. New data arises only where
        // they border on other folders.
        for folder in 0..FOLDERS / 2 {
            let name = root.path().join(format!("folder {folder:02}"));
            let copy = root.path().join(format!("copy of {folder:02}"));
            fs::create_dir(&copy).expect("a folder");
            for file in fs::read_dir(&name).expect("a folder").map(|file| file.expect("a file")) {
                fs::copy(file.path(), copy.join(file.file_name())).expect("copied");
            }
            fs::remove_dir_all(name).expect("removed");
        }
        let moved = save(&repository, root.path(), threads);
        assert!(moved.read_file_count > 200, "{moved:?}");
        assert!(moved.new_bytes * 4 < begun.new_bytes, "{moved:?}");

        // A byte changes in one file, and one file is added.
        fs::write(root.path().join("folder 07/file 05"), b"short now").expect("a file");
        fs::write(root.path().join("folder 08/file 05 once more"), b"new").expect("a file");
        let changed = save(&repository, root.path(), threads);
        assert_eq!(changed.read_file_count, 2, "{changed:?}");

        let options = CheckOptions { read_data: Some(Portion::All), ..CheckOptions::default() };
        let report = check(&repository, &options, &()).expect("it is checked");
        assert_eq!((report.error_count, report.note_count), (0, 0), "{report:?}");
    }
}

/// The changes in files that share a chunk are compared with the previous version of each file.
#[test]
fn bundles_are_compared_with_previous_versions_of_their_files() {
    let root = tempfile::tempdir().expect("a folder");
    make_folder(root.path());
    let storage: Arc<dyn Storage> = Arc::new(Memory::new());
    let repository = init(&storage, &SeededEnvironment::new(2));
    save(&repository, root.path(), 2);
    for day in 0..3 {
        for folder in 0..FOLDERS {
            for file in 0..FILES {
                let path = root.path().join(format!("folder {folder:02}/file {file:02}"));
                let mut bytes = fs::read(&path).expect("a file");
                let at = bytes.len() / (day + 2);
                bytes.splice(at..at, *b"inserted");
                fs::write(&path, bytes).expect("a file");
            }
        }
        let changed = save(&repository, root.path(), 2);
        let Statistics { delta_chunk_bytes, literal_bytes, new_bytes, .. } = changed;
        assert!(delta_chunk_bytes * 20 > new_bytes * 19, "day {day}: {changed:?}");
        assert!(literal_bytes * 10 < delta_chunk_bytes, "day {day}: {changed:?}");
    }
}

/// Without delta chunks, one changed byte would cause a whole bundle to be stored again.
#[test]
fn without_delta_chunks_no_chunk_is_shared() {
    let root = tempfile::tempdir().expect("a folder");
    make_folder(root.path());
    let storage: Arc<dyn Storage> = Arc::new(Memory::new());
    let repository = crate::seeded_repository::init_exact(&storage, &SeededEnvironment::new(3));
    let report = backup(&repository, files(root.path()), &options(2), &());
    assert_eq!(report.expect("it is saved").statistics.problem_count, 0);
    for entry in entries(&repository) {
        if let Content::Segments(segments) = &entry.content {
            let is_whole =
                |segment: &Segment| !matches!(segment, Segment::Chunk { offset: 1.., .. });
            assert!(segments.iter().all(is_whole), "{entry:?}");
        }
    }
    restore_and_compare(&repository, root.path());
}
