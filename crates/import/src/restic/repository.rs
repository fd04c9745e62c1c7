//! An open repository of restic.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use bytes::Bytes;
use cutpoint_backup::copy::ForeignSnapshot;
use cutpoint_backup::save::{ForeignFolder, ForeignRepository};
use cutpoint_repository::format::commit::OriginId;
use cutpoint_repository::{Content, Fingerprint};
use cutpoint_storage::{Error, Kind, ObjectRange, Result, Storage};
use serde::Deserialize;

use super::blob::{decompressed, file_text, is_named};
use super::cipher::Cipher;
use super::index::{BlobIndex, Place};
use super::json::{Id, decode};
use super::{key, node, snapshot};

/// The maximum number of bytes between two blobs of a pack that are read by one request.
const GAP_MAX: u64 = 64 << 10;
/// The maximum length of one request.
const REQUEST_LEN_MAX: u64 = 16 << 20;
/// The number of whole tree packs that are kept, if the storage is far.
const TREE_PACK_COUNT: usize = 8;
/// The maximum total length of these packs in bytes.
const TREE_PACKS_LEN_MAX: usize = 128 << 20;
/// The number of index objects that are read at a time.
const INDEX_BATCH: usize = 16;
/// The number of snapshot objects that are read at a time.
const SNAPSHOT_BATCH: usize = 64;
/// The number of times that the index is read if the other program removes parts of it meanwhile.
const INDEX_TRIES: usize = 3;

/// The options of opening a repository.
#[derive(Clone, Copy, Debug)]
pub struct ResticOptions {
    /// The number of threads that decode.
    pub threads: usize,
}

/// A repository of restic, opened for reading.
#[derive(Debug)]
pub struct Restic {
    storage: Arc<dyn Storage>,
    cipher: Cipher,
    id: OriginId,
    index: BlobIndex,
    options: ResticOptions,
    names: PackNames,
    /// The packs that were read as a whole last, newest last. `None` for one that is too long, or that
    /// could not be read.
    packs: Mutex<VecDeque<(u32, Option<Bytes>)>>,
}

#[derive(Deserialize)]
struct Config {
    version: u32,
    id: Id,
}

