//! Regions that another thread decodes ahead of the encoder.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::support::backup::{init_with, open};
use crate::support::delta_chunks::of_form;
use cutpoint_repository::format::commit::Outcome;
use cutpoint_repository::format::recipe::Segment;
use cutpoint_repository::format::toc::Form;
use cutpoint_repository::write::{DeltaEncoder, DeltaStrategy, Inline};
use cutpoint_repository::{Class, Content, Purpose, Reader, Repository, Snapshot, Verify, Writer};
use cutpoint_storage::Memory;
use cutpoint_testing::SplitMix64;

const CHUNK_COUNT: u64 = 40;
/// The number of chunks that are compared before the other thread begins. From then on, all regions
/// that follow are wanted.
const BEFORE_COUNT: usize = 5;

fn old(number: u64) -> Vec<u8> {
    SplitMix64::bytes(number, 5000)
}

fn new(number: u64) -> Vec<u8> {
    let mut new = old(number);
    new[2000] ^= 1;
    new
}

/// Creates a repository with the old chunks.
fn build() -> Arc<Repository> {
    let storage = Arc::new(Memory::new());
    init_with(storage.clone(), 0, true, 0).expect("an empty memory takes a repository");
    let repository = open(storage, 0).expect("it opens");
    let writer = Writer::begin(repository.clone(), Purpose::Backup).expect("it begins");
    let mut inline = Inline::new(writer, Verify::All).expect("it opens");
    for number in 0..CHUNK_COUNT {
        inline.store_data(&old(number)).expect("it is stored");
    }
    inline.commit(Outcome::Snapshot(Box::new(Snapshot::empty()))).expect("it ends");
    repository
}

fn wait_until(is_true: impl Fn() -> bool) {
    let begin = Instant::now();
    while !is_true() {
        assert!(begin.elapsed() < Duration::from_secs(60), "it does not happen");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn regions_ahead_are_decoded_once_by_the_other_thread() {
    let repository = build();
    let writer = Writer::begin(repository.clone(), Purpose::Backup).expect("it begins");
    let (view, ticket) = (writer.view().clone(), writer.ticket());
    let mut inline = Inline::new(writer, Verify::All).expect("it opens");
    let index = inline.index().clone();
    let reader = Reader::new(repository.clone(), Arc::new(index.fork()), view);
    let mut encoder = DeltaEncoder::new(&reader, &index, ticket);
    let segments = (0..CHUNK_COUNT).map(|number| {
        let fingerprint = repository.keys().fingerprint(Class::Data, &old(number));
        Segment::Chunk { fingerprint, offset: 0, length: 5000 }
    });
    encoder.begin(Some(&Content::Segments(segments.collect())));
    let ahead = encoder.regions_ahead().expect("the encoder reads old regions");
    let chunks: Vec<_> = (0..CHUNK_COUNT).map(new).collect();
    let (before, behind) = chunks.split_at(BEFORE_COUNT);
    for chunk in before {
        inline.store_similar(chunk, &mut encoder).expect("it is stored");
    }
    // Regions of 16 KiB have three chunks each, and the window of the encoder has read some of them.
    let region_count = CHUNK_COUNT.div_ceil(3);
    let decoded = || reader.statistics().region_count;
    assert!(decoded() < region_count, "{} regions are decoded without the thread", decoded());
    std::thread::scope(|scope| {
        scope.spawn(|| ahead.run(&reader));
        wait_until(|| decoded() == region_count);
        for chunk in behind {
            inline.store_similar(chunk, &mut encoder).expect("it is stored");
        }
        ahead.end();
    });
    assert_eq!(decoded(), region_count, "no region is decoded twice");
    ahead.run(&reader);
    inline.commit(Outcome::Snapshot(Box::new(Snapshot::empty()))).expect("it ends");
    let delta_chunks = of_form(&repository, Form::Delta);
    assert_eq!(delta_chunks.len() as u64, CHUNK_COUNT, "each chunk is a delta chunk");
}
