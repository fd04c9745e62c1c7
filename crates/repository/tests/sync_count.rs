//! Every put to a local folder syncs the object, then its folder. The syncs are counted where none
//! can be missed, at the system call.
//!
//! A test binary of its own, because the definitions below replace `fsync` and `fdatasync` of the C
//! library for the whole process, and count the syncs of all threads. Linux only, because there
//! `rustix` makes the system calls itself.
#![cfg(target_os = "linux")]
#![allow(unsafe_code, reason = "functions of the C library are replaced")]

#[path = "it/support/backup.rs"]
mod backup;
#[path = "it/support/complete_reader.rs"]
mod complete_reader;
#[path = "it/support/machine.rs"]
mod machine;

use std::ffi::c_int;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use cutpoint_repository::CommitResult;
use cutpoint_storage::{Layer, Local, Put, Result, Staged, Storage};

/// The inodes that were synced, in order.
static SYNCED: Mutex<Vec<u64>> = Mutex::new(Vec::new());

fn synced() -> Vec<u64> {
    std::mem::take(&mut *SYNCED.lock().unwrap_or_else(PoisonError::into_inner))
}

fn sync(fd: c_int, act: fn(BorrowedFd<'_>) -> rustix::io::Result<()>) -> c_int {
    // SAFETY: the caller of `fsync` owns the descriptor, and it stays open during the call.
    let fd = unsafe { BorrowedFd::borrow_raw(fd) };
    match rustix::fs::fstat(fd).and_then(|status| act(fd).map(|()| status.st_ino)) {
        Ok(inode) => {
            SYNCED.lock().unwrap_or_else(PoisonError::into_inner).push(inode);
            0
        }
        Err(_) => -1,
    }
}

// SAFETY: the name and the signature are those of the C library, and so is what it does.
#[unsafe(no_mangle)]
extern "C" fn fsync(fd: c_int) -> c_int {
    sync(fd, |fd| rustix::fs::fsync(fd))
}

// SAFETY: as `fsync`.
#[unsafe(no_mangle)]
extern "C" fn fdatasync(fd: c_int) -> c_int {
    sync(fd, |fd| rustix::fs::fdatasync(fd))
}

/// A folder that counts the created objects.
#[derive(Debug)]
struct Counting {
    inner: Local,
    created: Arc<AtomicUsize>,
}

/// A staged put that counts the created object.
#[derive(Debug)]
struct CountingStaged {
    inner: Box<dyn Staged>,
    created: Arc<AtomicUsize>,
}

impl Staged for CountingStaged {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.inner.write(bytes)
    }

    fn finish(self: Box<Self>) -> Result<Put> {
        let put = self.inner.finish()?;
        if put == Put::Created {
            self.created.fetch_add(1, Ordering::SeqCst);
        }
        Ok(put)
    }
}

impl Layer for Counting {
    fn below(&self) -> &dyn Storage {
        &self.inner
    }

    fn put_new(&self, name: &str, bytes: Bytes) -> Result<Put> {
        let put = self.inner.put_new(name, bytes)?;
        if put == Put::Created {
            self.created.fetch_add(1, Ordering::SeqCst);
        }
        Ok(put)
    }

    fn stage(&self, name: &str) -> Result<Option<Box<dyn Staged>>> {
        let created = self.created.clone();
        let staged = self.inner.stage(name)?;
        Ok(staged.map(|inner| -> Box<dyn Staged> { Box::new(CountingStaged { inner, created }) }))
    }
}

// One test: the counter is one for all threads.
#[test]
fn every_put_syncs_the_object_and_its_folder() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let inode =
        |name: &str| std::fs::metadata(folder.path().join(name)).expect("it is there").ino();
    let local = Local::open(folder.path()).expect("it is there");
    synced();
    Local::create(&folder.path().join("deep").join("er")).expect("it can be made");
    assert_eq!(synced(), [inode(""), inode("deep")], "the folders that have new entries");
    std::fs::remove_dir_all(folder.path().join("deep")).expect("it is there");
    let created: Arc<AtomicUsize> = Arc::default();
    let storage: Arc<dyn Storage> = Arc::new(Counting { inner: local, created: created.clone() });
    synced();
    storage.prepare().expect("it is empty");
    let prepared = synced();
    for name in ["", "data", "meta"] {
        assert!(prepared.contains(&inode(name)), "the new folders in {name:?} are not synced");
    }

    for name in ["tickets/000000000000000000000000", "data/a0/00000000000000000000000000000000"] {
        storage.put_new(name, Bytes::from_static(b"bytes")).expect("it is put");
        let synced = synced();
        let (parent, _) = name.rsplit_once('/').expect("it lies in a folder");
        assert_eq!(synced, [inode(name), inode(parent)], "{name}: the object, then its folder");
        storage.delete(name).expect("it is deleted");
    }

    let name = "data/a0/00000000000000000000000000000001";
    let mut staged = storage.stage(name).expect("there is room").expect("a folder takes pieces");
    for piece in [b"by".as_slice(), b"tes"] {
        staged.write(piece).expect("there is room");
    }
    assert!(synced().is_empty(), "nothing is synced before the end");
    staged.finish().expect("it is put");
    assert_eq!(synced(), [inode(name), inode("data/a0")], "the object, then its folder");
    storage.delete(name).expect("it is deleted");

    backup::init(storage.clone()).expect("it takes a repository");
    let repository = backup::open(storage.clone(), 1).expect("it opens");
    synced();
    created.store(0, Ordering::SeqCst);
    let committed = backup::back_up(&repository, &[1, 2, 3], true).expect("nothing fails here");
    assert_eq!(committed, CommitResult::Done, "no other client ends it");
    let (syncs, puts) = (synced().len(), created.load(Ordering::SeqCst));
    assert!(puts >= 8, "{puts} puts are too few to mean anything");
    assert_eq!(syncs, 2 * puts, "two syncs a put");
    created.store(0, Ordering::SeqCst);
    let committed = backup::back_up_embedding(&repository, &[4], false);
    assert_eq!(committed.expect("nothing fails here"), CommitResult::Done);
    let (syncs, puts) = (synced().len(), created.load(Ordering::SeqCst));
    assert_eq!((syncs, puts), (8, 4), "a ticket, two containers and a commit");
    assert_eq!(backup::restore_all(&repository).expect("it restores"), 2, "both snapshots");
}
