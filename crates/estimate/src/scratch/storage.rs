//! The storage of a scratch repository: it counts what is put, and keeps as much as is read again.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use cutpoint_storage::{
    Error, Kind, ObjectKind, Put, Result, Storage, Visibility, count_max, too_long,
};

/// The next step if the file of a scratch repository does not fit.
const FULL: &str = "free some space there, or name another folder by --scratch";
/// The next step if an object has to be read that was only counted.
const DISCARDED: &str = "name a folder by --scratch, in which the data is kept for a while";

/// The sizes of the objects of a scratch repository, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoredSizes {
    /// The size of the containers of file data.
    pub data_bytes: u64,
    /// The size of everything else: trees, recipes, index, snapshots, settings, keys.
    pub metadata_bytes: u64,
}

impl StoredSizes {
    /// Returns the size of the repository in bytes.
    pub fn total(&self) -> u64 {
        self.data_bytes + self.metadata_bytes
    }
}

/// The storage of a scratch repository. Small objects are kept in memory. The bulk of the objects,
/// which are those of [`is_bulky`], is kept in a file or nowhere.
#[derive(Debug)]
pub(super) struct ScratchStorage {
    file: Option<ScratchFile>,
    objects: Mutex<Objects>,
}

/// The file of the bulky objects, which has no name and is gone once it is closed.
#[derive(Debug)]
struct ScratchFile {
    file: File,
    /// The folder of the file, for messages.
    folder: PathBuf,
}

#[derive(Debug, Default)]
struct Objects {
    by_name: BTreeMap<String, Object>,
    /// The length of the file, in bytes. The space of deleted objects is not used again.
    file_len: u64,
}

#[derive(Clone, Debug)]
struct Object {
    len: u64,
    body: Body,
}

/// The place of the bytes of an object.
#[derive(Clone, Debug)]
enum Body {
    Memory(Bytes),
    File { offset: u64 },
    Discarded,
}

impl ScratchStorage {
    /// Creates an empty storage that discards bulky objects.
    pub(super) fn counting() -> ScratchStorage {
        ScratchStorage { file: None, objects: Mutex::default() }
    }

    /// Creates an empty storage that keeps bulky objects in a file without a name in `folder`, which
    /// only this process can read.
    ///
    /// # Errors
    ///
    /// Returns any error of the file system.
    pub(super) fn in_folder(folder: &Path) -> io::Result<ScratchStorage> {
        let file = ScratchFile { file: tempfile::tempfile_in(folder)?, folder: folder.to_owned() };
        Ok(ScratchStorage { file: Some(file), objects: Mutex::default() })
    }

    /// Returns the sizes of the objects that exist.
    pub(super) fn sizes(&self) -> StoredSizes {
        let mut sizes = StoredSizes::default();
        for (name, object) in &self.objects().by_name {
            match ObjectKind::of_path(name) {
                Some(ObjectKind::Data) => sizes.data_bytes += object.len,
                _ => sizes.metadata_bytes += object.len,
            }
        }
        sizes
    }

    fn objects(&self) -> MutexGuard<'_, Objects> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn object(&self, name: &str) -> Result<Object> {
        let object = self.objects().by_name.get(name).cloned();
        object.ok_or_else(|| Error::missing(name, "not found"))
    }

    /// Stores the bytes of an object that is not listed yet.
    fn keep(&self, name: &str, bytes: Bytes) -> Result<Body> {
        if !is_bulky(name) {
            return Ok(Body::Memory(bytes));
        }
        let Some(file) = &self.file else { return Ok(Body::Discarded) };
        let offset = {
            let mut objects = self.objects();
            let offset = objects.file_len;
            objects.file_len += bytes.len() as u64;
            offset
        };
        file.file.write_all_at(&bytes, offset).map_err(|error| file.failure(&error, offset))?;
        Ok(Body::File { offset })
    }

    /// Reads `len` bytes at `offset` of an object.
    fn read(&self, name: &str, object: &Object, offset: u64, len: usize) -> Result<Bytes> {
        let too_short = || {
            let message = format!("too short (expected {len} bytes at offset {offset})");
            Error::corrupt(name, message)
        };
        let end = offset.checked_add(len as u64).filter(|end| *end <= object.len);
        if end.is_none() {
            return Err(too_short());
        }
        match (&object.body, &self.file) {
            (Body::Memory(bytes), _) => {
                let start = usize::try_from(offset).map_err(|_| too_short())?;
                Ok(bytes.slice(start..start + len))
            }
            (Body::File { offset: start }, Some(file)) => {
                let mut bytes = vec![0; len];
                let at = start + offset;
                file.file
                    .read_exact_at(&mut bytes, at)
                    .map_err(|error| file.failure(&error, at))?;
                Ok(Bytes::from(bytes))
            }
            (Body::File { .. } | Body::Discarded, _) => {
                let message = "needed again, but only its size was kept";
                Err(Error::new(Kind::Storage, name, message).with_remedy(DISCARDED))
            }
        }
    }
}

impl ScratchFile {
    /// Returns the error of the store for an `error` of this file, of which `len` bytes were written.
    fn failure(&self, error: &io::Error, len: u64) -> Error {
        let object = format!("temporary data in {}", self.folder.display());
        match error.kind() {
            io::ErrorKind::StorageFull
            | io::ErrorKind::QuotaExceeded
            | io::ErrorKind::FileTooLarge => {
                let message = format!("{error} after {} MiB", len >> 20);
                Error::new(Kind::Full, object, message).with_remedy(FULL)
            }
            _ => Error::new(Kind::Storage, object, error),
        }
    }
}

