//! The bodies of the fuzz targets. They are in the tests of the crates, which run them on random
//! input.

#[path = "../../crates/chunking/tests/it/harness/mod.rs"]
mod chunking;
#[path = "../../crates/repository/tests/it/support/decoding.rs"]
#[allow(dead_code, reason = "its pieces matter elsewhere")]
mod decoding;
#[path = "../../crates/image/tests/it/anything.rs"]
mod images;
#[path = "../../crates/repository/tests/it/support/machine.rs"]
mod machine;
#[path = "../../crates/repository/tests/it/support/planted.rs"]
mod planted;
#[path = "../../crates/volume/tests/it/anything.rs"]
mod volumes;

/// Every decoder of the repository's format.
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

/// The table and the shards of a parity object.
pub fn parity(input: &[u8]) {
    planted::parity(input);
}

/// Disk images.
pub fn images(input: &[u8]) {
    images::anything(input);
}

/// What a client of a virtual disk sends.
pub fn volume_requests(input: &[u8]) {
    volumes::requests(input);
}

/// The files of virtual disks.
pub fn volume_files(input: &[u8]) {
    volumes::files(input);
}
