//! Images that QEMU has made, where `qemu-img` is installed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use cutpoint_image::{Format, Image, open};
use cutpoint_testing::{SplitMix64, skipped};

/// The size of the disks in bytes, no multiple of any cluster size but the smallest.
const SIZE: usize = 9 * 1024 * 1024 + 512 * 3;

/// The number of attempts where `qemu-img` fails to measure its CPU time, by which it chooses how often
/// a passphrase is hashed: at times the system tells it that none has passed.
const ATTEMPTS_MAX: usize = 100;

/// Runs `qemu-img` or `qemu-io` in a folder. Returns `false` if it is not installed.
fn ran(folder: &Path, program: &str, args: &[&str]) -> bool {
    let mut text = String::new();
    for _ in 0..ATTEMPTS_MAX {
        let output = Command::new(program).current_dir(folder).args(args).output();
        let Ok(output) = output else {
            skipped(&format!("{program} is not installed: its images were not read"));
            return false;
        };
        if output.status.success() {
            return true;
        }
        text = String::from_utf8_lossy(&output.stderr).into_owned();
        if !text.contains("Unable to get accurate CPU usage") {
            break;
        }
    }
    panic!("{program} {args:?}: {text}");
}

/// Writes a raw disk with random bytes, text, zeros and a hole.
fn disk(folder: &Path) -> Vec<u8> {
    let mut bytes = SplitMix64::bytes(1, SIZE);
    bytes[1 << 20..3 << 20].fill(0);
    bytes[3 << 20..5 << 20].fill(b'x');
    for at in (5 << 20..6 << 20).step_by(16384) {
        bytes[at..at + 4096].fill(0);
    }
    bytes[6 << 20..8 << 20].fill(0);
    fs::write(folder.join("raw"), &bytes).expect("written");
    bytes
}

/// Reads a disk by its extents, in pieces that fit nothing.
fn read(image: &mut dyn Image) -> Vec<u8> {
    let mut disk = vec![0; usize::try_from(image.size()).expect("small")];
    let mut at = 0;
    while at < disk.len() {
        let extent = image.extent(at as u64).expect("well");
        let end = at + usize::try_from(extent.len).expect("within the disk");
        while !extent.is_zero && at < end {
            let piece_end = end.min(at + 100_001);
            image.read(at as u64, &mut disk[at..piece_end]).expect("well");
            at = piece_end;
        }
        at = end;
    }
    disk
}

#[track_caller]
fn is_disk(folder: &Path, name: &str, backing: &[PathBuf], disk: &[u8]) {
    let mut opened = open(&folder.join(name), None, backing).expect("well");
    assert_eq!(opened.format, Format::Qcow2, "{name}");
    assert!(read(&mut *opened.image) == disk, "{name}: another disk");
    // In one piece, from a place in the middle of a cluster.
    let mut rest = vec![1; disk.len() - 70_003];
    opened.image.read(70_003, &mut rest).expect("well");
    assert!(rest == disk[70_003..], "{name}: another disk in one piece");
}

#[test]
fn converted_images_are_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let disk = disk(folder);
    for (number, options) in [
        "compat=0.10",
        "compat=1.1",
        "compat=1.1,cluster_size=512",
        "compat=1.1,cluster_size=2M",
        "compat=1.1,extended_l2=on",
        "compat=1.1,extended_l2=on,cluster_size=16k",
        "compat=1.1,lazy_refcounts=on,refcount_bits=1",
        "compat=1.1,preallocation=metadata",
        "compat=1.1,preallocation=falloc",
        "compat=1.1,compression_type=zstd",
    ]
    .into_iter()
    .enumerate()
    {
        for compress in [false, true] {
            if compress && options.contains("preallocation") {
                continue;
            }
            let name = format!("image-{number}-{compress}");
            let mut args = vec!["convert", "-f", "raw", "-O", "qcow2", "-o", options];
            args.extend(compress.then_some("-c"));
            args.extend(["raw", &*name]);
            if !ran(folder, "qemu-img", &args) {
                return;
            }
            is_disk(folder, &name, &[], &disk);
        }
    }
}

/// The disk is that of the active layer, whatever a snapshot in the image holds.
#[test]
fn snapshots_in_an_image_are_ignored() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let mut disk = disk(folder);
    if !ran(folder, "qemu-img", &["convert", "-f", "raw", "-O", "qcow2", "raw", "image"]) {
        return;
    }
    ran(folder, "qemu-img", &["snapshot", "-c", "before", "image"]);
    let writes = ["-c", "write -P 65 100k 8k", "-c", "write -z 4M 192k", "-c", "discard 5M 64k"];
    ran(folder, "qemu-io", &[&["-f", "qcow2"], &writes[..], &["image"]].concat());
    disk[100 << 10..108 << 10].fill(65);
    disk[4 << 20..(4 << 20) + (192 << 10)].fill(0);
    disk[5 << 20..(5 << 20) + (64 << 10)].fill(0);
    is_disk(folder, "image", &[], &disk);
    assert_eq!(open(&folder.join("image"), None, &[]).expect("well").snapshot_count, 1);
}

/// An overlay is read with the backing files that are given: a raw one, which is shorter, below a
/// qcow2 one.
#[test]
fn backing_files_are_read_if_they_are_given() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let mut disk = disk(folder);
    let create = |options: &[&str]| {
        ran(folder, "qemu-img", &[&["create", "-q", "-f", "qcow2"], options].concat())
    };
    if !create(&["-b", "raw", "-F", "raw", "middle", "12M"]) {
        return;
    }
    create(&["-b", "middle", "-F", "qcow2", "-o", "extended_l2=on", "top", "14M"]);
    let write = |image: &str, command: &str| {
        ran(folder, "qemu-io", &["-f", "qcow2", "-c", command, image]);
    };
    write("middle", "write -P 1 8M 64k");
    write("top", "write -P 2 2M 6k");
    write("top", "write -z 300k 40k");
    write("top", "write -P 3 13M 2k");
    disk.resize(14 << 20, 0);
    disk[8 << 20..(8 << 20) + 65536].fill(1);
    disk[2 << 20..(2 << 20) + 6144].fill(2);
    disk[300 << 10..340 << 10].fill(0);
    disk[13 << 20..(13 << 20) + 2048].fill(3);
    let backing = ["middle", "raw"].map(|name| folder.join(name));
    is_disk(folder, "top", &backing, &disk);
    let error = open(&folder.join("top"), None, &backing[..1]).expect_err("one is missing");
    assert!(error.to_string().contains("backing file \"raw\""), "{error}");
}

/// QEMU itself would read the other file.
#[test]
fn external_data_file_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let options = ["create", "-q", "-f", "qcow2", "-o", "data_file=data", "image", "1M"];
    if !ran(folder, "qemu-img", &options) {
        return;
    }
    let error = open(&folder.join("image"), None, &[]).expect_err("the data is elsewhere");
    assert!(error.to_string().contains("external data file"), "{error}");
}

#[test]
fn encrypted_image_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let options = "encrypt.format=luks,encrypt.key-secret=key,encrypt.iter-time=10";
    let secret = ["create", "-q", "--object", "secret,id=key,data=word", "-f", "qcow2"];
    if !ran(folder, "qemu-img", &[&secret[..], &["-o", options, "image", "1M"]].concat()) {
        return;
    }
    let error = open(&folder.join("image"), None, &[]).expect_err("encrypted");
    assert!(error.to_string().contains("is encrypted"), "{error}");
}
