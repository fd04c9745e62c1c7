//! Every decoder of the format, on arbitrary input: it never panics, never trusts a length before
//! it has seen the bytes, and accepts from an encoder exactly what was encoded.

use crate::support::decoding;
use std::sync::LazyLock;

use crate::support::decoding::{
    DECODERS, REGIONS_END, encode_content, encode_delta_chunk, keyring,
};
use bytes::Bytes;
use cutpoint_repository::crypto::{
    HEADER_LEN, Header, KeyAbout, object_is_intact, open_object, seal_object, unwrap_keyring,
    wrap_keyring,
};
use cutpoint_repository::format::commit::{
    Commit, CopyCoverage, Damage, EMBEDDED_LEN_MAX, Note, Origin, OriginId, OriginKey, Outcome,
    Tool, ViewRecord,
};
use cutpoint_repository::format::config::Config;
use cutpoint_repository::format::edges::{ContainerEdges, SimilarityObject};
use cutpoint_repository::format::extents::Extent;
use cutpoint_repository::format::parity::ParityTable;
use cutpoint_repository::format::prune::{Covering, Prune};
use cutpoint_repository::format::recipe::{RecipeChunk, Segment as Piece};
use cutpoint_repository::format::segment::{ContainerRecord, Segment};
use cutpoint_repository::format::ticket::{MachineValue, Ticket};
use cutpoint_repository::format::toc::{ChunkRecord, Codec, Form, RegionRecord, Toc};
use cutpoint_repository::format::tree::Defect;
use cutpoint_repository::format::view_part::ViewPart;
use cutpoint_repository::{
    CipherSuite, Class, Content, Entry, EntryKind, Fingerprint, KdfLimits, Keyring, Keys,
    ObjectName, PartName, Purpose, RepositoryId, Secret, Snapshot, Statistics, TicketId, Time,
    Unlock,
};
use cutpoint_storage::{Kind, Process};
use proptest::prelude::*;
use proptest::sample::Index;

fn encode_entry(entry: &Entry) -> Vec<u8> {
    let mut bytes = Vec::new();
    entry.encode_into(&mut bytes);
    bytes
}

fn part(byte: u8) -> PartName {
    PartName { ticket: TicketId([byte; 12]), count: u32::from(byte) }
}

fn pieces() -> Vec<Piece> {
    vec![
        Piece::Chunk { fingerprint: Fingerprint([1; 32]), offset: 0, length: 70_000 },
        Piece::Hole { length: 1 << 40 },
        Piece::Chunk { fingerprint: Fingerprint([2; 32]), offset: 300, length: 1 },
        Piece::Zeros { length: 4096 },
    ]
}

fn snapshot() -> Snapshot {
    Snapshot {
        root: Content::Recipe(Fingerprint([6; 32])),
        sources: vec![b"/home".to_vec(), vec![0xff, 0xfe]],
        host: "host".to_owned(),
        user: "user".to_owned(),
        started_ns: -1,
        finished_ns: i64::MAX,
        tags: vec!["a".to_owned(), "b".to_owned()],
        description: "two words".to_owned(),
        cut: "fixed".to_owned(),
        parent: Some(TicketId([1; 12])),
        partial: true,
        statistics: Statistics { file_count: 1, size: u64::MAX, ..Statistics::default() },
        program: "0.1.0".to_owned(),
        missing: vec![1],
        file_systems: vec!["ext4 0123456789abcdef".to_owned(), String::new()],
        read_since_ns: Some(-2),
        origin: Some(Box::new(Origin {
            key: OriginKey {
                tool: Tool::Restic,
                repository: OriginId::new(&[8; 32]).expect("an id"),
                snapshot: TicketId([9; 12]).into(),
            },
            coverage: CopyCoverage::Reduced,
        })),
    }
}

