//! Streams of blocks side by side, for functions in which each block depends on the previous one.

use super::Levels;
use super::emulated::Emulated;
#[cfg(target_arch = "x86_64")]
use super::sha_ni::ShaNi;

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

/// An instruction set for streams that this CPU has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StreamLevel {
    /// The crates `sha1` and `sha2`, without streams.
    Crate,
    Emulated(Emulated),
    #[cfg(target_arch = "x86_64")]
    ShaNi(ShaNi),
}

impl Levels for StreamLevel {
    const NAMES: &'static [&'static str] = &["emulated", "crate", "sha-ni"];
    const CRATE: StreamLevel = StreamLevel::Crate;

    fn named(name: &str) -> Option<StreamLevel> {
        match name {
            "emulated" => Some(StreamLevel::Emulated(Emulated)),
            "crate" => Some(StreamLevel::Crate),
            #[cfg(target_arch = "x86_64")]
            "sha-ni" => ShaNi::detect().map(StreamLevel::ShaNi),
            _ => None,
        }
    }
}

impl Compress<Sha256State> for Emulated {
    fn compress<const N: usize>(self, states: &mut [Sha256State; N], blocks: [&[Block]; N]) {
        for (state, blocks) in states.iter_mut().zip(blocks) {
            sha2::block_api::compress256(state, blocks);
        }
    }
}

impl Compress<Sha1State> for Emulated {
    fn compress<const N: usize>(self, states: &mut [Sha1State; N], blocks: [&[Block]; N]) {
        for (state, blocks) in states.iter_mut().zip(blocks) {
            sha1::block_api::compress(state, blocks);
        }
    }
}
