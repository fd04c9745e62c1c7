//! Files that change a little: the parts in common with their previous version are not stored
//! again, the files are restored byte for byte, and stored bytes do not depend on the number of
//! threads.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use cutpoint_backup::save::{BackupReport, Source, backup};
use cutpoint_repository::verify::check::{CheckOptions, Portion, check};
use cutpoint_repository::{Repository, Statistics};
use cutpoint_storage::{Memory, Storage};
use cutpoint_testing::SplitMix64;

use crate::backup_options::{files, options};
use crate::folder_comparison::restore_and_compare;
use crate::seeded_repository::{SeededEnvironment, contents, init, init_exact};

/// Returns text of few words, which compresses and in which short pieces occur many times.
fn text(random: &mut SplitMix64, len: usize) -> Vec<u8> {
    let words: Vec<Vec<u8>> = (0..500)
        .map(|_| {
            let len = 3 + random.below(9);
            random.take(len).into_iter().map(|byte| b'a' + byte % 26).collect()
        })
        .collect();
    let mut text = Vec::with_capacity(len + 20);
    while text.len() < len {
        text.extend_from_slice(&words[random.below(words.len())]);
        text.push(b' ');
    }
    text
}

/// Replaces, inserts and removes bytes at `count` places.
fn edit(random: &mut SplitMix64, bytes: &mut Vec<u8>, count: usize) {
    for _ in 0..count {
        let at = random.below(bytes.len());
        let end = (at + random.below(40)).min(bytes.len());
        let len = match random.below(3) {
            0 => end - at,
            1 => random.below(60),
            _ => 0,
        };
        bytes.splice(at..end, random.take(len));
    }
}

/// A folder with files of several kinds, in its first version.
struct Folder {
    files: Vec<(&'static str, Vec<u8>)>,
    random: SplitMix64,
}

impl Folder {
    fn new() -> Folder {
        let mut random = SplitMix64::new(7);
        let mut zeros = text(&mut random, 600_000);
        zeros[100_000..400_000].fill(0);
        let files = vec![
            ("rows", text(&mut random, 1_500_000)),
            ("noise", random.take(900_000)),
            ("zeros", zeros),
            ("page", text(&mut random, 9_000)),
            ("tiny", b"hardly anything".to_vec()),
            ("same", text(&mut random, 300_000)),
        ];
        Folder { files, random }
    }

    fn write(&self, root: &Path) {
        for (name, bytes) in &self.files {
            fs::write(root.join(name), bytes).expect("a file");
        }
    }

