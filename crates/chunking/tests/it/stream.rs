//! `Chunks` and `Push` beyond cutting: errors, another reader, the end.

use std::io::{self, Read};
use std::ops::ControlFlow;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll, Waker};

use cutpoint_chunking::{Chunker, Chunks, Level, Push, Spec, cuts};
use cutpoint_testing::SplitMix64;
use futures_executor::block_on;
use futures_io::AsyncRead;

/// A reader that returns 1000 bytes, an error, 1000 bytes, and so on.
struct Failing<'a> {
    data: &'a [u8],
    fails: bool,
}

impl Read for Failing<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.fails = !self.fails;
        if self.fails {
            return Err(io::Error::other("unplugged"));
        }
        let size = buffer.len().min(1000);
        self.data.read(&mut buffer[..size])
    }
}

#[test]
fn reader_error_loses_no_bytes() {
    let spec: Spec = "seqcdc:avg=2k".parse().expect("the spec is right");
    let data = SplitMix64::bytes(40, 50_000);
    let mut chunks = Chunks::new(spec.chunker(), Failing { data: &data, fails: false });
    let (mut ends, mut errors) = (Vec::new(), 0);
    loop {
        match chunks.next().map(|chunk| chunk.map(<[u8]>::len)) {
            Ok(Some(_)) => ends.push(usize::try_from(chunks.offset()).expect("it is small")),
            Ok(None) => break,
            Err(error) => {
                assert_eq!(error.to_string(), "unplugged", "the reader's error");
                errors += 1;
            }
        }
    }
    assert_eq!(errors, 51, "each read failed once");
    assert_eq!(ends, cuts(&*spec.chunker(), &data).collect::<Vec<_>>(), "ends");
}

/// A reader that is pending, fails and returns 1000 bytes, in turn. The waiting task is woken at
/// once if `wakes` is set, and never otherwise.
struct Waiting<'a> {
    reader: Failing<'a>,
    waits: bool,
    wakes: bool,
}

impl AsyncRead for Waiting<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        self.waits = !self.waits;
        if self.waits {
            if self.wakes {
                context.waker().wake_by_ref();
            }
            return Poll::Pending;
        }
        Poll::Ready(self.reader.read(buffer))
    }
}

/// An executor polls again only after a wake-up, so the reader must get the waker.
#[test]
fn async_reader_error_loses_no_bytes() {
    let spec: Spec = "seqcdc:avg=2k".parse().expect("the spec is right");
    let data = SplitMix64::bytes(43, 50_000);
    let reader = Failing { data: &data, fails: false };
    let mut chunks = Chunks::new(spec.chunker(), Waiting { reader, waits: false, wakes: true });
    let (ends, errors) = block_on(async {
        let (mut ends, mut errors) = (Vec::new(), 0);
        loop {
            match chunks.next_async().await {
                Ok(Some(chunk)) => {
                    ends.push(ends.last().copied().unwrap_or(0) + chunk.len());
                    let end = ends[ends.len() - 1];
                    assert_eq!(chunks.offset(), end as u64, "offset");
                }
                Ok(None) => return (ends, errors),
                Err(error) => {
                    assert_eq!(error.to_string(), "unplugged", "the reader's error");
                    errors += 1;
                }
            }
        }
    });
    assert_eq!(errors, 51, "each read failed once");
    assert_eq!(ends, cuts(&*spec.chunker(), &data).collect::<Vec<_>>(), "ends");
}

/// Bytes that were read before a future was dropped are in the next chunk. Polling by hand gives
/// the same result.
#[test]
fn dropped_future_loses_no_bytes() {
    let data = SplitMix64::bytes(44, 10_000);
    let reader = Failing { data: &data, fails: false };
    let spec: Spec = "fixed:size=4000".parse().expect("the spec is right");
    let mut chunks = Chunks::new(spec.chunker(), Waiting { reader, waits: false, wakes: false });
    let mut context = Context::from_waker(Waker::noop());
    let (mut found, mut waits) = (Vec::new(), 0);
    for round in 0.. {
        let polled = if round % 2 == 0 {
            std::pin::pin!(chunks.next_async()).poll(&mut context)
        } else {
            chunks.poll_next(&mut context)
        };
        match polled {
            Poll::Pending => waits += 1,
            Poll::Ready(Err(_)) => {}
            Poll::Ready(Ok(Some(chunk))) => found.push(chunk.to_vec()),
            Poll::Ready(Ok(None)) => break,
        }
    }
    assert_eq!(waits, 22, "each read and each error was waited for");
    assert_eq!(found, data.chunks(4000).collect::<Vec<_>>(), "chunks");
}

