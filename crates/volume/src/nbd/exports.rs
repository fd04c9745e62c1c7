//! The disks that a server offers.

use std::fmt::Debug;
use std::sync::Arc;

use crate::device::Device;
use crate::volume::{DISK_NAME_DEFAULT, Disk, Volume};

/// The disks that a server offers, by their names.
pub trait Exports: Debug + Send + Sync {
    /// Returns the names of all disks.
    fn names(&self) -> Vec<String>;

    /// Returns the disk of a name, or the default one for the empty name.
    fn open(&self, name: &str) -> Option<Arc<dyn Device>>;
}

/// The disks of a volume, and their snapshots as `DISK@SNAPSHOT`, which cannot be written. The default is
/// the disk [`DISK_NAME_DEFAULT`], or the only one.
#[derive(Debug)]
pub struct VolumeExports(pub Arc<Volume>);

impl Exports for VolumeExports {
    fn names(&self) -> Vec<String> {
        let disks = self.0.disks().into_iter().map(|disk| disk.name);
        let snapshots = self.0.snapshots().into_iter().map(|it| format!("{}@{}", it.disk, it.name));
        disks.chain(snapshots).collect()
    }

    fn open(&self, name: &str) -> Option<Arc<dyn Device>> {
        let only = |mut disks: Vec<_>| if disks.len() == 1 { disks.pop() } else { None };
        let disk = match name {
            "" => Disk::open(&self.0, DISK_NAME_DEFAULT).ok().or_else(|| {
                let disk: crate::volume::DiskInfo = only(self.0.disks())?;
                Disk::open(&self.0, &disk.name).ok()
            }),
            _ => Disk::open(&self.0, name).ok(),
        };
        disk.map(|disk| Arc::new(disk) as Arc<dyn Device>)
    }
}
