//! The options of a check.

use std::sync::Mutex;

use super::coverage::{Coverage, Portion};

/// The options of a check.
#[derive(Clone, Copy, Debug, Default)]
pub struct CheckOptions<'a> {
    /// The portion of the containers that is read completely; `None` to read only tables of
    /// contents and other metadata.
    pub read_data: Option<Portion>,
    /// The times at which earlier checks read containers. A check of a part begins with the
    /// containers that were not read for longest. Each container is noted here as soon as it is
    /// read.
    pub coverage: Option<&'a Mutex<Coverage>>,
    /// Number of threads that read containers; 0 for one per processor.
    pub threads: usize,
}
