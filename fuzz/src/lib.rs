//! What the fuzz targets run: bodies that are in the tests of the crates, which run them on random input.

#[path = "../../crates/repository/tests/common/backup.rs"]
#[expect(dead_code, reason = "honest backups matter elsewhere")]
mod backup;
#[path = "../../crates/chunking/tests/it/harness/mod.rs"]
mod chunking;
#[path = "../../crates/repository/tests/common/decoding.rs"]
#[allow(dead_code, reason = "its pieces matter elsewhere")]
mod decoding;
#[path = "../../crates/repository/tests/common/planted.rs"]
mod planted;
#[path = "../../crates/repository/tests/common/whole.rs"]
mod whole;

/// Every decoder of the store's format.
pub fn decoders(input: &[u8]) {
    decoding::anything(input);
}

/// A chunker that is fed in pieces.
pub fn feeding(input: &[u8]) {
    chunking::fuzz_bodies::feeding(input, |_| true);
}

/// The texts by which algorithms are chosen.
pub fn spec(input: &[u8]) {
    chunking::fuzz_bodies::spec(input);
}

/// Sealed objects of any kind.
pub fn objects(input: &[u8]) {
    planted::objects(input);
}

/// Sealed containers.
pub fn containers(input: &[u8]) {
    planted::containers(input);
}

/// Trees and recipes that are well stored.
pub fn trees(input: &[u8]) {
    planted::trees(input);
}

/// Files of the local index.
pub fn runs(input: &[u8]) {
    planted::runs(input);
}

/// What a parity object says and holds.
pub fn parity(input: &[u8]) {
    planted::parity(input);
}
