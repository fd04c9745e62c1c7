//! Volumes in folders of the local file system.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use cutpoint_testing::SplitMix64;
use cutpoint_volume::{Access, CreateOptions, Folder, LocalFolder, Mode, OpenOptions, Volume};

use crate::support::{BLOCK, Opened, block, open_folder, read};

/// Creates a volume of 1 MiB in the folder `path`.
pub(crate) fn create(path: &Path, mode: Mode) {
    let folder: Arc<dyn Folder> = Arc::new(LocalFolder::create(path).expect("created"));
    Volume::create(&folder, &CreateOptions::new(1 << 20, 4096, mode)).expect("created");
}

pub(crate) fn open(path: &Path) -> Opened {
    let folder = LocalFolder::open(path, Access::Write).expect("opened");
    open_folder(Arc::new(folder), &OpenOptions::new(Access::Write)).expect("opened")
}

#[test]
fn volume_in_a_folder_is_there_after_the_process() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("volume");
    create(&path, Mode::default());
    let volume = open(&path);
    for number in 0..200 {
        volume.write(number * 4096, &block(number, BLOCK)).expect("written");
    }
    volume.flush().expect("flushed");
    drop(volume);
    let volume = open(&path);
    for number in 0..200 {
        assert_eq!(read(&volume, number).expect("read"), block(number, BLOCK), "{number}");
    }
    volume.checkpoint().expect("written");
    volume.clean().expect("cleaned");
    drop(volume);
    assert_eq!(read(&open(&path), 199).expect("read"), block(199, BLOCK));
}

#[test]
fn folder_in_use_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("volume");
    create(&path, Mode::Off);
    let writer = LocalFolder::open(&path, Access::Write).expect("opened");
    for access in [Access::Write, Access::Read] {
        let error = LocalFolder::open(&path, access).expect_err("in use");
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
    }
    drop(writer);
    let readers = [(); 2].map(|()| LocalFolder::open(&path, Access::Read).expect("opened"));
    let error = LocalFolder::open(&path, Access::Write).expect_err("in use");
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
    drop(readers);
    LocalFolder::open(&path, Access::Write).expect("free");
}

#[test]
fn several_threads_write_read_and_flush_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("volume");
    create(&path, Mode::default());
    let volume = open(&path);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let volume = &volume;
            scope.spawn(move || {
                for round in 0..20 {
                    for number in (thread..256).step_by(4) {
                        let bytes = block(number + round, BLOCK);
                        volume.write(number * 4096, &bytes).expect("written");
                        assert_eq!(read(volume, number).expect("read"), bytes);
                    }
                    volume.flush().expect("flushed");
                    if thread == 0 {
                        volume.clean().expect("cleaned");
                    }
                }
            });
        }
    });
    assert_eq!(volume.audit(), Ok(()));
    drop(volume);
    let volume = open(&path);
    for number in 0..256 {
        assert_eq!(read(&volume, number).expect("read"), block(number + 19, BLOCK));
    }
}

#[test]
fn volume_whose_folder_was_moved_leaves_another_one_at_its_path() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, moved) = (folder.path().join("volume"), folder.path().join("moved"));
    let create_and_fill = |seed: u64| {
        let folder: Arc<dyn Folder> = Arc::new(LocalFolder::create(&path).expect("created"));
        let options = CreateOptions {
            segment_size: 64 * 1024,
            ..CreateOptions::new(1 << 20, 4096, Mode::default())
        };
        Volume::create(&folder, &options).expect("created");
        drop(folder);
        let volume = open(&path);
        fill(&volume, seed, 0);
        volume.checkpoint().expect("written");
        volume
    };
    let first = create_and_fill(1);
    fs::rename(&path, &moved).expect("moved");
    let second = create_and_fill(2);
    for round in 1..4 {
        for (volume, seed) in [(&first, 1), (&second, 2)] {
            fill(volume, seed, round);
            volume.flush().expect("flushed");
            volume.checkpoint().expect("written");
            volume.clean().expect("cleaned");
        }
    }
    drop((first, second));
    for (path, seed) in [(&moved, 1), (&path, 2)] {
        let volume = open(path);
        for number in 0..256 {
            assert_eq!(read(&volume, number).expect("read"), bytes_of(seed, 3, number), "{number}");
        }
        let mut findings = Vec::new();
        volume.check(|finding| findings.push(finding.clone()), || false).expect("checked");
        assert_eq!(findings, [], "{seed}");
    }
}

/// Writes all blocks of a volume of 1 MiB.
fn fill(volume: &Opened, seed: u64, round: u64) {
    for number in 0..256 {
        volume.write(number * 4096, &bytes_of(seed, round, number)).expect("written");
    }
}

/// Returns the bytes of a block, which no other block has.
fn bytes_of(seed: u64, round: u64, number: u64) -> Vec<u8> {
    SplitMix64::bytes((seed << 32) | (round << 16) | number, BLOCK)
}
