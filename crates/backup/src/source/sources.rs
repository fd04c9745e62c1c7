//! The source paths of a walk as one tree, in which each occurs once even if sources overlap.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use super::folder::without_atime;

/// A source, or a folder on the way to one.
#[derive(Debug, Default)]
pub(super) struct SourceNode {
    /// Set if the node is a source, so that everything in it belongs to the walk.
    pub(super) is_source: bool,
    /// The positions of this source in the list of all sources. Several paths can denote one
    /// source.
    pub(super) numbers: Vec<usize>,
    /// The sources below this node and the folders on the way to them, as indices into [`Sources`].
    pub(super) children: BTreeMap<Vec<u8>, usize>,
}

/// The tree of all sources. SourceNode 0 is the root of the file system.
#[derive(Debug)]
pub(super) struct Sources(Vec<SourceNode>);

impl Sources {
    /// Resolves `paths`. Also returns the positions in `paths` of those that do not exist or cannot
    /// be opened, each with the reason; these are not among the sources.
    pub(super) fn new(paths: &[PathBuf]) -> io::Result<(Sources, Vec<(usize, io::Error)>)> {
        if paths.is_empty() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "no source given"));
        }
        let mut sources = Sources(vec![SourceNode::default()]);
        let mut missing = Vec::new();
        for (number, path) in paths.iter().enumerate() {
            let found = resolve(path).and_then(|path| try_open(&path).map(|()| path));
            match found {
                Ok(absolute) => sources.add(&absolute, number),
                Err(error) => missing.push((number, error)),
            }
        }
        Ok((sources, missing))
    }

    fn add(&mut self, path: &Path, number: usize) {
        let mut at = 0;
        for component in path.components() {
            let Component::Normal(name) = component else { continue };
            at = match self.0[at].children.get(name.as_bytes()) {
                Some(&child) => child,
                None => {
                    let child = self.0.len();
                    self.0.push(SourceNode::default());
                    self.0[at].children.insert(name.as_bytes().to_vec(), child);
                    child
                }
            };
        }
        self.0[at].is_source = true;
        self.0[at].numbers.push(number);
    }

    /// Returns the positions of the sources at `path` itself, which is absolute and resolved.
    pub(super) fn numbers_at(&self, path: &Path) -> &[usize] {
        let mut at = 0;
        for component in path.components() {
            let Component::Normal(name) = component else { continue };
            match self.0[at].children.get(name.as_bytes()) {
                Some(&child) => at = child,
                None => return &[],
            }
        }
        &self.0[at].numbers
    }

    pub(super) fn node(&self, index: usize) -> &SourceNode {
        &self.0[index]
    }
}

/// Makes `path` absolute and resolves every symbolic link in it except the last component, because
/// a link named there is itself the source. A path that ends in `/`, `.` or `..` denotes a folder
/// and is resolved completely. A backup records the result.
///
/// # Errors
///
/// Fails if the path does not exist, or if a folder in it cannot be searched.
pub fn resolve(path: &Path) -> io::Result<PathBuf> {
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

/// Opens a source that is a folder or a file and closes it again, so that a source that cannot be
/// opened is found before anything of it is in a snapshot.
fn try_open(path: &Path) -> io::Result<()> {
    let kind = path.symlink_metadata()?.file_type();
    if !kind.is_dir() && !kind.is_file() {
        return Ok(());
    }
    // `NONBLOCK`: if the file has become a pipe meanwhile, the call does not wait for its other
    // end.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    without_atime(|noatime| rustix::fs::open(path, flags | noatime, Mode::empty()))?;
    Ok(())
}
