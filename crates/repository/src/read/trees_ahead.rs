//! Trees that are read ahead of a walk through a snapshot.
//!
//! Each folder of a snapshot is found in the tree of the folder above. A walk of far storage that reads
//! one tree after the other waits for a request, or two, at each of them. [`TreesAhead`] knows the
//! chunks of trees that the walk will reach, in the order of the walk. A thread of its own fetches the
//! first of them together, looks into them for folders, and puts the chunks of these in their places.
//! The number of rounds until a folder is found is thus its depth, not the number of folders before it.
//!
//! What is read ahead is advice, as that of a [`ReadPlan`](super::ReadPlan): a walk may skip folders,
//! and reads by itself what was not read ahead or cannot be read.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::chunk_bytes::ChunkBytes;
use super::plan::ReadStep;
use super::reader::Reader;
use crate::format::fingerprint::{Class, Fingerprint};
use crate::format::recipe::{Content, RecipeChunk, Segment};
use crate::format::tree::{EntryKind, entries_in};

/// The maximum number of chunks that are fetched together.
const ROUND_CHUNKS_MAX: usize = 256;
/// The number of chunks ahead of the walk from which on no more are looked into. A few small chunks can
/// name many folders.
const NODES_MAX: usize = 16 * 1024;

/// The trees of a snapshot, read ahead of one walk.
#[derive(Debug)]
pub struct TreesAhead<'a> {
    pub(super) reader: &'a Reader,
    state: Mutex<State>,
    changed: Condvar,
    /// The maximum size of the decoded regions ahead of the walk, in bytes, unless one chunk needs more.
    bytes_max: usize,
    /// The size of the decoded regions ahead of the walk, in bytes.
    bytes: Arc<AtomicUsize>,
}

#[derive(Debug, Default)]
struct State {
    /// The chunks that the walk has not reached, in its order.
    nodes: VecDeque<Node>,
    next_number: u64,
    /// The regions of the chunk that the walk has reached last.
    current: Option<Arc<Round>>,
    /// Set while the walk waits for the first node.
    is_awaited: bool,
    is_ended: bool,
}

impl State {
    fn number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }
}

/// A chunk of a tree, or of its recipe.
#[derive(Clone, Copy, Debug)]
struct TreeChunk {
    fingerprint: Fingerprint,
    is_recipe: bool,
}

/// A chunk that the walk has not reached.
#[derive(Debug)]
struct Node {
    chunk: TreeChunk,
    /// Tells nodes of equal chunks apart.
    number: u64,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    /// Nothing is known of the chunk.
    Open,
    /// The chunk is being read.
    Busy,
    /// The chunk was read, if it could be. The nodes of the folders in it follow.
    Read(Option<ChunkBytes>, Arc<Round>),
}

/// Regions that were fetched together.
#[derive(Debug)]
struct Round {
    _step: ReadStep,
    size: usize,
    bytes: Arc<AtomicUsize>,
}

impl Drop for Round {
    fn drop(&mut self) {
        self.bytes.fetch_sub(self.size, Ordering::Relaxed);
    }
}

/// The result of reading a chunk ahead.
struct ReadChunk {
    number: u64,
    bytes: Option<ChunkBytes>,
    /// The chunks of the folders in the chunk.
    below: Vec<TreeChunk>,
}

impl Reader {
    /// Creates the state of a walk that begins at the tree `root`, for up to `bytes_max` bytes of
    /// decoded regions. One thread must [`run`](TreesAhead::run) beside the walk. Returns `None` if the
    /// storage is near, where nothing is read ahead.
    pub fn trees_ahead(&self, root: &Content, bytes_max: usize) -> Option<TreesAhead<'_>> {
        let mut state = State::default();
        for chunk in chunks_of(root) {
            let node = Node { chunk, number: state.number(), stage: Stage::Open };
            state.nodes.push_back(node);
        }
        self.index.reads_ahead().then(|| TreesAhead {
            reader: self,
            state: Mutex::new(state),
            changed: Condvar::new(),
            bytes_max,
            bytes: Arc::default(),
        })
    }
}

