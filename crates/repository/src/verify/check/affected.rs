//! The paths of a snapshot that cannot be restored.

use std::collections::HashSet;
use std::rc::Rc;

use cutpoint_storage::{Kind, Result};

use super::context::REPORTED_MAX;
use super::finding::FindingKind;
use super::reachable::ReachableChunks;
use crate::format::fingerprint::{Class, Fingerprint};
use crate::format::names::TicketId;
use crate::format::recipe::Content;
use crate::format::tree::{Entry, EntryKind, entries_in};
use crate::snapshots::mark::{Node, NodeContents, enter, enter_recipe};
use crate::util::cache::{Key, TwoGenerationCache};
use crate::util::display::name_text;

/// The damage in a part of a stream, and below it.
#[derive(Clone, Copy, Debug, Default)]
struct StreamDamage {
    /// Set if a part of the stream cannot be read.
    is_broken: bool,
    /// Number of paths below that cannot be restored; the maximum of the type means that number or
    /// more.
    count: u64,
}

impl StreamDamage {
    fn add(&mut self, other: StreamDamage) {
        self.is_broken |= other.is_broken;
        self.count = self.count.saturating_add(other.count);
    }

    fn is_undamaged(&self) -> bool {
        !self.is_broken && self.count == 0
    }
}

/// A folder, a file, or a metadata chunk of one, that is being traversed.
struct Frame {
    kind: FrameKind,
    path: Rc<str>,
    below: StreamDamage,
    nodes: Vec<Node>,
    entries: std::vec::IntoIter<Entry>,
}

/// The stream, or the part of a stream, that a frame stands for.
#[derive(Clone, Copy)]
enum FrameKind {
    Folder,
    File,
    Chunk(Key),
}

/// Reports the paths that cannot be restored. Paths below a shared part are reported one by one
/// until [`REPORTED_MAX`] is reached, and only counted after that, because there can be very many.
/// Undamaged parts are traversed once.
pub(super) struct AffectedPaths<'a> {
    reachable: &'a ReachableChunks<'a>,
    /// Number of affected paths of listed snapshots.
    count: u64,
    /// Chunks below which nothing is missing, in any snapshot.
    undamaged: TwoGenerationCache<()>,
    // State of the current snapshot:
    /// Set if the snapshot is listed. The affected paths of a forgotten one are only counted.
    is_listed: bool,
    /// The missing chunks that the traversal has met.
    missing: HashSet<Fingerprint>,
    /// The damage below the other chunks.
    damaged: TwoGenerationCache<StreamDamage>,
}

