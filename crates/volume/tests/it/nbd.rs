//! The NBD server, byte by byte, without a socket.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::sync::Arc;

use cutpoint_testing::SplitMix64;
use cutpoint_volume::nbd::{VolumeExports, serve_connection};
use cutpoint_volume::{Access, FaultyFolder, OpenOptions, Survival};

use crate::support::{Opened, create, open, open_folder, shared};

/// A peer that sends bytes without waiting for answers.
struct Peer {
    input: io::Cursor<Vec<u8>>,
    output: Vec<u8>,
}

impl Read for Peer {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.input.read(buffer)
    }
}

impl Write for Peer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.output.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Serves a peer that sends `input`, and returns the answers.
fn serve(volume: &Opened, input: Vec<u8>) -> (io::Result<()>, Vec<u8>) {
    let mut peer = Peer { input: io::Cursor::new(input), output: Vec::new() };
    let result = serve_connection(&mut peer, &VolumeExports(Arc::clone(&volume.volume)));
    (result, peer.output)
}

fn option(number: u32, data: &[u8]) -> Vec<u8> {
    let len = u32::try_from(data.len()).expect("short");
    [b"IHAVEOPT".as_slice(), &number.to_be_bytes(), &len.to_be_bytes(), data].concat()
}

fn client_flags(flags: u32) -> Vec<u8> {
    flags.to_be_bytes().to_vec()
}

/// Returns the option `NBD_OPT_GO` for an export.
fn go(name: &[u8]) -> Vec<u8> {
    let len = u32::try_from(name.len()).expect("short");
    option(7, &[&len.to_be_bytes(), name, &[0, 0]].concat())
}

/// Returns `NBD_OPT_SET_META_CONTEXT` for one context.
fn set_context(context: &str) -> Vec<u8> {
    let len = u32::try_from(context.len()).expect("short");
    let numbers = [0_u32.to_be_bytes(), 1_u32.to_be_bytes(), len.to_be_bytes()].concat();
    option(10, &[numbers.as_slice(), context.as_bytes()].concat())
}

fn request(flags: u16, command: u16, offset: u64, len: u32) -> Vec<u8> {
    [
        0x2560_9513_u32.to_be_bytes().as_slice(),
        &flags.to_be_bytes(),
        &command.to_be_bytes(),
        &77_u64.to_be_bytes(),
        &offset.to_be_bytes(),
        &len.to_be_bytes(),
    ]
    .concat()
}

/// The answers of a server, read from the front.
struct Answers(Vec<u8>);

impl Answers {
    fn take(&mut self, len: usize) -> Vec<u8> {
        let rest = self.0.split_off(len);
        std::mem::replace(&mut self.0, rest)
    }

    fn u16(&mut self) -> u16 {
        u16::from_be_bytes(self.take(2).try_into().expect("two bytes"))
    }

    fn u32(&mut self) -> u32 {
        u32::from_be_bytes(self.take(4).try_into().expect("four bytes"))
    }

    fn u64(&mut self) -> u64 {
        u64::from_be_bytes(self.take(8).try_into().expect("eight bytes"))
    }

    fn greeting(&mut self) {
        assert_eq!(self.take(18), [b"NBDMAGICIHAVEOPT".as_slice(), &[0, 3]].concat(), "a greeting");
    }

    /// Returns type and data of the reply to an option.
    fn option(&mut self, number: u32) -> (u32, Vec<u8>) {
        assert_eq!(self.u64(), 0x0003_e889_0455_65a9, "a reply");
        assert_eq!(self.u32(), number, "the option");
        let (kind, len) = (self.u32(), self.u32());
        (kind, self.take(len as usize))
    }

    /// Returns the error of a simple reply.
    fn simple(&mut self) -> u32 {
        assert_eq!(self.u32(), 0x6744_6698, "a simple reply");
        let error = self.u32();
        assert_eq!(self.u64(), 77, "the cookie");
        error
    }

