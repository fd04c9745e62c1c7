//! Remedies: the commands that resolve a finding.

use std::fmt;

use cutpoint_storage::{Kind, ObjectKind};

use super::Check;
use super::original::{Original, is_newer, original};
use crate::format::names::ObjectName;
use crate::index::{Loaded, read_record};

/// A command that resolves a finding. Variants are ordered as several of them should be tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Remedy {
    /// Restores the original bytes of objects, as far as they can be derived from the remaining
    /// ones.
    Objects {
        /// Set if containers have to be read completely to find the damage.
        read_data: bool,
    },
    /// Deletes settings that no key opens.
    RemoveSettings(ObjectName),
    /// Removes a keyring that has no intact copy, and that is not the one in use. Only its own
    /// secret could show whether it still opens.
    RemoveKey([u8; 16]),
    /// Replaces the key in use by a new one.
    ReplaceKey,
    /// Gives up a lost prune record, while no other client is at work.
    GiveUpPrune(u64),
    /// Rebuilds containers from parity, and damaged parity from containers.
    Data {
        /// Set if parity has to be read completely to find the damage.
        read_data: bool,
    },
    /// Stores data again that the sources still have.
    Backup,
    /// Rebuilds the index, and ends writers whose tickets cannot be read.
    Index,
    /// Lists data that is lost for good, keeps the rest, and forgets the damaged snapshots.
    Snapshots,
}

impl fmt::Display for Remedy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Remedy::Objects { read_data: false } => write!(f, "cutpoint repair objects"),
            Remedy::Objects { read_data: true } => write!(f, "cutpoint repair objects --read-data"),
            Remedy::RemoveSettings(name) => write!(f, "cutpoint repair objects --remove {name}"),
            Remedy::RemoveKey(id) => {
                write!(f, "cutpoint key remove --force ")?;
                id.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
            Remedy::ReplaceKey => write!(f, "cutpoint key passwd"),
            Remedy::GiveUpPrune(number) => write!(f, "cutpoint repair index --give-up {number}"),
            Remedy::Data { read_data: false } => write!(f, "cutpoint repair data"),
            Remedy::Data { read_data: true } => write!(f, "cutpoint repair data --read-data"),
            Remedy::Backup => write!(f, "cutpoint backup"),
            Remedy::Index => write!(f, "cutpoint repair index"),
            Remedy::Snapshots => write!(f, "cutpoint repair snapshots --forget"),
        }
    }
}

impl Remedy {
    /// Returns the effect of the command in a few words, beginning with a verb in the third person.
    pub fn effect(&self) -> &'static str {
        match self {
            Remedy::Objects { .. } => "repairs objects whose essential content is intact",
            Remedy::RemoveSettings(_) => "deletes settings that no key opens",
            Remedy::RemoveKey(_) => {
                "removes a damaged keyring; while its secret still works, run `key passwd` with it \
                 first"
            }
            Remedy::ReplaceKey => "replaces the key in use by a new one",
            Remedy::GiveUpPrune(_) => "discards a prune record, while no other client is active",
            Remedy::Data { .. } => "rebuilds damaged containers from parity",
            Remedy::Backup => "of the same sources: stores again data that they still have",
            Remedy::Index => "rebuilds the index from the containers",
            Remedy::Snapshots => "lists lost data, keeps the rest, and forgets damaged snapshots",
        }
    }
}

/// Returns the repair from parity, if there is any parity.
fn data(check: &Check<'_>) -> Vec<Remedy> {
    if check.parity.is_empty() { Vec::new() } else { vec![Remedy::Data { read_data: false }] }
}

/// Returns the commands that resolve an error about `object`.
pub(super) fn remedies(check: &Check<'_>, object: &str) -> Vec<Remedy> {
    let repository = check.repository;
    let Ok(name) = ObjectName::parse(object) else {
        // The object is a chunk, or a path of a snapshot, or there is no keyring at all.
        return match object {
            "keys" => Vec::new(),
            _ => [data(check), vec![Remedy::Backup, Remedy::Snapshots]].concat(),
        };
    };
    let record = match name {
        ObjectName::Container(class, part) => check.lock().records.get(&(class, part)).copied(),
        _ => None,
    };
    let is_full = match original(repository, name, record) {
        Original::Restorable(_) => {
            let read_data = matches!(name, ObjectName::Container(..));
            return vec![Remedy::Objects { read_data }];
        }
        Original::Intact => true,
        // It may be read another time, or be deleted by hand: then it is gone.
        Original::Unknown(Some(error))
            if error.kind() == Kind::Storage
                && matches!(
                    name.kind(),
                    ObjectKind::Commit | ObjectKind::Prune | ObjectKind::Ticket
                ) =>
        {
            return Vec::new();
        }
        Original::Unknown(_) => false,
    };
    if is_newer(repository, name) {
        return Vec::new();
    }
    match name {
        ObjectName::Config { number, .. } if number > repository.config_number() => {
            vec![Remedy::RemoveSettings(name)]
        }
        ObjectName::Key { id, .. } if repository.key_id() == Some(id) => vec![Remedy::ReplaceKey],
        ObjectName::Key { id, .. } => vec![Remedy::RemoveKey(id)],
        ObjectName::Commit(_) => vec![Remedy::Snapshots],
        ObjectName::Segment(_) | ObjectName::Ticket { .. } => vec![Remedy::Index],
        ObjectName::Parity { .. } => vec![Remedy::Data { read_data: true }],
        // The container is intact, but the index disagrees with it.
        ObjectName::Container(..) if is_full => vec![Remedy::Index],
        ObjectName::Container(class, part) => {
            let record = record.map_or_else(
                || {
                    let len = check.listing.get(object).copied().unwrap_or(0);
                    read_record(repository, class, part, len)
                },
                Ok,
            );
            let has_toc = record.and_then(|record| Loaded::at(repository, record)).is_ok();
            let mut remedies = data(check);
            remedies.push(Remedy::Backup);
            remedies.extend((!has_toc).then_some(Remedy::Index));
            remedies.push(Remedy::Snapshots);
            remedies
        }
        ObjectName::Prune(number) => vec![Remedy::GiveUpPrune(number)],
        ObjectName::Config { .. } | ObjectName::Similarity(_) => Vec::new(),
    }
}
