//! Work that lanes leave to idle threads.

use std::io;

use zstd::bulk::Compressor;

/// Work that a lane leaves to any idle thread.
pub(crate) type Job = Box<dyn FnOnce(&mut Tools) + Send>;

/// What a thread needs for jobs.
pub(crate) struct Tools {
    /// Compresses at the level that was asked for.
    pub(crate) compressor: Compressor<'static>,
    /// What it fills.
    pub(crate) buffer: Vec<u8>,
}

impl Tools {
    pub(super) fn new(compression_level: i32) -> io::Result<Tools> {
        Ok(Tools { compressor: Compressor::new(compression_level)?, buffer: Vec::new() })
    }
}
