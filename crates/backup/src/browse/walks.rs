//! Readers that go from file to file, such as `grep -r`, and the files that they will read next.

use std::collections::{HashSet, VecDeque};

use super::file_cursor::{FileCursor, FoundFile};
use crate::trees::EntryPlace;

/// The maximum number of readers that are followed at the same time.
const WALKS_MAX: usize = 4;
/// The maximum number of files that are expected of a reader.
const EXPECTED_MAX: usize = 1024;
/// The minimum number of files that a cursor finds when it is moved. It is moved when half as many
/// are expected. A reader that passes over all of them, or reads them all before the cursor is moved,
/// is not followed.
const EXPECTED_MIN: usize = 64;
/// The maximum number of files that a reader has passed over and may still read: readers with
/// several threads do not keep to the order.
const PASSED_MAX: usize = 64;
/// The maximum of a walk's score.
const SCORE_MAX: u32 = 8;
/// The minimum score with which data is decoded ahead.
const SCORE_MIN: u32 = 2;
/// The loss of score for an expected file that was not read.
const LOSS: u32 = 2;
/// The distance up to which data is decoded ahead with the best score, in bytes. With each point
/// less, the distance is half of it.
const DISTANCE_MAX: u64 = 8 << 20;
/// The number of expected files that must have been read without an exception before files are
/// handed over.
const HANDED_OVER_AFTER: u32 = 4;
/// The maximum size of a file that is handed over, in bytes. Larger files take several requests
/// anyway.
const HANDED_OVER_LEN_MAX: u64 = 128 << 10;
/// The total size of the files that are handed over at once, in bytes, as a share of the distance.
const HANDED_OVER_SHARE: u64 = 16;
/// The interval of folders in which one file is not handed over, so that its request shows that
/// the reader reads everything.
const TEST_EVERY: u32 = 8;

/// A file that a reader will probably read.
#[derive(Debug)]
struct Expected {
    file: FoundFile,
    /// Set if the file was given to the threads that decode ahead.
    is_prepared: bool,
    /// Set if the reader needs no request for the file.
    is_handed_over: bool,
}

/// A reader that goes from file to file.
#[derive(Debug)]
struct Walk {
    id: u64,
    /// The position behind the expected files. `None` while it is moved, and at the end.
    cursor: Option<FileCursor>,
    expected: VecDeque<Expected>,
    expected_bytes: u64,
    /// The node of the folder whose file was read last.
    parent: u64,
    /// The nodes that the reader has passed over, oldest first.
    passed: VecDeque<u64>,
    /// The number of reads that passed over no file, less a loss for files that were not read.
    score: u32,
    /// The number of expected files that were read since one was passed over.
    in_order_count: u32,
    /// The number of folders whose files were handed over.
    folder_count: u32,
    /// The time of its last read, in reads.
    used: u64,
}

/// What is to be done after a file was read, or a folder listed.
#[derive(Debug, Default)]
pub(super) struct Followed {
    /// The files that can be handed over, with the numbers of their nodes.
    pub(super) files: Vec<(u64, EntryPlace)>,
    /// The walk whose cursor is to be moved, if there is one.
    pub(super) moved: Option<Moved>,
    /// Set if the read belongs to no known walk.
    pub(super) is_new: bool,
}

/// A cursor that is taken out of its walk to be moved.
#[derive(Debug)]
pub(super) struct Moved {
    id: u64,
    cursor: FileCursor,
    /// The number and the total size of the files that are still to be found.
    count_max: usize,
    bytes_max: u64,
    files: Vec<FoundFile>,
}

impl Moved {
    /// Creates a new walk with `cursor`.
    pub(super) fn new(cursor: FileCursor) -> Moved {
        Moved { id: 0, cursor, count_max: EXPECTED_MIN, bytes_max: 0, files: Vec::new() }
    }

    /// Moves the cursor by `next_file`, which returns `None` at the end.
    pub(super) fn run(&mut self, next_file: impl Fn(&mut FileCursor) -> Option<FoundFile>) {
        let mut bytes = 0;
        while self.files.len() < EXPECTED_MIN.min(self.count_max)
            || (self.files.len() < self.count_max && bytes < self.bytes_max)
        {
            let Some(file) = next_file(&mut self.cursor) else { return };
            bytes += file.entry.size;
            self.files.push(file);
        }
    }
}

/// The readers that are followed.
#[derive(Debug, Default)]
pub(super) struct Walks {
    walks: Vec<Walk>,
    /// The number of reads and of walks so far.
    read_count: u64,
    walk_count: u64,
}

