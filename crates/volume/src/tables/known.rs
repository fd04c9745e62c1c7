//! What is known of a record apart from its header when it is applied.

use crate::format::change::Change;
use crate::format::edge::FEATURE_COUNT;

/// What is known of a record apart from its header. Nothing need be known of the record of a block.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Known<'a> {
    /// The changes of a change of the catalog.
    pub(crate) changes: &'a [Change],
    pub(crate) absent: Absent,
}

/// The entries that a block was found not to have, so that they need not be looked up again when its record is
/// applied. Nothing may have been applied in between.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Absent {
    /// That of DT or BT.
    pub(crate) fingerprint: bool,
    /// Those of HeadDT and TailDT.
    pub(crate) edges: [bool; 2],
    pub(crate) features: [bool; FEATURE_COUNT],
}
