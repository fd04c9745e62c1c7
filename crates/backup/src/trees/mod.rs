//! Folders of snapshots: the entries of their trees, chunk by chunk, so that a folder of any size
//! takes little memory.

mod sized_cache;

use std::borrow::Borrow;
use std::sync::{Arc, Mutex, PoisonError};

use cutpoint_repository::format::recipe::Segment;
use cutpoint_repository::{Content, Entry, Reader};
use cutpoint_storage::{Error, Result};

pub(crate) use self::sized_cache::SizedCache;

/// The maximum size of decoded entries that are kept, in bytes.
const ENTRIES_BYTES_MAX: usize = 12 << 20;
/// The maximum size of the lists of chunks of large folders that are kept, in bytes.
const LISTS_BYTES_MAX: usize = 4 << 20;

/// An entry, inside the decoded chunk that has it.
#[derive(Clone, Debug)]
pub(crate) struct EntryPlace {
    chunk: Arc<Vec<Entry>>,
    index: usize,
}

#[cfg(test)]
impl From<Entry> for EntryPlace {
    fn from(entry: Entry) -> EntryPlace {
        EntryPlace { chunk: Arc::new(vec![entry]), index: 0 }
    }
}

impl std::ops::Deref for EntryPlace {
    type Target = Entry;

    fn deref(&self) -> &Entry {
        &self.chunk[self.index]
    }
}

/// The position of an entry in its folder: the number of its chunk, and its number in the chunk.
pub(crate) type EntryPosition = (usize, usize);

/// The trees that were read last.
#[derive(Debug)]
pub(crate) struct Trees<R = Arc<Reader>> {
    reader: R,
    chunks: Mutex<SizedCache<Arc<Vec<Entry>>>>,
    lists: Mutex<SizedCache<Arc<Vec<Segment>>>>,
}

impl<R: Borrow<Reader>> Trees<R> {
    pub(crate) fn new(reader: R) -> Trees<R> {
        Trees {
            reader,
            chunks: Mutex::new(SizedCache::new(ENTRIES_BYTES_MAX)),
            lists: Mutex::new(SizedCache::new(LISTS_BYTES_MAX)),
        }
    }

    /// Returns the segments of the tree `content`. Each is one chunk with complete entries.
    fn segments(&self, content: &Content) -> Result<Arc<Vec<Segment>>> {
        let fingerprint = match content {
            Content::Empty => return Ok(Arc::default()),
            Content::Raw(_) => return Err(Error::corrupt("", "a tree without chunks")),
            Content::Segments(segments) => return Ok(Arc::new(segments.clone())),
            Content::Recipe(fingerprint) => fingerprint,
        };
        let lock = || self.lists.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(list) = lock().get(fingerprint) {
            return Ok(list);
        }
        let list: Vec<Segment> = self.reader.borrow().segments(content).collect::<Result<_>>()?;
        let list = Arc::new(list);
        lock().put(*fingerprint, Arc::clone(&list), list.len() * size_of::<Segment>());
        Ok(list)
    }

    fn chunk(&self, segment: &Segment) -> Result<Arc<Vec<Entry>>> {
        let Segment::Chunk { fingerprint, .. } = segment else {
            return Err(Error::corrupt("tree", "has holes"));
        };
        let lock = || self.chunks.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(chunk) = lock().get(fingerprint) {
            return Ok(chunk);
        }
        let chunk = Arc::new(self.reader.borrow().tree_entries(segment)?);
        lock().put(*fingerprint, Arc::clone(&chunk), chunk.iter().map(memory_len).sum());
        Ok(chunk)
    }

    /// Returns the entry `name` of the folder `content`, if there is one.
    pub(crate) fn find(&self, content: &Content, name: &[u8]) -> Result<Option<EntryPlace>> {
        Ok(self.find_position(content, name)?.map(|(_, entry)| entry))
    }

    /// Returns the entry `name` of the folder `content` and its position, if there is one. Positions
    /// are those of [`Trees::entry_at`].
    pub(crate) fn find_position(
        &self,
        content: &Content,
        name: &[u8],
    ) -> Result<Option<(EntryPosition, EntryPlace)>> {
        let segments = self.segments(content)?;
        // The chunk whose first name is the last that is not greater.
        let (mut low, mut high) = (0, segments.len());
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            let chunk = self.chunk(&segments[middle])?;
            if chunk.first().is_some_and(|first| first.name.as_slice() <= name) {
                low = middle;
            } else {
                high = middle;
            }
        }
        let Some(segment) = segments.get(low) else { return Ok(None) };
        let chunk = self.chunk(segment)?;
        let found = chunk.binary_search_by(|entry| entry.name.as_slice().cmp(name));
        Ok(found.ok().map(|index| ((low, index), EntryPlace { chunk, index })))
    }

    /// Returns the entry at a position of the folder `content`, or the next one. Also returns the
    /// position. `None` at the end.
    pub(crate) fn entry_at(
        &self,
        content: &Content,
        (mut number, mut index): EntryPosition,
    ) -> Result<Option<(EntryPosition, EntryPlace)>> {
        let segments = self.segments(content)?;
        while let Some(segment) = segments.get(number) {
            let chunk = self.chunk(segment)?;
            if index < chunk.len() {
                if index == 0 && number > 0 {
                    let previous = self.chunk(&segments[number - 1])?;
                    if previous.last().is_some_and(|last| last.name >= chunk[0].name) {
                        return Err(Error::corrupt("tree", "names are not in ascending order"));
                    }
                }
                return Ok(Some(((number, index), EntryPlace { chunk, index })));
            }
            (number, index) = (number + 1, 0);
        }
        Ok(None)
    }
}

/// Returns the approximate memory that a decoded entry takes, in bytes.
fn memory_len(entry: &Entry) -> usize {
    let xattrs = entry.xattrs.iter().map(|(name, value)| 96 + name.len() + value.len());
    let content = match &entry.content {
        Content::Empty | Content::Recipe(_) => 0,
        Content::Segments(segments) => 16 + segments.len() * size_of::<Segment>(),
        Content::Raw(bytes) => 16 + bytes.len(),
    };
    let texts = 48 + entry.name.len() + entry.user.len() + entry.group.len();
    size_of::<Entry>() + texts + content + xattrs.sum::<usize>()
}
