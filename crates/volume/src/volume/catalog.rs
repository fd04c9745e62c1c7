//! Disks, snapshots and clones: created, listed and removed, each by one durable record.

use std::sync::PoisonError;
use std::time::SystemTime;

use super::create::{check_name, check_size};
use super::{State, Volume, copies};
use crate::error::{Error, Kind, Result};
use crate::format::change::{Change, DiskEntry, SnapshotEntry};
use crate::format::record::Body;
use crate::format::span::{LayerId, Span};

/// The maximum number of disks and snapshots of a volume.
const ENTRY_COUNT_MAX: usize = 10_000;

/// The maximum number of blocks that one record folds.
const FOLDED_MAX: usize = 4096;

/// A disk of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskInfo {
    /// The name.
    pub name: String,
    /// The size in bytes.
    pub size: u64,
    /// The number of blocks that are not zeros and were written since the last snapshot.
    pub own_block_count: u64,
}

/// A snapshot of a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotInfo {
    /// The name of the disk.
    pub disk: String,
    /// The name of the snapshot.
    pub name: String,
    /// The size of the disk in bytes.
    pub size: u64,
    /// The time of creation in seconds since 1970.
    pub created: u64,
    /// The number of blocks that are not zeros and were written between the snapshot before and this.
    pub own_block_count: u64,
}

impl Volume {
    /// Returns the disks, by the order of their creation.
    #[must_use]
    pub fn disks(&self) -> Vec<DiskInfo> {
        let state = self.read_state();
        let disks = state.tables.catalog.disks.values();
        let info = |disk: &DiskEntry| DiskInfo {
            name: disk.name.clone(),
            size: disk.size,
            own_block_count: state.used_count(disk.layer),
        };
        disks.map(info).collect()
    }

    /// Returns the snapshots of all disks, by the order of their creation.
    #[must_use]
    pub fn snapshots(&self) -> Vec<SnapshotInfo> {
        let state = self.read_state();
        let catalog = &state.tables.catalog;
        let info = |snapshot: &SnapshotEntry| SnapshotInfo {
            disk: catalog.disks.get(&snapshot.disk).map_or(String::new(), |it| it.name.clone()),
            name: snapshot.name.clone(),
            size: snapshot.size,
            created: snapshot.created,
            own_block_count: state.used_count(snapshot.layer),
        };
        catalog.snapshots.values().map(info).collect()
    }

    /// Creates a disk whose blocks are zeros.
    ///
    /// # Errors
    ///
    /// Fails with [`Kind::Exists`] if there is a disk of this name, with [`Kind::Invalid`] for a wrong
    /// name or size, and if the volume cannot be written.
    pub fn create_disk(&self, name: &str, size: u64) -> Result<()> {
        check_size(size, self.block_size() as u64)?;
        self.change(|state| {
            let [disk, layer] = state.new_disk(name)?;
            Ok(vec![
                Change::Layer { id: layer, parent: None },
                Change::Disk(disk, DiskEntry { name: name.to_owned(), layer, size }),
            ])
        })
    }

    /// Takes a snapshot of a disk as it is now, which takes the same time for any size. What clients
    /// have not flushed yet is in it if it was written.
    ///
    /// # Errors
    ///
    /// Fails with [`Kind::Missing`] if there is no such disk, with [`Kind::Exists`] if it has a
    /// snapshot of this name, and if the volume cannot be written.
    pub fn snapshot(&self, disk: &str, name: &str) -> Result<()> {
        check_name(name)?;
        self.change(|state| {
            let (id, entry) = state.disk(disk)?;
            if state.tables.catalog.find_snapshot(disk, name).is_some() {
                return Err(Error::new(Kind::Exists, format!("{disk}@{name}"), "exists already"));
            }
            let [snapshot, upper] = state.new_ids()?;
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
            let created = now.map_or(0, |time| time.as_secs());
            let (layer, size) = (entry.layer, entry.size);
            let taken = SnapshotEntry { disk: id, name: name.to_owned(), layer, size, created };
            Ok(vec![
                Change::Layer { id: upper, parent: Some(layer) },
                Change::Disk(id, DiskEntry { layer: upper, ..entry }),
                Change::Snapshot(snapshot, taken),
            ])
        })
    }

