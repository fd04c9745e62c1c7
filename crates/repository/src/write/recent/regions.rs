//! The encoded bytes of the last regions.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use cutpoint_storage::{Error, Result};

use crate::format::toc::Codec;
use crate::write::region::EncodedRegion;

/// An encoded region in memory.
#[derive(Debug)]
pub(super) struct RecentRegion {
    pub(super) codec: Codec,
    pub(super) bytes: Vec<u8>,
    pub(super) raw_len: usize,
}

/// Maximum number of buffers of dropped regions that are kept for the next ones.
const SPARE_COUNT_MAX: usize = 16;

#[derive(Debug, Default)]
struct State {
    /// The awaited regions by number; `None` until they are encoded.
    regions: BTreeMap<u64, Option<Arc<RecentRegion>>>,
    /// Buffers of dropped regions, because fresh memory costs more than a copy.
    spares: Vec<Vec<u8>>,
    is_ended: bool,
}

impl State {
    /// Returns a buffer for `len` bytes: a spare one that is large enough and not much larger, or an
    /// empty one.
    fn spare(&mut self, len: usize) -> Vec<u8> {
        let is_fit = |spare: &Vec<u8>| (len..=len + len / 4).contains(&spare.capacity());
        let found = self.spares.iter().position(is_fit);
        found.map(|number| self.spares.swap_remove(number)).unwrap_or_default()
    }
}

fn unavailable(region: u64, message: &str) -> Error {
    Error::invalid(format!("region {region}"), message)
}

/// The encoded bytes of the last regions of a writer. The ordered stage awaits regions, and the
/// threads that encode them put their bytes.
#[derive(Debug, Default)]
pub struct RecentRegions {
    state: Mutex<State>,
    is_changed: Condvar,
}

impl RecentRegions {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Copies the bytes of a region, if it is awaited.
    pub fn put(&self, region: &EncodedRegion) {
        let number = region.number();
        let is_awaited = |state: &State| matches!(state.regions.get(&number), Some(None));
        let stored = match region.codec {
            Codec::Store => &region.raw.bytes,
            Codec::Zstd => &region.encoded,
        };
        let mut state = self.state();
        if !is_awaited(&state) {
            return;
        }
        let mut bytes = state.spare(stored.len());
        drop(state);
        bytes.clear();
        bytes.reserve_exact(stored.len());
        bytes.extend_from_slice(stored);
        let recent = RecentRegion { codec: region.codec, bytes, raw_len: region.raw.len() };
        let mut state = self.state();
        if is_awaited(&state) {
            state.regions.insert(number, Some(Arc::new(recent)));
            self.is_changed.notify_all();
        }
    }

    /// Ends every wait, because no more regions are encoded.
    pub fn end(&self) {
        self.state().is_ended = true;
        self.is_changed.notify_all();
    }

    /// Returns `true` if no more regions are encoded.
    pub fn is_ended(&self) -> bool {
        self.state().is_ended
    }

    /// Awaits the region of this number.
    pub(super) fn expect(&self, number: u64) {
        self.state().regions.entry(number).or_default();
    }

    /// Returns an awaited region once it is encoded.
    ///
    /// # Errors
    ///
    /// Returns `Invalid` if the region is not awaited, or if no more regions are encoded.
    pub(super) fn get(&self, number: u64) -> Result<Arc<RecentRegion>> {
        let mut state = self.state();
        loop {
            match state.regions.get(&number) {
                Some(Some(region)) => return Ok(region.clone()),
                Some(None) if !state.is_ended => {}
                Some(None) => {
                    return Err(unavailable(number, "the run has ended before it was encoded"));
                }
                None => return Err(unavailable(number, "it is not awaited")),
            }
            state = self.is_changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Drops the region of this number.
    pub(super) fn remove(&self, number: u64) {
        let mut state = self.state();
        if let Some(Some(region)) = state.regions.remove(&number)
            && let Ok(region) = Arc::try_unwrap(region)
        {
            // The oldest buffers go, for which there was no use.
            if state.spares.len() == SPARE_COUNT_MAX {
                state.spares.remove(0);
            }
            state.spares.push(region.bytes);
        }
    }
}