/// Returns a segment of one container.
fn small_segment(name: PartName) -> Segment {
    let container = ContainerRecord {
        name,
        class: Class::Meta,
        has_delta_chunks: false,
        stored_len: 8192,
        toc_offset: 100,
        toc_len: 4112,
    };
    Segment { containers: vec![container], hints: vec![(7, 0), (8, 0)], ..Segment::default() }
}

fn commit(outcome: Outcome) -> Vec<u8> {
    let view = ViewRecord { prune: 3, new: vec![TicketId([9; 12])], digest: [8; 32] };
    let extra = vec![(130, vec![0x18, 0x2a])];
    let is_snapshot = matches!(outcome, Outcome::Snapshot(_));
    let embedded = is_snapshot.then(|| Box::new(small_segment(part(2))));
    let segments = vec![part(1), part(2)];
    Commit { outcome, segments, embedded, view, time_ns: -5, extra }.encode()
}

/// 5302 bytes of four references, two of which are new or at another place.
fn burst() -> [Extent; 4] {
    let extent = |reference, offset, len| Extent { reference, offset, len };
    [extent(3, 0, 5000), extent(0, 700, 2), extent(3, 5002, 200), extent(3, 9, 100)]
}

/// Valid encodings, each with the number of its decoder.
static VALID: LazyLock<Vec<(usize, Vec<u8>)>> = LazyLock::new(|| {
    let config = Config {
        repository: RepositoryId([5; 16]),
        suite: CipherSuite::ChaCha20Poly1305,
        cut: "fixed".to_owned(),
        cut_is_keyed: true,
        region_size: 128 * 1024,
        container_size: 16 * 1024 * 1024,
        compression_level: -3,
        parity_percent: 10,
        delta: "burst:tau=1/8,c_max=255,variant=burst".to_owned(),
        probed: vec!["s3".to_owned(), "gs".to_owned()],
        created_ns: 1 << 60,
        features_read: vec!["a".to_owned()],
        features_write: Vec::new(),
        features_optional: vec!["b".to_owned(), String::new()],
        extra: vec![(131, vec![0x83, 1, 2, 3])],
    };
    let process = Process {
        host: "h".to_owned(),
        boot_id: "b".to_owned(),
        namespace: "n".to_owned(),
        process_id: 9,
        started: 1 << 40,
    };
    let machine = Some(MachineValue([8; 16]));
    let ticket =
        Ticket { purpose: Purpose::Sweep, process, machine, time_ns: -9, extra: Vec::new() };
    let note = Note {
        snapshot: Some(TicketId([2; 12])),
        replaces: vec![TicketId([3; 12])],
        tags: vec!["t".to_owned()],
        description: "d".to_owned(),
    };
    let damage =
        Damage { class: Class::Meta, container: part(4), fingerprint: Fingerprint([5; 32]) };
    let prune = Prune {
        published: vec![part(1)],
        superseded: vec![part(2), part(3)],
        condemned: vec![(Class::Data, part(4)), (Class::Meta, part(5))],
        taken: vec![TicketId([1; 12])],
        marked: vec![TicketId([2; 12])],
        ticket: Some(TicketId([3; 12])),
        time_ns: 77,
        held: vec![TicketId([4; 12])],
        released: vec![TicketId([5; 12])],
        unforgotten: vec![TicketId([6; 12])],
        given_up: vec![1, u64::MAX],
        swept: vec![2, u64::MAX],
        attested: vec![TicketId([7; 12])],
        marked_base: Some(8),
        unmarked: vec![TicketId([9; 12])],
        spent: vec![part(7)],
        coverings: vec![Covering { segment: part(1), covered: vec![part(2), part(6)] }],
        extra: Vec::new(),
    };
    let record = |byte, class| ContainerRecord {
        name: part(byte),
        class,
        has_delta_chunks: byte == 1,
        stored_len: 1 << 24,
        toc_offset: 1 << 23,
        toc_len: 4112,
    };
    let segment = Segment {
        containers: vec![record(1, Class::Data), record(2, Class::Meta)],
        hints: vec![(0, 1), (5, 0), (5, 1), (u64::MAX, 0)],
        extra: Vec::new(),
    };
    let region = |offset, references| RegionRecord {
        offset,
        stored_len: 1000,
        raw_len: 5000,
        codec: Codec::Zstd,
        references,
    };
    let chunk = |form, region, payload_len: u32| ChunkRecord {
        fingerprint: Fingerprint([payload_len.to_le_bytes()[0]; 32]),
        form,
        region,
        offset: 10,
        payload_len,
        chunk_len: 4000,
    };
    let toc = Toc {
        regions: vec![region(64, Vec::new()), region(1064, vec![Fingerprint([4; 32]); 2])],
        chunks: vec![
            chunk(Form::Full, 0, 4000),
            chunk(Form::Literal, 1, 4000),
            ChunkRecord { offset: 4010, ..chunk(Form::Delta, 1, 90) },
        ],
        extra: vec![(200, vec![0xf6])],
    };
    let recipe = RecipeChunk { level: 0, cut: "c".to_owned(), segments: pieces(), extra: vec![] };
    let mut entry = Entry::new(&b"na\xffme"[..], EntryKind::File);
    entry.mode = 0o4755;
    entry.user_id = u32::MAX;
    entry.group = "staff".to_owned();
    entry.mtime = Time { seconds: -1, nanoseconds: 999_999_999 };
    entry.links = 2;
    entry.device = 3;
    entry.size = 1 << 41;
    entry.content = Content::Segments(pieces());
    entry.xattrs = vec![(b"user.a".to_vec(), vec![0; 40]), (b"user.b".to_vec(), Vec::new())];
    entry.defect = Some(Defect::Short);
    entry.extra = vec![(128, vec![0xf5]), (4_000_000_000, vec![0x41, 0])];
    let parity = ParityTable {
        class: Class::Meta,
        container: part(8),
        container_len: 3 * 8192 - 5,
        shard_len: 8192,
        parity_count: 2,
        checksums: vec![[1; 16], [2; 16], [3; 16]],
        extra: vec![(128, vec![0xf6])],
    };
    let edges = |byte, edges| ContainerEdges { container: part(byte), edges };
    let hints = SimilarityObject {
        containers: vec![
            edges(1, vec![[1, 2], [3, u32::MAX]]),
            edges(2, vec![]),
            edges(3, vec![[0; 2]]),
        ],
        extra: vec![(128, vec![0xf6])],
    };
    let view_part = ViewPart {
        objects: vec![Bytes::from_static(&[7; 70]), Bytes::new(), Bytes::from_static(&[8; 300])],
        extra: vec![(128, vec![0xf6])],
    };
    vec![
        (9, parity.encode()),
        (0, config.encode()),
        (0, Config { parity_percent: 0, ..config }.encode()),
        (1, ticket.encode()),
        (2, commit(Outcome::Snapshot(Box::new(snapshot())))),
        (2, commit(Outcome::Void { is_own: false })),
        (2, commit(Outcome::Void { is_own: true })),
        (2, commit(Outcome::Forget(vec![TicketId([1; 12])]))),
        (2, commit(Outcome::Note(note))),
        (2, commit(Outcome::Damage(vec![damage]))),
        (2, commit(Outcome::Rescue)),
        (2, commit(Outcome::Swept(u64::MAX))),
        (3, prune.encode()),
        (3, Prune::default().encode()),
        (4, segment.encode()),
        (4, Segment::default().encode()),
        (5, toc.encode()),
        (5, Toc::default().encode()),
        (6, recipe.encode()),
        (7, encode_entry(&entry)),
        (7, encode_entry(&Entry::new("n", EntryKind::Fifo))),
        (8, encode_content(&Content::Empty)),
        (8, encode_content(&Content::Segments(pieces()))),
        (8, encode_content(&Content::Recipe(Fingerprint([1; 32])))),
        (8, encode_content(&Content::Raw(b"../target".to_vec()))),
        (11, SimilarityObject::default().encode()),
        (11, hints.encode()),
        (12, ViewPart::default().encode()),
        (12, view_part.encode()),
        (10, encode_delta_chunk([0xb6, 0x14, 0, 0, 4, 0], &burst())),
    ]
});

