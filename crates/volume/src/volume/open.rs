//! Opens a volume: the newest checkpoint, and the log behind it.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::thread;

use super::checkpoint::{Checkpointer, Checkpoints, Needed};
use super::read::references;
use super::{Space, State, Volume};
use crate::codec::compress::Compressor;
use crate::codec::delta::Encoder;
use crate::core::{Core, damaged};
use crate::error::{Error, Kind, Result};
use crate::folder::{Access, Folder};
use crate::format::change::Change;
use crate::format::checkpoint::Checkpoint;
use crate::format::names;
use crate::format::position::Place;
use crate::format::record::{Body, Record, UNIT};
use crate::format::span::Span;
use crate::format::superblock::{SUPERBLOCK_SIZE, Superblock};
use crate::key_slots::{KeySlot, KeySlots, Secret};
use crate::log::{LogWriter, Mark, Replay, Replayed, Target};
use crate::rules;
use crate::tables::{Form, Known, Stored, Tables};

/// The way in which a volume is opened.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// Reading, or reading and writing.
    pub access: Access,
    /// The memory for changes and pages of the tables in bytes. Fences and filters come to it: up to 4
    /// bytes for each stored block.
    pub memory: u64,
    /// The maximum number of bytes of all files; later writes fail as on a full disk. `None` for any.
    pub limit: Option<u64>,
    /// The number of bytes of the storage that writes leave free, so that a full volume can be trimmed
    /// and cleaned.
    pub reserve: u64,
    /// The secret of an encrypted volume, as [`Volume::unlock`] returns it.
    pub secret: Option<Secret>,
}

impl OpenOptions {
    /// The default of `memory` in bytes.
    pub const MEMORY_DEFAULT: u64 = 256 * 1024 * 1024;
    /// The default of `reserve` in bytes.
    pub const RESERVE_DEFAULT: u64 = 128 * 1024 * 1024;

    /// Returns the defaults.
    #[must_use]
    pub fn new(access: Access) -> OpenOptions {
        OpenOptions {
            access,
            memory: OpenOptions::MEMORY_DEFAULT,
            limit: None,
            reserve: OpenOptions::RESERVE_DEFAULT,
            secret: None,
        }
    }
}

impl Volume {
    /// Opens the volume in a folder, and makes durable what an earlier process has left.
    ///
    /// # Errors
    ///
    /// Fails with [`Kind::Missing`] if there is no volume, with [`Kind::Locked`] if it is encrypted and
    /// no secret is given, with [`Kind::Unsupported`] if a newer
    /// version has written it, and with [`Kind::Corrupt`] if its superblock, its checkpoint, a run or
    /// its log is damaged beyond what copies and parity repair.
    pub fn open(folder: Arc<dyn Folder>, options: &OpenOptions) -> Result<Volume> {
        let superblock = read_superblock(&*folder)?;
        let secret = match (superblock.suite.is_encrypted(), &options.secret) {
            (false, None) => Secret::new(superblock.secret),
            (true, Some(secret)) => secret.clone(),
            (true, None) => {
                return Err(Error::new(Kind::Locked, "volume", "is encrypted"));
            }
            // Somebody may have put it in the place of an encrypted one.
            (false, Some(_)) => {
                return Err(Error::new(Kind::Corrupt, "volume", "is not encrypted"));
            }
        };
        let core = Core::new(folder, &superblock, secret.bytes(), options.memory / 4);
        let core = Arc::new(core);
        let listed = core.names()?;
        let (checkpoint, last_number) = newest_checkpoint(&core, &listed)?;
        let tables = Tables::of_checkpoint(&core, &checkpoint)?;
        let replay = Replay::read(&core, checkpoint.position)?;
        let mut replaying = Replaying { core: &core, tables: tables.clone(), last_change: None };
        let end = apply_all(&replay, &tables, &mut replaying)?;
        let tables = replaying.tables;
        let is_read_only = options.access == Access::Read;
        if !is_read_only {
            sync_leftovers(&core, &end)?;
        }
        let log = LogWriter::continued(&end);
        let needed = Needed::of(&checkpoint);
        let segments = listed.iter().filter_map(|name| names::parse_segment(name));
        let dead_at_open = segments.filter(|segment| needed.is_dead(*segment)).collect();
        // The file of a part that was never published may be there.
        let parts = listed.iter().filter_map(|name| names::parse_part(name));
        let last_part = parts.max().unwrap_or_default().max(checkpoint.last_part);
        let used = listed.iter().filter_map(|name| core.folder.size(name).ok()).sum();
        core.used_bytes.store(used, Ordering::Relaxed);
        Ok(Volume {
            is_read_only,
            changes_max: options.memory / 4,
            state: RwLock::new(State {
                tables,
                log,
                partial: None,
                is_batch: false,
                failure: None,
                checkpoint_at: Mark { bytes: 0, seq: checkpoint.position.seq },
                compressor: Compressor::new(),
            }),
            space: Space::new(options.limit, options.reserve),
            flushing: Mutex::new(()),
            checkpoints: Mutex::new(Checkpoints {
                last: checkpoint,
                last_number,
                last_part,
                unfinished: BTreeSet::new(),
                dead_at_open,
            }),
            checkpointer: Checkpointer::default(),
            merging: Mutex::new(()),
            cleaning: Mutex::new(()),
            cleaned_at: AtomicU64::new(0),
            is_settled: AtomicBool::new(false),
            encoder: Mutex::new(Encoder::new()),
            core,
        })
    }
}

