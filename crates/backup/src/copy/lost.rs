//! The copies that the target has lost data of.

use std::collections::HashSet;
use std::sync::Arc;

use cutpoint_repository::format::recipe::Segment;
use cutpoint_repository::{Content, EntryKind, Fingerprint, Reader, Repository, Scope, View};
use cutpoint_storage::{Error, Kind, Result};

use super::monitor::CopyMonitor;

/// Tells which snapshots of a repository need chunks that a check has found to be lost, and that
/// have not been stored again.
pub(super) struct LostData {
    /// `None` if nothing is lost.
    reader: Option<Reader>,
    chunks: HashSet<Fingerprint>,
    /// The folders below which nothing is lost.
    sound: HashSet<Content>,
}

impl LostData {
    /// Finds the lost chunks by the records of damage in `view`.
    ///
    /// # Errors
    ///
    /// Returns any error of [`Reader::open`].
    pub(super) fn of(repository: &Arc<Repository>, view: &View) -> Result<LostData> {
        let (mut chunks, sound) = (HashSet::new(), HashSet::new());
        let damaged = view.damaged();
        if damaged.is_empty() {
            return Ok(LostData { reader: None, chunks, sound });
        }
        let reader = Reader::open(repository.clone(), view.clone())?;
        for damage in damaged {
            // A place that a writer may refer to is not the damaged one.
            match reader.index().find(damage.class, &damage.fingerprint, Scope::Write) {
                Ok(Some(_)) => {}
                Ok(None) => {
                    chunks.insert(damage.fingerprint);
                }
                Err(error) if error.is_loss() => {
                    chunks.insert(damage.fingerprint);
                }
                Err(error) => return Err(error),
            }
        }
        let reader = Some(reader).filter(|_| !chunks.is_empty());
        Ok(LostData { reader, chunks, sound })
    }

    /// Returns `true` if the snapshot with this root folder needs a lost chunk.
    ///
    /// # Errors
    ///
    /// Returns `Interrupted` if the monitor cancels the run, and any error of the storage except a
    /// loss.
    pub(super) fn concerns(&mut self, root: &Content, monitor: &dyn CopyMonitor) -> Result<bool> {
        let Some(reader) = &self.reader else { return Ok(false) };
        let mut folders = vec![root.clone()];
        let mut visited = Vec::new();
        while let Some(folder) = folders.pop() {
            if self.sound.contains(&folder) {
                continue;
            }
            if monitor.cancelled() {
                return Err(Error::new(Kind::Interrupted, "copy", "interrupted"));
            }
            for entry in reader.tree(&folder) {
                let entry = match entry {
                    Err(error) if error.is_loss() => return Ok(true),
                    entry => entry?,
                };
                match entry.kind {
                    EntryKind::Folder => folders.push(entry.content),
                    _ if needs(reader, &entry.content, &self.chunks)? => return Ok(true),
                    _ => {}
                }
            }
            visited.push(folder);
        }
        // All folders of the tree are sound only if it has been visited to its end.
        self.sound.extend(visited);
        Ok(false)
    }
}

/// Returns `true` if the content of an entry needs one of `chunks`, or a part of it cannot be read.
fn needs(reader: &Reader, content: &Content, chunks: &HashSet<Fingerprint>) -> Result<bool> {
    for segment in reader.segments(content) {
        match segment {
            Ok(Segment::Chunk { fingerprint, .. }) if chunks.contains(&fingerprint) => {
                return Ok(true);
            }
            Ok(_) => {}
            Err(error) if error.is_loss() => return Ok(true),
            Err(error) => return Err(error),
        }
    }
    Ok(false)
}
