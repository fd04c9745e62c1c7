//! Checks of tickets, commits and prune records.

use std::collections::BTreeSet;
use std::sync::Arc;

use cutpoint_storage::{Error, ObjectKind, Result};

use super::checkpoint::check_parts;
use super::context::{Check, Need};
use super::finding::FindingKind;
use super::inventory::Inventory;
use super::objects::{may_go, names, open, open_unless};
use crate::format::names::ObjectName;
use crate::format::prune::Prune;
use crate::format::ticket::Ticket;

/// Checks tickets, commits and prune records. The readable ones make up the view.
pub(super) fn check_view(check: &Check<'_>) -> Result<Inventory> {
    let mut inventory = Inventory::default();
    let mut given_up = BTreeSet::new();
    let mut unfound = Vec::new();
    for name in names(check, ObjectKind::Prune) {
        // Records that cannot be read are reported below.
        if let Ok(prune) = check.repository.read(name, Prune::decode) {
            given_up.extend(prune.given_up);
        }
    }
    // Prunes come first, because commits that they have taken are not needed any more.
    for kind in [ObjectKind::Prune, ObjectKind::Commit] {
        let taken = inventory.view.taken();
        for name in names(check, kind) {
            let need = match name {
                ObjectName::Commit(ticket) if taken.contains(&ticket) => Need::Obsolete,
                ObjectName::Prune(number) if given_up.contains(&number) => Need::Obsolete,
                _ => Need::Named,
            };
            let decode = |body: &[u8]| inventory.take_up(name, body);
            let taken_up = open_unless(check, name, need, decode, || {
                unfound.extend(may_go(name).then_some(name));
                Ok(may_go(name))
            })?;
            if taken_up.is_none() {
                let error = Error::corrupt(name, "cannot be read");
                inventory.view.unreadable.insert(name, Arc::new(error));
            }
        }
        inventory.view.drop_given_up();
    }
    for name in names(check, ObjectKind::Ticket) {
        let ObjectName::Ticket { ticket, .. } = name else { continue };
        let has_ended = check.listing.contains_key(&ObjectName::Commit(ticket).to_string());
        let need = if has_ended { Need::Obsolete } else { Need::Named };
        open(check, name, need, Ticket::decode)?;
        if !has_ended {
            inventory.unfinished.insert(ticket);
        }
    }
    let damaged = inventory.view.damaged();
    inventory.recorded =
        damaged.into_iter().map(|damage| (damage.class, damage.container)).collect();
    name_unfound(check, &mut inventory, &unfound)?;
    for ticket in &inventory.unfinished {
        let name = ObjectName::Ticket { ticket: *ticket, renewal: 0 };
        let message = "a writer that has not ended (active or interrupted)";
        check.report(FindingKind::Unfinished, name, message);
    }
    check_parts(check, &mut inventory.view)?;
    // A listing may miss an object that was put during it, lag, or have lost an entry.
    if !inventory.view.gone_commits().is_empty() {
        inventory.list_again(check)?;
    }
    inventory.look_by_name(check);
    check_named_commits(check, &mut inventory);
    check_prune_numbers(check, &inventory);
    Ok(inventory)
}

/// Reports commits that were listed and do not exist, unless a record has taken them, because a
/// sweep deletes only such commits.
fn name_unfound(
    check: &Check<'_>,
    inventory: &mut Inventory,
    unfound: &[ObjectName],
) -> Result<()> {
    if unfound.is_empty() {
        return Ok(());
    }
    inventory.list_again(check)?;
    let taken = inventory.view.taken();
    for name in unfound {
        let ObjectName::Commit(ticket) = name else { continue };
        if !taken.contains(ticket) {
            let message = "listed by the storage, but not found";
            check.report(FindingKind::Missing, name, message);
            inventory.missing_commits.insert(*ticket);
        }
    }
    Ok(())
}

/// Reports commits that a later writer has seen, or that the checkpoint has, and that are gone, although no prune has taken
/// them.
fn check_named_commits(check: &Check<'_>, inventory: &mut Inventory) {
    let message = "deleted: a later writer has seen it, or the checkpoint has it, and no prune has removed it";
    for ticket in inventory.view.gone_commits() {
        check.report(FindingKind::Missing, ObjectName::Commit(ticket), message);
        inventory.missing_commits.insert(ticket);
    }
}

fn check_prune_numbers(check: &Check<'_>, inventory: &Inventory) {
    for number in inventory.view.missing_prunes() {
        let message =
            "missing, although prune records are never deleted; what it condemned is unknown";
        check.report(FindingKind::Missing, ObjectName::Prune(number), message);
    }
}
