//! The fields of a header that depend on the kind of the record.

use cutpoint_delta::burst::Side;

use super::{Body, LONG_HEADER, Search, UNIT};
use crate::format::cursor::Cursor;
use crate::format::edge::{BASE_COUNT_MAX, Bases, EdgeKey, FEATURE_COUNT, Features, RAW_LEN};
use crate::format::patch::Patch;
use crate::format::span::{BlockId, Span};
use crate::keys::Fingerprint;

/// The flags of a record.
mod flag {
    /// The burst was found by its tail. In records that are there twice: the second one.
    pub(super) const TAIL: u8 = 1;
    /// HeadDT had an entry without room for another burst.
    pub(super) const HEAD_EXHAUSTED: u8 = 2;
    /// TailDT had an entry without room for another burst.
    pub(super) const TAIL_EXHAUSTED: u8 = 4;
    /// The block is in DT.
    pub(super) const INDEXED: u8 = 8;
    /// The block is in HeadDT.
    pub(super) const HEAD: u8 = 16;
    /// The block is in TailDT.
    pub(super) const TAIL_KEY: u8 = 32;
    /// A reference block was found and could not be read.
    pub(super) const CANCELLED: u8 = 64;
    /// The header is long.
    pub(super) const LONG: u8 = 128;
}

/// The value of `c` of a full block whose head and tail are raw.
const RAW: u64 = 1;
/// The value of `c` of a full block that has features.
const FEATURES: u64 = 2;

/// The number of bytes of a long header behind a short one.
const EXTENSION: usize = LONG_HEADER - UNIT;

/// The fields of a header that depend on the kind of the record.
pub(super) struct Fields {
    pub(super) kind: u8,
    pub(super) flags: u8,
    pub(super) fingerprint: Fingerprint,
    pub(super) numbers: [u64; 3],
    /// Empty in a short header.
    pub(super) extension: Vec<u8>,
}

impl Fields {
    /// Returns `true` if a header with these flags is long.
    pub(super) fn is_long(flags: u8) -> bool {
        flags & flag::LONG != 0
    }

    pub(super) fn of(body: &Body) -> Fields {
        let empty = Fields {
            kind: 0,
            flags: 0,
            fingerprint: [0; 32],
            numbers: [0; 3],
            extension: Vec::new(),
        };
        let copy = |is_copy: bool| if is_copy { flag::TAIL } else { 0 };
        match *body {
            Body::Full { .. } => Fields::of_full(body),
            Body::Burst { fingerprint, reference, side, patch, search, .. } => {
                let side = if side == Side::Tail { flag::TAIL } else { 0 };
                let numbers = [reference, edges(patch), 0];
                let flags = side | search_flags(search);
                Fields { kind: 2, flags, fingerprint, numbers, ..empty }
            }
            Body::Duplicate { target, .. } => Fields { kind: 3, numbers: [target, 0, 0], ..empty },
            Body::Zero(_) => Fields { kind: 4, ..empty },
            Body::Move { target } => Fields { kind: 5, numbers: [target, 0, 0], ..empty },
            Body::Change { hash, is_copy } => {
                Fields { kind: 6, flags: copy(is_copy), fingerprint: hash, ..empty }
            }
            Body::Delta { fingerprint, bases, .. } => {
                let bases = bases.seqs().iter().flat_map(|seq| seq.to_le_bytes());
                let mut extension: Vec<u8> = bases.collect();
                extension.resize(EXTENSION, 0);
                Fields { kind: 7, flags: flag::LONG, fingerprint, extension, ..empty }
            }
            Body::Fold { into, is_copy, .. } => {
                // Layers count from 1.
                let into = u64::from(into.unwrap_or_default());
                Fields { kind: 8, flags: copy(is_copy), numbers: [into, 0, 0], ..empty }
            }
            Body::Rewrite { target, burst } => {
                let (reference, edges) =
                    burst.map_or((0, 0), |(reference, patch)| (reference, edges(patch)));
                Fields { kind: 9, numbers: [target, reference, edges], ..empty }
            }
            Body::Summary { hash } => Fields { kind: 10, fingerprint: hash, ..empty },
        }
    }

