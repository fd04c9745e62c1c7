//! The end of a run: exit codes, and the errors that need a special treatment.

use cutpoint_repository::format::newer::Newer;
use cutpoint_storage::Error as StoreError;
pub(crate) use cutpoint_terminal::exit::{Exit, Failure, TABLE};

/// Returns the causes of `error` that are objects of a newer key epoch.
pub(crate) fn newer_epochs(error: &anyhow::Error) -> impl Iterator<Item = &StoreError> {
    let causes = error.chain().filter_map(|cause| cause.downcast_ref::<StoreError>());
    causes.filter(|cause| Newer::is_epoch_of(cause))
}
