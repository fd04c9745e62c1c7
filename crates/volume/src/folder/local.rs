//! A folder of the local file system.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, IoSliceMut, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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
#[derive(Debug)]
pub struct LocalFolder {
    path: PathBuf,
    open: Mutex<HashMap<String, Arc<File>>>,
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
        match fs::DirBuilder::new().mode(0o700).create(path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        if fs::read_dir(path)?.next().is_some() {
            return Err(io::ErrorKind::DirectoryNotEmpty.into());
        }
        let lock = path.join(LOCK);
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(lock)?;
        LocalFolder::open(path, Access::Write)
    }

    /// Opens an existing folder and locks it.
    ///
    /// # Errors
    ///
    /// Fails with `WouldBlock` if another process uses the folder, with `NotFound` if it has no
    /// lock file, and if it cannot be opened.
    pub fn open(path: &Path, access: Access) -> io::Result<LocalFolder> {
        let is_write = access == Access::Write;
        let lock = OpenOptions::new().read(true).write(is_write).open(path.join(LOCK))?;
        let locked = if is_write { lock.try_lock() } else { lock.try_lock_shared() };
        locked.map_err(|error| match error {
            TryLockError::WouldBlock => io::ErrorKind::WouldBlock.into(),
            TryLockError::Error(error) => error,
        })?;
        Ok(LocalFolder { path: path.to_owned(), open: Mutex::default(), lock })
    }

    fn files(&self) -> MutexGuard<'_, HashMap<String, Arc<File>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the open file of this name.
    fn file(&self, name: &str) -> io::Result<Arc<File>> {
        let mut open = self.files();
        if let Some(file) = open.get(name) {
            return Ok(Arc::clone(file));
        }
        let path = self.path.join(name);
        // A reader of a volume may have no permission to write.
        let file = OpenOptions::new().read(true).append(true).open(&path);
        let file = Arc::new(file.or_else(|_| File::open(&path))?);
        if open.len() >= OPEN_MAX {
            open.clear();
        }
        open.insert(name.to_owned(), Arc::clone(&file));
        Ok(file)
    }
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
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            // No file of a volume has a name that is not text.
            names.extend(entry?.file_name().into_string().ok().filter(|name| name != LOCK));
        }
        Ok(names)
    }

    fn create(&self, name: &str) -> io::Result<()> {
        let mut options = OpenOptions::new();
        options.read(true).append(true).create_new(true).mode(0o600);
        let file = options.open(self.path.join(name))?;
        self.files().insert(name.to_owned(), Arc::new(file));
        Ok(())
    }

    fn append(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        (&*self.file(name)?).write_all(bytes)
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
                Err(rustix::io::Errno::INTR) => continue,
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
        self.file(name)?.sync_data()
    }

    fn sync_names(&self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()
    }

    fn delete(&self, name: &str) -> io::Result<()> {
        self.files().remove(name);
        fs::remove_file(self.path.join(name))
    }

    fn free_bytes(&self) -> Option<u64> {
        let found = rustix::fs::statvfs(&self.path).ok()?;
        found.f_bavail.checked_mul(found.f_frsize)
    }
}

#[cfg(test)]
mod tests {
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
}
