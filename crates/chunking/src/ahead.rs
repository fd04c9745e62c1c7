//! Cutting the bytes of a reader by several threads, which also read.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::any::Any;
use core::fmt;
use core::ops::Range;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::io::{self, ErrorKind, Read};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, Builder};

use crate::Chunker;
use crate::segments::{Frontier, List, ask, cut_until, join};

/// The number of blocks that are read without being cut, after a block for which cutting ahead did
/// not pay.
const REST_BLOCK_COUNT: usize = 16;

/// The chunks of a stream, returned one at a time, while other threads read and cut ahead
/// ([`Parallel::read`](crate::Parallel::read)).
pub struct ReadAhead<'a> {
    chunker: &'a dyn Chunker,
    /// Reads and cuts a block; returns `None` if there is no further block.
    produce: &'a (dyn Fn() -> Option<Product> + Sync),
    /// The receiver of blocks from other threads; `None` if this thread reads.
    products: Option<Receiver<Product>>,
    /// The sender that returns blocks for reuse.
    free: Sender<Block>,
    rest: &'a AtomicUsize,
    /// Blocks that arrived before their turn.
    early: Vec<Block>,
    next_index: usize,

    block: Block,
    /// The start of the next chunk in the block, unless the chunk begins in the bridge.
    start: usize,
    /// The ends of the block's chunks, of which the first `given_count` were returned.
    ends: Vec<usize>,
    given_count: usize,

    /// The bytes of chunks that begin in one block and end in another. Before them are the bytes of
    /// context that the rule also looks at.
    bridge: Vec<u8>,
    /// The start of the next chunk in the bridge.
    bridge_start: usize,
    /// The ends of the chunks that begin in the bridge, of which the first `bridge_given_count`
    /// were returned.
    bridge_ends: Vec<usize>,
    bridge_given_count: usize,
    /// The position in the bridge at which the bytes of the present block begin. The next chunk
    /// begins in the bridge if its start is before this position.
    border: usize,
    /// The minimum number of bytes of the chunk in the bridge at which the chunker is asked.
    wanted: usize,

    offset: u64,
}

/// The result of a thread's work: a block, or a panic.
type Product = Result<Block, Box<dyn Any + Send>>;

/// A part of the stream.
struct Block {
    index: usize,
    /// The bytes of the block. Before them are the bytes of context that the rule also looks at.
    bytes: Vec<u8>,
    start: usize,
    /// The cut-points in `bytes` if a chunk began at `start`; `None` if the block was not cut.
    list: Option<List>,
    next: Next,
}

impl Block {
    fn new() -> Block {
        Block { index: 0, bytes: Vec::new(), start: 0, list: None, next: Next::Block }
    }

    fn is_last(&self) -> bool {
        matches!(self.next, Next::Nothing)
    }
}

/// The continuation of a stream after a block.
enum Next {
    Block,
    /// The stream's end.
    Nothing,
    /// An error of the reader; `None` once it was returned.
    Failed(Option<io::Error>),
}

/// The location of a chunk.
enum Place {
    Block(Range<usize>),
    Bridge(Range<usize>),
}

/// The state of a stream that is being read.
struct Blocks {
    free: Receiver<Block>,
    next_index: usize,
    is_over: bool,
}

impl Blocks {
    /// Returns the block to be read next, waiting for a free one; `None` if nothing more is to be
    /// read.
    fn take(&mut self) -> Option<Block> {
        if self.is_over {
            return None;
        }
        let mut block = self.free.recv().ok()?;
        block.index = self.next_index;
        self.next_index += 1;
        Some(block)
    }
}

impl Block {
    fn make_room(&mut self, size: usize) {
        if self.bytes.capacity() < size {
            // The system provides zeroed pages only when they are touched.
            self.bytes = vec![0; size];
        }
        // The size is mostly the same as before, so that no zeros are written needlessly.
        self.bytes.resize(size, 0);
    }

