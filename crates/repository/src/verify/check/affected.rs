//! The paths of a snapshot that cannot be restored.

use std::collections::HashSet;
use std::rc::Rc;

use cutpoint_storage::{Kind, Result};

use super::context::NAMED_MAX;
use super::finding::FindingKind;
use super::reachable::SnapshotWalk;
use crate::format::fingerprint::{Class, Fingerprint};
use crate::format::names::TicketId;
use crate::format::recipe::Content;
use crate::format::tree::{Entry, EntryKind};
use crate::snapshots::mark::{Inside, Node, enter, enter_recipe};
use crate::util::cache::{Key, TwoGenerationCache};

/// The damage in a part of a stream, and below it.
#[derive(Clone, Copy, Debug, Default)]
struct Below {
    /// Set if a part of the stream cannot be read.
    is_broken: bool,
    /// Number of paths below that cannot be restored; the maximum of the type means that number or
    /// more.
    count: u64,
}

impl Below {
    fn add(&mut self, other: Below) {
        self.is_broken |= other.is_broken;
        self.count = self.count.saturating_add(other.count);
    }

    fn is_well(&self) -> bool {
        !self.is_broken && self.count == 0
    }
}

/// A folder, a file, or a metadata chunk of one, that is being traversed.
struct Frame {
    what: What,
    path: Rc<str>,
    below: Below,
    nodes: Vec<Node>,
    entries: std::vec::IntoIter<Entry>,
}

#[derive(Clone, Copy)]
enum What {
    Folder,
    File,
    Chunk(Key),
}

/// Reports the paths that cannot be restored. Paths below a shared part are reported one by one
/// until [`NAMED_MAX`] is reached, and only counted after that, because there can be very many.
/// Undamaged parts are traversed once.
pub(super) struct Affected<'a> {
    walk: &'a SnapshotWalk<'a>,
    /// Number of affected paths of listed snapshots.
    count: u64,
    /// Chunks below which nothing is lost, in any snapshot.
    well: TwoGenerationCache<()>,
    // State of the current snapshot:
    /// Set if the snapshot is listed. The affected paths of a forgotten one are only counted.
    is_listed: bool,
    /// The lost chunks that the traversal has met.
    lost: HashSet<Fingerprint>,
    /// The damage below the other chunks.
    ailing: TwoGenerationCache<Below>,
}

