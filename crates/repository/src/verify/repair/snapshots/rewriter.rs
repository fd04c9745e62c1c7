//! The traversal of a damaged snapshot, which writes its repaired copy.

use std::collections::HashSet;

use cutpoint_storage::{Error, Kind, Result};

use super::chunks::ChunkStates;
use super::folder::FolderFrame;
use super::losses::{Counts, LossLog};
use super::pieces::Piece;
use super::report::{PathLoss, RepairMonitor};
use super::streams::StreamStates;
use crate::format::commit::Snapshot;
use crate::format::fingerprint::{Class, Fingerprint};
use crate::format::names::TicketId;
use crate::format::recipe::{Content, Segment};
use crate::format::tree::{Entry, EntryKind};
use crate::read::Reader;
use crate::snapshots::mark::{Node, NodeContents};
use crate::util::cache::{self, Key, TwoGenerationCache};
use crate::verify::check::MissingData;
use crate::write::Inline;

/// Number of losses of a snapshot that are always reported one by one. After that, losses in a
/// folder that equals an earlier one are only counted, because a small snapshot can have very many
/// paths.
const LOSSES_NAMED_MAX: u64 = 10_000;

/// Maximum number of pieces of a damaged file; nothing is kept of a file with more. 2^30 pieces of
/// 16 KiB are 16 TiB, and a small recipe can name very many.
pub(super) const PIECES_MAX: u64 = 1 << 30;

/// Traverses a snapshot and, if it has a sink, writes the rest of the snapshot.
pub(super) struct Rewriter<'a> {
    pub(super) chunks: ChunkStates<'a>,
    /// The streams below recipes of the current snapshot.
    pub(super) streams: StreamStates,
    pub(super) losses: LossLog<'a>,
    /// Number of losses after which those of folders that were traversed before are only counted.
    named_max: u64,
    /// Folders in which nothing is missing or suspect, in any snapshot.
    undamaged: TwoGenerationCache<()>,
    /// The other folders of the current snapshot.
    rewritten: TwoGenerationCache<RewrittenFolder>,
    /// The cutting algorithm of the current snapshot.
    pub(super) cut: String,
}

/// A folder that has been traversed, and differs from the original.
struct RewrittenFolder {
    content: Content,
    counts: Counts,
}

/// The result of processing a part of a folder.
enum FrameResult<'a> {
    /// The folder has more entries.
    Continue,
    /// A subfolder has to be traversed first.
    Descend(Box<FolderFrame<'a>>),
    /// The folder has no more entries.
    Finish,
}

