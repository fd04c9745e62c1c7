//! The lists of paths of `--files-from` and `--files-from0`.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::args::Backup;
use crate::exit::Failure;
use crate::units;

/// The maximum total length of the paths of one backup, in bytes. The commit of the snapshot has
/// all of them, and every client reads it.
const PATHS_LEN_MAX: usize = 16 << 20;

/// Returns the paths to save: those of the command line, followed by those of the lists.
///
/// # Errors
///
/// Returns an error if a list cannot be read or has no path, or if the paths are too long.
pub(super) fn paths(args: &Backup) -> Result<Vec<PathBuf>> {
    let mut paths = args.paths.clone();
    for file in &args.files_from {
        let list = read(file)?;
        let lines = list.split(|&byte| byte == b'\n');
        add(&mut paths, file, lines.filter(|line| line.first() != Some(&b'#')))?;
    }
    for file in &args.files_from0 {
        let list = read(file)?;
        add(&mut paths, file, list.split(|&byte| byte == 0))?;
    }
    let len: usize = paths.iter().map(|path| path.as_os_str().len()).sum();
    if len > PATHS_LEN_MAX {
        let message = format!(
            "{} of {} together (expected at most {})",
            units::count(paths.len() as u64, "path"),
            units::size(len as u64),
            units::size(PATHS_LEN_MAX as u64)
        );
        let remedy = "name a folder above the files, and exclude the others by patterns";
        return Err(Failure::failed(message).with_remedy(remedy).into());
    }
    Ok(paths)
}

/// Adds the entries of the list `file` that are not empty.
fn add<'a>(
    paths: &mut Vec<PathBuf>,
    file: &Path,
    entries: impl Iterator<Item = &'a [u8]>,
) -> Result<()> {
    let before = paths.len();
    let entries = entries.filter(|entry| !entry.is_empty());
    paths.extend(entries.map(|entry| PathBuf::from(OsStr::from_bytes(entry))));
    if paths.len() == before {
        return Err(Failure::failed(format!("{}: no paths in this list", file.display())).into());
    }
    Ok(())
}

fn read(file: &Path) -> Result<Vec<u8>> {
    if file != Path::new("-") {
        return fs::read(file).with_context(|| format!("list of paths {}", file.display()));
    }
    let mut bytes = Vec::new();
    io::stdin().lock().read_to_end(&mut bytes).context("standard input")?;
    Ok(bytes)
}
