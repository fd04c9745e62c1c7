//! A folder of the local file system.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::{DirBuilder, File, TryLockError};
use std::io::{self, IoSliceMut};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, RenameFlags};
use rustix::io::{Errno, retry_on_intr};
use rustix::path::Arg;

use super::Folder;

/// The name of the file that is locked while a process uses the folder.
const LOCK: &str = "lock";
/// The maximum number of files that stay open.
const OPEN_MAX: usize = 256;

/// The use of a folder by a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reading. Any number of processes may read at a time.
    Read,
    /// Reading and writing, by one process at a time, while no other process reads.
    Write,
}

/// A folder of the local file system, locked as long as the value exists.
///
/// The value keeps the folder that it has opened, not its path: if the folder is moved and another one
/// takes its place, the value still uses the first one.
#[derive(Debug)]
pub struct LocalFolder {
    /// The descriptor to which all names are relative.
    folder: File,
    access: Access,
    /// The files that are open.
    files: Mutex<HashMap<String, Arc<File>>>,
    /// Holds the lock.
    lock: File,
}

impl LocalFolder {
    /// Creates the folder, or takes an empty one, and locks it for writing.
    ///
    /// # Errors
    ///
    /// Fails with `DirectoryNotEmpty` if files are in it, and if it cannot be created or locked.
    pub fn create(path: &Path) -> io::Result<LocalFolder> {
        match DirBuilder::new().mode(0o700).create(path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let folder = open_folder(path)?;
        if !entries(&folder)?.is_empty() {
            return Err(io::ErrorKind::DirectoryNotEmpty.into());
        }
        create_file(&folder, LOCK)?;
        LocalFolder::lock(folder, Access::Write)
    }

    /// Opens an existing folder and locks it.
    ///
    /// # Errors
    ///
    /// Fails with `WouldBlock` if another process uses the folder, with `NotFound` if it has no
    /// lock file, and if it cannot be opened.
    pub fn open(path: &Path, access: Access) -> io::Result<LocalFolder> {
        LocalFolder::lock(open_folder(path)?, access)
    }

    fn lock(folder: File, access: Access) -> io::Result<LocalFolder> {
        let is_write = access == Access::Write;
        let flags = if is_write { OFlags::RDWR } else { OFlags::RDONLY };
        let lock = open_at(&folder, LOCK, flags)?;
        let locked = if is_write { lock.try_lock() } else { lock.try_lock_shared() };
        locked.map_err(|error| match error {
            TryLockError::WouldBlock => io::ErrorKind::WouldBlock.into(),
            TryLockError::Error(error) => error,
        })?;
        Ok(LocalFolder { folder, access, files: Mutex::default(), lock })
    }

    /// Deletes all files of the folder, and the lock file last.
    ///
    /// # Errors
    ///
    /// Fails if the folder cannot be listed, or a file cannot be deleted.
    pub fn delete_all(&self) -> io::Result<()> {
        for name in self.names()? {
            self.delete(&name)?;
        }
        self.delete(LOCK)
    }

    /// Requires that the lock file is still in the folder. Where it was removed, another process may have
    /// created a volume in the folder.
    fn require_lock(&self) -> io::Result<()> {
        let locked = rustix::fs::fstat(&self.lock)?;
        match rustix::fs::statat(&self.folder, LOCK, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) if (found.st_dev, found.st_ino) == (locked.st_dev, locked.st_ino) => Ok(()),
            Err(error) if error != Errno::NOENT => Err(error.into()),
            _ => {
                let problem = "the files of the volume were removed";
                Err(io::Error::new(io::ErrorKind::NotFound, problem))
            }
        }
    }

    fn files(&self) -> MutexGuard<'_, HashMap<String, Arc<File>>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the open file of this name.
    fn file(&self, name: &str) -> io::Result<Arc<File>> {
        let mut files = self.files();
        if let Some(file) = files.get(name) {
            return Ok(Arc::clone(file));
        }
        let flags = match self.access {
            Access::Read => OFlags::RDONLY,
            Access::Write => OFlags::RDWR,
        };
        let file = Arc::new(open_at(&self.folder, name, flags)?);
        self.require_lock()?;
        if files.len() >= OPEN_MAX {
            files.clear();
        }
        files.insert(name.to_owned(), Arc::clone(&file));
        Ok(file)
    }
}

fn open_folder(path: &Path) -> rustix::io::Result<File> {
    open_at(CWD, path, OFlags::RDONLY | OFlags::DIRECTORY)
}

