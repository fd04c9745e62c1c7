//! The names that a walk leaves out: exclusion patterns, caches and other file systems.

use std::io;
use std::path::Path;

use cutpoint_repository::EntryKind;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use rustix::fs::{Mode, OFlags};

use super::folder::Handle;
use super::kind;
use super::names::Names;
use super::walk_options::WalkOptions;

/// The name of the file that marks a folder as a cache. The signature below is how the file begins.
///
/// Source: the Cache Directory Tagging Specification, <https://bford.info/cachedir/>.
const CACHE_TAG_NAME: &[u8] = b"CACHEDIR.TAG";
const CACHE_TAG_SIGNATURE: &[u8; 43] = b"Signature: 8a477f597d28d172789f06886806bc55";

/// The rules of a walk for the names to leave out.
#[derive(Debug)]
pub struct Exclusion {
    patterns: Gitignore,
    one_file_system: bool,
    exclude_caches: bool,
}

impl Exclusion {
    /// Parses the patterns of `options`.
    ///
    /// # Errors
    ///
    /// Returns `InvalidInput` if a pattern is invalid.
    pub fn new(options: &WalkOptions) -> io::Result<Exclusion> {
        Ok(Exclusion {
            patterns: parse_patterns(&options.exclude)?,
            one_file_system: options.one_file_system,
            exclude_caches: options.exclude_caches,
        })
    }

    /// Returns `true` if there is any pattern.
    pub(super) fn has_patterns(&self) -> bool {
        !self.patterns.is_empty()
    }

    /// Returns `true` if a pattern excludes `path`, not counting the patterns that exclude a folder
    /// above it.
    pub fn matches(&self, path: &Path, is_folder: bool) -> bool {
        self.patterns.matched(path, is_folder).is_ignore()
    }

    /// Returns `true` if the walk stays on the file system `home` and `device` is another one.
    pub(super) fn is_foreign(&self, device: u64, home: Option<u64>) -> bool {
        self.one_file_system && home.is_some_and(|home| home != device)
    }

    /// Returns `true` if `folder`, which has these names, is a cache to leave out.
    pub(super) fn is_cache(&self, folder: &Handle, names: &Names) -> bool {
        self.exclude_caches && names.contains(CACHE_TAG_NAME) && has_cache_tag(folder)
    }
}

/// Returns `true` if `name` is the name of the file that marks a folder as a cache.
pub(super) fn is_cache_tag(name: &[u8]) -> bool {
    name == CACHE_TAG_NAME
}

/// Parses the lines of a `.gitignore` file in the root folder.
pub(super) fn parse_patterns(patterns: &[String]) -> io::Result<Gitignore> {
    let invalid = |problem| io::Error::new(io::ErrorKind::InvalidInput, problem);
    let mut builder = pattern_builder();
    for pattern in patterns {
        add_pattern(&mut builder, pattern).map_err(invalid)?;
    }
    builder.build().map_err(|error| invalid(error.to_string()))
}

/// Checks an exclusion pattern.
///
/// # Errors
///
/// Returns the pattern and its problem if the pattern is invalid.
pub fn check_pattern(pattern: &str) -> Result<(), String> {
    add_pattern(&mut pattern_builder(), pattern)
}

/// Creates a builder of patterns that are relative to the root folder.
pub(super) fn pattern_builder() -> GitignoreBuilder {
    let mut builder = GitignoreBuilder::new("/");
    // By default, a pattern such as `[a` matches its own text, which is never what was meant.
    builder.allow_unclosed_class(false);
    builder
}

/// Adds a pattern.
///
/// # Errors
///
/// Returns the pattern and its problem if the pattern is invalid.
pub(super) fn add_pattern(builder: &mut GitignoreBuilder, pattern: &str) -> Result<(), String> {
    match builder.add_line(None, pattern) {
        Ok(_) => Ok(()),
        Err(error) => {
            let problem = match error {
                ignore::Error::Glob { err, .. } => err,
                error => error.to_string(),
            };
            let problem = match problem.as_str() {
                "unclosed character class; missing ']'" => "character class without ]",
                "dangling '\\'" => "\\ without a character after it",
                problem => problem,
            };
            Err(format!("pattern {pattern}: {problem}"))
        }
    }
}

/// Returns `true` if `folder` has a tag file that begins with the signature. The name alone does
/// not count.
fn has_cache_tag(folder: &Handle) -> bool {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let mut begin = [0; CACHE_TAG_SIGNATURE.len()];
    let Ok(file) = rustix::fs::openat(folder, CACHE_TAG_NAME, flags, Mode::empty()) else {
        return false;
    };
    let is_file = rustix::fs::fstat(&file).is_ok_and(|stat| kind(&stat) == Some(EntryKind::File));
    is_file
        && io::Read::read_exact(&mut std::fs::File::from(file), &mut begin).is_ok()
        && begin == *CACHE_TAG_SIGNATURE
}
