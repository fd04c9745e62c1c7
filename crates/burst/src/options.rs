//! The variants and parameters of the paper.

use crate::Fingerprint;

/// How a [`Deduplicator`](crate::Deduplicator) looks for reference chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Which ends of a chunk have a table.
    pub sub_chunks: SubChunks,
    /// How long they are.
    pub tau: Tau,
    /// How many bursts may live that were found by one entry of a table. With 0 there are none.
    ///
    /// The paper starts its counters at 1 in algorithm 1 and at 0 in section III-C, and compares by
    /// "at most", so that a `c_max` of 1 allows one burst or two; here it is one, as in the example
    /// of III-C.
    pub c_max: u32,
}

impl Options {
    /// The paper's baseline: only equal chunks are found.
    pub const LEGACY: Options = Options { sub_chunks: SubChunks::None, ..Options::BURST };
    /// BURST as in section V: head and tail, an eighth of the chunk each.
    pub const BURST: Options =
        Options { sub_chunks: SubChunks::HeadAndTail, tau: Tau::Fraction(8), c_max: 255 };
    /// BURST-Head: no table of tails.
    pub const HEAD: Options = Options { sub_chunks: SubChunks::Head, ..Options::BURST };
    /// BURST-Raw: 32 bytes are their own fingerprint.
    pub const RAW: Options = Options { tau: Tau::Raw, ..Options::BURST };
    /// BURST-Head-Raw: both.
    pub const HEAD_RAW: Options = Options { tau: Tau::Raw, ..Options::HEAD };

    /// Returns the fingerprint of head or tail, none if `chunk` has no such sub-chunk.
    pub(crate) fn sub_fingerprint(&self, side: Side, chunk: &[u8]) -> Option<Fingerprint> {
        let tau = self.tau.len(chunk.len())?;
        let sub_chunk = match (side, self.sub_chunks) {
            (_, SubChunks::None) | (Side::Tail, SubChunks::Head) => return None,
            (Side::Head, _) => &chunk[..tau],
            (Side::Tail, SubChunks::HeadAndTail) => &chunk[chunk.len() - tau..],
        };
        match self.tau {
            Tau::Raw => Fingerprint::raw(sub_chunk),
            Tau::Fraction(_) | Tau::Bytes(_) => Some(Fingerprint::of(sub_chunk)),
        }
    }
}

impl Default for Options {
    /// [`Options::BURST`].
    fn default() -> Options {
        Options::BURST
    }
}

/// Which ends of a chunk lead to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubChunks {
    /// None: the baseline.
    None,
    /// Its first bytes.
    Head,
    /// Its first bytes, and where they lead nowhere its last.
    HeadAndTail,
}

/// The length of head and tail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tau {
    /// The length of the chunk divided by this, rounded down. Chunks of different lengths that have
    /// heads of different lengths never find each other.
    Fraction(usize),
    /// So many bytes.
    Bytes(usize),
    /// [`Fingerprint::LEN`] bytes, which are not hashed.
    Raw,
}

impl Tau {
    /// Returns the length of head and tail of a chunk of `chunk_len` bytes.
    ///
    /// None if it is 0, or if head and tail would leave nothing between them: it must be less than
    /// half of a chunk (section III-B).
    #[must_use]
    pub fn len(self, chunk_len: usize) -> Option<usize> {
        let len = match self {
            Tau::Fraction(divisor) => chunk_len.checked_div(divisor)?,
            Tau::Bytes(len) => len,
            Tau::Raw => Fingerprint::LEN,
        };
        (len > 0 && len < chunk_len.div_ceil(2)).then_some(len)
    }
}

/// An end of a chunk, in the order in which they are looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Head,
    Tail,
}

impl Side {
    pub(crate) const ALL: [Side; 2] = [Side::Head, Side::Tail];
}
