//! Records the commit that the program is built from, for `cutpoint version`.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-env-changed=CUTPOINT_COMMIT");
    // Packagers without a Git checkout set the variable.
    let commit = std::env::var("CUTPOINT_COMMIT").ok().or_else(commit_of_checkout);
    if let Some(commit) = commit {
        println!("cargo:rustc-env=CUTPOINT_COMMIT={commit}");
        // The date of the manual pages.
        if let Some(date) = git(&["show", "--no-patch", "--format=%cs", &commit]) {
            println!("cargo:rustc-env=CUTPOINT_DATE={date}");
        }
    }
    let target = std::env::var("TARGET").unwrap_or_default();
    println!("cargo:rustc-env=CUTPOINT_TARGET={target}");
}

/// Returns the commit of the checkout that contains this crate, and makes the next build look again
/// once it has changed. Returns `None` for sources that are not the root of a checkout.
fn commit_of_checkout() -> Option<String> {
    for name in ["HEAD", "logs/HEAD"] {
        let path = git(&["rev-parse", "--git-path", name])?;
        if Path::new(&path).exists() {
            println!("cargo:rerun-if-changed={path}");
        }
    }
    // Sources that were unpacked below a foreign checkout are not of its commit.
    let prefix = git(&["rev-parse", "--show-prefix"])?;
    (prefix == "crates/cli/").then(|| git(&["rev-parse", "HEAD"]))?
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim_end().to_owned())
}
