//! Cutting by several threads equals cutting by one, for every algorithm, with segments so small
//! that many lists are joined.

#[path = "../../tests/it/harness/cases/mod.rs"]
mod cases;

use alloc::boxed::Box;
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;
use core::num::NonZero;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::io::{self, Read};
use std::thread::{self, ThreadId};

use cutpoint_testing::{SplitMix64, input};

use super::Parallel;
use crate::chunker::BATCH_COUNT;
use crate::segments::{Round, joined};
use crate::{Chunker, Chunks, KeyMaterial, Level, Push, ReadAhead, Spec, cuts};

const THREAD_COUNTS: [usize; 5] = [1, 2, 3, 7, 16];

fn parallel<C: Chunker>(chunker: C, thread_count: usize, segment_size: usize) -> Parallel<C> {
    let thread_count = NonZero::new(thread_count).expect("it is not 0");
    Parallel::with_segment_size(chunker, thread_count, segment_size)
}

/// Returns noise, text, and data on which lists do not meet, of `size` bytes each.
fn kinds(size: usize, seed: u64) -> [(&'static str, Vec<u8>); 5] {
    let noise = SplitMix64::bytes(seed, size);
    let mut holes = noise.clone();
    for hole in holes.chunks_mut(size / 5 + 1) {
        let size = hole.len();
        hole[size / 3..].fill(0);
    }
    [
        ("noise with holes", holes),
        ("text", input::text(size)),
        ("zeros", vec![0; size]),
        ("repeated noise", input::repeated(&noise[..size.min(977)], size)),
        ("noise", noise),
    ]
}

/// Checks that several threads cut `data` as one does, both whole and as a stream.
fn check(chunker: &dyn Chunker, name: &str, data: &[u8], segment_size: usize) {
    let expected: Vec<usize> = cuts(chunker, data).collect();
    for thread_count in THREAD_COUNTS {
        let parallel = parallel(chunker, thread_count, segment_size);
        let name = || {
            let size = data.len();
            format!("{name}, {size} bytes, {thread_count} threads, {segment_size} each")
        };
        let mut ends = Vec::new();
        parallel.next_cuts(data, 0, false, &mut ends);
        assert!(ends == expected, "{}: {ends:?}, not {expected:?}", name());
        if thread_count != 16 {
            assert!(read_ahead(&parallel, data) == expected, "{}, read ahead", name());
        }
        if thread_count == 3 {
            assert!(cuts(&parallel, data).eq(expected.iter().copied()), "{}, cuts", name());
            let read = |parallel| {
                let mut chunks = Chunks::new(parallel, Portions { data, size_max: 3000 });
                let mut ends = Vec::new();
                while let Some(chunk) = chunks.next().expect("the reader does not fail") {
                    let start = ends.last().copied().unwrap_or(0);
                    let end = start + chunk.len();
                    assert_eq!(chunk, &data[start..end], "{}: bytes", name());
                    ends.push(end);
                }
                ends
            };
            assert!(read(&parallel) == expected, "{}, chunks", name());
            let (mut push, mut ends, mut end) = (Push::new(&parallel), Vec::new(), 0);
            let mut each = |chunk: &[u8]| {
                end += chunk.len();
                ends.push(end);
            };
            data.chunks(7001).for_each(|slice| push.push(slice, &mut each));
            push.finish(&mut each);
            assert!(ends == expected, "{}, push", name());
        }
    }
}

/// Returns the cut-points of a stream that other threads read, in turns and at offsets, and checks
/// the bytes of the chunks.
fn read_ahead<C: Chunker>(parallel: &Parallel<C>, data: &[u8]) -> Vec<usize> {
    let take = |chunks: &mut ReadAhead<'_>| {
        let mut ends = Vec::new();
        let mut start = 0;
        while let Some(chunk) = chunks.next().expect("the reader does not fail") {
            let end = start + chunk.len();
            assert!(chunk == &data[start..end], "{:?}: other bytes from {start} on", parallel);
            ends.push(end);
            start = end;
            assert_eq!(chunks.offset(), start as u64, "the offset");
        }
        assert!(matches!(chunks.next(), Ok(None)), "the end stays the end");
        ends
    };
    let ends = parallel.read(Portions { data, size_max: 3000 }, take);
    let read_at = |buffer: &mut [u8], offset: u64| {
        let offset = data.len().min(usize::try_from(offset).expect("it is small"));
        Portions { data: &data[offset..], size_max: 2000 }.read(buffer)
    };
    assert!(parallel.read_at(read_at, take) == ends, "{parallel:?}: read at places");
    ends
}

