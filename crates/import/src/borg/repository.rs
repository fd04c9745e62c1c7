//! An open repository of Borg.

use std::collections::{HashMap, VecDeque};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use cutpoint_backup::copy::ForeignSnapshot;
use cutpoint_backup::save::{ForeignFolder, ForeignRepository};
use cutpoint_repository::format::commit::OriginId;
use cutpoint_repository::{Content, Fingerprint};
use cutpoint_storage::{Error, Kind, Result};
use rmpv::Value;

use super::archive::{Archive, archive, listed};
use super::client::Client;
use super::key::{Opener, Protection};
use super::message::{decode, decode_first, malformed};
use super::tree::{ArchiveTree, TreeBuilder};

/// The identifier of the manifest.
const MANIFEST: [u8; 32] = [0; 32];
/// The number of archives whose trees are kept.
const TREE_COUNT: usize = 3;
/// The number of objects with items that are requested at a time.
const ITEM_BATCH: usize = 16;
/// The maximum length of an item.
const ITEM_LEN_MAX: usize = 256 << 20;

/// The options of opening a repository.
#[derive(Clone, Debug)]
pub struct BorgOptions {
    /// The command that runs Borg, without `serve`.
    pub command: Vec<OsString>,
    /// Set if the command runs Borg on another machine, and may ask for a secret at the terminal.
    pub is_remote: bool,
    /// The number of threads that decode.
    pub threads: usize,
    /// The folder for an unnamed temporary file with the items of an archive; that of the system if
    /// `None`.
    pub temporary: Option<PathBuf>,
}

/// A running `borg serve` with a repository that is not unlocked yet.
#[derive(Debug)]
pub struct BorgPlace {
    client: Client,
    id: OriginId,
    manifest: Bytes,
    protection: Protection,
    options: BorgOptions,
}

impl BorgPlace {
    /// Starts Borg and opens the repository at `path`, as that program takes it.
    ///
    /// # Errors
    ///
    /// Returns `Missing` if there is none, `Unsupported` if it is not one of Borg 1, and `Storage`
    /// if Borg cannot be started or fails.
    pub fn open(path: &[u8], options: BorgOptions) -> Result<BorgPlace> {
        let mut command = options.command.clone();
        command.push(OsString::from_vec(b"serve".to_vec()));
        let mut client = Client::start(&command, options.is_remote)?;
        let id = client.open(path)?;
        let id = OriginId::new(&id).ok_or_else(|| malformed("the repository has no identifier"))?;
        let manifest = one(&mut client, MANIFEST)?;
        let protection = Protection::of_manifest(&manifest)?;
        Ok(BorgPlace { client, id, manifest, protection, options })
    }

    /// Returns the identifier of the repository.
    pub fn id(&self) -> OriginId {
        self.id
    }

    /// Returns `true` if a passphrase protects the key.
    pub fn has_passphrase(&self) -> bool {
        self.protection.has_key()
    }

    /// Returns `true` if the key is in a file of the user and not in the repository.
    pub fn needs_key_file(&self) -> bool {
        self.protection.has_key() && !self.protection.key_is_inside
    }

    /// Unlocks the repository by a passphrase. `key_file` is the content of the key file, if
    /// the repository needs one. Returns `Err` with this place if the passphrase is a wrong one.
    ///
    /// # Errors
    ///
    /// The outer error is `Corrupt` if key or manifest are damaged, and any error of Borg.
    pub fn unlock(
        mut self,
        passphrase: &[u8],
        key_file: Option<&[u8]>,
    ) -> Result<std::result::Result<Borg, BorgPlace>> {
        let opener = if self.has_passphrase() {
            let key = match key_file {
                // The first line names the repository.
                Some(file) => {
                    file.split_inclusive(|byte| *byte == b'\n').skip(1).collect::<Vec<_>>().concat()
                }
                None => self.client.key()?,
            };
            let opener = Opener::of_key(self.protection, &key, passphrase);
            let Some(opener) = opener.map_err(|error| error.of("key"))? else {
                return Ok(Err(self));
            };
            opener
        } else {
            Opener::without_key(self.protection)
        };
        let of_manifest = |error: Error| error.of("manifest");
        let packed = opener.open(None, &self.manifest).map_err(of_manifest)?;
        let manifest = decode(&packed).map_err(of_manifest)?;
        opener.verify_manifest(&packed, &manifest)?;
        let mut borg = Borg {
            client: Mutex::new(self.client),
            opener,
            archives: Vec::new(),
            unreadable: Vec::new(),
            numbers: HashMap::new(),
            trees: Mutex::default(),
            options: self.options,
        };
        borg.read_archives(self.id, &manifest)?;
        Ok(Ok(borg))
    }
}