#[test]
fn encodings_round_trip() {
    for (decoder, bytes) in VALID.iter() {
        let (name, recode) = DECODERS[*decoder];
        assert_eq!(recode(bytes).as_ref(), Some(bytes), "{name}");
    }
    let bytes = keyring().encode();
    assert_eq!(Keyring::decode(&bytes).ok(), Some(keyring()), "keyring");
}

/// No encoding can be shortened. (A table of contents ends in padding that its length leaves out.)
#[test]
fn every_prefix_is_refused() {
    for (decoder, bytes) in VALID.iter().filter(|(decoder, _)| *decoder != 5) {
        let (name, recode) = DECODERS[*decoder];
        for len in 0..bytes.len() {
            assert_eq!(recode(&bytes[..len]), None, "{name}: the first {len} bytes");
        }
    }
}

/// Counts that claim more than there is. A decoder that trusted one would ask for gigabytes.
#[test]
fn claimed_lengths_are_not_trusted() {
    let huge = u32::MAX.to_le_bytes();
    let mut toc = Toc::default().encode();
    toc[8..12].copy_from_slice(&huge);
    assert!(Toc::decode(&toc, REGIONS_END).is_err(), "too many chunks");
    toc[8..12].copy_from_slice(&[0; 4]);
    toc[4..8].copy_from_slice(&65_535_u32.to_le_bytes());
    assert!(Toc::decode(&toc, REGIONS_END).is_err(), "too many regions");
    toc[..4].copy_from_slice(&huge);
    assert!(Toc::decode(&toc, REGIONS_END).is_err(), "too many bytes");
    for at in [0, 4] {
        let mut segment = Segment::default().encode();
        segment[at..at + 4].copy_from_slice(&huge);
        assert!(Segment::decode(&segment).is_err(), "too many records");
    }
    // An array, a map, a text and a byte string of 2^63 and of 2^32 - 1, at each place where one
    // could stand.
    for (decoder, bytes) in VALID.iter() {
        let (_, recode) = DECODERS[*decoder];
        for at in 0..bytes.len() {
            for major in [0x40, 0x60, 0x80, 0xa0] {
                for claim in [
                    &[major | 0x1b, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff][..],
                    &[major | 0x1a, 0xff, 0xff, 0xff, 0xff],
                ] {
                    let mut claimed = bytes[..at].to_vec();
                    claimed.extend_from_slice(claim);
                    claimed.extend_from_slice(&bytes[at..]);
                    recode(&claimed);
                }
            }
        }
    }
}