    /// Creates a disk with the contents of a disk, or of a snapshot given as `DISK@SNAPSHOT`, which
    /// takes the same time for any size.
    ///
    /// # Errors
    ///
    /// Fails with [`Kind::Missing`] if there is no such disk or snapshot, with [`Kind::Exists`] if
    /// there is a disk of the new name, and if the volume cannot be written.
    pub fn clone_disk(&self, from: &str, name: &str) -> Result<()> {
        self.change(|state| {
            let [disk, layer] = state.new_disk(name)?;
            let name = name.to_owned();
            if let Some(snapshot) = state.find_snapshot(from)? {
                let SnapshotEntry { layer: parent, size, .. } = snapshot;
                return Ok(vec![
                    Change::Layer { id: layer, parent: Some(parent) },
                    Change::Disk(disk, DiskEntry { name, layer, size }),
                ]);
            }
            // Both disks lie on what is there now.
            let (id, entry) = state.disk(from)?;
            let upper = layer.saturating_add(1);
            let (parent, size) = (entry.layer, entry.size);
            Ok(vec![
                Change::Layer { id: layer, parent: Some(parent) },
                Change::Layer { id: upper, parent: Some(parent) },
                Change::Disk(id, DiskEntry { layer: upper, ..entry }),
                Change::Disk(disk, DiskEntry { name, layer, size }),
            ])
        })
    }

    /// Gives a disk the contents and the size of one of its snapshots, which takes the same time for
    /// any size. What was written since is lost. Must not be called while a client uses the disk.
    ///
    /// # Errors
    ///
    /// Fails with [`Kind::Missing`] if there is no such disk or snapshot, and if the volume cannot be
    /// written.
    pub fn roll_back(&self, disk: &str, snapshot: &str) -> Result<()> {
        self.change(|state| {
            let (id, entry) = state.disk(disk)?;
            let from = format!("{disk}@{snapshot}");
            let found = state.find_snapshot(&from)?.ok_or_else(|| missing(&from))?;
            let [layer, _] = state.new_ids()?;
            let size = found.size;
            Ok(vec![
                Change::Layer { id: layer, parent: Some(found.layer) },
                Change::Disk(id, DiskEntry { layer, size, ..entry }),
            ])
        })
    }

    /// Removes a disk without snapshots, or a snapshot given as `DISK@SNAPSHOT`. Its space comes back
    /// with [`Volume::clean`].
    ///
    /// # Errors
    ///
    /// Fails with [`Kind::Missing`] if there is no such disk or snapshot, with [`Kind::Exists`] if the
    /// disk has snapshots, and if the volume cannot be written.
    pub fn delete(&self, name: &str) -> Result<()> {
        self.change(|state| {
            let catalog = &state.tables.catalog;
            if let Some((disk, snapshot)) = name.split_once('@') {
                let id = catalog.find_snapshot(disk, snapshot).ok_or_else(|| missing(name))?;
                return Ok(vec![Change::RemoveSnapshot(id)]);
            }
            let (id, _) = state.disk(name)?;
            if catalog.snapshots.values().any(|snapshot| snapshot.disk == id) {
                let problem = "has snapshots, which must be deleted first";
                return Err(Error::new(Kind::Exists, name, problem));
            }
            Ok(vec![Change::RemoveDisk(id)])
        })
    }

    /// Changes the size of a disk. What lies behind a smaller size is lost.
    ///
    /// # Errors
    ///
    /// Fails with [`Kind::Missing`] if there is no such disk, with [`Kind::Invalid`] for a wrong size,
    /// and if the volume cannot be written.
    pub fn resize(&self, disk: &str, size: u64) -> Result<()> {
        let block_size = self.block_size() as u64;
        check_size(size, block_size)?;
        let mut state = self.client_state()?;
        let (id, entry) = state.disk(disk)?;
        let (layer, old) = (entry.layer, entry.size);
        let blocks = old.min(size) / block_size..old.max(size) / block_size;
        let change = [Change::Disk(id, DiskEntry { size, ..entry })];
        // A power cut may part the records. Blocks behind the end of the smaller size are freed while nobody
        // can read them: those of a disk that shrinks afterwards, those left by such a cut before it grows.
        if size > old {
            self.zero_blocks(&mut state, layer, blocks)?;
            state.change(&self.core, &change)?;
        } else {
            state.change(&self.core, &change)?;
            self.zero_blocks(&mut state, layer, blocks)?;
        }
        drop(state);
        self.flush()
    }

    /// Folds layers that no disk and no snapshot has into the layer above, or frees their blocks.
    /// Returns `false` if `is_asked_to_stop` returned `true`.
    ///
    /// # Errors
    ///
    /// Fails if the volume cannot be read or written.
    pub fn fold_layers(&self, is_asked_to_stop: &dyn Fn() -> bool) -> Result<bool> {
        let _one_at_a_time = self.cleaning.lock().unwrap_or_else(PoisonError::into_inner);
        self.fold_layers_alone(is_asked_to_stop)
    }