impl Volume {
    /// Returns the secret of an encrypted volume that a passphrase opens, or `None` if the volume is not
    /// encrypted.
    ///
    /// # Errors
    ///
    /// Fails with [`Kind::Locked`] if the passphrase is wrong, and if there is no volume or its keys are
    /// damaged.
    pub fn unlock(folder: &Arc<dyn Folder>, passphrase: &[u8]) -> Result<Option<Secret>> {
        let superblock = read_superblock(&**folder)?;
        if !superblock.suite.is_encrypted() {
            return Ok(None);
        }
        KeySlots::new(folder, superblock.id).unlock(passphrase).map(|(secret, _)| Some(secret))
    }

    /// Returns `true` if the volume in a folder is encrypted.
    ///
    /// # Errors
    ///
    /// Fails if there is no volume or its superblock is damaged.
    pub fn is_encrypted(folder: &dyn Folder) -> Result<bool> {
        read_superblock(folder).map(|superblock| superblock.suite.is_encrypted())
    }

    /// Returns the passphrases of an encrypted volume, without these themselves.
    ///
    /// # Errors
    ///
    /// Fails if there is no volume.
    pub fn keys(folder: &Arc<dyn Folder>) -> Result<Vec<KeySlot>> {
        KeySlots::new(folder, read_superblock(&**folder)?.id).list()
    }

    /// Adds a passphrase to an encrypted volume, and returns its number.
    ///
    /// # Errors
    ///
    /// Fails with [`Kind::Invalid`] if the note is too long, and if the folder cannot be written.
    pub fn add_key(
        folder: &Arc<dyn Folder>,
        secret: &Secret,
        passphrase: &[u8],
        note: &str,
    ) -> Result<u64> {
        let superblock = read_superblock(&**folder)?;
        KeySlots::new(folder, superblock.id).add(secret, passphrase, note)
    }

    /// Removes a passphrase from an encrypted volume. Whoever knows the secret by it can still read what
    /// was copied.
    ///
    /// # Errors
    ///
    /// Fails with [`Kind::Missing`] if there is no such key, with [`Kind::Invalid`] if it is the last
    /// one, and if the folder cannot be written.
    pub fn remove_key(folder: &Arc<dyn Folder>, number: u64) -> Result<()> {
        KeySlots::new(folder, read_superblock(&**folder)?.id).remove(number)
    }
}

/// The maximum number of threads that look up pages at once. Each waits for one page at a time.
const PREFETCHERS_MAX: usize = 16;
/// The minimum number of records for each thread.
const RECORDS_PER_PREFETCHER: usize = 64;

