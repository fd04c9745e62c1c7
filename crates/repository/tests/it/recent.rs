//! Chunks that resemble earlier ones of the same run.

use std::sync::{Arc, mpsc};
use std::time::Duration;

use cutpoint_repository::format::commit::Outcome;
use cutpoint_repository::verify::check::{CheckOptions, Portion, check};
use cutpoint_repository::write::{Deduplicator, DeltaEncoder, Inline};
use cutpoint_repository::{
    Class, Index, InitOptions, Purpose, Reader, Repository, Snapshot, TicketId, Verify, View,
    Writer,
};
use cutpoint_storage::{Memory, ObjectKind, Storage};
use cutpoint_testing::SplitMix64;

use crate::support::backup::{init_of, open, options};

fn repository() -> (Arc<dyn Storage>, Arc<Repository>) {
    repository_of(&options(true, 0))
}

fn repository_of(options: &InitOptions) -> (Arc<dyn Storage>, Arc<Repository>) {
    let storage: Arc<dyn Storage> = Arc::new(Memory::new());
    init_of(storage.clone(), 0, options).expect("an empty memory takes a repository");
    let repository = open(storage.clone(), 1).expect("it opens");
    (storage, repository)
}

/// Incompressible chunks, and then the same chunks with other bytes in the middle.
fn chunks_and_versions(count: u64, len: usize) -> Vec<Vec<u8>> {
    let chunks: Vec<Vec<u8>> = (0..count).map(|seed| SplitMix64::bytes(seed, len)).collect();
    let mut versions = chunks.clone();
    versions.iter_mut().for_each(|chunk| chunk[1000..1040].fill(7));
    [chunks, versions].concat()
}

/// The settings of a run.
#[derive(Clone, Copy)]
struct Run {
    is_compared: bool,
    recent_bytes_max: usize,
    is_published: bool,
    is_committed: bool,
}

const RUN: Run = Run {
    is_compared: true,
    recent_bytes_max: usize::MAX,
    is_published: false,
    is_committed: true,
};

/// Stores chunks in one run. Returns the ticket of its writer, and which chunks were new.
fn store(repository: &Arc<Repository>, chunks: &[Vec<u8>], run: Run) -> (TicketId, Vec<bool>) {
    let writer = Writer::begin(repository.clone(), Purpose::Backup).expect("it begins");
    let (view, ticket) = (writer.view().clone(), writer.ticket());
    let mut inline = Inline::new(writer, Verify::All).expect("it opens");
    let index = inline.index().clone();
    let reader = Reader::new(repository.clone(), Arc::new(index.fork()), view);
    let mut encoder = DeltaEncoder::new(&reader, &index, ticket);
    if run.is_compared {
        encoder = encoder.with_recent().with_recent_bytes_max(run.recent_bytes_max);
    }
    let mut is_new = Vec::new();
    for chunk in chunks {
        is_new.push(inline.store_similar(chunk, &mut encoder).expect("it is stored").1);
        if run.is_published {
            inline.publish().expect("memory takes it");
        }
    }
    if run.is_committed {
        inline.commit(Outcome::Snapshot(Box::new(Snapshot::empty()))).expect("it ends");
    }
    (ticket, is_new)
}

fn stored_len(storage: &dyn Storage) -> u64 {
    let listed = storage.list(ObjectKind::Data.folder()).expect("memory lists");
    listed.iter().map(|(_, len)| len).sum()
}

/// Reads all chunks, and checks the repository.
fn read_back(repository: &Arc<Repository>, chunks: &[Vec<u8>]) {
    let view = View::list(repository).expect("it lists");
    let reader = Reader::open(repository.clone(), view).expect("it opens");
    for chunk in chunks {
        let fingerprint = repository.keys().fingerprint(Class::Data, chunk);
        let read = reader.chunk(Class::Data, &fingerprint).expect("it is there");
        assert_eq!(*read, **chunk, "it comes back");
    }
    let options = CheckOptions { read_data: Some(Portion::All), ..CheckOptions::default() };
    let report = check(repository, &options, &()).expect("it is checked");
    assert_eq!(report.error_count, 0, "{report:?}");
}

