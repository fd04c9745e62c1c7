//! A folder in memory that loses what was not synced, for tests of power cuts and damage.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::{fmt, io};

use super::Folder;

/// A folder in memory that knows for each file what a power cut may take. Clones are the same
/// folder.
#[derive(Clone, Debug, Default)]
pub struct FaultyFolder(Arc<Mutex<Inner>>);

#[derive(Clone, Debug, Default)]
struct Inner {
    files: BTreeMap<String, Bytes>,
    /// The files whose names are durable.
    durable: BTreeMap<String, Bytes>,
    /// The number of bytes by which files can grow until the folder is full; `None` for any.
    room: Option<u64>,
    fails_syncs: bool,
    /// The bytes of files that cannot be read.
    unreadable: BTreeMap<String, Range<usize>>,
    read_count: u64,
    sync_count: u64,
    reuse_count: u64,
    /// The number of calls that change the folder that succeed; `None` for any.
    calls_left: Option<u64>,
    /// The first call that failed because there were too many.
    refused: Option<String>,
}

impl Inner {
    /// Begins a call that changes the folder, and fails if there is no power.
    fn change(&mut self, call: &str, name: &str) -> io::Result<()> {
        match &mut self.calls_left {
            None => return Ok(()),
            Some(0) => {}
            Some(left) => {
                *left -= 1;
                return Ok(());
            }
        }
        self.refused.get_or_insert_with(|| format!("{call} {name}"));
        Err(io::Error::other("there is no power"))
    }
}

/// The bytes of a file, which a name and a durable name may share.
type Bytes = Arc<Mutex<Content>>;

#[derive(Clone, Debug, Default)]
struct Content {
    bytes: Vec<u8>,
    /// The number of bytes that were written. More than these are there only in a file that was begun anew.
    end: usize,
    /// The number of written bytes that were synced.
    synced_len: usize,
    /// The bytes of the file when it was begun anew.
    before: Vec<u8>,
}

impl Content {
    /// Writes bytes behind those that were written, and returns by how many the file has grown.
    fn write(&mut self, bytes: &[u8]) -> usize {
        let len = self.bytes.len();
        let over = bytes.len().min(len - self.end);
        self.bytes[self.end..][..over].copy_from_slice(&bytes[..over]);
        self.bytes.extend_from_slice(&bytes[over..]);
        self.end += bytes.len();
        self.bytes.len() - len
    }

    fn begin_anew(&mut self) {
        *self = Content {
            before: self.bytes.clone(),
            bytes: std::mem::take(&mut self.bytes),
            ..Content::default()
        };
    }

    fn after_power_cut(mut self, name: &str, survival: Survival<'_>) -> Content {
        let unsynced = self.synced_len..self.end;
        match survival {
            Survival::All => {}
            Survival::Synced => self.lose_end(self.synced_len),
            Survival::Part { bytes, .. } => match bytes(name, unsynced.len()) {
                Kept::First(len) => self.lose_end(self.synced_len + len.min(unsynced.len())),
                Kept::Without(range) => {
                    let end = range.end.min(unsynced.len());
                    let start = range.start.min(end);
                    self.lose(self.synced_len + start..self.synced_len + end);
                }
            },
        }
        self.end = self.bytes.len();
        if !matches!(survival, Survival::All) {
            self.synced_len = self.end;
            self.before.clear();
        }
        self
    }

    /// Takes back what was written behind the first `len` bytes.
    fn lose_end(&mut self, len: usize) {
        self.lose(len..self.end);
        if self.bytes.len() == self.end {
            self.bytes.truncate(len.max(self.before.len()));
        }
    }

    /// Puts the bytes of before, or zeros, in the place of written ones.
    fn lose(&mut self, range: Range<usize>) {
        let before = self.before.get(range.start..).unwrap_or_default();
        let lost = &mut self.bytes[range];
        let kept = before.len().min(lost.len());
        lost[..kept].copy_from_slice(&before[..kept]);
        lost[kept..].fill(0);
    }
}

