//! The comparison of a view with the remembered state.

use std::collections::{BTreeMap, BTreeSet};

use cutpoint_storage::{Result, Storage};

use super::record::{Head, StateRecord, newest};
use crate::format::names::{ObjectName, TicketId};
use crate::repo::view::View;

/// A view, compared with the remembered state.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// The state that was remembered at the last use.
    pub expected: StateRecord,
    /// The state of the view.
    pub found: StateRecord,
    /// The remembered newest snapshots, by host, that the view should have, but lacks: they do not
    /// exist, and no prune has taken them.
    pub gone: BTreeMap<String, Head>,
    /// The remembered newest snapshots, by host, that exist, but cannot be opened. They are damaged
    /// or were replaced.
    pub damaged: BTreeMap<String, Head>,
    /// The remembered settings and prune record, if they exist, cannot be opened, and are newer
    /// than those that can.
    pub unopened: Vec<ObjectName>,
    /// The number of the highest prune record that this process has seen.
    seen_prune_number: u64,
    has_lower_numbers: bool,
}

/// The state that a view is compared with.
pub(super) struct KnownState<'a> {
    /// The state that this process has seen.
    pub(super) seen: &'a StateRecord,
    /// The state that was read from the file, or last saved.
    pub(super) saved: Option<&'a StateRecord>,
    /// The numbers of settings that exist, but cannot be opened.
    pub(super) unopened_settings: &'a BTreeSet<u64>,
}

impl Comparison {
    /// Compares `view`. Only objects that a key has opened count, because an attacker with write
    /// access to the storage can put objects of any number that do not open.
    pub(super) fn new(expected: &KnownState<'_>, view: &View) -> Comparison {
        let KnownState { seen, saved, .. } = *expected;
        let found = seen.with_view(view);
        let taken = view.taken();
        // A commit of another outcome may have the name, because another client has ended the
        // ticket of a writer whose commit was gone.
        let is_snapshot =
            |id: &TicketId| view.commits.get(id).is_some_and(|commit| commit.snapshot().is_some());
        let mut gone = seen.heads.clone();
        gone.retain(|_, head| head.id().is_none_or(|id| !is_snapshot(&id) && !taken.contains(&id)));
        // A snapshot that exists and cannot be opened may be damaged. This does not stop a restore
        // of the rest. The snapshot stays remembered, so that its deletion counts as an older
        // state.
        let is_damaged = |head: &Head| {
            head.id().is_some_and(|id| view.unreadable.contains_key(&ObjectName::Commit(id)))
        };
        let (damaged, gone) = gone.into_iter().partition(|(_, head)| is_damaged(head));
        let has_lower_numbers = saved.is_some_and(|saved| {
            found.config_number < saved.config_number
                || found.epoch < saved.epoch
                || found.prune_number < saved.prune_number
        });
        Comparison {
            expected: saved.unwrap_or(seen).clone(),
            unopened: expected.unopened(&found, view),
            found,
            gone,
            damaged,
            seen_prune_number: seen.prune_number,
            has_lower_numbers,
        }
    }

    /// Returns `true` if the repository is in an older state than the remembered one: settings,
    /// keys or the highest prune record are older, or a snapshot is gone that no prune has taken.
    pub fn is_older(&self) -> bool {
        self.has_lower_numbers || !self.gone.is_empty()
    }

    /// Returns the newest of the snapshots that are gone, with its host.
    pub fn newest_gone(&self) -> Option<(&String, &Head)> {
        newest(&self.gone)
    }

    /// Returns the snapshots of [`Comparison::damaged`] whose host has no newer one that opens. An
    /// older snapshot is taken for the newest of the host then.
    pub fn damaged_newest(&self) -> impl Iterator<Item = (&String, &Head)> {
        self.damaged.iter().filter(|(host, head)| {
            let found = self.found.heads.get(*host);
            found.is_none_or(|found| found.started_ns < head.started_ns)
        })
    }

    /// Returns an object that exists, but is missing from `view`, if the view would be older than
    /// the remembered state without it. The listing lags behind then.
    pub(super) fn unlisted(
        &self,
        view: &View,
        storage: &dyn Storage,
    ) -> Result<Option<ObjectName>> {
        let gone = self.gone.values().filter_map(Head::id);
        let mut names: Vec<ObjectName> = gone.map(ObjectName::Commit).collect();
        if self.found.prune_number < self.seen_prune_number {
            names.push(ObjectName::Prune(self.seen_prune_number));
        }
        if !names.is_empty()
            && let Some(next) = self.found.prune_number.checked_add(1)
        {
            // This is the record that has taken a snapshot whose commit a sweep may already have
            // deleted.
            names.push(ObjectName::Prune(next));
        }
        // An object that was listed and cannot be read is damaged, and is reported as such. A
        // commit that was listed and is not a snapshot has replaced one.
        let is_listed = |name: &ObjectName| match name {
            ObjectName::Commit(id) => view.commits.contains_key(id),
            _ => false,
        };
        names.retain(|name| !view.unreadable.contains_key(name) && !is_listed(name));
        for name in names {
            if storage.head(&name.to_string())?.is_some() {
                return Ok(Some(name));
            }
        }
        Ok(None)
    }
}

impl KnownState<'_> {
    /// Returns the remembered objects that exist and cannot be opened, and are newer than those
    /// that can.
    fn unopened(&self, found: &StateRecord, view: &View) -> Vec<ObjectName> {
        let Some(saved) = self.saved else { return Vec::new() };
        let config = ObjectName::Config { number: saved.config_number, copy: false };
        let prune = ObjectName::Prune(saved.prune_number);
        let mut names = Vec::new();
        if found.config_number < saved.config_number
            && self.unopened_settings.contains(&saved.config_number)
        {
            names.push(config);
        }
        if found.prune_number < saved.prune_number && view.unreadable.contains_key(&prune) {
            names.push(prune);
        }
        names
    }
}