    /// Returns type and payload of the only chunk of a reply.
    fn chunk(&mut self) -> (u16, Vec<u8>) {
        assert_eq!((self.u32(), self.u16()), (0x668e_33ef, 1), "the only chunk");
        let kind = self.u16();
        assert_eq!(self.u64(), 77, "the cookie");
        let len = self.u32();
        (kind, self.take(len as usize))
    }

    fn end(self) {
        assert_eq!(self.0.len(), 0, "answers that no request has");
    }
}

/// Serves requests after a handshake with or without structured replies.
fn requests(volume: &Opened, is_structured: bool, requests: &[Vec<u8>]) -> Answers {
    let mut input = client_flags(3);
    if is_structured {
        input.extend(option(8, &[]));
        input.extend(set_context("base:allocation"));
    }
    input.extend(go(b""));
    requests.iter().for_each(|request| input.extend(request));
    let (result, output) = serve(volume, input);
    result.expect("the peer keeps the protocol");
    let mut answers = Answers(output);
    answers.greeting();
    if is_structured {
        assert_eq!(answers.option(8).0, 1, "structured replies");
        let context = [1_u32.to_be_bytes().as_slice(), b"base:allocation"].concat();
        assert_eq!(answers.option(10), (4, context), "a context");
        assert_eq!(answers.option(10).0, 1, "the end of the contexts");
    }
    let kinds = [(); 3].map(|()| answers.option(7).0);
    assert_eq!(kinds, [3, 3, 1], "the export");
    answers
}

fn volume() -> Opened {
    open(&create(16, 4096, "burst"))
}

#[test]
fn export_has_size_flags_and_limits() {
    let volume = volume();
    let (result, output) = serve(&volume, [client_flags(3), go(b"")].concat());
    result.expect("the end of the connection");
    let mut answers = Answers(output);
    answers.greeting();
    let flags = 1_u16 | 4 | 8 | 32 | 64 | 256;
    let export = [&[0, 0], 65536_u64.to_be_bytes().as_slice(), &flags.to_be_bytes()].concat();
    assert_eq!(answers.option(7), (3, export));
    let sizes = [1_u32, 4096, 32 * 1024 * 1024].map(u32::to_be_bytes).concat();
    assert_eq!(answers.option(7), (3, [vec![0, 3], sizes].concat()));
    assert_eq!(answers.option(7), (1, Vec::new()));
    answers.end();
}

#[test]
fn old_way_to_begin_has_zeros_unless_refused() {
    for (flags, zeros) in [(1, 124), (3, 0)] {
        let (result, output) = serve(&volume(), [client_flags(flags), option(1, b"")].concat());
        result.expect("the end of the connection");
        assert_eq!(output.len(), 18 + 10 + zeros);
    }
    let (result, _) = serve(&volume(), [client_flags(3), option(1, b"other")].concat());
    assert!(result.is_err(), "no such export");
}

#[test]
fn options_are_answered_or_refused() {
    let input = [
        client_flags(3),
        option(3, &[]),
        option(3, &[1]),
        option(5, &[]),
        option(8, &[1]),
        set_context("base:allocation"),
        option(8, &[]),
        option(9, &[0; 8]),
        set_context("other:context"),
        option(10, &[0, 0, 0, 0, 255, 255, 255, 255]),
        go(b"other"),
        option(7, &[0, 0, 0, 9]),
        option(2, &[]),
    ]
    .concat();
    let (result, output) = serve(&volume(), input);
    result.expect("the client aborts");
    let mut answers = Answers(output);
    answers.greeting();
    let (unsupported, invalid, unknown) = (0x8000_0001, 0x8000_0003, 0x8000_0006);
    let main = [&4_u32.to_be_bytes(), b"main".as_slice()].concat();
    assert_eq!(answers.option(3), (2, main));
    assert_eq!(answers.option(3).0, 1);
    assert_eq!(answers.option(3).0, invalid);
    assert_eq!(answers.option(5).0, unsupported, "TLS");
    assert_eq!(answers.option(8).0, invalid);
    assert_eq!(answers.option(10).0, invalid, "no structured replies");
    assert_eq!(answers.option(8).0, 1);
    assert_eq!(answers.option(9).1, [&[0; 4], b"base:allocation".as_slice()].concat());
    assert_eq!(answers.option(9).0, 1);
    assert_eq!(answers.option(10).0, 1, "no context, and no error");
    assert_eq!(answers.option(10).0, invalid, "a count without queries");
    assert_eq!(answers.option(7).0, unknown);
    assert_eq!(answers.option(7).0, invalid);
    assert_eq!(answers.option(2).0, 1);
    answers.end();
}

