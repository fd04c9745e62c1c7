//! A repository for a while, into which a backup is made to learn how large it would be.
//!
//! The code of backups writes it, with the settings of a new repository, so that its size is that of
//! a real one and not of a model. Either it keeps nothing but sizes, which is enough for one backup,
//! or it keeps its objects in a file without a name, sealed with a key that is never stored.

mod repository;
mod storage;

pub use repository::{ScratchBackup, ScratchOptions, ScratchRepository};
pub use storage::StoredSizes;
