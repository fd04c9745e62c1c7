//! Consecutive blocks.

/// The number of a layer: blocks of the disk that were written since the layer began. The layers of a
/// disk lie on each other, one for each snapshot.
pub(crate) type LayerId = u32;

/// A block of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct BlockId {
    pub(crate) layer: LayerId,
    pub(crate) block: u64,
}

/// Consecutive blocks of a layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) layer: LayerId,
    pub(crate) first: u64,
    pub(crate) count: u32,
}

impl Span {
    /// Returns the span of one block.
    pub(crate) fn one(id: BlockId) -> Span {
        Span { layer: id.layer, first: id.block, count: 1 }
    }

    /// Returns the block behind the last one.
    pub(crate) fn end(self) -> u64 {
        self.first.saturating_add(self.count.into())
    }
}
