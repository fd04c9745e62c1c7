//! Files of the book.

use std::fs;
use std::path::{Path, PathBuf};

/// The folder of pages and pictures that programs write, below the pages of the book.
pub(crate) const GENERATED: &str = "generated";

/// Returns the files below a folder, sorted.
pub(super) fn files_below(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).map_err(|error| named(&folder, error))? {
            let path = entry.map_err(|error| named(&folder, error))?.path();
            if path.is_dir() { folders.push(path) } else { found.push(path) }
        }
    }
    found.sort();
    Ok(found)
}

pub(super) fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| named(path, error))
}

/// Writes a file, and creates its folder.
pub(super) fn write(path: &Path, text: &str) -> Result<(), String> {
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder).map_err(|error| named(folder, error))?;
    fs::write(path, text).map_err(|error| named(path, error))
}

/// Returns the message of an error that concerns a file.
pub(super) fn named(path: &Path, error: impl std::fmt::Display) -> String {
    format!("{}: {error}", path.display())
}
