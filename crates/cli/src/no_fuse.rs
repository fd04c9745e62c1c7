//! The place of `fuse.rs` in a program that is built without the feature `mount`, or for a system
//! other than Linux.

use std::io;
use std::path::Path;

use anyhow::Result;
use cutpoint_backup::browse::Browser;

use crate::exit::Failure;

/// A mounted folder, which does not exist without the feature.
#[derive(Debug)]
pub(crate) enum Mounted {}

/// The end of an attempt to unmount a folder.
#[allow(dead_code, reason = "nothing is mounted without the feature")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unmounted {
    Entirely,
    InUse,
}

/// Refuses every folder.
///
/// # Errors
///
/// Always fails, with exit code 2.
pub(crate) fn prepare(_: &Path) -> Result<()> {
    let message = if cfg!(target_os = "linux") {
        "this program is built without `mount`"
    } else {
        "`mount` exists on Linux only"
    };
    let remedy = "install it with the feature `mount`, which is on by default, on Linux; `cutpoint \
                  restore` and `cutpoint cat` work everywhere";
    Err(Failure::failed(message).with_remedy(remedy).into())
}

impl Mounted {
    /// Does nothing, because [`prepare`] has refused the folder.
    ///
    /// # Errors
    ///
    /// Always fails, with exit code 2.
    pub(crate) fn new(folder: &Path, _: Browser, _: bool, _: usize) -> Result<Mounted> {
        prepare(folder)?;
        Err(Failure::failed("not mounted").into())
    }

    pub(crate) fn has_ended(&self) -> bool {
        match *self {}
    }

    pub(crate) fn unmount(&self) -> io::Result<Unmounted> {
        match *self {}
    }

    pub(crate) fn end(self) -> io::Result<()> {
        match self {}
    }
}
