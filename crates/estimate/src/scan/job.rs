//! Work that lanes leave to idle threads.

use std::io;

use zstd::bulk::Compressor;

/// Work that a lane leaves to any thread that is free.
pub(crate) type Job = Box<dyn FnOnce(&mut Tools) + Send>;

/// The resources of a thread for jobs.
pub(crate) struct Tools {
    /// A compressor at the requested level.
    pub(crate) compressor: Compressor<'static>,
    /// The output buffer of the compressor.
    pub(crate) buffer: Vec<u8>,
}

impl Tools {
    pub(super) fn new(compression_level: i32) -> io::Result<Tools> {
        Ok(Tools { compressor: Compressor::new(compression_level)?, buffer: Vec::new() })
    }
}
