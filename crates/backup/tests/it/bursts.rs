//! Backups that compare chunks by BURST: files are restored exactly, and stored bytes do not depend
//! on the number of threads.

use std::fs;
use std::sync::Arc;

use cutpoint_backup::save::backup;
use cutpoint_repository::Repository;
use cutpoint_repository::gc::prune::{PruneOptions, prune};
use cutpoint_repository::verify::check::{CheckOptions, Portion, check};
use cutpoint_storage::{Memory, Storage};
use cutpoint_testing::SplitMix64;

use crate::backup_options::{files, options};
use crate::folder_comparison::restore_and_compare;
use crate::seeded_repository::{SeededEnvironment, contents, init, unlock};

fn repository(storage: &Arc<dyn Storage>, delta: &str) -> Arc<Repository> {
    let environment = SeededEnvironment::new(1);
    init(storage, &environment);
    let mut repository =
        Repository::open(storage.clone(), environment, &unlock()).expect("it opens");
    let mut config = repository.config().clone();
    config.set_burst(Some(delta.parse().expect("options")));
    repository.set_config(config).expect("memory takes it");
    Arc::new(repository)
}

#[test]
fn versions_are_restored_for_any_number_of_threads() {
    let mut first = None;
    for threads in [1, 2, 7] {
        let root = tempfile::tempdir().expect("a folder");
        let storage: Arc<dyn Storage> = Arc::new(Memory::new());
        let repository = repository(&storage, "burst:tau=256,c_max=2");
        let mut random = SplitMix64::new(3);
        let mut rows = random.take(800_000);
        let mut hits = Vec::new();
        for day in 0..5_u8 {
            // The same position in each 20,000 bytes changes, so `c_max` is reached on the third
            // day if chunks stay the same.
            rows.chunks_mut(20_000).for_each(|row| row[11_000..11_010].fill(day));
            fs::write(root.path().join("rows"), &rows).expect("a file");
            fs::write(root.path().join("small"), [b"a file of its own ", &[day; 600][..]].concat())
                .expect("a file");
            let report = backup(&repository, files(root.path()), &options(threads), &());
            let report = report.expect("it is saved");
            let bursts = report.bursts.expect("BURST is how chunks are compared");
            let burst_count = bursts.head.hit_count + bursts.tail.hit_count;
            assert_eq!(report.statistics.delta_chunk_count, burst_count, "day {day}");
            assert_eq!(bursts.missing_count, 0, "day {day}");
            hits.push((burst_count, bursts.head.exhausted_count));
            restore_and_compare(&repository, root.path());
        }
        assert!(hits[0].0 == 0 && hits[1].0 > 25 && hits[2].0 > 25, "{hits:?}");
        assert!(hits[..3].iter().all(|hits| hits.1 == 0) && hits[3].1 > 25, "{hits:?}");
        let mut stored = contents(&*storage);
        stored.retain(|name, _| name.starts_with("data/"));
        prune(&repository, &PruneOptions::default(), &(), |_| true).expect("it works");
        let options = CheckOptions { read_data: Some(Portion::All), ..CheckOptions::default() };
        let report = check(&repository, &options, &()).expect("it is checked");
        assert_eq!((report.error_count, report.note_count), (0, 0), "{report:?}");
        match &first {
            None => first = Some(stored),
            Some(first) => assert!(*first == stored && stored.len() > 4, "{threads} threads"),
        }
    }
}
