//! Following readers that go from file to file: a thread finds the files that they will read next,
//! and has other threads decode these.

use std::sync::{Arc, Mutex, MutexGuard};

use crossbeam_channel::{Receiver, Sender, unbounded};
use cutpoint_repository::format::recipe::Segment;
use cutpoint_repository::{Entry, Fingerprint};

use super::file_cursor::FileCursor;
use super::lock;
use super::recipes::Recipes;
use super::table::NodeTable;
use super::walks::{Followed, Moved, Walks};
use crate::trees::{EntryPlace, Trees};

/// The size of a file's start that is decoded ahead, in bytes. What follows is decoded ahead when
/// the file is read.
const START_LEN_MAX: u64 = 4 << 20;

/// A request to the thread.
#[derive(Debug)]
enum Request {
    /// Follow the reader of the last unexpected node.
    Follow,
    Move(Moved),
}

/// The readers that are followed, and the end of the thread that follows them.
#[derive(Debug)]
pub(super) struct Follower {
    walks: Arc<Mutex<Walks>>,
    unexpected: Arc<Mutex<Option<u64>>>,
    requests: Sender<Request>,
    handing_over: Mutex<()>,
}

/// Files to hand over, with the numbers of their nodes. Other threads get none while this exists.
#[derive(Debug, Default)]
pub(super) struct FilesToHandOver<'a> {
    files: std::vec::IntoIter<(u64, EntryPlace)>,
    _turn: Option<MutexGuard<'a, ()>>,
}

impl Iterator for FilesToHandOver<'_> {
    type Item = (u64, EntryPlace);

    fn next(&mut self) -> Option<(u64, EntryPlace)> {
        self.files.next()
    }
}

impl Follower {
    /// Starts the thread, which ends when the value is dropped. It sends what is to be decoded to
    /// `jobs`.
    pub(super) fn new(
        table: Arc<Mutex<NodeTable>>,
        trees: Arc<Trees>,
        recipes: Arc<Recipes>,
        jobs: Sender<Fingerprint>,
    ) -> Follower {
        let walks = Arc::new(Mutex::new(Walks::default()));
        let unexpected = Arc::new(Mutex::default());
        let (requests, receiver) = unbounded();
        let thread = FollowerThread {
            walks: Arc::clone(&walks),
            unexpected: Arc::clone(&unexpected),
            table,
            trees,
            recipes,
            jobs,
        };
        std::thread::spawn(move || thread.run(&receiver));
        Follower { walks, unexpected, requests, handing_over: Mutex::default() }
    }

    /// Notes that the file `node` is read from its start on. Returns files that will probably be
    /// read next and whose folder was listed, unless another thread has such files.
    pub(super) fn read(&self, node: u64) -> FilesToHandOver<'_> {
        let turn = self.handing_over.try_lock().ok();
        let followed = lock(&self.walks).read(node, turn.is_some());
        // By the time the thread comes to a node, the reader has gone on from all but the last one.
        if followed.is_new && lock(&self.unexpected).replace(node).is_none() {
            self.requests.send(Request::Follow).ok();
        }
        self.move_on(followed, turn)
    }

    /// Notes that the folder `node` was listed to its end. Returns the same as [`Follower::read`].
    pub(super) fn listed(&self, node: u64) -> FilesToHandOver<'_> {
        let turn = self.handing_over.try_lock().ok();
        let followed = lock(&self.walks).listed(node, turn.is_some());
        self.move_on(followed, turn)
    }

    fn move_on<'a>(
        &self,
        followed: Followed,
        turn: Option<MutexGuard<'a, ()>>,
    ) -> FilesToHandOver<'a> {
        if let Some(moved) = followed.moved {
            self.requests.send(Request::Move(moved)).ok();
        }
        let turn = turn.filter(|_| !followed.files.is_empty());
        FilesToHandOver { files: followed.files.into_iter(), _turn: turn }
    }
}

/// The thread that follows readers.
struct FollowerThread {
    walks: Arc<Mutex<Walks>>,
    /// The node that was read last without being expected, until its reader is followed.
    unexpected: Arc<Mutex<Option<u64>>>,
    table: Arc<Mutex<NodeTable>>,
    trees: Arc<Trees>,
    recipes: Arc<Recipes>,
    jobs: Sender<Fingerprint>,
}

impl FollowerThread {
    fn run(&self, requests: &Receiver<Request>) {
        for request in requests {
            let moved = match request {
                Request::Move(moved) => Some(moved),
                Request::Follow => self.follow(),
            };
            let Some(mut moved) = moved else { continue };
            // A reader that needs a damaged folder gets the error.
            moved.run(|cursor| cursor.next_file(&self.trees).ok().flatten());
            let files = lock(&self.walks).put_back(moved);
            self.prepare(&files);
        }
    }

    /// Returns a cursor behind the last unexpected node, unless a reader was expected to read the
    /// node meanwhile.
    fn follow(&self) -> Option<Moved> {
        let node = lock(&self.unexpected).take()?;
        // The read is over: what could be handed over after it may have been read as well.
        let followed = lock(&self.walks).read(node, true);
        if !followed.is_new {
            return followed.moved;
        }
        let ancestors = lock(&self.table).ancestors(node);
        let cursor = FileCursor::behind(&ancestors, &self.trees).ok().flatten();
        cursor.map(Moved::new)
    }

    /// Has the chunks at the start of each file decoded.
    fn prepare(&self, files: &[EntryPlace]) {
        let mut last = None;
        for fingerprint in files.iter().flat_map(|entry| self.chunks(entry)) {
            // Small files share chunks.
            if last.replace(fingerprint) != Some(fingerprint) {
                self.jobs.send(fingerprint).ok();
            }
        }
    }

    fn chunks(&self, entry: &Entry) -> Vec<Fingerprint> {
        let mut chunks = Vec::new();
        let (mut at, end) = (0, entry.size.min(START_LEN_MAX));
        while at < end
            && let Ok(Some((start, segment))) = self.recipes.segment_at(&entry.content, at)
        {
            if let Segment::Chunk { fingerprint, .. } = segment {
                chunks.push(fingerprint);
            }
            at = start + segment.length();
        }
        chunks
    }
}
