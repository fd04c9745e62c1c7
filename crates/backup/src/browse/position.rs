//! Listings of folders.

use super::attributes::Attributes;

/// An entry of a listing.
#[derive(Debug)]
pub struct ListedEntry<'a> {
    /// The name.
    pub name: &'a [u8],
    /// The position behind the entry, from which a later listing goes on.
    pub next: u64,
    /// The properties. The number of [`Attributes::node`] is that of a lookup.
    pub attributes: &'a Attributes,
}

/// The number of positions before the first entry, which are left to `.` and `..`.
const FIRST: u64 = 2;

/// Returns the position of the entry `index` in the chunk `number` of a tree.
pub(super) fn position(number: usize, index: usize) -> u64 {
    ((number as u64) << 32 | index as u64).saturating_add(FIRST)
}

/// Returns chunk and index of a position.
pub(super) fn parts(position: u64) -> (usize, usize) {
    let position = position.saturating_sub(FIRST);
    let part = |bits: u64| usize::try_from(bits).unwrap_or(usize::MAX);
    (part(position >> 32), part(position & 0xffff_ffff))
}