/// Applies the records of a replay, while other threads look up in `tables` what they will need: a record
/// needs a few pages, each of which would be waited for.
fn apply_all(replay: &Replay, tables: &Tables, target: &mut Replaying<'_>) -> Result<Replayed> {
    let records: Vec<&Record> = replay.records().collect();
    let next = AtomicUsize::new(0);
    let prefetch = || {
        while let Some(record) = records.get(next.fetch_add(1, Ordering::Relaxed)) {
            // The replay meets the error, if the record counts.
            tables.prefetch(&record.body).ok();
        }
    };
    thread::scope(|scope| {
        for _ in 0..PREFETCHERS_MAX.min(records.len() / RECORDS_PER_PREFETCHER) {
            // Without the thread, the replay takes longer.
            thread::Builder::new().spawn_scoped(scope, prefetch).ok();
        }
        let end = replay.run(target);
        next.store(records.len(), Ordering::Relaxed);
        end
    })
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

/// Returns the newest checkpoint that is whole, and the highest number of any.
fn newest_checkpoint(core: &Core, listed: &[String]) -> Result<(Checkpoint, u64)> {
    let numbers: BTreeSet<u64> =
        listed.iter().filter_map(|name| names::parse_checkpoint(name)).collect();
    let last_number = numbers.last().copied();
    for number in numbers.iter().rev() {
        for name in names::checkpoint(*number).iter().filter(|name| listed.contains(name)) {
            if let Some(checkpoint) = read_checkpoint(core, name, *number)? {
                return Ok((checkpoint, last_number.unwrap_or_default()));
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

/// Reads a checkpoint. Returns `None` if it is damaged or not whole.
pub(super) fn read_checkpoint(core: &Core, name: &str, number: u64) -> Result<Option<Checkpoint>> {
    let failed = |error| Error::io(name, "cannot be read", error);
    let size = core.folder.size(name).map_err(failed)?;
    let Ok(len) = usize::try_from(size) else { return Ok(None) };
    let mut bytes = vec![0; len];
    core.folder.read_at(name, 0, &mut bytes).map_err(failed)?;
    let decoded = Checkpoint::decode(&bytes, &core.keys);
    Ok(decoded.filter(|it| it.volume == core.id && it.number == number))
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

/// The form of a full block, for reading it.
const WHOLE: Form =
    Form::Full { is_indexed: false, keys: [None; 2], features: None, dependent_count: 0 };

/// The tables of a volume while the log is read.
struct Replaying<'a> {
    core: &'a Arc<Core>,
    tables: Tables,
    /// The hash of the last change of the catalog that was applied.
    last_change: Option<crate::keys::Fingerprint>,
}

impl Replaying<'_> {
    /// Returns the stored block that a record writes or moves, if it has one.
    fn stored_of(&self, record: &Record, place: Place) -> Result<Option<Stored>> {
        let (fingerprint, form) = match record.body {
            Body::Full { fingerprint, .. } => (fingerprint, WHOLE),
            Body::Burst { fingerprint, reference, side, patch, .. } => {
                (fingerprint, Form::Burst { reference, side, patch })
            }
            Body::Delta { fingerprint, bases, .. } => (fingerprint, Form::Delta { bases }),
            Body::Rewrite { target, burst } => match (self.tables.stored(target)?, burst) {
                (Some(stored), Some((reference, patch))) => (
                    stored.fingerprint,
                    Form::Burst { reference, side: cutpoint_delta::burst::Side::Head, patch },
                ),
                (Some(stored), None) => (stored.fingerprint, WHOLE),
                (None, _) => return Ok(None),
            },
            Body::Move { target } => match self.tables.stored(target)? {
                Some(stored) => (stored.fingerprint, stored.form),
                None => return Ok(None),
            },
            Body::Duplicate { .. }
            | Body::Zero(_)
            | Body::Change { .. }
            | Body::Fold { .. }
            | Body::Summary { .. } => return Ok(None),
        };
        Ok(Some(Stored {
            place,
            has_long_header: record.body.header_len() > UNIT,
            encoding: record.encoding,
            payload_len: record.payload_len,
            fingerprint,
            use_count: 1,
            form,
        }))
    }

    fn is_whole(&self, record: &Record, place: Place) -> Result<bool> {
        if let Body::Change { hash, .. } = record.body {
            let content = self.core.read_change(record, place);
            return Ok(content.is_ok_and(|content| self.core.keys.fingerprint(&content) == hash));
        }
        let Some(stored) = self.stored_of(record, place)? else { return Ok(true) };
        let references = references(&self.tables, &stored)?;
        let mut block = vec![0; self.core.shape.block_size];
        Ok(self.core.read(&stored, &references, &mut block).is_ok())
    }
}

impl Target for Replaying<'_> {
    fn verify(&self, record: &Record, place: Place) -> bool {
        self.is_whole(record, place).unwrap_or(false)
    }

    fn apply(&mut self, record: &Record, place: Place) -> Result<()> {
        let Body::Change { hash, is_copy } = record.body else {
            return self.tables.apply(record, place, &Known::default());
        };
        if is_copy && self.last_change == Some(hash) {
            return Ok(());
        }
        let content = self.core.read_change(record, place);
        let content = content.ok().filter(|content| self.core.keys.fingerprint(content) == hash);
        let Some(changes) = content.and_then(|content| Change::decode_all(&content)) else {
            // The copy follows, or it was the copy.
            let problem = "a change of the catalog is damaged, and so is its copy";
            return if is_copy { Err(damaged(place, problem)) } else { Ok(()) };
        };
        self.last_change = Some(hash);
        let known = Known { changes: &changes, ..Known::default() };
        self.tables.apply(record, place, &known)
    }

    fn lose(&mut self, span: Span) -> Result<()> {
        self.tables.lose(span)
    }
}

#[cfg(test)]
mod tests {
    use cutpoint_testing::SplitMix64;

    use super::*;
    use crate::folder::{FaultyFolder, Survival};
    use crate::volume::{CreateOptions, DISK_NAME_DEFAULT, Disk};

    const BLOCK_SIZE: usize = 4096;
    const BLOCK_COUNT: u64 = 4096;

    /// Returns blocks of which every other one resembles the one before.
    fn contents(numbers: &mut SplitMix64, count: u64) -> Vec<u8> {
        let mut bytes = numbers.take(usize::try_from(count).expect("few") * BLOCK_SIZE);
        for pair in bytes.chunks_exact_mut(2 * BLOCK_SIZE) {
            let (one, other) = pair.split_at_mut(BLOCK_SIZE);
            other[..3072].copy_from_slice(&one[..3072]);
        }
        bytes
    }

    /// Returns a folder whose log has records of all kinds of writes behind the checkpoint.
    fn written(mode: &str) -> FaultyFolder {
        let folder = FaultyFolder::default();
        let shared: Arc<dyn Folder> = Arc::new(folder.clone());
        let size = BLOCK_COUNT * BLOCK_SIZE as u64;
        let mode = mode.parse().expect("a mode");
        let options = CreateOptions::new(size, 4096, mode);
        Volume::create(&shared, &options).expect("created");
        let volume = Volume::open(shared, &OpenOptions::new(Access::Write)).expect("opened");
        let disk = Disk::open(&Arc::new(volume), DISK_NAME_DEFAULT).expect("a disk");
        let mut numbers = SplitMix64::new(1);
        disk.write(0, &contents(&mut numbers, BLOCK_COUNT)).expect("written");
        disk.volume().checkpoint().expect("written");
        for _ in 0..100 {
            let mut offset = || numbers.next() % BLOCK_COUNT * BLOCK_SIZE as u64;
            let (new, from, to, trimmed) = (offset(), offset(), offset(), offset());
            disk.write(new.min(size - 8192), &contents(&mut numbers, 2)).expect("written");
            let mut block = vec![0; BLOCK_SIZE];
            disk.read(from, &mut block).expect("read");
            disk.write(to, &block).expect("written");
            disk.trim(trimmed, BLOCK_SIZE as u64).expect("trimmed");
        }
        disk.volume().flush().expect("flushed");
        folder.after_power_cut(Survival::Synced)
    }

    /// Returns the number of reads while records are applied, after `prepare`.
    fn read_count_of_apply(folder: &FaultyFolder, prepare: fn(&Tables, &Record)) -> u64 {
        let folder = folder.after_power_cut(Survival::Synced);
        let shared: Arc<dyn Folder> = Arc::new(folder.clone());
        let superblock = read_superblock(&*shared).expect("read");
        let core = Arc::new(Core::new(shared, &superblock, &superblock.secret, 64 << 20));
        let listed = core.names().expect("listed");
        let (checkpoint, _) = newest_checkpoint(&core, &listed).expect("read");
        let replay = Replay::read(&core, checkpoint.position).expect("read");
        let mut tables = Tables::of_checkpoint(&core, &checkpoint).expect("read");
        assert!(replay.records().count() > 300, "the log has the records");
        replay.records().for_each(|record| prepare(&tables, record));
        let before = folder.read_count();
        for record in replay.records() {
            let place = Place { segment: 1, offset: 4096 };
            tables.apply(record, place, &Known::default()).expect("applied");
        }
        folder.read_count() - before
    }

    #[test]
    fn prefetched_records_are_applied_without_reads() {
        for mode in ["off", "exact", "burst", "delta"] {
            let folder = written(mode);
            let alone = read_count_of_apply(&folder, |_, _| {});
            let prefetched = read_count_of_apply(&folder, |tables, record| {
                tables.prefetch(&record.body).expect("read");
            });
            assert!(alone > 20, "{mode}: {alone} reads");
            assert_eq!(prefetched, 0, "{mode}: of {alone} reads");
        }
    }
}
