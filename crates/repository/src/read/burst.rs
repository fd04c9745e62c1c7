//! Classification of delta chunks as bursts.

use std::collections::HashSet;
use std::sync::Arc;

use cutpoint_storage::Result;

use super::Reader;
use crate::format::extents::Extent;
use crate::format::fingerprint::Fingerprint;
use crate::format::segment::ContainerRecord;
use crate::format::toc::Form;
use crate::index::{ContainerToc, Location};

/// A delta chunk that consists of a prefix of one full chunk, new bytes, and a suffix of the same
/// full chunk. Each part may be empty, but not both prefix and suffix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredBurst {
    /// The fingerprint of the full chunk.
    pub reference: Fingerprint,
    /// Length of the prefix in bytes.
    pub prefix_len: u32,
    /// Number of new bytes.
    pub data_len: u32,
    /// Length of the suffix in bytes.
    pub suffix_len: u32,
    /// Offset of the suffix in the full chunk, in bytes; 0 if there is no suffix.
    pub suffix_at: u32,
}

impl Reader {
    /// Calls `visit` for each delta chunk of a container with its number in the table of contents
    /// and its form as a burst, or `None` if it is not a burst. Bytes that the container stores as
    /// a literal count as new. That the suffix extends to the end of its full chunk is not checked.
    ///
    /// # Errors
    ///
    /// Returns any error of the storage, and `Corrupt` if the table of contents, a region or a
    /// delta chunk cannot be decoded.
    pub fn bursts(
        &self,
        container: &ContainerRecord,
        mut visit: impl FnMut(usize, Option<StoredBurst>),
    ) -> Result<()> {
        let loaded = Arc::new(ContainerToc::at(&self.repository, *container)?);
        let chunks = || loaded.toc.chunks.iter().enumerate();
        let literals = chunks().filter(|(_, chunk)| chunk.form == Form::Literal);
        let literals: HashSet<Fingerprint> = literals.map(|(_, chunk)| chunk.fingerprint).collect();
        for (number, _) in chunks().filter(|(_, chunk)| chunk.form == Form::Delta) {
            let location = Location::new(&loaded, number);
            let extents = self.extents(container.class, &location)?;
            visit(number, burst(&extents, location.references(), &literals));
        }
        Ok(())
    }
}

/// Returns the extents as a burst, if they form one.
fn burst(
    extents: &[Extent],
    references: &[Fingerprint],
    literals: &HashSet<Fingerprint>,
) -> Option<StoredBurst> {
    let mut parts = [None; 3];
    let (mut next, mut reference) = (0, None);
    for extent in extents {
        let name = references[usize::from(extent.reference)];
        let place = match (literals.contains(&name), extent.offset) {
            (true, _) => 1,
            (false, 0) if next == 0 => 0,
            (false, _) => 2,
        };
        if place != 1 && *reference.get_or_insert(name) != name || place < next {
            return None;
        }
        parts[place] = Some(*extent);
        next = place + 1;
    }
    let len = |place: usize| parts[place].map_or(0, |extent: Extent| extent.len);
    reference.map(|reference| StoredBurst {
        reference,
        prefix_len: len(0),
        data_len: len(1),
        suffix_len: len(2),
        suffix_at: parts[2].map_or(0, |extent| extent.offset),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn burst_is_one_prefix_one_literal_and_one_suffix() {
        let name = |byte| Fingerprint([byte; 32]);
        let references = [name(1), name(2), name(3), name(4)];
        let literals = HashSet::from([name(3), name(4)]);
        let of = |list: &[(u16, u32, u32)]| {
            let extents: Vec<Extent> = list
                .iter()
                .map(|&(reference, offset, len)| Extent { reference, offset, len })
                .collect();
            let burst = burst(&extents, &references, &literals)?;
            let lens = [burst.prefix_len, burst.data_len, burst.suffix_len, burst.suffix_at];
            Some((burst.reference, lens))
        };
        assert_eq!(of(&[(0, 0, 9), (2, 50, 2), (0, 12, 4)]), Some((name(1), [9, 2, 4, 12])));
        assert_eq!(of(&[(1, 0, 9), (2, 0, 2)]), Some((name(2), [9, 2, 0, 0])), "no suffix");
        assert_eq!(of(&[(2, 5, 2), (1, 0, 9)]), Some((name(2), [0, 2, 9, 0])), "no prefix");
        assert_eq!(of(&[(1, 0, 9), (1, 20, 9)]), Some((name(2), [9, 0, 9, 20])), "nothing new");
        assert_eq!(of(&[(1, 0, 9)]), Some((name(2), [9, 0, 0, 0])), "cut off");
        assert_eq!(of(&[(1, 3, 9)]), Some((name(2), [0, 0, 9, 3])), "cut off in front");
        for (list, why) in [
            (&[(0, 0, 9), (2, 50, 2), (1, 12, 4)][..], "two full chunks"),
            (&[(0, 0, 9), (2, 50, 2), (3, 12, 4)], "two literals"),
            (&[(0, 0, 9), (2, 5, 2), (0, 12, 4), (2, 9, 1)], "four extents"),
            (&[(0, 5, 9), (0, 20, 2), (0, 30, 1)], "three copies"),
            (&[(0, 5, 9), (2, 20, 2), (0, 30, 1)], "a prefix from the middle"),
            (&[(2, 5, 9)], "nothing old"),
        ] {
            assert_eq!(of(list), None, "{why}");
        }
    }
}
