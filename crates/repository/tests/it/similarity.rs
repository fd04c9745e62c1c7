//! The choice among several records of a chunk: the stored bytes depend neither on earlier lookups
//! nor on the time at which the writer's own containers are named. Also the search by heads and
//! tails, without a previous version.

use std::sync::Arc;

use crate::support::backup::{init_with, open};
use cutpoint_repository::format::commit::Outcome;
use cutpoint_repository::format::edges::{ContainerEdges, SimilarityObject};
use cutpoint_repository::format::recipe::Segment;
use cutpoint_repository::gc::prune::{PruneOptions, prune};
use cutpoint_repository::gc::sweep::{AtOnce, SweepOptions, Sweeper};
use cutpoint_repository::index::load_toc;
use cutpoint_repository::snapshots::forget;
use cutpoint_repository::write::{DeltaEncoder, Inline};
use cutpoint_repository::{
    Class, Content, Fingerprint, Index, ObjectName, PartName, Purpose, Reader, Repository, Scope,
    Snapshot, Verify, View, Writer,
};
use cutpoint_storage::{Error, Memory, ObjectKind, Storage};
use cutpoint_testing::SplitMix64;

fn old() -> Vec<u8> {
    SplitMix64::bytes(1, 5000)
}

/// A chunk that resembles the old one.
fn new() -> Vec<u8> {
    let mut new = old();
    new[2000] ^= 1;
    new
}

fn fingerprint(repository: &Repository, chunk: &[u8]) -> Fingerprint {
    repository.keys().fingerprint(Class::Data, chunk)
}

/// Stores chunks, compared with `previous`, publishes after each if `publish` is set, and commits.
/// Returns which of them were new.
fn store(
    repository: &Arc<Repository>,
    chunks: &[Vec<u8>],
    previous: Option<&[u8]>,
    publish: bool,
) -> Vec<bool> {
    let writer = Writer::begin(repository.clone(), Purpose::Backup).expect("it begins");
    let (view, ticket) = (writer.view().clone(), writer.ticket());
    let mut inline = Inline::new(writer, Verify::All).expect("it opens");
    let index = inline.index().clone();
    let reader = Reader::new(repository.clone(), Arc::new(index.fork()), view);
    let mut encoder = DeltaEncoder::new(&reader, &index, ticket);
    let content = previous.map(|previous| {
        let (fingerprint, length) = (fingerprint(repository, previous), previous.len() as u64);
        Content::Segments(vec![Segment::Chunk { fingerprint, offset: 0, length }])
    });
    encoder.begin(content.as_ref());
    let mut is_new = Vec::new();
    for chunk in chunks {
        is_new.push(inline.store_similar(chunk, &mut encoder).expect("it is stored").1);
        if publish {
            inline.publish().expect("memory takes it");
        }
    }
    inline.commit(Outcome::Snapshot(Box::new(Snapshot::empty()))).expect("it ends");
    is_new
}

/// Stores a chunk as a full chunk, even if it is known.
fn store_full_chunk(repository: &Arc<Repository>, chunk: &[u8]) {
    let writer = Writer::begin(repository.clone(), Purpose::Backup).expect("it begins");
    let mut inline = Inline::restart(writer).expect("it opens");
    inline.store_data(chunk).expect("it is stored");
    inline.commit(Outcome::Snapshot(Box::new(Snapshot::empty()))).expect("it ends");
}

/// Creates a repository with the old chunk and the new one, a delta chunk. Returns the name of the
/// container with the old chunk as well.
fn build(seed: u32) -> (Arc<dyn Storage>, Arc<Repository>, String) {
    let storage: Arc<dyn Storage> = Arc::new(Memory::new());
    init_with(storage.clone(), 0, true, 0).expect("an empty memory takes a repository");
    let repository = open(storage.clone(), seed).expect("it opens");
    store(&repository, &[old()], None, false);
    let containers = storage.list(ObjectKind::Data.folder()).expect("memory lists");
    let [(container, _)] = &containers[..] else { panic!("one container: {containers:?}") };
    store(&repository, &[new()], Some(&old()), false);
    (storage, repository, container.clone())
}

fn open_index(repository: &Arc<Repository>) -> Index {
    let view = View::list(repository).expect("it lists");
    Index::open(repository.clone(), &view).expect("it opens")
}

/// Returns the containers that have the new chunk.
fn places(repository: &Arc<Repository>) -> Vec<PartName> {
    let places =
        open_index(repository).hinted_containers(Class::Data, &fingerprint(repository, &new()));
    places.expect("it finds")
}