impl Walks {
    /// Notes that the file `node` is read from its start on. Returns files to hand over only if
    /// `hands_over` is set.
    pub(super) fn read(&mut self, node: u64, hands_over: bool) -> Followed {
        self.read_count += 1;
        let mut walks = self.walks.iter_mut().enumerate();
        let found = walks.find_map(|(place, walk)| Some((place, walk.read(node)?)));
        let Some((place, is_next)) = found else {
            return Followed { is_new: true, ..Followed::default() };
        };
        self.walks[place].used = self.read_count;
        // A reader of a file that was passed over may be elsewhere.
        self.follow(place, hands_over && is_next)
    }

    /// Notes that the folder `node` was listed to its end. Returns files to hand over only if
    /// `hands_over` is set.
    pub(super) fn listed(&mut self, node: u64, hands_over: bool) -> Followed {
        let place = self.walks.iter_mut().position(|walk| walk.enter(node));
        place.map_or_else(Followed::default, |place| self.follow(place, hands_over))
    }

    /// Returns what is to be done for the walk at `place`. No other walk hands over the same files: one
    /// may be left from an earlier reader of the same folders.
    fn follow(&mut self, place: usize, hands_over: bool) -> Followed {
        let walk = &mut self.walks[place];
        let files = if hands_over { walk.handed_over() } else { Vec::new() };
        let moved = walk.moved();
        if !files.is_empty() {
            let nodes: HashSet<u64> = files.iter().map(|(node, _)| *node).collect();
            for expected in self.walks.iter_mut().flat_map(|walk| &mut walk.expected) {
                expected.is_handed_over |= nodes.contains(&expected.file.node);
            }
        }
        Followed { files, moved, is_new: false }
    }

    /// Takes back a cursor that was moved, or a new one. Returns the files to decode ahead.
    pub(super) fn put_back(&mut self, moved: Moved) -> Vec<EntryPlace> {
        let Moved { id, cursor, files, .. } = moved;
        let is_known = |walk: &&mut Walk| walk.id == id;
        let walk = match self.walks.iter_mut().find(is_known) {
            Some(walk) => walk,
            None if id == 0 => self.add(),
            None => return Vec::new(),
        };
        walk.cursor = (!files.is_empty()).then_some(cursor);
        walk.expected_bytes += files.iter().map(|file| file.entry.size).sum::<u64>();
        walk.expected.extend(files.into_iter().map(|file| {
            // The kernel does not ask for the content of an empty file.
            let is_handed_over = file.entry.size == 0;
            Expected { file, is_prepared: false, is_handed_over }
        }));
        walk.take_unprepared()
    }

    /// Adds a walk without expected files in the place of the one that was unused for longest.
    fn add(&mut self) -> &mut Walk {
        self.walk_count += 1;
        if self.walks.len() >= WALKS_MAX {
            let oldest = self.walks.iter().enumerate().min_by_key(|(_, walk)| walk.used);
            let oldest = oldest.map(|(place, _)| place);
            oldest.map(|place| self.walks.swap_remove(place));
        }
        self.walks.push(Walk {
            id: self.walk_count,
            cursor: None,
            expected: VecDeque::new(),
            expected_bytes: 0,
            parent: 0,
            passed: VecDeque::new(),
            score: 0,
            in_order_count: 0,
            folder_count: 0,
            used: self.read_count,
        });
        self.walks.last_mut().expect("a walk was pushed")
    }
}

impl Walk {
    /// Notes that `node` is read. Returns `true` if it was expected, `false` if it was passed over,
    /// and otherwise `None`.
    fn read(&mut self, node: u64) -> Option<bool> {
        let (mut gain, mut is_next) = (1, false);
        if let Some(place) = self.passed.iter().position(|passed| *passed == node) {
            self.passed.remove(place);
        } else if let Some(place) =
            self.expected.iter().position(|expected| expected.file.node == node)
        {
            is_next = true;
            self.in_order_count += 1;
            for expected in self.expected.drain(..=place) {
                self.expected_bytes -= expected.file.entry.size;
                self.parent = expected.file.parent;
                if expected.file.node != node && !expected.is_handed_over {
                    self.passed.push_back(expected.file.node);
                    self.in_order_count = 0;
                    gain = 0;
                }
            }
        } else {
            return None;
        }
        self.score = (self.score + gain).min(SCORE_MAX);
        while self.passed.len() > PASSED_MAX {
            self.passed.pop_front();
            self.score = self.score.saturating_sub(LOSS);
        }
        Some(is_next)
    }

