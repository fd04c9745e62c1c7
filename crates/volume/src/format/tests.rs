//! Every value survives its bytes, and no other bytes are taken for a value.

use cutpoint_delta::burst::{Side, Tau};

use super::checkpoint::{Checkpoint, Form, Place, Position, StoredEntry, ViewEntry};
use super::record::{Body, Patch, Record, Search, Settings, Span, UNIT};
use super::segment::SegmentHeader;
use super::superblock::Superblock;
use crate::Kind;
use crate::keys::Keys;
use crate::mode::{Burst, Mode};

const BLOCK_SIZE: usize = 4096;

pub(crate) fn keys() -> Keys {
    Keys::derive(&[7; 32])
}

fn bodies() -> Vec<Body> {
    let search = Search { exhausted: [true, false], is_cancelled: true };
    let patch = Patch { prefix: 512, suffix: 3000 };
    let (block, fingerprint) = (5, [3; 32]);
    let burst = |tau| Mode::Burst(Burst { tau, c_max: 3 });
    let modes = [Mode::Off, Mode::Exact, burst(Tau::Fraction(8)), burst(Tau::Bytes(64))];
    let settings = modes.map(|mode| Body::Settings(Settings { size: 1 << 30, mode }));
    let mut bodies = vec![
        Body::Full { block, fingerprint, is_indexed: true, keys: [Some(1), None], search },
        Body::Full {
            block,
            fingerprint,
            is_indexed: false,
            keys: [None; 2],
            search: Search::default(),
        },
        Body::Burst { block, fingerprint, reference: 9, side: Side::Tail, patch, search },
        Body::Burst {
            block,
            fingerprint,
            reference: 9,
            side: Side::Head,
            patch,
            search: Search::default(),
        },
        Body::Duplicate { block, target: 4 },
        Body::Zero(Span { first: 0, count: 77 }),
        Body::Move { target: 8 },
    ];
    bodies.extend(settings);
    bodies
}

fn record(body: Body) -> Record {
    let payload_len = match body {
        Body::Full { .. } | Body::Move { .. } => 4096,
        Body::Burst { .. } => 1024,
        _ => 0,
    };
    let previous = Span { first: 3, count: 2 };
    Record { seq: 12, durable_seq: 11, previous, payload_len, body }
}

#[test]
fn record_survives_its_bytes_at_its_place_only() {
    let keys = keys();
    for body in bodies() {
        let record = record(body);
        let bytes = record.encode(2, 384, &keys);
        let decode =
            |bytes: &[u8], place, keys: &Keys, size| Record::decode(bytes, place, keys, size);
        assert_eq!(decode(&bytes, (2, 384), &keys, BLOCK_SIZE), Some(record));
        assert_eq!(decode(&bytes, (3, 384), &keys, BLOCK_SIZE), None, "another segment");
        assert_eq!(decode(&bytes, (2, 512), &keys, BLOCK_SIZE), None, "another offset");
        assert_eq!(decode(&bytes, (2, 384), &Keys::derive(&[8; 32]), BLOCK_SIZE), None, "a key");
        assert_eq!(decode(&bytes[..UNIT - 1], (2, 384), &keys, BLOCK_SIZE), None, "too short");
        for bit in 0..UNIT * 8 {
            let mut bytes = bytes;
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decode(&bytes, (2, 384), &keys, BLOCK_SIZE), None, "{body:?}, bit {bit}");
        }
    }
}

/// Headers with a valid checksum and other contents, as an error of a writer would make them.
#[test]
fn record_with_a_field_out_of_range_is_refused() {
    let keys = keys();
    for body in bodies() {
        let header = record(body).encode(1, 128, &keys);
        for place in 16..UNIT {
            for value in [1_u8, 0x80, 0xff] {
                let mut bytes = header;
                bytes[place] ^= value;
                let checksum = keys.log_checksum(1, 128, &bytes[16..]);
                bytes[..16].copy_from_slice(&checksum);
                let Some(decoded) = Record::decode(&bytes, (1, 128), &keys, BLOCK_SIZE) else {
                    continue;
                };
                // Whatever is accepted has exactly these bytes.
                assert_eq!(decoded.encode(1, 128, &keys), bytes, "{body:?}, byte {place}");
                assert!(decoded.payload_len as usize <= BLOCK_SIZE, "{decoded:?}");
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
    let superblock =
        Superblock { id: [1; 16], secret: [2; 32], block_shift: 13, segment_size: 1 << 20 };
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
pub(crate) fn checkpoint() -> Checkpoint {
    let place = Place { segment: 1, offset: 128 };
    let keys = [Some(5), None];
    let full = Form::Full { is_indexed: true, keys };
    let patch = Patch { prefix: 512, suffix: 3000 };
    let burst = Form::Burst { reference: 1, side: Side::Head, patch };
    Checkpoint {
        volume: [1; 16],
        number: 3,
        position: Position { segment: 1, offset: 6400, seq: 20 },
        settings: Settings { size: 1 << 20, mode: Mode::default() },
        counters: std::array::from_fn(|index| if index < 14 { index as u64 } else { 0 }),
        stored: vec![
            StoredEntry { seq: 1, place, fingerprint: [8; 32], form: full },
            StoredEntry { seq: 2, place, fingerprint: [9; 32], form: burst },
        ],
        views: [vec![ViewEntry { key: 5, reference: 1, burst_count: 1 }], Vec::new()],
        map: vec![(0, 1), (7, 2), (9, u64::MAX)],
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
