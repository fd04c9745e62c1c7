//! The question whether many objects exist: by one request for each, or by listings. A listing may
//! lag behind, or come in another order, so that an object that it lacks is asked for by its name.

use std::collections::{BTreeMap, BTreeSet};

use super::S3;
use super::failure::Failure;
use super::listing::{DIGIT_COUNT, Listed, is_folder_of_containers};
use crate::error::Result;
use crate::storage::Storage;

/// Maximum number of objects of a folder for which no listing is considered.
const HEADS_MAX: usize = 16;
/// Number of first digits by which the share of a folder is estimated that a page covers.
const SHARE_DIGITS: usize = 4;

impl S3 {
    /// Returns `true` if all objects of these names exist.
    pub(super) fn find_all(&self, names: &[String]) -> Result<bool> {
        let mut folders: BTreeMap<&str, BTreeSet<&String>> = BTreeMap::new();
        for name in names {
            let folder = name.split('/').next().unwrap_or_default();
            folders.entry(folder).or_default().insert(name);
        }
        for (folder, names) in folders {
            if !self.find_all_in(folder, names.into_iter().collect())? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns `true` if all objects of these names, which are inside of `folder`, exist.
    fn find_all_in(&self, folder: &str, mut names: Vec<&String>) -> Result<bool> {
        if names.len() > HEADS_MAX && is_folder_of_containers(folder) {
            let (page, is_all) = self.link.tries("list", folder, || self.first_page(folder))?;
            // A page has all names up to its last one.
            let last = page.last().map_or("", |object| object.name.as_str()).to_owned();
            let listed: BTreeSet<&String> = page.iter().map(|object| &object.name).collect();
            let is_covered = |name: &&String| is_all || name.as_str() <= last.as_str();
            let (mut covered, open): (Vec<_>, Vec<_>) = names.into_iter().partition(is_covered);
            covered.retain(|name| !listed.contains(*name));
            names = open;
            let page_count = estimated_page_count(folder, &last);
            if names.len() > page_count {
                let listed = self.list(folder)?;
                let listed: BTreeSet<&String> = listed.iter().map(|(name, _)| name).collect();
                names.retain(|name| !listed.contains(*name));
            }
            names.extend(covered);
        }
        let heads = names.iter().map(|name| self.head_at_once(name));
        let found = self.link.at_once(names.len(), heads);
        let found = self.settle(found, |at| names[at], |at| self.head(names[at]));
        for len in found {
            if len?.is_none() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns the first page of a listing, and `true` if there is no other.
    fn first_page(&self, prefix: &str) -> Result<(Vec<Listed>, bool), Failure> {
        let folder = format!("{}/", self.path(prefix));
        let (mut page, token) = self.link.block_on(self.page(&folder, None))?;
        page.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        Ok((page, token.is_none()))
    }
}

/// Estimates the number of pages in a listing of a folder of containers, whose names are evenly
/// distributed, from its first page, which ends with `last`.
fn estimated_page_count(folder: &str, last: &str) -> usize {
    let digits = last.get(folder.len()..).unwrap_or_default().chars().filter(|c| *c != '/');
    let digits: String = digits.take(SHARE_DIGITS).collect();
    let Ok(place) = usize::from_str_radix(&digits, 16) else { return usize::MAX };
    let all = 1_usize << (4 * digits.len());
    // The page covers `place + 1` of `all` parts. Each digit is listed separately, and its last page
    // is not full.
    all / (place + 1) + DIGIT_COUNT + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_count_follows_from_the_share_of_the_first_page() {
        let pages = |last: &str| estimated_page_count("data", last);
        assert_eq!(pages("data/ff/ff00"), 18, "all names are in the page");
        assert_eq!(pages("data/0f/ff00"), 33, "a sixteenth of the names");
        assert!(pages("data/00/01aa") > 30_000, "a small part of them");
        assert_eq!(pages("data/xx/"), usize::MAX, "no name of a container");
        assert_eq!(pages("data"), usize::MAX, "no name at all");
    }
}
