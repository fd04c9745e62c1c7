//! Places in the log.

/// The number of a record, from 1 on. A stored block has the number of the record that stored it.
pub(crate) type Seq = u64;

/// A position in the log: the next record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Position {
    pub(crate) segment: u64,
    /// The offset of the record in the segment, or 0 if the segment is not created yet.
    pub(crate) offset: u32,
    pub(crate) seq: Seq,
}

/// A place of a stored block: the header of the record with its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) segment: u64,
    pub(crate) offset: u32,
}
