//! The place of `volume.rs` in a program that is built without the feature `volume`.

use anyhow::Result;

use crate::args::{Global, Volume};
use crate::exit::{Exit, Failure};
use crate::report::Report;

/// Refuses the command.
///
/// # Errors
///
/// Always fails, with exit code 2.
pub(crate) fn run(_: &Volume, _: &Global, _: &Report) -> Result<Exit> {
    let failure = Failure::failed("volume: this program is built without volumes");
    Err(failure.with_remedy("install it with the feature `volume`, which is on by default").into())
}
