//! The tree of an archive. Borg lists the items of an archive one after the other; a tree finds those
//! of a folder.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use cutpoint_backup::save::ForeignFolder;
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

/// The maximum length of the path of an item, in bytes.
const PATH_LEN_MAX: usize = 64 << 10;

/// Gathers the items of an archive.
pub(super) struct TreeBuilder {
    file: BufWriter<File>,
    offset: u64,
    /// The folders by the folders that they are in, and their names.
    numbers: HashMap<(FolderNumber, Vec<u8>), FolderNumber>,
    /// The folder of the last item, and the path of that folder.
    last: (FolderNumber, Vec<u8>),
    /// The numbers of further names of files whose own items did not say that there are any, by the paths
    /// of these items.
    unmarked: HashMap<Vec<u8>, u64>,
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
        let (numbers, last) = (HashMap::new(), (0, Vec::new()));
        Ok(TreeBuilder { file: writer, offset: 0, numbers, last, unmarked: HashMap::new(), tree })
    }

    /// Adds an item, which has the encoding `packed`.
    ///
    /// # Errors
    ///
    /// Returns `Corrupt` if the item has no valid path, and `Storage` or `Full` for the file.
    pub(super) fn add(&mut self, value: &Value, packed: &[u8]) -> Result<()> {
        let path = get_bytes(value, "path").ok_or_else(|| malformed("an item without a path"))?;
        if path.len() > PATH_LEN_MAX {
            return Err(malformed("an item with too long a path"));
        }
        if item::is_part(value) {
            return Ok(());
        }
        let parts = item::parts(path)?;
        let Some((_, parents)) = parts.split_last() else { return Ok(()) };
        let parent = self.folder(parents)?;
        if item::is_master(value) {
            self.tree.masters.insert(path.to_vec(), item::content(value)?);
        } else if let Some(first) = item::further_name_of(value) {
            match self.tree.masters.get_mut(first) {
                Some(master) => master.name_count += 1,
                None => *self.unmarked.entry(first.to_vec()).or_default() += 1,
            }
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
        if self.last.1 == path {
            return Ok(self.last.0);
        }
        let mut folder = 0;
        for part in parts {
            let place = (folder, part.to_vec());
            folder = match self.numbers.get(&place) {
                Some(number) => *number,
                None => {
                    let number = FolderNumber::try_from(self.numbers.len() + 1)
                        .map_err(|_| malformed("too many folders"))?;
                    self.tree.folders.push((folder, place.1.clone(), number));
                    self.numbers.insert(place, number);
                    number
                }
            };
        }
        self.last = (folder, path);
        Ok(folder)
    }

    /// Finds the items that have the content of further names, without saying so.
    fn find_unmarked(&mut self) -> Result<()> {
        for place in &self.tree.places {
            let value = self.tree.item(place)?;
            let path = get_bytes(&value, "path").unwrap_or_default();
            if item::further_name_of(&value).is_none()
                && item::master_of(&value).is_some()
                && let Some(count) = self.unmarked.get(path)
            {
                let master = Master { name_count: 1 + count, ..item::content(&value)? };
                self.tree.masters.insert(path.to_vec(), master);
            }
        }
        Ok(())
    }

    /// Ends the archive.
    ///
    /// # Errors
    ///
    /// Returns `Storage` or `Full` for the file.
    pub(super) fn finish(mut self) -> Result<ArchiveTree> {
        self.file.flush().map_err(failed)?;
        if !self.unmarked.is_empty() {
            self.find_unmarked()?;
        }
        self.tree.places.sort_by_key(|place| (place.parent, place.offset));
        self.tree.folders.sort();
        Ok(self.tree)
    }
}

impl ArchiveTree {
    /// Reads an item.
    fn item(&self, place: &Place) -> Result<Value> {
        let mut packed = vec![0; place.len as usize];
        self.file.read_exact_at(&mut packed, place.offset).map_err(failed)?;
        decode(&packed)
    }