    fn of_full(body: &Body) -> Fields {
        let Body::Full { fingerprint, is_indexed, keys, features, search, .. } = *body else {
            unreachable!("the caller has matched the kind");
        };
        let mut flags = search_flags(search);
        let (mut numbers, mut extension) = ([0; 3], vec![0; EXTENSION]);
        if is_indexed {
            flags |= flag::INDEXED;
        }
        for (at, (key, bit)) in keys.into_iter().zip([flag::HEAD, flag::TAIL_KEY]).enumerate() {
            let Some(key) = key else { continue };
            flags |= bit;
            match key {
                EdgeKey::Hash(hash) => numbers[at] = hash,
                EdgeKey::Raw(raw) => {
                    numbers[2] |= RAW;
                    extension[at * RAW_LEN..][..RAW_LEN].copy_from_slice(&raw);
                }
            }
        }
        if let Some(features) = features {
            numbers[2] |= FEATURES;
            let bytes = features.iter().flat_map(|feature| feature.to_le_bytes());
            extension.splice(2 * RAW_LEN..2 * RAW_LEN + 8 * FEATURE_COUNT, bytes);
        }
        if numbers[2] == 0 {
            extension.clear();
        } else {
            flags |= flag::LONG;
        }
        Fields { kind: 1, flags, fingerprint, numbers, extension }
    }

    /// Returns the body, or `None` if a field has a value that it never has.
    pub(super) fn body(&self, span: Span) -> Option<Body> {
        let Fields { kind, flags, fingerprint, numbers: [a, b, c], .. } = *self;
        let id = BlockId { layer: span.layer, block: span.first };
        let is_one = span.count == 1 && span.layer > 0;
        let is_none = span == Span::default();
        let is_plain = flags == 0 && fingerprint == [0; 32];
        let is_copy = flags == flag::TAIL;
        let is_twice = flags & !flag::TAIL == 0;
        match kind {
            1 => self.full(id).filter(|_| is_one),
            2 => {
                let patch = patch_of(b)?;
                let side = if flags & flag::TAIL == 0 { Side::Head } else { Side::Tail };
                let search = search_of(flags);
                let is_right =
                    is_one && flags & !(search_flags(search) | flag::TAIL) == 0 && c == 0;
                let body = Body::Burst { id, fingerprint, reference: a, side, patch, search };
                is_right.then_some(body)
            }
            3 => {
                let is_right = is_one && is_plain && (b, c) == (0, 0);
                is_right.then_some(Body::Duplicate { id, target: a })
            }
            4 => {
                let is_right = is_plain && span.count > 0 && span.layer > 0;
                (is_right && [a, b, c] == [0; 3]).then_some(Body::Zero(span))
            }
            5 => (is_plain && is_none && (b, c) == (0, 0)).then_some(Body::Move { target: a }),
            6 => {
                let is_right = is_twice && is_none && [a, b, c] == [0; 3];
                is_right.then_some(Body::Change { hash: fingerprint, is_copy })
            }
            7 => {
                let bases = self.bases()?;
                let is_right = is_one && flags == flag::LONG && [a, b, c] == [0; 3];
                is_right.then_some(Body::Delta { id, fingerprint, bases })
            }
            8 => {
                let into = u32::try_from(a).ok()?;
                let is_right = is_twice && fingerprint == [0; 32] && (b, c) == (0, 0);
                let is_right = is_right && span.count > 0 && span.layer > 0;
                let into = (into > 0).then_some(into);
                is_right.then_some(Body::Fold { span, into, is_copy })
            }
            9 => {
                let burst = if b == 0 { None } else { Some((b, patch_of(c)?)) };
                let is_right = is_none && is_plain && (b != 0 || c == 0) && a != b;
                is_right.then_some(Body::Rewrite { target: a, burst })
            }
            10 => {
                let is_right = flags == 0 && is_none && [a, b, c] == [0; 3];
                is_right.then_some(Body::Summary { hash: fingerprint })
            }
            _ => None,
        }
    }

