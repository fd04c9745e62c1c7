//! Prunes of delta chunks and their references.

use std::sync::Arc;

use cutpoint_repository::crypto::HEADER_LEN;
use cutpoint_repository::gc::prune::{PruneOptions, PrunePlan, plan, prune};
use cutpoint_repository::{Class, Index, ObjectName, Repository, View};

use super::{ALL, data_names, prune_all};
use crate::support::backup::{back_up, open, restore_all};
use crate::support::pruning::{
    SkipCollector, assert_clean, back_up_knowing, delta_chunk_count, forget,
    memory_with_delta_chunks, size, start_similar, sweep_all,
};

/// The references of delta chunks stay with them, or the delta chunks are stored again as full
/// chunks, whichever takes less.
#[test]
fn delta_chunks_stay_with_their_references_or_become_full_chunks() {
    // With no rewriting allowed, the references stay where they are.
    let storage = start_similar();
    let repository = open(storage.clone(), 2).expect("it opens");
    let sparing = PruneOptions { rewrite_bytes_max: 0, ..ALL };
    let pruned = prune_all(&repository, &sparing).expect("it works");
    assert!(pruned.plan.pinned_count >= 9, "{pruned:?}");
    assert!((45_000..50_000).contains(&pruned.plan.pinned_bytes), "{pruned:?}");
    assert_eq!((pruned.plan.inlined_count, pruned.plan.rewritten_count), (0, 0), "{pruned:?}");
    sweep_all(&repository).expect("it works");
    assert!(delta_chunk_count(&repository) >= 9, "they stay");
    assert_eq!(restore_all(&repository).expect("it restores"), 1);
    assert_clean(&repository, "what delta chunks refer to");
    let before = size(&*storage);
    // The chunks of 5000 bytes in their region take less than the container that stays only for six
    // of them.
    let pruned = prune_all(&repository, &ALL).expect("it works");
    assert_eq!(pruned.plan.inlined_bytes, pruned.plan.inlined_count * 5000, "{pruned:?}");
    assert!(pruned.plan.inlined_count >= 6, "{pruned:?}");
    sweep_all(&repository).expect("it works");
    assert_eq!(restore_all(&repository).expect("it restores"), 1);
    assert_clean(&repository, "delta chunks that became full chunks");
    assert!(size(&*storage) < before, "it is less");
    let left = plan(&repository, &ALL, &()).expect("it works");
    assert_eq!(
        (left.inlined_count, left.condemned_count, left.rewritten_count),
        (0, 0, 0),
        "{left:?}"
    );
}

/// Regions of which most stays are copied in their compressed form, with their references.
#[test]
fn regions_with_delta_chunks_are_copied() {
    let storage = memory_with_delta_chunks();
    let repository = open(storage.clone(), 1).expect("it opens");
    back_up(&repository, &[3, 100], false).expect("it works");
    // Ten versions of one file in one container: small regions, mostly of delta chunks.
    let versions: Vec<u64> = (101..111).collect();
    back_up(&repository, &versions, false).expect("it works");
    back_up(&repository, &[100, 101, 102, 103, 104, 105, 106, 107, 108], false).expect("it works");
    let before = delta_chunk_count(&repository);
    assert!(before >= 30, "{before}");
    forget(&repository, &[1]).expect("it works");
    let pruned = prune_all(&repository, &ALL).expect("it works");
    assert!(pruned.plan.rewritten_count >= 1, "{pruned:?}");
    assert_eq!(pruned.plan.inlined_count, 0, "{pruned:?}");
    sweep_all(&repository).expect("it works");
    assert_eq!(delta_chunk_count(&repository), 24, "eight versions, three chunks each");
    assert_eq!(restore_all(&repository).expect("it restores"), 2);
    assert_clean(&repository, "copied delta chunks");
}

/// An unreached delta chunk lies in a container that stayed, and its references are gone. A later
/// writer stores the chunk again. The next prune must neither take the delta chunk for the chunk,
/// nor miss its references.
#[test]
fn delta_chunks_with_missing_references_do_no_harm() {
    // Which of two containers has the lesser name is random, and differs between the rounds.
    for process in 1..6 {
        let storage = memory_with_delta_chunks();
        let repository = open(storage.clone(), process).expect("it opens");
        back_up(&repository, &[100], false).expect("it works");
        back_up(&repository, &[3, 101], false).expect("it works");
        back_up(&repository, &[3], false).expect("it works");
        forget(&repository, &[0, 1]).expect("it works");
        let lazy = PruneOptions { unused_max: 1.0, rewrite_bytes_max: 0, ..ALL };
        prune_all(&repository, &lazy).expect("it works");
        let swept = sweep_all(&repository).expect("it works");
        assert!(swept.container_count > 0, "{swept:?}");
        assert_eq!(delta_chunk_count(&repository), 3, "they lie about");
        // Every chunk is another one; then delta chunks over these.
        for (files, delta_chunks) in [(&[150][..], 3), (&[101], 9), (&[101, 102], 15)] {
            back_up(&repository, files, false).expect("it works");
            assert_eq!(delta_chunk_count(&repository), delta_chunks, "{files:?}");
            prune_all(&repository, &lazy).expect("nothing is lost");
            sweep_all(&repository).expect("it works");
            restore_all(&repository).expect("it restores");
        }
        prune_all(&repository, &ALL).expect("it works");
        sweep_all(&repository).expect("it works");
        assert_eq!(restore_all(&repository).expect("it restores"), 4);
        assert_clean(&repository, "delta chunks that nothing reached");
    }
}

