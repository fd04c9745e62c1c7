//! The compression functions of SHA-1 and SHA-256.

/// A block of SHA-1 and SHA-256.
pub(crate) type Block = [u8; 64];

/// The state of SHA-1 between blocks.
pub(crate) type Sha1State = [u32; 5];

/// The state of SHA-256 between blocks.
pub(crate) type Sha256State = [u32; 8];

/// The compression function of the state `S` in an instruction set.
///
/// A value of an implementing type is a proof that this CPU has the instruction set.
pub(crate) trait Compress<S>: Copy {
    /// Takes the blocks of each stream into its state. All streams have the same number of blocks.
    fn compress<const N: usize>(self, states: &mut [S; N], blocks: [&[Block]; N]);

    /// Asks for the first cache lines of a chunk whose turn comes soon.
    fn prefetch(self, chunk: &[u8]) {
        let _ = chunk;
    }
}