impl<'a> Rewriter<'a> {
    pub(super) fn new(
        reader: &'a Reader,
        missing: &'a MissingData,
        suspects: &'a HashSet<Fingerprint>,
        monitor: &'a dyn RepairMonitor,
    ) -> Rewriter<'a> {
        Rewriter {
            chunks: ChunkStates { reader, missing, suspects, is_refused: false },
            streams: StreamStates::default(),
            losses: LossLog::new(monitor),
            named_max: LOSSES_NAMED_MAX,
            undamaged: TwoGenerationCache::default(),
            rewritten: TwoGenerationCache::default(),
            cut: String::new(),
        }
    }

    /// Creates a rewriter that repeats the traversals of this one, and reports no losses.
    pub(super) fn silent_copy(&self, reader: &'a Reader) -> Rewriter<'a> {
        let ChunkStates { missing, suspects, .. } = self.chunks;
        let undamaged = self.undamaged.clone();
        let rewriter = Rewriter::new(reader, missing, suspects, &());
        Rewriter { undamaged, named_max: 0, ..rewriter }
    }

    /// Begins another snapshot.
    pub(super) fn begin(&mut self, id: TicketId, snapshot: &Snapshot) {
        self.cut.clone_from(&snapshot.cut);
        self.rewritten.clear();
        self.streams.clear();
        self.losses.begin(id);
        self.chunks.is_refused = false;
    }

    pub(super) fn stop_if_cancelled(&self) -> Result<()> {
        if self.losses.monitor.cancelled() {
            return Err(Error::new(Kind::Interrupted, "repair", "interrupted"));
        }
        Ok(())
    }

    /// Traverses the tree of a snapshot. Returns the root's new content if there is a sink.
    pub(super) fn rewrite(
        &mut self,
        root: &Content,
        mut sink: Option<&mut Inline>,
    ) -> Result<Content> {
        // An explicit stack, because folders can be nested deeper than a thread's stack allows.
        let mut stack = vec![self.frame(None, Vec::new(), root)?];
        loop {
            self.stop_if_cancelled()?;
            let Some(mut frame) = stack.pop() else { return Ok(Content::Empty) };
            match self.process(&mut frame, sink.as_deref_mut())? {
                FrameResult::Continue => stack.push(frame),
                FrameResult::Descend(below) => {
                    stack.push(frame);
                    stack.push(*below);
                }
                FrameResult::Finish => {
                    let (entry, content) = self.finish(frame, sink.as_deref_mut())?;
                    let Some((above, entry)) = stack.last_mut().zip(entry) else {
                        return Ok(content);
                    };
                    let is_undamaged = self.undamaged.get(&key(&entry.content)).is_some();
                    above.is_undamaged &= is_undamaged;
                    let content = if is_undamaged { entry.content } else { content };
                    above.push(
                        Entry { content, ..entry },
                        &mut self.losses,
                        sink.as_deref_mut(),
                    )?;
                }
            }
        }
    }

    fn process(
        &mut self,
        frame: &mut FolderFrame<'a>,
        sink: Option<&mut Inline>,
    ) -> Result<FrameResult<'a>> {
        if let Some(entry) = frame.entries.next() {
            let path = [&frame.path[..], b"/", &entry.name].concat();
            match entry.kind {
                EntryKind::Folder => return self.folder(frame, entry, path, sink),
                EntryKind::File => self.file(frame, entry, path, sink)?,
                _ => frame.push(entry, &mut self.losses, sink)?,
            }
            return Ok(FrameResult::Continue);
        }
        match frame.pieces.next(&mut self.chunks, sink)? {
            None => return Ok(FrameResult::Finish),
            Some(Piece::Missing(_)) => self.lose_entries(frame),
            Some(Piece::Present(Segment::Chunk { fingerprint, length, .. })) => {
                let bytes = self.chunks.reader.chunk(Class::Meta, &fingerprint)?;
                match (Node::Tree { fingerprint, length }).decode(&bytes)? {
                    NodeContents::Tree(entries) if frame.rises_to(&entries) => {
                        frame.is_undamaged &= !self.chunks.is_suspect(&fingerprint);
                        frame.entries = entries.into_iter();
                    }
                    _ => self.lose_entries(frame),
                }
            }
            Some(Piece::Present(_)) => return Err(Error::corrupt("tree", "has holes")),
        }
        Ok(FrameResult::Continue)
    }

    /// Reuses a folder that is known, or descends into it.
    fn folder(
        &mut self,
        frame: &mut FolderFrame<'a>,
        entry: Entry,
        path: Vec<u8>,
        sink: Option<&mut Inline>,
    ) -> Result<FrameResult<'a>> {
        let key = key(&entry.content);
        let may_name = self.losses.counts.loss < self.named_max;
        let rewritten = self.rewritten.get(&key).filter(|it| it.counts.loss == 0 || !may_name);
        if let Some(RewrittenFolder { content, counts }) = rewritten {
            let entry = Entry { content: content.clone(), ..entry };
            let counts = *counts;
            self.losses.repeat(counts);
            frame.is_undamaged = false;
            frame.push(entry, &mut self.losses, sink)?;
        } else if self.undamaged.get(&key).is_some() {
            frame.push(entry, &mut self.losses, sink)?;
        } else {
            let content = entry.content.clone();
            return Ok(FrameResult::Descend(Box::new(self.frame(Some(entry), path, &content)?)));
        }
        Ok(FrameResult::Continue)
    }

    /// Creates the frame of a folder that is to be traversed.
    fn frame(
        &mut self,
        entry: Option<Entry>,
        path: Vec<u8>,
        content: &Content,
    ) -> Result<FolderFrame<'a>> {
        let is_too_long =
            self.streams.of(&mut self.chunks, Class::Meta, content)?.piece_count > PIECES_MAX;
        let content = if is_too_long { &Content::Empty } else { content };
        let mut frame =
            FolderFrame::new(self.chunks.reader.repository().keys(), entry, path, content);
        frame.before = self.losses.counts;
        if is_too_long || !frame.enter_inline(content) {
            self.lose_entries(&mut frame);
        }
        Ok(frame)
    }

    fn lose_entries(&mut self, frame: &mut FolderFrame<'a>) {
        frame.is_undamaged = false;
        if !std::mem::replace(&mut frame.has_loss, true) {
            self.losses.loss(&[&frame.path[..], b"/"].concat(), &PathLoss::Entries);
        }
    }

    /// Ends a folder. Returns its entry and, if there is a sink, its new content.
    fn finish(
        &mut self,
        mut frame: FolderFrame<'a>,
        mut sink: Option<&mut Inline>,
    ) -> Result<(Option<Entry>, Content)> {
        while let Some((name, renamed)) = frame.renamed.pop_first() {
            frame.push_renamed(name, renamed, &mut self.losses, sink.as_deref_mut())?;
        }
        let is_undamaged = frame.is_undamaged && !frame.pieces.is_suspect;
        let content = match (sink, &frame.entry) {
            (None, _) => Content::Empty,
            (Some(sink), None) => frame.tree.finish(sink)?,
            (Some(sink), Some(_)) => frame.tree.finish_below(sink)?,
        };
        match &frame.entry {
            Some(entry) if is_undamaged => self.undamaged.put(key(&entry.content), ()),
            Some(entry) => {
                let (content, counts) = (content.clone(), self.losses.counts.since(frame.before));
                self.rewritten.put(key(&entry.content), RewrittenFolder { content, counts });
            }
            None => {}
        }
        Ok((frame.entry, content))
    }
}

/// Returns a key that identifies the content of a folder.
fn key(content: &Content) -> Key {
    let mut packed = Vec::new();
    match content {
        Content::Recipe(fingerprint) => return cache::key(fingerprint, 0),
        Content::Segments(segments) => {
            segments.iter().for_each(|segment| segment.pack_into(&mut packed));
        }
        Content::Raw(tree) => {
            return cache::key(&Fingerprint(*blake3::hash(tree).as_bytes()), 2);
        }
        Content::Empty => {}
    }
    cache::key(&Fingerprint(*blake3::hash(&packed).as_bytes()), 1)
}