/// A reader that returns at most `size_max` bytes at once.
struct Portions<'a> {
    data: &'a [u8],
    size_max: usize,
}

impl Read for Portions<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let size = buffer.len().min(self.size_max);
        self.data.read(&mut buffer[..size])
    }
}

#[test]
fn threads_cut_like_one_thread() {
    for (index, text) in cases::chosen().flat_map(|cases| cases.specs).enumerate() {
        let spec: Spec = text.parse().expect("the spec is right");
        let chunker = spec.chunker();
        let average = spec.chunk_size_average().unwrap_or(0).clamp(100, 2000);
        for (name, data) in kinds(25 * average, index as u64) {
            let name = format!("{spec}, {name}");
            for segment_size in [average, 7 * average] {
                check(&*chunker, &name, &data, segment_size);
            }
        }
    }
}

#[test]
fn keyed_and_emulated_chunkers_cut_like_one_thread() {
    let mut material = [0; KeyMaterial::SIZE];
    material.copy_from_slice(&SplitMix64::bytes(3, KeyMaterial::SIZE));
    let material = KeyMaterial::new(material);
    for text in ["seqcdc:avg=2k", "fastcdc:avg=2k", "gear:bits=8,start=carry", "mii:avg=888"] {
        let spec: Spec = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
        let keyed = spec.keyed_chunker(&material).expect("it can be keyed");
        let emulated = spec.chunker_at(Level::EMULATED);
        for (name, data) in kinds(60_000, 7) {
            check(&*keyed, &format!("{spec}, keyed, {name}"), &data, 5000);
            check(&*emulated, &format!("{spec}, emulated, {name}"), &data, 5000);
        }
    }
}

#[test]
fn tiny_data_is_cut_like_one_thread() {
    for text in ["seqcdc:avg=2k", "fixed:size=1", "mii:length=2,first=0", "gear:bits=4,start=carry"]
    {
        let spec: Spec = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
        for size in 0..70 {
            let data = SplitMix64::bytes(size as u64, size);
            for segment_size in [1, 7, 1 << 20] {
                check(&*spec.chunker(), text, &data, segment_size);
            }
        }
    }
}

/// A chunker that cuts by a hash of the first bytes of a chunk and of the `context_size` bytes
/// before it, so that lists meet by chance.
#[derive(Debug)]
struct Jumping {
    size_max: usize,
    context_size: usize,
}

impl Chunker for Jumping {
    fn next_cut(&self, data: &[u8], more: bool) -> Option<usize> {
        self.next_cut_after(&[], data, more)
    }

    fn next_cut_after(&self, before: &[u8], data: &[u8], more: bool) -> Option<usize> {
        if data.is_empty() || more && data.len() < self.size_max {
            return None;
        }
        let known = before.len().saturating_sub(self.context_size);
        let hash = before[known..]
            .iter()
            .chain(data.first_chunk::<4>().into_iter().flatten())
            .fold(self.context_size as u64 + before[known..].len() as u64, |hash, &byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23)
            });
        let size_max = self.size_max as u64;
        let size = usize::try_from(1 + hash % size_max).expect("it is small");
        Some(size.min(data.len()))
    }

    fn context_size(&self) -> usize {
        self.context_size
    }

    fn chunk_size_min(&self) -> usize {
        1
    }

    fn chunk_size_max(&self) -> Option<usize> {
        Some(self.size_max)
    }
}

