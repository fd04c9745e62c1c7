//! The entries of several sources in order, of which newer ones come first.

use std::iter;
use std::ops::{Deref, Range};
use std::sync::Arc;

use super::key::Key;
use super::memory::MemoryMap;
use super::page::{CHECKSUM_SIZE, Entries};
use super::pages::GROUP;
use super::part::Part;
use super::run::Run;
use crate::core::Core;
use crate::error::{Error, Kind, Result};
use crate::format::run::PAGE_SIZE;

/// The value of a key where it is: in a map, or in a page.
#[derive(Clone, Debug)]
pub(crate) enum Value<'a> {
    Memory(&'a [u8]),
    Page(Arc<[u8]>, Range<usize>),
}

impl Deref for Value<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Value::Memory(bytes) => bytes,
            Value::Page(page, range) => &page[range.clone()],
        }
    }
}

/// A key and its value, `None` if it was deleted.
pub(crate) type Entry<'a> = (Key, Option<Value<'a>>);

/// A source of entries in order.
pub(crate) struct Source<'a> {
    entries: Box<dyn Iterator<Item = Result<Entry<'a>>> + 'a>,
    next: Option<Entry<'a>>,
}

impl<'a> Source<'a> {
    /// Returns the entries of a map from `from` up to, not including, `to`.
    pub(crate) fn memory(map: &'a MemoryMap, from: Key, to: Key) -> Source<'a> {
        let entries = map.range(from, to);
        Source::new(entries.map(|(key, value)| Ok((key, value.map(Value::Memory)))))
    }

    /// Returns the entries of a run from `from` up to, not including, `to`, by way of the cache.
    pub(crate) fn run(core: &'a Core, run: &'a Arc<Run>, from: Key, to: Key) -> Source<'a> {
        let from = run.least_from(from);
        let entries = run
            .parts_of(&from, &to)
            .iter()
            .flat_map(move |part| PartEntries::of(part, from, move |index| part.page(core, index)));
        // Errors are neither skipped nor taken for the end.
        let before = |entry: &Result<Entry<'_>>, key: Key| entry.as_ref().ok().map(|it| it.0 < key);
        let entries = entries.skip_while(move |entry| before(entry, from).unwrap_or(false));
        Source::new(entries.take_while(move |entry| before(entry, to).unwrap_or(true)))
    }

    /// Returns all entries of a run that count, read group by group beside the cache.
    pub(crate) fn rest_of_run(core: &'a Core, run: &'a Arc<Run>) -> Source<'a> {
        let from = run.from().unwrap_or(Key::LEAST);
        let entries = run.parts().iter().flat_map(move |part| {
            let pages = part.pages();
            let mut group: Option<(std::ops::Range<u64>, Vec<u8>)> = None;
            PartEntries::of(part, from, move |index: u64| -> Result<Arc<[u8]>> {
                let (range, bytes) = match group.take().filter(|(range, _)| range.contains(&index))
                {
                    Some(group) => group,
                    None => pages.read_group(core, index / GROUP)?,
                };
                let start = usize::try_from(index - range.start).expect("15 pages") * PAGE_SIZE;
                let page = bytes[start..start + PAGE_SIZE].into();
                group = Some((range, bytes));
                Ok(page)
            })
        });
        let is_before = move |entry: &Result<Entry<'_>>| entry.as_ref().is_ok_and(|it| it.0 < from);
        Source::new(entries.skip_while(is_before))
    }

    fn new(entries: impl Iterator<Item = Result<Entry<'a>>> + 'a) -> Source<'a> {
        Source { entries: Box::new(entries), next: None }
    }

    /// Takes the next entry of the source.
    fn advance(&mut self) -> Result<()> {
        self.next = self.entries.next().transpose()?;
        Ok(())
    }
}

/// The entries of a part of a run, page by page.
struct PartEntries<Read> {
    next_page: u64,
    page_count: u64,
    read: Read,
    /// A key before which entries need not be returned.
    from: Option<Key>,
    page: Option<Arc<[u8]>>,
    /// The place in the page.
    position: Option<(usize, u16, Key)>,
}

