//! Opens a volume: the newest checkpoint, and the log behind it.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, RwLock};

use super::checkpoint::checkpoint_after;
use super::{Checkpoints, State, Volume};
use crate::core::Core;
use crate::error::{Error, Kind, Result};
use crate::folder::{Access, Folder};
use crate::format::checkpoint::{Checkpoint, Place};
use crate::format::names;
use crate::format::record::{Body, Record, Span};
use crate::format::superblock::{SUPERBLOCK_SIZE, Superblock};
use crate::log::{LogWriter, Replay, Replayed, Target};
use crate::rules;
use crate::tables::{Form, Stored, Tables};

impl Volume {
    /// Opens the volume in a folder, and makes durable what an earlier process has left.
    ///
    /// # Errors
    ///
    /// Fails with [`Kind::Missing`] if there is no volume, with [`Kind::Unsupported`] if a newer
    /// version has written it, and with [`Kind::Corrupt`] if its superblock, its checkpoint or its
    /// log is damaged beyond what the copies repair.
    pub fn open(folder: Arc<dyn Folder>, access: Access) -> Result<Volume> {
        let superblock = read_superblock(&*folder)?;
        let core = Core::new(folder, &superblock);
        let (checkpoint, size, last_number) = newest_checkpoint(&core)?;
        let tables = Tables::of_checkpoint(&checkpoint, core.block_size).ok_or_else(|| {
            let [name, _] = names::checkpoint(checkpoint.number);
            Error::new(Kind::Corrupt, name, "the tables contradict each other")
        })?;
        let replay = Replay::read(&core, checkpoint.position)?;
        let mut replaying = Replaying { core: &core, tables };
        let end = replay.run(&mut replaying)?;
        let tables = replaying.tables;
        let is_read_only = access == Access::Read;
        if !is_read_only {
            sync_leftovers(&core, &end)?;
        }
        let log = LogWriter::new(end.next_seq, end.next_seq, end.previous, end.next_segment);
        Ok(Volume {
            core,
            is_read_only,
            state: RwLock::new(State {
                tables,
                log,
                failure: None,
                checkpoint_at: checkpoint_after(0, size),
            }),
            flushing: Mutex::new(()),
            checkpoints: Mutex::new(Checkpoints { last_number, size }),
        })
    }
}

/// Reads the superblock or its copy.
fn read_superblock(folder: &dyn Folder) -> Result<Superblock> {
    let mut first_error = None;
    for name in names::SUPERBLOCKS {
        match read_superblock_file(folder, name) {
            Ok(superblock) => return Ok(superblock),
            Err(error) => first_error = first_error.or(Some(error)),
        }
    }
    Err(first_error.expect("there are two names"))
}

/// Reads one of the two superblocks.
pub(super) fn read_superblock_file(folder: &dyn Folder, name: &str) -> Result<Superblock> {
    let size = folder.size(name).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Error::new(Kind::Missing, name, "does not exist"),
        _ => Error::io(name, "cannot be read", error),
    })?;
    let mut bytes = vec![0; usize::try_from(size).unwrap_or(usize::MAX).min(SUPERBLOCK_SIZE + 1)];
    folder
        .read_at(name, 0, &mut bytes)
        .map_err(|error| Error::io(name, "cannot be read", error))?;
    Superblock::decode(name, &bytes)
}

/// Returns the newest checkpoint that is whole, its size in bytes, and the highest number of any.
fn newest_checkpoint(core: &Core) -> Result<(Checkpoint, u64, u64)> {
    let listed = core.names()?;
    let numbers: BTreeSet<u64> =
        listed.iter().filter_map(|name| names::parse_checkpoint(name)).collect();
    let last_number = numbers.last().copied();
    for number in numbers.iter().rev() {
        for name in names::checkpoint(*number).iter().filter(|name| listed.contains(name)) {
            let found = read_checkpoint(core, name, *number)?;
            if let Some((checkpoint, size)) = found {
                return Ok((checkpoint, size, last_number.unwrap_or_default()));
            }
        }
    }
    match last_number {
        Some(number) => {
            let [name, copy] = names::checkpoint(number);
            Err(Error::new(Kind::Corrupt, name, format!("is damaged, and {copy} as well")))
        }
        None => Err(Error::new(Kind::Corrupt, "folder", "has no checkpoint")),
    }
}

/// Reads a checkpoint, and returns its size as well. Returns `None` if it is damaged or not whole.
pub(super) fn read_checkpoint(
    core: &Core,
    name: &str,
    number: u64,
) -> Result<Option<(Checkpoint, u64)>> {
    let failed = |error| Error::io(name, "cannot be read", error);
    let size = core.folder.size(name).map_err(failed)?;
    let Ok(len) = usize::try_from(size) else { return Ok(None) };
    let mut bytes = vec![0; len];
    core.folder.read_at(name, 0, &mut bytes).map_err(failed)?;
    let decoded = Checkpoint::decode(&bytes, &core.keys);
    let checkpoint = decoded.filter(|it| it.volume == core.id && it.number == number);
    Ok(checkpoint.map(|checkpoint| (checkpoint, size)))
}

/// Syncs the segments that were read, because the process that has appended to them may have ended
/// without a flush.
fn sync_leftovers(core: &Core, end: &Replayed) -> Result<()> {
    if !rules::must_sync_leftovers() {
        return Ok(());
    }
    for segment in &end.segments {
        core.sync(&names::segment(*segment))?;
    }
    core.sync_names()
}

/// The tables of a volume while the log is read.
struct Replaying<'a> {
    core: &'a Core,
    tables: Tables,
}

impl Target for Replaying<'_> {
    fn verify(&self, record: &Record, place: Place) -> bool {
        let stored = match record.body {
            Body::Full { fingerprint, .. } => {
                let form = Form::Full { is_indexed: false, keys: [None; 2], burst_count: 0 };
                Stored::new(place, fingerprint, form)
            }
            Body::Burst { fingerprint, reference, side, patch, .. } => {
                Stored::new(place, fingerprint, Form::Burst { reference, side, patch })
            }
            Body::Move { target } => match self.tables.stored.get(&target) {
                Some(stored) => Stored { place, ..stored.clone() },
                None => return true,
            },
            Body::Duplicate { .. } | Body::Zero(_) | Body::Settings(_) => return true,
        };
        let reference = match stored.form {
            Form::Burst { reference, .. } => self.tables.stored.get(&reference),
            Form::Full { .. } => None,
        };
        let mut block = vec![0; self.core.block_size];
        self.core.read(&stored, reference, &mut block).is_ok()
    }

    fn apply(&mut self, record: &Record, place: Place) {
        self.tables.apply(record, place);
    }

    fn lose(&mut self, span: Span) {
        self.tables.lose(span);
    }
}
