//! Advisories about dependencies: known vulnerabilities and yanked versions.

use crate::{cargo, output, run};

/// Checks that no dependency has an advisory that `deny.toml` does not name.
///
/// # Errors
///
/// Returns an error for an advisory, if cargo-deny is missing, or if its database is not available,
/// because unchecked dependencies may have advisories.
pub(crate) fn check() -> Result<(), String> {
    output(cargo(&["deny", "--version"])).map_err(|error| {
        format!(
            "cargo-deny: cannot be run, so that advisories were not checked; `cargo install --locked \
             cargo-deny` installs it ({})",
            error.trim_end()
        )
    })?;
    output(cargo(&["deny", "fetch", "db"])).map_err(|error| {
        format!(
            "the database of advisories: cannot be fetched, so that advisories were not checked; \
             `[advisories]` in deny.toml says from where ({})",
            error.trim_end()
        )
    })?;
    run(cargo(&["deny", "--offline", "check", "advisories"]))
}