/// A delta chunk without its full chunk does not hide a record that counts, in whatever order they
/// are found.
#[test]
fn record_that_does_not_count_hides_no_other() {
    let mut is_first = [0; 2];
    for seed in 1..7 {
        let (storage, repository, container) = build(seed);
        let delta_chunk = places(&repository);
        storage.delete(&container).expect("memory deletes");
        let again = store(&repository, &[new(), old()], None, false);
        assert_eq!(again, [true, true], "neither can be had");
        let (storage, repository, container) = build(seed);
        storage.delete(&container).expect("memory deletes");
        store_full_chunk(&repository, &new());
        is_first[usize::from(places(&repository)[0] == delta_chunk[0])] += 1;
        let again = store(&repository, &[new(), old()], None, false);
        assert_eq!(again, [false, true], "a full chunk of the new one is there");
    }
    assert!(is_first.iter().all(|count| *count > 0), "either comes first: {is_first:?}");
}

/// Each version changes another piece. What is left of 60 versions is assembled from 20 full chunks
/// and new bytes: the rest is stored again.
#[test]
fn chunk_changed_by_many_versions_needs_few_regions() {
    const PIECE_LEN: usize = 100;
    let storage: Arc<dyn Storage> = Arc::new(Memory::new());
    init_with(storage.clone(), 0, true, 0).expect("an empty memory takes a repository");
    let repository = open(storage, 1).expect("it opens");
    let mut chunk = SplitMix64::bytes(0, 64 * PIECE_LEN);
    store(&repository, std::slice::from_ref(&chunk), None, false);
    let mut counts = Vec::new();
    for version in 1..60 {
        let previous = chunk.clone();
        let piece = version * 7 % 64 * PIECE_LEN;
        let new = SplitMix64::bytes(version as u64, PIECE_LEN);
        chunk[piece..piece + PIECE_LEN].copy_from_slice(&new);
        store(&repository, std::slice::from_ref(&chunk), Some(&previous), false);
        let view = View::list(&repository).expect("it lists");
        let index = Index::open_to_read(repository.clone(), &view).expect("it opens");
        let reader = Reader::new(repository.clone(), Arc::new(index), view);
        let found = reader.chunk(Class::Data, &fingerprint(&repository, &chunk));
        assert_eq!(*found.expect("it is there"), chunk, "version {version}");
        counts.push(reader.statistics().region_count);
    }
    assert_eq!(counts[..20], (2..22).collect::<Vec<u64>>(), "another each time");
    let most = counts.iter().max();
    assert_eq!(most, Some(&21), "its own and one for each full chunk: {counts:?}");
}

/// A full chunk is preferred to a delta chunk, even if the table of contents of the delta chunk was
/// read last.
#[test]
fn chosen_record_is_independent_of_earlier_lookups() {
    for seed in 1..5 {
        let (_, repository, _) = build(seed);
        store_full_chunk(&repository, &new());
        let chunk = fingerprint(&repository, &new());
        let index = open_index(&repository);
        let find = |accepts: &dyn Fn(bool) -> bool| {
            let found = index.find_where(Class::Data, &chunk, Scope::Write, |location| {
                Ok(accepts(location.is_full()))
            });
            found.expect("it finds").expect("it is there")
        };
        let mut offered = Vec::new();
        let all = index.find_where(Class::Data, &chunk, Scope::Write, |location| {
            // Would deadlock under a lock.
            assert!(index.find(Class::Data, &chunk, Scope::Write).expect("it finds").is_some());
            offered.push(location.is_full());
            Ok(false)
        });
        assert!(all.expect("it finds").is_none(), "nothing was accepted");
        assert_eq!(offered, [true, false], "each once");
        for _ in 0..2 {
            assert!(!find(&|is_full| !is_full).is_full(), "the delta chunk is there");
            assert!(find(&|_| true).is_full(), "a full chunk comes first");
        }
        let index = open_index(&repository);
        let literal = index.containers().into_iter().find(|record| record.has_delta_chunks);
        let delta_chunk = literal.expect("one has the delta chunk").name;
        // Reads only the table of contents of the container.
        let found = index.find_where(Class::Data, &chunk, Scope::Read, |location| {
            Ok(location.container.name == delta_chunk)
        });
        assert!(!found.expect("it finds").expect("it is there").is_full());
        let found = index.find(Class::Data, &chunk, Scope::Write).expect("it finds");
        assert!(found.expect("it is there").is_full(), "a full chunk comes first");
    }
}

