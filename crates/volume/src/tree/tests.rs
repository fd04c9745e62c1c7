//! Trees under random changes, and damaged runs.

use std::collections::BTreeMap;
use std::sync::Arc;

use cutpoint_testing::SplitMix64;

use super::pages::Pages;
use super::{Entry, Key, Run, RunMerge, Tree, are_consistent, write_run};
use crate::core::Core;
use crate::folder::{FaultyFolder, Folder, Survival};
use crate::format::names;
use crate::format::run::{PartMeta, RunMeta};
use crate::format::superblock::{Suite, Superblock};

fn core(folder: &FaultyFolder) -> Arc<Core> {
    let secret = [2; 32];
    let superblock = Superblock {
        suite: Suite::Clear,
        id: [1; 16],
        secret,
        block_shift: 12,
        // Parts of merges have two pages.
        segment_size: 1 << 15,
    };
    Arc::new(Core::new(Arc::new(folder.clone()), &superblock, &secret, 1 << 20))
}

/// Returns a key of one of six tables.
fn key(number: u64) -> Key {
    let tag = u8::try_from(1 + number % 6).expect("small");
    let number = number / 6;
    match tag {
        1 => Key::new(&[&[tag], &7_u32.to_be_bytes(), &number.to_be_bytes()]),
        4 => Key::new(&[&[tag], &[9; 20], &number.to_be_bytes(), &[1; 4]]),
        _ => Key::new(&[&[tag], &number.to_be_bytes()]),
    }
}

/// A tree and a map with the same contents.
struct Pair {
    core: Arc<Core>,
    tree: Tree,
    map: BTreeMap<Key, Vec<u8>>,
    numbers: SplitMix64,
    next_part: u64,
}

impl Pair {
    fn new(folder: &FaultyFolder, seed: u64) -> Pair {
        let core = core(folder);
        let tree = Tree::new(Arc::clone(&core), Vec::new());
        Pair { core, tree, map: BTreeMap::new(), numbers: SplitMix64::new(seed), next_part: 1 }
    }

    fn change(&mut self, key_count: usize) {
        let key = key(self.numbers.below(key_count) as u64);
        if self.numbers.below(3) == 0 {
            self.tree.delete(key);
            self.map.remove(&key);
        } else {
            let len = [0, 1, 8, 70, 254][self.numbers.below(5)];
            let value = SplitMix64::bytes(self.numbers.next(), len);
            self.tree.put(key, &value);
            self.map.insert(key, value);
        }
    }

    /// Makes changes in a transaction, and rolls it back.
    fn change_and_roll_back(&mut self, key_count: usize, count: usize) {
        let (map, bytes) = (self.map.clone(), self.tree.active_bytes());
        self.tree.begin();
        (0..count).for_each(|_| self.change(key_count));
        self.tree.roll_back();
        self.map = map;
        assert_eq!(self.tree.active_bytes(), bytes);
    }

    fn write_run(&mut self) {
        let is_oldest = self.tree.runs().is_empty();
        let changes = self.tree.freeze();
        self.next_part += 1;
        let run = write_run(&self.core, self.next_part, is_oldest, &changes).expect("written");
        self.tree.thaw(run);
    }

    /// Does a step of a merge, if one is due.
    fn merge(&mut self) -> bool {
        let Some(merge) = RunMerge::due(self.tree.runs(), self.map.len() as u64) else {
            return false;
        };
        self.next_part += 1;
        let step = merge.step(&self.core, self.next_part, &|| false).expect("merged");
        self.tree.apply(&merge, &step.expect("nobody has asked to stop"));
        assert!(are_consistent(self.tree.runs()));
        true
    }

    fn is_merging(&self) -> bool {
        self.tree.runs().iter().any(|run| run.is_merging())
    }

    /// Opens the runs again. Changes in memory must have been written.
    fn open_again(&mut self) {
        self.write_run();
        let runs = self.tree.runs().iter();
        let runs = runs.map(|run| Arc::new(Run::open(&self.core, &run.meta()).expect("opened")));
        self.tree = Tree::new(Arc::clone(&self.core), runs.collect());
    }

    fn compare(&self, key_count: usize) {
        for number in 0..key_count as u64 + 20 {
            let key = key(number);
            let found = self.tree.get(&key, <[u8]>::to_vec).expect("read");
            assert_eq!(found.as_ref(), self.map.get(&key), "{key:?}");
        }
        let ends = [Key::new(&[&[0]]), key(77), key(300), Key::new(&[&[255]])];
        for (from, to) in ends.iter().flat_map(|from| ends.iter().map(move |to| (*from, *to))) {
            let found = self.tree.range(from, to);
            let copied = |(key, value): Entry<'_>| (key, value.map(|value| value.to_vec()));
            let found: Vec<_> = found.map(|entry| copied(entry.expect("read"))).collect();
            let range = self.map.range(from..to.max(from));
            let expected: Vec<_> = range.map(|(key, value)| (*key, Some(value.clone()))).collect();
            assert_eq!(found, expected, "{from:?} to {to:?}");
            self.compare_some(key_count, [from, to]);
        }
    }