/// A small container that is expensive to read: the same bytes again and again.
#[test]
fn overlapping_regions_and_chunks_are_refused() {
    let region = |offset, stored_len| RegionRecord {
        offset,
        stored_len,
        raw_len: 5000,
        codec: Codec::Store,
        references: Vec::new(),
    };
    let chunk = |region, offset| ChunkRecord {
        fingerprint: Fingerprint([1; 32]),
        form: Form::Full,
        region,
        offset,
        payload_len: 100,
        chunk_len: 100,
    };
    let refused = |regions: Vec<RegionRecord>, chunks: Vec<ChunkRecord>| {
        let toc = Toc { regions, chunks, extra: Vec::new() };
        Toc::decode(&toc.encode(), REGIONS_END).err().map(|error| error.to_string())
    };
    let two = || vec![region(64, 100), region(164, 100)];
    assert_eq!(refused(two(), vec![chunk(0, 0), chunk(0, 100), chunk(1, 0)]), None, "in order");
    for (case, regions, chunks) in [
        ("the header as a region", vec![region(63, 100)], vec![]),
        ("the same region twice", vec![region(64, 100), region(64, 100)], vec![]),
        ("a byte in two regions", vec![region(64, 100), region(163, 100)], vec![]),
        ("regions out of order", vec![region(164, 100), region(64, 100)], vec![]),
        ("all the same", vec![region(64, 100); 65_535], vec![]),
        ("the same chunk twice", two(), vec![chunk(0, 5), chunk(0, 5)]),
        ("a byte in two chunks", two(), vec![chunk(0, 5), chunk(0, 104)]),
        ("chunks out of order", two(), vec![chunk(1, 0), chunk(0, 0)]),
    ] {
        let message = refused(regions, chunks).unwrap_or_default();
        assert!(message.contains("begins before") || message.contains("overlaps"), "{case}");
    }
}

