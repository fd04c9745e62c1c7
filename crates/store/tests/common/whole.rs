//! A reader of a complete repository.

use std::sync::Arc;

use cutpoint_store::error::{Error, Result};
use cutpoint_store::reader::Reader;
use cutpoint_store::repository::Repository;
use cutpoint_store::view::View;

/// Opens a reader, and expects that nothing that counts is unreadable.
pub(crate) fn reader_of_all(repository: &Arc<Repository>) -> Result<Reader> {
    let reader = Reader::open(repository.clone(), View::list(repository)?)?;
    let view = reader.view();
    match view.unreadable.iter().chain(&reader.index().unreadable()).next() {
        Some((name, error)) => Err(Error::new(error.kind(), name, error)),
        None => Ok(reader),
    }
}
