//! Passes the commit of the build to the lab, which writes it into its rows, and whether the loops of
//! the program begin at multiples of 64 bytes.

use std::process::Command;

fn main() {
    let git = |words: &[&str]| {
        let output = Command::new("git").args(words).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        output.status.success().then(|| text.trim().to_owned()).filter(|text| !text.is_empty())
    };
    // The commit is unknown in an sdist, which has no repository.
    if let Some(commit) = git(&["rev-parse", "--short=12", "HEAD"]) {
        // Rows of a build with changes must not name a commit that does not have them.
        let is_changed = git(&["status", "--porcelain", "--untracked-files=no"]).is_some();
        let mark = if is_changed { " with changes" } else { "" };
        println!("cargo::rustc-env=CUTPOINT_COMMIT={commit}{mark}");
    }
    println!("cargo::rustc-check-cfg=cfg(aligned_loops)");
    println!("cargo::rerun-if-env-changed=CARGO_ENCODED_RUSTFLAGS");
    let flags = std::env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    if flags.contains("align-loops=64") {
        println!("cargo::rustc-cfg=aligned_loops");
    }
    println!("cargo::rerun-if-changed=build.rs");
    for name in ["HEAD", "logs/HEAD", "index"] {
        if let Some(path) = git(&["rev-parse", "--git-path", name]) {
            println!("cargo::rerun-if-changed={path}");
        }
    }
}
