//! The check that the program compiles for platforms, and with features, with which it is not tested.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::{cargo, output, root, run};

/// The targets for which the program must compile. The tests of Linux enable all features.
const TARGETS: [&str; 2] = ["x86_64-unknown-linux-gnu", "x86_64-unknown-freebsd"];

/// The features of the program that are checked: all, and none.
const FEATURES: [&str; 2] = ["--all-features", "--no-default-features"];

/// The beginnings of the names of C libraries that build scripts compile. A compiler for another
/// platform and its headers are rarely there, and a check of Rust code does not need the libraries.
const LIBRARIES: [&str; 2] = ["aws_lc_", "zstd"];

/// Checks that the Rust code of the program compiles for all platforms whose standard library is
/// installed. Nothing is linked or run.
pub(crate) fn check() -> Result<(), String> {
    let mut checked_count = 0;
    for target in TARGETS {
        if !is_installed(target)? {
            println!("xtask: {target} is not installed (rustup target add): it was not checked");
            continue;
        }
        for features in FEATURES {
            let words = ["check", "--quiet", "-p", "cutpoint", "--target", target, features];
            let mut command = cargo(&words);
            for name in libraries(target)? {
                // What the build script would print. The bindings are those for any platform.
                let setting = format!("target.{target}.{name}.rustc-cfg=[\"universal\"]");
                command.args(["--config", &setting]);
            }
            // The assembly of another library needs no headers.
            command.env(format!("CC_{}", target.replace('-', "_")), "cc");
            run(command)?;
        }
        println!("xtask: the program compiles for {target}");
        checked_count += 1;
    }
    match checked_count {
        0 => Err("no platform is installed".to_owned()),
        _ => Ok(()),
    }
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