impl<'a> AffectedPaths<'a> {
    pub(super) fn new(reachable: &'a ReachableChunks<'a>) -> AffectedPaths<'a> {
        AffectedPaths {
            reachable,
            count: 0,
            undamaged: TwoGenerationCache::default(),
            is_listed: true,
            missing: HashSet::new(),
            damaged: TwoGenerationCache::default(),
        }
    }

    /// Returns the number of affected paths of listed snapshots that were not reported.
    pub(super) fn more(&self) -> u64 {
        self.count.saturating_sub(REPORTED_MAX)
    }

    /// Traverses a snapshot. Returns the missing chunks that it needs.
    ///
    /// # Errors
    ///
    /// Returns an `Interrupted` error if the check was cancelled.
    pub(super) fn report_snapshot(
        &mut self,
        id: TicketId,
        root: &Content,
        is_listed: bool,
    ) -> Result<HashSet<Fingerprint>> {
        self.is_listed = is_listed;
        self.damaged.clear();
        let mut all = StreamDamage::default();
        // An explicit stack, because folders can be nested deeper than a thread's stack allows.
        let root =
            self.content(FrameKind::Folder, format!("snapshot {}: ", id.short()).into(), root);
        let mut stack = vec![root];
        while let Some(frame) = stack.last_mut() {
            if let Some(node) = frame.nodes.pop() {
                match self.known_damage(&node) {
                    Some(below) => {
                        frame.below.add(below);
                        self.add_count(below.count);
                    }
                    None => {
                        let path = frame.path.clone();
                        stack.push(self.chunk(&node, path)?);
                    }
                }
            } else if let Some(entry) = frame.entries.next() {
                let kind = match entry.kind {
                    EntryKind::Folder => FrameKind::Folder,
                    _ => FrameKind::File,
                };
                let path = format!("{}/{}", frame.path, name_text(&entry.name));
                stack.push(self.content(kind, path.into(), &entry.content));
            } else if let Some(frame) = stack.pop() {
                let below = self.leave(frame);
                stack.last_mut().map_or(&mut all, |above| &mut above.below).add(below);
            }
        }
        if !is_listed && all.count > 0 {
            let message = format!("forgotten; {} of its paths cannot be restored", all.count);
            let object = format!("snapshot {}", id.short());
            self.reachable.check.report(FindingKind::Unneeded, object, message);
        }
        Ok(std::mem::take(&mut self.missing))
    }

    /// Returns `true` while affected paths are reported one by one.
    fn reports_paths(&self) -> bool {
        self.is_listed && self.count < REPORTED_MAX
    }

    fn add_count(&mut self, count: u64) {
        if self.is_listed {
            self.count = self.count.saturating_add(count);
        }
    }

    /// Returns the known damage below a chunk, unless paths below it still have to be reported.
    fn known_damage(&mut self, node: &Node) -> Option<StreamDamage> {
        let key = node.key();
        if self.undamaged.get(&key).is_some() {
            return Some(StreamDamage::default());
        }
        let reports_paths = self.reports_paths();
        self.damaged.get(&key).copied().filter(|below| below.count == 0 || !reports_paths)
    }

    fn is_missing(&mut self, class: Class, fingerprint: Fingerprint) -> bool {
        let is_missing = self.reachable.missing.contains_key(&(class, fingerprint));
        if is_missing {
            self.missing.insert(fingerprint);
        }
        is_missing
    }

    fn content(&mut self, kind: FrameKind, path: Rc<str>, content: &Content) -> Frame {
        let mut frame = Frame::new(kind, path);
        let mut is_broken = false;
        let is_tree = matches!(kind, FrameKind::Folder);
        if let (true, Content::Raw(tree)) = (is_tree, content) {
            match entries_in(tree) {
                Ok(entries) => frame.entries = entries.into_iter(),
                Err(_) => frame.below.is_broken = true,
            }
            return frame;
        }
        let entered = enter(content, is_tree, &mut frame.nodes, &mut |fingerprint, _, _| {
            is_broken |= self.is_missing(Class::Data, *fingerprint);
            Ok(())
        });
        frame.below.is_broken = is_broken || entered.is_err();
        frame.nodes.reverse();
        frame
    }

    /// Creates the frame of a chunk of a stream. A chunk that cannot be read makes the stream
    /// broken.
    fn chunk(&mut self, node: &Node, path: Rc<str>) -> Result<Frame> {
        self.reachable.check.stop_if_cancelled()?;
        let mut frame = Frame::new(FrameKind::Chunk(node.key()), path);
        let fingerprint = node.fingerprint();
        if self.is_missing(Class::Meta, fingerprint) {
            frame.below.is_broken = true;
            return Ok(frame);
        }
        let bytes = self.reachable.chunk(&fingerprint);
        match bytes.and_then(|bytes| node.decode(&bytes)) {
            Ok(NodeContents::Tree(entries)) => frame.entries = entries.into_iter(),
            Ok(NodeContents::Recipe(recipe)) => {
                let is_tree = matches!(node, Node::Recipe { is_tree: true, .. });
                let mut is_broken = false;
                let mut data = |fingerprint: &Fingerprint, _, _| {
                    is_broken |= self.is_missing(Class::Data, *fingerprint);
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
    fn leave(&mut self, frame: Frame) -> StreamDamage {
        let Frame { kind, path, below, .. } = frame;
        match kind {
            FrameKind::Chunk(key) if below.is_undamaged() => self.undamaged.put(key, ()),
            FrameKind::Chunk(key) => self.damaged.put(key, below),
            FrameKind::Folder | FrameKind::File => {
                return StreamDamage {
                    is_broken: false,
                    count: below
                        .count
                        .saturating_add(u64::from(self.report_path(kind, &path, below))),
                };
            }
        }
        below
    }

    /// Reports a folder or a file if its own stream is broken. Returns `true` if the stream is
    /// broken.
    fn report_path(&mut self, kind: FrameKind, path: &str, below: StreamDamage) -> bool {
        if !below.is_broken {
            return false;
        }
        if self.reports_paths() {
            let (path, message) = match kind {
                FrameKind::Folder => (format!("{path}/"), "a part of this folder cannot be listed"),
                _ => (path.to_owned(), "cannot be restored from this snapshot"),
            };
            self.reachable.check.report(FindingKind::Affected, path, message);
        }
        self.add_count(1);
        true
    }
}

impl Frame {
    fn new(kind: FrameKind, path: Rc<str>) -> Frame {
        let (below, nodes, entries) = (StreamDamage::default(), Vec::new(), Vec::new().into_iter());
        Frame { kind, path, below, nodes, entries }
    }
}