    /// Looks up some of the keys of a range at a time.
    fn compare_some(&self, key_count: usize, range: [Key; 2]) {
        let mut wanted: Vec<Key> = (0..key_count as u64 + 20).step_by(5).map(key).collect();
        wanted.retain(|key| *key >= range[0] && *key < range[1]);
        wanted.sort_unstable();
        let place = |key: &Key| wanted.binary_search(key).ok();
        let found = self.tree.get_range(range, wanted.len(), place, <[u8]>::to_vec).expect("read");
        let expected: Vec<_> = wanted.iter().map(|key| self.map.get(key).cloned()).collect();
        assert_eq!(found, expected, "{range:?}");
    }
}

#[test]
fn tree_agrees_with_a_map() {
    for seed in 0..12 {
        let key_count = [10, 600, 6000][usize::try_from(seed % 3).expect("small")];
        let mut pair = Pair::new(&FaultyFolder::default(), seed);
        let (mut merge_count, mut in_progress_count) = (0, 0);
        for round in 0..30 {
            (0..key_count / 3).for_each(|_| pair.change(key_count));
            pair.change_and_roll_back(key_count, round);
            if round % 4 != 3 {
                pair.write_run();
            }
            // Most merges are in progress for some rounds.
            for _ in 0..pair.numbers.below(5) {
                merge_count += u32::from(pair.merge());
            }
            in_progress_count += u32::from(pair.is_merging());
            if round % 5 == 0 {
                pair.open_again();
                pair.compare(key_count);
            }
        }
        pair.compare(key_count);
        assert!(merge_count > 3, "{merge_count} steps of merges");
        assert!(key_count < 6000 || in_progress_count > 5, "{in_progress_count} in progress");
        while pair.merge() {}
        assert!(!pair.is_merging());
        pair.compare(key_count);
    }
}

#[test]
fn changes_of_a_failed_checkpoint_are_written_by_the_next() {
    let mut pair = Pair::new(&FaultyFolder::default(), 5);
    (0..500).for_each(|_| pair.change(600));
    pair.tree.freeze();
    (0..500).for_each(|_| pair.change(600));
    pair.compare(600);
    pair.write_run();
    pair.compare(600);
}

#[test]
fn runs_are_opened_again() {
    let folder = FaultyFolder::default();
    let mut pair = Pair::new(&folder, 6);
    for _ in 0..3 {
        (0..3000).for_each(|_| pair.change(6000));
        pair.write_run();
    }
    pair.open_again();
    pair.compare(6000);
}

/// Returns a folder with one run, and a tree with it.
fn one_run(folder: &FaultyFolder) -> Pair {
    let mut pair = Pair::new(folder, 9);
    (0..20_000).for_each(|_| pair.change(6000));
    pair.write_run();
    assert!(pair.tree.runs()[0].parts()[0].pages().count > 30, "several groups");
    pair
}

#[test]
fn damaged_page_is_restored_and_found_by_a_check() {
    let original = FaultyFolder::default();
    let pair = one_run(&original);
    let meta = pair.tree.runs()[0].meta();
    let part = &meta.parts[0];
    let name = names::part(part.number);
    let size = usize::try_from(original.size(&name).expect("a size")).expect("small");
    for offset in (0..size).step_by(8192 / 3 + 1).chain([0, size - 1]) {
        let folder = original.after_power_cut(Survival::All);
        folder.flip(&name, offset, 3);
        let core = core(&folder);
        let run = Arc::new(Run::open(&core, &meta).expect("opened"));
        let tree = Tree::new(Arc::clone(&core), vec![run]);
        let restored =
            Pair { core, tree, map: pair.map.clone(), numbers: SplitMix64::new(0), next_part: 9 };
        restored.compare(600);
        let all = restored.tree.range(Key::new(&[&[0]]), Key::new(&[&[255]]));
        let all: Result<Vec<_>, _> = all.collect();
        assert_eq!(all.expect("read").len(), pair.map.len(), "byte {offset}");
        let pages = Pages::of(part);
        let damaged: Vec<_> =
            (0..pages.group_count()).flat_map(|it| pages.check_group(&restored.core, it)).collect();
        assert_eq!(damaged.len(), 1, "byte {offset}");
        assert!(damaged[0].1, "byte {offset} can be restored");
    }
}

#[test]
fn two_damaged_pages_of_a_group_are_an_error() {
    let folder = FaultyFolder::default();
    let pair = one_run(&folder);
    let meta = pair.tree.runs()[0].meta();
    for page in [0, 1] {
        folder.flip(&names::part(meta.parts[0].number), page * 8192 + 100, 0);
    }
    let core = core(&folder);
    let run = Arc::new(Run::open(&core, &meta).expect("fences and filter are whole"));
    let tree = Tree::new(core, vec![run]);
    let first = *pair.map.keys().next().expect("a key");
    assert_eq!(tree.get(&first, <[u8]>::to_vec).expect_err("damaged").kind(), crate::Kind::Corrupt);
    let all = tree.range(Key::new(&[&[0]]), Key::new(&[&[255]]));
    assert!(all.take(100_000).any(|entry| entry.is_err()), "no key is left out without an error");
}