#[test]
fn requests_read_what_was_written() {
    for is_structured in [false, true] {
        let volume = volume();
        let block = [5; 4096];
        let mut answers = requests(
            &volume,
            is_structured,
            &[
                [request(1, 1, 4096, 4096), block.to_vec()].concat(),
                request(0, 0, 4000, 200),
                request(0, 4, 4096, 4096),
                request(0, 0, 4096, 96),
                [request(0, 1, 100, 3), vec![1, 2, 3]].concat(),
                request(2, 6, 101, 1),
                request(0, 0, 100, 3),
                request(0, 3, 0, 0),
                request(0, 2, 0, 0),
            ],
        );
        let data = |answers: &mut Answers, offset: u64, expected: &[u8]| {
            if !is_structured {
                assert_eq!(answers.simple(), 0);
                assert_eq!(answers.take(expected.len()), expected);
            } else if expected.iter().all(|byte| *byte == 0) {
                let len = u32::try_from(expected.len()).expect("short").to_be_bytes();
                let hole = [offset.to_be_bytes().as_slice(), &len].concat();
                assert_eq!(answers.chunk(), (2, hole));
            } else {
                let payload = [&offset.to_be_bytes(), expected].concat();
                assert_eq!(answers.chunk(), (1, payload));
            }
        };
        assert_eq!(answers.simple(), 0, "write");
        data(&mut answers, 4000, &[vec![0; 96], vec![5; 104]].concat());
        assert_eq!(answers.simple(), 0, "trim");
        data(&mut answers, 4096, &[0; 96]);
        assert_eq!(answers.simple(), 0, "write");
        assert_eq!(answers.simple(), 0, "write zeroes");
        data(&mut answers, 100, &[1, 0, 3]);
        assert_eq!(answers.simple(), 0, "flush");
        answers.end();
    }
}

#[test]
fn block_status_tells_holes() {
    let volume = volume();
    volume.write(8192, &[1; 8192]).expect("written");
    let mut answers = requests(
        &volume,
        true,
        &[request(0, 7, 0, 65536), request(8, 7, 9000, 20000), request(0, 7, 0, 0)],
    );
    let numbers = |numbers: &[u32]| numbers.iter().flat_map(|it| it.to_be_bytes()).collect();
    assert_eq!(answers.chunk(), (5, numbers(&[1, 8192, 3, 8192, 0, 49152, 3])));
    assert_eq!(answers.chunk(), (5, numbers(&[1, 7384, 0])));
    assert_eq!(answers.chunk(), (0x8001, vec![0, 0, 0, 22, 0, 0]), "no length");
    answers.end();
}