    /// Folds layers, while the caller holds the lock of cleaning.
    pub(super) fn fold_layers_alone(&self, is_asked_to_stop: &dyn Fn() -> bool) -> Result<bool> {
        loop {
            if is_asked_to_stop() {
                return Ok(false);
            }
            let mut state = self.write_state()?;
            let unneeded = state.tables.catalog.unneeded();
            let Some((layer, upper)) = unneeded else { return Ok(true) };
            self.fold_part(&mut state, layer, upper)?;
            drop(state);
            self.after_write()?;
        }
    }

    /// Folds the first blocks of a layer, or removes the layer if it has none.
    fn fold_part(&self, state: &mut State, layer: LayerId, upper: Option<LayerId>) -> Result<()> {
        let blocks = state.tables.own_blocks(layer, 0..u64::MAX).take(FOLDED_MAX);
        let (mut first, mut last) = (None, 0);
        for entry in blocks {
            let (block, _) = entry?;
            // The number of blocks of a span has 32 bits.
            if first.is_some_and(|first| block - first >= u64::from(u32::MAX)) {
                break;
            }
            first = first.or(Some(block));
            last = block;
        }
        let Some(first) = first else {
            let parent = state.tables.catalog.parent(layer);
            let mut changes: Vec<Change> =
                upper.map(|id| Change::Layer { id, parent }).into_iter().collect();
            changes.push(Change::RemoveLayer(layer));
            return state.change(&self.core, &changes);
        };
        let count = u32::try_from(last - first + 1).unwrap_or(u32::MAX);
        let span = Span { layer, first, count };
        for is_copy in copies() {
            state.append(&self.core, Body::Fold { span, into: upper, is_copy }, &[])?;
        }
        // A filter that was planted can hide from a lookup what a range has.
        let next = state.tables.own_blocks(layer, 0..u64::MAX).next().transpose()?;
        if next.is_some_and(|(block, _)| block <= last) {
            let problem = format!("layer {layer} has blocks that cannot be looked up");
            return Err(Error::new(Kind::Corrupt, "tables", problem));
        }
        Ok(())
    }

    /// Makes changes of the catalog, and makes them durable.
    fn change(&self, changes: impl FnOnce(&State) -> Result<Vec<Change>>) -> Result<()> {
        {
            let mut state = self.client_state()?;
            let changes = changes(&state)?;
            state.change(&self.core, &changes)?;
        }
        self.flush()
    }
}

impl State {
    fn used_count(&self, layer: LayerId) -> u64 {
        self.tables.catalog.layers.get(&layer).map_or(0, |layer| layer.used_count)
    }

    /// Returns a disk by its name.
    fn disk(&self, name: &str) -> Result<(u32, DiskEntry)> {
        let catalog = &self.tables.catalog;
        let id = catalog.find_disk(name);
        let found = id.and_then(|id| catalog.disks.get(&id).map(|disk| (id, disk.clone())));
        found.ok_or_else(|| missing(name))
    }

    /// Returns a snapshot, or `None` if the name is that of a disk.
    fn find_snapshot(&self, name: &str) -> Result<Option<SnapshotEntry>> {
        let Some((disk, snapshot)) = name.split_once('@') else { return Ok(None) };
        let catalog = &self.tables.catalog;
        let id = catalog.find_snapshot(disk, snapshot);
        let found = id.and_then(|id| catalog.snapshots.get(&id).cloned());
        found.map(Some).ok_or_else(|| missing(name))
    }

    /// Returns two numbers that nothing has had.
    fn new_ids(&self) -> Result<[u32; 2]> {
        let catalog = &self.tables.catalog;
        let next = catalog.next_id;
        let is_full = catalog.disks.len() + catalog.snapshots.len() >= ENTRY_COUNT_MAX;
        if is_full || next > u32::MAX - 4 {
            let problem =
                format!("has {ENTRY_COUNT_MAX} disks and snapshots, and cannot have more");
            return Err(Error::new(Kind::Full, "volume", problem));
        }
        Ok([next, next + 1])
    }

    /// Returns the numbers of a new disk and of its layer.
    fn new_disk(&self, name: &str) -> Result<[u32; 2]> {
        check_name(name)?;
        if self.tables.catalog.find_disk(name).is_some() {
            return Err(Error::new(Kind::Exists, format!("disk {name}"), "exists already"));
        }
        self.new_ids()
    }
}

fn missing(name: &str) -> Error {
    Error::new(Kind::Missing, name, "there is no such disk or snapshot")
}