/// Returns the error of decoding a commit with `body` as its embedded segment.
fn refusal(outcome: Outcome, segments: Vec<PartName>, body: &[u8]) -> Option<String> {
    let mut encoder = minicbor::Encoder::new(Vec::new());
    encoder.bytes(body).expect("a vector takes it");
    let (view, extra) = (ViewRecord::default(), vec![(25, encoder.into_writer())]);
    let commit = Commit { outcome, segments, embedded: None, view, time_ns: 0, extra };
    Commit::decode(&commit.encode()).err().map(|error| error.to_string())
}

/// Only the commit of a snapshot may have an index segment, which is short and names containers of
/// its own writer.
#[test]
fn embedded_segments_of_others_are_refused() {
    // Keys behind the one of the segment would be out of order.
    let snapshot = || Outcome::Snapshot(Box::new(Snapshot { origin: None, ..snapshot() }));
    let own = || vec![part(1), part(2)];
    let body = small_segment(part(2)).encode();
    assert_eq!(refusal(snapshot(), own(), &body), None, "as it is written");
    let refuse = |outcome, segments, body: &[u8], expected: &str| {
        let refused = refusal(outcome, segments, body).unwrap_or_default();
        assert!(refused.contains(expected), "{expected}: {refused:?}");
    };
    refuse(snapshot(), Vec::new(), &body, "without a name");
    refuse(snapshot(), vec![part(2), part(1)], &body, "another writer");
    refuse(snapshot(), own(), &small_segment(part(1)).encode(), "another writer");
    refuse(Outcome::Rescue, own(), &body, "newer");
    refuse(Outcome::Void { is_own: true }, own(), &body, "newer");
    for len in 0..body.len() {
        assert!(refusal(snapshot(), own(), &body[..len]).is_some(), "{len} bytes of it");
    }
    let mut lying = body.clone();
    lying[4..8].copy_from_slice(&u32::MAX.to_le_bytes());
    assert!(refusal(snapshot(), own(), &lying).is_some(), "a number of hints that are not there");
    let full = |hint_count| {
        let hints = (0..hint_count).map(|hint| (hint, 0)).collect();
        Segment { hints, ..small_segment(part(2)) }.encode()
    };
    let most = (EMBEDDED_LEN_MAX - full(0).len()) / 12;
    assert_eq!(refusal(snapshot(), own(), &full(most as u64)), None, "the longest");
    refuse(snapshot(), own(), &full(most as u64 + 1), "too long");
}