#[test]
fn wrong_requests_have_the_errors_of_the_protocol() {
    let volume = volume();
    let (invalid, no_space, overflow) = (22, 28, 75);
    let mut answers = requests(
        &volume,
        false,
        &[
            request(0, 0, 65000, 1000),
            request(0, 0, u64::MAX, 2),
            request(0, 0, 0, 64 * 1024 * 1024),
            [request(0, 1, 65536, 4), vec![0; 4]].concat(),
            request(0, 6, 65536, 4),
            request(0, 4, 65536, 4),
            request(0, 5, 0, 4096),
            request(0, 99, 0, 0),
            request(0, 3, 1, 0),
            request(64, 0, 0, 1),
            request(0, 7, 0, 4096),
            request(0, 0, 0, 0),
        ],
    );
    let expected = [
        invalid, invalid, invalid, no_space, no_space, invalid, invalid, invalid, invalid, invalid,
        invalid, 0,
    ];
    let errors: Vec<u32> = expected.iter().map(|_| answers.simple()).collect();
    assert_eq!(errors, expected);
    answers.end();
    let large = open(&create(32 * 1024, 4096, "exact"));
    let mut answers = requests(&large, false, &[request(0, 0, 0, 64 * 1024 * 1024)]);
    assert_eq!(answers.simple(), overflow);
    let long = [request(0, 1, 0, 33 * 1024 * 1024), vec![1; 33 * 1024 * 1024]].concat();
    let mut answers = requests(&large, false, &[long, request(0, 3, 0, 0)]);
    assert_eq!((answers.simple(), answers.simple()), (invalid, 0), "the next request is found");
}

#[test]
fn disk_for_reading_refuses_changes() {
    let folder = create(16, 4096, "exact");
    let volume = open_folder(shared(&folder), &OpenOptions::new(Access::Read)).expect("opened");
    let changes = [
        [request(0, 1, 0, 4), vec![1; 4]].concat(),
        request(0, 4, 0, 4096),
        request(0, 6, 0, 4096),
        request(0, 3, 0, 0),
    ];
    let mut answers = requests(&volume, false, &changes);
    assert_eq!([(); 4].map(|()| answers.simple()), [1, 1, 1, 0]);
}

#[test]
fn damaged_block_is_an_input_output_error() {
    let folder: FaultyFolder = create(16, 4096, "exact");
    let volume = open(&folder);
    volume.write(0, &[1; 4096]).expect("written");
    folder.flip("segment-0000000000000001", 3000, 0);
    let mut answers = requests(&volume, false, &[request(0, 0, 0, 10), request(0, 0, 8192, 2)]);
    assert_eq!(answers.simple(), 5);
    assert_eq!((answers.simple(), answers.take(2)), (0, vec![0, 0]));
    let mut answers = requests(&volume, true, &[request(0, 0, 0, 10)]);
    assert_eq!(answers.chunk(), (0x8001, vec![0, 0, 0, 5, 0, 0]));
}

#[test]
fn full_storage_is_no_space() {
    let folder: FaultyFolder = create(16, 4096, "exact");
    let volume = open(&folder);
    folder.limit(Some(1000));
    let write = [request(0, 1, 0, 4096), vec![1; 4096]].concat();
    let mut answers = requests(&volume, false, &[write, request(0, 0, 0, 1)]);
    assert_eq!(answers.simple(), 28);
    assert_eq!((answers.simple(), answers.take(1)), (0, vec![0]));
}

/// Whatever a peer sends, the server neither panics nor reserves memory for it, and the disk can be
/// read.
#[test]
fn hostile_bytes_end_the_connection_at_most() {
    let volume = volume();
    let good: Vec<u8> = [
        client_flags(3),
        option(8, &[]),
        set_context("base:allocation"),
        go(b""),
        [request(0, 1, 4096, 64), vec![9; 64]].concat(),
        request(0, 0, 0, 8192),
        request(0, 7, 0, 65536),
        request(0, 6, 100, 9000),
        request(1, 4, 0, 65536),
    ]
    .concat();
    let mut numbers = SplitMix64::new(4);
    for round in 0..4000 {
        let mut bytes = good.clone();
        for _ in 0..=numbers.below(6) {
            let place = numbers.below(bytes.len());
            match numbers.below(4) {
                0 => bytes[place] = numbers.byte(),
                1 => bytes[place] ^= 1 << numbers.below(8),
                2 => bytes.truncate(place.max(1)),
                _ => bytes[place] = [0, 1, 0x7f, 0xff][numbers.below(4)],
            }
        }
        if round % 8 == 0 {
            let len = numbers.below(200);
            bytes = numbers.take(len);
        }
        // Any end will do.
        serve(&volume, bytes).0.ok();
    }
    // A length of 4 GiB is announced, and does not come.
    for long in [option(7, &[]), request(0, 1, 0, u32::MAX)] {
        let mut bytes = [client_flags(3), go(b""), long].concat();
        let end = bytes.len();
        bytes[end - 4..].copy_from_slice(&u32::MAX.to_be_bytes());
        assert!(serve(&volume, bytes).0.is_err(), "the end of the connection");
    }
    assert_eq!(volume.audit(), Ok(()));
    let mut all = vec![0; 65536];
    volume.read(0, &mut all).expect("the disk is whole");
}

