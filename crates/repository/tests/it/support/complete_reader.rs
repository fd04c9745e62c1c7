//! A reader of a complete repository.

use std::sync::Arc;

use cutpoint_repository::{Reader, Repository, View};
use cutpoint_storage::{Error, Result};

/// Opens a reader, and expects that nothing that counts is unreadable.
pub(crate) fn reader_of_all(repository: &Arc<Repository>) -> Result<Reader> {
    let reader = Reader::open(repository.clone(), View::list(repository)?)?;
    let view = reader.view();
    match view.unreadable.iter().chain(&reader.index().unreadable()).next() {
        Some((name, error)) => Err(Error::new(error.kind(), name, error)),
        None => Ok(reader),
    }
}
