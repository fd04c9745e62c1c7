//! The place of `import.rs` in a program that is built without the feature `import`.

use anyhow::Result;

use crate::args::{Global, Import};
use crate::exit::{Exit, Failure};
use crate::report::Report;

/// Refuses the command.
///
/// # Errors
///
/// Always fails, with exit code 2.
pub(crate) fn run(_: &Import, _: &Global, _: &Report) -> Result<Exit> {
    let failure = Failure::failed("import: this program is built without imports");
    Err(failure.with_remedy("install it with the feature `import`, which is on by default").into())
}