/// The vectors are those of key 27 in docs/format.md: a map ends with it if the tool is this program.
#[test]
fn coverage_of_a_copy_has_its_number() {
    let key = OriginKey::own(cutpoint_repository::RepositoryId([8; 16]), TicketId([9; 12]));
    let commit = |coverage| {
        let origin = Some(Box::new(Origin { key, coverage }));
        let outcome = Outcome::Snapshot(Box::new(Snapshot { origin, ..snapshot() }));
        let (segments, view) = (vec![part(1)], ViewRecord::default());
        Commit { outcome, segments, embedded: None, view, time_ns: 0, extra: Vec::new() }
    };
    let mut of_snapshot = vec![0x18, 0x1a, 0x82, 0x50];
    of_snapshot.extend([[8; 16].as_slice(), &[0x4c], &[9; 12]].concat());
    for (coverage, vector) in [
        (CopyCoverage::Complete, [].as_slice()),
        (CopyCoverage::Begun, &[0x18, 0x1b, 0x01]),
        (CopyCoverage::Reduced, &[0x18, 0x1b, 0x02]),
        (CopyCoverage::Lossy, &[0x18, 0x1b, 0x03]),
    ] {
        let bytes = commit(coverage).encode();
        let end = [&of_snapshot[..], vector].concat();
        assert!(bytes.ends_with(&end), "{coverage:?}: {bytes:02x?}");
        assert_eq!(Commit::decode(&bytes).expect("as it was written"), commit(coverage));
    }
    let mut newer = commit(CopyCoverage::Lossy).encode();
    *newer.last_mut().expect("a number") = 4;
    let refused = Commit::decode(&newer).expect_err("no such part").to_string();
    assert!(refused.contains("unknown coverage of a copy: 4"), "{refused}");
}

/// Arrays in arrays, as in an entry of a newer version, nested too deeply for any stack.
#[test]
fn deep_nesting_is_refused() {
    let mut bytes = vec![0xa1, 0x18, 0x80];
    bytes.resize(1 << 20, 0x81);
    for (name, recode) in &DECODERS[..4] {
        assert_eq!(recode(&bytes), None, "{name}");
    }
}

#[test]
fn keyring_opens_only_with_its_key() {
    let id = [7; 16];
    let name = ObjectName::Key { id, copy: false };
    let unlock = Unlock::KeyFile(Secret([1; 32]));
    let about = KeyAbout { made_ns: 5, label: "laptop".to_owned(), epoch: 7 };
    let salts = [[2; 16], [3; 16]];
    let bytes = wrap_keyring(&keyring(), &unlock, CipherSuite::Aes256Gcm, id, salts, &about)
        .expect("a key file wraps");
    let open =
        |bytes: &[u8], unlock: &Unlock| unwrap_keyring(name, bytes, unlock, KdfLimits::default());
    let opened = open(&bytes, &unlock).expect("it is intact").expect("it is the key");
    assert_eq!(opened, (keyring(), CipherSuite::Aes256Gcm));
    let keys = Keys::derive(&keyring(), CipherSuite::Aes256Gcm);
    let told = |bytes: &[u8]| KeyAbout::of_object(&keys, name, bytes);
    assert_eq!(told(&bytes).expect("it is intact"), Some(about.clone()), "without the key file");
    let foreign = Keyring { epochs: vec![(7, Secret([9; 32]))], ..keyring() };
    let foreign = Keys::derive(&foreign, CipherSuite::Aes256Gcm);
    assert!(KeyAbout::of_object(&foreign, name, &bytes).is_err(), "another repository's keys");
    let other = Unlock::KeyFile(Secret([9; 32]));
    assert!(open(&bytes, &other).expect("it is intact").is_none(), "another key");
    for place in 0..bytes.len() {
        let mut flipped = bytes.to_vec();
        flipped[place] ^= 1 << (place % 8);
        assert!(!object_is_intact(&flipped), "byte {place}");
        // Behind the sealed keyring, damage shows only in the checksum.
        if let Ok(Some(opened)) = open(&flipped, &unlock) {
            assert_eq!(opened.0, keyring(), "byte {place} flipped gives other keys");
        }
        if let Ok(Some(told)) = told(&flipped) {
            assert_eq!(told, about, "byte {place} flipped gives another label");
        }
    }
}

