//! Writes a run.

use super::fences::Fences;
use super::filter::Filter;
use super::key::Key;
use super::page::PageBuilder;
use super::pages::{GROUP, add};
use super::run::{Run, is_hashed};
use crate::core::Core;
use crate::error::{Error, Result};
use crate::format::names;
use crate::format::run::{PAGE_SIZE, RunMeta};
use crate::rules;

/// The number of bytes that are written at a time.
const WRITE_SIZE: usize = 16 * PAGE_SIZE;

/// Writes a run, one key after another.
#[derive(Debug)]
pub(crate) struct RunWriter<'a> {
    core: &'a Core,
    meta: RunMeta,
    page: PageBuilder,
    fences: Fences,
    filter: Filter,
    /// The number of pages so far, without parity pages.
    page_count: u64,
    parity: Vec<u8>,
    /// The bytes that are not appended yet.
    bytes: Vec<u8>,
    /// The length of the file.
    len: u64,
}

impl<'a> RunWriter<'a> {
    /// Creates the file of a run whose filter gets up to `filtered_count_max` keys. The oldest run has
    /// only hashes in its filter: most other keys are there when they are looked up.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be created.
    pub(crate) fn create(
        core: &'a Core,
        number: u64,
        level: u8,
        is_oldest: bool,
        filtered_count_max: u64,
    ) -> Result<RunWriter<'a>> {
        let name = names::run(number);
        core.folder.create(&name).map_err(|error| Error::io(name, "cannot be created", error))?;
        let meta = RunMeta {
            number,
            level,
            has_all_keys_in_filter: !is_oldest,
            entry_count: 0,
            hashed_count: 0,
            data_page_count: 0,
            filter_len: 0,
        };
        Ok(RunWriter {
            core,
            meta,
            page: PageBuilder::default(),
            fences: Fences::default(),
            filter: Filter::new(filtered_count_max),
            page_count: 0,
            parity: vec![0; PAGE_SIZE],
            bytes: Vec::new(),
            len: 0,
        })
    }

    /// Appends a change behind all others.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be written.
    pub(crate) fn push(&mut self, key: Key, value: Option<&[u8]>) -> Result<()> {
        let is_hashed = is_hashed(&key);
        if self.meta.has_all_keys_in_filter || is_hashed {
            self.filter.insert(&key);
        }
        self.meta.hashed_count += u64::from(is_hashed);
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
    pub(crate) fn finish(mut self) -> Result<Option<Run>> {
        if self.meta.entry_count == 0 {
            self.discard();
            return Ok(None);
        }
        match self.write_end() {
            Ok(()) => Ok(Some(Run::new(self.meta, self.fences, self.filter))),
            Err(error) => Err(self.abandon(error)),
        }
    }

    fn write_end(&mut self) -> Result<()> {
        let content = self.page.finish();
        self.append_page(&content)?;
        self.meta.data_page_count = self.page_count;
        self.meta.filter_len = self.filter.bytes().len() as u64;
        let fences = self.fences.bytes().to_vec();
        self.append_pages(&fences)?;
        let filter = std::mem::replace(&mut self.filter, Filter::new(0));
        self.append_pages(filter.bytes())?;
        self.filter = filter;
        if !self.page_count.is_multiple_of(GROUP) {
            self.append_parity();
        }
        self.write_bytes()?;
        if rules::must_sync_run() { self.core.sync(&names::run(self.meta.number)) } else { Ok(()) }
    }

    /// Removes the file after an error, and returns the error.
    pub(crate) fn abandon(self, error: Error) -> Error {
        self.discard();
        error
    }

    /// Removes the file.
    pub(crate) fn discard(self) {
        self.core.delete(&names::run(self.meta.number)).ok();
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
        self.core.write_at(&names::run(self.meta.number), self.len, self.len, &self.bytes)?;
        self.len += self.bytes.len() as u64;
        self.bytes.clear();
        Ok(())
    }
}
