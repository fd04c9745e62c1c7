//! The compression functions of SHA-1 and SHA-256.

/// The input of one call of the compression function of SHA-1 and SHA-256.
pub(crate) type Block = [u8; 64];

/// The state that SHA-1 carries from block to block.
pub(crate) type Sha1State = [u32; 5];

/// The state that SHA-256 carries from block to block.
pub(crate) type Sha256State = [u32; 8];

/// The compression function of an instruction set, on the state `S`.
///
/// A value of an implementing type proves that this CPU has the instruction set.
pub(crate) trait Compress<S>: Copy {
    /// Compresses the blocks of each stream into its state. All streams have the same number of
    /// blocks.
    fn compress<const N: usize>(self, states: &mut [S; N], blocks: [&[Block]; N]);

    /// Prefetches the first cache lines of a chunk that is compressed soon.
    fn prefetch(self, chunk: &[u8]) {
        let _ = chunk;
    }
}
