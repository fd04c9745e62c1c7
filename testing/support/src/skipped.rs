//! Reports of tests that could not run.

use std::fs;
use std::io::{self, Write};

/// Reports that tests were skipped, so that it is visible although the tests pass. The report is a
/// line at standard error, past the test harness, which captures the output of passing tests, and a
/// line in the file that `CUTPOINT_SKIPPED` names.
pub fn skipped(what: &str) {
    let line = format!("SKIPPED: {what}");
    writeln!(io::stderr(), "{line}").ok();
    if let Some(file) = std::env::var_os("CUTPOINT_SKIPPED") {
        let file = fs::OpenOptions::new().create(true).append(true).open(file);
        file.and_then(|mut file| writeln!(file, "{line}")).ok();
    }
}
