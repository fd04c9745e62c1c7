//! `volume key`: the passphrases of an encrypted volume.

use std::sync::Arc;

use anyhow::Result;
use cutpoint_volume::{Access, Folder, Volume};

use crate::args::{Secrets, VolumeKey, VolumeKeyCommand};
use crate::event::{Event, Summary, VolumeKeyEvent};
use crate::exit::{Exit, Failure};
use crate::report::Report;
use crate::{escape, units, unlock};

pub(super) fn run(args: &VolumeKey, secrets: &Secrets, report: &Report) -> Result<Exit> {
    let (path, access) = match &args.command {
        VolumeKeyCommand::List { folder } => (folder, Access::Read),
        VolumeKeyCommand::Add { folder, .. } | VolumeKeyCommand::Remove { folder, .. } => {
            (folder, Access::Write)
        }
    };
    let folder: Arc<dyn Folder> = super::open_folder(path, access)?;
    let failed = |error| super::refusal(path, &error);
    if !Volume::is_encrypted(&*folder).map_err(|error| super::failure(path, &error))? {
        return Err(Failure::failed(format!("{}: not encrypted", path.display())).into());
    }
    let change = match &args.command {
        VolumeKeyCommand::List { .. } => {
            for key in Volume::keys(&folder).map_err(failed)? {
                let created_ns = super::seconds(key.created).saturating_mul(1_000_000_000);
                if report.is_json() {
                    let (number, label) = (key.number, key.note);
                    report.event(&Event::VolumeKey(VolumeKeyEvent {
                        number,
                        created_ns,
                        label,
                    }))?;
                    continue;
                }
                let (created, label) = (
                    units::date_time(created_ns / 1_000_000_000),
                    escape::for_terminal(key.note.as_bytes()),
                );
                report.line(format!("{:>4}  {created}  {label}", key.number).trim_end())?;
            }
            return Ok(Exit::Well);
        }
        VolumeKeyCommand::Add { secrets: new, label, .. } => {
            let secret = super::secret(path, &folder, secrets, report)?;
            let secret = secret.ok_or_else(|| Failure::failed("not encrypted"))?;
            let new = unlock::for_new_key(new, report)?;
            let passphrase = super::passphrase(&new.unlock)?;
            let number = Volume::add_key(&folder, &secret, passphrase, label).map_err(failed)?;
            report.note(&format!("Added key {number}."));
            "key_add"
        }
        VolumeKeyCommand::Remove { number, .. } => {
            Volume::remove_key(&folder, *number).map_err(failed)?;
            report.note(&format!("Removed key {number}."));
            "key_remove"
        }
    };
    if report.is_json() {
        report.event(&Event::Summary(Summary::VolumeChange { change }))?;
    }
    Ok(Exit::Well)
}