impl Restic {
    /// Returns `true` if the storage has the settings and the keys of a repository, which may be one
    /// of another program.
    ///
    /// # Errors
    ///
    /// Returns any error of the storage.
    pub fn is_there(storage: &dyn Storage) -> Result<bool> {
        match storage.get_at_most("config", CONFIG_LEN_MAX) {
            // A repository of Borg has settings of this name, but no such folder.
            Ok(_) => Ok(!storage.list("keys")?.is_empty()),
            Err(error) if error.is_loss() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Opens the repository on `storage` by a password, and reads its index. Returns `None` if the
    /// password is a wrong one.
    ///
    /// # Errors
    ///
    /// Returns `Missing` if there is no repository, `Unsupported` if its version is not known,
    /// `Corrupt` if its settings or index are damaged, and any error of the storage.
    pub fn open(
        storage: Arc<dyn Storage>,
        password: &[u8],
        options: ResticOptions,
    ) -> Result<Option<Restic>> {
        let config = storage.get_at_most("config", CONFIG_LEN_MAX)?;
        let Some(cipher) = cipher(&*storage, password)? else { return Ok(None) };
        let config = file_text(&cipher, &config).and_then(|text| decode::<Config>(&text));
        let config = config.map_err(|error| error.of("config"))?;
        if !(1..=2).contains(&config.version) {
            let message = format!("version {} (expected 1 or 2)", config.version);
            return Err(Error::new(Kind::Unsupported, "config", message));
        }
        let id = OriginId::new(&config.id.0).ok_or_else(|| Error::corrupt("config", "no id"))?;
        let index = read_index(&*storage, &cipher, options.threads)?;
        let (names, packs) = (PackNames::default(), Mutex::default());
        Ok(Some(Restic { storage, cipher, id, index, options, names, packs }))
    }

    /// Returns the identifier of the repository.
    pub fn id(&self) -> OriginId {
        self.id
    }

    /// Returns all snapshots, oldest first, and the names and errors of those that cannot be read.
    ///
    /// # Errors
    ///
    /// Returns any error of the storage.
    pub fn snapshots(&self) -> Result<(Vec<ForeignSnapshot>, Vec<Error>)> {
        let (mut snapshots, mut unreadable) = (Vec::new(), Vec::new());
        let named = named_objects(&*self.storage, "snapshots")?;
        for batch in named.chunks(SNAPSHOT_BATCH) {
            for ((id, name), sealed) in batch.iter().zip(get_all(&*self.storage, batch)) {
                let read = sealed.and_then(|sealed| {
                    require_name(id, &sealed)?;
                    snapshot::snapshot(self.id, *id, &file_text(&self.cipher, &sealed)?)
                });
                match read {
                    Ok(snapshot) => snapshots.push(snapshot),
                    // The other program has removed it meanwhile.
                    Err(error) if error.kind() == Kind::Missing => {}
                    Err(error) if is_of_object(&error) => unreadable.push(error.of(name)),
                    Err(error) => return Err(error),
                }
            }
        }
        snapshots.sort_by_key(|each| (each.snapshot.started_ns, each.key.snapshot));
        Ok((snapshots, unreadable))
    }

    /// Returns the blob `id` from one of its places. `sealed` returns the bytes at a place.
    fn blob(&self, id: &Id, sealed: impl Fn(&Place) -> Result<Bytes>) -> Result<Bytes> {
        let mut failure = None;
        for place in self.index.find(id) {
            match sealed(&place).and_then(|sealed| self.opened(id, &place, &sealed)) {
                Ok(blob) => return Ok(blob),
                // Another pack may have it, too.
                Err(error) if is_of_object(&error) => failure = failure.or(Some(error)),
                Err(error) => return Err(error),
            }
        }
        Err(match failure {
            Some(error) => Error::corrupt(format!("blob {id}"), format!("cannot be read: {error}")),
            None => Error::missing(format!("blob {id}"), "not in the index"),
        })
    }

    /// Opens the bytes at a place, and verifies that they are the blob `id`.
    fn opened(&self, id: &Id, place: &Place, sealed: &[u8]) -> Result<Bytes> {
        let mut blob = self.cipher.open(sealed)?;
        if place.is_compressed() {
            blob = decompressed(&blob, place.size())?;
        }
        match is_named(id, &blob) {
            true => Ok(blob.into()),
            false => Err(Error::corrupt("", "the bytes are not those of the identifier")),
        }
    }

    /// Returns the sealed bytes at a place.
    fn sealed(&self, place: &Place) -> Result<Bytes> {
        let pack = self.pack(place)?;
        let (offset, len) = (u64::from(place.offset), len(u64::from(place.len)));
        self.names.read(&pack, |name| self.storage.get_range(name, offset, len))
    }

    /// Returns the sealed bytes at a place of a tree pack, which is read as a whole if the storage
    /// is far, because the trees of a snapshot lie together.
    fn sealed_tree(&self, place: &Place) -> Result<Bytes> {
        if self.storage.requests_ahead_max() == 0 {
            return self.sealed(place);
        }
        let lock = || self.packs.lock().unwrap_or_else(PoisonError::into_inner);
        let known = lock().iter().find(|(pack, _)| *pack == place.pack).map(|it| it.1.clone());
        let bytes = match known {
            Some(bytes) => bytes,
            None => {
                let pack = self.pack(place)?;
                let read = |name: &str| self.storage.get_at_most(name, TREE_PACK_LEN_MAX);
                let bytes = self.names.read(&pack, read).ok();
                let mut packs = lock();
                packs.push_back((place.pack, bytes.clone()));
                let len = |packs: &VecDeque<(u32, Option<Bytes>)>| -> usize {
                    packs.iter().filter_map(|(_, bytes)| Some(bytes.as_ref()?.len())).sum()
                };
                while packs.len() > TREE_PACK_COUNT || len(&packs) > TREE_PACKS_LEN_MAX {
                    packs.pop_front();
                }
                bytes
            }
        };
        let Some(bytes) = bytes else { return self.sealed(place) };
        let range = len(u64::from(place.offset))..len(place.end());
        match bytes.len() >= range.end {
            true => Ok(bytes.slice(range)),
            false => Err(Error::corrupt("", "the pack is too short")),
        }
    }

    fn pack(&self, place: &Place) -> Result<Id> {
        let pack = self.index.pack(place.pack);
        pack.ok_or_else(|| Error::corrupt("index", "names a pack that it does not have"))
    }

    /// Reads the first places of blobs, neighbours by one request. `None` for a blob that the index
    /// lacks, or that cannot be read in this way.
    fn sealed_many(&self, ids: &[Fingerprint]) -> Vec<Option<(Place, Bytes)>> {
        let places: Vec<Option<Place>> =
            ids.iter().map(|id| self.index.find(&Id(id.0)).next()).collect();
        let runs = runs(&places);
        let ranges: Vec<_> = runs.iter().filter_map(|run| self.range(run)).collect();
        let mut read =
            if ranges.len() == runs.len() { self.storage.get_ranges(&ranges) } else { Vec::new() };
        read.resize_with(runs.len(), || Err(Error::missing("pack", "not read")));
        let mut found: Vec<Option<(Place, Bytes)>> = vec![None; ids.len()];
        for (run, bytes) in runs.iter().zip(read) {
            let Ok(bytes) = bytes else { continue };
            for (at, place) in &run.places {
                let start = len(u64::from(place.offset) - run.start);
                let end = len(place.end() - run.start);
                if bytes.len() >= end {
                    found[*at] = Some((*place, bytes.slice(start..end)));
                }
            }
        }
        found
    }

    fn range(&self, run: &Run) -> Option<ObjectRange> {
        let name = self.names.likely(&self.index.pack(run.pack)?);
        Some(ObjectRange { name, offset: run.start, len: len(run.end - run.start) })
    }
}

/// The names of packs: in folders below `data`, or in `data` itself on servers of the REST protocol and
/// in old repositories on S3.
#[derive(Debug, Default)]
struct PackNames {
    is_flat: AtomicBool,
}

impl PackNames {
    fn name(pack: &Id, is_flat: bool) -> String {
        match is_flat {
            true => format!("data/{pack}"),
            false => format!("data/{:02x}/{pack}", pack.0[0]),
        }
    }

    /// Returns the name that a pack has if it is like the last one.
    fn likely(&self, pack: &Id) -> String {
        PackNames::name(pack, self.is_flat.load(Ordering::Relaxed))
    }

    /// Calls `read` with the name of a pack; again with its other name if there is none of that. Other
    /// threads may find out meanwhile which form is the right one.
    fn read<T>(&self, pack: &Id, read: impl Fn(&str) -> Result<T>) -> Result<T> {
        let was_flat = self.is_flat.load(Ordering::Relaxed);
        let found = read(&PackNames::name(pack, was_flat));
        match &found {
            Err(error) if error.kind() == Kind::Missing => {}
            _ => return found,
        }
        match read(&PackNames::name(pack, !was_flat)) {
            Err(error) if error.kind() == Kind::Missing => found,
            other => {
                if other.is_ok() {
                    self.is_flat.store(!was_flat, Ordering::Relaxed);
                }
                other
            }
        }
    }
}

impl ForeignRepository for Restic {
    fn tree(&self, folder: &Content) -> Result<ForeignFolder> {
        let Content::Recipe(id) = folder else { return Ok(ForeignFolder::default()) };
        let id = Id(id.0);
        let text = self.blob(&id, |place| self.sealed_tree(place))?;
        let size_of = |id: &Id| self.index.find(id).next().map(|place| place.size());
        let entries = node::entries(&text, size_of);
        let entries = entries.map_err(|error| error.of(format!("tree {id}")))?;
        Ok(ForeignFolder { entries, warnings: Vec::new() })
    }

    fn chunks(&self, ids: &[Fingerprint]) -> Vec<Result<Bytes>> {
        let sealed = self.sealed_many(ids);
        let opened = |(id, sealed): (&Fingerprint, Option<(Place, Bytes)>)| {
            let id = Id(id.0);
            match sealed.map(|(place, sealed)| self.opened(&id, &place, &sealed)) {
                Some(Ok(blob)) => Ok(blob),
                _ => self.blob(&id, |place| self.sealed(place)),
            }
        };
        ids.iter().zip(sealed).map(opened).collect()
    }

    fn fetcher_count(&self) -> usize {
        self.options.threads.max(self.storage.requests_ahead_max()).max(1)
    }
}

/// Blobs of a pack that are read by one request.
struct Run {
    pack: u32,
    start: u64,
    end: u64,
    /// The places, with their positions in the list of all.
    places: Vec<(usize, Place)>,
}

/// Groups places that lie next to each other.
fn runs(places: &[Option<Place>]) -> Vec<Run> {
    let mut sorted: Vec<(usize, Place)> =
        places.iter().enumerate().filter_map(|(at, place)| Some((at, (*place)?))).collect();
    sorted.sort_by_key(|(_, place)| (place.pack, place.offset));
    let mut runs: Vec<Run> = Vec::new();
    for (at, place) in sorted {
        let (start, end) = (u64::from(place.offset), place.end());
        match runs.last_mut() {
            Some(run)
                if run.pack == place.pack
                    && start <= run.end + GAP_MAX
                    && end.saturating_sub(run.start) <= REQUEST_LEN_MAX =>
            {
                run.end = run.end.max(end);
                run.places.push((at, place));
            }
            _ => runs.push(Run { pack: place.pack, start, end, places: vec![(at, place)] }),
        }
    }
    runs
}

/// The maximum lengths of objects in bytes.
const CONFIG_LEN_MAX: u64 = 64 << 10;
const KEY_LEN_MAX: u64 = 16 << 10;
const FILE_LEN_MAX: u64 = 128 << 20;
const TREE_PACK_LEN_MAX: u64 = 64 << 20;

/// The maximum number of key objects that are tried.
const KEY_COUNT_MAX: usize = 20;

/// Returns the cipher that a password opens; `None` if it opens no key.
fn cipher(storage: &dyn Storage, password: &[u8]) -> Result<Option<Cipher>> {
    let mut failure = None;
    for (name, _) in storage.list("keys")?.into_iter().take(KEY_COUNT_MAX) {
        let opened = storage.get_at_most(&name, KEY_LEN_MAX);
        match opened.and_then(|text| key::open(&text, password)) {
            Ok(Some(cipher)) => return Ok(Some(cipher)),
            Ok(None) => {}
            Err(error) => failure = Some(error.of(&name)),
        }
    }
    failure.map_or(Ok(None), Err)
}

/// Returns the identifiers and the names of the objects in a folder.
fn named_objects(storage: &dyn Storage, folder: &str) -> Result<Vec<(Id, String)>> {
    let listed = storage.list(folder)?.into_iter();
    let named = listed.filter_map(|(name, _)| {
        let id = name.strip_prefix(folder)?.strip_prefix('/').and_then(Id::parse)?;
        Some((id, name))
    });
    Ok(named.collect())
}

/// Reads objects at once.
fn get_all(storage: &dyn Storage, named: &[(Id, String)]) -> Vec<Result<Bytes>> {
    let wanted: Vec<_> = named.iter().map(|(_, name)| (name.clone(), FILE_LEN_MAX)).collect();
    storage.get_many(&wanted)
}

/// Reads the index; anew if a prune of the other program has replaced objects of it meanwhile.
fn read_index(storage: &dyn Storage, cipher: &Cipher, threads: usize) -> Result<BlobIndex> {
    let mut tries = 0;
    loop {
        tries += 1;
        match read_index_once(storage, cipher, threads) {
            Err(error) if error.kind() == Kind::Missing && tries < INDEX_TRIES => {}
            Err(error) if error.kind() == Kind::Corrupt => {
                let remedy = "`restic repair index` makes the index anew from the packs";
                return Err(error.with_remedy(remedy));
            }
            read => return read,
        }
    }
}

/// Reads all index objects, in several threads.
fn read_index_once(storage: &dyn Storage, cipher: &Cipher, threads: usize) -> Result<BlobIndex> {
    let names = named_objects(storage, "index")?;
    let index = Mutex::new(BlobIndex::default());
    let batches = Mutex::new(names.chunks(INDEX_BATCH));
    let read = || -> Result<()> {
        loop {
            let next = batches.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some(batch) = next else { return Ok(()) };
            for ((id, name), sealed) in batch.iter().zip(get_all(storage, batch)) {
                let sealed = sealed?;
                let text = require_name(id, &sealed).and_then(|()| file_text(cipher, &sealed));
                let text = text.map_err(|error| error.of(name))?;
                let mut index = index.lock().unwrap_or_else(PoisonError::into_inner);
                index.add(&text).map_err(|error| error.of(name))?;
            }
        }
    };
    let results: Vec<Result<()>> = thread::scope(|scope| {
        let threads: Vec<_> = (0..threads.max(1)).map(|_| scope.spawn(read)).collect();
        let join = |thread: thread::ScopedJoinHandle<'_, Result<()>>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        threads.into_iter().map(join).collect()
    });
    results.into_iter().collect::<Result<()>>()?;
    let mut index = index.into_inner().unwrap_or_else(PoisonError::into_inner);
    index.finish();
    Ok(index)
}

/// Verifies that an object has the bytes of its name.
fn require_name(id: &Id, bytes: &[u8]) -> Result<()> {
    match is_named(id, bytes) {
        true => Ok(()),
        false => Err(Error::corrupt("", "damaged: the name is not the SHA-256 of the bytes")),
    }
}

/// Returns `true` if an error concerns one object, and not the storage.
fn is_of_object(error: &Error) -> bool {
    error.is_loss()
}

fn len(len: u64) -> usize {
    usize::try_from(len).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use cutpoint_storage::{Layer, Memory};

    use super::*;

    #[test]
    fn pack_is_found_if_another_thread_learns_the_form_of_names() {
        let pack = Id([7; 32]);
        let names = PackNames::default();
        let flat = PackNames::name(&pack, true);
        let read = |name: &str| {
            // Another thread has found its pack meanwhile.
            names.is_flat.store(true, Ordering::Relaxed);
            if name == flat { Ok(7) } else { Err(Error::missing(name, "not found")) }
        };
        assert_eq!(names.read(&pack, read).expect("it is there"), 7);
        assert_eq!(names.likely(&pack), flat);
        let absent = names.read(&pack, |name| Err::<(), _>(Error::missing(name, "not found")));
        assert_eq!(absent.expect_err("no pack").object(), flat, "the likely name");
        let down = |name: &str| match name == flat {
            true => Err::<(), _>(Error::missing(name, "not found")),
            false => Err(Error::new(Kind::Storage, name, "no route")),
        };
        assert_eq!(names.read(&pack, down).expect_err("no answer").kind(), Kind::Storage);
    }

    /// A storage whose first listing has an object that a prune has removed since.
    #[derive(Debug, Default)]
    struct Pruned(Memory, AtomicUsize);

    impl Layer for Pruned {
        fn below(&self) -> &dyn Storage {
            &self.0
        }

        fn list(&self, prefix: &str) -> Result<Vec<(String, u64)>> {
            let mut listed = self.0.list(prefix)?;
            if self.1.fetch_add(1, Ordering::Relaxed) == 0 {
                listed.push((format!("{prefix}/{}", Id([9; 32])), 100));
            }
            Ok(listed)
        }
    }

    #[test]
    fn index_is_read_again_if_a_prune_replaces_it() {
        let cipher = Cipher::of_key(&[1; 64]).expect("64 bytes");
        let storage = Pruned::default();
        read_index(&storage, &cipher, 2).expect("the second listing is complete");
        assert_eq!(storage.1.load(Ordering::Relaxed), 2, "listings");
        let storage = Memory::default();
        let name = format!("index/{}", Id([9; 32]));
        storage.put_new(&name, Bytes::from_static(b"damaged")).expect("a put");
        let error = read_index(&storage, &cipher, 1).expect_err("damaged");
        assert!(error.remedy().is_some_and(|it| it.contains("repair index")), "{error}");
    }
}
