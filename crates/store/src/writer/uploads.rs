//! Putting what an archive gives: large objects piece by piece.

use bytes::Bytes;

use super::archive::{SealedPart, Stored};
use super::region::RegionBuffers;
use crate::error::{Error, Result};
use crate::media::Staged;
use crate::name::ObjectName;
use crate::repository::{Repository, require_len};

/// Objects that are on their way to the medium: one container of each class at most.
#[derive(Debug, Default)]
pub struct Uploads {
    open: Vec<Upload>,
}

/// An object all of whose bytes are there; it exists once [`Writer::put`] has returned.
///
/// [`Writer::put`]: super::Writer::put
#[derive(Debug)]
pub struct Upload {
    name: ObjectName,
    staged: Option<Box<dyn Staged>>,
    /// What could not be staged, or is needed once more: parity is made of whole containers.
    bytes: Vec<u8>,
    len: u64,
    stored: Option<Stored>,
}

/// What [`Uploads::write`] gives back.
#[derive(Debug)]
pub struct Written {
    /// The object that ended with the part.
    pub upload: Option<Upload>,
    /// The region's buffers, for the next one.
    pub buffers: Option<RegionBuffers>,
}

impl Uploads {
    /// Takes the next part.
    ///
    /// # Errors
    ///
    /// As the medium.
    pub fn write(&mut self, repository: &Repository, mut part: SealedPart) -> Result<Written> {
        let found = self.open.iter().position(|upload| upload.name == part.name);
        let mut upload = match found {
            Some(found) => self.open.swap_remove(found),
            None => {
                // An object of one part is put at once.
                let staged = match part.is_last {
                    true => None,
                    false => {
                        let staged = repository.media().stage(&part.name.to_string());
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
        Ok(Written { upload, buffers: part.into_buffers() })
    }
}

impl Upload {
    pub(super) fn name(&self) -> ObjectName {
        self.name
    }

    /// Its length in bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Never: every object has a header.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Waits until the object has reached the disk under its name. Whoever has a writer gives the
    /// upload to [`Writer::put`](super::Writer::put) instead.
    ///
    /// # Errors
    ///
    /// As [`Repository::put`].
    pub fn finish(self, repository: &Repository) -> Result<Option<Stored>> {
        self.finish_and_keep(repository).map(|(stored, _)| stored)
    }

    /// The same; returns the bytes, too, where they are needed once more.
    pub(super) fn finish_and_keep(
        self,
        repository: &Repository,
    ) -> Result<(Option<Stored>, Bytes)> {
        let bytes = Bytes::from(self.bytes);
        match self.staged {
            Some(staged) => repository.put_staged(self.name, staged)?,
            None => repository.put(self.name, bytes.clone())?,
        }
        Ok((self.stored, bytes))
    }
}