#[test]
fn rule_with_context_is_cut_like_one_thread() {
    let mut random = SplitMix64::new(50);
    for context_size in [0, 1, 2, 31, 5000] {
        for size_max in [5, 60, 700] {
            let chunker = Jumping { size_max, context_size };
            let size = 3000 + random.below(6000);
            let segment_size = 1 + random.below(2000);
            for (name, data) in kinds(size, random.next()) {
                let name = format!("{chunker:?}, {name}");
                check(&chunker, &name, &data, segment_size);
            }
        }
    }
}

/// A chunker without context that counts its calls, the calls by the thread that created it, and
/// the bytes given to it. It panics on data that begins with `refused`.
#[derive(Debug)]
struct CountingChunker {
    chunker: Box<dyn Chunker>,
    asked_count: AtomicUsize,
    own_count: AtomicUsize,
    /// The total number of bytes given.
    seen_size: AtomicUsize,
    maker: ThreadId,
    refused: Vec<u8>,
}

impl CountingChunker {
    fn new(text: &str, refused: &[u8]) -> CountingChunker {
        let spec: Spec = text.parse().expect("the spec is right");
        CountingChunker {
            chunker: spec.chunker(),
            asked_count: AtomicUsize::new(0),
            own_count: AtomicUsize::new(0),
            seen_size: AtomicUsize::new(0),
            maker: thread::current().id(),
            refused: refused.to_vec(),
        }
    }
}

impl Chunker for CountingChunker {
    fn next_cut(&self, data: &[u8], more: bool) -> Option<usize> {
        self.asked_count.fetch_add(1, Ordering::Relaxed);
        self.seen_size.fetch_add(data.len(), Ordering::Relaxed);
        let is_own = thread::current().id() == self.maker;
        self.own_count.fetch_add(usize::from(is_own), Ordering::Relaxed);
        assert!(self.refused.is_empty() || !data.starts_with(&self.refused), "these are refused");
        self.chunker.next_cut(data, more)
    }

    fn chunk_size_min(&self) -> usize {
        self.chunker.chunk_size_min()
    }

    fn chunk_size_max(&self) -> Option<usize> {
        self.chunker.chunk_size_max()
    }
}

/// Most of the lists is taken if they meet, so the tests above do join something.
#[test]
fn lists_that_meet_are_mostly_taken() {
    let data = SplitMix64::bytes(60, 800_000);
    for text in ["seqcdc:avg=2k", "fastcdc:avg=2k", "ae:avg=2k", "rabin:avg=2k"] {
        let spec: Spec = text.parse().expect("the spec is right");
        let parallel = parallel(spec.chunker(), 4, 200_000);
        let round = Round { data: &data, more: false, start: 0, count: 4, size: 200_000 };
        let mut ends = Vec::new();
        let (reached, gained_size) =
            joined(&parallel.chunker, round, &parallel.cut(round), &mut ends)
                .expect("it can be told");
        assert_eq!((reached.end, ends.last()), (800_000, Some(&800_000)), "{spec}: the end");
        assert!((300_000..=600_000).contains(&gained_size), "{spec}: {gained_size} gained");
    }
}

/// As long as lists meet, all threads work.
#[test]
fn threads_share_work_if_lists_meet() {
    let data = SplitMix64::bytes(63, 1_500_000);
    let counted = CountingChunker::new("fastcdc:avg=1k", &[]);
    let mut ends = Vec::new();
    parallel(&counted, 4, 60_000).next_cuts(&data, 0, false, &mut ends);
    let own_count = counted.own_count.load(Ordering::Relaxed);
    assert!(own_count < ends.len() / 3, "{own_count} times for {} chunks", ends.len());
}

/// If lists do not meet, few calls are in vain.
#[test]
fn threads_rest_if_lists_do_not_meet() {
    let size = 1_000_000;
    let data = SplitMix64::bytes(61, size);
    // No segment begins at a multiple of this size.
    let counted = CountingChunker::new("fixed:size=101", &[]);
    let expected: Vec<usize> = cuts(&counted, &data).collect();
    let alone = counted.asked_count.swap(0, Ordering::Relaxed);
    for thread_count in [2, 3, 7] {
        let parallel = parallel(&counted, thread_count, 10_000 / BATCH_COUNT);
        let mut ends = Vec::new();
        parallel.next_cuts(&data, 0, false, &mut ends);
        assert_eq!(ends, expected, "{thread_count} threads");
        let asked = counted.asked_count.swap(0, Ordering::Relaxed);
        // The work of the other threads is in vain in the first round, about 100 calls for each of
        // them, and a quarter of that in each round that is tried after a rest. With two threads
        // there are two such rounds.
        let (in_vain, others) = (asked.saturating_sub(alone), thread_count - 1);
        assert!((90 * others..190 * others).contains(&in_vain), "{in_vain} times of {alone}");
    }
}

