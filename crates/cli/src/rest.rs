//! Repositories behind restic's REST protocol: remotes of rclone, and servers.

use std::sync::Arc;

use anyhow::Result;
use cutpoint_storage::{Rest, RestSettings, Storage};

use crate::args::Global;
use crate::unlock::{FROM_REST_PASSWORD_VARIABLE, REST_PASSWORD_VARIABLE};
use crate::{interrupt, throttle};

/// The variable with the user of a server, if the address has none.
const USER: &str = "CUTPOINT_REST_USER";

/// The same for a repository that is only read to make another one. The server of one repository
/// must not get the password of the other one's.
const FROM_USER: &str = "CUTPOINT_FROM_REST_USER";

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

/// Returns `true` if the address has a password.
pub(crate) fn has_password(address: &str) -> bool {
    RestSettings::parse(address)
        .is_ok_and(|settings| settings.password.is_some_and(|password| !password.is_empty()))
}

fn place(address: &str, global: &Global) -> Result<Rest> {
    let mut settings = RestSettings::parse(address)?;
    // An empty variable counts as unset.
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    if settings.user.is_none() {
        let (user, password) = match global.rest.is_source {
            true => (FROM_USER, FROM_REST_PASSWORD_VARIABLE),
            false => (USER, REST_PASSWORD_VARIABLE),
        };
        settings.user = variable(user);
        settings.password = variable(password);
    }
    if let Some(command) = global.rest.rclone_command.as_ref().filter(|command| !command.is_empty())
    {
        settings.command.clone_from(command);
    }
    settings.throttle = throttle::shared(&global.load);
    Ok(Rest::open(&settings, interrupt::environment())?)
}
