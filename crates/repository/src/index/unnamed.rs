//! Containers that no readable segment names, and whose own tables of contents list their contents.

use std::collections::HashSet;

use cutpoint_storage::{ObjectKind, Result};

use super::container_toc::ContainerToc;
use super::runs::Run;
use crate::format::fingerprint::Class;
use crate::format::names::{ObjectName, PartName};
use crate::format::segment::Segment;
use crate::repo::repository::Repository;
use crate::repo::view::Hidden;
use crate::util::tolerance::Tolerance;

/// Reads the tables of contents of all containers that may be `hidden` and are not `named`. A table
/// of contents that cannot be read is skipped, so that its chunks are not found.
///
/// # Errors
///
/// Returns an error if the storage cannot list, or fails for more containers than single
/// bad sectors explain.
pub(super) fn search(
    repository: &Repository,
    hidden: &Hidden,
    named: &HashSet<(Class, PartName)>,
    mut tolerance: Tolerance,
) -> Result<Run> {
    let mut found = Segment::default();
    for kind in [ObjectKind::Data, ObjectKind::Meta] {
        for (path, stored_len) in repository.storage().list(kind.folder())? {
            let Ok(ObjectName::Container(class, part)) = ObjectName::parse(&path) else { continue };
            if named.contains(&(class, part)) || !hidden.may_name(part.ticket) {
                continue;
            }
            match ContainerToc::read(repository, class, part, stored_len) {
                Ok(loaded) => found.append(&loaded.segment()),
                Err(error) => drop(tolerance.of_one(error)?),
            }
        }
    }
    found.hints.sort_unstable();
    Ok(Run::in_memory(Vec::new(), &found))
}
