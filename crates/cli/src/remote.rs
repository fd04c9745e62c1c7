//! Repositories at addresses: the storage of each scheme.

use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use cutpoint_storage::{Sftp, SftpSettings, Storage};

use crate::args::Global;
use crate::{cloud, interrupt, rest, s3, throttle};

/// The beginning of an address of SFTP.
const SFTP: &str = "sftp://";
/// The beginnings of addresses in clouds other than S3.
const CLOUDS: [&str; 2] = ["azure://", "gs://"];
/// The beginnings of addresses behind restic's REST protocol.
const REST: [&str; 2] = ["rclone:", "rest:"];

/// Opens the storage at `address`, a result of [`place::address`](crate::place::address). No request
/// is made yet.
///
/// # Errors
///
/// Fails if the address is invalid, or if this program is built without its kind.
pub(crate) fn open(address: &str, global: &Global) -> Result<Arc<dyn Storage>> {
    if address.starts_with(SFTP) {
        return Ok(Arc::new(sftp(address, global)?));
    }
    if is_rest(address) {
        return rest::open(address, global);
    }
    if CLOUDS.iter().any(|scheme| address.starts_with(scheme)) {
        return cloud::open(address, global);
    }
    s3::open(address, global)
}

/// The place of a new repository.
pub(crate) struct NewPlace {
    pub(crate) storage: Arc<dyn Storage>,
    /// The storage, if it is a folder on an SSH server. A second connection might ask the user for a
    /// second time.
    sftp: Option<Sftp>,
}

impl NewPlace {
    /// Opens the storage at `address` as [`open`] does.
    pub(crate) fn open(address: &str, global: &Global) -> Result<NewPlace> {
        if !address.starts_with(SFTP) {
            return Ok(NewPlace { storage: open(address, global)?, sftp: None });
        }
        let sftp = sftp(address, global)?;
        Ok(NewPlace { storage: Arc::new(sftp.clone()), sftp: Some(sftp) })
    }

    /// Prepares the storage at `address`, the one of [`NewPlace::open`], for a repository. On an SSH
    /// server its folder is created if there is none; otherwise `refuse` is called with each name in
    /// it.
    ///
    /// # Errors
    ///
    /// Fails if the folder cannot be created, or a repository of another program is there, or with
    /// an error of `refuse`.
    pub(crate) fn create(
        self,
        address: &str,
        global: &Global,
        refuse: impl Fn(&Path) -> Result<()>,
    ) -> Result<Arc<dyn Storage>> {
        if is_rest(address) {
            // Of two processes of rclone, one would be idle.
            drop(self.storage);
            return rest::create(address, global);
        }
        if let Some(sftp) = self.sftp {
            sftp.entries()?.iter().try_for_each(|name| refuse(Path::new(name)))?;
            sftp.create_folder()?;
        }
        Ok(self.storage)
    }
}

fn is_rest(address: &str) -> bool {
    REST.iter().any(|scheme| address.starts_with(scheme))
}

fn sftp(address: &str, global: &Global) -> Result<Sftp> {
    let mut settings = SftpSettings::parse(address)?;
    if let Some(command) = global.sftp.ssh_command.as_ref().filter(|command| !command.is_empty()) {
        settings.command.clone_from(command);
    }
    settings.throttle = throttle::shared(&global.load);
    Ok(Sftp::open(&settings, interrupt::environment())?)
}
