//! The licences of the libraries that are part of the programs.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::build;
use super::release::{Target, read};
use super::sbom;

/// The beginnings of the names of files with licences, in small letters.
const NAMES: [&str; 5] = ["licen", "copying", "copyright", "notice", "unlicen"];

/// The depth to which the folders of a library are searched: the C code of some libraries lies below
/// two folders.
const DEPTH_MAX: usize = 3;

/// The maximum size of a file with a licence, in bytes.
const TEXT_LEN_MAX: u64 = 200_000;

/// Returns a text with the licences of all libraries in the program for `target`. A text that several
/// have stands there once.
pub(super) fn of(target: &Target) -> Result<Vec<u8>, String> {
    let mut owners_of: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut list = String::new();
    for library in sbom::libraries(target)? {
        let name = format!("{} {}", library.name, library.version);
        list += &format!("  {name} ({})\n", library.licence);
        let Some(folder) = &library.folder else { continue };
        let mut texts = Vec::new();
        collect(folder, DEPTH_MAX, &mut texts)?;
        texts.sort();
        texts.dedup();
        for text in texts {
            owners_of.entry(text).or_default().push(name.clone());
        }
    }
    let musl = String::from_utf8_lossy(&build::musl_licence()?).into_owned();
    owners_of.entry(musl).or_default().push("musl".to_owned());
    // By the first library, in the order of the list.
    let mut texts: Vec<(Vec<String>, String)> =
        owners_of.into_iter().map(|(text, owners)| (owners, text)).collect();
    texts.sort();
    let mut all = format!(
        "The program cutpoint contains these libraries, with their licences:\n\n{list}\n\
         The licences of some of them demand that their texts accompany the program:\n"
    );
    for (owners, text) in texts {
        let line = "-".repeat(72);
        all += &format!("\n{line}\n{}\n{line}\n\n{}\n", owners.join(", "), text.trim_end());
    }
    Ok(all.into_bytes())
}

/// Adds the texts of the licences in `folder` and the folders in it.
fn collect(folder: &Path, depth: usize, texts: &mut Vec<String>) -> Result<(), String> {
    let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    for entry in entries {
        let path = entry.map_err(|error| error.to_string())?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
        let is_small = fs::metadata(&path).is_ok_and(|found| found.len() <= TEXT_LEN_MAX);
        if path.is_dir() {
            if depth > 0 && !["tests", "test", "third_party"].contains(&name.as_str()) {
                collect(&path, depth - 1, texts)?;
            }
        } else if is_small && is_licence(&name) {
            texts.push(String::from_utf8_lossy(&read(&path)?).replace('\r', ""));
        }
    }
    Ok(())
}

/// Returns `true` if a file of this name, in small letters, has a licence and no code.
fn is_licence(name: &str) -> bool {
    let is_text = !name.contains('.') || name.ends_with(".txt") || name.ends_with(".md");
    is_text && NAMES.iter().any(|start| name.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn licences_are_known_by_their_names() {
        for name in ["license", "license-mit", "licence.txt", "copying", "notice.md"] {
            assert!(is_licence(name), "{name}");
        }
        for name in ["licenses.rs", "readme.md", "copy.txt"] {
            assert!(!is_licence(name), "{name}");
        }
    }
}
