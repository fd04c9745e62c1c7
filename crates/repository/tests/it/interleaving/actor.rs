//! A client in the world, and the chunks that it stores.

use std::sync::Arc;

use cutpoint_repository::Repository;
use cutpoint_storage::Result;
use cutpoint_testing::SplitMix64;

use crate::interleaving::world::World;

/// Number of chunks, small so that writers meet.
pub(super) const UNIVERSE: usize = 5;

/// One actor: its world, its number, its repository, its random numbers.
pub(super) struct Actor {
    pub(super) world: Arc<World>,
    pub(super) number: usize,
    pub(super) repository: Arc<Repository>,
    pub(super) random: SplitMix64,
}

impl Actor {
    pub(super) fn chance(&mut self, one_in: usize) -> bool {
        self.random.below(one_in) == 0
    }

    pub(super) fn pause(&mut self, turns_max: usize) -> Result<()> {
        let turns = 1 + self.random.below(turns_max) as u64;
        self.world.pause(self.number, turns)
    }
}

/// Returns the bytes of a chunk. Those of the universe share their bytes except for one inside and
/// the end. All others are so large that they fill a region, and share nothing.
pub(super) fn chunk(number: usize) -> Vec<u8> {
    if number >= UNIVERSE {
        return SplitMix64::bytes(1000 + number as u64, 17 * 1024);
    }
    let mut bytes = SplitMix64::bytes(0, 400);
    bytes[50 * number] ^= 1;
    bytes.extend(SplitMix64::bytes(1 + number as u64, 20 * number));
    bytes
}
