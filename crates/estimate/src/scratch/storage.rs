//! The storage of a scratch repository: it counts what is put, and keeps as much as is read again.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use bytes::Bytes;
use cutpoint_storage::{
    Error, Kind, ObjectKind, Put, Result, Staged, Storage, Visibility, count_max, too_long,
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
    contents: Arc<Contents>,
}

#[derive(Debug)]
struct Contents {
    file: Option<ScratchFile>,
    objects: Mutex<BTreeMap<String, Object>>,
    /// The first object that was read although only its size was kept.
    missed: OnceLock<String>,
}

/// The file of the bulky objects, which has no name and is gone once it is closed.
#[derive(Debug)]
struct ScratchFile {
    file: File,
    /// The folder of the file, for messages.
    folder: PathBuf,
    /// The length of the file, in bytes. The space of deleted objects is not used again.
    len: AtomicU64,
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
    /// Pieces in the file, in order and without gaps.
    File(Arc<Vec<Piece>>),
    Discarded,
}

/// A part of an object, which lies in the file.
#[derive(Clone, Copy, Debug)]
struct Piece {
    /// The offset of the end of the part in the object.
    end: u64,
    /// The offset in the file.
    file_offset: u64,
    len: u64,
}

impl ScratchStorage {
    /// Creates an empty storage that discards bulky objects.
    pub(super) fn counting() -> ScratchStorage {
        ScratchStorage::of(None)
    }

    /// Creates an empty storage that keeps bulky objects in a file without a name in `folder`, which
    /// only this process can read.
    ///
    /// # Errors
    ///
    /// Returns any error of the file system.
    pub(super) fn in_folder(folder: &Path) -> io::Result<ScratchStorage> {
        let file = ScratchFile {
            file: tempfile::tempfile_in(folder)?,
            folder: folder.to_owned(),
            len: AtomicU64::new(0),
        };
        Ok(ScratchStorage::of(Some(file)))
    }

    fn of(file: Option<ScratchFile>) -> ScratchStorage {
        let contents = Contents { file, objects: Mutex::default(), missed: OnceLock::new() };
        ScratchStorage { contents: Arc::new(contents) }
    }

    /// Checks that no object was read that was discarded. A backup tolerates objects that it cannot read,
    /// but may then store data again.
    ///
    /// # Errors
    ///
    /// Returns a `Storage` error about the first such object.
    pub(super) fn require_kept(&self) -> Result<()> {
        match self.contents.missed.get() {
            Some(name) => Err(discarded(name)),
            None => Ok(()),
        }
    }

    /// Returns the sizes of the objects that exist.
    pub(super) fn sizes(&self) -> StoredSizes {
        let mut sizes = StoredSizes::default();
        for (name, object) in &*self.contents.objects() {
            match ObjectKind::of_path(name) {
                Some(ObjectKind::Data) => sizes.data_bytes += object.len,
                _ => sizes.metadata_bytes += object.len,
            }
        }
        sizes
    }
}

impl Contents {
    fn objects(&self) -> MutexGuard<'_, BTreeMap<String, Object>> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn object(&self, name: &str) -> Result<Object> {
        let object = self.objects().get(name).cloned();
        object.ok_or_else(|| Error::missing(name, "not found"))
    }

    /// Adds an object, unless there is one of this name.
    fn add(&self, name: &str, object: Object) -> Put {
        match self.objects().entry(name.to_owned()) {
            Entry::Occupied(_) => Put::Exists,
            Entry::Vacant(vacant) => {
                vacant.insert(object);
                Put::Created
            }
        }
    }

    /// Reads `len` bytes at `offset` of an object.
    fn read(&self, name: &str, object: &Object, offset: u64, len: usize) -> Result<Bytes> {
        let end = offset.checked_add(len as u64).filter(|end| *end <= object.len);
        let (Some(end), Ok(start)) = (end, usize::try_from(offset)) else {
            let message = format!("too short (expected {len} bytes at offset {offset})");
            return Err(Error::corrupt(name, message));
        };
        match (&object.body, &self.file) {
            (Body::Memory(bytes), _) => Ok(bytes.slice(start..start + len)),
            (Body::File(pieces), Some(file)) => file.read(pieces, offset..end, len),
            (Body::File(_) | Body::Discarded, _) => {
                // The first one is enough to know.
                self.missed.set(name.to_owned()).ok();
                Err(discarded(name))
            }
        }
    }
}

impl ScratchFile {
    /// Appends bytes. Returns their offset in the file.
    fn append(&self, bytes: &[u8]) -> Result<u64> {
        let offset = self.len.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        self.file.write_all_at(bytes, offset).map_err(|error| self.failure(&error, offset))?;
        Ok(offset)
    }

    /// Reads the bytes of `range`, which are `len`, of the object with these pieces.
    fn read(&self, pieces: &[Piece], range: Range<u64>, len: usize) -> Result<Bytes> {
        let mut bytes = vec![0; len];
        let mut rest = &mut bytes[..];
        let mut at = range.start;
        let first = pieces.partition_point(|piece| piece.end <= at);
        for piece in &pieces[first..] {
            if rest.is_empty() {
                break;
            }
            let part_len = usize::try_from(piece.end - at).unwrap_or(usize::MAX).min(rest.len());
            let (part, others) = rest.split_at_mut(part_len);
            let file_offset = piece.file_offset + (at + piece.len - piece.end);
            let read = self.file.read_exact_at(part, file_offset);
            read.map_err(|error| self.failure(&error, file_offset))?;
            at += part_len as u64;
            rest = others;
        }
        Ok(Bytes::from(bytes))
    }

