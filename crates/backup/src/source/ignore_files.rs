//! The patterns in files of the folders themselves: `.cutpointignore` and `.gitignore`.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use cutpoint_repository::EntryKind;
use ignore::Match;
use ignore::gitignore::Gitignore;
use rustix::fs::{Mode, OFlags};

use super::exclusion::{add_pattern, pattern_builder};
use super::folder::Handle;
use super::kind;
use super::names::Names;
use crate::platform;

/// The name of the file with patterns for this program.
const OWN_NAME: &str = ".cutpointignore";
/// The name of the file with patterns for git.
const GIT_NAME: &str = ".gitignore";
/// The maximum length of such a file, in bytes, which bounds the memory for its patterns.
const LEN_MAX: u64 = 1024 * 1024;

/// The patterns of the folders from the sources down to the current folder.
#[derive(Clone, Debug, Default)]
pub(super) struct IgnoreFiles {
    /// The names of the files, in ascending order of precedence.
    names: Vec<&'static str>,
    /// The folders with patterns, outermost first.
    folders: Vec<Arc<FolderPatterns>>,
}

/// The patterns of one folder.
#[derive(Debug)]
struct FolderPatterns {
    /// The path of the folder, without a `/` at its end.
    path: Vec<u8>,
    /// The patterns, which are relative to the folder.
    patterns: Gitignore,
}

impl IgnoreFiles {
    /// Creates a set without patterns, which reads the files of this program, of git, or of both.
    pub(super) fn new(reads_own: bool, reads_git: bool) -> IgnoreFiles {
        let all = [(GIT_NAME, reads_git), (OWN_NAME, reads_own)];
        let names = all.into_iter().filter_map(|(name, is_read)| is_read.then_some(name));
        IgnoreFiles { names: names.collect(), folders: Vec::new() }
    }

    /// Enters the folder at `path`, which has these names. Returns what cannot be used of its
    /// files: the name of the file and the problem.
    pub(super) fn enter(
        &mut self,
        folder: &Handle,
        path: &[u8],
        names: &Names,
    ) -> Vec<(&'static str, String)> {
        self.folders.retain(|above| rest_of(path, &above.path).is_some());
        let mut problems = Vec::new();
        let mut builder = pattern_builder();
        for name in &self.names {
            if !names.contains(name.as_bytes()) {
                continue;
            }
            let bytes = match read(folder, name) {
                Ok(bytes) => bytes,
                Err(error) => {
                    problems.push((*name, format!("{error}; its patterns are not used")));
                    continue;
                }
            };
            let bytes = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(&bytes);
            for (index, line) in bytes.split(|&byte| byte == b'\n').enumerate() {
                let added = std::str::from_utf8(line)
                    .map_err(|_| "not UTF-8".to_owned())
                    .and_then(|line| add_pattern(&mut builder, line));
                if let Err(problem) = added {
                    let line = index + 1;
                    problems.push((*name, format!("line {line}: {problem}; the line is not used")));
                }
            }
        }
        match builder.build() {
            Ok(patterns) if patterns.is_empty() => {}
            Ok(patterns) => {
                self.folders.push(Arc::new(FolderPatterns { path: path.to_vec(), patterns }))
            }
            Err(error) => problems.push((OWN_NAME, format!("{error}; no pattern is used"))),
        }
        problems
    }

    /// Returns `true` if one of `names` is a file with patterns.
    pub(super) fn is_any_in(&self, names: &Names) -> bool {
        self.names.iter().any(|name| names.contains(name.as_bytes()))
    }

    /// Returns `true` if there is no pattern.
    pub(super) fn is_empty(&self) -> bool {
        self.folders.is_empty()
    }

    /// Returns `Some(true)` if the pattern that decides about `path` is an ordinary one,
    /// `Some(false)` if it is negated by a `!`, and `None` if no pattern matches. The patterns of
    /// the innermost folder with a match decide.
    pub(super) fn find(&self, path: &Path, is_folder: bool) -> Option<bool> {
        let path = path.as_os_str().as_bytes();
        self.folders.iter().rev().find_map(|folder| {
            let rest = Path::new(std::ffi::OsStr::from_bytes(rest_of(path, &folder.path)?));
            match folder.patterns.matched(rest, is_folder) {
                Match::None => None,
                Match::Ignore(_) => Some(true),
                Match::Whitelist(_) => Some(false),
            }
        })
    }
}

/// Returns the part of `path` after the folder `above`, with its `/`, if it is below that folder.
fn rest_of<'a>(path: &'a [u8], above: &[u8]) -> Option<&'a [u8]> {
    path.strip_prefix(above).filter(|rest| rest.first() == Some(&b'/'))
}

/// Reads the file `name` of `folder`.
fn read(folder: &Handle, name: &str) -> io::Result<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let no_file = || io::Error::other("not a regular file");
    let file = match rustix::fs::openat(folder, name, flags, Mode::empty()) {
        Err(platform::LINK_REFUSED | rustix::io::Errno::NXIO) => return Err(no_file()),
        file => file?,
    };
    if kind(&rustix::fs::fstat(&file)?) != Some(EntryKind::File) {
        return Err(no_file());
    }
    let mut bytes = Vec::new();
    File::from(file).take(LEN_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LEN_MAX {
        return Err(io::Error::other(format!("longer than {LEN_MAX} bytes")));
    }
    Ok(bytes)
}
