//! Sets of patterns by the rules of a `.gitignore` file in the root folder.

use std::io;
use std::path::Path;

use ignore::Match;
use ignore::gitignore::Gitignore;

use super::exclusion::parse_patterns;

/// A set of patterns that also knows which of them have matched nothing.
#[derive(Debug)]
pub(crate) struct PatternSet {
    patterns: Gitignore,
    /// The patterns that have matched nothing so far, with their texts.
    unmatched: Vec<(String, Gitignore)>,
}

impl PatternSet {
    /// Parses patterns.
    ///
    /// # Errors
    ///
    /// Returns `InvalidInput` with the first invalid pattern and its problem.
    pub(crate) fn new(patterns: &[String]) -> io::Result<PatternSet> {
        let mut unmatched = Vec::new();
        for pattern in patterns {
            let alone = parse_patterns(std::slice::from_ref(pattern))?;
            // Comments and empty lines are no patterns.
            if !alone.is_empty() {
                unmatched.push((pattern.clone(), alone));
            }
        }
        Ok(PatternSet { patterns: parse_patterns(patterns)?, unmatched })
    }

    /// Returns `true` if there is no pattern.
    pub(crate) fn is_empty(&self) -> bool {
        self.patterns.is_empty()
    }

    /// Returns `Some(true)` if the last pattern that matches `path` is an ordinary one,
    /// `Some(false)` if it is negated by a `!`, and `None` if no pattern matches.
    pub(crate) fn find(&mut self, path: &Path, is_folder: bool) -> Option<bool> {
        self.unmatched.retain(|(_, alone)| alone.matched(path, is_folder).is_none());
        match self.patterns.matched(path, is_folder) {
            Match::None => None,
            Match::Ignore(_) => Some(true),
            Match::Whitelist(_) => Some(false),
        }
    }

    /// Returns the patterns that have matched no path.
    pub(crate) fn unmatched(&self) -> impl Iterator<Item = &str> {
        self.unmatched.iter().map(|(pattern, _)| pattern.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_match_decides_and_unmatched_patterns_are_known() {
        let patterns = ["*.o", "# text", "", "!keep.o", "/build/", "*.tmp"].map(str::to_owned);
        let mut set = PatternSet::new(&patterns).expect("valid patterns");
        assert_eq!(set.find(Path::new("/a/b.o"), false), Some(true), "anywhere");
        assert_eq!(set.find(Path::new("/a/keep.o"), false), Some(false), "negated");
        assert_eq!(set.find(Path::new("/build"), false), None, "a folder's pattern, but a file");
        assert_eq!(set.unmatched().collect::<Vec<_>>(), ["/build/", "*.tmp"]);
        assert_eq!(set.find(Path::new("/build"), true), Some(true), "a folder");
        assert_eq!(set.unmatched().collect::<Vec<_>>(), ["*.tmp"]);
        assert!(PatternSet::new(&["[z-a]".to_owned()]).is_err(), "an invalid pattern");
    }
}
