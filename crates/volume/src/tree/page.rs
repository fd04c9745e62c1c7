//! The entries of a page.

use std::cmp::Ordering;

use super::key::Key;
use crate::format::cursor::Cursor;
use crate::format::run::PAGE_SIZE;

/// The length of the checksum of a page in bytes.
pub(crate) const CHECKSUM_SIZE: usize = 16;
/// The number of bytes of a page behind its checksum.
pub(crate) const CONTENT_SIZE: usize = PAGE_SIZE - CHECKSUM_SIZE;

/// The length of a value that marks a deleted key. Values have fewer bytes.
const DELETED: u8 = 255;

/// The number of entries from one with a whole key to the next.
const RESTART: u16 = 16;

/// The contents of a page that is being filled: the entries, each with the number of bytes of its key
/// that the one before has, the rest of the key, and the value. Every 16th has its whole key.
#[derive(Debug, Default)]
pub(crate) struct PageBuilder {
    entries: Vec<u8>,
    count: u16,
    last: Option<Key>,
    /// The offsets of the entries with whole keys in the content.
    restarts: Vec<u16>,
}

impl PageBuilder {
    /// Appends an entry behind all others. Returns `false` if it does not fit.
    pub(crate) fn push(&mut self, key: &Key, value: Option<&[u8]>) -> bool {
        let is_whole = self.count.is_multiple_of(RESTART);
        let shared = self.last.filter(|_| !is_whole).map_or(0, |last| last.shared_len(key));
        let rest = &key.bytes()[shared..];
        let value_bytes = value.unwrap_or_default();
        let len = 3 + rest.len() + value_bytes.len();
        let offset = COUNT_LEN + self.entries.len();
        let restart_len = 2 * (self.restarts.len() + 1);
        if offset + len + restart_len > CONTENT_SIZE {
            return false;
        }
        if is_whole {
            self.restarts.push(u16::try_from(offset).expect("a page has 8 KiB"));
        }
        let byte =
            |len: usize| u8::try_from(len).expect("keys and values have less than 255 bytes");
        let value_len = value.map_or(DELETED, |value| byte(value.len()));
        self.entries.extend_from_slice(&[byte(shared), byte(rest.len()), value_len]);
        self.entries.extend_from_slice(rest);
        self.entries.extend_from_slice(value_bytes);
        self.count += 1;
        self.last = Some(*key);
        true
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the content of the page, and empties the builder.
    pub(crate) fn finish(&mut self) -> Vec<u8> {
        let mut content = Vec::with_capacity(CONTENT_SIZE);
        content.extend_from_slice(&self.count.to_le_bytes());
        content.append(&mut self.entries);
        content.resize(CONTENT_SIZE - 2 * self.restarts.len(), 0);
        content.extend(self.restarts.iter().flat_map(|offset| offset.to_le_bytes()));
        *self = PageBuilder::default();
        content
    }
}

/// The length of the number of entries in bytes.
const COUNT_LEN: usize = 2;

/// The change of a key in the content of a page: `Some(None)` if it was deleted.
pub(crate) fn find<'a>(content: &'a [u8], key: &Key) -> Option<Option<&'a [u8]>> {
    let Entries { mut rest, count, .. } = Entries::from_restart(content, key)?;
    let wanted = key.bytes();
    // The number of leading bytes that the last entry, which is before the key, has in common with it.
    let mut common_len = 0;
    for _ in 0..count {
        let Raw { shared_len, suffix, value } = Raw::take(&mut rest)?;
        if shared_len > common_len {
            // Where the last entry is less than the key, this one is as well.
            continue;
        }
        if shared_len < common_len {
            // Where the last entry has a byte of the key, this one has a greater one.
            return None;
        }
        let wanted = &wanted[common_len..];
        let pairs = suffix.iter().zip(wanted);
        let equal_len = pairs.take_while(|(one, other)| one == other).count();
        match suffix[equal_len..].cmp(&wanted[equal_len..]) {
            Ordering::Less => common_len += equal_len,
            Ordering::Equal => return Some(value),
            Ordering::Greater => return None,
        }
    }
    None
}

/// An entry as it is in a page.
struct Raw<'a> {
    /// The number of leading bytes of the key that the entry before has.
    shared_len: usize,
    /// The other bytes of the key.
    suffix: &'a [u8],
    /// The value, `None` if the key was deleted.
    value: Option<&'a [u8]>,
}

impl<'a> Raw<'a> {
    fn take(rest: &mut Cursor<'a>) -> Option<Raw<'a>> {
        let [shared_len, suffix_len, value_len] = rest.array()?;
        let suffix = rest.take(suffix_len.into())?;
        let value = match value_len {
            DELETED => None,
            len => Some(rest.take(len.into())?),
        };
        Some(Raw { shared_len: shared_len.into(), suffix, value })
    }
}

/// The entries of a page, in order: a key and its value, `None` if it was deleted. The iterator ends
/// early at bytes that are no entry.
#[derive(Clone, Debug)]
pub(crate) struct Entries<'a> {
    rest: Cursor<'a>,
    count: u16,
    last: Key,
}

impl<'a> Entries<'a> {
    /// Returns the entries of the content of a page.
    pub(crate) fn new(content: &'a [u8]) -> Entries<'a> {
        let mut rest = Cursor(content);
        let count = rest.u16().unwrap_or_default();
        Entries { rest, count, last: Key::new(&[]) }
    }

    /// Returns the entries from the last one with a whole key on that is not behind `key`, or `None` if
    /// all are behind it.
    pub(crate) fn from_restart(content: &'a [u8], key: &Key) -> Option<Entries<'a>> {
        let count = Cursor(content).u16()?;
        let restart_count = usize::from(count.div_ceil(RESTART));
        let start = content.len().checked_sub(2 * restart_count)?;
        let (restarts, _) = content[start..].as_chunks::<2>();
        let is_behind = |offset: &[u8; 2]| {
            let whole = content.get(usize::from(u16::from_le_bytes(*offset))..);
            let mut whole = Cursor(whole.unwrap_or_default());
            let key_len = whole.array().map_or(0, |[_, len, _]: [u8; 3]| len);
            whole.take(key_len.into()).is_none_or(|found| found > key.bytes())
        };
        let index = restarts.partition_point(|offset| !is_behind(offset)).checked_sub(1)?;
        let rest = content.get(usize::from(u16::from_le_bytes(restarts[index]))..)?;
        let skipped = u16::try_from(index).ok()?.checked_mul(RESTART)?;
        let count = count.checked_sub(skipped)?;
        Some(Entries { rest: Cursor(rest), count, last: Key::new(&[]) })
    }

    /// Returns the position behind the last entry: bytes of the content, and entries left.
    pub(crate) fn position(&self) -> (usize, u16, Key) {
        (self.rest.0.len(), self.count, self.last)
    }

    /// Continues at a position.
    pub(crate) fn at(content: &'a [u8], (left, count, last): (usize, u16, Key)) -> Entries<'a> {
        let start = content.len().saturating_sub(left);
        Entries { rest: Cursor(&content[start..]), count, last }
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = (Key, Option<&'a [u8]>);

    fn next(&mut self) -> Option<Self::Item> {
        self.count = self.count.checked_sub(1)?;
        let Raw { shared_len, suffix, value } = Raw::take(&mut self.rest)?;
        let key = self.last.with_suffix(shared_len, suffix)?;
        self.last = key;
        Some((key, value))
    }
}