#[test]
fn run_with_another_length_than_its_checkpoint_says_is_refused() {
    let folder = FaultyFolder::default();
    let pair = one_run(&folder);
    let meta = pair.tree.runs()[0].meta();
    let part = meta.parts[0].clone();
    let of = |part| RunMeta { parts: vec![part], ..meta.clone() };
    Run::open(&pair.core, &of(part.clone())).expect("opened");
    for wrong in [
        of(PartMeta { data_page_count: part.data_page_count + 1, ..part.clone() }),
        of(PartMeta { data_page_count: u64::MAX, ..part.clone() }),
        of(PartMeta { filter_len: u64::MAX, ..part.clone() }),
        of(PartMeta { filter_len: 0, ..part.clone() }),
        of(PartMeta { number: part.number + 1, ..part.clone() }),
        of(PartMeta { first: Vec::new(), ..part.clone() }),
        of(PartMeta { first: vec![1; 34], ..part.clone() }),
        RunMeta { parts: Vec::new(), ..meta.clone() },
        RunMeta { parts: vec![part.clone(), part.clone()], ..meta.clone() },
        RunMeta { from: vec![1; 34], ..meta.clone() },
    ] {
        assert!(Run::open(&pair.core, &wrong).is_err(), "{wrong:?}");
    }
}

#[test]
fn runs_of_a_merge_in_progress_are_neighbours_behind_its_result() {
    let mut pair = Pair::new(&FaultyFolder::default(), 3);
    for _ in 0..4 {
        (0..3000).for_each(|_| pair.change(6000));
        pair.write_run();
    }
    assert!(pair.merge() && pair.is_merging());
    let runs = pair.tree.runs();
    let of = |indexes: &[usize]| indexes.iter().map(|index| Arc::clone(&runs[*index])).collect();
    let are_consistent = |indexes: &[usize]| -> bool {
        let runs: Vec<_> = of(indexes);
        are_consistent(&runs)
    };
    assert!(are_consistent(&[0, 1, 2, 3, 4]));
    assert!(are_consistent(&[0, 1, 0]));
    assert!(are_consistent(&[0, 0]));
    assert!(!are_consistent(&[1, 2]), "no result");
    assert!(are_consistent(&[0, 1, 0, 2]), "another merge in progress");
    let from = runs[1].from().expect("merging");
    let later = Arc::new(runs[2].rest(*runs[0].parts()[0].first()));
    assert!(later.from() < Some(from));
    assert!(!super::are_consistent(&[Arc::clone(&runs[0]), Arc::clone(&runs[1]), later]));
}

#[test]
fn stopped_merge_leaves_no_file() {
    let folder = FaultyFolder::default();
    let mut pair = Pair::new(&folder, 1);
    for _ in 0..4 {
        (0..50).for_each(|_| pair.change(600));
        pair.write_run();
    }
    let names = folder.names().expect("names");
    let merge = RunMerge::due(pair.tree.runs(), 0).expect("four runs");
    let stopped = merge.step(&pair.core, 99, &|| true).expect("no error");
    assert!(stopped.is_none(), "it was stopped");
    assert_eq!(folder.names().expect("names"), names);
}

/// Writes runs of keys in all tables, none of which is deleted or written again.
fn write_runs(pair: &mut Pair, count: usize) {
    for _ in 0..count {
        for _ in 0..500 {
            let key = key(pair.map.len() as u64);
            pair.tree.put(key, &[7; 60]);
            pair.map.insert(key, vec![7; 60]);
        }
        pair.write_run();
    }
}

/// Returns the number of merges that are in progress.
fn merges_in_progress(pair: &Pair) -> usize {
    let runs = pair.tree.runs().windows(2);
    runs.filter(|runs| !runs[0].is_merging() && runs[1].is_merging()).count()
}

/// A merge of small runs has several parts as well, and is in progress while one of large runs is.
#[test]
fn merges_of_small_runs_go_before_those_in_progress() {
    let mut pair = Pair::new(&FaultyFolder::default(), 3);
    let mut counts = [0; 4];
    for round in 0..120 {
        let (new_count, step_count) = (pair.numbers.below(3), pair.numbers.below(20));
        write_runs(&mut pair, new_count);
        for _ in 0..step_count {
            pair.merge();
            counts[merges_in_progress(&pair)] += 1;
        }
        if round % 10 == 0 {
            pair.open_again();
            pair.compare(700);
        }
    }
    assert!(counts[1..].iter().all(|count| *count > 5), "{counts:?}");
    while pair.merge() {}
    pair.open_again();
    pair.compare(pair.map.len());
}
