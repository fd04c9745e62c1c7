//! The place of `rest.rs` in a program that is built without the feature `rest`.

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
    let (scheme, _) = address.split_once(':').unwrap_or_default();
    let failure = Failure::failed(format!("{scheme}: this program is built without REST"));
    Err(failure.with_remedy("install it with the feature `rest`, which is on by default").into())
}

/// Refuses the address, as [`open`] does.
///
/// # Errors
///
/// Always fails, with exit code 2.
pub(crate) fn create(address: &str, global: &Global) -> Result<Arc<dyn Storage>> {
    open(address, global)
}

/// Returns the scheme of an address, because the rest may have a password.
pub(crate) fn shown(address: &str) -> String {
    let (scheme, _) = address.split_once(':').unwrap_or_default();
    format!("{scheme}:...")
}

/// Returns `false`, because no address is understood.
pub(crate) fn has_password(_: &str) -> bool {
    false
}
