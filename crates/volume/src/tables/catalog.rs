//! The catalog: disks, snapshots and the layers on which they lie.

use std::collections::BTreeMap;

use crate::format::change::{Change, DiskEntry, EntryId, SnapshotEntry};
use crate::format::settings::Settings;
use crate::format::span::LayerId;
use crate::rules;

/// A layer: the blocks that were written to a disk between two snapshots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Layer {
    /// The layer below, which has the blocks that this one has not.
    pub(crate) parent: Option<LayerId>,
    /// The number of blocks of the layer that are not zeros.
    pub(crate) used_count: u64,
}

/// The disks, snapshots and layers of a volume, and its settings.
#[derive(Clone, Debug)]
pub(crate) struct Catalog {
    pub(crate) settings: Settings,
    pub(crate) disks: BTreeMap<EntryId, DiskEntry>,
    pub(crate) snapshots: BTreeMap<EntryId, SnapshotEntry>,
    pub(crate) layers: BTreeMap<LayerId, Layer>,
    /// The lowest number that no disk, snapshot or layer has had.
    pub(crate) next_id: u32,
}

impl Catalog {
    /// Creates a catalog without disks.
    pub(crate) fn new(settings: Settings) -> Catalog {
        Catalog {
            settings,
            disks: BTreeMap::new(),
            snapshots: BTreeMap::new(),
            layers: BTreeMap::new(),
            next_id: 1,
        }
    }

    /// Makes a change. Returns `false` if the catalog would contradict itself then.
    pub(crate) fn apply(&mut self, change: &Change) -> bool {
        match change {
            Change::Settings(settings) => self.settings = *settings,
            Change::Layer { id, parent } => {
                if parent.is_some_and(|parent| {
                    parent == *id
                        || !self.layers.contains_key(&parent)
                        || self.is_below(*id, parent)
                }) {
                    return false;
                }
                self.layers.entry(*id).or_default().parent = *parent;
                self.next_id = self.next_id.max(id.saturating_add(1));
            }
            Change::RemoveLayer(id) => {
                let is_parent = self.layers.values().any(|layer| layer.parent == Some(*id));
                if is_parent || self.is_named(*id) {
                    return false;
                }
                self.layers.remove(id);
            }
            Change::Disk(id, disk) => {
                if !self.layers.contains_key(&disk.layer) {
                    return false;
                }
                self.disks.insert(*id, disk.clone());
                self.next_id = self.next_id.max(id.saturating_add(1));
            }
            Change::RemoveDisk(id) => {
                self.disks.remove(id);
            }
            Change::Snapshot(id, snapshot) => {
                if !self.layers.contains_key(&snapshot.layer) {
                    return false;
                }
                self.snapshots.insert(*id, snapshot.clone());
                self.next_id = self.next_id.max(id.saturating_add(1));
            }
            Change::RemoveSnapshot(id) => {
                self.snapshots.remove(id);
            }
        }
        true
    }

    /// Returns the changes that make this catalog from an empty one.
    pub(crate) fn changes(&self) -> Vec<Change> {
        let mut changes = vec![Change::Settings(self.settings)];
        // A layer may lie on one with a higher number after one between them was folded.
        let bare = self.layers.keys().map(|id| Change::Layer { id: *id, parent: None });
        changes.extend(bare);
        let lying = self.layers.iter().filter(|(_, layer)| layer.parent.is_some());
        changes.extend(lying.map(|(id, layer)| Change::Layer { id: *id, parent: layer.parent }));
        changes.extend(self.disks.iter().map(|(id, disk)| Change::Disk(*id, disk.clone())));
        let snapshots = self.snapshots.iter();
        changes.extend(snapshots.map(|(id, snapshot)| Change::Snapshot(*id, snapshot.clone())));
        changes
    }

    /// Returns a layer and those below it, from the uppermost on.
    pub(crate) fn chain(&self, layer: LayerId) -> impl Iterator<Item = LayerId> {
        std::iter::successors(Some(layer), |layer| self.parent(*layer))
    }

    /// Returns the layer below a layer.
    pub(crate) fn parent(&self, layer: LayerId) -> Option<LayerId> {
        self.layers.get(&layer).and_then(|layer| layer.parent)
    }

    /// Returns the next layer that no disk and no snapshot has and that can go, with the only layer on
    /// it, if there is one.
    pub(crate) fn unneeded(&self) -> Option<(LayerId, Option<LayerId>)> {
        self.layers.keys().filter(|layer| !self.is_named(**layer)).find_map(|layer| {
            let mut above = self.layers.iter().filter(|(_, it)| it.parent == Some(*layer));
            let (first, second) = (above.next(), above.next());
            let is_shared = second.is_some() && rules::must_keep_shared();
            (!is_shared).then(|| (*layer, first.map(|(id, _)| *id)))
        })
    }

    /// Returns `true` if a disk or a snapshot has the layer as its uppermost one.
    fn is_named(&self, layer: LayerId) -> bool {
        self.disks.values().any(|disk| disk.layer == layer)
            || self.snapshots.values().any(|snapshot| snapshot.layer == layer)
    }

    /// Returns the disk, or DISK@SNAPSHOT, to which the blocks of a layer were written.
    pub(crate) fn owner(&self, layer: LayerId) -> String {
        if let Some(disk) = self.disks.values().find(|disk| disk.layer == layer) {
            return disk.name.clone();
        }
        let mut snapshots = self.snapshots.values();
        let named = snapshots.find(|snapshot| snapshot.layer == layer).and_then(|snapshot| {
            let disk = self.disks.get(&snapshot.disk)?;
            Some(format!("{}@{}", disk.name, snapshot.name))
        });
        named.unwrap_or_else(|| "a deleted snapshot".to_owned())
    }

    /// Returns `true` if `layer` is below `upper`.
    fn is_below(&self, layer: LayerId, upper: LayerId) -> bool {
        self.chain(upper).any(|below| below == layer)
    }
}

impl Catalog {
    /// Returns the number of the disk with a name.
    pub(crate) fn find_disk(&self, name: &str) -> Option<EntryId> {
        self.disks.iter().find(|(_, disk)| disk.name == name).map(|(id, _)| *id)
    }

    /// Returns the number of the snapshot of a disk with a name.
    pub(crate) fn find_snapshot(&self, disk: &str, name: &str) -> Option<EntryId> {
        let disk = self.find_disk(disk)?;
        let mut snapshots = self.snapshots.iter();
        snapshots.find(|(_, it)| it.disk == disk && it.name == name).map(|(id, _)| *id)
    }
}
