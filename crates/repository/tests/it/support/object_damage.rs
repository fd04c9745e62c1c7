//! Damage to the bytes of an object.

use bytes::Bytes;
use cutpoint_repository::crypto::HEADER_LEN;

/// The kinds of damage to the bytes of a single object.
pub(crate) const HARMS: [&str; 7] = [
    "deleted",
    "cut short",
    "bit in version",
    "bit in header",
    "bit in commitment",
    "bit in body",
    "bit in trailer",
];

/// Returns the damaged bytes of an object; `None` if it is deleted.
pub(crate) fn harmed(bytes: &Bytes, harm: &str) -> Option<Bytes> {
    let flipped = |place: usize| {
        let mut bytes = bytes.to_vec();
        bytes[place] ^= 4;
        Some(Bytes::from(bytes))
    };
    match harm {
        "deleted" => None,
        "cut short" => Some(bytes.slice(..bytes.len() / 2)),
        "bit in version" => flipped(5),
        "bit in header" => flipped(20),
        "bit in commitment" => flipped(50),
        "bit in body" => flipped(HEADER_LEN + 34),
        "bit in trailer" => flipped(bytes.len() - 20),
        other => panic!("{other}: there is no such harm"),
    }
}
