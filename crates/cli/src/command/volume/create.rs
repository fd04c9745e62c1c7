//! `volume create`: creates a virtual disk.

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

pub(crate) fn run(args: &VolumeCreate, secrets: &Secrets, report: &Report) -> Result<Exit> {
    if args.folder.join("volume").exists() {
        return add(args, secrets, report);
    }
    let mode = super::mode(&args.mode)?;
    // A size that has no 32 bits is refused as every other wrong one.
    let block_size = u32::try_from(args.block_size).unwrap_or(u32::MAX);
    let mut options = CreateOptions {
        disk: args.disk.clone(),
        compression: super::compression(&args.compression)?,
        ..CreateOptions::new(args.size, block_size, mode)
    };
    options.check().map_err(|error| Failure::failed(error.to_string()))?;
    let shown = args.folder.display();
    if secrets.encryption != Some(Encryption::None) {
        let secret = unlock::for_new(secrets, "volume", report)?;
        options.passphrase = Some(super::passphrase(&secret.unlock)?.to_vec());
    }
    let folder = LocalFolder::create(&args.folder).map_err(|error| match error.kind() {
        std::io::ErrorKind::DirectoryNotEmpty => {
            let failure = Failure::failed(format!("{shown}: not empty"));
            failure.with_remedy("name another folder; one that does not exist is created")
        }
        _ => super::failed(&args.folder, &error),
    })?;
    let folder: Arc<dyn Folder> = Arc::new(folder);
    Volume::create(&folder, &options).map_err(|error| super::failure(&args.folder, &error))?;
    if report.is_json() {
        report.event(&Event::Summary(Summary::VolumeCreate(VolumeCreated {
            size_bytes: args.size,
            block_size_bytes: args.block_size,
            mode: mode.to_string(),
            disk: &args.disk,
            encrypted: options.passphrase.is_some(),
        })))?;
    } else {
        report.note(&format!(
            "Created {shown}: {} in blocks of {}, mode {mode}, {}. `cutpoint volume serve {shown}` \
             offers it to clients.",
            short_size(args.size),
            short_size(args.block_size),
            if options.passphrase.is_some() { "encrypted" } else { "not encrypted" },
        ));
    }
    Ok(Exit::Well)
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
