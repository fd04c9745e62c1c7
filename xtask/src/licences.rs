//! The sources and the licences of dependencies.

use serde_json::Value;

use crate::{cargo, output, root, run};

/// The registry from which packages outside this workspace must come.
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Checks that every package is from the standard registry or this workspace, and that the licences
/// that `deny.toml` allows satisfy every licence expression. `cargo-deny` checks more, but has to
/// be installed.
pub(crate) fn check() -> Result<(), String> {
    let allowed = allowed()?;
    let metadata = output(cargo(&["metadata", "--format-version", "1", "--locked"]))?;
    let metadata: Value = serde_json::from_slice(&metadata).map_err(|error| error.to_string())?;
    let packages = metadata["packages"].as_array().ok_or("cargo metadata lists no packages")?;
    let members = metadata["workspace_members"].as_array().ok_or("no workspace members")?;
    let mut wrong = Vec::new();
    for package in packages {
        let name = package["name"].as_str().unwrap_or("?");
        let licence = package["license"].as_str().unwrap_or("");
        if !satisfied(licence, &allowed) {
            wrong.push(format!("{name}: licence {licence:?} is not allowed by deny.toml"));
        }
        let is_known = match package["source"].as_str() {
            Some(source) => source == REGISTRY,
            None => members.contains(&package["id"]),
        };
        if !is_known {
            wrong.push(format!("{name}: comes from {}", package["id"]));
        }
    }
    println!("xtask: {} packages", packages.len());
    if !wrong.is_empty() {
        return Err(wrong.join("\n"));
    }
    if output(cargo(&["deny", "--version"])).is_err() {
        println!("xtask: cargo-deny is not installed: what it says of bans was not asked");
        return Ok(());
    }
    run(cargo(&["deny", "--offline", "check", "bans", "licenses", "sources"]))
}

/// Returns the quoted words of the list `allow` in `deny.toml`.
fn allowed() -> Result<Vec<String>, String> {
    let path = format!("{}/deny.toml", root());
    let text = std::fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
    let list = text.split("allow = [").nth(1).and_then(|rest| rest.split(']').next());
    let list = list.ok_or("deny.toml has no list `allow`")?;
    Ok(list.split('"').skip(1).step_by(2).map(str::to_owned).collect())
}

/// Returns `true` if an expression such as `(MIT OR Apache-2.0) AND ISC` is satisfied. `/` is an
/// obsolete form of `OR`.
fn satisfied(expression: &str, allowed: &[String]) -> bool {
    let text = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = text.split_whitespace().collect();
    let mut rest = words.as_slice();
    !rest.is_empty() && any_of(&mut rest, allowed) && rest.is_empty()
}

fn any_of(rest: &mut &[&str], allowed: &[String]) -> bool {
    let mut is_satisfied = all_of(rest, allowed);
    while let ["OR", tail @ ..] = rest {
        *rest = tail;
        is_satisfied |= all_of(rest, allowed);
    }
    is_satisfied
}

fn all_of(rest: &mut &[&str], allowed: &[String]) -> bool {
    let mut is_satisfied = one(rest, allowed);
    while let ["AND", tail @ ..] = rest {
        *rest = tail;
        is_satisfied &= one(rest, allowed);
    }
    is_satisfied
}

fn one(rest: &mut &[&str], allowed: &[String]) -> bool {
    match *rest {
        ["(", tail @ ..] => {
            *rest = tail;
            let is_satisfied = any_of(rest, allowed);
            let [")", tail @ ..] = *rest else { return false };
            *rest = tail;
            is_satisfied
        }
        [licence, "WITH", exception, tail @ ..] => {
            *rest = tail;
            let name = format!("{licence} WITH {exception}");
            allowed.contains(&name)
        }
        [licence, tail @ ..] => {
            *rest = tail;
            allowed.iter().any(|each| each == licence)
        }
        [] => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn licence_expressions_are_evaluated() {
        let allowed = ["MIT", "ISC", "Apache-2.0 WITH LLVM-exception"].map(str::to_owned);
        for (expression, expected) in [
            ("MIT", true),
            ("GPL-3.0", false),
            ("MIT OR GPL-3.0", true),
            ("MIT/GPL-3.0", true),
            ("MIT AND GPL-3.0", false),
            ("ISC AND (GPL-3.0 OR MIT)", true),
            ("(GPL-3.0 OR ISC) AND GPL-2.0", false),
            ("MIT WITH LLVM-exception", false),
            ("Apache-2.0 WITH LLVM-exception OR Apache-2.0", true),
            ("Apache-2.0", false),
            ("MIT ISC", false),
            ("(MIT", false),
            ("", false),
        ] {
            assert_eq!(satisfied(expression, &allowed), expected, "{expression:?}");
        }
    }
}
