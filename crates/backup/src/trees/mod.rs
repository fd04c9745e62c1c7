//! Folders of snapshots: the entries of their trees, chunk by chunk, so that a folder of any size
//! takes little memory.

mod sized_cache;

use std::borrow::Borrow;
use std::sync::{Arc, Mutex, PoisonError};

use cutpoint_repository::format::recipe::Segment;
use cutpoint_repository::format::tree::entries_in;
use cutpoint_repository::{Content, Entry, Reader};
use cutpoint_storage::{Error, Result};

pub(crate) use self::sized_cache::SizedCache;

/// The maximum size of decoded entries that are kept, in bytes.
const ENTRIES_BYTES_MAX: usize = 12 << 20;
/// The maximum size of the lists of chunks of large folders that are kept, in bytes.
const LISTS_BYTES_MAX: usize = 4 << 20;

/// An entry, inside the decoded part of a tree that has it.
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

/// The position of an entry in its folder: the number of its part, and its number in the part.
pub(crate) type EntryPosition = (usize, usize);

/// The parts of a tree, each with complete entries.
enum Parts {
    /// The whole tree, which lies in its folder's entry.
    Inline(Arc<Vec<Entry>>),
    /// The chunks of the tree.
    Chunks(Arc<Vec<Segment>>),
}

impl Parts {
    fn count(&self) -> usize {
        match self {
            Parts::Inline(_) => 1,
            Parts::Chunks(chunks) => chunks.len(),
        }
    }
}

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

    /// Returns the parts of the tree `content`.
    fn parts(&self, content: &Content) -> Result<Parts> {
        let fingerprint = match content {
            Content::Empty => return Ok(Parts::Chunks(Arc::default())),
            Content::Raw(tree) => {
                let entries = entries_in(tree).map_err(|error| error.of("tree"))?;
                return Ok(Parts::Inline(Arc::new(entries)));
            }
            Content::Segments(segments) => return Ok(Parts::Chunks(Arc::new(segments.clone()))),
            Content::Recipe(fingerprint) => fingerprint,
        };
        let lock = || self.lists.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(list) = lock().get(fingerprint) {
            return Ok(Parts::Chunks(list));
        }
        let list: Vec<Segment> = self.reader.borrow().segments(content).collect::<Result<_>>()?;
        let list = Arc::new(list);
        lock().put(*fingerprint, Arc::clone(&list), list.len() * size_of::<Segment>());
        Ok(Parts::Chunks(list))
    }

    /// Returns the entries of a part, if there is one of this number.
    fn part(&self, parts: &Parts, number: usize) -> Result<Option<Arc<Vec<Entry>>>> {
        match parts {
            Parts::Inline(entries) => Ok((number == 0).then(|| Arc::clone(entries))),
            Parts::Chunks(chunks) => {
                chunks.get(number).map(|segment| self.chunk(segment)).transpose()
            }
        }
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
        let parts = self.parts(content)?;
        // The part whose first name is the last that is not greater.
        let (mut low, mut high) = (0, parts.count());
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            let first = self.part(&parts, middle)?;
            if first.is_some_and(|part| part.first().is_some_and(|it| it.name.as_slice() <= name)) {
                low = middle;
            } else {
                high = middle;
            }
        }
        let Some(chunk) = self.part(&parts, low)? else { return Ok(None) };
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
        let parts = self.parts(content)?;
        while let Some(chunk) = self.part(&parts, number)? {
            if index < chunk.len() {
                if index == 0 && number > 0 {
                    let previous = self.part(&parts, number - 1)?;
                    let last = previous.as_ref().and_then(|part| part.last());
                    if last.is_some_and(|last| last.name >= chunk[0].name) {
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
