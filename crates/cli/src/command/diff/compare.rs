//! The comparison of two trees, which skips the folders and the parts of folders that both share.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::fmt::Display;
use std::iter::Peekable;
use std::path::Path;

use anyhow::Result;
use cutpoint_repository::format::recipe::Segment;
use cutpoint_repository::read::Entries;
use cutpoint_repository::{Content, Entry, EntryKind, Reader, Time};
use cutpoint_storage::Error as StoreError;

use super::content;

/// A kind of difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// Only the new tree has the entry.
    Added,
    /// Only the old tree has the entry.
    Removed,
    /// The bytes of a file, the target of a symbolic link, or the number of a device.
    Content,
    /// The kind of entry.
    Type,
    /// Only the metadata.
    Metadata,
}

/// A difference between the two trees.
pub(super) struct Difference<'a> {
    pub(super) path: &'a [u8],
    pub(super) change: Change,
    /// `None` if the entry was added.
    pub(super) old: Option<&'a Entry>,
    /// `None` if the entry was removed.
    pub(super) new: Option<&'a Entry>,
    /// The changed parts of the metadata, if the kind of entry is the same.
    pub(super) metadata: Vec<&'static str>,
}

/// Receives the results of a comparison.
pub(super) trait Sink {
    /// Takes a difference. An error ends the comparison.
    fn difference(&mut self, difference: &Difference<'_>) -> Result<()>;

    /// Takes the reason why `path`, or the rest of that folder, could not be compared.
    fn problem(&mut self, path: &[u8], error: &dyn Display);

    /// Takes a message about `path` on the disk that is no problem.
    fn warning(&mut self, path: &Path, message: &str);
}

/// A comparison of two trees.
pub(super) struct Comparison<'a, S> {
    pub(super) reader: &'a Reader,
    pub(super) sink: S,
}

impl<'a, S: Sink> Comparison<'a, S> {
    /// Compares `old` with `new`, both at `path`, and everything below them. One of them can be
    /// absent.
    ///
    /// # Errors
    ///
    /// Returns any error of the sink, and an error of the storage. Damaged and missing data is a
    /// problem of the sink.
    pub(super) fn compare(
        &mut self,
        old: Option<Entry>,
        new: Option<Entry>,
        path: &mut Vec<u8>,
    ) -> Result<()> {
        // There is one level per folder on the way, because folders can be nested deeply.
        let mut levels: Vec<Level<'a>> = Vec::new();
        levels.extend(self.pair(old, new, path)?);
        while let Some(level) = levels.last_mut() {
            path.truncate(level.path_len);
            match level.next() {
                Ok(None) => {
                    levels.pop();
                }
                Ok(Some((old, new))) => {
                    let name = old.as_ref().or(new.as_ref()).map(|entry| entry.name.as_slice());
                    path.push(b'/');
                    path.extend_from_slice(name.unwrap_or_default());
                    levels.extend(self.pair(old, new, path)?);
                }
                Err(error) => {
                    levels.pop();
                    self.skip(path, error)?;
                }
            }
        }
        Ok(())
    }

    /// Reports lost data, and returns any other error.
    pub(super) fn skip(&mut self, path: &[u8], error: StoreError) -> Result<()> {
        if !error.is_loss() {
            return Err(error.into());
        }
        self.sink.problem(path, &error);
        Ok(())
    }

