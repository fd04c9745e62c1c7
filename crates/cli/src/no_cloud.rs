//! The place of `cloud.rs` in a program that is built without the feature `clouds`.

use std::sync::Arc;

use anyhow::Result;
use cutpoint_storage::Storage;

use crate::args::Global;
use crate::exit::Failure;

/// Refuses the address.
///
/// # Errors
///
/// Always fails, with exit code 2.
pub(crate) fn open(address: &str, _: &Global) -> Result<Arc<dyn Storage>> {
    let failure = Failure::failed(format!("{address}: this program is built without clouds"));
    Err(failure.with_remedy("install it with the feature `clouds`, which is on by default").into())
}
