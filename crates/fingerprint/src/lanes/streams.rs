//! Streams of blocks side by side, for functions in which each block depends on the previous one.

use super::Levels;
use super::compress::{Block, Compress, Sha1State, Sha256State};
use super::emulated::Emulated;
#[cfg(target_arch = "x86_64")]
use super::sha_ni::ShaNi;

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