#[test]
fn disks_and_snapshots_are_exports() {
    let volume = volume();
    volume.write(0, &[1; 4096]).expect("written");
    volume.snapshot("main", "first").expect("taken");
    volume.write(0, &[2; 4096]).expect("written");
    volume.create_disk("other", 8192).expect("created");
    let mut answers =
        Answers(serve(&volume, [client_flags(3), option(3, &[]), go(b"other")].concat()).1);
    answers.greeting();
    let listed = [(); 4].map(|()| answers.option(3));
    let named = |name: &str| {
        [&u32::try_from(name.len()).expect("short").to_be_bytes(), name.as_bytes()].concat()
    };
    let names = ["main", "other", "main@first"].map(|name| (2, named(name)));
    assert_eq!(listed[..3], names, "the names");
    let (_, export) = answers.option(7);
    assert_eq!(export[2..10], 8192_u64.to_be_bytes(), "the size of the other disk");
    for (name, byte) in [(b"main".as_slice(), 2), (b"main@first", 1), (b"", 2)] {
        let input = [client_flags(3), go(name), request(0, 0, 0, 1)].concat();
        let (_, output) = serve(&volume, input);
        assert_eq!(output.last(), Some(&byte), "{}", String::from_utf8_lossy(name));
    }
    let refused = [client_flags(3), go(b"none"), go(b"main@none"), option(2, &[])].concat();
    let mut answers = Answers(serve(&volume, refused).1);
    answers.greeting();
    let unknown = 1 << 31 | 6;
    assert_eq!([answers.option(7).0, answers.option(7).0], [unknown; 2]);
}

/// A context that was agreed on for one export does not count for another one.
#[test]
fn context_belongs_to_its_export() {
    let volume = volume();
    volume.create_disk("other", 8192).expect("created");
    let mut input = client_flags(3);
    input.extend(option(8, &[]));
    input.extend(set_context("base:allocation"));
    input.extend(go(b"other"));
    input.extend(request(0, 7, 0, 4096));
    let mut answers = Answers(serve(&volume, input).1);
    answers.greeting();
    answers.option(8);
    answers.option(10);
    answers.option(10);
    let kinds = [(); 3].map(|()| answers.option(7).0);
    assert_eq!(kinds, [3, 3, 1], "the export");
    let invalid = 22;
    assert_eq!(answers.0[20 + 3], invalid, "no context for this export");
}

/// A peer that waits for each reply before it sends more, and knows what a power cut at the moment of
/// each reply leaves.
struct Witness<'a> {
    folder: &'a FaultyFolder,
    messages: VecDeque<Vec<u8>>,
    /// Called once all messages were answered, before the connection ends.
    at_end: Box<dyn FnMut() + 'a>,
    cuts: Vec<FaultyFolder>,
}

impl Read for Witness<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(message) = self.messages.pop_front() else {
            (self.at_end)();
            return Ok(0);
        };
        let (now, later) = message.split_at(message.len().min(buffer.len()));
        buffer[..now.len()].copy_from_slice(now);
        if !later.is_empty() {
            self.messages.push_front(later.to_vec());
        }
        Ok(now.len())
    }
}

