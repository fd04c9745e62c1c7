//! Containers that no readable segment names. Their directories say what they hold.

use std::collections::HashSet;

use super::run::Run;
use super::{load_directory, read_record};
use crate::error::{Result, Tolerance};
use crate::fingerprint::Class;
use crate::format::directory::Form;
use crate::format::segment::Segment;
use crate::name::{ObjectKind, ObjectName, PartName};
use crate::repository::Repository;
use crate::view::Hidden;

/// Reads the directories of all containers that may be `hidden` and are not `named`. One that cannot
/// be read is passed over: its chunks are not found.
///
/// # Errors
///
/// Where the medium does not list, or fails for so many containers that it is to blame itself.
pub(super) fn look_for(
    repository: &Repository,
    hidden: &Hidden,
    named: &HashSet<(Class, PartName)>,
    mut tolerance: Tolerance,
) -> Result<Run> {
    let mut found = Segment::default();
    for kind in [ObjectKind::Data, ObjectKind::Meta] {
        for (path, stored_len) in repository.media().list(kind.folder())? {
            let Ok(ObjectName::Container(class, part)) = ObjectName::parse(&path) else { continue };
            if named.contains(&(class, part)) || !hidden.may_name(part.ticket) {
                continue;
            }
            let read = read_record(repository, class, part, stored_len)
                .and_then(|record| Ok((record, load_directory(repository, &record)?)));
            let (record, directory) = match read {
                Ok(read) => read,
                Err(error) => {
                    tolerance.of_one(error)?;
                    continue;
                }
            };
            let number = u32::try_from(found.containers.len()).unwrap_or(u32::MAX);
            found.containers.push(record);
            let chunks = directory.chunks.iter().filter(|chunk| chunk.form != Form::Literal);
            found.hints.extend(chunks.map(|chunk| (chunk.fingerprint.hint(), number)));
        }
    }
    found.hints.sort_unstable();
    Ok(Run::in_memory(Vec::new(), &found))
}
