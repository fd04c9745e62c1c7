//! The names that a walk leaves out: exclusion patterns, caches and other file systems.

use std::io;
use std::path::Path;

use cutpoint_repository::EntryKind;
use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use rustix::fs::{Mode, OFlags};

use super::folder::Handle;
use super::kind;
use super::names::Names;
use super::walk_options::{FolderTag, WalkOptions};

/// The rule that excludes a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExclusionRule {
    /// A pattern of the options.
    Pattern,
    /// A pattern in a file of a folder.
    IgnoreFile,
    /// A tag in the folder of the name.
    Tag,
    /// The size of the file.
    Size,
    /// The name is on another file system.
    FileSystem,
}

impl ExclusionRule {
    /// Returns the rule in words.
    pub fn name(self) -> &'static str {
        match self {
            ExclusionRule::Pattern => "pattern",
            ExclusionRule::IgnoreFile => "ignore file",
            ExclusionRule::Tag => "tag",
            ExclusionRule::Size => "size",
            ExclusionRule::FileSystem => "file system",
        }
    }
}

/// The rules of a walk for the names to leave out, without the files of patterns in folders.
#[derive(Debug)]
pub(super) struct Exclusion {
    patterns: Gitignore,
    tags: Vec<FolderTag>,
    larger_than: Option<u64>,
    one_file_system: bool,
}

impl Exclusion {
    /// Parses the patterns of `options`.
    ///
    /// # Errors
    ///
    /// Returns `InvalidInput` if a pattern is invalid.
    pub(super) fn new(options: &WalkOptions) -> io::Result<Exclusion> {
        let caches = options.exclude_caches.then(FolderTag::of_caches);
        Ok(Exclusion {
            patterns: parse_all(&options.exclude, &options.exclude_any_case)?,
            tags: caches.into_iter().chain(options.exclude_tagged.iter().cloned()).collect(),
            larger_than: options.exclude_larger_than,
            one_file_system: options.one_file_system,
        })
    }

    /// Returns `true` if there is any pattern.
    pub(super) fn has_patterns(&self) -> bool {
        !self.patterns.is_empty()
    }

    /// Returns `Some(true)` if the last pattern that matches `path` is an ordinary one,
    /// `Some(false)` if it is negated by a `!`, and `None` if no pattern matches. Patterns that
    /// exclude a folder above `path` do not count.
    pub(super) fn find(&self, path: &Path, is_folder: bool) -> Option<bool> {
        match self.patterns.matched(path, is_folder) {
            Match::None => None,
            Match::Ignore(_) => Some(true),
            Match::Whitelist(_) => Some(false),
        }
    }

    /// Returns `true` if the walk stays on the file system `home` and `device` is another one.
    pub(super) fn is_foreign(&self, device: u64, home: Option<u64>) -> bool {
        self.one_file_system && home.is_some_and(|home| home != device)
    }

    /// Returns `true` if a file of `size` bytes is too large.
    pub(super) fn is_too_large(&self, size: u64) -> bool {
        self.larger_than.is_some_and(|limit| size > limit)
    }

    /// Returns `true` if `folder`, which has these names, has a tag, so that its contents are left
    /// out.
    pub(super) fn is_tagged(&self, folder: &Handle, names: &Names) -> bool {
        self.tags.iter().any(|tag| names.contains(&tag.name) && has_header(folder, tag))
    }

    /// Returns `true` if one of `names` is that of a tag.
    pub(super) fn is_any_tag_in(&self, names: &Names) -> bool {
        self.tags.iter().any(|tag| names.contains(&tag.name))
    }

    /// Returns `true` if `name` is the name of a tag.
    pub(super) fn is_tag(&self, name: &[u8]) -> bool {
        self.tags.iter().any(|tag| tag.name == name)
    }
}

/// Parses the lines of a `.gitignore` file in the root folder.
pub(super) fn parse_patterns(patterns: &[String]) -> io::Result<Gitignore> {
    parse_all(patterns, &[])
}