/// A keyring that asks for an excessive amount of work is refused before the work is done.
#[test]
fn excessive_stretching_is_refused() {
    let id = [7; 16];
    let name = ObjectName::Key { id, copy: false };
    let unlock = Unlock::KeyFile(Secret([1; 32]));
    let about = KeyAbout { made_ns: 5, label: "laptop".to_owned(), epoch: 7 };
    let salts = [[2; 16], [3; 16]];
    let bytes = wrap_keyring(&keyring(), &unlock, CipherSuite::Aes256Gcm, id, salts, &about)
        .expect("a key file wraps");
    let passphrase = Unlock::Passphrase(b"p".to_vec().into());
    let refused = |fields: [u32; 3]| {
        let mut bytes = bytes.to_vec();
        bytes[HEADER_LEN] = 1;
        for (at, field) in (HEADER_LEN + 4..).step_by(4).zip(fields) {
            bytes[at..at + 4].copy_from_slice(&field.to_le_bytes());
        }
        let opened = unwrap_keyring(name, &bytes, &passphrase, KdfLimits::default());
        opened.err().map(|error| error.kind())
    };
    assert_eq!(refused([u32::MAX, 1, 1]), Some(Kind::Unsupported), "memory");
    assert_eq!(refused([64, 65, 1]), Some(Kind::Unsupported), "passes");
    assert_eq!(refused([64, 1, 65]), Some(Kind::Unsupported), "lanes");
    assert_eq!(refused([0, 0, 0]), Some(Kind::Corrupt), "nothing at all");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn random_bytes_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        decoding::anything(&bytes);
        prop_assert!(!object_is_intact(&bytes));
    }

    #[test]
    fn mutated_encodings_do_no_harm(
        which in any::<Index>(),
        changes in prop::collection::vec((any::<Index>(), any::<u8>(), 0..4_u8), 1..6),
    ) {
        let (decoder, bytes) = which.get(&VALID);
        let mut bytes = bytes.clone();
        for (place, byte, how) in changes {
            let place = place.index(bytes.len());
            match how {
                0 => bytes[place] = byte,
                1 => bytes[place] ^= 1 << (byte % 8),
                2 => bytes.insert(place, byte),
                _ => {
                    // At least one byte stays, because an index needs a position.
                    if bytes.len() > 1 {
                        bytes.remove(place);
                    }
                }
            }
        }
        let (name, recode) = DECODERS[*decoder];
        if let Some(again) = recode(&bytes) {
            prop_assert_eq!(recode(&again), Some(again.clone()), "{}", name);
        }
    }

    #[test]
    fn sealed_objects_round_trip(
        body in prop::collection::vec(any::<u8>(), 0..2000),
        suite in prop::sample::select(vec![
            CipherSuite::None, CipherSuite::Aes256Gcm, CipherSuite::ChaCha20Poly1305,
        ]),
        salt in any::<[u8; 16]>(),
        place in any::<Index>(),
        bit in 0..8_u8,
    ) {
        let keys = Keys::derive(&keyring(), suite);
        let name = ObjectName::Prune(7);
        let bytes: Bytes = seal_object(&keys, name, salt, &body);
        prop_assert!(object_is_intact(&bytes));
        prop_assert_eq!(bytes.len() % 256, 0);
        prop_assert_eq!(open_object(&keys, name, &bytes).ok(), Some(body.clone()));
        prop_assert!(open_object(&keys, ObjectName::Prune(8), &bytes).is_err());
        let header = Header::decode(&name, &bytes).expect("it was just sealed");
        prop_assert_eq!(&header.encode()[..], &bytes[..HEADER_LEN]);
        let mut flipped = bytes.to_vec();
        flipped[place.index(bytes.len())] ^= 1 << bit;
        prop_assert!(!object_is_intact(&flipped));
        // Padding and checksum are not sealed. Every object that opens has the sealed content.
        if let Ok(opened) = open_object(&keys, name, &flipped) {
            prop_assert_eq!(opened, body);
        }
    }

    #[test]
    fn names_round_trip(path in "[a-z]{4,7}/[0-9a-f./-]{0,40}", bytes in any::<[u8; 16]>()) {
        if let Ok(name) = ObjectName::parse(&path) {
            prop_assert_eq!(name.to_string(), path);
        }
        let name = ObjectName::Container(Class::Data, PartName::from_bytes(bytes));
        prop_assert_eq!(ObjectName::parse(&name.to_string()).ok(), Some(name));
    }
}
