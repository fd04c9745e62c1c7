//! The disks of a volume: `volume list`, `snapshot`, `clone`, `rollback`, `resize` and `delete`.

use std::path::Path;

use anyhow::Result;
use cutpoint_terminal::units::short_size;

use super::control::{Answer, Request};
use crate::args::{
    Secrets, VolumeChanged, VolumeClone, VolumeDelete, VolumeList, VolumeResize, VolumeRollback,
    VolumeSnapshot,
};
use crate::event::{self, Event, Summary};
use crate::exit::Exit;
use crate::report::Report;
use crate::units;

pub(super) fn list(args: &VolumeList, secrets: &Secrets, report: &Report) -> Result<Exit> {
    let answer = super::request(&args.folder, &Request::List, secrets, report)?;
    let Answer::List { disks, snapshots } = answer else { return Ok(Exit::Well) };
    if report.is_json() {
        for disk in disks {
            report.event(&Event::VolumeDisk(disk))?;
        }
        for snapshot in snapshots {
            report.event(&Event::VolumeSnapshot(snapshot))?;
        }
        return Ok(Exit::Well);
    }
    for disk in disks {
        let event::VolumeDisk { name, size_bytes, own_bytes } = disk;
        let (size, own) = (short_size(size_bytes), units::size(own_bytes));
        report.line(&format!("{name:<24} {size:>8}  {own:>10} of its own"))?;
        let prefix = format!("{name}@");
        for snapshot in snapshots.iter().filter(|it| it.name.starts_with(&prefix)) {
            let (size, own) = (short_size(snapshot.size_bytes), units::size(snapshot.own_bytes));
            let created = units::date_time(snapshot.created_ns / 1_000_000_000);
            let name = &snapshot.name;
            report.line(&format!("  {name:<22} {size:>8}  {own:>10} of its own  {created}"))?;
        }
    }
    Ok(Exit::Well)
}

pub(super) fn changed(args: &VolumeChanged, secrets: &Secrets, report: &Report) -> Result<Exit> {
    let VolumeChanged { folder, from, to } = args;
    let request = Request::Changed { from: from.clone(), to: to.clone() };
    let answer = super::request(folder, &request, secrets, report)?;
    let Answer::Changed { parts: Some(parts) } = answer else {
        let message = format!("{to} does not come from {from}, so that anything may have changed");
        return Err(crate::exit::Failure::failed(message).into());
    };
    for (offset, len) in parts {
        if report.is_json() {
            report.event(&Event::VolumePart(event::VolumePart { offset, size_bytes: len }))?;
        } else {
            report.line(&format!("{offset} {len}"))?;
        }
    }
    Ok(Exit::Well)
}

pub(super) fn snapshot(args: &VolumeSnapshot, secrets: &Secrets, report: &Report) -> Result<Exit> {
    let VolumeSnapshot { folder, disk, name } = args;
    let request = Request::Snapshot { disk: disk.clone(), name: name.clone() };
    let said = format!("Took the snapshot {disk}@{name}.");
    change(folder, &request, "snapshot", &said, secrets, report)
}

pub(super) fn clone(args: &VolumeClone, secrets: &Secrets, report: &Report) -> Result<Exit> {
    let VolumeClone { folder, from, name } = args;
    let request = Request::Clone { from: from.clone(), name: name.clone() };
    change(folder, &request, "clone", &format!("Cloned {from} as {name}."), secrets, report)
}

pub(super) fn roll_back(args: &VolumeRollback, secrets: &Secrets, report: &Report) -> Result<Exit> {
    let VolumeRollback { folder, snapshot } = args;
    let Some((disk, name)) = snapshot.split_once('@') else {
        let message = format!("{snapshot}: no snapshot (expected DISK@SNAPSHOT)");
        return Err(crate::exit::Failure::failed(message).into());
    };
    let request = Request::RollBack { disk: disk.to_owned(), snapshot: name.to_owned() };
    let said = format!("{disk} has the contents of {snapshot} again.");
    change(folder, &request, "rollback", &said, secrets, report)
}

pub(super) fn resize(args: &VolumeResize, secrets: &Secrets, report: &Report) -> Result<Exit> {
    let VolumeResize { folder, disk, size, shrink } = args;
    if !shrink {
        let answer = super::request(folder, &Request::List, secrets, report)?;
        if let Answer::List { disks, .. } = answer
            && disks.iter().any(|it| it.name == *disk && it.size_bytes > *size)
        {
            let message = format!("{disk}: smaller than now, and what lies behind would be lost");
            let failure = crate::exit::Failure::failed(message);
            return Err(failure.with_remedy("shrink its file system, then use --shrink").into());
        }
    }
    let request = Request::Resize { disk: disk.clone(), size: *size };
    let said =
        format!("{disk} has {} now. Clients see the size when they connect.", short_size(*size));
    change(folder, &request, "resize", &said, secrets, report)
}

pub(super) fn delete(args: &VolumeDelete, secrets: &Secrets, report: &Report) -> Result<Exit> {
    let VolumeDelete { folder, name } = args;
    let request = Request::Delete { name: name.clone() };
    change(folder, &request, "delete", &format!("Deleted {name}."), secrets, report)
}

/// Makes a change, and tells that it was made.
fn change(
    folder: &Path,
    request: &Request,
    change: &'static str,
    said: &str,
    secrets: &Secrets,
    report: &Report,
) -> Result<Exit> {
    super::request(folder, request, secrets, report)?;
    if report.is_json() {
        report.event(&Event::Summary(Summary::VolumeChange { change }))?;
    } else {
        report.note(said);
    }
    Ok(Exit::Well)
}
