//! The directories that were used last. What is stored together is mostly found together.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use super::{Loaded, Location};
use crate::fingerprint::{Class, FINGERPRINT_LEN, Fingerprint};
use crate::name::PartName;

/// How much the cache may take, in bytes, counted as below.
const BYTES_MAX: u64 = 16 * 1024 * 1024;
/// What one chunk takes: its record, and its place in the map.
const CHUNK_BYTES: u64 = 56 + 24;
/// What a directory takes besides.
const DIRECTORY_BYTES: u64 = 512;

/// A bounded cache of directories, and a map from hints into them. The oldest goes first.
#[derive(Debug, Default)]
pub(super) struct Directories {
    /// By slot number; slots count up and are never used again.
    loaded: HashMap<u32, Arc<Loaded>>,
    by_name: HashMap<(Class, PartName), u32>,
    order: VecDeque<u32>,
    next_slot: u32,
    chunks: HashMap<u64, (u32, u32)>,
    bytes: u64,
}

impl Directories {
    pub(super) fn find(&self, fingerprint: &Fingerprint) -> Option<Location> {
        let &(slot, chunk) = self.chunks.get(&fingerprint.hint())?;
        let loaded = self.loaded.get(&slot)?;
        let record = loaded.directory.chunks.get(chunk as usize)?;
        (record.fingerprint == *fingerprint)
            .then(|| Location { loaded: loaded.clone(), chunk: chunk as usize })
    }

    pub(super) fn get(&self, name: PartName, class: Class) -> Option<Arc<Loaded>> {
        self.loaded.get(self.by_name.get(&(class, name))?).cloned()
    }

    pub(super) fn insert(&mut self, loaded: Arc<Loaded>) {
        let slot = self.next_slot;
        self.next_slot = self.next_slot.wrapping_add(1);
        for (number, chunk) in (0..).zip(&loaded.directory.chunks) {
            self.chunks.insert(chunk.fingerprint.hint(), (slot, number));
        }
        self.bytes += cost(&loaded);
        self.by_name.insert((loaded.container.class, loaded.container.name), slot);
        self.order.push_back(slot);
        self.loaded.insert(slot, loaded);
        while self.bytes > BYTES_MAX && self.order.len() > 1 {
            self.remove_oldest();
        }
    }

    fn remove_oldest(&mut self) {
        let Some(slot) = self.order.pop_front() else { return };
        let Some(loaded) = self.loaded.remove(&slot) else { return };
        self.bytes -= cost(&loaded);
        self.by_name.remove(&(loaded.container.class, loaded.container.name));
        for chunk in &loaded.directory.chunks {
            let hint = chunk.fingerprint.hint();
            if self.chunks.get(&hint).is_some_and(|(owner, _)| *owner == slot) {
                self.chunks.remove(&hint);
            }
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }
}

fn cost(loaded: &Loaded) -> u64 {
    let references = loaded.directory.regions.iter().map(|region| region.references.len() as u64);
    DIRECTORY_BYTES
        + loaded.directory.chunks.len() as u64 * CHUNK_BYTES
        + references.sum::<u64>() * FINGERPRINT_LEN as u64
}
