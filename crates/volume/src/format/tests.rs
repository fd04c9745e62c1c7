//! Every value survives its bytes, and no other bytes are taken for a value.

use cutpoint_delta::burst::{Side, Tau};

use super::change::{Change, DiskEntry, SnapshotEntry};
use super::checkpoint::Checkpoint;
use super::edge::{Bases, EdgeKey};
use super::patch::Patch;
use super::position::Position;
use super::record::{Body, Encoding, Record, Search, Shape};
use super::run::{PartMeta, RunMeta};
use super::segment::SegmentHeader;
use super::settings::Settings;
use super::span::{BlockId, Span};
use super::superblock::{Suite, Superblock};
use crate::Kind;
use crate::keys::Keys;
use crate::mode::{Burst, Compression, Mode};

const BLOCK_SIZE: usize = 4096;
const SHAPE: Shape = Shape { block_size: BLOCK_SIZE, seal_len: 0 };

pub(crate) fn keys() -> Keys {
    Keys::derive(&[7; 32])
}

fn bodies() -> Vec<Body> {
    let search = Search { exhausted: [true, false], is_cancelled: true };
    let patch = Patch { prefix: 512, suffix: 3000 };
    let (id, fingerprint) = (BlockId { layer: 2, block: 5 }, [3; 32]);
    let full = |keys, features, is_indexed| Body::Full {
        id,
        fingerprint,
        is_indexed,
        keys,
        features,
        search,
    };
    let raw = [Some(EdgeKey::Raw([6; 32])), None];
    let burst = |side| Body::Burst {
        id,
        fingerprint,
        reference: 9,
        side,
        patch,
        search: Search::default(),
    };
    let span = Span { layer: 3, first: 0, count: 77 };
    vec![
        full([Some(EdgeKey::Hash(1)), None], None, true),
        full([None; 2], None, false),
        full(raw, None, true),
        full([None, Some(EdgeKey::Hash(4))], Some([1, 2, 3]), true),
        full([Some(EdgeKey::Raw([6; 32])), Some(EdgeKey::Raw([7; 32]))], Some([9; 3]), true),
        burst(Side::Tail),
        burst(Side::Head),
        Body::Duplicate { id, target: 4 },
        Body::Zero(span),
        Body::Move { target: 8 },
        Body::Change { hash: [4; 32], is_copy: false },
        Body::Change { hash: [4; 32], is_copy: true },
        Body::Delta { id, fingerprint, bases: Bases::new(&[7, 3]).expect("bases") },
        Body::Fold { span, into: Some(4), is_copy: false },
        Body::Fold { span, into: None, is_copy: true },
        Body::Rewrite { target: 5, burst: None },
        Body::Rewrite { target: 5, burst: Some((6, patch)) },
        Body::Summary { hash: [5; 32] },
    ]
}

fn record(body: Body) -> Record {
    let payload_len = match body {
        Body::Full { .. } | Body::Move { .. } | Body::Rewrite { burst: None, .. } => 4096,
        Body::Burst { .. } | Body::Rewrite { .. } => 1024,
        Body::Delta { .. } | Body::Change { .. } | Body::Summary { .. } => 77,
        _ => 0,
    };
    let previous = Span { layer: 1, first: 3, count: 2 };
    Record { seq: 12, durable_seq: 11, previous, encoding: Encoding::Plain, payload_len, body }
}

#[test]
fn encoded_payload_is_shorter_than_its_content() {
    let keys = keys();
    for (body, len, is_right) in [(0, 4096, true), (0, 1, true), (0, 4097, false), (5, 1025, false)]
    {
        let body = bodies()[body];
        let record = Record { encoding: Encoding::Zstd, payload_len: len, ..record(body) };
        let bytes = record.encode(1, 128, &keys);
        let decoded = Record::decode(&bytes, (1, 128), &keys, SHAPE);
        assert_eq!(decoded, is_right.then_some(record), "{body:?}, {len} bytes");
    }
}

#[test]
fn record_survives_its_bytes_at_its_place_only() {
    let keys = keys();
    for body in bodies() {
        let record = record(body);
        let bytes = record.encode(2, 384, &keys);
        let decode = |bytes: &[u8], place, keys: &Keys| Record::decode(bytes, place, keys, SHAPE);
        assert_eq!(decode(&bytes, (2, 384), &keys), Some(record));
        assert_eq!(decode(&bytes, (3, 384), &keys), None, "another segment");
        assert_eq!(decode(&bytes, (2, 512), &keys), None, "another offset");
        assert_eq!(decode(&bytes, (2, 384), &Keys::derive(&[8; 32])), None, "a key");
        assert_eq!(decode(&bytes[..bytes.len() - 1], (2, 384), &keys), None, "too short");
        for bit in 0..bytes.len() * 8 {
            let mut bytes = bytes.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decode(&bytes, (2, 384), &keys), None, "{body:?}, bit {bit}");
        }
    }
}

/// Headers with a valid checksum and other contents, as an error of a writer would make them.
#[test]
fn record_with_a_field_out_of_range_is_refused() {
    let keys = keys();
    for body in bodies() {
        let header = record(body).encode(1, 128, &keys);
        for place in 16..header.len() {
            for value in [1_u8, 0x80, 0xff] {
                let mut bytes = header.clone();
                bytes[place] ^= value;
                let checksum = keys.log_checksum(1, 128, &bytes[16..]);
                bytes[..16].copy_from_slice(&checksum);
                let Some(decoded) = Record::decode(&bytes, (1, 128), &keys, SHAPE) else {
                    continue;
                };
                // Whatever is accepted has exactly these bytes. A long one may be read as short.
                let encoded = decoded.encode(1, 128, &keys);
                assert_eq!(encoded, bytes[..encoded.len()], "{body:?}, byte {place}");
                assert!(decoded.size() <= super::record::LONG_HEADER + 64 * 1024, "{decoded:?}");
            }
        }
    }
}