/// A panic in a thread ends the call as a panic of the calling thread would.
#[test]
#[should_panic(expected = "these are refused")]
fn panic_in_thread_reaches_caller() {
    let data = SplitMix64::bytes(62, 100_000);
    // The start of the second segment, at which no chunk begins.
    let counted = CountingChunker::new("fixed:size=101", &data[10_000..10_016]);
    parallel(&counted, 2, 10_000 / BATCH_COUNT).next_cuts(&data, 0, false, &mut Vec::new());
}

/// The number of bytes wanted at once, and thus the size of a reader's buffer, is bounded.
#[test]
fn batches_are_bounded() {
    let batch_size = |text: &str, thread_count| {
        let spec: Spec = text.parse().expect("the spec is right");
        let thread_count = NonZero::new(thread_count).expect("it is not 0");
        Parallel::new(spec.chunker(), thread_count).batch_size()
    };
    assert_eq!(batch_size("seqcdc:avg=16k", 1), 0, "one thread");
    assert_eq!(batch_size("fastcdc:avg=16k", 2), 8 << 20, "two threads");
    assert_eq!(batch_size("fastcdc:avg=16k", 64), 256 << 20, "many threads");
    assert_eq!(batch_size("mincdc:min=1m,max=4m", 2), 128 << 20, "large chunks");
    assert!(batch_size("fastcdc:avg=16k", 1000) <= 256 << 20, "many threads");
    assert!(
        batch_size("mincdc:min=512m,max=1024m", usize::MAX) <= 256 << 20,
        "the greatest numbers"
    );
    assert_eq!(batch_size("fixed:size=1m", 7), 0, "sizes that never vary");
}

/// A reader that reads the remaining bytes, and then fails.
struct Failing<R, F> {
    reader: R,
    fail: F,
}

impl<R: Read, F: FnMut() -> io::Result<usize>> Read for Failing<R, F> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.reader.read(buffer) {
            Ok(0) => (self.fail)(),
            read => read,
        }
    }
}

/// The chunks that end in the bytes before the error come first, then the error, and never an end.
#[test]
fn reader_error_follows_preceding_chunks() {
    let data = SplitMix64::bytes(64, 100_000);
    for text in ["fastcdc:avg=2k", "fixed:size=1001", "mincdc:min=500,max=3000", "gear:bits=30"] {
        let spec: Spec = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
        let mut expected = Vec::new();
        Push::new(spec.chunker()).push(&data, |chunk| expected.push(chunk.to_vec()));
        for (thread_count, segment_size) in [(1, 7000), (2, 7000), (3, 1000), (2, 1 << 20)] {
            let mut tried = false;
            let fail = || match core::mem::replace(&mut tried, true) {
                false => Err(io::ErrorKind::Interrupted.into()),
                true => Err(io::ErrorKind::BrokenPipe.into()),
            };
            let mut reader = Failing { reader: &data[..], fail };
            let parallel = parallel(spec.chunker(), thread_count, segment_size);
            let (found, errors) = parallel.read(&mut reader, |chunks| {
                let mut found = Vec::new();
                let error = loop {
                    match chunks.next() {
                        Ok(chunk) => found.push(chunk.expect("it is no end").to_vec()),
                        Err(error) => break error,
                    }
                };
                (found, [error.kind(), chunks.next().expect_err("nor is this").kind()])
            });
            assert!(found == expected, "{text}: {} of {}", found.len(), expected.len());
            assert_eq!(errors, [io::ErrorKind::BrokenPipe, io::ErrorKind::Other], "{text}");
        }
    }
}