/// Opens an existing file or folder. A relative `name` begins in `folder`.
fn open_at(folder: impl AsFd, name: impl Arg + Copy, flags: OFlags) -> rustix::io::Result<File> {
    let flags = flags | OFlags::CLOEXEC;
    let opened = retry_on_intr(|| rustix::fs::openat(&folder, name, flags, Mode::empty()));
    opened.map(File::from)
}

/// Creates an empty file in `folder`, for its owner only, to be read and written.
///
/// # Errors
///
/// Fails if the file exists.
fn create_file(folder: &File, name: &str) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let mode = Mode::RUSR | Mode::WUSR;
    Ok(retry_on_intr(|| rustix::fs::openat(folder, name, flags, mode))?.into())
}

/// Returns the names of everything in `folder`, in no order.
fn entries(folder: &File) -> io::Result<Vec<OsString>> {
    let mut names = Vec::new();
    // Opens the folder again: the position of a listing belongs to its descriptor.
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name != "." && name != ".." {
            names.push(name.to_owned());
        }
    }
    Ok(names)
}

impl Drop for LocalFolder {
    /// Releases the lock, and not only this descriptor of it: a child that another thread starts at this
    /// moment has a copy of the descriptor until it runs its program.
    fn drop(&mut self) {
        // Where this fails, the lock ends with the last descriptor.
        self.lock.unlock().ok();
    }
}

impl Folder for LocalFolder {
    fn names(&self) -> io::Result<Vec<String>> {
        // No file of a volume has a name that is not text.
        let names = entries(&self.folder)?.into_iter().filter_map(|name| name.into_string().ok());
        Ok(names.filter(|name| name != LOCK).collect())
    }

    fn create(&self, name: &str) -> io::Result<()> {
        self.require_lock()?;
        let file = create_file(&self.folder, name)?;
        self.files().insert(name.to_owned(), Arc::new(file));
        Ok(())
    }

    fn reuse(&self, from: &str, to: &str) -> io::Result<u64> {
        self.require_lock()?;
        let file = open_at(&self.folder, from, OFlags::RDWR | OFlags::NOFOLLOW)?;
        let found = file.metadata()?;
        if found.nlink() != 1 {
            // The other name may be that of a copy of the volume.
            return Err(io::Error::other("the file has several names"));
        }
        rustix::fs::renameat_with(&self.folder, from, &self.folder, to, RenameFlags::NOREPLACE)?;
        let mut files = self.files();
        files.remove(from);
        files.insert(to.to_owned(), Arc::new(file));
        Ok(found.len())
    }

    fn write_at(&self, name: &str, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.file(name)?.write_all_at(bytes, offset)
    }

    fn read_at(&self, name: &str, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.file(name)?.read_exact_at(buffer, offset)
    }

