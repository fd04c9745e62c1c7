//! What the source hands on: about a mebibyte at a time.

use std::path::Path;
use std::sync::Arc;

use cutpoint_store::format::tree::Entry;

/// How many bytes a block gathers: what is cut is to be in a cache still when it is fingerprinted.
pub(super) const BLOCK_SIZE: usize = 1 << 20;
/// A block also ends at this many events: trees of empty files have no bytes.
pub(super) const EVENT_COUNT_MAX: usize = 4096;

/// One thing that happened at the source.
#[derive(Debug)]
pub(super) enum Event {
    /// A folder begins.
    Enter(Arc<Entry>),
    /// The folder that began last ends.
    Leave,
    /// Something without bytes: a link, a device, an empty file.
    Item(Arc<Entry>),
    /// Another name of a file that came before.
    Link(Arc<Entry>),
    /// What follows, up to [`Event::File`] or [`Event::Dropped`], is of the file of this path.
    Begin(Arc<Path>),
    /// The next bytes of the file, so many of the block's.
    Data(usize),
    /// A stream ends: what follows is cut by itself.
    Cut,
    /// So many bytes of the file are a hole.
    Hole(u64),
    /// The file is complete; its size is that of what was read.
    File(Arc<Entry>),
    /// The file could not be read to its end.
    Dropped,
}

/// Bytes of files, and what they belong to.
#[derive(Debug, Default)]
pub(super) struct Block {
    pub(super) bytes: Vec<u8>,
    pub(super) events: Vec<Event>,
}
