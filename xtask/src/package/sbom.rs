//! The list of what is in a program (SBOM), in the format CycloneDX 1.5.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::build::{FEATURES, zig_version};
use super::release::{Release, Target, read, rfc3339, sha256};
use crate::{cargo, output, root};

/// A library in a program.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Library {
    pub(super) name: String,
    pub(super) version: String,
    pub(super) licence: String,
    /// The folder of its sources. Those of this workspace and those that come with a compiler have none.
    pub(super) folder: Option<PathBuf>,
    /// The SHA-256 of its package in the registry.
    sum: Option<String>,
    /// The names and versions of what it uses.
    uses: BTreeSet<(String, String)>,
}

impl Library {
    /// Returns the address of the package, which names it everywhere.
    fn address(&self) -> String {
        let version = self.version.replace('+', "%2B");
        match self.sum {
            Some(_) => format!("pkg:cargo/{}@{version}", self.name),
            None => format!("pkg:generic/{}@{version}", self.name),
        }
    }
}

/// Writes the list for `target`.
pub(super) fn package(release: &Release, target: &Target) -> Result<(), String> {
    let libraries = libraries(target)?;
    let address_of: BTreeMap<(&str, &str), String> =
        libraries.iter().map(|each| ((&*each.name, &*each.version), each.address())).collect();
    let mut components = Vec::new();
    let mut dependencies = Vec::new();
    for library in &libraries {
        let address = library.address();
        let used =
            library.uses.iter().filter_map(|(name, version)| address_of.get(&(name, version)));
        dependencies.push(json!({ "ref": address, "dependsOn": used.collect::<Vec<_>>() }));
        if library.name != "cutpoint" {
            components.push(component(library, &address));
        }
    }
    let program = libraries.iter().find(|library| library.name == "cutpoint");
    let program = program.ok_or("cargo tree does not list the program")?;
    let list = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": format!("urn:uuid:{}", uuid(&format!("{} {}", release.commit, target.triple))),
        "version": 1,
        "metadata": {
            "timestamp": rfc3339(release.time_s),
            "component": {
                "type": "application",
                "bom-ref": program.address(),
                "name": "cutpoint",
                "version": release.version,
                "licenses": [{ "expression": program.licence }],
                "properties": [
                    { "name": "cutpoint:commit", "value": release.commit },
                    { "name": "cutpoint:target", "value": target.triple },
                ],
            },
        },
        "components": components,
        "dependencies": dependencies,
    });
    let text = serde_json::to_string_pretty(&list).map_err(|error| error.to_string())?;
    let name = format!("cutpoint-{}-{}.cdx.json", release.version, target.triple);
    release.write(&name, format!("{text}\n").as_bytes())
}

fn component(library: &Library, address: &str) -> Value {
    let mut component = json!({
        "type": "library",
        "bom-ref": address,
        "name": library.name,
        "version": library.version,
        "licenses": [{ "expression": library.licence }],
        "purl": address,
    });
    if let Some(sum) = &library.sum {
        component["hashes"] = json!([{ "alg": "SHA-256", "content": sum }]);
    }
    component
}

/// Returns a UUID of version 8 (RFC 9562) that depends on `text` alone.
fn uuid(text: &str) -> String {
    let sum = sha256(text.as_bytes());
    format!("{}-{}-8{}-8{}-{}", &sum[..8], &sum[8..12], &sum[13..16], &sum[17..20], &sum[20..32])
}

/// Returns the libraries in the program for `target`, sorted by name, and the program itself.
pub(super) fn libraries(target: &Target) -> Result<Vec<Library>, String> {
    let chosen = chosen(target)?;
    let sum_of = sums()?;
    let words =
        ["metadata", "--format-version", "1", "--locked", "--filter-platform", target.triple];
    let metadata: Value = serde_json::from_slice(&output(cargo(&words))?)
        .map_err(|error| format!("cargo metadata: {error}"))?;
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let key = |package: &Value| (text(&package["name"]), text(&package["version"]));
    let packages = list(&metadata["packages"]);
    let key_of: BTreeMap<String, (String, String)> =
        packages.iter().map(|package| (text(&package["id"]), key(package))).collect();
    let mut uses_of: BTreeMap<String, BTreeSet<(String, String)>> = BTreeMap::new();
    for node in list(&metadata["resolve"]["nodes"]) {
        let normal = list(&node["deps"])
            .into_iter()
            .filter(|used| list(&used["dep_kinds"]).iter().any(|kind| kind["kind"].is_null()));
        let used = normal.filter_map(|used| key_of.get(&text(&used["pkg"])).cloned());
        let used = used.filter(|key| chosen.contains(key)).collect();
        uses_of.insert(text(&node["id"]), used);
    }
    let mut libraries = compilers_own()?;
    for package in packages.iter().filter(|package| chosen.contains(&key(package))) {
        let (name, version) = key(package);
        let sum = sum_of.get(&(name.clone(), version.clone())).cloned();
        let manifest = text(&package["manifest_path"]);
        libraries.push(Library {
            name,
            version,
            // An obsolete form that some packages have.
            licence: text(&package["license"]).replace('/', " OR "),
            folder: sum.as_ref().and_then(|_| Path::new(&manifest).parent()).map(Path::to_owned),
            sum,
            uses: uses_of.remove(&text(&package["id"])).unwrap_or_default(),
        });
    }
    libraries.sort();
    Ok(libraries)
}