    /// Reads into `bytes[from..]` until there are `size` bytes, or the stream ends or fails.
    fn fill(
        &mut self,
        from: usize,
        size: usize,
        mut read: impl FnMut(&mut [u8], usize) -> io::Result<usize>,
    ) {
        let mut end = from;
        self.next = Next::Block;
        while end < size {
            match read(&mut self.bytes[end..size], end) {
                Ok(0) => {
                    self.next = Next::Nothing;
                    break;
                }
                Ok(size) => end += size,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    self.next = Next::Failed(Some(error));
                    break;
                }
            }
        }
        self.bytes.truncate(end);
        // The bytes may be fewer than when the previous block was read.
        self.start = self.start.min(end);
    }
}

/// Cuts `block`, unless cutting ahead is at rest.
fn cut(chunker: &dyn Chunker, block: &mut Block, rest: &AtomicUsize) {
    let is_resting = rest.fetch_update(Relaxed, Relaxed, |count| count.checked_sub(1)).is_ok();
    block.list = (!is_resting).then(|| {
        let mut list = List::at(block.start);
        list.cut_until(chunker, &block.bytes, block.bytes.len(), !block.is_last());
        list
    });
}

/// Implements [`Parallel::read`](crate::Parallel::read); if there are no threads, the caller's
/// thread reads.
pub(crate) fn read<R: Read + Send, T>(
    chunker: &dyn Chunker,
    thread_count: usize,
    block_size: usize,
    reader: R,
    work: impl FnOnce(&mut ReadAhead<'_>) -> T,
) -> T {
    let context_size = chunker.context_size();
    // The reader is locked together with the last bytes of the stream, which are context for the
    // rule.
    let reader = Mutex::new((reader, Vec::new()));
    let read = |blocks: &Mutex<Blocks>| {
        // The lock of a reader that panicked is poisoned; its panic is being delivered.
        let (reader, context) = &mut *reader.lock().ok()?;
        let mut block = blocks.lock().ok()?.take()?;
        block.start = context.len();
        block.make_room(block.start + block_size);
        block.bytes[..block.start].copy_from_slice(context);
        block.fill(block.start, block.start + block_size, |buffer, _| reader.read(buffer));
        context.clear();
        context.extend(&block.bytes[block.bytes.len().saturating_sub(context_size)..]);
        if !matches!(block.next, Next::Block) {
            blocks.lock().ok()?.is_over = true;
        }
        Some(block)
    };
    run(chunker, thread_count, &read, work)
}

/// Implements [`Parallel::read_at`](crate::Parallel::read_at).
pub(crate) fn read_at<T>(
    chunker: &dyn Chunker,
    thread_count: usize,
    block_size: usize,
    read_at: impl Fn(&mut [u8], u64) -> io::Result<usize> + Sync,
    work: impl FnOnce(&mut ReadAhead<'_>) -> T,
) -> T {
    let context_size = chunker.context_size() as u64;
    let read = |blocks: &Mutex<Blocks>| {
        let mut block = blocks.lock().ok()?.take()?;
        let offset = block.index as u64 * block_size as u64;
        let before = offset.saturating_sub(context_size);
        // The difference is at most `context_size`.
        block.start = usize::try_from(offset - before).unwrap_or(usize::MAX);
        let size = block.start + block_size;
        block.make_room(size);
        block.fill(0, size, |buffer, end| read_at(buffer, before + end as u64));
        if !matches!(block.next, Next::Block) {
            blocks.lock().ok()?.is_over = true;
        }
        Some(block)
    };
    run(chunker, thread_count, &read, work)
}

/// Runs `thread_count` threads that read and cut, while `work` takes the chunks.
fn run<T>(
    chunker: &dyn Chunker,
    thread_count: usize,
    read: &(dyn Fn(&Mutex<Blocks>) -> Option<Block> + Sync),
    work: impl FnOnce(&mut ReadAhead<'_>) -> T,
) -> T {
    let (free, free_blocks) = channel();
    let (sender, products) = channel();
    let blocks = Blocks { free: free_blocks, next_index: 0, is_over: false };
    let blocks = Mutex::new(blocks);
    let rest = AtomicUsize::new(0);
    let produce = || {
        let work = || {
            let mut block = read(&blocks)?;
            cut(chunker, &mut block, &rest);
            Some(block)
        };
        match catch_unwind(AssertUnwindSafe(work)) {
            Ok(block) => block.map(Ok),
            Err(panic) => Some(Err(panic)),
        }
    };
    let ahead = ReadAhead {
        chunker,
        produce: &produce,
        products: None,
        free,
        rest: &rest,
        early: Vec::new(),
        next_index: 0,
        block: Block::new(),
        start: 0,
        ends: Vec::new(),
        given_count: 0,
        bridge: Vec::new(),
        bridge_start: 0,
        bridge_ends: Vec::new(),
        bridge_given_count: 0,
        border: 0,
        wanted: 0,
        offset: 0,
    };
    thread::scope(|scope| {
        // The threads end when this value is dropped, also by a panic.
        let mut ahead = ahead;
        let mut running_count = 0;
        for _ in 0..thread_count {
            let (sender, produce) = (sender.clone(), &produce);
            let run = move || {
                while let Some(product) = produce() {
                    if sender.send(product).is_err() {
                        return;
                    }
                }
            };
            // If the system has no threads left, the running ones do the work.
            running_count += usize::from(Builder::new().spawn_scoped(scope, run).is_ok());
        }
        drop(sender);
        // One block for each thread, and the present one, which is given back before the next is
        // taken.
        let block_count = running_count + 1;
        (0..block_count).for_each(|_| ahead.give_back(Block::new()));
        ahead.products = (running_count > 0).then_some(products);
        work(&mut ahead)
    })
}

impl ReadAhead<'_> {
    /// Returns the next chunk, or `None` at the end of the stream. The bytes stay valid until the
    /// next call.
    ///
    /// # Errors
    ///
    /// Returns any error of the reader except [`ErrorKind::Interrupted`], after which the read is
    /// retried. The chunks that end before the error are returned first. Nothing is read after an
    /// error: every later call fails, too.
    ///
    /// # Panics
    ///
    /// Panics if the reader or the chunker panicked in another thread, with the same payload.
    #[expect(clippy::should_implement_trait, reason = "an iterator cannot lend")]
    pub fn next(&mut self) -> io::Result<Option<&[u8]>> {
        let place = loop {
            if let Some(place) = self.find() {
                break place;
            }
            if !self.advance()? {
                return Ok(None);
            }
        };
        let chunk = match place {
            Place::Block(range) => &self.block.bytes[range],
            Place::Bridge(range) => &self.bridge[range],
        };
        self.offset += chunk.len() as u64;
        Ok(Some(chunk))
    }

    /// Returns the offset of the next chunk: the number of bytes returned so far.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the next chunk, if its end can be found in the bytes of the present block.
    fn find(&mut self) -> Option<Place> {
        if self.bridge_start < self.border {
            return self.find_in_bridge();
        }
        let &end = self.ends.get(self.given_count)?;
        self.given_count += 1;
        let start = core::mem::replace(&mut self.start, end);
        Some(Place::Block(start..end))
    }

    fn find_in_bridge(&mut self) -> Option<Place> {
        loop {
            if let Some(&end) = self.bridge_ends.get(self.bridge_given_count) {
                self.bridge_given_count += 1;
                let start = core::mem::replace(&mut self.bridge_start, end);
                self.wanted = 0;
                if end >= self.border {
                    self.enter(self.block.start + end - self.border);
                }
                return Some(Place::Bridge(start..end));
            }
            let held = self.bridge.len() - self.bridge_start;
            let taken = self.block.start + self.bridge.len() - self.border;
            let rest = &self.block.bytes[taken..];
            let lacking = self.wanted.saturating_sub(held);
            let is_all = lacking >= rest.len();
            if lacking > rest.len() && matches!(self.block.next, Next::Block) {
                self.bridge.extend(rest);
                return None;
            }
            self.bridge.extend(&rest[..rest.len().min(lacking)]);
            let more = !(is_all && self.block.is_last());
            self.bridge_ends.clear();
            self.bridge_given_count = 0;
            ask(self.chunker, &self.bridge, self.bridge_start, more, &mut self.bridge_ends);
            if self.bridge_ends.is_empty() {
                self.want(self.bridge.len() - self.bridge_start);
                if is_all {
                    return None;
                }
            }
        }
    }

    /// Finds the ends of the chunks from `start` on, a true cut-point in the block.
    fn enter(&mut self, start: usize) {
        let Block { bytes, list, .. } = &self.block;
        let more = !self.block.is_last();
        (self.start, self.given_count) = (start, 0);
        self.ends.clear();
        let mut reached = Frontier::at(start);
        if let Some(list) = list {
            let joined = join(self.chunker, bytes, reached, more, list, &mut self.ends);
            let gained_size = joined.map_or(0, |(_, gained_size)| gained_size);
            if gained_size < (bytes.len() - self.block.start) / 2 {
                self.rest.store(REST_BLOCK_COUNT, Relaxed);
            }
            let Some((joined, _)) = joined else { return };
            reached = joined;
        }
        cut_until(self.chunker, bytes, reached, bytes.len(), more, &mut self.ends);
    }

    /// Moves to the next block. Returns `false` at the end of the stream.
    fn advance(&mut self) -> io::Result<bool> {
        match &mut self.block.next {
            Next::Block => {}
            Next::Nothing => return Ok(false),
            Next::Failed(error) => {
                let error = error.take();
                return Err(error.unwrap_or_else(|| io::Error::other("the reader has failed")));
            }
        }
        if self.bridge_start >= self.border {
            let context = self.start.saturating_sub(self.chunker.context_size());
            self.bridge.clear();
            self.bridge_ends.clear();
            self.bridge_given_count = 0;
            self.bridge.extend(&self.block.bytes[context..]);
            self.bridge_start = self.start - context;
            self.want(self.bridge.len() - self.bridge_start);
        } else if self.block.list.is_some() {
            // The chunk is as large as a block.
            self.rest.store(REST_BLOCK_COUNT, Relaxed);
        }
        let block = core::mem::replace(&mut self.block, Block::new());
        if self.next_index > 0 {
            self.give_back(block);
        }
        self.block = self.receive()?;
        self.border = self.bridge.len();
        if self.bridge_start == self.border {
            self.enter(self.block.start);
        }
        Ok(true)
    }

    /// Records that `size` bytes of a chunk do not suffice to find its end.
    fn want(&mut self, size: usize) {
        // Double the number, because all of them are looked at again, but no more than are ever
        // needed.
        let needed_size = self.chunker.needed_size_max().unwrap_or(usize::MAX);
        self.wanted = size.saturating_mul(2).min(needed_size).max(size + 1);
    }

    fn give_back(&self, block: Block) {
        // After all threads have ended, there is no receiver.
        let _ = self.free.send(block);
    }

    /// Returns the next block of the stream.
    fn receive(&mut self) -> io::Result<Block> {
        let index = self.next_index;
        self.next_index += 1;
        loop {
            if let Some(place) = self.early.iter().position(|block| block.index == index) {
                return Ok(self.early.swap_remove(place));
            }
            let product = match &self.products {
                Some(products) => products.recv().ok(),
                None => (self.produce)(),
            };
            match product {
                Some(Ok(block)) => self.early.push(block),
                Some(Err(panic)) => resume_unwind(panic),
                // Nothing is received after the end of the stream.
                None => return Err(io::Error::other("the reader's threads have ended")),
            }
        }
    }
}

impl fmt::Debug for ReadAhead<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadAhead")
            .field("chunker", &self.chunker)
            .field("offset", &self.offset)
            .finish_non_exhaustive()
    }
}
