//! `volume create`: creates a volume, or a disk in a volume.

use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use cutpoint_terminal::units::short_size;
use cutpoint_volume::{CreateOptions, Folder, LocalFolder, Volume};

use super::control::Request;
use crate::args::{Encryption, Secrets, VolumeCreate};
use crate::event::{Event, Summary, VolumeCreated};
use crate::exit::{Exit, Failure};
use crate::report::Report;
use crate::unlock;

/// The arguments of a new volume.
pub(super) struct NewVolume<'a> {
    pub(super) folder: &'a Path,
    pub(super) disk: &'a str,
    pub(super) size: u64,
    pub(super) block_size: u64,
    pub(super) mode: &'a str,
    pub(super) compression: &'a str,
    pub(super) verifies_duplicates: bool,
}

pub(crate) fn run(args: &VolumeCreate, secrets: &Secrets, report: &Report) -> Result<Exit> {
    let VolumeCreate { folder, size, disk, block_size, mode, compression, verify_duplicates } =
        args;
    if folder.join("volume").exists() {
        return add(args, secrets, report);
    }
    let new = NewVolume {
        folder,
        disk,
        size: *size,
        block_size: *block_size,
        mode,
        compression,
        verifies_duplicates: verify_duplicates.is_on(),
    };
    let (options, _) = volume(&new, secrets, report)?;
    let encrypted = options.passphrase.is_some();
    let mode = options.mode.to_string();
    if report.is_json() {
        let (size_bytes, block_size_bytes) = (*size, *block_size);
        let created = VolumeCreated { size_bytes, block_size_bytes, mode, disk, encrypted };
        report.event(&Event::Summary(Summary::VolumeCreate(created)))?;
    } else {
        let shown = folder.display();
        report.note(&format!(
            "Created {shown}: {} in blocks of {}, mode {mode}, {}. `cutpoint volume serve {shown}` \
             offers it to clients.",
            short_size(*size),
            short_size(*block_size),
            if encrypted { "encrypted" } else { "not encrypted" },
        ));
    }
    Ok(Exit::Well)
}

/// Creates a volume with its first disk, and returns its options and its locked folder.
pub(super) fn volume(
    new: &NewVolume<'_>,
    secrets: &Secrets,
    report: &Report,
) -> Result<(CreateOptions, Arc<LocalFolder>)> {
    // A size that has no 32 bits is refused as every other wrong one.
    let block_size = u32::try_from(new.block_size).unwrap_or(u32::MAX);
    let mut options = CreateOptions {
        disk: new.disk.to_owned(),
        compression: super::compression(new.compression)?,
        verifies_duplicates: new.verifies_duplicates,
        ..CreateOptions::new(new.size, block_size, super::mode(new.mode)?)
    };
    options.check().map_err(|error| Failure::failed(error.to_string()))?;
    if secrets.encryption != Some(Encryption::None) {
        let secret = unlock::for_new(secrets, "volume", report)?;
        options.passphrase = Some(super::passphrase(&secret.unlock)?.to_vec());
    }
    let shown = new.folder.display();
    let folder = LocalFolder::create(new.folder).map_err(|error| match error.kind() {
        std::io::ErrorKind::DirectoryNotEmpty => {
            let failure = Failure::failed(format!("{shown}: not empty"));
            failure.with_remedy("name another folder; one that does not exist is created")
        }
        _ => super::failed(new.folder, &error),
    })?;
    let local = Arc::new(folder);
    let folder: Arc<dyn Folder> = local.clone();
    Volume::create(&folder, &options).map_err(|error| super::failure(new.folder, &error))?;
    Ok((options, local))
}

/// Adds a disk to a volume.
fn add(args: &VolumeCreate, secrets: &Secrets, report: &Report) -> Result<Exit> {
    let VolumeCreate { folder, disk, size, .. } = args;
    let request = Request::CreateDisk { name: disk.clone(), size: *size };
    super::request(folder, &request, secrets, report)?;
    if report.is_json() {
        report.event(&Event::Summary(Summary::VolumeChange { change: "create_disk" }))?;
    } else {
        report.note(&format!("Created the disk {disk} of {}.", short_size(*size)));
    }
    Ok(Exit::Well)
}
