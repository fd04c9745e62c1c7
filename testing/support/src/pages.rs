//! Markdown pages of the repository.

use std::fs;
use std::path::{Path, PathBuf};

/// Returns the paths of the Markdown files below a folder, sorted.
///
/// # Panics
///
/// Panics if a folder cannot be read.
pub fn markdown_below(folder: &Path) -> Vec<PathBuf> {
    let (mut found, mut folders) = (Vec::new(), vec![folder.to_path_buf()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|it| it == "md") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}