    /// Compares the entries at `path`. Returns the level of their contents, if one of them is a
    /// folder that has to be entered.
    fn pair(
        &mut self,
        old: Option<Entry>,
        new: Option<Entry>,
        path: &[u8],
    ) -> Result<Option<Level<'a>>> {
        let is_same = match (&old, &new) {
            (Some(old), Some(new)) if old.kind == new.kind => {
                content::is_same(self.reader, old, new)
            }
            _ => Ok(false),
        };
        match is_same {
            Ok(is_same) => self.report(old.as_ref(), new.as_ref(), path, is_same)?,
            Err(error) => self.skip(path, error)?,
        }
        let tree = |entry: Option<Entry>| {
            entry.filter(|entry| entry.kind == EntryKind::Folder).map(|entry| entry.content)
        };
        let opened = match (tree(old), tree(new)) {
            (Some(old), Some(new)) if old == new => return Ok(None),
            (Some(old), Some(new)) => self.without_common_chunks(&old, &new),
            (None, None) => return Ok(None),
            (old, new) => Ok((old.unwrap_or(Content::Empty), new.unwrap_or(Content::Empty))),
        };
        match opened {
            Ok((old, new)) => Ok(Some(Level {
                old: self.reader.tree(&old).peekable(),
                new: self.reader.tree(&new).peekable(),
                path_len: path.len(),
            })),
            Err(error) => self.skip(path, error).map(|()| None),
        }
    }

    /// Reports the difference between the entries at `path`, if there is any. `is_same` is set if
    /// both are of the same kind and have the same content.
    pub(super) fn report(
        &mut self,
        old: Option<&Entry>,
        new: Option<&Entry>,
        path: &[u8],
        is_same: bool,
    ) -> Result<()> {
        let mut parts = Vec::new();
        let change = match (old, new) {
            (None, _) => Change::Added,
            (_, None) => Change::Removed,
            (Some(old), Some(new)) if old.kind != new.kind => Change::Type,
            (Some(old), Some(new)) => {
                parts = metadata(old, new);
                match is_same {
                    false => Change::Content,
                    true if parts.is_empty() => return Ok(()),
                    true => Change::Metadata,
                }
            }
        };
        self.sink.difference(&Difference { path, change, old, new, metadata: parts })
    }

    /// Returns the parts of two trees that are not in the other one. A chunk of a tree consists of
    /// complete entries, and a tree has each name once, so a chunk of both holds no difference. A tree
    /// that lies in its folder's entry has no chunks, and is complete.
    fn without_common_chunks(
        &self,
        old: &Content,
        new: &Content,
    ) -> Result<(Content, Content), StoreError> {
        if [old, new].iter().any(|tree| matches!(tree, Content::Raw(_))) {
            return Ok((old.clone(), new.clone()));
        }
        let segments = |content| self.reader.segments(content).collect::<Result<Vec<_>, _>>();
        let (mut old, mut new): (Vec<Segment>, Vec<Segment>) = (segments(old)?, segments(new)?);
        let in_old: HashSet<Segment> = old.iter().copied().collect();
        let common: HashSet<Segment> =
            new.iter().copied().filter(|segment| in_old.contains(segment)).collect();
        old.retain(|segment| !common.contains(segment));
        new.retain(|segment| !common.contains(segment));
        Ok((Content::Segments(old), Content::Segments(new)))
    }
}

/// The remaining entries of a folder in both trees.
struct Level<'a> {
    old: Peekable<Entries<'a>>,
    new: Peekable<Entries<'a>>,
    /// The length of the path of the folder.
    path_len: usize,
}

/// The entries of one name in both trees. At least one is there.
type Pair = (Option<Entry>, Option<Entry>);

impl Level<'_> {
    /// Returns the next name, in ascending order.
    fn next(&mut self) -> Result<Option<Pair>, StoreError> {
        let order = match (self.old.peek(), self.new.peek()) {
            (None, None) => return Ok(None),
            (Some(Ok(_)), None) => Ordering::Less,
            (Some(Ok(old)), Some(Ok(new))) => old.name.cmp(&new.name),
            // Without the names of one tree, those of the other one mean nothing.
            (Some(Err(_)), _) => Ordering::Less,
            (_, Some(Err(_))) => Ordering::Greater,
            (None, Some(Ok(_))) => Ordering::Greater,
        };
        let old = (order != Ordering::Greater).then(|| self.old.next()).flatten().transpose()?;
        let new = (order != Ordering::Less).then(|| self.new.next()).flatten().transpose()?;
        Ok(Some((old, new)))
    }
}

/// Returns the parts of the metadata that differ.
fn metadata(old: &Entry, new: &Entry) -> Vec<&'static str> {
    // The root of a snapshot has no name and no metadata.
    if old.name.is_empty() || new.name.is_empty() {
        return Vec::new();
    }
    let has_owner = old.user_id == new.user_id
        && old.group_id == new.group_id
        && old.user == new.user
        && old.group == new.group;
    // A folder above the sources has neither time nor inode.
    let has_time = |entry: &Entry| {
        entry.kind != EntryKind::Folder || entry.inode != 0 || entry.mtime != Time::default()
    };
    let has_times = has_time(old) && has_time(new);
    [
        ("mode", old.mode != new.mode),
        ("owner", !has_owner),
        ("time", has_times && old.mtime != new.mtime),
        ("xattrs", old.xattrs != new.xattrs),
    ]
    .into_iter()
    .filter_map(|(name, differs)| differs.then_some(name))
    .collect()
}