/// Returns one object.
fn one(client: &mut Client, id: [u8; 32]) -> Result<Bytes> {
    let mut objects = client.objects(&[id])?;
    objects.pop().unwrap_or_else(|| Err(malformed("no answer")))
}

/// A repository of Borg, opened for reading.
#[derive(Debug)]
pub struct Borg {
    client: Mutex<Client>,
    opener: Opener,
    /// The archives, oldest first.
    archives: Vec<Archive>,
    /// The errors of archives that cannot be read.
    unreadable: Vec<Error>,
    /// The positions of archives in the list, by their identifiers.
    numbers: HashMap<[u8; 32], u32>,
    /// The trees that were used last, newest last, by the numbers of the archives.
    trees: Mutex<VecDeque<(u32, Arc<ArchiveTree>)>>,
    options: BorgOptions,
}

impl Borg {
    /// Returns all archives, oldest first.
    pub fn snapshots(&self) -> Vec<ForeignSnapshot> {
        self.archives.iter().map(|archive| archive.snapshot.clone()).collect()
    }

    /// Returns the errors of archives that cannot be read.
    pub fn unreadable(&self) -> &[Error] {
        &self.unreadable
    }

    fn read_archives(&mut self, repository: OriginId, manifest: &Value) -> Result<()> {
        let listed = listed(manifest).map_err(|error| error.of("manifest"))?;
        for listed in listed.chunks(ITEM_BATCH).map(<[_]>::to_vec) {
            let ids: Vec<_> = listed.iter().map(|listed| listed.id).collect();
            for (listed, object) in listed.iter().zip(self.objects(&ids)?) {
                let opened = object.and_then(|about| archive(repository, listed, &decode(&about)?));
                match opened {
                    Ok(archive) => self.archives.push(archive),
                    Err(error) => {
                        self.unreadable.push(error.of(format!("archive {}", listed.name)));
                    }
                }
            }
        }
        self.archives.sort_by_key(|archive| {
            (archive.snapshot.snapshot.started_ns, archive.snapshot.key.snapshot)
        });
        for (archive, number) in self.archives.iter().zip(0..) {
            if let Content::Recipe(root) = &archive.snapshot.snapshot.root {
                self.numbers.insert(root.0, number);
            }
        }
        Ok(())
    }

    /// Returns the bytes of objects in the same order.
    fn objects(&self, ids: &[[u8; 32]]) -> Result<Vec<Result<Vec<u8>>>> {
        let sealed = {
            let mut client = self.client.lock().unwrap_or_else(PoisonError::into_inner);
            client.objects(ids)?
        };
        let open = |(id, sealed): (&[u8; 32], Result<Bytes>)| {
            let object = || format!("chunk {}", Fingerprint(*id));
            let sealed = sealed.map_err(|error| error.of(object()))?;
            self.opener.open(Some(id), &sealed).map_err(|error| error.of(object()))
        };
        Ok(ids.iter().zip(sealed).map(open).collect())
    }

    /// Returns the tree of an archive.
    fn tree_of(&self, number: u32) -> Result<Arc<ArchiveTree>> {
        let lock = || self.trees.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, tree)) = lock().iter().find(|(known, _)| *known == number) {
            return Ok(tree.clone());
        }
        let archive = self.archives.get(number as usize);
        let archive = archive.ok_or_else(|| malformed("an unknown archive"))?;
        let name = || format!("archive {}", archive.snapshot.name);
        let tree = Arc::new(self.read_tree(archive).map_err(|error| error.of(name()))?);
        let mut trees = lock();
        trees.push_back((number, tree.clone()));
        if trees.len() > TREE_COUNT {
            trees.pop_front();
        }
        Ok(tree)
    }

    /// Reads the items of an archive.
    fn read_tree(&self, archive: &Archive) -> Result<ArchiveTree> {
        let mut builder = TreeBuilder::new(self.options.temporary.as_deref())?;
        let mut stream = ItemStream::default();
        for ids in archive.items.chunks(ITEM_BATCH) {
            for object in self.objects(ids)? {
                stream.push(&object?, |item, packed| builder.add(item, packed))?;
            }
        }
        stream.finish(|item, packed| builder.add(item, packed))?;
        builder.finish()
    }
}

/// The items of an archive, which objects have in pieces.
#[derive(Default)]
struct ItemStream {
    /// The bytes that were not decoded yet.
    packed: Vec<u8>,
    /// The number of bytes from which on the next attempt to decode an item is worth it. An item of
    /// many pieces is decoded a few times, and not for each of its pieces.
    needed_len: usize,
}