#[test]
#[should_panic(expected = "the reader panics")]
fn reader_panic_reaches_caller() {
    let data = SplitMix64::bytes(65, 50_000);
    let reader = Failing { reader: &data[..], fail: || panic!("the reader panics") };
    let spec: Spec = "fastcdc:avg=2k".parse().expect("the spec is right");
    parallel(spec.chunker(), 3, 5000)
        .read(reader, |chunks| while let Ok(Some(_)) = chunks.next() {});
}

#[test]
#[should_panic(expected = "these are refused")]
fn chunker_panic_reaches_caller_while_reading() {
    let data = SplitMix64::bytes(66, 100_000);
    // The start of the second block, at which no chunk begins.
    let counted = CountingChunker::new("fixed:size=101", &data[10_000..10_016]);
    parallel(&counted, 2, 10_000)
        .read(&data[..], |chunks| while let Ok(Some(_)) = chunks.next() {});
}

/// A caller that stops early gets the reader back, and the number of bytes read is bounded.
#[test]
fn read_ahead_is_bounded_and_ends_with_caller() {
    let data = SplitMix64::bytes(67, 1_000_000);
    let spec: Spec = "fastcdc:avg=2k".parse().expect("the spec is right");
    for thread_count in [1, 2, 5] {
        let mut reader = Portions { data: &data, size_max: 3000 };
        let parallel = parallel(spec.chunker(), thread_count, 20_000);
        let size = parallel.read(&mut reader, |chunks| {
            chunks.next().expect("the reader does not fail").map(<[u8]>::len)
        });
        assert_eq!(size, cuts(&*spec.chunker(), &data).next(), "{thread_count} threads");
        let read_size = data.len() - reader.data.len();
        // One block more than exist at once, because the first may have been given back.
        let block_count = if thread_count == 1 { 2 } else { thread_count + 2 };
        assert!((20_000..=block_count * 20_000).contains(&read_size), "{read_size} bytes");
    }
}

/// If lists do not meet, the threads only read.
#[test]
fn read_ahead_stops_cutting_if_lists_do_not_meet() {
    let data = SplitMix64::bytes(68, 1_000_000);
    let counted = CountingChunker::new("fixed:size=101", &[]);
    let expected: Vec<usize> = cuts(&counted, &data).collect();
    counted.asked_count.store(0, Ordering::Relaxed);
    assert_eq!(read_ahead(&parallel(&counted, 2, 10_000), &data), expected, "cut-points");
    let asked = counted.asked_count.load(Ordering::Relaxed);
    // Two of 100 blocks, as those that were cut before the first was joined, and a few of every 17.
    let in_vain = asked - 2 * expected.len();
    assert!((200..expected.len() / 2).contains(&in_vain), "{in_vain} of {}", expected.len());
}

/// If lists meet, little work is left to the caller's thread.
#[test]
fn read_ahead_threads_cut_if_lists_meet() {
    let data = SplitMix64::bytes(69, 1_500_000);
    let counted = CountingChunker::new("fastcdc:avg=1k", &[]);
    let ends = read_ahead(&parallel(&counted, 2, 60_000), &data);
    let own_count = counted.own_count.load(Ordering::Relaxed);
    assert!(own_count < 2 * ends.len() / 3, "{own_count} times for {} chunks", ends.len());
}

/// A chunk that does not end is not scanned again for every block.
#[test]
fn endless_chunk_is_not_rescanned_repeatedly() {
    let data = vec![0; 3_000_000];
    let counted = CountingChunker::new("gear:bits=13", &[]);
    let mut ends = Vec::new();
    for thread_count in [2, 7] {
        let parallel = parallel(&counted, thread_count, 10_000);
        ends.clear();
        parallel.next_cuts(&data, 0, false, &mut ends);
        assert_eq!(ends, [data.len()], "{thread_count} threads");
        assert_eq!(
            read_ahead(&parallel, &data),
            [data.len()],
            "{thread_count} threads, read ahead"
        );
        let seen_size = counted.seen_size.swap(0, Ordering::Relaxed);
        assert!(seen_size < 3 * 3 * data.len(), "{thread_count} threads: {seen_size} bytes");
    }
}
