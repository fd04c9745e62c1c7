//! The commands that resolve an error about an object.

use cutpoint_storage::{Kind, ObjectKind};

use super::remedy::Remedy;
use crate::format::names::ObjectName;
use crate::format::segment::ContainerRecord;
use crate::index::{ContainerToc, read_record};
use crate::repo::repository::Repository;
use crate::verify::original::{OriginalBytes, is_newer, original_bytes};

/// What the remedies of an error depend on, beside the name of its object.
pub(super) struct RemedySource<'a> {
    pub(super) repository: &'a Repository,
    /// Set if there is any parity.
    pub(super) has_parity: bool,
    /// The record of a container in the index.
    pub(super) record: Option<ContainerRecord>,
    /// The listed length of the object; 0 if it is not listed.
    pub(super) stored_len: u64,
}

/// Returns the repair from parity, if there is any parity.
fn data(source: &RemedySource<'_>) -> Vec<Remedy> {
    if source.has_parity { vec![Remedy::Data { read_data: false }] } else { Vec::new() }
}

/// Returns the commands that resolve an error about `object`.
pub(super) fn remedies(source: &RemedySource<'_>, object: &str) -> Vec<Remedy> {
    let repository = source.repository;
    let Ok(name) = ObjectName::parse(object) else {
        // The object is a chunk, or a path of a snapshot, or there is no keyring at all.
        return match object {
            "keys" => Vec::new(),
            _ => [data(source), vec![Remedy::Backup, Remedy::Snapshots]].concat(),
        };
    };
    let is_intact = match original_bytes(repository, name, source.record) {
        OriginalBytes::Restorable(_) => {
            let read_data = matches!(name, ObjectName::Container(..));
            return vec![Remedy::Objects { read_data }];
        }
        OriginalBytes::Intact => true,
        // It may be read another time, or be deleted by hand: then it is gone.
        OriginalBytes::Unknown(Some(error))
            if error.kind() == Kind::Storage
                && matches!(
                    name.kind(),
                    ObjectKind::Commit | ObjectKind::Prune | ObjectKind::Ticket
                ) =>
        {
            return Vec::new();
        }
        OriginalBytes::Unknown(_) => false,
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
        ObjectName::Container(..) if is_intact => vec![Remedy::Index],
        ObjectName::Container(class, part) => {
            let record = source
                .record
                .map_or_else(|| read_record(repository, class, part, source.stored_len), Ok);
            let has_toc = record.and_then(|record| ContainerToc::at(repository, record)).is_ok();
            let mut remedies = data(source);
            remedies.push(Remedy::Backup);
            remedies.extend((!has_toc).then_some(Remedy::Index));
            remedies.push(Remedy::Snapshots);
            remedies
        }
        ObjectName::Prune(number) => vec![Remedy::GiveUpPrune(number)],
        ObjectName::Config { .. } | ObjectName::Similarity(_) | ObjectName::View { .. } => {
            Vec::new()
        }
    }
}
