//! The log: segments of records, written one behind the other, and read again after a crash.

mod recent;
mod replay;
mod writer;

pub(crate) use self::replay::{Replay, Replayed, Target, read_headers};
pub(crate) use self::writer::{LogWriter, Mark};
