//! A part of a run: a sorted file of changes that never changes itself.

use super::fences::Fences;
use super::filter::Filter;
use super::key::Key;
use super::page::{self, CHECKSUM_SIZE, Entries};
use super::pages::{Pages, fence_page_count};
use crate::core::Core;
use crate::error::{Error, Kind, Result};
use crate::format::names;
use crate::format::run::{PAGE_SIZE, PartMeta};

/// A sorted file of changes, whose fences and filter are in memory.
#[derive(Debug)]
pub(crate) struct Part {
    meta: PartMeta,
    first: Key,
    fences: Fences,
    filter: Filter,
}

impl Part {
    pub(super) fn new(meta: PartMeta, first: Key, fences: Fences, filter: Filter) -> Part {
        Part { meta, first, fences, filter }
    }

    /// Opens a part of a run that a checkpoint names.
    ///
    /// # Errors
    ///
    /// Fails if the file does not exist or is damaged beyond its parity pages.
    pub(crate) fn open(core: &Core, meta: &PartMeta) -> Result<Part> {
        let name = names::part(meta.number);
        let failed = |error| Error::io(&name, "cannot be read", error);
        let size = core.folder.size(&name).map_err(failed)?;
        let pages = Pages::of(meta);
        let corrupt = |problem: &str| Error::new(Kind::Corrupt, &name, problem);
        let first = Key::of_bytes(&meta.first).ok_or_else(|| corrupt("has no first key"))?;
        // Nothing is allocated that the file does not have.
        if pages.count > size / PAGE_SIZE as u64 || pages.file_len() != size {
            return Err(corrupt("has another length than its checkpoint says"));
        }
        let fence_end = meta.data_page_count + fence_page_count(meta);
        let mut fences = Vec::new();
        for index in meta.data_page_count..fence_end {
            fences.extend_from_slice(&pages.read(core, index)?[CHECKSUM_SIZE..]);
        }
        let mut filter = Vec::new();
        for index in fence_end..pages.count {
            filter.extend_from_slice(&pages.read(core, index)?[CHECKSUM_SIZE..]);
        }
        filter.truncate(usize::try_from(meta.filter_len).unwrap_or(usize::MAX));
        let count = usize::try_from(meta.data_page_count).unwrap_or(usize::MAX);
        let fences = Fences::of_bytes(&fences, count).ok_or_else(|| corrupt("has no order"))?;
        let filter = Filter::of_bytes(filter).ok_or_else(|| corrupt("has no filter"))?;
        if !fences.begin_with(&first) {
            return Err(corrupt("has another first key than its checkpoint says"));
        }
        Ok(Part { meta: meta.clone(), first, fences, filter })
    }

    pub(crate) fn meta(&self) -> &PartMeta {
        &self.meta
    }

    /// Returns the first key.
    pub(crate) fn first(&self) -> &Key {
        &self.first
    }

    /// Returns the pages of the file.
    pub(crate) fn pages(&self) -> Pages {
        Pages::of(&self.meta)
    }

    pub(crate) fn number(&self) -> u64 {
        self.meta.number
    }

    /// Returns the number of bytes of fences and filter.
    pub(crate) fn index_bytes(&self) -> u64 {
        (self.fences.bytes().len() + self.filter.bytes().len()) as u64
    }

    /// Returns the number of bytes of the pages whose first keys are from `from` up to, not including,
    /// `to`.
    pub(crate) fn page_bytes(&self, from: &Key, to: &Key) -> u64 {
        let count = self.fences.count_before(to).saturating_sub(self.fences.count_before(from));
        count * PAGE_SIZE as u64
    }

    /// Returns what `decode` makes of the value of a key: `Some(None)` if the key was deleted, `None` if it was
    /// not changed. `filter_hash` is the hash of the key if the filter has such keys.
    ///
    /// # Errors
    ///
    /// Fails if the page of the key cannot be read.
    pub(crate) fn get<T>(
        &self,
        core: &Core,
        key: &Key,
        filter_hash: Option<u64>,
        decode: impl Fn(&[u8]) -> T,
    ) -> Result<Option<Option<T>>> {
        if filter_hash.is_some_and(|hash| !self.filter.may_have(hash)) {
            return Ok(None);
        }
        for index in self.fences.pages_of(key) {
            let page = self.page(core, index)?;
            if let Some(value) = page::find(&page[CHECKSUM_SIZE..], key) {
                return Ok(Some(value.map(decode)));
            }
        }
        Ok(None)
    }

    /// Calls `take` with the changes of the keys from `from` up to, not including, `to`, in order.
    ///
    /// # Errors
    ///
    /// Fails if a page cannot be read.
    pub(super) fn for_each_in(
        &self,
        core: &Core,
        [from, to]: [&Key; 2],
        take: &mut impl FnMut(&Key, Option<&[u8]>),
    ) -> Result<()> {
        for index in self.first_page(from)..self.fences.pages_of(to).end {
            let page = self.page(core, index)?;
            let content = &page[CHECKSUM_SIZE..];
            let entries = Entries::from_restart(content, from);
            let entries = entries.unwrap_or_else(|| Entries::new(content));
            for (key, change) in entries.skip_while(|(key, _)| key < from) {
                if key >= *to {
                    return Ok(());
                }
                take(&key, change);
            }
        }
        Ok(())
    }

    /// Returns a page with entries, with its checksum.
    ///
    /// # Errors
    ///
    /// Fails if the page cannot be read.
    pub(crate) fn page(&self, core: &Core, index: u64) -> Result<std::sync::Arc<[u8]>> {
        core.pages.get_or_read((self.meta.number, index), || self.pages().read(core, index))
    }

    /// Returns the number of the first page that may have `key` or a later one.
    pub(super) fn first_page(&self, key: &Key) -> u64 {
        self.fences.pages_of(key).start
    }

    pub(super) fn data_page_count(&self) -> u64 {
        self.meta.data_page_count
    }
}
