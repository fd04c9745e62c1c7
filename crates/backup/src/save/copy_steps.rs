//! The steps of a copy: the tree of a snapshot, compared with that of an earlier one.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::iter::Peekable;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use cutpoint_repository::read::Entries;
use cutpoint_repository::{Content, Entry, EntryKind};
use cutpoint_storage::{Error, Result};

use super::batch::SourceLinkKey;
use super::previous_version::PreviousVersion;
use super::source_reader::{SourceEntries, SourceReader};
use crate::source::PatternSet;

/// A step of a copy.
#[derive(Debug)]
pub(crate) enum CopyStep {
    /// A folder begins.
    Enter(Box<Entry>),
    /// The folder that began last ends.
    Leave,
    /// An entry with a content that the target can use.
    Entry(Box<Entry>),
    /// A further name of a file that came before, in this walk.
    Link(Box<Entry>),
    /// A folder that is equal to that of the earlier snapshot, with the content at the target.
    Folder(Box<Entry>),
    /// An entry whose content has to be copied, and its previous version at the target.
    File(Box<Entry>, Option<Box<Entry>>),
    /// The rest of the folder that began last cannot be read.
    Damaged(Error),
    /// An entry of the folder that began last lacks something: its path, and a message.
    Warning(PathBuf, String),
}

/// The trees that a copy is compared with.
pub(crate) struct CopyComparison<'a> {
    /// The root folder, at the source, of an earlier snapshot.
    pub(super) source_root: Content,
    /// The copy of that snapshot; `None` if there will be one.
    pub(super) target: Option<PreviousVersion<'a>>,
    /// Set if `target` is a checkpoint of the same copy, which can have the beginning of a file.
    pub(super) continues: bool,
}

impl CopyComparison<'_> {
    /// Returns a comparison with an earlier snapshot of the source alone.
    pub(crate) fn of_source(source_root: Content) -> CopyComparison<'static> {
        CopyComparison { source_root, target: None, continues: false }
    }
}

/// The entries of a folder that are still to come.
type Folder<I> = Peekable<I>;

/// A folder on the way to the current entry, in each tree.
struct Level<'a> {
    entries: SourceEntries<'a>,
    earlier: Option<Folder<SourceEntries<'a>>>,
    target: Option<Folder<Entries<'a>>>,
}

/// The walk through the tree of a snapshot.
pub(crate) struct CopySteps<'a> {
    reader: SourceReader<'a>,
    comparison: Option<CopyComparison<'a>>,
    exclude: PatternSet,
    levels: Vec<Level<'a>>,
    /// The first names of files with several names, with the contents at the source.
    linked: HashMap<SourceLinkKey, Entry>,
    /// The path of the innermost open folder.
    pub(super) path: PathBuf,
    /// The number of entries that patterns have excluded.
    pub(crate) excluded_count: u64,
}

