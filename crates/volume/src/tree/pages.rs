//! The pages of a part of a run in its file: checksums, and a parity page behind every fifteen.
//!
//! A page that is damaged is made again of the others of its group.

use std::ops::Range;

use super::key::PREFIX_LEN;
use super::page::{CHECKSUM_SIZE, CONTENT_SIZE};
use crate::core::Core;
use crate::error::{Error, Kind, Result};
use crate::format::names;
use crate::format::run::{PAGE_SIZE, PartMeta};
use crate::rules;

/// The number of pages before a parity page.
pub(crate) const GROUP: u64 = 15;

/// The pages of a part of a run, numbered without the parity pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pages {
    /// The number of the part.
    pub(crate) part: u64,
    /// The number of pages, without parity pages.
    pub(crate) count: u64,
}

impl Pages {
    /// Returns the pages of a part: those with entries, then the fences, then the filter.
    pub(crate) fn of(meta: &PartMeta) -> Pages {
        let filter_page_count = meta.filter_len.div_ceil(CONTENT_SIZE as u64);
        let count = meta.data_page_count.saturating_add(fence_page_count(meta));
        Pages { part: meta.number, count: count.saturating_add(filter_page_count) }
    }

    /// Returns the number of bytes of the file.
    pub(crate) fn file_len(self) -> u64 {
        (self.count + self.count.div_ceil(GROUP)) * PAGE_SIZE as u64
    }

    /// Reads a page, with its checksum.
    ///
    /// # Errors
    ///
    /// Fails if the page is damaged and cannot be made again.
    pub(crate) fn read(self, core: &Core, index: u64) -> Result<Vec<u8>> {
        let mut page = vec![0; PAGE_SIZE];
        let read = self.read_at(core, offset(index), &mut page);
        if read.is_ok() && self.is_whole(core, index, &page) {
            return Ok(page);
        }
        self.restore(core, index)
    }

    /// Reads the pages of a group, and returns their numbers and bytes. Damaged ones are made again.
    ///
    /// # Errors
    ///
    /// Fails if a page is damaged and cannot be made again.
    pub(crate) fn read_group(self, core: &Core, group: u64) -> Result<(Range<u64>, Vec<u8>)> {
        let pages = self.group(group);
        let count = usize::try_from(pages.end - pages.start).expect("a group has 15 pages");
        let mut bytes = vec![0; count * PAGE_SIZE];
        let read = self.read_at(core, offset(pages.start), &mut bytes);
        for (index, page) in pages.clone().zip(bytes.chunks_exact_mut(PAGE_SIZE)) {
            if read.is_err() || !self.is_whole(core, index, page) {
                page.copy_from_slice(&self.read(core, index)?);
            }
        }
        Ok((pages, bytes))
    }

    /// Returns the pages that are damaged, and whether each can be made again. A damaged parity page
    /// has no number.
    pub(crate) fn check_group(self, core: &Core, group: u64) -> Vec<(Option<u64>, bool)> {
        let pages = self.group(group);
        let mut sum = vec![0; PAGE_SIZE];
        let mut page = vec![0; PAGE_SIZE];
        let mut damaged = Vec::new();
        for index in pages.clone() {
            let is_read = self.read_at(core, offset(index), &mut page).is_ok();
            if is_read && self.is_whole(core, index, &page) {
                add(&mut sum, &page);
            } else {
                damaged.push((Some(index), self.restore(core, index).is_ok()));
            }
        }
        if damaged.is_empty() {
            let parity = offset(pages.end - 1) + PAGE_SIZE as u64;
            if self.read_at(core, parity, &mut page).is_err() || page != sum {
                damaged.push((None, true));
            }
        }
        damaged
    }

    /// Returns the number of groups.
    pub(crate) fn group_count(self) -> u64 {
        self.count.div_ceil(GROUP)
    }

    fn group(self, group: u64) -> Range<u64> {
        group * GROUP..((group + 1) * GROUP).min(self.count)
    }

    /// Makes a page again of the others of its group.
    fn restore(self, core: &Core, index: u64) -> Result<Vec<u8>> {
        let pages = self.group(index / GROUP);
        let failed = |error| Error::io(names::part(self.part), "cannot be read", error);
        let mut sum = vec![0; PAGE_SIZE];
        self.read_at(core, offset(pages.end - 1) + PAGE_SIZE as u64, &mut sum).map_err(failed)?;
        let mut page = vec![0; PAGE_SIZE];
        for other in pages.filter(|other| *other != index) {
            self.read_at(core, offset(other), &mut page).map_err(failed)?;
            add(&mut sum, &page);
        }
        if self.is_whole(core, index, &sum) {
            return Ok(sum);
        }
        let name = format!("{} at byte {}", names::part(self.part), offset(index));
        Err(Error::new(Kind::Corrupt, name, "the page and another one of its group are damaged"))
    }

    fn is_whole(self, core: &Core, index: u64, page: &[u8]) -> bool {
        let (checksum, content) = page.split_at(CHECKSUM_SIZE);
        let is_matching = core.keys.page_checksum(self.part, index, content) == checksum;
        rules::is_authentic(is_matching) || !rules::must_verify_page()
    }

    fn read_at(self, core: &Core, offset: u64, bytes: &mut [u8]) -> std::io::Result<()> {
        core.folder.read_at(&names::part(self.part), offset, bytes)
    }
}

/// Returns the number of pages with fences of a part.
pub(super) fn fence_page_count(meta: &PartMeta) -> u64 {
    meta.data_page_count.div_ceil((CONTENT_SIZE / PREFIX_LEN) as u64)
}

/// Returns the offset of a page in the file.
fn offset(index: u64) -> u64 {
    (index + index / GROUP) * PAGE_SIZE as u64
}

/// Adds a page to a parity.
pub(crate) fn add(sum: &mut [u8], page: &[u8]) {
    sum.iter_mut().zip(page).for_each(|(sum, byte)| *sum ^= byte);
}
