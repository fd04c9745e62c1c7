//! Work that lanes leave to idle threads.

use std::{fmt, io};

use zstd::bulk::Compressor;

/// Work that a lane leaves to any thread that is free.
pub type Job = Box<dyn FnOnce(&mut Tools) + Send>;

/// The resources of a thread for jobs.
pub struct Tools {
    /// A compressor at the requested level.
    pub(crate) compressor: Compressor<'static>,
    /// The output buffer of the compressor.
    pub(crate) buffer: Vec<u8>,
}

impl fmt::Debug for Tools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tools").finish_non_exhaustive()
    }
}

impl Tools {
    pub(super) fn new(compression_level: i32) -> io::Result<Tools> {
        Ok(Tools { compressor: Compressor::new(compression_level)?, buffer: Vec::new() })
    }
}
