//! A folder of the repaired copy: its entries in order, some of them under new names.

use std::collections::BTreeMap;
use std::ops::Range;

use cutpoint_storage::Result;

use super::losses::{Counts, LossLog};
use super::pieces::Pieces;
use super::report::PathLoss;
use crate::crypto::Keys;
use crate::format::fingerprint::Class;
use crate::format::recipe::Content;
use crate::format::tree::{Entry, entries_in};
use crate::write::{Inline, TreeWriter};

/// A folder that is being traversed.
pub(super) struct FolderFrame<'a> {
    keys: &'a Keys,
    /// The folder's entry in the folder above; `None` for the root.
    pub(super) entry: Option<Entry>,
    /// The path of the folder: empty, or with a `/` before each name.
    pub(super) path: Vec<u8>,
    pub(super) pieces: Pieces,
    pub(super) entries: std::vec::IntoIter<Entry>,
    /// The last name that was read; names must rise.
    pub(super) name_last: Vec<u8>,
    /// Set if some entries are lost.
    pub(super) has_loss: bool,
    /// The counts before the folder was entered.
    pub(super) before: Counts,
    pub(super) tree: TreeWriter,
    /// Files that are kept under another name, and their losses.
    pub(super) renamed: BTreeMap<Vec<u8>, PartialFile>,
    pub(super) is_undamaged: bool,
}

/// The remains of a file that has lost parts, and the lost ranges.
pub(super) struct PartialFile {
    pub(super) entry: Entry,
    pub(super) path: Vec<u8>,
    pub(super) ranges: Vec<Range<u64>>,
}

impl<'a> FolderFrame<'a> {
    pub(super) fn new(
        keys: &'a Keys,
        entry: Option<Entry>,
        path: Vec<u8>,
        content: &Content,
    ) -> FolderFrame<'a> {
        FolderFrame {
            keys,
            entry,
            path,
            pieces: Pieces::new(Class::Meta, content),
            entries: Vec::new().into_iter(),
            name_last: Vec::new(),
            has_loss: false,
            before: Counts::default(),
            tree: TreeWriter::new(),
            renamed: BTreeMap::new(),
            is_undamaged: true,
        }
    }

    /// Enters the entries of a tree that lies in the content itself. Returns `false` if it is
    /// invalid.
    pub(super) fn enter_inline(&mut self, content: &Content) -> bool {
        let Content::Raw(tree) = content else { return true };
        match entries_in(tree) {
            Ok(entries) => {
                self.entries = entries.into_iter();
                true
            }
            Err(_) => false,
        }
    }

    /// Returns `true` if these entries can come next. The chunks of a folder form one tree, in
    /// which names rise.
    pub(super) fn rises_to(&mut self, entries: &[Entry]) -> bool {
        let (Some(first), Some(last)) = (entries.first(), entries.last()) else { return true };
        let rises = first.name > self.name_last;
        if rises {
            self.name_last.clone_from(&last.name);
        }
        rises
    }

    /// Adds the next entry, preceded by renamed ones that sort before it.
    pub(super) fn push(
        &mut self,
        entry: Entry,
        losses: &mut LossLog<'_>,
        mut sink: Option<&mut Inline>,
    ) -> Result<()> {
        while let Some(first) = self.renamed.first_entry() {
            if *first.key() > entry.name {
                break;
            }
            let (name, renamed) = first.remove_entry();
            if name == entry.name {
                // The name is taken, so a character is appended, and the entry comes later.
                self.rename([&name[..], b"+"].concat(), renamed);
            } else {
                self.push_renamed(name, renamed, losses, sink.as_deref_mut())?;
            }
        }
        self.write(&entry, losses, sink)
    }

    pub(super) fn rename(&mut self, mut name: Vec<u8>, renamed: PartialFile) {
        while self.renamed.contains_key(&name) {
            name.push(b'+');
        }
        self.renamed.insert(name, renamed);
    }

    pub(super) fn push_renamed(
        &mut self,
        name: Vec<u8>,
        renamed: PartialFile,
        losses: &mut LossLog<'_>,
        sink: Option<&mut Inline>,
    ) -> Result<()> {
        let PartialFile { entry, path, ranges } = renamed;
        let loss = PathLoss::Parts { ranges, size: entry.size, kept_as: name.clone() };
        losses.loss(&path, &loss);
        self.write(&Entry { name, ..entry }, losses, sink)
    }

    pub(super) fn write(
        &mut self,
        entry: &Entry,
        losses: &mut LossLog<'_>,
        sink: Option<&mut Inline>,
    ) -> Result<()> {
        losses.kept();
        let Some(sink) = sink else { return Ok(()) };
        self.tree.push(entry, self.keys, sink)
    }
}
