//! Claims: one thread at a time reads or decodes a region, and the others wait for it.

use std::sync::Arc;

use bytes::Bytes;
use zstd::bulk::Decompressor;

use super::shared::Regions;
use super::slots::{RegionName, Slot, Stage};

/// The result of claiming a region.
pub(in crate::read) enum Claim<'a> {
    Decoded(Arc<Vec<u8>>),
    /// The caller has to decode the region, and first to read it if it has not been fetched.
    Turn(Turn<'a>, Option<Bytes>),
}

/// The duty to read or decode a region, for which other threads wait. If it is dropped before the
/// end, the duty passes to the next thread that needs the region.
pub(in crate::read) struct Turn<'a> {
    pub(super) regions: &'a Regions,
    pub(super) name: RegionName,
    pub(super) is_done: bool,
}

impl Turn<'_> {
    /// Returns a buffer for `len` bytes, which may have no capacity yet, and a decompressor if
    /// there is a free one.
    pub(in crate::read) fn take_tools(
        &self,
        len: usize,
    ) -> (Vec<u8>, Option<Decompressor<'static>>) {
        let mut state = self.regions.lock();
        (state.take_spare(len), state.decompressors.pop())
    }

    /// Stores the decoded region and returns the decompressor.
    pub(in crate::read) fn decoded(
        mut self,
        bytes: &Arc<Vec<u8>>,
        decompressor: Decompressor<'static>,
    ) {
        let mut state = self.regions.lock();
        state.decompressors.push(decompressor);
        state.count_decoded(self.name, bytes.len());
        self.is_done = true;
        self.regions.end_turn(state, &self.name, Stage::Decoded(bytes.clone()));
    }

    /// Stores the region as it was read.
    pub(super) fn fetched(mut self, bytes: Bytes) {
        self.is_done = true;
        self.regions.end_turn(self.regions.lock(), &self.name, Stage::Fetched(bytes));
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            self.regions.end_turn(self.regions.lock(), &self.name, Stage::Wanted);
        }
    }
}

impl Regions {
    /// Returns a region that is needed now. Waits while another thread works on the region.
    pub(in crate::read) fn claim(&self, name: RegionName) -> Claim<'_> {
        let mut state = self.lock();
        loop {
            state.uses += 1;
            let used = state.uses;
            let slot = state.slots.entry(name).or_insert_with(Slot::new);
            slot.used = used;
            let fetched = match &slot.stage {
                Stage::Decoded(bytes) => return Claim::Decoded(bytes.clone()),
                Stage::Busy => {
                    state = self.wait(state);
                    continue;
                }
                Stage::Fetched(bytes) => Some(bytes.clone()),
                Stage::Wanted => None,
            };
            slot.stage = Stage::Busy;
            return Claim::Turn(Turn { regions: self, name, is_done: false }, fetched);
        }
    }
}
