//! The thread that writes checkpoints.

use std::sync::atomic::{AtomicBool, Ordering};

use cutpoint_volume::{Folder, Kind, OpenOptions};

use crate::support::{Opened, block, create, open_folder, options, read, shared, write};

/// Returns options with which some hundred writes need a checkpoint.
fn small() -> OpenOptions {
    OpenOptions { memory: 1 << 20, ..options() }
}

/// Returns options with which neither memory nor bytes of the log need a checkpoint soon.
fn options_of_the_program() -> OpenOptions {
    OpenOptions { memory: 256 << 20, ..options() }
}

fn name_of_last_checkpoint(folder: &impl Folder) -> Option<String> {
    let names = folder.names().expect("listed").into_iter();
    names.filter(|name| name.starts_with("checkpoint") && !name.ends_with("copy")).max()
}

/// Calls `write` while a thread writes checkpoints, and returns its result.
fn with_thread(
    volume: &Opened,
    write: impl FnOnce(),
) -> std::result::Result<(), cutpoint_volume::Error> {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| volume.write_checkpoints(&|| is_over.load(Ordering::Relaxed)));
        write();
        is_over.store(true, Ordering::Relaxed);
        thread.join().expect("no panic")
    })
}

#[test]
fn thread_writes_the_checkpoints_of_writes() {
    let folder = create(6000, 4096, "exact");
    let first = name_of_last_checkpoint(&folder);
    let volume = open_folder(shared(&folder), &small()).expect("opened");
    with_thread(&volume, || {
        for number in 0..6000 {
            write(&volume, number, &block(number, 4096));
        }
    })
    .expect("checkpoints");
    assert!(name_of_last_checkpoint(&folder) > first);
    volume.audit().expect("audit");
    volume.flush().expect("flushed");
    drop(volume);
    let volume = open_folder(shared(&folder), &small()).expect("opened");
    for number in (0..6000).step_by(97) {
        assert!(read(&volume, number).expect("read") == block(number, 4096), "{number}");
    }
}

/// Records without bytes of their own count as well, because a start after a crash applies each.
#[test]
fn checkpoint_is_due_after_many_duplicates() {
    let folder = create(64, 4096, "exact");
    let first = name_of_last_checkpoint(&folder);
    let volume = open_folder(shared(&folder), &options_of_the_program()).expect("opened");
    for number in 0..20_000 {
        write(&volume, number % 64, &block(number / 64 % 2, 4096));
    }
    assert!(name_of_last_checkpoint(&folder) > first);
}

#[test]
fn writes_tell_of_a_checkpoint_that_fails_in_the_thread() {
    let folder = create(6000, 4096, "exact");
    let volume = open_folder(shared(&folder), &small()).expect("opened");
    folder.fail_syncs(true);
    let ended = with_thread(&volume, || {
        let failed = (0..6000).find_map(|number| {
            let disk = volume.write(number * 4096, &block(number, 4096));
            disk.err()
        });
        assert_eq!(failed.expect("a write fails").kind(), Kind::Io);
    });
    assert!(ended.is_err());
}