/// Parses such lines, followed by others that ignore the case of letters.
fn parse_all(patterns: &[String], any_case: &[String]) -> io::Result<Gitignore> {
    let invalid = |problem| io::Error::new(io::ErrorKind::InvalidInput, problem);
    let mut builder = pattern_builder();
    for (patterns, ignores_case) in [(patterns, false), (any_case, true)] {
        builder.case_insensitive(ignores_case).map_err(|error| invalid(error.to_string()))?;
        for pattern in patterns {
            add_pattern(&mut builder, pattern).map_err(invalid)?;
        }
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

/// Returns the first name of a pattern that matches from the root folder on although it does not begin
/// with a slash, or `None` for any other pattern.
pub fn implied_root_name(pattern: &str) -> Option<&str> {
    let (name, rest) = pattern.split_once('/')?;
    let is_implied = !rest.is_empty() && !name.is_empty() && name != "**";
    (is_implied && !name.starts_with(['!', '#'])).then_some(name)
}

/// Returns a hint for a pattern that has matched nothing, if it has an [`implied_root_name`].
pub fn every_folder_hint(pattern: &str) -> Option<String> {
    implied_root_name(pattern).map(|_| format!("`**/{pattern}` matches in every folder"))
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
/// Returns the pattern and its problem if the pattern is invalid or cannot match anything.
pub(super) fn add_pattern(builder: &mut GitignoreBuilder, pattern: &str) -> Result<(), String> {
    let problem = match builder.add_line(None, pattern) {
        Ok(_) => match idle_part(pattern) {
            None => return Ok(()),
            Some(part) => format!("matches nothing, because no path contains {part}"),
        },
        Err(ignore::Error::Glob { err, .. }) => err,
        Err(error) => error.to_string(),
    };
    let problem = match problem.as_str() {
        "unclosed character class; missing ']'" => "character class without ]",
        "dangling '\\'" => "\\ without a character after it",
        problem => problem,
    };
    Err(format!("pattern {pattern}: {problem}"))
}

/// Returns the part of a pattern that no resolved path has, if there is one.
fn idle_part(pattern: &str) -> Option<&'static str> {
    let pattern = pattern.trim_end();
    if pattern.starts_with('#') {
        return None;
    }
    let body = pattern.strip_prefix('!').unwrap_or(pattern);
    let body = body.strip_prefix('/').unwrap_or(body);
    let body = body.strip_suffix('/').unwrap_or(body);
    body.split('/').find_map(|name| match name {
        "." => Some("`.`"),
        ".." => Some("`..`"),
        "" if !body.is_empty() => Some("`//`"),
        _ => None,
    })
}

/// Returns `true` if the entry of `folder` with the name of `tag` begins as a tag does. If a header
/// is required, it must be a regular file.
fn has_header(folder: &Handle, tag: &FolderTag) -> bool {
    if tag.header.is_empty() {
        return true;
    }
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let Ok(file) = rustix::fs::openat(folder, tag.name.as_slice(), flags, Mode::empty()) else {
        return false;
    };
    let is_file = rustix::fs::fstat(&file).is_ok_and(|stat| kind(&stat) == Some(EntryKind::File));
    let mut begin = vec![0; tag.header.len()];
    is_file
        && io::Read::read_exact(&mut std::fs::File::from(file), &mut begin).is_ok()
        && begin == tag.header
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_that_can_match_nothing_are_refused() {
        for text in ["[a", "a\\", "./a", "a/../b", "../a", "a//b", "!./a", "a/./", "[z-a]"] {
            assert!(check_pattern(text).is_err(), "{text:?} was accepted");
        }
        for text in
            ["", "# ./a", "/", ".a", "..a/", "a/.b", "/a/", "**/a", "a/**", "!a/b", "\\[a", " "]
        {
            assert_eq!(check_pattern(text), Ok(()), "{text:?}");
        }
    }
}
