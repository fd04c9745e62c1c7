//! Which composites are bursts.

use std::collections::HashSet;

use super::Reader;
use crate::error::Result;
use crate::fingerprint::{Class, Fingerprint};
use crate::format::directory::Form;
use crate::index::Location;

/// A composite that is a prefix of one whole, new bytes and a suffix of the same whole; each of them may be
/// empty, but not both prefix and suffix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredBurst {
    /// The whole.
    pub reference: Fingerprint,
    /// How long the prefix is, in bytes.
    pub prefix_len: u32,
    /// How many bytes are new.
    pub data_len: u32,
    /// How long the suffix is, in bytes.
    pub suffix_len: u32,
    /// Where in the whole it begins; where there is none, 0.
    pub suffix_at: u32,
}

impl Reader {
    /// What the chunk at `location` is as a burst; nothing where it is a whole, or another composite. That the
    /// suffix goes on to the end of its whole is not looked at.
    ///
    /// # Errors
    ///
    /// As the medium; `Corrupt` where the region or the composite cannot be decoded.
    pub fn burst(&self, class: Class, location: &Location) -> Result<Option<StoredBurst>> {
        if location.is_whole() {
            return Ok(None);
        }
        let references = &location.region().references;
        let chunks = location.loaded.directory.chunks.iter();
        // The literal of the region, as a rule; one that was stored again may be in another.
        let literals: HashSet<Fingerprint> = chunks
            .filter(|chunk| chunk.form == Form::Literal)
            .map(|chunk| chunk.fingerprint)
            .collect();
        let mut parts = [None; 3];
        let (mut next, mut reference) = (0, None);
        for extent in self.extents(class, location)? {
            let name = references[usize::from(extent.reference)];
            let place = match (literals.contains(&name), extent.offset) {
                (true, _) => 1,
                (false, 0) if next == 0 => 0,
                (false, _) => 2,
            };
            if place < next || (place != 1 && reference.is_some_and(|reference| reference != name))
            {
                return Ok(None);
            }
            if place != 1 {
                reference = Some(name);
            }
            parts[place] = Some(extent);
            next = place + 1;
        }
        let len = |place: usize| parts[place].map_or(0, |extent| extent.len);
        Ok(reference.map(|reference| StoredBurst {
            reference,
            prefix_len: len(0),
            data_len: len(1),
            suffix_len: len(2),
            suffix_at: parts[2].map_or(0, |extent| extent.offset),
        }))
    }
}