/// The second half of the chunks resembles the first one, in the same order. Of less memory, only
/// the regions that are not counted yet are left.
#[test]
fn versions_in_one_run_are_compared_within_the_limit() {
    let chunks = chunks_and_versions(400, 4000);
    let runs = [RUN, Run { recent_bytes_max: 0, ..RUN }, Run { is_compared: false, ..RUN }];
    let lens = runs.map(|run| {
        let (storage, repository) = repository();
        let (_, is_new) = store(&repository, &chunks, run);
        assert!(is_new.iter().all(|is_new| *is_new), "each is new");
        read_back(&repository, &chunks);
        stored_len(&*storage)
    });
    println!("{lens:?} bytes with all, with the last regions, without");
    let [all, last, none] = lens;
    assert!(none > 3_200_000 && all < none * 6 / 10, "{lens:?}");
    assert_eq!(last, none, "400 chunks are more than the last regions");
}

/// Of regions that do not shrink, the last 4 MiB are kept.
#[test]
fn incompressible_chunks_far_back_are_not_compared() {
    let shares = [90, 150].map(|count| {
        let chunks = chunks_and_versions(count, 40_000);
        // Regions are sampled that are large enough.
        let region_size = InitOptions::default().region_size;
        let (storage, repository) = repository_of(&InitOptions { region_size, ..options(true, 0) });
        store(&repository, &chunks, RUN);
        read_back(&repository, &chunks);
        stored_len(&*storage) as f64 / (count * 40_000) as f64
    });
    println!("{shares:?} of the first half");
    assert!(shares[0] < 1.1, "3.6 MB before: {shares:?}");
    assert!(shares[1] > 1.9, "6 MB before: {shares:?}");
}

/// Delta chunks of an interrupted writer count for the next writer if the chunks of the same run
/// that they refer to are there, and are stored again if not.
#[test]
fn delta_chunks_of_an_interrupted_run_count_with_their_references() {
    for is_lost in [false, true] {
        let (storage, first) = repository();
        // Each closes its region before it is published.
        let chunks = chunks_and_versions(8, 40_000);
        let run = Run { is_published: true, is_committed: false, ..RUN };
        let (ticket, _) = store(&first, &chunks, run);
        let (exact_storage, exact) = repository();
        store(&exact, &chunks, Run { is_compared: false, ..run });
        let lens = [&storage, &exact_storage].map(|storage| stored_len(&**storage));
        assert!(lens[0] < lens[1], "delta chunks: {lens:?}");
        if is_lost {
            // The first containers, which have the chunks without changes.
            let containers = storage.list(ObjectKind::Data.folder()).expect("memory lists");
            let mut containers: Vec<String> =
                containers.into_iter().map(|(path, _)| path).collect();
            // The ticket and the number, without the folder.
            containers.sort_by_key(|path| path.rsplit('/').next().map(str::to_owned));
            assert!(containers.iter().all(|path| path.contains(&ticket.to_string()[..8])));
            for container in &containers[..8] {
                storage.delete(container).expect("memory deletes");
            }
        }
        let next = open(storage.clone(), 2).expect("it opens");
        let (_, is_new) = store(&next, &chunks, RUN);
        assert_eq!(is_new, vec![is_lost; chunks.len()], "lost: {is_lost}");
        if !is_lost {
            read_back(&next, &chunks);
        }
    }
}

/// Many regions are full before the first of them is handed over to be encoded. A comparison does
/// not wait for one of them.
#[test]
fn regions_that_nobody_encodes_are_not_waited_for() {
    let (done, ended) = mpsc::channel();
    std::thread::spawn(move || {
        let (_, repository) = repository();
        let view = View::list(&repository).expect("it lists");
        let index = Arc::new(Index::open(repository.clone(), &view).expect("it opens"));
        let reader = Reader::new(repository.clone(), Arc::new(index.fork()), view);
        let mut encoder = DeltaEncoder::new(&reader, &index, TicketId([1; 12])).with_recent();
        let keys = repository.keys().clone();
        let region_size = repository.config().region_size;
        let mut dedup = Deduplicator::new(keys.clone(), index.clone(), region_size, Verify::Some)
            .expect("there is memory");
        // Each closes its region.
        let chunks: Vec<Vec<u8>> = (0..50).map(|seed| SplitMix64::bytes(seed, 40_000)).collect();
        for (number, chunk) in chunks.iter().enumerate() {
            let fingerprint = keys.fingerprint(Class::Data, chunk);
            let stored = match number {
                49 => dedup.store_similar(fingerprint, chunk, &mut encoder),
                _ => dedup.store(Class::Data, fingerprint, chunk),
            };
            assert!(stored.expect("it is stored"), "each is new");
        }
        done.send(dedup.take_regions().len()).ok();
    });
    assert_eq!(ended.recv_timeout(Duration::from_secs(60)), Ok(50), "the call returns");
}
