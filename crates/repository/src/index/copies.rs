//! Chunks that lie in several containers.

use std::collections::HashMap;

use cutpoint_storage::{Kind, Result};

use super::chunk_index::Index;
use crate::format::fingerprint::{Class, Fingerprint};
use crate::format::names::PartName;
use crate::format::segment::{ContainerRecord, Segment};

/// Maximum number of repairs of the cached index before its error is returned.
const REPLACED_MAX: u32 = 32;

/// The chunks that lie in several containers, by their hints. One of the containers counts as the
/// place of the chunk, and the others have copies.
#[derive(Debug, Default)]
pub struct Copies {
    /// The container that counts, for each hint that leads to several.
    first: HashMap<u64, (Class, PartName)>,
}

impl Copies {
    /// Returns `true` if a chunk of `container` is a copy: another container counts as its place.
    pub fn is_copy(&self, container: &ContainerRecord, chunk: &Fingerprint) -> bool {
        let first = self.first.get(&chunk.hint());
        first.is_some_and(|first| *first != (container.class, container.name))
    }
}

impl Index {
    /// Returns the chunks that lie in several of the containers that `counts` selects. It takes 40
    /// bytes of memory for each of them.
    ///
    /// # Errors
    ///
    /// Returns `Corrupt` if there are more containers than a number of 32 bits counts, and `Storage`
    /// if the cache is damaged, and the storage fails as well.
    pub fn copies(&self, counts: impl Fn(&ContainerRecord) -> bool) -> Result<Copies> {
        let mut replaced_count = 0;
        loop {
            match self.try_copies(&counts) {
                // A cached part of the index was damaged, and has been rebuilt.
                Err(error) if error.kind() == Kind::Conflict && replaced_count < REPLACED_MAX => {
                    replaced_count += 1;
                }
                found => return found,
            }
        }
    }

    fn try_copies(&self, counts: impl Fn(&ContainerRecord) -> bool) -> Result<Copies> {
        let hints = self.hints(&Segment::default())?;
        let containers: Vec<ContainerRecord> = hints.containers().collect();
        let mut copies = Copies::default();
        // The hint before, and the first container to which it leads.
        let mut before: Option<(u64, Class, PartName)> = None;
        hints.each(|hint, number| {
            let Some(record) = containers.get(number as usize).filter(|record| counts(record))
            else {
                return Ok(());
            };
            match before {
                Some((same, class, name)) if same == hint => {
                    if (class, name) != (record.class, record.name) {
                        copies.first.entry(hint).or_insert((class, name));
                    }
                }
                _ => before = Some((hint, record.class, record.name)),
            }
            Ok(())
        })?;
        Ok(copies)
    }
}
