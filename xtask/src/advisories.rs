//! Advisories about dependencies: known vulnerabilities, versions that were taken back.

use crate::{cargo, output, run};

/// No dependency may have an advisory that `deny.toml` does not name.
///
/// # Errors
///
/// An advisory; a missing cargo-deny, or a database that cannot be had: dependencies that nobody has
/// looked at are not without advisories.
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