    /// Returns the error of the store for an `error` of this file at this offset.
    fn failure(&self, error: &io::Error, offset: u64) -> Error {
        let object = format!("temporary data in {}", self.folder.display());
        match error.kind() {
            io::ErrorKind::StorageFull
            | io::ErrorKind::QuotaExceeded
            | io::ErrorKind::FileTooLarge => {
                let message = format!("{error} after {} MiB", offset >> 20);
                Error::new(Kind::Full, object, message).with_remedy(FULL)
            }
            _ => Error::new(Kind::Storage, object, error),
        }
    }
}

/// A bulky object that is put in pieces.
#[derive(Debug)]
struct ScratchStaged {
    contents: Arc<Contents>,
    name: String,
    len: u64,
    /// The pieces in the file, if there is one.
    pieces: Vec<Piece>,
}

impl Staged for ScratchStaged {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let len = bytes.len() as u64;
        self.len += len;
        if let Some(file) = &self.contents.file {
            let file_offset = file.append(bytes)?;
            self.pieces.push(Piece { end: self.len, file_offset, len });
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Put> {
        let body = match self.contents.file {
            Some(_) => Body::File(Arc::new(self.pieces)),
            None => Body::Discarded,
        };
        Ok(self.contents.add(&self.name, Object { len: self.len, body }))
    }
}

/// Returns the error of the object `name`, of which only the size was kept.
fn discarded(name: &str) -> Error {
    let message = "needed again, but only its size was kept";
    Error::new(Kind::Storage, name, message).with_remedy(DISCARDED)
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
        let Some(mut staged) = self.stage(name)? else {
            let object = Object { len: bytes.len() as u64, body: Body::Memory(bytes) };
            return Ok(self.contents.add(name, object));
        };
        if self.contents.objects().contains_key(name) {
            return Ok(Put::Exists);
        }
        staged.write(&bytes)?;
        staged.finish()
    }

    fn stage(&self, name: &str) -> Result<Option<Box<dyn Staged>>> {
        if !is_bulky(name) {
            return Ok(None);
        }
        let (contents, name) = (self.contents.clone(), name.to_owned());
        Ok(Some(Box::new(ScratchStaged { contents, name, len: 0, pieces: Vec::new() })))
    }

    fn sync(&self, name: &str) -> Result<()> {
        self.contents.object(name).map(drop)
    }

    fn get_at_most(&self, name: &str, len_max: u64) -> Result<Bytes> {
        let object = self.contents.object(name)?;
        match usize::try_from(object.len) {
            Ok(len) if object.len <= len_max => self.contents.read(name, &object, 0, len),
            _ => Err(too_long(name, object.len, len_max)),
        }
    }

    fn get_range(&self, name: &str, offset: u64, len: usize) -> Result<Bytes> {
        self.contents.read(name, &self.contents.object(name)?, offset, len)
    }

    fn head(&self, name: &str) -> Result<Option<u64>> {
        Ok(self.contents.objects().get(name).map(|object| object.len))
    }

    fn list(&self, prefix: &str) -> Result<Vec<(String, u64)>> {
        let folder = match prefix.trim_end_matches('/') {
            "" => String::new(),
            prefix => format!("{prefix}/"),
        };
        let objects = self.contents.objects();
        let below = objects.range(folder.clone()..);
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
        self.contents.objects().remove(name);
        Ok(())
    }

    fn visibility(&self) -> Result<Visibility> {
        Ok(Visibility::AtOnce)
    }

    fn describe(&self) -> String {
        match &self.contents.file {
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
        let mut staged = storage.stage("data/00/d").expect("staged").expect("in pieces");
        [&b"012"[..], b"3"].iter().for_each(|piece| staged.write(piece).expect("counted"));
        assert_eq!(staged.finish().expect("put"), Put::Created);
        assert_eq!(storage.head("data/00/d").expect("known"), Some(4), "both pieces");
        storage.delete("data/00/d").expect("deleted");
        let again = storage.put_new("data/00/a", Bytes::new()).expect("it exists");
        assert_eq!(again, Put::Exists);
        assert_eq!(storage.sizes(), StoredSizes { data_bytes: 10, metadata_bytes: 6 });
        assert_eq!(storage.head("data/00/a").expect("known"), Some(10));
        assert_eq!(storage.list("data").expect("listed"), [("data/00/a".to_owned(), 10)]);
        assert_eq!(&storage.get("commits/c").expect("kept")[..], b"01");
        storage.require_kept().expect("nothing was missed yet");
        let error = storage.get("data/00/a").expect_err("discarded");
        assert_eq!(error.kind(), Kind::Storage, "not a damage that a backup tolerates");
        assert!(error.remedy().is_some_and(|remedy| remedy.contains("--scratch")), "{error}");
        let error = storage.require_kept().expect_err("it was missed");
        assert_eq!(error.object(), "data/00/a");
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
        let mut one = storage.stage("data/00/one").expect("staged").expect("in pieces");
        let mut two = storage.stage("data/00/two").expect("staged").expect("in pieces");
        for piece in [&b"abc"[..], b"", b"de", b"fghi"] {
            one.write(piece).expect("written");
            two.write(&[b'-'; 5]).expect("written");
        }
        assert_eq!(storage.head("data/00/one").expect("listed"), None, "not before its end");
        assert_eq!(one.finish().expect("put"), Put::Created);
        for (offset, expected) in [(0, &b"abcdefghi"[..]), (2, b"cdef"), (5, b"fghi"), (9, b"")] {
            let read = storage.get_range("data/00/one", offset, expected.len()).expect("kept");
            assert_eq!(&read[..], expected, "at {offset}");
        }
        drop(two);
        assert_eq!(storage.head("data/00/two").expect("listed"), None, "it was dropped");
        let names = std::fs::read_dir(folder.path()).expect("it lists").count();
        assert_eq!(names, 0, "the file has no name");
    }
}