impl<'a> Affected<'a> {
    pub(super) fn new(walk: &'a SnapshotWalk<'a>) -> Affected<'a> {
        Affected {
            walk,
            count: 0,
            well: TwoGenerationCache::default(),
            is_listed: true,
            lost: HashSet::new(),
            ailing: TwoGenerationCache::default(),
        }
    }

    /// Returns the number of affected paths of listed snapshots that were not reported.
    pub(super) fn more(&self) -> u64 {
        self.count.saturating_sub(NAMED_MAX)
    }

    /// Traverses a snapshot. Returns the lost chunks that it needs.
    ///
    /// # Errors
    ///
    /// Returns an `Interrupted` error if the check was cancelled.
    pub(super) fn name_all(
        &mut self,
        id: TicketId,
        root: &Content,
        is_listed: bool,
    ) -> Result<HashSet<Fingerprint>> {
        self.is_listed = is_listed;
        self.ailing.clear();
        let mut all = Below::default();
        // An explicit stack, because folders can be nested deeper than a thread's stack allows.
        let root = self.content(What::Folder, format!("snapshot {}: ", id.short()).into(), root);
        let mut stack = vec![root];
        while let Some(frame) = stack.last_mut() {
            if let Some(node) = frame.nodes.pop() {
                match self.known(&node) {
                    Some(below) => {
                        frame.below.add(below);
                        self.counted(below.count);
                    }
                    None => {
                        let path = frame.path.clone();
                        stack.push(self.chunk(&node, path)?);
                    }
                }
            } else if let Some(entry) = frame.entries.next() {
                let what = match entry.kind {
                    EntryKind::Folder => What::Folder,
                    _ => What::File,
                };
                let path = format!("{}/{}", frame.path, String::from_utf8_lossy(&entry.name));
                stack.push(self.content(what, path.into(), &entry.content));
            } else if let Some(frame) = stack.pop() {
                let below = self.leave(frame);
                stack.last_mut().map_or(&mut all, |above| &mut above.below).add(below);
            }
        }
        if !is_listed && all.count > 0 {
            let message = format!("forgotten; {} of its paths cannot be restored", all.count);
            let object = format!("snapshot {}", id.short());
            self.walk.check.finding(FindingKind::Unneeded, object, message);
        }
        Ok(std::mem::take(&mut self.lost))
    }

    /// Returns `true` while affected paths are reported one by one.
    fn names(&self) -> bool {
        self.is_listed && self.count < NAMED_MAX
    }

    fn counted(&mut self, count: u64) {
        if self.is_listed {
            self.count = self.count.saturating_add(count);
        }
    }

    /// Returns the known damage below a chunk, unless paths below it still have to be reported.
    fn known(&mut self, node: &Node) -> Option<Below> {
        let key = node.key();
        if self.well.get(&key).is_some() {
            return Some(Below::default());
        }
        let names = self.names();
        self.ailing.get(&key).copied().filter(|below| below.count == 0 || !names)
    }

    fn is_lost(&mut self, class: Class, fingerprint: Fingerprint) -> bool {
        let is_lost = self.walk.lost.contains_key(&(class, fingerprint));
        if is_lost {
            self.lost.insert(fingerprint);
        }
        is_lost
    }

    fn content(&mut self, what: What, path: Rc<str>, content: &Content) -> Frame {
        let mut frame = Frame::new(what, path);
        let mut is_broken = false;
        let is_tree = matches!(what, What::Folder);
        let entered = enter(content, is_tree, &mut frame.nodes, &mut |fingerprint, _, _| {
            is_broken |= self.is_lost(Class::Data, *fingerprint);
            Ok(())
        });
        frame.below.is_broken = is_broken || entered.is_err();
        frame.nodes.reverse();
        frame
    }

    /// Creates the frame of a chunk of a stream. A chunk that cannot be read makes the stream
    /// broken.
    fn chunk(&mut self, node: &Node, path: Rc<str>) -> Result<Frame> {
        self.walk.check.stop_if_cancelled()?;
        let mut frame = Frame::new(What::Chunk(node.key()), path);
        let fingerprint = node.fingerprint();
        if self.is_lost(Class::Meta, fingerprint) {
            frame.below.is_broken = true;
            return Ok(frame);
        }
        let bytes = self.walk.chunk(&fingerprint);
        match bytes.and_then(|bytes| node.decode(&bytes)) {
            Ok(Inside::Tree(entries)) => frame.entries = entries.into_iter(),
            Ok(Inside::Recipe(recipe)) => {
                let is_tree = matches!(node, Node::Recipe { is_tree: true, .. });
                let mut is_broken = false;
                let mut data = |fingerprint: &Fingerprint, _, _| {
                    is_broken |= self.is_lost(Class::Data, *fingerprint);
                    Ok(())
                };
                enter_recipe(&recipe, is_tree, &mut frame.nodes, &mut data)?;
                frame.below.is_broken = is_broken;
                frame.nodes.reverse();
            }
            Err(error) if error.kind() == Kind::Interrupted => return Err(error),
            Err(_) => frame.below.is_broken = true,
        }
        Ok(frame)
    }

    /// Ends the traversal of `frame`. Returns the damage that it passes on to the frame above.
    fn leave(&mut self, frame: Frame) -> Below {
        let Frame { what, path, below, .. } = frame;
        match what {
            What::Chunk(key) if below.is_well() => self.well.put(key, ()),
            What::Chunk(key) => self.ailing.put(key, below),
            What::Folder | What::File => {
                return Below {
                    is_broken: false,
                    count: below.count.saturating_add(u64::from(self.name(what, &path, below))),
                };
            }
        }
        below
    }

    /// Reports a folder or a file if its own stream is broken. Returns `true` if the stream is
    /// broken.
    fn name(&mut self, what: What, path: &str, below: Below) -> bool {
        if !below.is_broken {
            return false;
        }
        if self.names() {
            let (path, message) = match what {
                What::Folder => (format!("{path}/"), "a part of this folder cannot be listed"),
                _ => (path.to_owned(), "cannot be restored from this snapshot"),
            };
            self.walk.check.finding(FindingKind::Affected, path, message);
        }
        self.counted(1);
        true
    }
}

impl Frame {
    fn new(what: What, path: Rc<str>) -> Frame {
        let (below, nodes, entries) = (Below::default(), Vec::new(), Vec::new().into_iter());
        Frame { what, path, below, nodes, entries }
    }
}
