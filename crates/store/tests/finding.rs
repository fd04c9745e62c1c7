//! Which record of a chunk counts, where it has several: what a writer stores depends neither on what
//! it has looked at before nor on when its own containers are named.

#[path = "common/backup.rs"]
#[expect(dead_code, reason = "other tests back up files")]
mod backup;
#[path = "common/whole.rs"]
mod whole;

use std::sync::Arc;

use cutpoint_store::fingerprint::{Class, Fingerprint};
use cutpoint_store::format::commit::{Outcome, Snapshot};
use cutpoint_store::format::recipe::{Content, Segment};
use cutpoint_store::format::ticket::Purpose;
use cutpoint_store::index::{Index, Scope};
use cutpoint_store::media::{Media, Memory};
use cutpoint_store::name::{ObjectKind, PartName};
use cutpoint_store::reader::Reader;
use cutpoint_store::repository::Repository;
use cutpoint_store::view::View;
use cutpoint_store::writer::{Inline, Matcher, Verify, Writer};
use cutpoint_testing::SplitMix64;

use backup::{init, open};

fn old() -> Vec<u8> {
    SplitMix64::bytes(1, 5000)
}

/// Resembles the old one.
fn new() -> Vec<u8> {
    let mut new = old();
    new[2000] ^= 1;
    new
}

fn fingerprint(repository: &Repository, chunk: &[u8]) -> Fingerprint {
    repository.keys().fingerprint(Class::Data, chunk)
}

/// Stores chunks, compared with `former`, publishes after each where `publish` says so, and commits.
/// Returns which were new.
fn store(
    repository: &Arc<Repository>,
    chunks: &[Vec<u8>],
    former: Option<&[u8]>,
    publish: bool,
) -> Vec<bool> {
    let writer = Writer::begin(repository.clone(), Purpose::Backup).expect("it begins");
    let (view, ticket) = (writer.view().clone(), writer.ticket());
    let mut inline = Inline::new(writer, Verify::All).expect("it opens");
    let index = inline.index().clone();
    let reader = Reader::new(repository.clone(), Arc::new(index.fork()), view);
    let mut matcher = Matcher::new(&reader, &index, ticket);
    let content = former.map(|former| {
        let (fingerprint, length) = (fingerprint(repository, former), former.len() as u64);
        Content::Segments(vec![Segment::Chunk { fingerprint, offset: 0, length }])
    });
    matcher.begin(content.as_ref());
    let mut is_new = Vec::new();
    for chunk in chunks {
        is_new.push(inline.store_similar(chunk, &mut matcher).expect("it is stored").1);
        if publish {
            inline.publish().expect("memory takes it");
        }
    }
    inline.commit(Outcome::Snapshot(Box::new(Snapshot::empty()))).expect("it ends");
    is_new
}

/// Stores a chunk whole, whatever there is.
fn store_whole(repository: &Arc<Repository>, chunk: &[u8]) {
    let writer = Writer::begin(repository.clone(), Purpose::Backup).expect("it begins");
    let mut inline = Inline::anew(writer).expect("it opens");
    inline.store_data(chunk).expect("it is stored");
    inline.commit(Outcome::Snapshot(Box::new(Snapshot::empty()))).expect("it ends");
}

/// A repository of the old chunk and of the new one, a composite; and the name of what has the old one.
fn build(seed: u32) -> (Arc<dyn Media>, Arc<Repository>, String) {
    let media: Arc<dyn Media> = Arc::new(Memory::new());
    init(media.clone()).expect("an empty memory takes a repository");
    let repository = open(media.clone(), seed).expect("it opens");
    store(&repository, &[old()], None, false);
    let containers = media.list(ObjectKind::Data.folder()).expect("memory lists");
    let [(container, _)] = &containers[..] else { panic!("one container: {containers:?}") };
    store(&repository, &[new()], Some(&old()), false);
    (media, repository, container.clone())
}