    /// Returns the entries of a folder. `key` returns the content of a folder.
    ///
    /// # Errors
    ///
    /// Returns `Corrupt` if an item is malformed, and `Storage` for the file.
    pub(super) fn entries(
        &self,
        folder: FolderNumber,
        key: impl Fn(FolderNumber) -> Fingerprint,
    ) -> Result<ForeignFolder> {
        let first = self.places.partition_point(|place| place.parent < folder);
        let places = self.places[first..].iter().take_while(|place| place.parent == folder);
        let (mut entries, mut warnings) = (Vec::new(), Vec::new());
        for place in places {
            let value = self.item(place)?;
            let path = get_bytes(&value, "path").unwrap_or_default();
            let parts = item::parts(path)?;
            let Some(name) = parts.last() else { continue };
            // A repair of the archive may have removed the item that has the content.
            let lost = item::further_name_of(&value).map(|_| Master::lost());
            let master = item::master_of(&value)
                .and_then(|path| Some((path, self.masters.get(path).or(lost.as_ref())?)));
            entries.push(item::entry(name, &value, master)?);
            warnings.extend(item::malformed_lists(&value).map(|list| {
                (name.to_vec(), format!("malformed {list} in the archive: imported without it"))
            }));
        }
        // Borg lists a path twice if it is in two sources. The last one counts.
        entries.reverse();
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        entries.dedup_by(|next, first| next.name == first.name);
        self.add_folders(folder, &mut entries, key);
        Ok(ForeignFolder { entries, warnings })
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::borg::message::encode;

    /// Returns the tree of an archive with items of these paths, modes and first names.
    fn tree(items: &[(&[u8], u32, Option<&str>)]) -> Result<ArchiveTree> {
        let mut builder = TreeBuilder::new(None)?;
        for (path, mode, source) in items {
            let mut fields: Vec<(Value, Value)> = vec![
                ("path".into(), Value::Binary(path.to_vec())),
                ("mode".into(), (*mode).into()),
            ];
            fields.extend(source.map(|source| ("source".into(), source.into())));
            let item = Value::Map(fields);
            builder.add(&item, &encode(&item))?;
        }
        builder.finish()
    }

    fn names(tree: &ArchiveTree, folder: FolderNumber) -> Vec<String> {
        let key = |number: FolderNumber| Fingerprint([u8::try_from(number).unwrap_or(255); 32]);
        let entries = tree.entries(folder, key).expect("a valid folder").entries;
        entries.iter().map(|entry| String::from_utf8_lossy(&entry.name).into_owned()).collect()
    }

    #[test]
    fn items_are_found_in_their_folders() {
        let (file, folder) = (0o100_644, 0o040_755);
        let items: [(&[u8], u32, Option<&str>); 5] = [
            (b"a", folder, None),
            (b"a/one", file, None),
            (b"b/c/two", file, None),
            (b"a/b/three", file, None),
            (b"a/four", file, None),
        ];
        let tree = tree(&items).expect("valid items");
        assert_eq!(names(&tree, 0), ["a", "b"]);
        assert_eq!(names(&tree, 1), ["b", "four", "one"]);
        assert_eq!(names(&tree, 2), ["c"]);
        assert_eq!(names(&tree, 3), ["two"]);
        assert_eq!(names(&tree, 4), ["three"]);
    }

    #[test]
    fn deep_paths_need_little_memory() {
        let deep = b"a/".repeat(PATH_LEN_MAX / 2);
        let made = tree(&[(&deep, 0o040_755, None)]).expect("a valid item");
        assert_eq!(made.folders.len(), PATH_LEN_MAX / 2 - 1);
        let longer = b"a".repeat(PATH_LEN_MAX + 1);
        tree(&[(&longer, 0o040_755, None)]).expect_err("too long a path");
    }

    #[test]
    fn names_of_old_archives_share_a_content() {
        let file = 0o100_644;
        let items: [(&[u8], u32, Option<&str>); 4] = [
            (b"a", file, None),
            (b"b", file, Some("a")),
            (b"c", file, Some("a")),
            (b"d", file, None),
        ];
        let made = tree(&items).expect("valid items");
        let entries = made.entries(0, |_| Fingerprint([0; 32])).expect("a valid folder").entries;
        let links: Vec<u64> = entries.iter().map(|entry| entry.links.max(1)).collect();
        assert_eq!(links, [3, 3, 3, 1]);
        assert_eq!((entries[0].inode, entries[1].inode), (entries[2].inode, entries[2].inode));
        assert_eq!(entries[1].content, Content::Empty, "that of the first name");
    }

    #[test]
    fn file_with_a_malformed_list_is_named_and_there() {
        let fields = [
            ("path", Value::from("a")),
            ("mode", 0o100_644.into()),
            ("acl_access", "user::rw-\nnobody knows".into()),
            ("acl_default", "".into()),
        ];
        let item = Value::Map(fields.map(|(key, value)| (Value::from(key), value)).to_vec());
        let mut builder = TreeBuilder::new(None).expect("a file");
        builder.add(&item, &encode(&item)).expect("a valid item");
        let made = builder.finish().expect("a tree");
        let folder = made.entries(0, |_| Fingerprint([0; 32])).expect("a valid folder");
        assert_eq!(folder.entries.len(), 1, "the file");
        assert_eq!(folder.entries[0].xattrs, [], "without the list");
        let message = "malformed access ACL in the archive: imported without it".to_owned();
        assert_eq!(folder.warnings, [(b"a".to_vec(), message)]);
    }

    #[test]
    fn parts_of_files_are_left_out() {
        let part =
            [("path", "a.borg_part_1".into()), ("mode", 0o100_644.into()), ("part", 1.into())];
        let part = Value::Map(part.map(|(key, value)| (Value::from(key), value)).to_vec());
        let mut builder = TreeBuilder::new(None).expect("a file");
        builder.add(&part, &encode(&part)).expect("a valid item");
        assert_eq!(names(&builder.finish().expect("a tree"), 0), [""; 0]);
    }

    #[test]
    fn further_name_of_an_absent_file_is_lost_alone() {
        let file = 0o100_644;
        let made = tree(&[(b"a", file, Some("gone")), (b"b", file, None)]).expect("valid items");
        let entries = made.entries(0, |_| Fingerprint([0; 32])).expect("a valid folder").entries;
        assert_eq!(entries.len(), 2, "the rest of the folder is there");
        let Content::Segments(segments) = &entries[0].content else { panic!("a content") };
        assert_eq!(segments.len(), 1, "what cannot be read is no empty file");
        assert_eq!(entries[1].content, Content::Empty);
    }
}
