//! The patterns that choose the entries of a restore.

use std::path::Path;

use cutpoint_storage::{Error, Result};

use super::options::RestoreOptions;
use crate::source::{PatternSet, every_folder_hint};

/// The decision about an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The entry is left out, with everything below it.
    Excluded,
    /// The entry is restored.
    Included,
    /// The entry is not restored, except as the parent of an entry that is.
    Unmatched,
}

/// The patterns of a restore.
#[derive(Debug)]
pub(super) struct Patterns {
    exclude: PatternSet,
    include: PatternSet,
}

impl Patterns {
    /// Parses the patterns of `options`.
    pub(super) fn new(options: &RestoreOptions) -> Result<Patterns> {
        let parse =
            |patterns| PatternSet::new(patterns).map_err(|error| Error::invalid("pattern", error));
        Ok(Patterns { exclude: parse(&options.exclude)?, include: parse(&options.include)? })
    }

    /// Returns `true` if no pattern decides about an entry without a matching parent folder.
    pub(super) fn includes_all(&self) -> bool {
        self.include.is_empty()
    }

    /// Decides about `path`, which begins at the root of the snapshot. `in_included` says that the
    /// folder of the entry is included.
    pub(super) fn decide(&mut self, path: &Path, is_folder: bool, in_included: bool) -> Verdict {
        if self.exclude.find(path, is_folder) == Some(true) {
            return Verdict::Excluded;
        }
        match self.include.find(path, is_folder) {
            Some(true) => Verdict::Included,
            None if in_included => Verdict::Included,
            Some(false) | None => Verdict::Unmatched,
        }
    }

    /// Calls `report` with each pattern that has matched nothing, and a message.
    pub(super) fn for_each_unmatched(&self, mut report: impl FnMut(&str, &str)) {
        for (set, purpose) in [(&self.include, "include"), (&self.exclude, "exclude")] {
            for pattern in set.unmatched() {
                let mut message = format!("this pattern to {purpose} matches nothing");
                if let Some(hint) = every_folder_hint(pattern) {
                    message += &format!("; {hint}");
                }
                report(pattern, &message);
            }
        }
    }
}
