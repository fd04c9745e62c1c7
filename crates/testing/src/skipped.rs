//! Tests that could not run.

use std::fs;
use std::io::{self, Write};

/// Says that tests were left out, so that it is seen although the tests pass: a line at standard error,
/// past the test harness, which keeps what passing tests print; and one in the file that
/// `CUTPOINT_SKIPPED` names.
pub fn skipped(what: &str) {
    let line = format!("SKIPPED: {what}");
    writeln!(io::stderr(), "{line}").ok();
    if let Some(file) = std::env::var_os("CUTPOINT_SKIPPED") {
        let file = fs::OpenOptions::new().create(true).append(true).open(file);
        file.and_then(|mut file| writeln!(file, "{line}")).ok();
    }
}
