//! Repositories of other programs, from which snapshots are imported.

use std::fmt::Debug;

use bytes::Bytes;
use cutpoint_repository::{Content, Entry, Fingerprint};
use cutpoint_storage::Result;

/// The entries of a folder in a repository of another program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ForeignFolder {
    /// The entries, sorted by the bytes of their names.
    pub entries: Vec<Entry>,
    /// The names of entries that lack something which the other program has, each with a predicate
    /// for a message.
    pub warnings: Vec<(Vec<u8>, String)>,
}

/// A repository of another program.
///
/// Its snapshots have trees of [`Entry`]s as those of this program do. The content of a file is a
/// list of segments, whose fingerprints are the identifiers of chunks that the other program has
/// given. The content of a folder is opaque: equal contents are equal folders, with everything in
/// them.
pub trait ForeignRepository: Debug + Send + Sync {
    /// Returns the entries of the folder with the content `folder`.
    ///
    /// # Errors
    ///
    /// Returns an error of [loss](cutpoint_storage::Error::is_loss) if the folder is damaged or
    /// missing, and any error of the storage.
    fn tree(&self, folder: &Content) -> Result<ForeignFolder>;

    /// Returns the bytes of chunks, in the same order. Chunks that lie next to each other are read
    /// together.
    ///
    /// # Errors
    ///
    /// Each result is an error of loss if that chunk is damaged or missing, or any error of the
    /// storage.
    fn chunks(&self, ids: &[Fingerprint]) -> Vec<Result<Bytes>>;

    /// Returns the number of threads that should read chunks ahead.
    fn fetcher_count(&self) -> usize;
}