fn open_index(repository: &Arc<Repository>) -> Index {
    let view = View::list(repository).expect("it lists");
    Index::open(repository.clone(), &view).expect("it opens")
}

/// The containers that have the new chunk.
fn places(repository: &Arc<Repository>) -> Vec<PartName> {
    let places = open_index(repository).places(Class::Data, &fingerprint(repository, &new()));
    places.expect("it finds")
}

/// A composite that has lost its whole does not hide a record that counts, whichever is met first.
#[test]
fn a_record_that_does_not_count_hides_none_that_does() {
    let mut is_first = [0; 2];
    for seed in 1..7 {
        let (media, repository, container) = build(seed);
        let composite = places(&repository);
        media.delete(&container).expect("memory deletes");
        let again = store(&repository, &[new(), old()], None, false);
        assert_eq!(again, [true, true], "neither can be had");
        let (media, repository, container) = build(seed);
        media.delete(&container).expect("memory deletes");
        store_whole(&repository, &new());
        is_first[usize::from(places(&repository)[0] == composite[0])] += 1;
        let again = store(&repository, &[new(), old()], None, false);
        assert_eq!(again, [false, true], "a whole of the new one is there");
    }
    assert!(is_first.iter().all(|count| *count > 0), "either comes first: {is_first:?}");
}

/// A whole is taken rather than a composite, also where the directory of that one was read last.
#[test]
fn what_was_looked_at_before_makes_no_difference() {
    for seed in 1..5 {
        let (_, repository, _) = build(seed);
        store_whole(&repository, &new());
        let chunk = fingerprint(&repository, &new());
        let index = open_index(&repository);
        let find = |accepts: &dyn Fn(bool) -> bool| {
            let found = index.find_where(Class::Data, &chunk, Scope::Write, |location| {
                Ok(accepts(location.is_whole()))
            });
            found.expect("it finds").expect("it is there")
        };
        let mut offered = Vec::new();
        let all = index.find_where(Class::Data, &chunk, Scope::Write, |location| {
            // Not under a lock.
            assert!(index.find(Class::Data, &chunk, Scope::Write).expect("it finds").is_some());
            offered.push(location.is_whole());
            Ok(false)
        });
        assert!(all.expect("it finds").is_none(), "nothing was accepted");
        assert_eq!(offered, [true, false], "each once");
        for _ in 0..2 {
            assert!(!find(&|is_whole| !is_whole).is_whole(), "the composite is there");
            assert!(find(&|_| true).is_whole(), "a whole comes first");
        }
        let index = open_index(&repository);
        let literal = index.containers().into_iter().find(|record| record.has_composites);
        let composite = literal.expect("one has the composite").name;
        // Its directory alone is read.
        let found = index.find_where(Class::Data, &chunk, Scope::Read, |location| {
            Ok(location.loaded.container.name == composite)
        });
        assert!(!found.expect("it finds").expect("it is there").is_whole());
        let found = index.find(Class::Data, &chunk, Scope::Write).expect("it finds");
        assert!(found.expect("it is there").is_whole(), "a whole comes first");
    }
}

/// Whether a composite of others counts does not depend on when what this writer has stored becomes
/// readable.
#[test]
fn what_a_writer_stores_does_not_make_composites_count() {
    for publish in [false, true] {
        let (media, repository, container) = build(1);
        media.delete(&container).expect("memory deletes");
        let is_new = store(&repository, &[old(), new(), new()], None, publish);
        assert_eq!(is_new, [true, true, false], "published: {publish}");
        let is_new = store(&repository, &[old(), new()], None, publish);
        assert_eq!(is_new, [false, false], "afterwards both are there");
        // Its own composites count, before and after they are published.
        let (_, repository, _) = build(2);
        let mut newer = new();
        newer[3000] ^= 1;
        let is_new = store(&repository, &[newer.clone(), newer], Some(&new()), publish);
        assert_eq!(is_new, [true, false], "published: {publish}");
    }
}
