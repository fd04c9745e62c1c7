//! Knowledge about a record apart from its header, for its application.

use crate::format::change::Change;
use crate::format::edge::FEATURE_COUNT;

/// Knowledge about a record apart from its header. The record of a block can be applied without any.
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
