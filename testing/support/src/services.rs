//! Tests that need a server, a terminal or a file system of their own. `cargo xtask check
//! --services` runs them.

use std::path::{Path, PathBuf};

use crate::skipped;

/// Returns `true` if the tests of services run, because `CUTPOINT_SERVICES` is `1`. Otherwise
/// reports that `what` was skipped.
pub fn services(what: &str) -> bool {
    if std::env::var("CUTPOINT_SERVICES").is_ok_and(|value| value == "1") {
        return true;
    }
    skipped(&format!("{what} did not run: `cargo xtask check --services` runs such tests"));
    false
}

/// Returns the path of a program that a test of services needs.
///
/// # Panics
///
/// Panics if there is no such program, and names the Debian package that has it.
pub fn program(name: &str, package: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders =
        std::env::split_paths(&path).chain(["/usr/sbin", "/usr/local/bin"].map(PathBuf::from));
    let found = folders.map(|folder| folder.join(name)).find(|program| program.is_file());
    found.unwrap_or_else(|| panic!("{name} is not there: install {package}"))
}

/// Returns a free TCP port of this machine, which another process may take.
///
/// # Panics
///
/// Panics if there is none.
pub fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("its address").port()
}

/// Returns the text of a file, for messages.
pub(crate) fn text_of(file: &Path) -> String {
    std::fs::read_to_string(file).unwrap_or_default()
}
