//! Puts the objects that a container writer produces, large ones piece by piece.

use bytes::Bytes;
use cutpoint_storage::{Error, Result, Staged};

use super::part::{CompletedObject, SealedPart};
use super::region::RegionBuffers;
use crate::format::names::ObjectName;
use crate::repo::repository::Repository;
use crate::repo::require_len;

/// Objects whose parts are being written: at most one container of each class.
#[derive(Debug, Default)]
pub struct Uploads {
    open: Vec<Upload>,
}

/// A complete object. It exists in the storage once [`Writer::put`] has returned.
///
/// [`Writer::put`]: super::Writer::put
#[derive(Debug)]
pub struct Upload {
    name: ObjectName,
    staged: Option<Box<dyn Staged>>,
    /// Bytes that were not staged, or are needed once more because parity is made of complete
    /// containers.
    bytes: Vec<u8>,
    len: u64,
    stored: Option<CompletedObject>,
}

/// The result of [`Uploads::write`].
#[derive(Debug)]
pub struct WriteOutcome {
    /// The object that is complete with this part.
    pub upload: Option<Upload>,
    /// The buffers of the region, for the next one.
    pub buffers: Option<RegionBuffers>,
}

impl Uploads {
    /// Writes the next part.
    ///
    /// # Errors
    ///
    /// Returns any error of the storage.
    pub fn write(&mut self, repository: &Repository, mut part: SealedPart) -> Result<WriteOutcome> {
        let found = self.open.iter().position(|upload| upload.name == part.name);
        let mut upload = match found {
            Some(found) => self.open.swap_remove(found),
            None => {
                // An object of a single part is put at once.
                let staged = match part.is_last {
                    true => None,
                    false => {
                        let staged = repository.storage().stage(&part.name.to_string());
                        staged.map_err(Error::of_put)?
                    }
                };
                Upload { name: part.name, staged, bytes: Vec::new(), len: 0, stored: None }
            }
        };
        let bytes = part.bytes();
        upload.len += bytes.len() as u64;
        require_len(part.name, upload.len)?;
        let is_kept = upload.staged.is_none() || repository.config().parity_percent > 0;
        if is_kept {
            upload.bytes.extend_from_slice(bytes);
        }
        if let Some(staged) = &mut upload.staged {
            staged.write(bytes).map_err(Error::of_put)?;
        }
        upload.stored = part.stored.take();
        let upload = if part.is_last {
            Some(upload)
        } else {
            self.open.push(upload);
            None
        };
        Ok(WriteOutcome { upload, buffers: part.into_buffers() })
    }
}

impl Upload {
    pub(super) fn name(&self) -> ObjectName {
        self.name
    }

    /// Returns `true` for an index segment, which names containers that were put before it.
    pub fn is_segment(&self) -> bool {
        matches!(self.name, ObjectName::Segment(_))
    }

    /// Returns the length of the object in bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Returns `false`, because every object has a header.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Waits until the object has reached the disk under its name. A caller with a writer must use
    /// [`Writer::put`](super::Writer::put) instead.
    ///
    /// # Errors
    ///
    /// Returns any error of [`Repository::put`].
    pub fn finish(self, repository: &Repository) -> Result<Option<CompletedObject>> {
        self.finish_and_keep(repository).map(|(stored, _)| stored)
    }

    /// Does the same as [`Upload::finish`], and also returns the bytes if they were kept.
    pub(super) fn finish_and_keep(
        self,
        repository: &Repository,
    ) -> Result<(Option<CompletedObject>, Bytes)> {
        let bytes = Bytes::from(self.bytes);
        match self.staged {
            Some(staged) => repository.put_staged(self.name, staged)?,
            None => repository.put(self.name, bytes.clone())?,
        }
        Ok((self.stored, bytes))
    }
}
