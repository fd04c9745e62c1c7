//! A pattern that finds paths, by the rules of exclusion patterns.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use ignore::gitignore::Gitignore;

use super::exclusion::{add_pattern, pattern_builder};

/// The characters with a meaning in a pattern. A component without them matches only itself.
const SPECIAL: &[u8] = b"*?[]{},\\";

/// A pattern that finds paths. It follows the rules of a `.gitignore` file in the root folder,
/// except that a leading `!` or `#` is an ordinary character.
#[derive(Clone, Debug)]
pub struct PathPattern {
    text: String,
    glob: Gitignore,
    /// The components with which every match begins.
    literal: Vec<Vec<u8>>,
    /// Set if `literal` is the complete pattern.
    is_literal: bool,
}

impl PathPattern {
    /// Parses a pattern.
    ///
    /// # Errors
    ///
    /// Returns the pattern and its problem if the pattern is invalid or matches nothing.
    pub fn parse(pattern: &str) -> Result<PathPattern, String> {
        let mut builder = pattern_builder();
        if pattern.starts_with(['!', '#']) {
            add_pattern(&mut builder, &format!("\\{pattern}"))?;
        } else {
            add_pattern(&mut builder, pattern)?;
        }
        let glob = builder.build().map_err(|error| format!("pattern {pattern}: {error}"))?;
        if glob.is_empty() {
            return Err(format!("pattern {pattern:?} is empty"));
        }
        let (literal, is_literal) = literal_prefix(pattern);
        Ok(PathPattern { text: pattern.to_owned(), glob, literal, is_literal })
    }

    /// Returns the pattern as it was given.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns `true` if the pattern matches `path`, which begins with `/`.
    pub fn matches(&self, path: &[u8], is_folder: bool) -> bool {
        self.glob.matched(Path::new(OsStr::from_bytes(path)), is_folder).is_ignore()
    }

    /// Returns `false` if the pattern matches nothing below the folder at `path`, which is empty
    /// for the root and otherwise begins with `/`.
    pub fn may_match_below(&self, path: &[u8]) -> bool {
        let mut depth = 0;
        for name in path.split(|&byte| byte == b'/').filter(|name| !name.is_empty()) {
            if self.literal.get(depth).is_some_and(|literal| literal != name) {
                return false;
            }
            depth += 1;
        }
        !self.is_literal || depth < self.literal.len()
    }
}

/// Returns the components of a pattern before the first one with a special character, and whether
/// these are all of them. A pattern that matches anywhere has no such components.
fn literal_prefix(pattern: &str) -> (Vec<Vec<u8>>, bool) {
    let body = pattern.strip_suffix('/').unwrap_or(pattern);
    // The rules ignore white space at the end.
    if !body.contains('/') || pattern.ends_with(char::is_whitespace) {
        return (Vec::new(), false);
    }
    let names: Vec<&[u8]> =
        body.strip_prefix('/').unwrap_or(body).as_bytes().split(is_slash).collect();
    let is_plain = |name: &&&[u8]| !name.is_empty() && !name.iter().any(|b| SPECIAL.contains(b));
    let literal: Vec<Vec<u8>> =
        names.iter().take_while(is_plain).map(|name| name.to_vec()).collect();
    let is_literal = literal.len() == names.len();
    (literal, is_literal)
}

fn is_slash(byte: &u8) -> bool {
    *byte == b'/'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> PathPattern {
        PathPattern::parse(text).expect(text)
    }

    #[test]
    fn pattern_without_inner_slash_matches_names_and_others_match_whole_paths() {
        for (text, path, is_folder, expected) in [
            ("*.jpg", "/home/me/a.jpg", false, true),
            ("*.jpg", "/home/a.jpg/b", false, false),
            ("docs/", "/home/docs", true, true),
            ("docs/", "/home/docs", false, false),
            ("/home/*/a", "/home/me/a", false, true),
            ("/home/*/a", "/srv/home/me/a", false, false),
            ("home/me", "/home/me", true, true),
            ("home/me", "/x/home/me", true, false),
            ("**/me/a", "/home/me/a", false, true),
            ("!a", "/x/!a", false, true),
            ("#a", "/x/#a", false, true),
            ("!a", "/x/b", false, false),
        ] {
            assert_eq!(
                pattern(text).matches(path.as_bytes(), is_folder),
                expected,
                "{text} {path}"
            );
        }
    }

    #[test]
    fn invalid_and_empty_patterns_are_refused() {
        for text in ["", " ", "[a", "a\\"] {
            assert!(PathPattern::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn folders_without_matches_below_are_known() {
        for (text, folder, expected) in [
            ("a", "/x/y", true),
            ("/x/y", "", true),
            ("/x/y", "/x", true),
            ("/x/y", "/x/y", false),
            ("/x/y", "/z", false),
            ("x/*/y", "/x/a/b", true),
            ("x/*/y", "/z", false),
            ("**/x/y", "/z", true),
            ("/x/{y,z}/a", "/x/z", true),
            ("!x/y", "/!x", true),
        ] {
            assert_eq!(
                pattern(text).may_match_below(folder.as_bytes()),
                expected,
                "{text} {folder}"
            );
        }
    }
}
