//! Containers that no readable segment names, and whose own tables of contents list their contents.

use std::collections::HashSet;

use cutpoint_storage::{ObjectKind, Result};

use super::runs::Run;
use super::toc_batch::read_unlisted;
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
    let mut wanted = Vec::new();
    for kind in [ObjectKind::Data, ObjectKind::Meta] {
        for (name, stored_len) in repository.list_objects(kind)? {
            let ObjectName::Container(class, part) = name else { continue };
            if !named.contains(&(class, part)) && hidden.may_name(part.ticket) {
                wanted.push((class, part, stored_len));
            }
        }
    }
    read_unlisted(repository, &wanted, |_, _, loaded| {
        match loaded {
            Ok(loaded) => found.append(&loaded.segment()),
            Err(error) => drop(tolerance.of_one(error)?),
        }
        Ok(())
    })?;
    found.hints.sort_unstable();
    Ok(Run::in_memory(Vec::new(), &found))
}