/// A delta chunk of another writer counts or not, independently of the time at which this writer's
/// chunks become readable.
#[test]
fn own_chunks_do_not_make_delta_chunks_of_others_count() {
    for publish in [false, true] {
        let (storage, repository, container) = build(1);
        storage.delete(&container).expect("memory deletes");
        let is_new = store(&repository, &[old(), new(), new()], None, publish);
        assert_eq!(is_new, [true, true, false], "published: {publish}");
        let is_new = store(&repository, &[old(), new()], None, publish);
        assert_eq!(is_new, [false, false], "afterwards both are there");
        // The writer's own delta chunks count before and after they are published.
        let (_, repository, _) = build(2);
        let mut newer = new();
        newer[3000] ^= 1;
        let is_new = store(&repository, &[newer.clone(), newer], Some(&new()), publish);
        assert_eq!(is_new, [true, false], "published: {publish}");
    }
}

/// Files with a given number of chunks each.
fn files(count: u64, chunk_count: u64) -> Vec<Vec<Vec<u8>>> {
    let file =
        |file| (0..chunk_count).map(|at| SplitMix64::bytes(file * 100 + at + 1, 4000)).collect();
    (0..count).map(file).collect()
}

/// The same files, each chunk with other bytes in the middle.
fn changed(mut files: Vec<Vec<Vec<u8>>>) -> Vec<Vec<Vec<u8>>> {
    files.iter_mut().flatten().for_each(|chunk| chunk[1000..1040].fill(7));
    files
}

/// A repository with `files`, and hints for them.
fn repository_of(files: &[Vec<Vec<u8>>]) -> (Arc<dyn Storage>, Arc<Repository>) {
    let storage: Arc<dyn Storage> = Arc::new(Memory::new());
    init_with(storage.clone(), 0, true, 0).expect("an empty memory takes a repository");
    let repository = open(storage.clone(), 1).expect("it opens");
    store(&repository, &files.concat(), None, false);
    assert_eq!(hints(&*storage).len(), 1, "hints of them");
    (storage, repository)
}

fn hints(storage: &dyn Storage) -> Vec<String> {
    let listed = storage.list(ObjectKind::Similarity.folder()).expect("memory lists");
    listed.into_iter().map(|(path, _)| path).collect()
}

/// Stores files without a previous version, with at most `ends_max` remembered heads and tails.
/// Returns the size of the regions of file data.
fn store_files(repository: &Arc<Repository>, files: &[Vec<Vec<u8>>], ends_max: usize) -> usize {
    let writer = Writer::begin(repository.clone(), Purpose::Backup).expect("it begins");
    let (view, ticket) = (writer.view().clone(), writer.ticket());
    let mut inline = Inline::new(writer, Verify::All).expect("it opens");
    let index = inline.index().clone();
    let reader = Reader::new(repository.clone(), Arc::new(index.fork()), view);
    let mut encoder = DeltaEncoder::new(&reader, &index, ticket).with_edges_max(ends_max);
    for file in files {
        encoder.begin(None);
        for chunk in file {
            inline.store_similar(chunk, &mut encoder).expect("it is stored");
        }
    }
    inline.commit(Outcome::Snapshot(Box::new(Snapshot::empty()))).expect("it ends");
    let view = View::list(repository).expect("it lists");
    let reader = Reader::open(repository.clone(), view).expect("it opens");
    for chunk in files.iter().flatten() {
        let read = reader.chunk(Class::Data, &fingerprint(repository, chunk)).expect("it is there");
        assert_eq!(*read, **chunk, "it comes back");
    }
    let mut stored = 0;
    for container in reader.index().containers().iter().filter(|it| it.name.ticket == ticket) {
        let toc = load_toc(repository, container).expect("it is well");
        stored += toc.regions.iter().map(|region| region.stored_len as usize).sum::<usize>();
    }
    stored
}

