//! Keys of the tables of heads, tails and features.

/// The length of a raw head or tail in bytes.
pub(crate) const RAW_LEN: usize = 32;

/// The key of a head or a tail in its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EdgeKey {
    /// The hash of the bytes.
    Hash(u64),
    /// The bytes themselves: the raw variants of BURST.
    Raw([u8; RAW_LEN]),
}

/// The number of features of a block.
pub(crate) const FEATURE_COUNT: usize = cutpoint_delta::SUPER_FEATURE_COUNT;

/// The features of a block: blocks that have one in common probably resemble each other.
pub(crate) type Features = [u64; FEATURE_COUNT];

/// The maximum number of reference blocks of a delta.
pub(crate) const BASE_COUNT_MAX: usize = 4;

/// The reference blocks of a delta, in the order of its extents' numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bases {
    seqs: [u64; BASE_COUNT_MAX],
    len: usize,
}

impl Bases {
    /// Takes 1 to 4 different stored blocks. Returns `None` otherwise.
    pub(crate) fn new(seqs: &[u64]) -> Option<Bases> {
        let is_different = (1..seqs.len()).all(|at| !seqs[..at].contains(&seqs[at]));
        let is_right = (1..=BASE_COUNT_MAX).contains(&seqs.len()) && is_different;
        (is_right && !seqs.contains(&0)).then(|| {
            let mut bases = Bases { seqs: [0; BASE_COUNT_MAX], len: seqs.len() };
            bases.seqs[..seqs.len()].copy_from_slice(seqs);
            bases
        })
    }

    pub(crate) fn seqs(&self) -> &[u64] {
        &self.seqs[..self.len]
    }
}
