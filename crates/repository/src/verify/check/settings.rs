//! Checks of settings, keyrings and similarity objects, and of names.

use std::collections::{BTreeSet, HashMap};

use bytes::Bytes;
use cutpoint_storage::{ObjectKind, Result};

use super::context::{Check, Need};
use super::finding::FindingKind;
use super::objects::{get, names, open};
use crate::crypto::{Header, object_is_intact};
use crate::format::config::Config;
use crate::format::edges::SimilarityObject;
use crate::format::names::ObjectName;
use crate::repo::lagging_clients::is_mark;

/// Reports objects with names that no version of cutpoint uses.
pub(super) fn check_names(check: &Check<'_>) {
    for path in check.listing.keys() {
        if ObjectName::parse(path).is_err() && !is_mark(path) {
            check.report(FindingKind::Foreign, path, "not written by cutpoint");
        }
    }
}

/// Checks both copies of every settings object, from number 0.
pub(super) fn check_configs(check: &Check<'_>) -> Result<()> {
    let found: BTreeSet<ObjectName> = names(check, ObjectKind::Config).into_iter().collect();
    let highest = check.repository.config_number();
    // The settings with the highest number count.
    let need = |number| if number < highest { Need::Obsolete } else { Need::Named };
    for number in 0..=highest {
        for copy in [false, true] {
            let name = ObjectName::Config { number, copy };
            if !found.contains(&name) {
                check.report_by_need(
                    FindingKind::Missing,
                    name,
                    "not found".to_owned(),
                    need(number),
                );
            }
        }
    }
    let mut copies: HashMap<u64, Config> = HashMap::new();
    for name in found {
        let ObjectName::Config { number, .. } = name else { continue };
        let need = need(number);
        let Some(config) = open(check, name, need, Config::decode)? else { continue };
        let wrong = |message: &str| {
            check.report_by_need(FindingKind::Corrupt, name, message.to_owned(), need);
        };
        if config.repository != check.repository.keys().repository() {
            wrong("belongs to another repository");
        }
        if copies.insert(number, config.clone()).is_some_and(|first| first != config) {
            wrong("the two copies differ");
        }
    }
    Ok(())
}

/// Checks both copies of every keyring. The wrapped contents can be verified only with the key's
/// own secret.
pub(super) fn check_keys(check: &Check<'_>) -> Result<()> {
    let found: BTreeSet<ObjectName> = names(check, ObjectKind::Key).into_iter().collect();
    let mut copies: HashMap<[u8; 16], Bytes> = HashMap::new();
    for name in &found {
        let ObjectName::Key { id, copy } = *name else { continue };
        let other = ObjectName::Key { id, copy: !copy };
        if !found.contains(&other) {
            check.report(FindingKind::Missing, other, "not found");
        }
        let Some(bytes) = get(check, *name, Need::Named)? else { continue };
        if let Err(error) = Header::decode(name, &bytes) {
            if object_is_intact(&bytes) {
                check.report_error(name, error, Need::Named)?;
            }
            continue;
        }
        // A damaged one was reported a moment ago.
        let is_intact = object_is_intact(&bytes);
        if is_intact && copies.insert(id, bytes.clone()).is_some_and(|first| first != bytes) {
            check.report(FindingKind::Corrupt, name, "the two copies differ");
        }
    }
    if found.is_empty() {
        check.report(FindingKind::Missing, "keys", "no keyring found");
    }
    Ok(())
}

/// Checks similarity objects. They may disappear at any time, but those that exist should be
/// intact.
pub(super) fn check_similarity(check: &Check<'_>) -> Result<()> {
    for name in names(check, ObjectKind::Similarity) {
        open(check, name, Need::Unnamed, SimilarityObject::decode)?;
    }
    Ok(())
}
