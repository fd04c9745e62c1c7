//! The selection of the containers that a prune deletes or rewrites, and the counts of its plan.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cutpoint_repository::gc::prune::{PruneOptions, PrunePlan, plan};
use cutpoint_repository::write::Inline;
use cutpoint_repository::{Purpose, Verify, View, Writer};
use cutpoint_storage::{ObjectKind, Storage};

use super::{ALL, prune_all};
use crate::support::backup::{back_up, open};
use crate::support::pruning::{forget, memory, size, sweep_all};

/// The length of a container of one file.
const SMALL: u64 = 36 * 1024;
/// The length of a container of trees and recipes.
const META: u64 = 8 * 1024;

/// Returns all containers with their sizes.
pub(super) fn listed(storage: &dyn Storage) -> BTreeMap<String, u64> {
    let kinds = [ObjectKind::Data, ObjectKind::Meta].map(ObjectKind::folder);
    kinds.iter().flat_map(|kind| storage.list(kind).expect("it lists")).collect()
}

/// Returns the lengths of the containers of trees and recipes.
fn meta_lens(storage: &dyn Storage) -> Vec<u64> {
    let listed = listed(storage).into_iter().filter(|(name, _)| name.starts_with("meta/"));
    listed.map(|(_, len)| len).collect()
}

/// Backs up files, one snapshot after another. Returns the data container of each snapshot that has
/// one.
fn back_up_each(storage: &Arc<dyn Storage>, process: u32, backups: &[&[u64]]) -> Vec<u64> {
    let repository = open(storage.clone(), process).expect("it opens");
    let mut sizes = Vec::new();
    for files in backups {
        let before = listed(&**storage);
        back_up(&repository, files, false).expect("it works");
        let new = listed(&**storage).into_iter().filter(|(name, _)| !before.contains_key(name));
        sizes.extend(new.filter(|(name, _)| name.starts_with("data/")).map(|(_, size)| size));
    }
    sizes
}

/// The freed bytes are those of deleted containers less those stored again.
#[test]
fn freed_bytes_exclude_bytes_stored_again() {
    let plan = PrunePlan {
        condemned_bytes: 1000,
        rewritten_bytes: 500,
        moved_bytes: 100,
        inlined_bytes: 20,
        ..PrunePlan::default()
    };
    assert_eq!(plan.freed_bytes(), 1380);
}

/// The sizes in a plan are those of the containers, and of what becomes of them.
#[test]
fn plan_counts_containers_and_bytes() {
    let storage = memory();
    let data = back_up_each(&storage, 1, &[&[1], &[2, 3, 4], &[4]]);
    let [dead, partly] = data[..] else { panic!("the third has no new data: {data:?}") };
    let repository = open(storage.clone(), 2).expect("it opens");
    forget(&repository, &[0, 1]).expect("it works");
    let lazy = PruneOptions { unused_max: 1.0, ..ALL };
    let left = plan(&repository, &lazy, &()).expect("it works");
    let there = listed(&*storage);
    assert_eq!(left.container_count, there.len() as u64, "{left:?}");
    assert_eq!(left.container_bytes, size(&*storage), "{left:?}");
    assert_eq!(left.condemned_bytes, dead + META, "{left:?}");
    // Two of three files, with their trees and recipes.
    assert!((60_000..63_000).contains(&left.unused_bytes), "{left:?}");
    assert_eq!((left.rewritten_bytes, left.moved_bytes), (0, 0), "{left:?}");
    let planned = plan(&repository, &ALL, &()).expect("it works");
    assert_eq!(planned.rewritten_bytes, partly + META, "{planned:?}");
    assert_eq!(planned.moved_bytes, partly + META - left.unused_bytes, "{planned:?}");
    assert_eq!(planned.unused_bytes, 0, "{planned:?}");
    let segments = storage.list(ObjectKind::Segment.folder()).expect("it lists").into_iter();
    let segments: BTreeSet<String> = segments.map(|(name, _)| name).collect();
    let pruned = prune_all(&repository, &ALL).expect("it works");
    assert_eq!(pruned.plan, planned);
    let record = View::list(&repository).expect("it lists").prunes[&1].clone();
    // Two snapshots, and the commit that forgot them.
    assert_eq!((record.marked.len(), record.taken.len()), (1, 3), "{record:?}");
    let swept = sweep_all(&repository).expect("it works");
    let new = storage.list(ObjectKind::Segment.folder()).expect("it lists").into_iter();
    let segment: u64 = new.filter(|(name, _)| !segments.contains(name)).map(|(_, len)| len).sum();
    let gone = planned.condemned_bytes + planned.rewritten_bytes;
    assert_eq!((swept.container_count, swept.container_bytes), (4, gone), "{swept:?}");
    assert_eq!(pruned.written_bytes, SMALL + META + segment, "{pruned:?}");
    assert_eq!(size(&*storage), left.container_bytes - gone + SMALL + META, "{swept:?}");
}

