//! Damaged and hostile images are refused, with the name of the image and the problem.

use std::fs;

use cutpoint_image::{Extent, Kind, Opened, Result, open, open_qcow2};

use crate::made::{CLUSTER, COMPRESSED, DATA, L1, L2, clusters, image, put, put32};

fn opened(bytes: Vec<u8>) -> Result<Opened> {
    open_qcow2("vm.qcow2", Box::new(bytes))
}

/// Reads the whole disk.
fn read(bytes: Vec<u8>) -> Result<Vec<u8>> {
    let mut image = opened(bytes)?.image;
    let mut disk = vec![0; usize::try_from(image.size()).expect("small")];
    image.read(0, &mut disk)?;
    Ok(disk)
}

/// Checks that a changed image is refused by these words.
#[track_caller]
fn refused(kind: Kind, words: &str, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = image();
    change(&mut bytes);
    let error = read(bytes).expect_err(words);
    assert_eq!(error.kind(), kind, "{error}");
    assert!(error.to_string().starts_with("vm.qcow2: "), "{error}");
    assert!(error.problem().contains(words), "{words:?} in {error}");
}

#[test]
fn made_image_is_read() {
    let mut disk = clusters().concat();
    disk.resize(8 * CLUSTER, 0);
    assert!(read(image()).expect("well") == disk, "the disk");
    let mut image = opened(image()).expect("well").image;
    let extents: Vec<_> =
        (0..8).map(|cluster| image.extent(cluster * CLUSTER as u64).expect("well")).collect();
    let len = CLUSTER as u64;
    for (number, extent) in extents.into_iter().enumerate() {
        assert_eq!(extent, Extent { len, is_zero: number > 1 }, "cluster {number}");
    }
}

#[test]
fn invalid_headers_are_refused() {
    let corrupt = |words, at, value| refused(Kind::Corrupt, words, |it| put32(it, at, value));
    let unsupported =
        |words, at, value| refused(Kind::Unsupported, words, |it| put32(it, at, value));
    corrupt("no magic number", 0, 7);
    unsupported("has version 1 of qcow", 4, 1);
    unsupported("has version 4 of qcow", 4, 4);
    corrupt("clusters of 2^8 bytes", 20, 8);
    corrupt("clusters of 2^22 bytes", 20, 22);
    unsupported("is encrypted", 32, 1);
    corrupt("which is too large", 24, 0x7fff_ffff);
    corrupt("has 0 entries in its L1 table (expected 1)", 36, 0);
    corrupt("is marked as corrupt", 76, 2);
    unsupported("external data file", 76, 4);
    unsupported("needs feature 5", 76, 32);
    unsupported("needs feature 32", 72, 1);
    corrupt("contradicts itself about its compression", 76, 8);
    corrupt("subclusters of less than 512 bytes", 76, 16);
    corrupt("a header of 96 bytes", 100, 96);
    corrupt("a header of 4096 bytes", 100, 4096);
    refused(Kind::Corrupt, "its L1 table at byte 8", |it| put(it, 40, 8));
    refused(Kind::Corrupt, "its L1 table is at byte 409600", |it| put(it, 40, 409_600));
    refused(Kind::Corrupt, "the name of its backing file", |it| put(it, 8, u64::MAX));
    // The reference counts are not read.
    let mut dirty = image();
    put(&mut dirty, 72, 1);
    read(dirty).expect("well");
}

#[test]
fn invalid_entries_are_refused() {
    let corrupt = |words, at, value| refused(Kind::Corrupt, words, |it| put(it, at, value));
    corrupt("reserved bits set in an entry of its L1 table", L1, 1 << 60);
    corrupt("an L2 table at an offset", L1, 512);
    corrupt("an L2 table is at byte 65536", L1, 65536);
    corrupt("reserved bits set in an entry of an L2 table, for byte 0 of", L2, 2);
    corrupt("a cluster at an offset", L2, DATA as u64 + 512);
    corrupt("is truncated: byte 0 of the disk is at byte 1048576", L2, 1 << 20);
    corrupt("is truncated: byte 0 of the disk", L2, 0x00ff_ffff_ffff_f000);
    corrupt("compressed cluster at byte 1048576", L2 + 8, 1 << 62 | 1 << 20);
    corrupt("entry of a compressed cluster", L2 + 8, 3 << 62 | COMPRESSED as u64);
    // Version 2 has no clusters of zeros.
    refused(Kind::Corrupt, "reserved bits set", |it| put32(it, 4, 2));
}

#[test]
fn damaged_compressed_cluster_is_refused() {
    let words = format!("a damaged compressed cluster at byte {COMPRESSED}");
    refused(Kind::Corrupt, &words, |it| it[COMPRESSED] = 0xff);
    refused(Kind::Corrupt, &words, |it| it.truncate(COMPRESSED + 20));
    refused(Kind::Corrupt, &words, |it| it.truncate(COMPRESSED));
}

#[test]
fn truncated_images_are_refused() {
    let whole = image();
    for len in 0..whole.len() - 1 {
        let error = read(whole[..len].to_vec()).expect_err("truncated");
        assert_eq!(error.kind(), Kind::Corrupt, "{len} bytes: {error}");
    }
}

/// A table behind the end of the file is refused before memory is taken for it.
#[test]
fn size_that_the_file_cannot_have_is_refused() {
    refused(Kind::Corrupt, "its L1 table is at byte 4096 (33554432 bytes)", |it| {
        put32(it, 36, 4 << 20);
        put(it, 24, (4 << 20) * 512 * CLUSTER as u64);
    });
}

/// The image names a file that exists, which is not opened.
#[test]
fn backing_file_is_not_followed() {
    let folder = tempfile::tempdir().expect("a folder");
    let secret = folder.path().join("secret");
    fs::write(&secret, vec![7; 8 * CLUSTER]).expect("written");
    let mut bytes = image();
    let name = secret.to_str().expect("text").as_bytes();
    put(&mut bytes, 8, 1000);
    put32(&mut bytes, 16, u32::try_from(name.len()).expect("short"));
    bytes[1000..1000 + name.len()].copy_from_slice(name);
    let path = folder.path().join("image");
    fs::write(&path, &bytes).expect("written");
    let error = open(&path, None, &[]).expect_err("based on another file");
    assert_eq!(error.kind(), Kind::NeedsBacking, "{error}");
    assert!(error.to_string().contains("secret\", which was not given"), "{error}");
    // It is read if the caller names it.
    let base = [secret];
    let mut opened = open(&path, None, &base).expect("well");
    let mut last = [0; 10];
    opened.image.read(8 * CLUSTER as u64 - 10, &mut last).expect("well");
    assert_eq!(last, [7; 10]);
    let error = open(&base[0], None, &base).expect_err("raw");
    assert!(error.to_string().contains("has no backing file"), "{error}");
    let error = open(&path, None, &[base[0].clone(), base[0].clone()]).expect_err("two");
    assert_eq!(error.kind(), Kind::Invalid, "{error}");
}

/// A name that would disturb a terminal is escaped.
#[test]
fn name_of_backing_file_is_escaped() {
    refused(Kind::NeedsBacking, "\\u{1b}", |it| {
        put(it, 8, 1000);
        put32(it, 16, 4);
        it[1000..1004].copy_from_slice(b"\x1b[2J");
    });
}
