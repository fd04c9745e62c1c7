//! Volumes in folders of the local file system.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

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