    fn read_parts_at(
        &self,
        name: &str,
        mut offset: u64,
        mut parts: &mut [IoSliceMut<'_>],
    ) -> io::Result<()> {
        let file = self.file(name)?;
        // Buffers without bytes are passed over.
        IoSliceMut::advance_slices(&mut parts, 0);
        while !parts.is_empty() {
            let count = match rustix::io::preadv(&*file, parts, offset) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => count,
                Err(Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            };
            offset += count as u64;
            IoSliceMut::advance_slices(&mut parts, count);
        }
        Ok(())
    }

    fn size(&self, name: &str) -> io::Result<u64> {
        Ok(self.file(name)?.metadata()?.len())
    }

    fn sync(&self, name: &str) -> io::Result<()> {
        self.require_lock()?;
        self.file(name)?.sync_data()
    }

    fn sync_names(&self) -> io::Result<()> {
        self.require_lock()?;
        self.folder.sync_all()
    }

    fn delete(&self, name: &str) -> io::Result<()> {
        self.require_lock()?;
        self.files().remove(name);
        Ok(rustix::fs::unlinkat(&self.folder, name, AtFlags::empty())?)
    }

    fn free_bytes(&self) -> Option<u64> {
        let found = rustix::fs::fstatvfs(&self.folder).ok()?;
        found.f_bavail.checked_mul(found.f_frsize)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn lock_ends_with_the_value_even_if_its_descriptor_was_copied() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("volume");
        let writer = LocalFolder::create(&path).expect("created");
        let copy = writer.lock.try_clone().expect("a copy, as a child has it");
        LocalFolder::open(&path, Access::Read).expect_err("in use");
        drop(writer);
        LocalFolder::open(&path, Access::Write).expect("free");
        drop(copy);
    }

    #[test]
    fn moved_folder_is_used_further_and_another_one_at_its_path_is_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, moved) = (folder.path().join("volume"), folder.path().join("moved"));
        let first = LocalFolder::create(&path).expect("created");
        for name in ["a", "b", "c"] {
            Folder::create(&first, name).expect("created");
        }
        fs::rename(&path, &moved).expect("moved");
        let second = LocalFolder::create(&path).expect("not in use");
        for name in ["a", "b"] {
            Folder::create(&second, name).expect("created");
            second.write_at(name, 0, b"second").expect("written");
        }
        // No file is open.
        first.files().clear();
        Folder::create(&first, "d").expect("created");
        first.write_at("a", 0, b"first").expect("written");
        first.write_at("d", 0, b"new").expect("written");
        first.delete("b").expect("deleted");
        for name in ["a", "c", "d"] {
            first.sync(name).expect("synced");
        }
        first.sync_names().expect("synced");
        assert!(first.free_bytes().is_some(), "the descriptor names the file system");
        let sorted = |local: &LocalFolder| {
            let mut names = local.names().expect("listed");
            names.sort_unstable();
            names
        };
        assert_eq!(sorted(&first), ["a", "c", "d"]);
        assert_eq!(sorted(&first), ["a", "c", "d"], "each listing begins anew");
        assert_eq!(sorted(&second), ["a", "b"]);
        assert_eq!(fs::read(moved.join("a")).expect("read"), b"first");
        assert_eq!(fs::read(moved.join("d")).expect("read"), b"new");
        for name in ["a", "b"] {
            assert_eq!(fs::read(path.join(name)).expect("read"), b"second", "{name}");
        }
        let error = LocalFolder::open(&moved, Access::Write).expect_err("in use");
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        drop(first);
        let first = LocalFolder::open(&moved, Access::Write).expect("free");
        fs::rename(&moved, folder.path().join("moved again")).expect("moved");
        fs::rename(&path, &moved).expect("moved");
        first.delete_all().expect("deleted");
        fs::remove_dir(folder.path().join("moved again")).expect("empty");
        assert_eq!(sorted(&second), ["a", "b"]);
        fs::metadata(moved.join(LOCK)).expect("the lock of the second volume");
    }

    #[test]
    fn file_that_is_begun_anew_is_overwritten_and_keeps_its_length() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("volume");
        let local = LocalFolder::create(&path).expect("created");
        for name in ["a", "b"] {
            Folder::create(&local, name).expect("created");
            local.write_at(name, 0, b"0123456789").expect("written");
        }
        fs::hard_link(path.join("b"), folder.path().join("copy")).expect("linked");
        local.reuse("b", "c").expect_err("has a second name");
        let error = local.reuse("a", "b").expect_err("exists");
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        let error = local.reuse("d", "e").expect_err("does not exist");
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        local.write_at("a", 10, b"+").expect("written");
        assert_eq!(local.reuse("a", "c").expect("begun anew"), 11);
        local.write_at("c", 0, b"abc").expect("written");
        // The file is opened again.
        local.files().clear();
        local.write_at("c", 3, b"de").expect("written");
        assert_eq!(fs::read(path.join("c")).expect("read"), b"abcde56789+");
        assert_eq!(local.size("c").expect("there"), 11);
        local.write_at("c", 5, b"0123456789").expect("written");
        assert_eq!(fs::read(path.join("c")).expect("read"), b"abcde0123456789");
        assert_eq!(fs::read(folder.path().join("copy")).expect("read"), b"0123456789");
        fs::metadata(path.join("a")).expect_err("has another name");
        local.delete("c").expect("deleted");
        Folder::create(&local, "c").expect("created");
        local.write_at("c", 0, b"new").expect("written");
        assert_eq!(fs::read(path.join("c")).expect("read"), b"new");
    }

    #[test]
    fn removed_volume_is_told_and_leaves_another_one_at_its_path() {
        for keeps_folder in [false, true] {
            let folder = tempfile::tempdir().expect("a folder");
            let path = folder.path().join("volume");
            let first = LocalFolder::create(&path).expect("created");
            Folder::create(&first, "a").expect("created");
            if keeps_folder {
                for name in ["a", LOCK] {
                    fs::remove_file(path.join(name)).expect("removed");
                }
            } else {
                fs::remove_dir_all(&path).expect("removed");
            }
            let second = LocalFolder::create(&path).expect("not in use");
            Folder::create(&second, "a").expect("created");
            first.write_at("a", 0, b"first").expect("written to the removed file");
            let refused = [
                Folder::create(&first, "b"),
                first.sync("a"),
                first.sync_names(),
                first.delete("a"),
            ];
            for refused in refused {
                let error = refused.expect_err("removed");
                assert!(error.to_string().contains("volume were removed"), "{error}");
            }
            assert_eq!(second.names().expect("listed"), ["a"]);
            assert_eq!(second.size("a").expect("there"), 0);
        }
    }
}
