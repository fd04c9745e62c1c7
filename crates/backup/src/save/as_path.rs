//! Another path in the snapshot for the source.

use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use cutpoint_repository::format::tree::check_name;
use cutpoint_repository::{Entry, EntryKind};
use cutpoint_storage::{Error, Result};

/// The path of the source in the snapshot, if it is not the path on the disk.
#[derive(Clone, Debug)]
pub(super) struct AsPath {
    /// The names of the folders above the source, outermost first.
    above: Vec<Vec<u8>>,
    /// The name of the source; `None` if its entries are those of the root folder.
    pub(super) name: Option<Vec<u8>>,
}

impl AsPath {
    /// Parses the path for the only one of `sources`.
    ///
    /// # Errors
    ///
    /// Returns any error of [`AsPath::of_root`], and `Invalid` if there is not exactly one source, or
    /// if the source is the root folder.
    pub(super) fn new(path: &Path, sources: &[PathBuf]) -> Result<AsPath> {
        let [source] = sources else {
            return Err(invalid(path, "needs exactly one path to save"));
        };
        if source.canonicalize().is_ok_and(|source| source == Path::new("/")) {
            return Err(invalid(path, "the root folder cannot get another path"));
        }
        AsPath::of_root(path)
    }

    /// Parses the path for a source that is the root of a tree.
    ///
    /// # Errors
    ///
    /// Returns `Invalid` if the path is not absolute or has a component `..`.
    pub(super) fn of_root(path: &Path) -> Result<AsPath> {
        let mut names = Vec::new();
        let mut components = path.components();
        if components.next() != Some(Component::RootDir) {
            return Err(invalid(path, "not an absolute path"));
        }
        for component in components {
            match component {
                Component::Normal(name) if check_name(name.as_bytes()).is_ok() => {
                    names.push(name.as_bytes().to_vec());
                }
                _ => return Err(invalid(path, "not a path that a file can have")),
            }
        }
        let name = names.pop();
        Ok(AsPath { above: names, name })
    }

    /// Returns the path, without a `/` at its end unless it is the root.
    pub(super) fn bytes(&self) -> Vec<u8> {
        match &self.name {
            Some(name) => {
                let names = self.above.iter().chain([name]);
                names.flat_map(|name| [b"/", name.as_slice()].concat()).collect()
            }
            None => b"/".to_vec(),
        }
    }

    /// The number of folders above the source.
    pub(super) fn depth(&self) -> usize {
        self.above.len()
    }

    /// Returns the entries of the folders above the source.
    pub(super) fn folders(&self) -> Vec<Entry> {
        self.above.iter().map(|name| folder_above(name)).collect()
    }
}

/// Returns the entry of a folder above a source. It has no times, like all such folders.
pub(super) fn folder_above(name: &[u8]) -> Entry {
    let mut entry = Entry::new(name, EntryKind::Folder);
    entry.mode = 0o755;
    entry.user_id = rustix::process::geteuid().as_raw();
    entry.group_id = rustix::process::getegid().as_raw();
    entry
}

fn invalid(path: &Path, message: &str) -> Error {
    Error::invalid(format!("--as-path {}", path.display()), message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_is_absolute_and_for_one_source() {
        let parse = |path: &str, sources: &[&str]| {
            let sources: Vec<PathBuf> = sources.iter().map(PathBuf::from).collect();
            AsPath::new(Path::new(path), &sources).map(|path| path.bytes())
        };
        for (path, expected) in [("/", "/"), ("/a", "/a"), ("//a/./b/", "/a/b")] {
            assert_eq!(parse(path, &["x"]).ok(), Some(expected.as_bytes().to_vec()), "{path}");
        }
        for path in ["", "a", "./a", "/a/../b", ".."] {
            assert!(parse(path, &["x"]).is_err(), "{path:?} was accepted");
        }
        assert!(parse("/a", &[]).is_err(), "no source");
        assert!(parse("/a", &["x", "y"]).is_err(), "two sources");
        assert!(parse("/a", &["/"]).is_err(), "the root");
    }
}
