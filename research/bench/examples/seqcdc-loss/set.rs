//! A data set in memory.

use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::rule::Cutter;

/// A data set in memory.
pub(crate) struct Set {
    pub(crate) name: String,
    pub(crate) files: Vec<Vec<u8>>,
}

impl Set {
    pub(crate) fn load(folder: &Path, size: usize) -> io::Result<Set> {
        let name = folder.file_name().map(|name| name.to_string_lossy().into_owned());
        let mut versions: Vec<PathBuf> =
            fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
        versions.retain(|path| path.is_dir());
        versions.sort();
        let mut set = Set { name: name.unwrap_or_default(), files: Vec::new() };
        for version in &versions {
            let mut left = size / versions.len();
            let mut found = Vec::new();
            files_below(version, &mut found)?;
            for path in found {
                let mut bytes = fs::read(path)?;
                bytes.truncate(left);
                left -= bytes.len();
                if !bytes.is_empty() {
                    set.files.push(bytes);
                }
            }
        }
        Ok(set)
    }

    pub(crate) fn size(&self) -> usize {
        self.files.iter().map(Vec::len).sum()
    }

    pub(crate) fn mean(&self, cutter: &Cutter) -> f64 {
        let mut count = 0_usize;
        for file in &self.files {
            cutter.cut(file, &mut |_, _| {
                count += 1;
                true
            });
        }
        self.size() as f64 / count.max(1) as f64
    }
}

fn files_below(folder: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    let mut entries: Vec<PathBuf> =
        fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
    entries.sort();
    for path in entries {
        let kind = path.symlink_metadata()?.file_type();
        if kind.is_dir() {
            files_below(&path, found)?;
        } else if kind.is_file() {
            found.push(path);
        }
    }
    Ok(())
}