/// The part of the unsynced state that survives a power cut.
#[derive(Clone, Copy)]
pub enum Survival<'a> {
    /// Only what was synced.
    Synced,
    /// Everything, as when only the process ends.
    All,
    /// The given part.
    Part {
        /// Returns the part of the unsynced bytes of a file that survives, from its name and their
        /// number.
        bytes: &'a dyn Fn(&str, usize) -> Kept,
        /// Returns `true` if an unsynced creation or deletion of a name survives.
        name: &'a dyn Fn(&str) -> bool,
    },
}

impl fmt::Debug for Survival<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Survival::Synced => "Synced",
            Survival::All => "All",
            Survival::Part { .. } => "Part",
        })
    }
}

/// The part of the unsynced bytes of a file that survives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kept {
    /// The first ones.
    First(usize),
    /// All, but those of a range are zeros, or what a file that was begun anew had there, because a file
    /// system may write the pages of a file in any order.
    Without(Range<usize>),
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl FaultyFolder {
    /// Returns an independent folder with the state after a power cut.
    #[must_use]
    pub fn after_power_cut(&self, survival: Survival<'_>) -> FaultyFolder {
        let inner = locked(&self.0);
        let mut after = Inner::default();
        if matches!(survival, Survival::All) {
            // What only the end of a process has survived is as little durable as before.
            let mut copies: HashMap<*const Mutex<Content>, Bytes> = HashMap::new();
            let mut copied = |names: &BTreeMap<String, Bytes>| {
                let mut copy = |name: &String, content: &Bytes| {
                    let after = || locked(content).clone().after_power_cut(name, survival);
                    let copy = copies.entry(Arc::as_ptr(content));
                    Arc::clone(copy.or_insert_with(|| Arc::new(Mutex::new(after()))))
                };
                names.iter().map(|(name, content)| (name.clone(), copy(name, content))).collect()
            };
            (after.files, after.durable) = (copied(&inner.files), copied(&inner.durable));
            return FaultyFolder(Arc::new(Mutex::new(after)));
        }
        let names: BTreeSet<&String> = inner.files.keys().chain(inner.durable.keys()).collect();
        for name in names {
            let (now, durable) = (inner.files.get(name), inner.durable.get(name));
            let content = match survival {
                Survival::Part { name: survives, .. } if survives(name) => now,
                Survival::All | Survival::Synced | Survival::Part { .. } => durable,
            };
            let Some(content) = content.map(|content| locked(content).clone()) else { continue };
            let content = Arc::new(Mutex::new(content.after_power_cut(name, survival)));
            after.durable.insert(name.clone(), Arc::clone(&content));
            after.files.insert(name.clone(), content);
        }
        FaultyFolder(Arc::new(Mutex::new(after)))
    }

    /// Inverts one bit of a file.
    ///
    /// # Panics
    ///
    /// Panics if the file does not exist or is shorter.
    pub fn flip(&self, name: &str, offset: usize, bit: u32) {
        let inner = locked(&self.0);
        let file = inner.files.get(name).expect("a file of this name");
        locked(file).bytes[offset] ^= 1 << (bit % 8);
    }

    /// Limits the number of bytes by which files can grow from now on; `None` for any. Deleted files make
    /// room.
    pub fn limit(&self, room: Option<u64>) {
        locked(&self.0).room = room;
    }

    /// Makes every sync fail from now on, or succeed again.
    pub fn fail_syncs(&self, fails: bool) {
        locked(&self.0).fails_syncs = fails;
    }

    /// Makes every call that changes the folder fail, and change nothing, behind the next `count` ones.
    pub fn cut_power_after(&self, count: u64) {
        locked(&self.0).calls_left = Some(count);
    }

    /// Returns the first call that failed because there was no power, and the name of its file, or `None` if
    /// none has.
    #[must_use]
    pub fn refused(&self) -> Option<String> {
        locked(&self.0).refused.clone()
    }

    /// Makes every read of these bytes of a file fail, as a bad sector does.
    pub fn fail_reads(&self, name: &str, range: Range<usize>) {
        locked(&self.0).unreadable.insert(name.to_owned(), range);
    }

    /// Returns the number of reads so far.
    #[must_use]
    pub fn read_count(&self) -> u64 {
        locked(&self.0).read_count
    }

    /// Returns the number of syncs of files and names so far.
    #[must_use]
    pub fn sync_count(&self) -> u64 {
        locked(&self.0).sync_count
    }

    /// Returns the number of files that were begun anew so far.
    #[must_use]
    pub fn reuse_count(&self) -> u64 {
        locked(&self.0).reuse_count
    }

    fn content(&self, name: &str) -> io::Result<Bytes> {
        let found = locked(&self.0).files.get(name).cloned();
        found.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Counts a sync, and fails if syncs fail.
    fn begin_sync(&self, call: &str, name: &str) -> io::Result<()> {
        let mut inner = locked(&self.0);
        inner.change(call, name)?;
        inner.sync_count += 1;
        if inner.fails_syncs { Err(io::Error::other("the disk has failed")) } else { Ok(()) }
    }
}

impl Folder for FaultyFolder {
    fn names(&self) -> io::Result<Vec<String>> {
        Ok(locked(&self.0).files.keys().cloned().collect())
    }

    fn create(&self, name: &str) -> io::Result<()> {
        let mut inner = locked(&self.0);
        inner.change("create", name)?;
        if inner.files.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        if inner.room == Some(0) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        inner.files.insert(name.to_owned(), Bytes::default());
        Ok(())
    }

    fn reuse(&self, from: &str, to: &str) -> io::Result<u64> {
        let mut inner = locked(&self.0);
        inner.change("reuse", to)?;
        if inner.files.contains_key(to) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let content = inner.files.remove(from).ok_or(io::ErrorKind::NotFound)?;
        locked(&content).begin_anew();
        let len = locked(&content).bytes.len() as u64;
        inner.files.insert(to.to_owned(), content);
        inner.reuse_count += 1;
        Ok(len)
    }

    /// # Panics
    ///
    /// Panics if the bytes are not to go behind those that were written.
    fn write_at(&self, name: &str, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let content = self.content(name)?;
        let mut inner = locked(&self.0);
        inner.change("write", name)?;
        let mut content = locked(&content);
        assert_eq!(offset, content.end as u64, "{name} is written in order");
        let over = content.bytes.len() - content.end;
        let room = inner.room.and_then(|room| usize::try_from(room).ok());
        let fitting = room.map_or(bytes.len(), |room| bytes.len().min(over.saturating_add(room)));
        let grown = content.write(&bytes[..fitting]) as u64;
        inner.room = inner.room.map(|room| room - grown);
        if fitting < bytes.len() { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    fn read_at(&self, name: &str, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let content = self.content(name)?;
        let mut inner = locked(&self.0);
        inner.read_count += 1;
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let end = start.saturating_add(buffer.len());
        if inner.unreadable.get(name).is_some_and(|bad| start < bad.end && bad.start < end) {
            return Err(io::Error::other("a bad sector"));
        }
        drop(inner);
        let content = locked(&content);
        let bytes = content.bytes.get(start..end);
        buffer.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn size(&self, name: &str) -> io::Result<u64> {
        Ok(locked(&*self.content(name)?).bytes.len() as u64)
    }

    fn sync(&self, name: &str) -> io::Result<()> {
        let content = self.content(name)?;
        self.begin_sync("sync", name)?;
        let mut content = locked(&content);
        content.synced_len = content.end;
        Ok(())
    }

    fn sync_names(&self) -> io::Result<()> {
        self.begin_sync("sync", "names")?;
        let mut inner = locked(&self.0);
        inner.durable = inner.files.clone();
        Ok(())
    }

    fn delete(&self, name: &str) -> io::Result<()> {
        let mut inner = locked(&self.0);
        inner.change("delete", name)?;
        let removed = inner.files.remove(name).ok_or(io::ErrorKind::NotFound)?;
        let len = locked(&removed).bytes.len() as u64;
        inner.room = inner.room.map(|room| room + len);
        Ok(())
    }

    fn free_bytes(&self) -> Option<u64> {
        locked(&self.0).room
    }
}
