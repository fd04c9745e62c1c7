//! The parity objects that exist, by container.

use std::collections::BTreeMap;

use cutpoint_storage::{ObjectKind, Result};

use crate::format::fingerprint::Class;
use crate::format::names::{ObjectName, PartName};
use crate::repo::repository::Repository;

/// Parity objects and their lengths, by the containers that they protect.
pub(crate) type ParityListing = BTreeMap<(Class, PartName), Vec<(ObjectName, u64)>>;

/// Lists all parity objects.
///
/// # Errors
///
/// Returns any error of the storage.
pub(crate) fn list(repository: &Repository) -> Result<ParityListing> {
    Ok(sorted(repository.storage().list(ObjectKind::Parity.folder())?))
}

/// Selects the names of parity objects from `paths`, by container.
pub(crate) fn sorted(paths: impl IntoIterator<Item = (String, u64)>) -> ParityListing {
    let mut listed = ParityListing::new();
    for (path, len) in paths {
        if let Ok(name @ ObjectName::Parity { class, container, .. }) = ObjectName::parse(&path) {
            listed.entry((class, container)).or_default().push((name, len));
        }
    }
    listed
}