impl TreesAhead<'_> {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'s>(&self, state: MutexGuard<'s, State>) -> MutexGuard<'s, State> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads ahead until [`TreesAhead::end`].
    pub fn run(&self) {
        // The walk must not wait for this thread if it panics.
        let _end = TreesAheadEnd(self);
        while let Some(nodes) = self.next_round() {
            let chunks: Vec<_> = nodes.iter().map(|(_, chunk)| chunk.fingerprint).collect();
            let (step, count) = self.reader.fetch_meta(&chunks, self.bytes_max / 2);
            let size = step.size();
            self.bytes.fetch_add(size, Ordering::Relaxed);
            let round = Arc::new(Round { _step: step, size, bytes: self.bytes.clone() });
            let read = nodes[..count].iter().map(|(number, chunk)| {
                // An error is that of the walk, once it gets there.
                let bytes = self.reader.try_chunk(Class::Meta, &chunk.fingerprint).ok();
                let below = bytes.as_ref().map(|bytes| below(*chunk, bytes));
                ReadChunk { number: *number, bytes, below: below.unwrap_or_default() }
            });
            self.end_round(read.collect(), &round);
        }
    }

    /// Ends reading ahead. What the walk still needs, it reads itself.
    pub fn end(&self) {
        let mut state = self.lock();
        *state = State { is_ended: true, ..State::default() };
        drop(state);
        self.changed.notify_all();
    }

    /// Waits for chunks to read, and returns the first of them. Returns `None` at the end.
    fn next_round(&self) -> Option<Vec<(u64, TreeChunk)>> {
        let mut state = self.lock();
        loop {
            if state.is_ended {
                return None;
            }
            let is_small = state.nodes.len() < NODES_MAX;
            let has_room = self.bytes.load(Ordering::Relaxed) <= self.bytes_max / 2;
            let count_max = match (is_small, has_room || state.is_awaited) {
                (true, true) => ROUND_CHUNKS_MAX,
                (false, _) if state.is_awaited => 1,
                _ => 0,
            };
            let open = state.nodes.iter_mut().filter(|node| matches!(node.stage, Stage::Open));
            let begun = open.take(count_max).map(|node| {
                node.stage = Stage::Busy;
                (node.number, node.chunk)
            });
            let begun: Vec<_> = begun.collect();
            if !begun.is_empty() {
                return Some(begun);
            }
            state = self.wait(state);
        }
    }

    /// Enters the results of a round, in the order of the walk. What was not read is for a later round.
    fn end_round(&self, read: Vec<ReadChunk>, round: &Arc<Round>) {
        let mut state = self.lock();
        let mut read = read.into_iter();
        for mut node in std::mem::take(&mut state.nodes) {
            if !matches!(node.stage, Stage::Busy) {
                state.nodes.push_back(node);
                continue;
            }
            // Both are in the order of the walk, which may have passed the first of what was read. The
            // last nodes of the round may not have been read.
            let found = read.find(|it| it.number == node.number);
            let Some(ReadChunk { bytes, below, .. }) = found else {
                node.stage = Stage::Open;
                state.nodes.push_back(node);
                continue;
            };
            node.stage = Stage::Read(bytes, round.clone());
            state.nodes.push_back(node);
            for chunk in below {
                let node = Node { chunk, number: state.number(), stage: Stage::Open };
                state.nodes.push_back(node);
            }
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Notes that the walk has reached a chunk, and has skipped those before it. Returns the bytes, if
    /// they were read ahead; waits for them if they are going to be.
    pub(super) fn reach(&self, fingerprint: &Fingerprint) -> Option<ChunkBytes> {
        let is_it = |node: &Node| node.chunk.fingerprint == *fingerprint;
        let mut state = self.lock();
        state.current = None;
        let place = state.nodes.iter().position(is_it)?;
        state.nodes.drain(..place);
        // There is room again.
        self.changed.notify_all();
        while state.nodes.front().is_some_and(|node| !matches!(node.stage, Stage::Read(..))) {
            state.is_awaited = true;
            state = self.wait(state);
        }
        state.is_awaited = false;
        match state.nodes.pop_front()?.stage {
            Stage::Read(bytes, round) => {
                state.current = Some(round);
                bytes
            }
            Stage::Open | Stage::Busy => None,
        }
    }
}

/// Ends reading ahead when dropped.
#[derive(Debug)]
pub struct TreesAheadEnd<'t, 'a>(pub &'t TreesAhead<'a>);

impl Drop for TreesAheadEnd<'_, '_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// Returns the first chunks of a tree: its chunks, or that of its recipe. Of a tree that lies in the
/// folder's entry, returns those of the folders in it.
fn chunks_of(content: &Content) -> Vec<TreeChunk> {
    match content {
        Content::Empty => Vec::new(),
        Content::Raw(tree) => chunks_of_folders(tree),
        Content::Segments(segments) => chunks_in(segments, false),
        Content::Recipe(fingerprint) => {
            vec![TreeChunk { fingerprint: *fingerprint, is_recipe: true }]
        }
    }
}

fn chunks_in(segments: &[Segment], is_recipe: bool) -> Vec<TreeChunk> {
    let chunk = |segment: &Segment| match segment {
        Segment::Chunk { fingerprint, .. } => {
            Some(TreeChunk { fingerprint: *fingerprint, is_recipe })
        }
        Segment::Hole { .. } | Segment::Zeros { .. } => None,
    };
    segments.iter().filter_map(chunk).collect()
}

/// Returns the chunks that follow a chunk with these bytes: those that a recipe names, or those of the
/// folders in a tree. There are none if the bytes are invalid.
fn below(chunk: TreeChunk, bytes: &[u8]) -> Vec<TreeChunk> {
    if chunk.is_recipe {
        let recipe = RecipeChunk::decode(bytes);
        return recipe.map_or_else(|_| Vec::new(), |it| chunks_in(&it.segments, it.level > 0));
    }
    chunks_of_folders(bytes)
}

/// Returns the first chunks of the folders in these bytes of a tree. There are none if the bytes are
/// invalid.
fn chunks_of_folders(bytes: &[u8]) -> Vec<TreeChunk> {
    let entries = entries_in(bytes).unwrap_or_default();
    let folders = entries.iter().filter(|entry| entry.kind == EntryKind::Folder);
    folders.flat_map(|folder| chunks_of(&folder.content)).collect()
}
