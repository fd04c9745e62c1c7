//! The place of `serve.rs` in a program that is built without the feature `serve`.

use anyhow::Result;

use crate::args::{Global, Serve};
use crate::exit::{Exit, Failure};
use crate::report::Report;

/// Refuses the command.
///
/// # Errors
///
/// Always fails, with exit code 2.
pub(crate) fn run(_: &Serve, _: &Global, _: &Report) -> Result<Exit> {
    let failure = Failure::failed("serve: this program is built without the page");
    Err(failure.with_remedy("install it with the feature `serve`, which is on by default").into())
}