/// The future can be given to an executor that moves it between threads.
#[test]
fn next_async_future_is_send() {
    fn sent<T: Send>(value: T) -> T {
        value
    }
    let spec: Spec = "fixed:size=4".parse().expect("the spec is right");
    let chunker = spec.chunker();
    let count = sent(async move {
        let mut chunks = Chunks::new(chunker, &b"abcdefghij"[..]);
        let mut count = 0;
        while let Some(chunk) = chunks.next_async().await.expect("no error") {
            count += chunk.len();
        }
        count
    });
    assert_eq!(block_on(count), 10, "bytes");
}

#[test]
fn restarted_chunks_cut_like_new() {
    let spec: Spec = "fastcdc:avg=2k".parse().expect("the spec is right");
    let chunker = spec.chunker();
    let data = SplitMix64::bytes(41, 100_000);
    let mut chunks = Chunks::new(&*chunker, &data[..]);
    for from in [3, 5000, 99_999, 100_000] {
        chunks.next().expect("no error").expect("a chunk");
        let before = chunks.restart(&data[from..]);
        assert!(before.is_empty(), "all was read ahead");
        assert_eq!(chunks.offset(), 0, "offset");
        let mut ends = Vec::new();
        while chunks.next().expect("no error").is_some() {
            ends.push(usize::try_from(chunks.offset()).expect("it is small"));
        }
        assert_eq!(ends, cuts(&*chunker, &data[from..]).collect::<Vec<_>>(), "from {from}");
        assert!(chunks.next().expect("no error").is_none(), "the end stays");
        chunks.restart(&data);
    }
    assert_eq!(chunks.into_reader(), &data, "the reader comes back");
}

/// The stream is longer than the buffer, so that the remaining bytes move to its front many times.
#[test]
fn long_streams_are_cut_like_buffers() {
    for text in [
        "seqcdc:avg=64k",
        "fastcdc:avg=64k",
        "fixed:size=300000",
        "fixed:size=1",
        "gear:bits=14,start=carry",
    ] {
        let spec: Spec = text.parse().expect("the spec is right");
        let data = SplitMix64::bytes(42, 5_000_001);
        let mut chunks = Chunks::new(spec.chunker(), &data[..]);
        let mut offset = 0;
        for end in cuts(&*spec.chunker(), &data) {
            let chunk = chunks.next().expect("no error").expect("a chunk");
            assert!(chunk == &data[offset..end], "{text}: {offset} to {end}");
            offset = end;
        }
        assert!(chunks.next().expect("no error").is_none(), "{text}: the end");
    }
}

/// Readers keep the bytes of earlier chunks on which a hash depends, in addition to the byte that
/// enters.
#[test]
fn context_size_is_window_of_carried_hash() {
    for (text, size) in [
        ("gear:bits=7,start=carry", 63),
        ("gear:bits=7,table=cutpoint32,start=carry", 31),
        ("gear:bits=7,start=warm", 0),
        ("gear:bits=7,start=cold", 0),
    ] {
        let spec: Spec = text.parse().expect("the spec is right");
        assert_eq!(spec.chunker().context_size(), size, "{text}");
    }
}

/// If no hash exceeds that of the first position, as many positions as a minimum chunk has bytes
/// suffice to settle the cut-point; the whole horizon is not needed.
#[test]
fn repmaxcdc_cuts_before_horizon_if_settled() {
    let spec: Spec = "repmaxcdc:min=64,horizon=1000".parse().expect("the spec is right");
    let chunker = spec.chunker();
    assert_eq!(chunker.next_cut(&[0; 3 * 64 - 1], true), None, "a greater one may follow");
    assert_eq!(chunker.next_cut(&[0; 3 * 64], true), Some(64), "whatever follows");
}

/// A chunker that cuts behind each newline, as a rule without a maximum size.
#[derive(Debug)]
struct Lines;

impl Chunker for Lines {
    fn next_cut(&self, data: &[u8], more: bool) -> Option<usize> {
        let found = data.iter().position(|&byte| byte == b'\n').map(|at| at + 1);
        found.or((!more && !data.is_empty()).then_some(data.len()))
    }

    fn chunk_size_min(&self) -> usize {
        1
    }

    fn chunk_size_max(&self) -> Option<usize> {
        None
    }
}

#[test]
fn buffer_grows_without_maximum_size() {
    let mut data = vec![b'x'; 3_000_000];
    for end in [10, 400_000, 400_001, 2_000_000] {
        data[end - 1] = b'\n';
    }
    let mut chunks = Chunks::new(Lines, &data[..]);
    let mut sizes = Vec::new();
    while let Some(chunk) = chunks.next().expect("no error") {
        sizes.push(chunk.len());
    }
    assert_eq!(sizes, [10, 399_990, 1, 1_599_999, 1_000_000], "sizes");
}

