//! The place of `s3.rs` in a program that is built without the feature `s3`.

use std::sync::Arc;

use anyhow::Result;
use cutpoint_storage::{Error, Storage};

use crate::args::Global;
use crate::exit::Failure;

/// Refuses the address.
///
/// # Errors
///
/// Always fails, with exit code 2.
pub(crate) fn open(address: &str, _: &Global) -> Result<Arc<dyn Storage>> {
    let failure = Failure::failed(format!("{address}: this program is built without S3"));
    Err(failure.with_remedy("install it with the feature `s3`, which is on by default").into())
}

/// Returns `None`: there is no storage that could refuse a request.
pub(crate) fn remedy(_: &anyhow::Error) -> Option<String> {
    None
}

/// Returns `None`, as [`remedy`] does.
pub(crate) fn lacking(_: &Error) -> Option<&'static str> {
    None
}
