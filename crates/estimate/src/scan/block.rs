//! Blocks of about a mebibyte, in which the source passes on bytes and events.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use cutpoint_repository::Entry;

/// The target size of a block in bytes, small enough that chunks are still in the cache when they
/// are fingerprinted.
pub(super) const BLOCK_SIZE: usize = 1 << 20;
/// The maximum number of events in a block. A tree of empty files has events and no bytes.
pub(super) const EVENT_COUNT_MAX: usize = 4096;

/// An event at the source.
#[derive(Debug)]
pub(super) enum Event {
    /// A folder begins.
    Enter(Arc<Entry>),
    /// The folder that began last ends.
    Leave,
    /// An entry without bytes: a link, a device, an empty file.
    Item(Arc<Entry>),
    /// Another name of a file that came before.
    Link(Arc<Entry>),
    /// The file of this path begins. All events up to [`Event::File`] or [`Event::Dropped`] belong
    /// to it.
    Begin(Arc<Path>),
    /// The next bytes of the file: this number of bytes of the block.
    Data(usize),
    /// A stream ends, and the bytes that follow are cut independently of it.
    Cut,
    /// A part of a stream begins, of which only the chunks that start in `owned` count.
    Part {
        /// The offset of the next bytes in the file.
        offset: u64,
        /// The offsets at which chunks count.
        owned: Range<u64>,
        /// Set if the part begins at the start of the stream.
        is_first: bool,
    },
    /// A part of a stream ends. The stream goes on, but the rest is not read.
    Stop,
    /// A hole of this number of bytes.
    Hole(u64),
    /// The file is complete. The size in the entry is the number of bytes read.
    File(Arc<Entry>),
    /// The file could not be read to its end.
    Dropped,
}

/// Bytes of files, and the events that assign the bytes to files.
#[derive(Debug, Default)]
pub(super) struct Block {
    pub(super) bytes: Vec<u8>,
    pub(super) events: Vec<Event>,
}