/// Returns `true` for the kinds of objects that grow with the data.
fn is_bulky(name: &str) -> bool {
    matches!(
        ObjectKind::of_path(name),
        Some(
            ObjectKind::Data
                | ObjectKind::Meta
                | ObjectKind::Segment
                | ObjectKind::Similarity
                | ObjectKind::Parity
        )
    )
}

impl Storage for ScratchStorage {
    fn put_new(&self, name: &str, bytes: Bytes) -> Result<Put> {
        if self.objects().by_name.contains_key(name) {
            return Ok(Put::Exists);
        }
        let len = bytes.len() as u64;
        let object = Object { len, body: self.keep(name, bytes)? };
        // No two puts of one name are in progress, because there is one client.
        self.objects().by_name.insert(name.to_owned(), object);
        Ok(Put::Created)
    }

    fn sync(&self, name: &str) -> Result<()> {
        self.object(name).map(drop)
    }

    fn get_at_most(&self, name: &str, len_max: u64) -> Result<Bytes> {
        let object = self.object(name)?;
        match usize::try_from(object.len) {
            Ok(len) if object.len <= len_max => self.read(name, &object, 0, len),
            _ => Err(too_long(name, object.len, len_max)),
        }
    }

    fn get_range(&self, name: &str, offset: u64, len: usize) -> Result<Bytes> {
        self.read(name, &self.object(name)?, offset, len)
    }

    fn head(&self, name: &str) -> Result<Option<u64>> {
        Ok(self.objects().by_name.get(name).map(|object| object.len))
    }

    fn list(&self, prefix: &str) -> Result<Vec<(String, u64)>> {
        let folder = match prefix.trim_end_matches('/') {
            "" => String::new(),
            prefix => format!("{prefix}/"),
        };
        let objects = self.objects();
        let below = objects.by_name.range(folder.clone()..);
        let found: Vec<(String, u64)> = below
            .take_while(|(name, _)| name.starts_with(&folder))
            .map(|(name, object)| (name.clone(), object.len))
            .collect();
        let count_max = count_max(prefix);
        if found.len() > count_max {
            let message = format!("more than {count_max} objects, the maximum of this kind");
            return Err(Error::new(Kind::Storage, prefix, message));
        }
        Ok(found)
    }

    fn delete(&self, name: &str) -> Result<()> {
        self.objects().by_name.remove(name);
        Ok(())
    }

    fn visibility(&self) -> Result<Visibility> {
        Ok(Visibility::AtOnce)
    }

    fn describe(&self) -> String {
        match &self.file {
            Some(file) => format!("temporary data in {}", file.folder.display()),
            None => "nowhere".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(storage: &ScratchStorage, name: &str, bytes: &'static [u8]) {
        let put = storage.put_new(name, Bytes::from_static(bytes)).expect("it is put");
        assert_eq!(put, Put::Created, "{name}");
    }

    #[test]
    fn counting_storage_keeps_sizes_and_small_objects() {
        let storage = ScratchStorage::counting();
        put(&storage, "data/00/a", b"0123456789");
        put(&storage, "meta/00/b", b"0123");
        put(&storage, "commits/c", b"01");
        let again = storage.put_new("data/00/a", Bytes::new()).expect("it exists");
        assert_eq!(again, Put::Exists);
        assert_eq!(storage.sizes(), StoredSizes { data_bytes: 10, metadata_bytes: 6 });
        assert_eq!(storage.head("data/00/a").expect("known"), Some(10));
        assert_eq!(storage.list("data").expect("listed"), [("data/00/a".to_owned(), 10)]);
        assert_eq!(&storage.get("commits/c").expect("kept")[..], b"01");
        let error = storage.get("data/00/a").expect_err("discarded");
        assert_eq!(error.kind(), Kind::Storage, "not a damage that a backup tolerates");
        assert!(error.remedy().is_some_and(|remedy| remedy.contains("--scratch")), "{error}");
        storage.delete("data/00/a").expect("deleted");
        assert_eq!(storage.sizes().total(), 6, "deleted objects do not count");
    }

    #[test]
    fn storage_in_folder_returns_what_was_put_and_leaves_no_name() {
        let folder = tempfile::tempdir().expect("made");
        let storage = ScratchStorage::in_folder(folder.path()).expect("created");
        put(&storage, "data/00/a", b"0123456789");
        put(&storage, "index/b", b"abc");
        assert_eq!(&storage.get("data/00/a").expect("kept")[..], b"0123456789");
        assert_eq!(&storage.get_range("data/00/a", 3, 4).expect("kept")[..], b"3456");
        assert_eq!(&storage.get("index/b").expect("kept")[..], b"abc");
        for (offset, len) in [(7, 4), (11, 0), (u64::MAX, 1)] {
            let error = storage.get_range("data/00/a", offset, len).expect_err("too short");
            assert_eq!(error.kind(), Kind::Corrupt, "{offset} {len}");
        }
        assert_eq!(storage.get_at_most("index/b", 2).expect_err("long").kind(), Kind::Corrupt);
        assert_eq!(storage.get("index/c").expect_err("none").kind(), Kind::Missing);
        let names = std::fs::read_dir(folder.path()).expect("it lists").count();
        assert_eq!(names, 0, "the file has no name");
    }
}