/// A chunker that breaks its contract: it cuts neither at its maximum size nor at the end of a
/// stream.
#[derive(Clone, Copy, Debug)]
struct Silent {
    chunk_size_max: Option<usize>,
}

impl Chunker for Silent {
    fn next_cut(&self, _: &[u8], _: bool) -> Option<usize> {
        None
    }

    fn chunk_size_min(&self) -> usize {
        1
    }

    fn chunk_size_max(&self) -> Option<usize> {
        self.chunk_size_max
    }
}

#[test]
fn chunker_that_never_cuts_loses_no_bytes() {
    for chunk_size_max in [None, Some(2)] {
        let chunker = Silent { chunk_size_max };
        let mut found = Vec::new();
        let mut push = Push::new(chunker);
        for data in [b"abc", b"def"] {
            push.push(data, |_| panic!("nothing is cut"));
        }
        push.finish(|chunk| found.push(chunk.to_vec()));
        assert_eq!(found, [b"abcdef"], "pushed");
        let mut chunks = Chunks::new(chunker, &b"abcdef"[..]);
        assert_eq!(chunks.next().expect("no error"), Some(&b"abcdef"[..]), "read");
        assert_eq!(chunks.next().expect("no error"), None, "the end");
    }
}

/// A chunker that counts the bytes in which it is asked to search.
#[derive(Debug)]
struct Counting {
    chunker: Box<dyn Chunker>,
    searched: AtomicUsize,
}

impl Counting {
    fn search(&self, size: usize) {
        self.searched.fetch_add(size, Relaxed);
    }
}

impl Chunker for Counting {
    fn next_cut(&self, data: &[u8], more: bool) -> Option<usize> {
        let size = self.chunker.next_cut(data, more);
        self.search(size.unwrap_or(data.len()));
        size
    }

    fn next_cut_again(
        &self,
        before: &[u8],
        data: &[u8],
        more: bool,
        known: usize,
    ) -> Option<usize> {
        let size = self.chunker.next_cut_again(before, data, more, known);
        self.search(size.unwrap_or(data.len()) - known);
        size
    }

    fn resumes(&self) -> bool {
        self.chunker.resumes()
    }

    fn next_cuts_again(
        &self,
        data: &[u8],
        start: usize,
        more: bool,
        known: usize,
        ends: &mut Vec<usize>,
    ) -> usize {
        let count = ends.len();
        let now_known = self.chunker.next_cuts_again(data, start, more, known, ends);
        let end = ends[count..].last().copied().unwrap_or(start) + now_known;
        self.search(end.saturating_sub(start + known));
        now_known
    }

    fn batch_size(&self) -> usize {
        self.chunker.batch_size()
    }

    fn chunk_size_min(&self) -> usize {
        self.chunker.chunk_size_min()
    }

    fn chunk_size_max(&self) -> Option<usize> {
        self.chunker.chunk_size_max()
    }
}

/// A rule that can continue its search looks at each pushed byte about once, by columns and without
/// them.
#[test]
fn pushed_bytes_are_searched_once() {
    let data = SplitMix64::bytes(48, 500_000);
    for text in ["gear:bits=13", "fastcdc:avg=16k", "rabin:avg=8k,max=64k"] {
        let spec: Spec = text.parse().expect("the spec is right");
        for level in [Level::SCALAR, Level::EMULATED] {
            for size in [1000, 4096, 16_384, 50_000, 70_000, 100_000] {
                let chunker = spec.chunker_at(level);
                let counting = Counting { chunker, searched: AtomicUsize::new(0) };
                let mut push = Push::new(&counting);
                data.chunks(size).for_each(|slice| push.push(slice, |_| {}));
                push.finish(|_| {});
                let searched = counting.searched.load(Relaxed);
                let name = format!("{text}, {} in slices of {size}", level.name());
                let least = data.len() * 9 / 10;
                let most = data.len() * 102 / 100;
                assert!((least..=most).contains(&searched), "{name}: {searched}");
            }
        }
    }
}

/// After a stop, the chunks in the bytes that were pushed are passed without others, however few
/// these bytes are.
#[test]
fn stopped_push_passes_chunks_without_more_bytes() {
    let data = SplitMix64::bytes(49, 12_000);
    let spec: Spec = "gear:bits=9".parse().expect("the spec is right");
    for level in [Level::SCALAR, Level::EMULATED] {
        let mut push = Push::new(spec.chunker_at(level));
        let mut flow = push.push_until(&data, |_| ControlFlow::Break(()));
        assert!(flow.is_break(), "{}: no chunk", level.name());
        while flow.is_break() {
            flow = push.push_until(&[], |_| ControlFlow::Break(()));
        }
        // A chunk and less than a tile are held.
        let held = push.buffered_bytes();
        assert!(held < 8192, "{}: {held} bytes held", level.name());
    }
}
