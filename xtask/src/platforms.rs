//! The check that the program compiles for platforms, and with features, with which it is not tested.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::{cargo, output, root, run};

/// A platform, and what must compile for it.
struct Platform {
    triple: &'static str,
    packages: &'static [&'static str],
    /// The features that are checked, each time with all packages.
    features: &'static [&'static [&'static str]],
}

/// All features of the program, and none. The tests of Linux enable the default ones.
const PROGRAM: &[&[&str]] = &[&["--all-features"], &["--no-default-features"]];

const PLATFORMS: [Platform; 4] = [
    Platform { triple: "x86_64-unknown-linux-gnu", packages: &["cutpoint"], features: PROGRAM },
    Platform { triple: "x86_64-unknown-freebsd", packages: &["cutpoint"], features: PROGRAM },
    Platform { triple: "aarch64-apple-darwin", packages: &["cutpoint"], features: PROGRAM },
    // The program does not compile for Windows: docs/platforms.md.
    Platform {
        triple: "x86_64-pc-windows-gnu",
        packages: &[
            "cutpoint-chunking",
            "cutpoint-delta",
            "cutpoint-estimate",
            "cutpoint-fingerprint",
            "cutpoint-repository",
            "cutpoint-storage",
        ],
        features: &[&[
            "--no-default-features",
            "--features",
            "cutpoint-chunking/std,cutpoint-storage/clouds,cutpoint-storage/s3",
        ]],
    },
];

/// The beginnings of the names of C libraries that build scripts compile. A compiler for another
/// platform and its headers are rarely there, and a check of Rust code does not need the libraries.
const LIBRARIES: [&str; 2] = ["aws_lc_", "zstd"];

/// The variable by which the build script of BLAKE3 compiles no C code and assembly.
const WITHOUT_C: &str = "CARGO_FEATURE_PURE";

impl Platform {
    /// Checks that the Rust code compiles. Nothing is linked or run.
    fn check(&self) -> Result<(), String> {
        let triple = self.triple;
        let libraries = libraries(triple)?;
        for features in self.features {
            let mut command = cargo(&["check", "--quiet", "--target", triple]);
            for package in self.packages {
                command.args(["--package", package]);
            }
            command.args(*features);
            for name in &libraries {
                // What the build script would print. The bindings are those for any platform.
                let setting = format!("target.{triple}.{name}.rustc-cfg=[\"universal\"]");
                command.args(["--config", &setting]);
            }
            command.env(WITHOUT_C, "1");
            run(command)?;
        }
        println!("xtask: {} compile for {triple}", self.packages.join(", "));
        Ok(())
    }
}

/// Checks all platforms whose standard library is installed.
pub(crate) fn check() -> Result<(), String> {
    let mut checked_count = 0;
    for platform in &PLATFORMS {
        let triple = platform.triple;
        if !is_installed(triple)? {
            println!("xtask: SKIPPED: {triple} is not installed (rustup target add)");
            continue;
        }
        platform.check()?;
        checked_count += 1;
    }
    match checked_count {
        0 => Err("no platform is installed".to_owned()),
        _ => Ok(()),
    }
}

/// Checks all platforms.
pub(crate) fn check_all() -> Result<(), String> {
    for Platform { triple, .. } in &PLATFORMS {
        if !is_installed(triple)? {
            return Err(format!("{triple} is not installed (rustup target add)"));
        }
    }
    PLATFORMS.iter().try_for_each(Platform::check)
}

/// Returns `true` if the standard library for `target` is installed.
pub(crate) fn is_installed(target: &str) -> Result<bool, String> {
    let mut command = Command::new("rustc");
    command.args(["--print", "target-libdir", "--target", target]).current_dir(root());
    let folder = output(command)?;
    Ok(Path::new(String::from_utf8_lossy(&folder).trim()).is_dir())
}

/// Returns the names of the C libraries that are not compiled. Some contain a version.
fn libraries(target: &str) -> Result<Vec<String>, String> {
    let words = ["metadata", "--format-version", "1", "--locked", "--filter-platform", target];
    let metadata: Value = serde_json::from_slice(&output(cargo(&words))?)
        .map_err(|error| format!("cargo metadata: {error}"))?;
    let packages = metadata["packages"].as_array().ok_or("cargo metadata: no packages")?;
    let names = packages.iter().filter_map(|package| package["links"].as_str());
    let names = names.filter(|name| LIBRARIES.iter().any(|start| name.starts_with(start)));
    Ok(names.map(str::to_owned).collect())
}