/// Returns the libraries that come with the compilers.
fn compilers_own() -> Result<Vec<Library>, String> {
    let mut rustc = Command::new("rustc");
    rustc.arg("--version").current_dir(root());
    let version = String::from_utf8_lossy(&output(rustc)?).into_owned();
    let version = version.split_whitespace().nth(1).ok_or("rustc prints no version")?.to_owned();
    let own = |name: &str, version, licence: &str| Library {
        name: name.to_owned(),
        version,
        licence: licence.to_owned(),
        folder: None,
        sum: None,
        uses: BTreeSet::new(),
    };
    let musl = own("musl", format!("zig-{}", zig_version()?), "MIT");
    Ok(vec![musl, own("rust-std", version, "MIT OR Apache-2.0")])
}

/// Returns names and versions of the packages that are linked into the program for `target`.
fn chosen(target: &Target) -> Result<BTreeSet<(String, String)>, String> {
    let words =
        ["tree", "--quiet", "--locked", "--package", "cutpoint", "--edges", "normal,no-proc-macro"];
    let mut command = cargo(&words);
    command.args(["--features", FEATURES, "--target", target.triple]);
    command.args(["--prefix", "none", "--format", "{p}"]);
    let text = String::from_utf8_lossy(&output(command)?).into_owned();
    let mut chosen = BTreeSet::new();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let (name, version) = (words.next(), words.next().and_then(|word| word.strip_prefix('v')));
        let (Some(name), Some(version)) = (name, version) else { continue };
        chosen.insert((name.to_owned(), version.to_owned()));
    }
    Ok(chosen)
}

/// Returns the sums in `Cargo.lock`, by name and version.
fn sums() -> Result<BTreeMap<(String, String), String>, String> {
    let lock = read(&Path::new(root()).join("Cargo.lock"))?;
    let lock = String::from_utf8_lossy(&lock).into_owned();
    let mut sums = BTreeMap::new();
    for block in lock.split("[[package]]") {
        let value = |name: &str| {
            let line = block.lines().find_map(|line| line.strip_prefix(&format!("{name} = \"")));
            line.and_then(|rest| rest.strip_suffix('"')).map(str::to_owned)
        };
        if let (Some(name), Some(version), Some(sum)) =
            (value("name"), value("version"), value("checksum"))
        {
            sums.insert((name, version), sum);
        }
    }
    Ok(sums)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_of_the_program_are_those_that_are_linked() {
        let libraries = libraries(&super::super::TARGETS[0]).unwrap_or_default();
        let find = |name: &str| libraries.iter().find(|library| library.name == name);
        for name in ["cutpoint", "cutpoint-storage", "mimalloc", "musl", "rust-std", "zstd-sys"] {
            assert!(find(name).is_some(), "{name}");
        }
        for name in ["tempfile-derive", "proptest", "cc", "serde_derive", "windows-sys", "xtask"] {
            assert!(find(name).is_none(), "{name}");
        }
        let zstd = find("zstd-sys").filter(|library| library.sum.is_some());
        assert!(zstd.is_some_and(|library| library.address().contains("%2Bzstd.")));
        let storage = find("cutpoint-storage").map(|library| library.uses.len());
        assert!(storage.is_some_and(|count| count > 10), "{storage:?}");
    }

    #[test]
    fn number_of_a_list_is_a_uuid() {
        let uuid = uuid("");
        let lengths: Vec<usize> = uuid.split('-').map(str::len).collect();
        assert_eq!(lengths, [8, 4, 4, 4, 12]);
        assert_eq!(uuid.as_bytes().get(14), Some(&b'8'), "{uuid}");
    }
}
