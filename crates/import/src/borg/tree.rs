//! The tree of an archive. Borg lists the items of an archive one after the other; a tree finds those
//! of a folder.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use cutpoint_repository::{Content, Entry, EntryKind, Fingerprint};
use cutpoint_storage::{Error, Kind, Result};
use rmpv::Value;

use super::item::{self, Master};
use super::message::{decode, get_bytes, malformed};

/// The number of a folder in an archive. That of the root is 0.
type FolderNumber = u32;

/// The place of an item in the file.
#[derive(Clone, Copy, Debug)]
struct Place {
    parent: FolderNumber,
    offset: u64,
    len: u32,
}

/// The items of an archive: their bytes in a temporary file, their places in memory.
#[derive(Debug)]
pub(super) struct ArchiveTree {
    file: File,
    /// Sorted by folder, and in each folder in the order of the archive.
    places: Vec<Place>,
    /// The folders and their names, by the folders that they are in.
    folders: Vec<(FolderNumber, Vec<u8>, FolderNumber)>,
    /// The contents of files with several names, by the paths of the items that have them.
    masters: HashMap<Vec<u8>, Master>,
}

/// Gathers the items of an archive.
pub(super) struct TreeBuilder {
    file: BufWriter<File>,
    offset: u64,
    /// The folders by their paths.
    numbers: HashMap<Vec<u8>, FolderNumber>,
    tree: ArchiveTree,
}

fn failed(error: io::Error) -> Error {
    let kind = if error.kind() == io::ErrorKind::StorageFull { Kind::Full } else { Kind::Storage };
    Error::new(kind, "temporary file", error)
}

impl TreeBuilder {
    /// Begins with an unnamed file in `folder`, or in that of the system.
    ///
    /// # Errors
    ///
    /// Returns `Storage` or `Full` if the file cannot be created.
    pub(super) fn new(folder: Option<&Path>) -> Result<TreeBuilder> {
        let file = match folder {
            Some(folder) => tempfile::tempfile_in(folder),
            None => tempfile::tempfile(),
        };
        let file = file.map_err(failed)?;
        let writer = BufWriter::new(file.try_clone().map_err(failed)?);
        let tree =
            ArchiveTree { file, places: Vec::new(), folders: Vec::new(), masters: HashMap::new() };
        let numbers = HashMap::from([(Vec::new(), 0)]);
        Ok(TreeBuilder { file: writer, offset: 0, numbers, tree })
    }

    /// Adds an item, which has the encoding `packed`.
    ///
    /// # Errors
    ///
    /// Returns `Corrupt` if the item has no valid path, and `Storage` or `Full` for the file.
    pub(super) fn add(&mut self, value: &Value, packed: &[u8]) -> Result<()> {
        let path = get_bytes(value, "path").ok_or_else(|| malformed("an item without a path"))?;
        let parts = item::parts(path)?;
        let Some((_, parents)) = parts.split_last() else { return Ok(()) };
        let parent = self.folder(parents)?;
        if item::is_master(value) {
            self.tree.masters.insert(path.to_vec(), item::content(value)?);
        } else if let Some(master) = item::master_of(value)
            && let Some(master) = self.tree.masters.get_mut(master)
        {
            master.name_count += 1;
        }
        let len = u32::try_from(packed.len()).map_err(|_| malformed("too long an item"))?;
        self.file.write_all(packed).map_err(failed)?;
        self.tree.places.push(Place { parent, offset: self.offset, len });
        self.offset += u64::from(len);
        Ok(())
    }

    /// Returns the number of the folder with this path.
    fn folder(&mut self, parts: &[&[u8]]) -> Result<FolderNumber> {
        let path = parts.join(&b'/');
        if let Some(number) = self.numbers.get(&path) {
            return Ok(*number);
        }
        let parent = match parts.split_last() {
            Some((_, parents)) => self.folder(parents)?,
            None => 0,
        };
        let number = FolderNumber::try_from(self.numbers.len())
            .map_err(|_| malformed("too many folders"))?;
        let name = parts.last().map(|name| name.to_vec()).unwrap_or_default();
        self.tree.folders.push((parent, name, number));
        self.numbers.insert(path, number);
        Ok(number)
    }

    /// Ends the archive.
    ///
    /// # Errors
    ///
    /// Returns `Storage` or `Full` for the file.
    pub(super) fn finish(mut self) -> Result<ArchiveTree> {
        self.file.flush().map_err(failed)?;
        self.tree.places.sort_by_key(|place| (place.parent, place.offset));
        self.tree.folders.sort();
        Ok(self.tree)
    }
}

impl ArchiveTree {
    /// Returns the entries of a folder, sorted by their names. `key` returns the content of a folder.
    ///
    /// # Errors
    ///
    /// Returns `Corrupt` if an item is malformed, and `Storage` for the file.
    pub(super) fn entries(
        &self,
        folder: FolderNumber,
        key: impl Fn(FolderNumber) -> Fingerprint,
    ) -> Result<Vec<Entry>> {
        let first = self.places.partition_point(|place| place.parent < folder);
        let places = self.places[first..].iter().take_while(|place| place.parent == folder);
        let mut entries = Vec::new();
        for place in places {
            let mut packed = vec![0; place.len as usize];
            self.file.read_exact_at(&mut packed, place.offset).map_err(failed)?;
            let value = decode(&packed)?;
            let path = get_bytes(&value, "path").unwrap_or_default();
            let parts = item::parts(path)?;
            let Some(name) = parts.last() else { continue };
            let master = item::master_of(&value).map(|path| {
                let found = self.masters.get(path);
                let found = found.map(|master| (path, master));
                found.ok_or_else(|| malformed("a further name of a file that is not there"))
            });
            entries.push(item::entry(name, &value, master.transpose()?)?);
        }
        // Borg lists a path twice if it is in two sources. The last one counts.
        entries.reverse();
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        entries.dedup_by(|next, first| next.name == first.name);
        self.add_folders(folder, &mut entries, key);
        Ok(entries)
    }

    /// Gives folders their contents, and adds those that have no item of their own, because they are
    /// above the sources.
    fn add_folders(
        &self,
        folder: FolderNumber,
        entries: &mut Vec<Entry>,
        key: impl Fn(FolderNumber) -> Fingerprint,
    ) {
        let first = self.folders.partition_point(|(parent, ..)| *parent < folder);
        let inner = self.folders[first..].iter().take_while(|(parent, ..)| *parent == folder);
        for (_, name, number) in inner {
            let content = Content::Recipe(key(*number));
            match entries.binary_search_by(|entry| entry.name.cmp(name)) {
                Ok(at) if entries[at].kind == EntryKind::Folder => entries[at].content = content,
                Ok(_) => {}
                Err(at) => {
                    let mut entry = Entry::new(&name[..], EntryKind::Folder);
                    entry.mode = 0o755;
                    entry.content = content;
                    entries.insert(at, entry);
                }
            }
        }
    }
}