    /// Notes that the folder `node` was listed. Returns `false` if it does not have the file that is
    /// expected next.
    fn enter(&mut self, node: u64) -> bool {
        let next = self.expected.iter().position(|expected| !expected.is_handed_over);
        let Some(next) = next.filter(|next| self.expected[*next].file.parent == node) else {
            return false;
        };
        for expected in self.expected.drain(..next) {
            self.expected_bytes -= expected.file.entry.size;
        }
        self.parent = node;
        true
    }

    /// Returns the distance up to which data is decoded ahead, in bytes.
    fn distance(&self) -> u64 {
        if self.score < SCORE_MIN { 0 } else { DISTANCE_MAX >> (SCORE_MAX - self.score) }
    }

    /// Returns the files that follow in the same folder and can be handed over.
    fn handed_over(&mut self) -> Vec<(u64, EntryPlace)> {
        let mut files = Vec::new();
        if self.in_order_count < HANDED_OVER_AFTER {
            return files;
        }
        let bytes_max = self.distance() / HANDED_OVER_SHARE;
        let mut bytes = 0;
        let mut place = 0;
        // The kernel has not yet been told of files in other folders.
        let is_beside = |expected: &Expected| expected.file.parent == self.parent;
        while bytes < bytes_max
            && let Some(Expected { file, .. }) = self.expected.get(place).filter(|it| is_beside(it))
            && file.entry.size <= HANDED_OVER_LEN_MAX
        {
            let next = self.expected.get(place + 1);
            if !next.is_some_and(is_beside) {
                self.folder_count += 1;
                if self.folder_count.is_multiple_of(TEST_EVERY) {
                    break;
                }
            }
            let expected = &mut self.expected[place];
            if !expected.is_handed_over {
                expected.is_handed_over = true;
                bytes += expected.file.entry.size;
                files.push((expected.file.node, expected.file.entry.clone()));
            }
            place += 1;
        }
        files
    }

    /// Takes out the cursor if there are too few expected files.
    fn moved(&mut self) -> Option<Moved> {
        let distance = self.distance();
        let is_low =
            self.expected_bytes < distance - distance / 4 || self.expected.len() < EXPECTED_MIN / 2;
        let count_max = EXPECTED_MAX.saturating_sub(self.expected.len());
        if !is_low || count_max == 0 {
            return None;
        }
        let bytes_max = distance.saturating_sub(self.expected_bytes);
        let (id, cursor) = (self.id, self.cursor.take()?);
        Some(Moved { id, cursor, count_max, bytes_max, files: Vec::new() })
    }