impl<Read: FnMut(u64) -> Result<Arc<[u8]>>> PartEntries<Read> {
    /// Returns the entries of a part, but for some before `from`.
    fn of<'a>(part: &'a Part, from: Key, read: Read) -> impl Iterator<Item = Result<Entry<'a>>> + 'a
    where
        Read: 'a,
    {
        let mut entries = PartEntries {
            next_page: part.first_page(&from),
            page_count: part.data_page_count(),
            read,
            from: Some(from),
            page: None,
            position: None,
        };
        iter::from_fn(move || entries.next())
    }

    /// Returns the next entry.
    fn next<'a>(&mut self) -> Option<Result<Entry<'a>>> {
        loop {
            if let Some(page) = &self.page {
                let content = &page[CHECKSUM_SIZE..];
                let mut entries = match self.position {
                    Some(position) => Entries::at(content, position),
                    None => Entries::new(content),
                };
                if let Some((key, value)) = entries.next() {
                    let position = entries.position();
                    // A value is the last part of its entry.
                    let end = page.len() - position.0;
                    let in_page =
                        |value: &[u8]| Value::Page(Arc::clone(page), end - value.len()..end);
                    let entry = (key, value.map(in_page));
                    self.position = Some(position);
                    return Some(Ok(entry));
                }
            }
            if self.next_page >= self.page_count {
                return None;
            }
            match (self.read)(self.next_page) {
                Ok(page) => {
                    let content = &page[CHECKSUM_SIZE..];
                    let from = self.from.take();
                    let entries = from.and_then(|from| Entries::from_restart(content, &from));
                    self.position = entries.map(|entries| entries.position());
                    self.page = Some(page);
                }
                Err(error) => {
                    self.next_page = self.page_count;
                    self.page = None;
                    return Some(Err(error));
                }
            }
            self.next_page += 1;
        }
    }
}

/// The entries of several sources in order. Of equal keys, the entry of the first source counts.
pub(crate) struct Merge<'a> {
    sources: Vec<Source<'a>>,
    /// Set if deleted keys are returned as well.
    with_deleted: bool,
    is_started: bool,
    /// The key of the last entry.
    last: Option<Key>,
}

impl<'a> Merge<'a> {
    pub(super) fn new(sources: Vec<Source<'a>>, with_deleted: bool) -> Merge<'a> {
        Merge { sources, with_deleted, is_started: false, last: None }
    }

    /// Returns the next entry, deleted or not. Fails if a source has its keys in another order, so that what
    /// goes from key to key comes to an end.
    fn next_entry(&mut self) -> Result<Option<Entry<'a>>> {
        if !self.is_started {
            self.sources.iter_mut().try_for_each(Source::advance)?;
            self.is_started = true;
        }
        let mut least: Option<(usize, &Key)> = None;
        for (index, source) in self.sources.iter().enumerate() {
            if let Some((key, _)) = &source.next
                && least.is_none_or(|(_, least)| key < least)
            {
                least = Some((index, key));
            }
        }
        let Some((index, key)) = least else { return Ok(None) };
        if self.last.is_some_and(|last| *key <= last) {
            let problem = "the entries of a page are not in order";
            return Err(Error::new(Kind::Corrupt, "tables", problem));
        }
        self.last = Some(*key);
        let found = self.sources[index].next.take();
        self.sources[index].advance()?;
        for source in &mut self.sources[index + 1..] {
            let is_found = |(key, _): &Entry<'_>| found.as_ref().is_some_and(|(it, _)| it == key);
            if source.next.as_ref().is_some_and(is_found) {
                source.advance()?;
            }
        }
        Ok(found)
    }
}

impl<'a> Iterator for Merge<'a> {
    type Item = Result<Entry<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.next_entry() {
                Ok(Some((_, None))) if !self.with_deleted => {}
                Ok(entry) => return entry.map(Ok),
                Err(error) => {
                    self.sources.clear();
                    return Some(Err(error));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_in_another_order_are_an_error() {
        let merged = |sources: &[&'static [u8]]| -> Vec<bool> {
            let source = |keys: &&'static [u8]| {
                Source::new(keys.iter().map(|key| Ok((Key::new(&[&[*key]]), None))))
            };
            let merge = Merge::new(sources.iter().map(source).collect(), true);
            merge.map(|entry| entry.is_ok()).collect()
        };
        assert_eq!(merged(&[&[1, 3], &[2, 3, 4]]), [true; 4]);
        assert_eq!(merged(&[&[1, 3, 2, 4]]), [true, true, false]);
        assert_eq!(merged(&[&[1, 1]]), [true, false]);
        assert_eq!(merged(&[&[2, 3], &[1, 0]]), [true, false]);
    }
}