#[test]
fn segment_header_survives_its_bytes_only() {
    let keys = keys();
    let header = SegmentHeader { volume: [1; 16], number: 4, first_seq: 99 };
    let bytes = header.encode(&keys);
    assert_eq!(SegmentHeader::decode(&bytes, 4, &keys), Some(header));
    assert_eq!(SegmentHeader::decode(&bytes, 5, &keys), None);
    for bit in 0..bytes.len() * 8 {
        let mut bytes = bytes.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(SegmentHeader::decode(&bytes, 4, &keys), None, "bit {bit}");
    }
}

#[test]
fn superblock_survives_its_bytes_only() {
    let superblock = Superblock {
        suite: Suite::Clear,
        id: [1; 16],
        secret: [2; 32],
        block_shift: 13,
        segment_size: 1 << 20,
    };
    let bytes = superblock.encode();
    assert!(Superblock::decode("volume", &bytes).is_ok_and(|it| it == superblock));
    for bit in 0..bytes.len() * 8 {
        let mut bytes = bytes.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let error = Superblock::decode("volume", &bytes).expect_err("damaged");
        assert_eq!(error.kind(), Kind::Corrupt);
    }
    for wrong in [&bytes[..127], &[bytes.as_slice(), &[0]].concat(), &[]] {
        assert!(Superblock::decode("volume", wrong).is_err(), "{} bytes", wrong.len());
    }
    let newer = |place: usize| {
        let mut bytes = bytes.clone();
        bytes[place] = 0xff;
        let checksum = blake3::hash(&bytes[..96]);
        bytes[96..].copy_from_slice(checksum.as_bytes());
        Superblock::decode("volume", &bytes).expect_err("not known").kind()
    };
    assert_eq!([newer(8), newer(10)], [Kind::Unsupported; 2], "version, cipher suite");
    assert_eq!([newer(11), newer(15), newer(70)], [Kind::Corrupt; 3], "fields");
}

/// Returns a checkpoint with an entry of each kind.
fn checkpoint() -> Checkpoint {
    let settings = |mode, compression| {
        Change::Settings(Settings { mode, compression, verifies_duplicates: true })
    };
    let burst = |tau| Mode::Burst(Burst { tau, c_max: 3, has_tails: false });
    let disk = DiskEntry { name: "main".to_owned(), layer: 2, size: 1 << 20 };
    let snapshot =
        SnapshotEntry { disk: 1, name: "a.b_c-d".to_owned(), layer: 1, size: 4096, created: 77 };
    let part = |number, first: &[u8]| PartMeta {
        number,
        entry_count: 700,
        data_page_count: 9,
        filter_len: 128,
        first: first.to_vec(),
    };
    let run = |level, from: &[u8], parts| RunMeta {
        level,
        has_all_keys_in_filter: level == 0,
        from: from.to_vec(),
        parts,
    };
    Checkpoint {
        volume: [1; 16],
        number: 3,
        position: Position { segment: 1, offset: 6400, seq: 20 },
        last_part: 9,
        counters: std::array::from_fn(|index| index as u64),
        totals: std::array::from_fn(|index| 1 << (4 * index)),
        next_id: 5,
        catalog: vec![
            settings(Mode::Off, Compression::None),
            settings(Mode::Exact, Compression::Lz4),
            settings(Mode::Delta, Compression::Zstd(19)),
            settings(burst(Tau::Fraction(8)), Compression::None),
            settings(burst(Tau::Bytes(64)), Compression::None),
            settings(burst(Tau::Raw), Compression::None),
            Change::Layer { id: 1, parent: None },
            Change::Layer { id: 2, parent: Some(1) },
            Change::Disk(1, disk),
            Change::Snapshot(3, snapshot),
            Change::RemoveSnapshot(3),
            Change::RemoveDisk(1),
            Change::RemoveLayer(2),
        ],
        used_counts: vec![(1, 3), (2, 0)],
        live_bytes: vec![(1, 4224), (5, 128)],
        runs: vec![
            run(0, &[], vec![part(9, &[1; 17])]),
            run(2, &[4, 9], vec![part(4, &[2]), part(7, &[5; 33])]),
        ],
    }
}

#[test]
fn checkpoint_survives_its_bytes_only() {
    let keys = keys();
    let checkpoint = checkpoint();
    let bytes = checkpoint.encode(&keys);
    assert_eq!(Checkpoint::decode(&bytes, &keys), Some(checkpoint));
    for len in 0..bytes.len() {
        assert_eq!(Checkpoint::decode(&bytes[..len], &keys), None, "{len} bytes");
    }
    for place in 0..bytes.len() {
        let mut bytes = bytes.clone();
        bytes[place] ^= 0x10;
        assert_eq!(Checkpoint::decode(&bytes, &keys), None, "byte {place}");
    }
}

/// Checkpoints with a valid checksum and other contents: no count makes the decoder reserve more
/// memory than there are bytes, and nothing panics.
#[test]
fn checkpoint_with_a_field_out_of_range_is_refused_or_another_one() {
    let keys = keys();
    let bytes = checkpoint().encode(&keys);
    let end = bytes.len() - 32;
    for place in 0..end {
        for value in [1_u8, 0x80, 0xff] {
            let mut bytes = bytes.clone();
            bytes[place] ^= value;
            let checksum = keys.checkpoint_checksum(&bytes[..end]);
            bytes[end..].copy_from_slice(&checksum);
            if let Some(decoded) = Checkpoint::decode(&bytes, &keys) {
                assert_eq!(decoded.encode(&keys), bytes, "byte {place}");
            }
        }
    }
}
