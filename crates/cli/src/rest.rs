//! Repositories behind restic's REST protocol: remotes of rclone, and servers.

use std::sync::Arc;

use anyhow::Result;
use cutpoint_storage::{Rest, RestSettings, Storage};

use crate::args::Global;
use crate::{interrupt, throttle};

/// The variables with the account of a server, if the address has none.
const USER: &str = "CUTPOINT_REST_USER";
const PASSWORD: &str = "CUTPOINT_REST_PASSWORD";

/// Opens the storage at `address`. No request is made yet.
///
/// # Errors
///
/// Fails if the address is invalid.
pub(crate) fn open(address: &str, global: &Global) -> Result<Arc<dyn Storage>> {
    Ok(Arc::new(place(address, global)?))
}

/// Opens the storage at `address` for a new repository.
///
/// # Errors
///
/// Fails as [`open`] does, or if a repository of restic is there.
pub(crate) fn create(address: &str, global: &Global) -> Result<Arc<dyn Storage>> {
    let place = place(address, global)?;
    place.require_free()?;
    Ok(Arc::new(place))
}

/// Returns an address without its password, for messages.
pub(crate) fn shown(address: &str) -> String {
    RestSettings::without_password(address)
}

fn place(address: &str, global: &Global) -> Result<Rest> {
    let mut settings = RestSettings::parse(address)?;
    // An empty variable counts as unset.
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    if settings.user.is_none() {
        settings.user = variable(USER);
        settings.password = variable(PASSWORD);
    }
    if let Some(command) = global.rest.rclone_command.as_ref().filter(|command| !command.is_empty())
    {
        settings.command.clone_from(command);
    }
    settings.throttle = throttle::shared(&global.load);
    Ok(Rest::open(&settings, interrupt::environment())?)
}