impl<'a> CopySteps<'a> {
    /// Begins at the tree `root` of `reader`, without what the patterns `exclude` match.
    ///
    /// # Errors
    ///
    /// Returns `Invalid` for an invalid pattern.
    pub(crate) fn new(
        reader: SourceReader<'a>,
        root: &Content,
        comparison: Option<CopyComparison<'a>>,
        exclude: &[String],
    ) -> Result<CopySteps<'a>> {
        let exclude = PatternSet::new(exclude).map_err(|error| Error::invalid("pattern", error))?;
        let mut steps = CopySteps {
            reader,
            comparison,
            exclude,
            levels: Vec::new(),
            linked: HashMap::new(),
            path: PathBuf::from("/"),
            excluded_count: 0,
        };
        let earlier = steps.comparison.as_ref().map(|it| it.source_root.clone());
        let target = steps.target().map(|target| target.root.clone());
        steps.open(root, earlier.as_ref(), target.as_ref());
        Ok(steps)
    }

    /// Returns the patterns that have matched nothing.
    pub(crate) fn unmatched_patterns(&self) -> impl Iterator<Item = &str> {
        self.exclude.unmatched()
    }

    fn target(&self) -> Option<&PreviousVersion<'a>> {
        self.comparison.as_ref()?.target.as_ref()
    }

    fn open(&mut self, root: &Content, earlier: Option<&Content>, target: Option<&Content>) {
        let reader = self.reader;
        let target_reader = self.target().map(|target| target.reader);
        self.levels.push(Level {
            entries: reader.tree(root),
            earlier: earlier.map(|content| reader.tree(content).peekable()),
            target: target_reader.zip(target).map(|(reader, it)| reader.tree(it).peekable()),
        });
    }

    /// Returns the next step; `None` at the end of the root.
    ///
    /// # Errors
    ///
    /// Returns the error of a tree that cannot be read, except that a copy goes on without the rest
    /// of a folder other than the root.
    pub(crate) fn next(&mut self) -> Result<Option<CopyStep>> {
        loop {
            let is_tolerant = self.levels.len() > 1 && self.exclude.is_empty();
            let Some(level) = self.levels.last_mut() else { return Ok(None) };
            if let Some((name, message)) = level.entries.next_warning() {
                let path = self.path.join(OsStr::from_bytes(&name));
                return Ok(Some(CopyStep::Warning(path, message)));
            }
            let next = match level.entries.next().transpose() {
                Err(error) if is_tolerant && error.is_loss() => {
                    return Ok(Some(CopyStep::Damaged(error)));
                }
                next => next?,
            };
            let Some(entry) = next else {
                self.levels.pop();
                self.path.pop();
                return Ok((!self.levels.is_empty()).then_some(CopyStep::Leave));
            };
            let earlier = named(&mut level.earlier, &entry.name);
            let target = named(&mut level.target, &entry.name);
            let is_folder = entry.kind == EntryKind::Folder;
            if !self.exclude.is_empty() {
                let path = self.path.join(OsStr::from_bytes(&entry.name));
                if self.exclude.find(&path, is_folder) == Some(true) {
                    self.excluded_count += 1;
                    continue;
                }
            }
            return Ok(Some(match is_folder {
                true => self.folder(entry, earlier, target),
                false if self.is_link(&entry) => CopyStep::Link(Box::new(entry)),
                false => self.item(entry, earlier.as_ref(), target),
            }));
        }
    }

    fn folder(
        &mut self,
        mut entry: Entry,
        earlier: Option<Entry>,
        target: Option<Entry>,
    ) -> CopyStep {
        let is_kind = |entry: &Entry| entry.kind == EntryKind::Folder;
        let (earlier, target) = (earlier.filter(is_kind), target.filter(is_kind));
        let is_equal = earlier.as_ref().is_some_and(|it| it.content == entry.content);
        if is_equal && self.exclude.is_empty() {
            let content = match (self.target(), &target) {
                // A survey has no target.
                (None, _) => Some(Content::Empty),
                // A checkpoint may lack a part of a folder.
                (Some(previous), Some(target)) if previous.is_whole() => {
                    Some(target.content.clone())
                }
                _ => None,
            };
            if let Some(content) = content {
                entry.content = content;
                return CopyStep::Folder(Box::new(entry));
            }
        }
        let content = std::mem::replace(&mut entry.content, Content::Empty);
        self.path.push(OsStr::from_bytes(&entry.name));
        let earlier = earlier.map(|earlier| earlier.content);
        self.open(&content, earlier.as_ref(), target.map(|target| target.content).as_ref());
        CopyStep::Enter(Box::new(entry))
    }

    /// Returns `true` if `entry` is a further name of a file. Remembers the first one.
    fn is_link(&mut self, entry: &Entry) -> bool {
        if entry.kind != EntryKind::File || !entry.is_hard_link() {
            return false;
        }
        let key = SourceLinkKey::of(entry);
        let is_same = |first: &Entry| {
            (&first.content, &first.xattrs, first.defect)
                == (&entry.content, &entry.xattrs, entry.defect)
        };
        if self.linked.get(&key).is_some_and(is_same) {
            return true;
        }
        self.linked.insert(key, entry.clone());
        false
    }

    /// Returns the step of an entry that is neither a folder nor a further name of a file.
    fn item(&self, mut entry: Entry, earlier: Option<&Entry>, target: Option<Entry>) -> CopyStep {
        if matches!(entry.content, Content::Empty | Content::Raw(_)) {
            return CopyStep::Entry(Box::new(entry));
        }
        let target = target.filter(|target| target.kind == entry.kind);
        let is_equal = earlier.is_some_and(|earlier| earlier.content == entry.content);
        let content = match (self.target(), &target) {
            _ if !is_equal => None,
            (None, _) => Some(Content::Empty),
            (Some(previous), Some(target)) => (target.size == entry.size
                && !previous.needs_damaged(target))
            .then(|| target.content.clone()),
            (Some(_), None) => None,
        };
        match content {
            Some(content) => {
                entry.content = content;
                CopyStep::Entry(Box::new(entry))
            }
            None => CopyStep::File(Box::new(entry), target.map(Box::new)),
        }
    }
}

/// Returns the entry `name` of a folder, and skips those before it. A folder that cannot be read is
/// not compared.
fn named(
    folder: &mut Option<Folder<impl Iterator<Item = Result<Entry>>>>,
    name: &[u8],
) -> Option<Entry> {
    loop {
        match folder.as_mut()?.peek()? {
            Err(_) => {
                *folder = None;
                return None;
            }
            Ok(entry) if entry.name.as_slice() > name => return None,
            Ok(_) => {
                let entry = folder.as_mut()?.next()?.ok()?;
                if entry.name == name {
                    return Some(entry);
                }
            }
        }
    }
}
