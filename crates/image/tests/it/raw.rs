//! Raw images, and formats that are not read.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

use cutpoint_image::{Format, Kind, open};

#[test]
fn holes_are_found() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("image");
    let file = File::create(&path).expect("made");
    file.set_len(10 << 20).expect("longer");
    file.write_all_at(&[5; 1 << 20], 4 << 20).expect("written");
    let mut opened = open(&path, None, &[]).expect("well");
    assert_eq!((opened.format, opened.image.size()), (Format::Raw, 10 << 20));
    let (mut at, mut data_len) = (0, 0);
    while at < 10 << 20 {
        let extent = opened.image.extent(at).expect("well");
        data_len += if extent.is_zero { 0 } else { extent.len };
        at += extent.len;
    }
    // A file system without holes has data only.
    assert!([1 << 20, 10 << 20].contains(&data_len), "{data_len} bytes of data");
    let mut bytes = [0; 2];
    opened.image.read((4 << 20) - 1, &mut bytes).expect("well");
    assert_eq!(bytes, [0, 5]);
    file.set_len(4 << 20).expect("shorter");
    let error = opened.image.read(4 << 20, &mut bytes).expect_err("truncated meanwhile");
    assert!(error.to_string().ends_with("ends before byte 4194306"), "{error}");
}

#[track_caller]
fn refused(path: &Path, kind: Kind, words: &str) {
    let error = open(path, None, &[]).expect_err(words);
    assert_eq!(error.kind(), kind, "{error}");
    assert!(error.to_string().contains(words), "{words:?} in {error}");
}

#[test]
fn other_formats_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("image");
    let vdi = [&[b'<'; 64], b"\x7f\x10\xda\xbe".as_slice()].concat();
    let fixed_vhd = [vec![1; 4096], b"conectix".to_vec(), vec![0; 504]].concat();
    let cases: [(&[u8], &str); 6] = [
        (b"KDMV and more", "is a VMDK image"),
        (b"vhdxfile and more", "is a VHDX image"),
        (&vdi, "is a VDI image"),
        (&fixed_vhd, "is a VHD image"),
        (b"\x1f\x8b\x08 and more", "is compressed by gzip"),
        (b"QFI\xfb\0\0\0\x01", "has version 1 of qcow"),
    ];
    for (bytes, words) in cases {
        fs::write(&path, bytes).expect("written");
        // The header of version 1 is read as far as the version.
        let kind = Kind::Unsupported;
        refused(&path, kind, words);
        let opened = open(&path, Some(Format::Raw), &[]).expect("raw is believed");
        assert_eq!(opened.image.size(), bytes.len() as u64, "{words}");
    }
    refused(folder.path(), Kind::Invalid, "neither a file nor a block device");
    refused(Path::new("/dev/null"), Kind::Invalid, "neither a file nor a block device");
    refused(&folder.path().join("absent"), Kind::Io, "No such file");
    fs::write(&path, "").expect("written");
    assert_eq!(open(&path, None, &[]).expect("empty").image.size(), 0);
}
