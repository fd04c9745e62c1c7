//! Scripts about sweeps that free space at once, and about clients whose listings lag.

use cutpoint_repository::gc::prune::{self as pruning, OptimizeOptions};
use cutpoint_repository::repo::lagging_clients::{LAG_MAX, announce};
use cutpoint_repository::rules::Mutant;
use cutpoint_storage::Result;

use super::actor::Actor;
use super::play::Act;
use super::readers::read_folder;
use super::removers::prune_all;
use super::scripted::{back_up_one, past_tickets, rule_is_needed, rule_is_needed_by, sweep_once};
use crate::interleaving::world::{Role, Script, Until};
use crate::support::complete_reader::reader_of_all;

/// Announces that the listings of this client may lag, as its first writer does.
fn announce_lag(actor: &mut Actor) -> Result<()> {
    announce(&actor.repository, LAG_MAX)
}

/// Lets the time pass by which listings may lag.
fn let_lag_pass(actor: &mut Actor) -> Result<()> {
    actor.repository.environment().block(LAG_MAX);
    Ok(())
}

const PLAIN: Role = Role {
    may_delete: false,
    may_be_mutant: false,
    may_crash: false,
    has_bad_network: false,
    lags: false,
};

const DELETING: Role = Role { may_delete: true, ..PLAIN };

const LAGGING: Role = Role { lags: true, ..PLAIN };

/// S1: a writer that begins between the listing of tickets and the record is neither awaited, nor
/// has seen the record.
#[test]
fn tickets_are_listed_after_the_record() {
    let cast: [(Act, bool); 4] =
        [(back_up_one, false), (prune_all, false), (sweep_once, true), (back_up_one, false)];
    let script = vec![
        (1, Until::End),
        (3, Until::Before("list commits")),
        (4, Until::Before("put commits/")),
        (2, Until::End),
        (3, Until::End),
        (4, Until::End),
    ];
    rule_is_needed(Mutant::LooksTooEarly, 2, &cast, &script);
}

/// S1: the client that prunes does not see the ticket of a writer that has not seen its record.
#[test]
fn client_with_lagging_listings_does_not_sweep_at_once() {
    fn prune_and_sweep(actor: &mut Actor) -> Result<()> {
        prune_all(actor)?;
        sweep_once(actor)
    }
    let lagging = Role { lags: true, ..DELETING };
    let cast: [(Act, Role); 4] = [
        (back_up_one, PLAIN),
        (let_lag_pass, PLAIN),
        (prune_and_sweep, lagging),
        (back_up_one, PLAIN),
    ];
    let script = vec![
        (1, Until::End),
        (2, Until::End),
        (3, Until::Before("put prunes/")),
        (4, Until::Before("put commits/")),
        (3, Until::End),
        (4, Until::End),
    ];
    rule_is_needed_by(Mutant::HurriesAnywhere, 2, &cast, &script);
}

/// Runs the first three actors to their end, and the fourth, a sweep, past its listing of tickets.
fn past_look() -> Script {
    let mut script: Script = (1..=3).map(|actor| (actor, Until::End)).collect();
    script.extend(past_tickets(4));
    script
}

/// Runs a backup with lagging listings that begins after a sweep has listed tickets, and ends after
/// the sweep. `before` acts before the prune.
fn lagging_backup_beside_sweep(before: (Act, Role), mutant: Mutant) {
    let cast: [(Act, Role); 5] = [
        (back_up_one, PLAIN),
        before,
        (prune_all, PLAIN),
        (sweep_once, DELETING),
        (back_up_one, LAGGING),
    ];
    let mut script = past_look();
    script.extend([(5, Until::Before("put commits/")), (4, Until::End), (5, Until::End)]);
    rule_is_needed_by(mutant, 2, &cast, &script);
}

/// S1: a writer that begins after the sweep has listed tickets does not see the record, because its
/// listings lag.
#[test]
fn announced_lag_keeps_sweeps_from_hurrying() {
    lagging_backup_beside_sweep((announce_lag, LAGGING), Mutant::IgnoresLaggingClients);
}

/// W9: without an announcement, the client would begin with a view that lacks the record.
#[test]
fn client_with_lagging_listings_announces_itself() {
    lagging_backup_beside_sweep((let_lag_pass, PLAIN), Mutant::HidesLag);
}

/// W9: right after the announcement, the view would lack the record, too.
#[test]
fn client_with_lagging_listings_waits_after_its_announcement() {
    lagging_backup_beside_sweep((let_lag_pass, PLAIN), Mutant::DoesNotWaitOutLag);
}

/// W9: another client has announced itself a moment ago.
#[test]
fn announcement_counts_once_it_is_old_enough() {
    let cast: [(Act, Role); 6] = [
        (back_up_one, PLAIN),
        (let_lag_pass, PLAIN),
        (prune_all, PLAIN),
        (sweep_once, DELETING),
        (announce_lag, LAGGING),
        (back_up_one, LAGGING),
    ];
    let mut script = past_look();
    script.extend([
        (5, Until::Before("head tickets/lagging.1")),
        (5, Until::Before("put tickets/lagging")),
        (5, Until::Before("head tickets/lagging.1")),
        (6, Until::Before("put commits/")),
        (4, Until::End),
        (6, Until::End),
    ]);
    rule_is_needed_by(Mutant::TrustsNewMark, 2, &cast, &script);
}

/// R3: between two attempts to read a chunk, it is moved once more.
#[test]
fn moved_chunk_is_found_again_after_several_sweeps() {
    fn read_snapshots(actor: &mut Actor) -> Result<()> {
        let reader = reader_of_all(&actor.repository)?;
        for (ticket, snapshot) in reader.view().snapshots() {
            if let Err(error) = read_folder(&reader, &snapshot.root) {
                actor.world.fail(format!("I6: a reader cannot restore {ticket}: {error}"));
            }
        }
        Ok(())
    }
    fn move_with(actor: &mut Actor, compression_level: i32) -> Result<()> {
        let options = OptimizeOptions {
            compression_level,
            spares_incompressible: false,
            ..OptimizeOptions::default()
        };
        pruning::optimize(&actor.repository, &options, &(), |_| true)?;
        sweep_once(actor)
    }
    fn move_once(actor: &mut Actor) -> Result<()> {
        move_with(actor, 1)
    }
    fn move_twice(actor: &mut Actor) -> Result<()> {
        move_with(actor, 9)
    }
    let cast: [(Act, bool); 4] =
        [(back_up_one, false), (read_snapshots, false), (move_once, true), (move_twice, true)];
    let script = vec![
        (1, Until::End),
        (2, Until::Before("range meta/")),
        (3, Until::End),
        // The attempt fails, and the reader lists what has moved.
        (2, Until::Before("list commits")),
        (2, Until::Before("range meta/")),
        (4, Until::End),
        (2, Until::End),
    ];
    rule_is_needed(Mutant::ListsAgainOnce, 1, &cast, &script);
}
