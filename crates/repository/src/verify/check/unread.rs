//! The age of what no check has read for longest.

use cutpoint_storage::{ObjectKind, Result};

use super::coverage::Coverage;
use crate::format::names::ObjectName;
use crate::repo::repository::Repository;

/// Returns the time since which the stored byte that was read longest ago is unread, in nanoseconds
/// since 1970; `None` if there are no containers. For a container that was never read, this is the
/// time of its put, by the clock of the storage.
///
/// # Errors
///
/// Returns any error of the storage.
pub fn oldest_unread_ns(repository: &Repository, coverage: &Coverage) -> Result<Option<i64>> {
    let storage = repository.storage();
    let mut oldest = None;
    for kind in [ObjectKind::Data, ObjectKind::Meta] {
        for object in storage.list_stamped(kind.folder())? {
            let Ok(ObjectName::Container(class, part)) = ObjectName::parse(&object.name) else {
                continue;
            };
            let since_ns = match (coverage.last_read_ns(class, part), object.stamp_ns) {
                (Some(read_ns), _) => Some(read_ns),
                (None, Some(put_ns)) => Some(put_ns),
                (None, None) => storage.stamp_ns(&object.name)?,
            };
            oldest = oldest.into_iter().chain(since_ns).min();
        }
    }
    Ok(oldest)
}
