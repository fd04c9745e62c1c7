//! Which paths a walk begins with, as one tree: each once, however they overlap.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

/// A place on the way to a source, or a source.
#[derive(Debug, Default)]
pub(super) struct Node {
    /// Whether it is a source: everything in it belongs to the walk.
    pub(super) whole: bool,
    /// The sources below it, and the folders on the way to them: indices of [`Sources`].
    pub(super) children: BTreeMap<Vec<u8>, usize>,
}

/// All sources. The node 0 is the root of the file system.
#[derive(Debug)]
pub(super) struct Sources(Vec<Node>);

impl Sources {
    /// Resolves `paths`, each of which must exist.
    pub(super) fn new(paths: &[PathBuf]) -> io::Result<Sources> {
        if paths.is_empty() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "no source to walk"));
        }
        let mut sources = Sources(vec![Node::default()]);
        for path in paths {
            let absolute = resolve(path).map_err(|error| {
                io::Error::new(error.kind(), format!("source {}: {error}", path.display()))
            })?;
            sources.add(&absolute);
        }
        Ok(sources)
    }

    fn add(&mut self, path: &Path) {
        let mut at = 0;
        for component in path.components() {
            let Component::Normal(name) = component else { continue };
            at = match self.0[at].children.get(name.as_bytes()) {
                Some(&child) => child,
                None => {
                    let child = self.0.len();
                    self.0.push(Node::default());
                    self.0[at].children.insert(name.as_bytes().to_vec(), child);
                    child
                }
            };
        }
        self.0[at].whole = true;
    }

    pub(super) fn node(&self, index: usize) -> &Node {
        &self.0[index]
    }
}

/// Makes `path` absolute, with every symbolic link in it resolved but a last component: the link
/// is the source then. What ends in `/`, `.` or `..` is a folder and resolved whole.
fn resolve(path: &Path) -> io::Result<PathBuf> {
    let bytes = path.as_os_str().as_bytes();
    let last = bytes.iter().rposition(|&byte| byte == b'/').map_or(bytes, |at| &bytes[at + 1..]);
    if matches!(last, b"" | b"." | b"..") {
        return path.canonicalize();
    }
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let absolute = parent.canonicalize()?.join(OsStr::from_bytes(last));
    absolute.symlink_metadata()?;
    Ok(absolute)
}