    /// Returns the expected files within the distance that were not yet given to the threads.
    fn take_unprepared(&mut self) -> Vec<EntryPlace> {
        let (distance, mut bytes) = (self.distance(), 0);
        let mut files = Vec::new();
        for expected in &mut self.expected {
            if bytes >= distance {
                break;
            }
            bytes += expected.file.entry.size;
            if !expected.is_prepared {
                expected.is_prepared = true;
                files.push(expected.file.entry.clone());
            }
        }
        files
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use cutpoint_repository::{Entry, EntryKind};

    use super::*;

    /// The number of files in each folder.
    const FOLDER_LEN: u64 = 10;

    /// A reader of files with consecutive nodes, and what following it has led to.
    #[derive(Default)]
    struct Scene {
        walks: Walks,
        file_count: u64,
        /// The size of each file in bytes.
        file_len: u64,
        /// The node of the file at which the last cursor is.
        next: Cell<u64>,
        request_count: usize,
        handed_over: HashSet<u64>,
        prepared_count: usize,
    }

    impl Scene {
        fn new(file_count: u64) -> Scene {
            Scene { file_count, file_len: 10_000, ..Scene::default() }
        }

        /// Reads a file that was not handed over.
        fn read(&mut self, node: u64) {
            if self.handed_over.contains(&node) {
                return;
            }
            self.request_count += 1;
            let mut followed = self.walks.read(node, true);
            if followed.is_new {
                self.next.set(node + 1);
                followed.moved = Some(Moved::new(FileCursor::at_end()));
            }
            self.take(followed, node / FOLDER_LEN);
        }

        /// Lists the folder of a file to its end.
        fn list(&mut self, node: u64) {
            let followed = self.walks.listed(node / FOLDER_LEN, true);
            self.take(followed, node / FOLDER_LEN);
        }

        fn take(&mut self, followed: Followed, folder: u64) {
            for (handed_over, _) in followed.files {
                assert_eq!(handed_over / FOLDER_LEN, folder, "{handed_over}: in another folder");
                assert!(self.handed_over.insert(handed_over), "{handed_over}: a second time");
            }
            let Some(mut moved) = followed.moved else { return };
            moved.run(|_| self.next_file());
            self.prepared_count += self.walks.put_back(moved).len();
        }

        fn next_file(&self) -> Option<FoundFile> {
            let node = self.next.replace(self.next.get() + 1);
            (node < self.file_count).then(|| found(node, self.file_len))
        }
    }

    fn found(node: u64, len: u64) -> FoundFile {
        let mut entry = Entry::new(node.to_string().into_bytes(), EntryKind::File);
        entry.size = len;
        FoundFile { parent: node / FOLDER_LEN, node, entry: entry.into() }
    }

    #[test]
    fn reader_of_all_files_needs_few_requests() {
        let mut scene = Scene::new(2000);
        (0..2000).for_each(|node| scene.read(node));
        // One for each of 200 folders, and one for a file in each eighth of them.
        assert!(scene.request_count < 250, "{} requests", scene.request_count);
        assert!(scene.prepared_count > 1900, "{} decoded ahead", scene.prepared_count);
    }

    #[test]
    fn reader_that_lists_each_folder_before_needs_no_requests_for_most() {
        let mut scene = Scene::new(2000);
        for node in 0..2000 {
            if node % FOLDER_LEN == 0 {
                scene.list(node);
            }
            scene.read(node);
        }
        assert!(scene.request_count < 60, "{} requests", scene.request_count);
        // A program that only lists is noticed.
        let mut scene = Scene { file_count: 4000, ..scene };
        scene.next.set(2000);
        let before = scene.handed_over.len();
        (2000..4000).step_by(10).for_each(|node| scene.list(node));
        let wasted = scene.handed_over.len() - before;
        assert!(wasted <= 90, "{wasted} files handed over that were not read");
    }

    #[test]
    fn files_are_not_handed_over_to_reader_of_first_files() {
        let mut scene = Scene::new(20_000);
        (0..20_000).step_by(10).for_each(|node| scene.read(node));
        assert_eq!((scene.handed_over.len(), scene.prepared_count), (0, 0));
    }

    #[test]
    fn reader_that_begins_to_pass_over_files_is_noticed() {
        let mut scene = Scene::new(20_000);
        (0..1000).for_each(|node| scene.read(node));
        let before = scene.handed_over.len();
        (1000..20_000).step_by(10).for_each(|node| scene.read(node));
        let wasted = scene.handed_over.len() - before;
        assert!(wasted <= 100, "{wasted} files handed over that were not read");
    }

    #[test]
    fn data_is_decoded_ahead_of_reader_with_several_threads() {
        let mut scene = Scene::new(2000);
        for node in (0..2000).step_by(4) {
            [2, 1, 3, 0].into_iter().for_each(|place| scene.read(node + place));
        }
        assert_eq!(scene.handed_over.len(), 0, "its order is not known");
        assert!(scene.prepared_count > 1500, "{} decoded ahead", scene.prepared_count);
    }

    #[test]
    fn nothing_is_handed_over_to_reader_of_a_file_that_was_passed_over() {
        let mut scene = Scene { file_len: 100_000, ..Scene::new(100) };
        [0, 2, 3, 4, 5, 6].into_iter().for_each(|node| scene.read(node));
        let before = scene.handed_over.clone();
        assert!(!before.is_empty(), "it reads in order");
        scene.read(1);
        assert_eq!(scene.handed_over, before, "it may be in another folder");
    }

    #[test]
    fn file_that_two_walks_expect_is_handed_over_once() {
        let mut walks = Walks::default();
        for count in [10, 40] {
            let files = (0..count).map(|node| found(node, 1000)).collect();
            walks.put_back(Moved { files, ..Moved::new(FileCursor::at_end()) });
        }
        for walk in &mut walks.walks {
            (walk.score, walk.in_order_count) = (SCORE_MAX, HANDED_OVER_AFTER);
        }
        let nodes = |followed: Followed| -> Vec<u64> {
            followed.files.into_iter().map(|(node, _)| node).collect()
        };
        assert_eq!(nodes(walks.listed(0, true)), (0..10).collect::<Vec<u64>>());
        assert!(nodes(walks.listed(0, true)).is_empty(), "the other walk has them, too");
        assert_eq!(nodes(walks.listed(1, true)), (10..20).collect::<Vec<u64>>(), "by that one");
    }

    #[test]
    fn nothing_is_expected_of_reader_without_order() {
        let mut scene = Scene::new(10_000);
        (0..2000).for_each(|read| scene.read(read * 7919 % 10_000));
        assert_eq!((scene.handed_over.len(), scene.prepared_count), (0, 0));
    }
}