    fn full(&self, id: BlockId) -> Option<Body> {
        let Fields { flags, fingerprint, numbers: [a, b, c], .. } = *self;
        let search = search_of(flags);
        let others = flag::INDEXED | flag::HEAD | flag::TAIL_KEY | flag::LONG;
        let is_long = Fields::is_long(flags);
        let is_right = flags & !(search_flags(search) | others) == 0
            && c <= RAW | FEATURES
            && is_long == (c != 0)
            && (c & RAW == 0 || flags & (flag::HEAD | flag::TAIL_KEY) != 0);
        is_right.then_some(())?;
        let (mut keys, mut features) = ([None; 2], None);
        let mut rest = Cursor(&self.extension);
        let raw: [Option<[u8; RAW_LEN]>; 2] =
            if is_long { [Some(rest.array()?), Some(rest.array()?)] } else { [None; 2] };
        for (at, bit) in [flag::HEAD, flag::TAIL_KEY].into_iter().enumerate() {
            let (hash, raw) = ([a, b][at], raw[at]);
            let is_raw = c & RAW != 0;
            let is_there = flags & bit != 0;
            // A key that is not there is 0.
            let is_plain = (hash == 0 || (is_there && !is_raw))
                && (raw.is_none_or(|raw| raw == [0; RAW_LEN]) || (is_there && is_raw));
            is_plain.then_some(())?;
            keys[at] = match raw.filter(|_| is_raw) {
                Some(raw) => Some(EdgeKey::Raw(raw)),
                None => Some(EdgeKey::Hash(hash)),
            }
            .filter(|_| is_there);
        }
        if is_long {
            let mut found: Features = [0; FEATURE_COUNT];
            for feature in &mut found {
                *feature = rest.u64()?;
            }
            rest.zeros(rest.0.len())?;
            features = (c & FEATURES != 0).then_some(found);
            (features.is_some() || found == [0; FEATURE_COUNT]).then_some(())?;
        }
        let is_indexed = flags & flag::INDEXED != 0;
        Some(Body::Full { id, fingerprint, is_indexed, keys, features, search })
    }

    fn bases(&self) -> Option<Bases> {
        let mut rest = Cursor(&self.extension);
        let mut seqs = Vec::with_capacity(BASE_COUNT_MAX);
        for _ in 0..BASE_COUNT_MAX {
            seqs.push(rest.u64()?);
        }
        rest.zeros(rest.0.len())?;
        while seqs.last() == Some(&0) {
            seqs.pop();
        }
        Bases::new(&seqs)
    }
}

/// Returns prefix and suffix as one number.
fn edges(patch: Patch) -> u64 {
    u64::from(patch.prefix) | u64::from(patch.suffix) << 32
}

fn patch_of(edges: u64) -> Option<Patch> {
    let prefix = u32::try_from(edges & u64::from(u32::MAX)).ok()?;
    Some(Patch { prefix, suffix: u32::try_from(edges >> 32).ok()? })
}

fn search_of(flags: u8) -> Search {
    Search {
        exhausted: [flags & flag::HEAD_EXHAUSTED != 0, flags & flag::TAIL_EXHAUSTED != 0],
        is_cancelled: flags & flag::CANCELLED != 0,
    }
}

fn search_flags(search: Search) -> u8 {
    let Search { exhausted: [head, tail], is_cancelled } = search;
    let bit = |is_set: bool, bit: u8| if is_set { bit } else { 0 };
    bit(head, flag::HEAD_EXHAUSTED)
        | bit(tail, flag::TAIL_EXHAUSTED)
        | bit(is_cancelled, flag::CANCELLED)
}
