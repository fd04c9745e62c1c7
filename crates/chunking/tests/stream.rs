//! What `Chunks` does beyond cutting: errors, another reader, the end.

use std::io::{self, Read};

use cutpoint_chunking::{Chunker, Chunks, Spec, cuts};
use cutpoint_testing::SplitMix64;

/// Gives 1000 bytes, an error, 1000 bytes, and so on.
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
fn an_error_loses_nothing() {
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

#[test]
fn restarted_it_cuts_like_new() {
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

/// More than the buffer holds, so that what is left moves to its front, many times.
#[test]
fn long_streams_are_cut_like_buffers() {
    for text in ["seqcdc:avg=64k", "fastcdc:avg=64k", "fixed:size=300000", "fixed:size=1"] {
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

/// Cuts behind each newline: a rule without a largest size.
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
fn the_buffer_grows_where_no_size_is_the_largest() {
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