/// Published containers that nothing needs are deleted, although nothing was forgotten.
#[test]
fn containers_published_by_a_voided_run_are_removed() {
    let storage = memory();
    let repository = open(storage.clone(), 1).expect("it opens");
    back_up(&repository, &[1], false).expect("it works");
    let before = size(&*storage);
    let writer = Writer::begin(repository.clone(), Purpose::Backup).expect("it begins");
    let mut inline = Inline::new(writer, Verify::All).expect("it begins");
    inline.store_data(&[7; 5000]).expect("it stores");
    inline.publish().expect("it publishes");
    drop(inline);
    // The next process ends the writer, and so publishes what it has put.
    let repository = open(storage.clone(), 2).expect("it opens");
    let pruned = prune_all(&repository, &ALL).expect("it works");
    let PrunePlan { condemned_count, rewritten_count, orphan_count, forgotten_count, .. } =
        pruned.plan;
    assert_eq!((condemned_count, rewritten_count, orphan_count, forgotten_count), (1, 0, 0, 0));
    assert_eq!(pruned.number, Some(1), "it is recorded");
    sweep_all(&repository).expect("it works");
    assert_eq!(size(&*storage), before, "it is gone");
}

/// Among partially used containers, those with the greatest unused share are rewritten first,
/// whatever their sizes.
#[test]
fn greatest_unused_share_is_rewritten_first() {
    for process in 1..5 {
        let storage = memory();
        let files = [&[1, 2, 3, 4, 5, 6][..], &[7, 8, 9], &[1, 2, 3, 4, 9]];
        let data = back_up_each(&storage, process, &files);
        let [large, small] = data[..] else { panic!("the third has no new data: {data:?}") };
        let repository = open(storage.clone(), process + 1).expect("it opens");
        forget(&repository, &[0, 1]).expect("it works");
        // A third of the large container and two thirds of the other are unused, the same number of
        // bytes. Either the large one fits, or the other and both of trees.
        let options = PruneOptions { rewrite_bytes_max: large, ..ALL };
        let planned = plan(&repository, &options, &()).expect("it works");
        assert!(small + 2 * META <= large, "{data:?}");
        assert_eq!(planned.rewritten_count, 3, "{data:?}: {planned:?}");
    }
}

/// The maximum unused share is a share of what stays.
#[test]
fn condemned_containers_do_not_count_for_the_unused_share() {
    let storage = memory();
    let dead: Vec<u64> = (10..20).collect();
    let files = [&dead[..], &[1, 2, 3, 4, 5, 6], &[1, 2, 3, 4, 5]];
    let data = back_up_each(&storage, 1, &files);
    let repository = open(storage.clone(), 2).expect("it opens");
    forget(&repository, &[0, 1]).expect("it works");
    let options = PruneOptions { unused_max: 0.05, ..ALL };
    let planned = plan(&repository, &options, &()).expect("it works");
    assert!(planned.rewritten_bytes >= data[1], "about a tenth is unused: {planned:?}");
}

