//! Descriptions of folders for comparison with their sources.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Describes everything in which a restored tree must equal its source: names, kinds, permissions,
/// owners, sizes, link counts, times, digests of contents and link targets. Returns one line per
/// entry, in the order of names.
///
/// # Panics
///
/// Panics if an entry of the tree cannot be read.
pub fn describe(folder: &Path) -> Vec<String> {
    let mut lines = Vec::new();
    describe_into(folder, Path::new(""), &mut lines);
    lines
}

fn describe_into(root: &Path, path: &Path, lines: &mut Vec<String>) {
    let full = root.join(path);
    let stat = full.symlink_metadata().expect("it is there");
    let kind = stat.file_type();
    let content = if kind.is_file() {
        let bytes = fs::read(&full).expect("the file is read");
        crate::digest::md5(&bytes).iter().map(|byte| format!("{byte:02x}")).collect()
    } else if kind.is_symlink() {
        format!("{:?}", fs::read_link(&full).expect("the link is read"))
    } else {
        String::new()
    };
    let size = if kind.is_dir() { 0 } else { stat.len() };
    let links = if kind.is_dir() { 0 } else { stat.nlink() };
    lines.push(format!(
        "{path:?} {:o} {} {} {size} {links} {}.{} {content}",
        stat.mode(),
        stat.uid(),
        stat.gid(),
        stat.mtime(),
        stat.mtime_nsec()
    ));
    if kind.is_dir() {
        let mut names: Vec<_> = fs::read_dir(&full)
            .expect("the folder is read")
            .map(|entry| entry.expect("an entry").file_name())
            .collect();
        names.sort();
        names.iter().for_each(|name| describe_into(root, &path.join(name), lines));
    }
}