impl Write for Witness<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.cuts.push(self.folder.after_power_cut(Survival::Synced));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Serves requests one after the other, then calls `at_end`, and returns what a power cut at the reply to
/// each request leaves.
fn witness(
    folder: &FaultyFolder,
    volume: &Opened,
    requests: &[Vec<u8>],
    at_end: impl FnMut(),
) -> Vec<FaultyFolder> {
    let messages = [&[client_flags(3), go(b"")], requests].concat();
    let at_end = Box::new(at_end);
    let mut peer = Witness { folder, messages: messages.into(), at_end, cuts: Vec::new() };
    let result = serve_connection(&mut peer, &VolumeExports(Arc::clone(&volume.volume)));
    result.expect("the peer keeps the protocol");
    peer.cuts.split_off(peer.cuts.len() - requests.len())
}

/// Returns a request to write bytes.
fn write_request(flags: u16, offset: u64, bytes: &[u8]) -> Vec<u8> {
    let len = u32::try_from(bytes.len()).expect("short");
    [request(flags, 1, offset, len).as_slice(), bytes].concat()
}

/// Returns the disk of a volume of 16 blocks that is opened from a folder.
fn disk_in(folder: &FaultyFolder) -> Vec<u8> {
    let mut bytes = vec![0; 65536];
    open(folder).read(0, &mut bytes).expect("read");
    bytes
}

#[test]
fn write_with_fua_and_flush_are_durable_when_they_are_answered() {
    const FUA: u16 = 1;
    let folder = create(16, 4096, "burst");
    let volume = open(&folder);
    let ones = [1; 4096];
    let flush = || (request(0, 3, 0, 0), 0..0, 0, true);
    // Each request, the range that it changes, its new byte, and whether all is durable then.
    let steps = [
        (write_request(0, 0, &ones), 0..4096, 1, false),
        (write_request(FUA, 4096, &[2; 8192]), 4096..12288, 2, true),
        (write_request(0, 0, &[3; 4096]), 0..4096, 3, false),
        flush(),
        // Parts of blocks.
        (write_request(0, 100, &[4; 10]), 100..110, 4, false),
        flush(),
        (write_request(FUA, 4200, &[5; 10]), 4200..4210, 5, true),
        (request(0, 4, 0, 4096), 0..4096, 0, false),
        (request(FUA, 4, 4096, 4096), 4096..8192, 0, true),
        (request(0, 6, 8192, 100), 8192..8292, 0, false),
        (request(FUA, 6, 9000, 100), 9000..9100, 0, true),
        (write_request(0, 8192, &ones), 8192..12288, 1, false),
        (request(FUA, 3, 0, 0), 0..0, 0, true),
    ];
    let requests: Vec<Vec<u8>> = steps.iter().map(|(request, ..)| request.clone()).collect();
    let cuts = witness(&folder, &volume, &requests, || ());
    let mut now = vec![0; 65536];
    let mut durable = now.clone();
    for (step, ((_, range, byte, is_durable), cut)) in steps.into_iter().zip(cuts).enumerate() {
        now[range].fill(byte);
        if is_durable {
            durable.clone_from(&now);
        }
        // No other step waits for the disk.
        assert!(disk_in(&cut) == durable, "step {step}");
    }
}

/// The export says that it may have several connections: `NBD_FLAG_CAN_MULTI_CONN`.
#[test]
fn flush_makes_answered_writes_of_other_connections_durable() {
    let folder = create(16, 4096, "burst");
    let volume = open(&folder);
    // The last one is a part of a block.
    let writes = [(0_u16, vec![1; 4096]), (20_000, vec![2; 9000]), (40_960, vec![3; 700])];
    let requests = writes.clone().map(|(offset, bytes)| write_request(0, offset.into(), &bytes));
    let mut written = vec![0; 65536];
    for (offset, bytes) in &writes {
        written[usize::from(*offset)..][..bytes.len()].copy_from_slice(bytes);
    }
    let mut at_flush = Vec::new();
    let at_writes = witness(&folder, &volume, &requests, || {
        at_flush = witness(&folder, &volume, &[request(0, 3, 0, 0)], || ());
    });
    assert!(disk_in(&at_writes[2]) == vec![0; 65536], "no write waits for the disk");
    assert!(disk_in(&at_flush[0]) == written, "after the flush");
}