/// Each rewritten container reduces what stays, and with it what may be unused.
#[test]
fn rewritten_containers_do_not_count_for_the_unused_share() {
    let storage = memory();
    let large: Vec<u64> = (1..11).collect();
    let data = back_up_each(&storage, 1, &[&large, &[11, 12, 13, 14], &[1, 11, 12]]);
    let repository = open(storage.clone(), 2).expect("it opens");
    forget(&repository, &[0, 1]).expect("it works");
    let options = PruneOptions { unused_max: 0.1, ..ALL };
    let planned = plan(&repository, &options, &()).expect("it works");
    assert_eq!(planned.rewritten_bytes, data[0] + data[1], "half of the second: {planned:?}");
}

/// A fully used container is not rewritten because another one does not fit.
#[test]
fn fully_used_container_stays() {
    let storage = memory();
    let files = [&[1, 2, 3, 4, 5, 6][..], &[7, 8], &[9], &[1, 2, 3]];
    back_up_each(&storage, 1, &files);
    let repository = open(storage.clone(), 2).expect("it opens");
    forget(&repository, &[0]).expect("it works");
    let options = PruneOptions { rewrite_bytes_max: 5 * SMALL, ..ALL };
    let planned = plan(&repository, &options, &()).expect("it works");
    assert_eq!(planned.rewritten_bytes, META, "the recipes of what is gone: {planned:?}");
    assert!(planned.unused_bytes >= 90_000, "{planned:?}");
}

/// Small containers are merged if there are many of one class. A container of an eighth of the
/// target size is not small.
#[test]
fn small_containers_are_below_an_eighth_and_count_by_class() {
    let storage = memory();
    let (one, other): (Vec<u64>, Vec<u64>) = ((1..19).collect(), (19..37).collect());
    let half: Vec<u64> = (1..10).collect();
    let data = back_up_each(&storage, 1, &[&one, &other, &half]);
    assert!(data.iter().all(|size| *size > 512 * 1024), "{data:?}");
    let meta: u64 = meta_lens(&*storage).iter().sum();
    let repository = open(storage.clone(), 2).expect("it opens");
    let merging = PruneOptions { small_count_max: 2, ..ALL };
    let planned = plan(&repository, &merging, &()).expect("it works");
    assert_eq!(planned.rewritten_count, 3, "of trees and recipes: {planned:?}");
    assert_eq!(planned.rewritten_bytes, meta, "{planned:?}");
    // Large ones are still rewritten if they are used in part.
    forget(&repository, &[0]).expect("it works");
    let planned = plan(&repository, &ALL, &()).expect("it works");
    assert_eq!(planned.rewritten_bytes, data[0] + 2 * META, "{planned:?}");
    // One small container of data, six of trees.
    let storage = memory();
    let data = back_up_each(&storage, 1, &[&[1, 2, 3, 4, 5], &[1], &[2], &[3], &[4], &[5]]);
    assert_eq!(data.len(), 1, "the rest is known");
    let repository = open(storage.clone(), 2).expect("it opens");
    let merging = PruneOptions { small_count_max: 6, ..ALL };
    let planned = plan(&repository, &merging, &()).expect("it works");
    let meta = meta_lens(&*storage);
    assert_eq!((planned.rewritten_count, planned.rewritten_bytes), (6, meta.iter().sum()));
    assert_eq!(meta.len(), 6);
    // As many segments as containers of trees.
    for (segment_count_max, merged) in [(6, 6), (7, 0)] {
        let options = PruneOptions { segment_count_max, ..ALL };
        let planned = plan(&repository, &options, &()).expect("it works");
        assert_eq!(planned.merged_segment_count, merged, "from {segment_count_max} on");
    }
}
