//! Writes a part of a run.

use super::fences::Fences;
use super::filter::Filter;
use super::key::Key;
use super::page::PageBuilder;
use super::pages::{GROUP, add};
use super::part::Part;
use super::run::is_hashed;
use crate::core::Core;
use crate::error::{Error, Result};
use crate::format::names;
use crate::format::run::{PAGE_SIZE, PartMeta};
use crate::rules;

/// The number of bytes that are written at a time.
const WRITE_SIZE: usize = 16 * PAGE_SIZE;

/// Writes a part of a run, one key after another.
#[derive(Debug)]
pub(crate) struct PartWriter<'a> {
    core: &'a Core,
    meta: PartMeta,
    has_all_keys_in_filter: bool,
    first: Option<Key>,
    page: PageBuilder,
    fences: Fences,
    /// The hashes of the keys of the filter, whose length depends on their number.
    filter_hashes: Vec<u64>,
    /// The number of pages so far, without parity pages.
    page_count: u64,
    parity: Vec<u8>,
    /// The bytes that are not written yet.
    bytes: Vec<u8>,
    /// The length of the file.
    len: u64,
}

impl<'a> PartWriter<'a> {
    /// Creates the file of a part. The oldest run has only hashes in its filters: most other keys are
    /// there when they are looked up.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be created.
    pub(crate) fn create(
        core: &'a Core,
        number: u64,
        has_all_keys_in_filter: bool,
    ) -> Result<PartWriter<'a>> {
        let name = names::part(number);
        core.folder.create(&name).map_err(|error| Error::io(&name, "cannot be created", error))?;
        let meta = PartMeta {
            number,
            entry_count: 0,
            data_page_count: 0,
            filter_len: 0,
            first: Vec::new(),
        };
        Ok(PartWriter {
            core,
            meta,
            has_all_keys_in_filter,
            first: None,
            page: PageBuilder::default(),
            fences: Fences::default(),
            filter_hashes: Vec::new(),
            page_count: 0,
            parity: vec![0; PAGE_SIZE],
            bytes: Vec::new(),
            len: 0,
        })
    }

    /// Returns `true` if the part of a merge has the pages that it may have.
    pub(crate) fn is_full(&self) -> bool {
        self.page_count * PAGE_SIZE as u64 >= u64::from(self.core.segment_size) / 2
    }

    /// Appends a change behind all others.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be written.
    pub(crate) fn push(&mut self, key: Key, value: Option<&[u8]>) -> Result<()> {
        if self.has_all_keys_in_filter || is_hashed(&key) {
            self.filter_hashes.push(key.filter_hash());
        }
        self.first.get_or_insert(key);
        self.meta.entry_count += 1;
        if self.page.is_empty() {
            self.fences.push(&key);
        }
        if self.page.push(&key, value) {
            return Ok(());
        }
        let content = self.page.finish();
        self.append_page(&content)?;
        self.fences.push(&key);
        self.page.push(&key, value);
        Ok(())
    }

    /// Writes what is left, and syncs the file. Returns `None`, without a file, if there is no entry.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be written. It is then removed.
    pub(crate) fn finish(mut self) -> Result<Option<Part>> {
        let Some(first) = self.first else {
            self.discard();
            return Ok(None);
        };
        let filter = Filter::of_hashes(&std::mem::take(&mut self.filter_hashes));
        match self.write_end(&filter) {
            Ok(()) => {
                self.meta.first = first.bytes().to_vec();
                Ok(Some(Part::new(self.meta, first, self.fences, filter)))
            }
            Err(error) => Err(self.abandon(error)),
        }
    }

    fn write_end(&mut self, filter: &Filter) -> Result<()> {
        let content = self.page.finish();
        self.append_page(&content)?;
        self.meta.data_page_count = self.page_count;
        self.meta.filter_len = filter.bytes().len() as u64;
        let fences = self.fences.bytes().to_vec();
        self.append_pages(&fences)?;
        self.append_pages(filter.bytes())?;
        if !self.page_count.is_multiple_of(GROUP) {
            self.append_parity();
        }
        self.write_bytes()?;
        if rules::must_sync_run() { self.core.sync(&names::part(self.meta.number)) } else { Ok(()) }
    }

    /// Removes the file after an error, and returns the error.
    pub(crate) fn abandon(self, error: Error) -> Error {
        self.discard();
        error
    }

    /// Removes the file.
    pub(crate) fn discard(self) {
        self.core.delete(&names::part(self.meta.number)).ok();
    }

    fn append_pages(&mut self, bytes: &[u8]) -> Result<()> {
        for content in bytes.chunks(super::page::CONTENT_SIZE) {
            let mut content = content.to_vec();
            content.resize(super::page::CONTENT_SIZE, 0);
            self.append_page(&content)?;
        }
        Ok(())
    }

    fn append_page(&mut self, content: &[u8]) -> Result<()> {
        let checksum = self.core.keys.page_checksum(self.meta.number, self.page_count, content);
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&checksum);
        self.bytes.extend_from_slice(content);
        add(&mut self.parity, &self.bytes[start..]);
        self.page_count += 1;
        if self.page_count.is_multiple_of(GROUP) {
            self.append_parity();
        }
        if self.bytes.len() >= WRITE_SIZE { self.write_bytes() } else { Ok(()) }
    }

    fn append_parity(&mut self) {
        self.bytes.append(&mut self.parity);
        self.parity.resize(PAGE_SIZE, 0);
    }

    fn write_bytes(&mut self) -> Result<()> {
        self.core.write_at(&names::part(self.meta.number), self.len, self.len, &self.bytes)?;
        self.len += self.bytes.len() as u64;
        self.bytes.clear();
        Ok(())
    }
}
