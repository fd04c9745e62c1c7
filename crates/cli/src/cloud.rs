//! Repositories in Azure Blob Storage and Google Cloud Storage.

use std::sync::Arc;

use anyhow::Result;
use cutpoint_storage::{Cloud, CloudSettings, Storage};

use crate::args::Global;
use crate::{interrupt, throttle};

/// The beginnings of the names of variables with credentials and addresses.
const VARIABLES: [&str; 4] = ["AZURE_", "GOOGLE_", "IDENTITY_", "STORAGE_EMULATOR_HOST"];

/// Opens the storage at `address`. No request is made yet.
///
/// # Errors
///
/// Fails if the address is invalid, or if credentials are missing or cannot be read.
pub(crate) fn open(address: &str, global: &Global) -> Result<Arc<dyn Storage>> {
    let mut settings = CloudSettings::parse(address)?;
    // An empty variable counts as unset.
    let variables = std::env::vars_os().filter_map(|(name, value)| {
        let (name, value) = (name.into_string().ok()?, value.into_string().ok()?);
        let is_known = VARIABLES.iter().any(|known| name.starts_with(known));
        (is_known && !value.is_empty()).then_some((name, value))
    });
    settings.variables = variables.collect();
    settings.throttle = throttle::shared(&global.load);
    Ok(Arc::new(Cloud::open(&settings, interrupt::environment())?))
}