/// Files without a previous version are found by their first and last bytes. With a quarter of the
/// needed memory most are found as well, because each found chunk leads to its neighbours.
#[test]
fn less_memory_finds_less() {
    for (count, chunk_count) in [(400, 1), (40, 10)] {
        let before = files(count, chunk_count);
        let after = changed(before.clone());
        let needed = 2 * usize::try_from(count * chunk_count).expect("small");
        // Similarity objects are slightly longer than the ends in them.
        let stored = [needed * 5 / 4, needed / 2, needed / 4, 0].map(|ends_max| {
            let (_, repository) = repository_of(&before);
            store_files(&repository, &after, ends_max)
        });
        println!(
            "{count} files of {chunk_count} chunks: {stored:?} bytes with all, a half, a quarter, none"
        );
        let [all, half, quarter, none] = stored;
        assert!(none > 1_600_000 && all * 100 < none, "{stored:?}");
        assert!(all < half && half < quarter && quarter < none, "{stored:?}");
        assert!(quarter * 20 < none, "{stored:?}");
    }
}

/// If the beginning is unchanged, what follows it is found as well, and known chunks lead to their
/// neighbours.
#[test]
fn chunks_behind_known_ones_are_found() {
    let before = files(10, 4);
    let mut after = before.clone();
    // The last two chunks keep neither head nor tail.
    for chunk in after.iter_mut().flat_map(|file| &mut file[2..]) {
        chunk[..20].fill(1);
        chunk[3990..].fill(2);
    }
    let (_, repository) = repository_of(&before);
    let stored = store_files(&repository, &after, usize::MAX);
    assert!(stored < 10_000, "{stored} bytes of 80,000 that are new");
}

/// Without hints, or with damaged or wrong ones, more is stored and nothing fails.
#[test]
fn missing_or_wrong_hints_fail_nothing() {
    let before = files(30, 3);
    let after = changed(before.clone());
    let (_, repository) = repository_of(&before);
    let found = store_files(&repository, &after, usize::MAX);
    let (storage, repository) = repository_of(&before);
    storage.delete(&hints(&*storage)[0]).expect("memory deletes");
    let without_hints = store_files(&repository, &after, usize::MAX);
    assert!(found * 5 < without_hints, "{found} and {without_hints}");

    let lie = |change: &dyn Fn(&mut SimilarityObject)| {
        let (storage, repository) = repository_of(&before);
        let path = hints(&*storage).remove(0);
        let name = ObjectName::parse(&path).expect("a name");
        let mut hints = repository
            .get(name)
            .and_then(|body| SimilarityObject::decode(&body))
            .expect("it is well");
        change(&mut hints);
        storage.delete(&path).expect("memory deletes");
        repository.seal_and_put(name, &hints.encode()).expect("memory takes it");
        store_files(&repository, &after, usize::MAX)
    };
    assert_eq!(lie(&|_| {}), found, "what is true");
    let stored = lie(&|hints| hints.containers[0].edges.reverse());
    assert!(stored <= without_hints + 5000, "the wrong chunks: {stored}");
    let stored = lie(&|hints| hints.containers[0].container.count += 1);
    assert_eq!(stored, without_hints, "a container that is not there");
    let stored = lie(&|hints| {
        let ContainerEdges { container, edges } = hints.containers[0].clone();
        let edges = edges.repeat(1000);
        hints.containers.insert(0, ContainerEdges { container, edges });
    });
    assert!(stored <= without_hints + 5000, "more than the container has: {stored}");
    let (storage, repository) = repository_of(&before);
    let path = hints(&*storage).remove(0);
    let mut bytes = storage.get(&path).expect("it is there").to_vec();
    bytes[100] ^= 1;
    storage.delete(&path).expect("memory deletes");
    storage.put_new(&path, bytes.into()).expect("memory takes it");
    assert_eq!(store_files(&repository, &after, usize::MAX), without_hints, "damaged");
}

/// Similarity objects are deleted with the containers that they describe.
#[test]
fn hints_are_deleted_with_their_last_container() {
    let (storage, repository) = repository_of(&files(20, 3));
    let old = hints(&*storage);
    forget(&repository, |view| {
        Ok::<_, Error>(view.snapshots().into_iter().map(|(id, _)| id).collect())
    })
    .expect("it is forgotten");
    prune(&repository, &PruneOptions::default(), &(), |_| true).expect("it works");
    store(&repository, &[new()], None, false);
    assert_eq!(hints(&*storage).len(), 2, "old and new");
    let options = SweepOptions {
        settle_ns: 0,
        at_once: AtOnce::Never,
        commit_ns: i64::MAX,
        end_others: true,
    };
    Sweeper::new(repository.clone(), options).step(&()).expect("it is swept");
    let left = hints(&*storage);
    assert!(left.len() == 1 && left != old, "{left:?}");
}
