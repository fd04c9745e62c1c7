//! The numbers of entries in a snapshot of another program that has not recorded them.

use std::collections::HashMap;

use cutpoint_repository::{Content, EntryKind, Statistics};
use cutpoint_storage::Result;

use crate::save::ForeignRepository;

/// The maximum number of folders whose totals are remembered.
const KNOWN_MAX: usize = 1 << 20;
/// The maximum number of folders inside of each other.
const DEPTH_MAX: usize = 1000;

/// Counts the entries of folders. Equal folders are read once.
#[derive(Debug)]
pub(super) struct Totals<'a> {
    repository: &'a dyn ForeignRepository,
    known: HashMap<Content, Statistics>,
}

impl<'a> Totals<'a> {
    pub(super) fn new(repository: &'a dyn ForeignRepository) -> Totals<'a> {
        Totals { repository, known: HashMap::new() }
    }

    /// Returns the numbers of entries in the folder, and the total size of its files; each name of a
    /// file counts. Folders that are damaged count as empty.
    ///
    /// # Errors
    ///
    /// Returns any error of the storage.
    pub(super) fn of(&mut self, folder: &Content) -> Result<Statistics> {
        self.of_depth(folder, DEPTH_MAX)
    }

    fn of_depth(&mut self, folder: &Content, depth: usize) -> Result<Statistics> {
        if let Some(known) = self.known.get(folder) {
            return Ok(*known);
        }
        let entries = match self.repository.tree(folder) {
            Err(error) if error.is_loss() => Vec::new(),
            folder => folder?.entries,
        };
        let mut sum = Statistics::default();
        for entry in entries {
            match entry.kind {
                EntryKind::File => {
                    sum.file_count += 1;
                    sum.size = sum.size.saturating_add(entry.size);
                }
                EntryKind::Folder => {
                    sum.folder_count += 1;
                    if depth == 0 {
                        continue;
                    }
                    let inner = self.of_depth(&entry.content, depth - 1)?;
                    sum.file_count += inner.file_count;
                    sum.folder_count += inner.folder_count;
                    sum.other_count += inner.other_count;
                    sum.size = sum.size.saturating_add(inner.size);
                }
                _ => sum.other_count += 1,
            }
        }
        if self.known.len() >= KNOWN_MAX {
            self.known.clear();
        }
        self.known.insert(folder.clone(), sum);
        Ok(sum)
    }
}
