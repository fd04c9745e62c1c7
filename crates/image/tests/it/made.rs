//! Images made by the tests themselves, field by field.

use std::io::Write;

use flate2::Compression;
use flate2::write::DeflateEncoder;

/// The size of a cluster in bytes.
pub(crate) const CLUSTER: usize = 4096;
/// The offset of the L1 table.
pub(crate) const L1: usize = CLUSTER;
/// The offset of the only L2 table.
pub(crate) const L2: usize = 2 * CLUSTER;
/// The offset of the first plain cluster.
pub(crate) const DATA: usize = 3 * CLUSTER;
/// The offset of a compressed cluster.
pub(crate) const COMPRESSED: usize = 4 * CLUSTER + 700;

/// Writes a big-endian value.
pub(crate) fn put(image: &mut [u8], at: usize, value: u64) {
    image[at..at + 8].copy_from_slice(&value.to_be_bytes());
}

pub(crate) fn put32(image: &mut [u8], at: usize, value: u32) {
    image[at..at + 4].copy_from_slice(&value.to_be_bytes());
}

/// Returns the plain and the compressed cluster of [`image`].
pub(crate) fn clusters() -> [Vec<u8>; 2] {
    let cluster = |pattern: &[u8]| pattern.iter().copied().cycle().take(CLUSTER).collect();
    [cluster(b"a plain cluster"), cluster(b"deflated")]
}

/// Makes an image of version 3 with a disk of eight clusters: the first is plain, the second
/// compressed, the third zeros, and the others are absent.
pub(crate) fn image() -> Vec<u8> {
    let [plain, compressed] = clusters();
    let mut image = vec![0; DATA];
    image[..4].copy_from_slice(b"QFI\xfb");
    put32(&mut image, 4, 3);
    put32(&mut image, 20, 12);
    put(&mut image, 24, 8 * CLUSTER as u64);
    put32(&mut image, 36, 1);
    put(&mut image, 40, L1 as u64);
    put32(&mut image, 96, 4);
    put32(&mut image, 100, 104);
    put(&mut image, L1, L2 as u64 | 1 << 63);
    put(&mut image, L2, DATA as u64 | 1 << 63);
    put(&mut image, L2 + 16, 1);
    image.extend(plain);
    image.resize(COMPRESSED, 0xee);
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(&compressed).expect("in memory");
    let deflated = encoder.finish().expect("in memory");
    let sectors = (COMPRESSED % 512 + deflated.len()).div_ceil(512) as u64 - 1;
    put(&mut image, L2 + 8, COMPRESSED as u64 | sectors << 58 | 1 << 62);
    image.extend(deflated);
    image
}
