//! SHA-256 and SHA-1.

use sha2::Digest as _;

use crate::chain;
use crate::lanes::Levels;
use crate::lanes::compress::{Sha1State, Sha256State};
use crate::lanes::streams::StreamLevel;
use crate::tree;

/// Defines a hash function from its type in the crate, its digest size and its initial state.
macro_rules! sha {
    ($(#[$docs:meta])* $Sha:ident, $Crate:ty, $size:literal, $initial:expr) => {
        $(#[$docs])*
        #[derive(Clone, Copy, Debug)]
        pub struct $Sha {
            level: StreamLevel,
        }

        impl $Sha {
            /// Creates the hash at the fastest level of this CPU.
            pub fn plain() -> $Sha {
                $Sha { level: StreamLevel::best() }
            }

            /// Returns the same hash at the named level: `crate` (the function's crate, one chunk
            /// after another), `sha-ni`, or `emulated` (streams in plain Rust, for tests). Returns
            /// `None` if there is no such level or this CPU lacks it.
            pub fn at_level(self, name: &str) -> Option<$Sha> {
                StreamLevel::named(name).map(|level| $Sha { level })
            }

            /// Returns the names of all levels of this CPU, slowest first.
            pub fn levels() -> Vec<&'static str> {
                StreamLevel::available()
            }

            /// Appends the digest of each chunk to `digests`, in order.
            pub fn digests(&self, chunks: &[&[u8]], digests: &mut Vec<[u8; $size]>) {
                let states = match self.level {
                    StreamLevel::Crate => {
                        let each = |chunk: &&[u8]| <[u8; $size]>::from(<$Crate>::digest(chunk));
                        return digests.extend(chunks.iter().map(each));
                    }
                    StreamLevel::Emulated(kernel) => {
                        chain::states(kernel, &$initial, chunks)
                    }
                    #[cfg(target_arch = "x86_64")]
                    StreamLevel::ShaNi(kernel) => {
                        chain::states(kernel, &$initial, chunks)
                    }
                };
                digests.extend(states.into_iter().map(|state| {
                    let mut digest = [0; $size];
                    for (bytes, word) in digest.as_chunks_mut().0.iter_mut().zip(state) {
                        *bytes = word.to_be_bytes();
                    }
                    digest
                }));
            }
        }
    };
}

sha! {
    /// SHA-256 of several chunks at once, with the CPU's instructions for it.
    Sha256, sha2::Sha256, 32, SHA_256_INITIAL
}

sha! {
    /// SHA-1 of several chunks at once, with the CPU's instructions for it.
    ///
    /// SHA-1 is here for comparison with published figures. Collisions can be constructed (Stevens
    /// and others, 2017), so SHA-1 must not tell chunks apart where an attacker may want two chunks
    /// confused.
    Sha1, sha1::Sha1, 20, SHA_1_INITIAL
}

/// The initial state of SHA-256, which BLAKE3 adopted.
const SHA_256_INITIAL: Sha256State = tree::INITIAL;

const SHA_1_INITIAL: Sha1State = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476, 0xc3d2_e1f0];
