//! An object that is sent while it is made.

use bytes::Bytes;

use super::Sftp;
use super::failure::Failure;
use super::put::Upload;
use crate::error::{Error, Result};
use crate::remote::Passing;
use crate::storage::{Put, Staged};

/// An object that is being sent. Its bytes are kept until the end: a connection that is cut loses
/// what the server had not synced, so that the object has to be sent once more.
#[derive(Debug)]
pub(super) struct StagedUpload {
    storage: Sftp,
    name: String,
    bytes: Vec<u8>,
    upload: Option<Upload>,
    /// Set once the object is sent at its end only.
    is_postponed: bool,
}

impl StagedUpload {
    pub(super) fn new(storage: &Sftp, name: &str) -> StagedUpload {
        let (storage, name) = (storage.clone(), name.to_owned());
        StagedUpload { storage, name, bytes: Vec::new(), upload: None, is_postponed: false }
    }

    /// Sends whole pieces of what is not sent yet.
    fn send(&mut self) -> Result<(), Failure> {
        let connection = self.storage.connection()?;
        self.storage.0.link.block_on(async {
            let upload = match &mut self.upload {
                Some(upload) => upload,
                None => {
                    let begun = self.storage.begin(&connection, &self.name, "").await?;
                    self.upload.insert(begun)
                }
            };
            upload.send_pieces(&self.bytes).await
        })
    }
}

impl Staged for StagedUpload {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.bytes.extend_from_slice(bytes);
        if self.is_postponed {
            return Ok(());
        }
        match self.send() {
            Ok(()) => Ok(()),
            Err(failure) if failure.may_pass() => {
                self.upload = None;
                self.is_postponed = true;
                Ok(())
            }
            Err(failure) => {
                Err(Error::of_put(self.storage.0.link.error("put", &self.name, 1, failure)))
            }
        }
    }

    fn finish(self: Box<Self>) -> Result<Put> {
        let StagedUpload { storage, name, bytes, upload, .. } = *self;
        storage.publish(&name, &Bytes::from(bytes), upload)
    }
}