impl ItemStream {
    /// Adds a piece, and calls `add` for complete items and their bytes.
    fn push(&mut self, piece: &[u8], add: impl FnMut(&Value, &[u8]) -> Result<()>) -> Result<()> {
        self.packed.extend_from_slice(piece);
        if self.packed.len() < self.needed_len {
            return Ok(());
        }
        self.decode(add)?;
        self.needed_len = 2 * self.packed.len();
        match self.packed.len() > ITEM_LEN_MAX {
            true => Err(malformed("too long an item")),
            false => Ok(()),
        }
    }

    /// Decodes what is left.
    fn finish(mut self, add: impl FnMut(&Value, &[u8]) -> Result<()>) -> Result<()> {
        self.decode(add)?;
        match self.packed.is_empty() {
            true => Ok(()),
            false => Err(malformed("the items of an archive end in the middle of one")),
        }
    }

    fn decode(&mut self, mut add: impl FnMut(&Value, &[u8]) -> Result<()>) -> Result<()> {
        let mut start = 0;
        while let Some((item, len)) = decode_first(&self.packed[start..])? {
            add(&item, &self.packed[start..start + len])?;
            start += len;
        }
        self.packed.drain(..start);
        Ok(())
    }
}

impl ForeignRepository for Borg {
    fn tree(&self, folder: &Content) -> Result<ForeignFolder> {
        let Content::Recipe(key) = folder else { return Ok(ForeignFolder::default()) };
        let (number, folder) = match self.numbers.get(&key.0) {
            Some(number) => (*number, 0),
            None => place_of(key),
        };
        self.tree_of(number)?.entries(folder, |folder| key_of(number, folder))
    }

    fn chunks(&self, ids: &[Fingerprint]) -> Vec<Result<Bytes>> {
        let wanted: Vec<[u8; 32]> = ids.iter().map(|id| id.0).collect();
        match self.objects(&wanted) {
            Ok(objects) => objects.into_iter().map(|object| object.map(Bytes::from)).collect(),
            Err(error) => {
                let mut failed = vec![Err(error)];
                failed.resize_with(ids.len().max(1), || {
                    Err(Error::new(Kind::Storage, "borg serve", "ended"))
                });
                failed
            }
        }
    }

    fn fetcher_count(&self) -> usize {
        // One asks the program while the others decode.
        self.options.threads.max(1) + 1
    }
}

/// Returns the content of a folder in an archive, by the numbers of both.
fn key_of(archive: u32, folder: u32) -> Fingerprint {
    let mut key = [0; 32];
    key[..4].copy_from_slice(&archive.to_le_bytes());
    key[4..8].copy_from_slice(&folder.to_le_bytes());
    Fingerprint(key)
}

/// Returns the numbers of an archive and of a folder in it.
fn place_of(key: &Fingerprint) -> (u32, u32) {
    let number = |at: usize| {
        let mut bytes = [0; 4];
        bytes.copy_from_slice(&key.0[at..at + 4]);
        u32::from_le_bytes(bytes)
    };
    (number(0), number(4))
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::borg::message::encode;

    fn push_all(pieces: &[&[u8]]) -> Result<Vec<Value>> {
        let (mut stream, mut items) = (ItemStream::default(), Vec::new());
        let mut add = |item: &Value, packed: &[u8]| {
            assert_eq!(encode(item), packed, "its bytes");
            items.push(item.clone());
            Ok(())
        };
        for piece in pieces {
            stream.push(piece, &mut add)?;
        }
        stream.finish(&mut add)?;
        Ok(items)
    }

    #[test]
    fn items_in_pieces_are_put_together() {
        let items = [Value::from("one"), Value::Array(vec![7.into(); 1000]), Value::from("two")];
        let packed: Vec<u8> = items.iter().flat_map(encode).collect();
        for len in [1, 2, 3, 7, 999, packed.len()] {
            let pieces: Vec<&[u8]> = packed.chunks(len).collect();
            assert_eq!(push_all(&pieces).expect("all of them"), items, "{len}");
        }
        push_all(&[&packed[..packed.len() - 1]]).expect_err("cut off");
    }

    #[test]
    fn item_of_many_pieces_is_not_decoded_for_each() {
        // That would take as long as 40,000 values of 2 MB.
        let item = Value::Array(vec![1_000_000.into(); 400_000]);
        let packed = encode(&item);
        let pieces: Vec<&[u8]> = packed.chunks(50).collect();
        let began = Instant::now();
        assert_eq!(push_all(&pieces).expect("one item").len(), 1);
        assert!(began.elapsed().as_secs() < 20, "{:?}", began.elapsed());
    }
}