/// Two writers that do not know of each other store two chunks as each other's reference.
#[test]
fn delta_chunks_may_refer_to_each_others_chunks() {
    for forgotten in 0..15_u32 {
        for options in [
            ALL,
            PruneOptions { unused_max: 1.0, ..ALL },
            PruneOptions { rewrite_bytes_max: 0, ..ALL },
        ] {
            let storage = memory_with_delta_chunks();
            let repository = open(storage.clone(), 1).expect("it opens");
            let one = back_up_knowing(&repository, 100, &[]);
            let other = back_up_knowing(&repository, 101, &[]);
            back_up_knowing(&repository, 101, &[one]);
            back_up_knowing(&repository, 100, &[other]);
            assert_eq!(delta_chunk_count(&repository), 6, "three chunks each");
            let places: Vec<usize> = (0..4).filter(|bit| forgotten >> bit & 1 == 1).collect();
            let left = 4 - places.len();
            forget(&repository, &places).expect("it works");
            let when = format!("{forgotten:04b} of {options:?}");
            for _ in 0..2 {
                prune_all(&repository, &options).expect("it works");
                sweep_all(&repository).expect("it works");
                assert_eq!(restore_all(&repository).expect("it restores"), left, "{when}");
            }
            assert_clean(&repository, &when);
        }
    }
}

/// Damages the regions of these containers of data, but not their tables of contents.
fn damage_regions(repository: &Arc<Repository>, is_meant: impl Fn(&str) -> bool) {
    let view = View::list(repository).expect("it lists");
    let index = Index::open_without_cache(repository.clone(), &view).expect("it opens");
    let storage = repository.storage();
    for container in index.containers() {
        let name = ObjectName::Container(container.class, container.name).to_string();
        if container.class == Class::Meta || !is_meant(&name) {
            continue;
        }
        let mut bytes = storage.get(&name).expect("it is there").to_vec();
        for byte in bytes[HEADER_LEN..container.toc_offset as usize].iter_mut().step_by(50) {
            *byte ^= 1;
        }
        storage.delete(&name).expect("it goes");
        storage.put_new(&name, bytes.into()).expect("it comes back");
    }
}

/// Unreadable delta chunks cannot become full chunks: they stay, with their references.
#[test]
fn unreadable_delta_chunks_stay_as_they_are() {
    let storage = start_similar();
    let names = data_names(&*storage);
    let repository = open(storage.clone(), 2).expect("it opens");
    damage_regions(&repository, |_| true);
    let planned = plan(&repository, &ALL, &()).expect("it works");
    assert!(planned.inlined_count >= 6, "{planned:?}");
    let named = SkipCollector::default();
    let pruned = prune(&repository, &ALL, &named, |_| true).expect("it works").expect("it ran");
    assert_eq!(pruned.plan.inlined_count, 0, "{pruned:?}");
    assert!(pruned.plan.pinned_count >= 9, "{pruned:?}");
    assert!(!named.0.lock().expect("no panics").is_empty(), "it says so");
    sweep_all(&repository).expect("it works");
    assert!(delta_chunk_count(&repository) >= 9, "they stay");
    let left = data_names(&*storage);
    assert!(names.iter().filter(|name| left.contains(name)).count() >= 3, "{names:?}: {left:?}");
}

/// Rule C5: a delta chunk is copied only if it rebuilds to its fingerprint.
#[test]
fn delta_chunks_over_damaged_chunks_are_not_copied() {
    let storage = memory_with_delta_chunks();
    let repository = open(storage.clone(), 1).expect("it opens");
    back_up(&repository, &[3, 100], false).expect("it works");
    let base = data_names(&*storage);
    let versions: Vec<u64> = (101..111).collect();
    back_up(&repository, &versions, false).expect("it works");
    back_up(&repository, &[100, 101, 102, 103, 104, 105, 106, 107, 108], false).expect("it works");
    let names = data_names(&*storage);
    forget(&repository, &[1]).expect("it works");
    damage_regions(&repository, |name| base.iter().any(|each| each == name));
    let named = SkipCollector::default();
    let pruned = prune(&repository, &ALL, &named, |_| true).expect("it works").expect("it ran");
    assert!(pruned.plan.rewritten_count >= 1, "{pruned:?}");
    assert!(!named.0.lock().expect("no panics").is_empty(), "nothing was skipped");
    sweep_all(&repository).expect("it works");
    let left = data_names(&*storage);
    assert!(names.iter().all(|name| left.contains(name)), "{names:?}: {left:?}");
}

/// Delta chunks in regions of which little stays are stored again as full chunks, and the plan says
/// so.
#[test]
fn delta_chunks_of_regions_that_are_taken_apart_become_full_chunks() {
    let storage = memory_with_delta_chunks();
    let repository = open(storage.clone(), 1).expect("it opens");
    back_up(&repository, &[3, 100], false).expect("it works");
    let versions: Vec<u64> = (101..111).collect();
    back_up(&repository, &versions, false).expect("it works");
    back_up(&repository, &[100, 101], false).expect("it works");
    assert_eq!(delta_chunk_count(&repository), 30, "three of each");
    forget(&repository, &[1]).expect("it works");
    let pruned = prune_all(&repository, &ALL).expect("it works");
    let PrunePlan { inlined_count, inlined_bytes, .. } = pruned.plan;
    assert_eq!((inlined_count, inlined_bytes), (3, 15_000), "{pruned:?}");
    sweep_all(&repository).expect("it works");
    assert_eq!(delta_chunk_count(&repository), 0, "no other version stays");
    assert_eq!(restore_all(&repository).expect("it restores"), 2);
    assert_clean(&repository, "delta chunks that became full chunks");
}
