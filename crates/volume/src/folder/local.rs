//! A folder of the local file system.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::{DirBuilder, File, TryLockError};
use std::io::{self, IoSliceMut, Write};
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
    files: Mutex<Files>,
    /// Holds the lock.
    lock: File,
}

/// The files of the folder that were used.
#[derive(Debug, Default)]
struct Files {
    /// Files that are open.
    open: HashMap<String, Arc<File>>,
    /// The files that were begun anew, with the numbers of bytes that were appended since.
    begun_anew: HashMap<String, u64>,
}

impl Files {
    /// Drops what is known of a name, which is deleted or changed.
    fn forget(&mut self, name: &str) {
        self.open.remove(name);
        self.begun_anew.remove(name);
    }
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

    fn files(&self) -> MutexGuard<'_, Files> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the open file of this name.
    fn file(&self, name: &str) -> io::Result<Arc<File>> {
        self.file_of(&mut self.files(), name)
    }

    fn file_of(&self, files: &mut Files, name: &str) -> io::Result<Arc<File>> {
        if let Some(file) = files.open.get(name) {
            return Ok(Arc::clone(file));
        }
        let flags = match self.access {
            Access::Read => OFlags::RDONLY,
            Access::Write if files.begun_anew.contains_key(name) => OFlags::RDWR,
            Access::Write => OFlags::RDWR | OFlags::APPEND,
        };
        let file = Arc::new(open_at(&self.folder, name, flags)?);
        self.require_lock()?;
        if files.open.len() >= OPEN_MAX {
            files.open.clear();
        }
        files.open.insert(name.to_owned(), Arc::clone(&file));
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

/// Creates an empty file in `folder`, for its owner only, to be read and appended to.
///
/// # Errors
///
/// Fails if the file exists.
fn create_file(folder: &File, name: &str) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::APPEND | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
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
        self.files().open.insert(name.to_owned(), Arc::new(file));
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
        files.forget(from);
        files.open.insert(to.to_owned(), Arc::new(file));
        files.begun_anew.insert(to.to_owned(), 0);
        Ok(found.len())
    }

    fn append(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let (file, end) = {
            let mut files = self.files();
            (self.file_of(&mut files, name)?, files.begun_anew.get(name).copied())
        };
        let Some(end) = end else { return (&*file).write_all(bytes) };
        file.write_all_at(bytes, end)?;
        if let Some(end) = self.files().begun_anew.get_mut(name) {
            *end += bytes.len() as u64;
        }
        Ok(())
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
        self.files().forget(name);
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
            second.append(name, b"second").expect("appended");
        }
        // No file is open.
        first.files().open.clear();
        Folder::create(&first, "d").expect("created");
        first.append("a", b"first").expect("appended");
        first.append("d", b"new").expect("appended");
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
            local.append(name, b"0123456789").expect("appended");
        }
        fs::hard_link(path.join("b"), folder.path().join("copy")).expect("linked");
        local.reuse("b", "c").expect_err("has a second name");
        let error = local.reuse("a", "b").expect_err("exists");
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        let error = local.reuse("d", "e").expect_err("does not exist");
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        local.append("a", b"+").expect("appended");
        assert_eq!(local.reuse("a", "c").expect("begun anew"), 11);
        local.append("c", b"abc").expect("appended");
        // The file is opened again.
        local.files().open.clear();
        local.append("c", b"de").expect("appended");
        assert_eq!(fs::read(path.join("c")).expect("read"), b"abcde56789+");
        assert_eq!(local.size("c").expect("there"), 11);
        local.append("c", b"0123456789").expect("appended");
        assert_eq!(fs::read(path.join("c")).expect("read"), b"abcde0123456789");
        assert_eq!(fs::read(folder.path().join("copy")).expect("read"), b"0123456789");
        fs::metadata(path.join("a")).expect_err("has another name");
        local.delete("c").expect("deleted");
        Folder::create(&local, "c").expect("created");
        local.append("c", b"new").expect("appended");
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
            first.append("a", b"first").expect("appended to the removed file");
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