    /// Changes the files as on one day.
    fn change(&mut self, day: usize) {
        for (name, bytes) in &mut self.files {
            match *name {
                "same" => {}
                "tiny" => bytes.push(b'!'),
                "page" => edit(&mut self.random, bytes, 3),
                _ => edit(&mut self.random, bytes, 120),
            }
        }
        // On one day, far more than a window is inserted in front, and it is removed again later.
        let rows = &mut self.files[0].1;
        if day == 2 {
            let inserted = text(&mut self.random, 700_000);
            rows.splice(50_000..50_000, inserted);
        } else if day == 4 {
            rows.drain(50_000..600_000);
        }
    }
}

fn stored_bytes(storage: &dyn Storage) -> usize {
    contents(storage).values().map(Vec::len).sum()
}

/// Returns the containers of file data with their contents.
fn stored_data(storage: &dyn Storage) -> BTreeMap<String, Vec<u8>> {
    let mut stored = contents(storage);
    stored.retain(|name, _| name.starts_with("data/"));
    stored
}

/// Checks all data: there are neither errors nor notes.
fn assert_clean(repository: &Arc<Repository>) {
    let options = CheckOptions { read_data: Some(Portion::All), ..CheckOptions::default() };
    let report = check(repository, &options, &()).expect("it is checked");
    assert_eq!((report.error_count, report.note_count), (0, 0), "{report:?}");
}

fn save(repository: &Arc<Repository>, root: &Path, threads: usize) -> BackupReport {
    backup(repository, files(root), &options(threads), &()).expect("it is saved")
}

#[test]
fn versions_are_restored_and_take_little_space() {
    let mut first = None;
    for threads in [1, 2, 7] {
        let (mut folder, root) = (Folder::new(), tempfile::tempdir().expect("a folder"));
        let storage: Arc<dyn Storage> = Arc::new(Memory::new());
        let repository = init(&storage, &SeededEnvironment::new(1));
        folder.write(root.path());
        let report = save(&repository, root.path(), threads);
        assert_eq!(report.statistics.delta_chunk_count, 0, "there is nothing to resemble");
        let begun = stored_bytes(&*storage);
        for day in 1..6 {
            folder.change(day);
            folder.write(root.path());
            let before = stored_bytes(&*storage);
            let Statistics {
                delta_chunk_count, delta_chunk_bytes, literal_bytes, new_bytes, ..
            } = save(&repository, root.path(), threads).statistics;
            assert!(delta_chunk_count > 50, "day {day}: {delta_chunk_count} delta chunks");
            assert!(literal_bytes * 5 < delta_chunk_bytes, "day {day}: {literal_bytes} new bytes");
            let inserted = if day == 2 { 700_000 } else { 0 };
            assert!(new_bytes - delta_chunk_bytes < inserted + 300_000, "day {day}");
            let grown = stored_bytes(&*storage) - before;
            assert!(grown * 3 < begun + 3 * usize::try_from(inserted).expect("small"), "{grown}");
            restore_and_compare(&repository, root.path());
        }
        assert_clean(&repository);
        // The times of files differ between the folders, but their contents do not.
        let stored = stored_data(&*storage);
        match &first {
            None => first = Some(stored),
            Some(first) => {
                assert!(*first == stored && stored.len() > 5, "{threads} threads put other bytes")
            }
        }
    }
}

/// Versions that lie beside each other are compared with each other, although nothing is in the
/// repository before.
#[test]
fn versions_in_one_run_take_little_space() {
    let mut random = SplitMix64::new(15);
    let root = tempfile::tempdir().expect("a folder");
    let mut rows = text(&mut random, 1_500_000);
    for version in 0..6 {
        fs::write(root.path().join(format!("rows of day {version}")), &rows).expect("a file");
        // No chunk stays as it was.
        rows.iter_mut().step_by(1500).for_each(|byte| *byte ^= 1);
        edit(&mut random, &mut rows, 50);
    }
    let stored = |init: fn(&Arc<dyn Storage>, &Arc<SeededEnvironment>) -> Arc<Repository>,
                  threads| {
        let storage: Arc<dyn Storage> = Arc::new(Memory::new());
        let repository = init(&storage, &SeededEnvironment::new(8));
        let statistics = save(&repository, root.path(), threads).statistics;
        restore_and_compare(&repository, root.path());
        assert_clean(&repository);
        (stored_data(&*storage), statistics)
    };
    let (exact, _) = stored(init_exact, 2);
    let exact: usize = exact.values().map(Vec::len).sum();
    let (first, statistics) = stored(init, 1);
    let len: usize = first.values().map(Vec::len).sum();
    assert!(len * 3 < exact, "{len} bytes, {exact} without delta chunks");
    assert!(statistics.literal_bytes * 5 < statistics.delta_chunk_bytes, "{statistics:?}");
    for threads in [2, 7] {
        assert!(stored(init, threads).0 == first, "{threads} threads put other bytes");
    }
}

#[test]
fn stream_is_compared_with_its_previous_version() {
    let storage: Arc<dyn Storage> = Arc::new(Memory::new());
    let repository = init(&storage, &SeededEnvironment::new(2));
    let mut random = SplitMix64::new(9);
    let mut dump = text(&mut random, 2_000_000);
    for day in 0..3 {
        let reader = Box::new(std::io::Cursor::new(dump.clone()));
        let source = Source::Stream { name: b"dump.sql".to_vec(), reader };
        let report = backup(&repository, source, &options(2), &()).expect("it is saved");
        let Statistics { delta_chunk_bytes, new_bytes, .. } = report.statistics;
        assert!(
            day == 0 || delta_chunk_bytes * 10 > new_bytes * 9,
            "day {day}: {delta_chunk_bytes}"
        );
        edit(&mut random, &mut dump, 300);
    }
}

/// A previous version only makes a stream smaller. Without it, the stream is saved as well.
#[test]
fn stream_with_damaged_previous_version_is_saved() {
    let storage: Arc<dyn Storage> = Arc::new(Memory::new());
    let repository = init(&storage, &SeededEnvironment::new(5));
    let dump = text(&mut SplitMix64::new(10), 500_000);
    for day in 0..2 {
        let reader = Box::new(std::io::Cursor::new(dump.clone()));
        let source = Source::Stream { name: b"dump.sql".to_vec(), reader };
        let report = backup(&repository, source, &options(2), &()).expect("it is saved");
        assert_eq!(report.statistics.size, dump.len() as u64, "day {day}");
        for (name, _) in storage.list("meta").expect("memory lists") {
            storage.delete(&name).expect("memory deletes");
        }
    }
}

/// Files with a new path and changed contents take nearly as little space as with their old path.
/// Without hints, they take more space, but nothing else happens.
#[test]
fn renamed_folder_takes_hardly_more_space() {
    let grown = [("old", false), ("new", false), ("new", true)].map(|(name, is_lost)| {
        let root = tempfile::tempdir().expect("a folder");
        let storage: Arc<dyn Storage> = Arc::new(Memory::new());
        let repository = init(&storage, &SeededEnvironment::new(6));
        let mut random = SplitMix64::new(13);
        let mut files: Vec<Vec<u8>> =
            (0..60).map(|number| text(&mut random, 2000 * (1 + number % 30))).collect();
        // The files have other names as well.
        let write = |name: &str, files: &[Vec<u8>]| {
            let folder = root.path().join(name);
            fs::create_dir_all(&folder).expect("a folder");
            for (number, bytes) in files.iter().enumerate() {
                fs::write(folder.join(format!("{name} {number}")), bytes).expect("a file");
            }
        };
        write("old", &files);
        save(&repository, root.path(), 2);
        if is_lost {
            for (name, _) in storage.list("similarity").expect("memory lists") {
                storage.delete(&name).expect("memory deletes");
            }
        }
        for bytes in &mut files {
            let at = bytes.len() / 2;
            bytes[at..at + 20].fill(b'!');
            bytes.splice(at / 2..at / 2, *b"inserted");
        }
        fs::remove_dir_all(root.path().join("old")).expect("it goes");
        write(name, &files);
        // Containers are padded, so the stored file data is compared instead.
        let Statistics { new_bytes, delta_chunk_bytes, literal_bytes, .. } =
            save(&repository, root.path(), 2).statistics;
        restore_and_compare(&repository, root.path());
        new_bytes - delta_chunk_bytes + literal_bytes
    });
    println!("new bytes: in place {}, renamed {}, without hints {}", grown[0], grown[1], grown[2]);
    assert!(grown[1] < grown[0] * 2, "{grown:?}");
    assert!(grown[2] > grown[1] * 10, "{grown:?}");
}

/// One small file in four keeps its name, between others that do not. A bundle of which little is
/// known is still found by its ends.
#[test]
fn bundle_with_few_kept_names_is_found_by_its_ends() {
    let root = tempfile::tempdir().expect("a folder");
    let storage: Arc<dyn Storage> = Arc::new(Memory::new());
    let repository = init(&storage, &SeededEnvironment::new(7));
    let mut random = SplitMix64::new(14);
    for number in 0..60 {
        let path = root.path().join(format!("{number:02} old"));
        fs::write(path, text(&mut random, 10_000)).expect("a file");
    }
    save(&repository, root.path(), 2);
    for number in 0..60 {
        let old = root.path().join(format!("{number:02} old"));
        let mut bytes = fs::read(&old).expect("it is there");
        bytes[5000..5020].fill(b'!');
        let name = if number % 4 == 1 { "old" } else { "new" };
        fs::remove_file(old).expect("it goes");
        fs::write(root.path().join(format!("{number:02} {name}")), bytes).expect("a file");
    }
    let Statistics { new_bytes, delta_chunk_bytes, literal_bytes, .. } =
        save(&repository, root.path(), 2).statistics;
    restore_and_compare(&repository, root.path());
    let stored_bytes = new_bytes - delta_chunk_bytes + literal_bytes;
    assert!(stored_bytes < 60_000, "{stored_bytes} of 600,000");
}

/// A file that is unrelated to its previous version takes the space of a new file.
#[test]
fn unrelated_version_is_stored_whole() {
    let root = tempfile::tempdir().expect("a folder");
    let storage: Arc<dyn Storage> = Arc::new(Memory::new());
    let repository = init(&storage, &SeededEnvironment::new(3));
    let mut random = SplitMix64::new(11);
    for day in 0..3 {
        fs::write(root.path().join("noise"), random.take(3_000_000)).expect("a file");
        let before = stored_bytes(&*storage);
        let report = save(&repository, root.path(), 2);
        assert_eq!(report.statistics.delta_chunk_count, 0, "day {day}");
        let grown = stored_bytes(&*storage) - before;
        // Cut into 8 KiB, and padded.
        assert!(grown < 3_200_000, "day {day}: {grown} bytes");
        restore_and_compare(&repository, root.path());
    }
}

/// Returns the growth of a repository when `old` becomes `new`, with and without matching.
fn growth(old: &[u8], new: &[u8]) -> [usize; 2] {
    [init, init_exact].map(|init| {
        let root = tempfile::tempdir().expect("a folder");
        let storage: Arc<dyn Storage> = Arc::new(Memory::new());
        let repository = init(&storage, &SeededEnvironment::new(5));
        fs::write(root.path().join("rows"), old).expect("a file");
        save(&repository, root.path(), 2);
        fs::write(root.path().join("rows"), new).expect("a file");
        let before = stored_bytes(&*storage);
        save(&repository, root.path(), 2);
        restore_and_compare(&repository, root.path());
        stored_bytes(&*storage) - before
    })
}

/// Less than half of a chunk is old. Matching it still pays off, because the chunk does not
/// compress.
#[test]
fn incompressible_chunk_is_matched_in_part() {
    let mut random = SplitMix64::new(14);
    let old = random.take(1_500_000);
    let mut new = old.clone();
    for row in new.chunks_mut(2000) {
        let len = row.len() * 3 / 5;
        row[..len].copy_from_slice(&random.take(len));
    }
    let [on, off] = growth(&old, &new);
    assert!(on * 10 < off * 8, "{on} bytes, {off} without matching");
}

/// Rows of a dump: a number, a balance, and a filler that all rows have. Updated rows move to the
/// end, so that rows are missing everywhere and no chunk stays.
#[test]
fn dump_with_moved_rows_takes_little_space() {
    let row = |number: usize, balance: u64| format!("{number}\t1\t{balance}\t{:84}\n", "");
    let mut random = SplitMix64::new(23);
    let mut rows: Vec<(usize, u64)> =
        (0..40_000).map(|number| (number, random.next() % 9)).collect();
    let dump = |rows: &[(usize, u64)]| {
        rows.iter().flat_map(|(number, balance)| row(*number, *balance).into_bytes()).collect()
    };
    let old: Vec<u8> = dump(&rows);
    let (kept, mut moved): (Vec<_>, Vec<_>) =
        rows.drain(..).partition(|_| !random.next().is_multiple_of(50));
    moved.iter_mut().for_each(|(_, balance)| *balance = random.next() % 100_000);
    let new: Vec<u8> = dump(&[kept, moved].concat());
    let [on, off] = growth(&old, &new);
    assert!(on * 2 < off, "{on} bytes, {off} without matching");
}

/// Known data is found behind much new data, although no chunk is as it was.
#[test]
fn known_data_after_much_new_data_is_found() {
    let root = tempfile::tempdir().expect("a folder");
    let storage: Arc<dyn Storage> = Arc::new(Memory::new());
    let repository = init(&storage, &SeededEnvironment::new(4));
    let mut random = SplitMix64::new(12);
    let mut rows = text(&mut random, 2_000_000);
    fs::write(root.path().join("rows"), &rows).expect("a file");
    save(&repository, root.path(), 2);
    // No chunk stays as it was.
    rows.iter_mut().step_by(1500).for_each(|byte| *byte ^= 1);
    let new = random.take(700_000);
    rows.splice(0..0, new);
    fs::write(root.path().join("rows"), &rows).expect("a file");
    let statistics = save(&repository, root.path(), 2).statistics;
    assert!(statistics.delta_chunk_bytes > 1_000_000, "{statistics:?}");
    restore_and_compare(&repository, root.path());
}
