//! A repository on storage that lets several clients create one object: backups work, and no client
//! ends the ticket of another unless it is alone.

use std::sync::Arc;

use crate::support::backup::{back_up, init, open, restore_all, unlock};
use cutpoint_repository::{CommitResult, Purpose, Repository, TicketId, Writer};
use cutpoint_storage::{Fault, Faulty, Memory, ObjectKind, Storage, probe};

/// Creates a new repository whose settings record the result of the probe.
fn start(fault: Fault) -> (Arc<dyn Storage>, Repository) {
    let storage: Arc<dyn Storage> = Arc::new(Faulty::new(Arc::new(Memory::new()), fault));
    let mut repository = init(storage.clone()).expect("it takes a repository");
    let probed = probe(&*storage, &**repository.environment()).expect("it answers");
    let mut config = repository.config().clone();
    config.set_creates_atomically(probed.may_be_shared());
    repository.set_config(config).expect("it takes settings");
    (storage, repository)
}

#[test]
fn backups_work_without_atomic_creation() {
    for fault in [Fault::Overwrites, Fault::Races] {
        let (storage, _) = start(fault);
        for run in 1..=3 {
            // Each run draws tickets of its own, because a duplicate would not be noticed.
            let repository = open(storage.clone(), run).expect("it opens");
            let committed =
                back_up(&repository, &[1, 1 + u64::from(run), 7], true).expect("it is stored");
            assert_eq!(committed, CommitResult::Done, "{fault:?}");
        }
        let restored = restore_all(&open(storage, 1).expect("it opens")).expect("it is read");
        assert_eq!(restored, 3, "{fault:?}: all snapshots are there");
    }
}

/// Returns the dead writer, and the writers that the next one ends.
fn ended(
    fault: Fault,
    begin: fn(Arc<Repository>, Purpose) -> cutpoint_storage::Result<Writer>,
) -> (TicketId, Vec<TicketId>) {
    let (storage, _) = start(fault);
    let dead = Writer::begin(open(storage.clone(), 1).expect("it opens"), Purpose::Backup);
    let dead = dead.expect("it begins").ticket();
    let repository = open(storage.clone(), 2).expect("it opens");
    let next = begin(repository, Purpose::Backup).expect("it begins");
    let commits = storage.list(ObjectKind::Commit.folder()).expect("it lists");
    assert_eq!(commits.len(), next.ended().len(), "{fault:?}: a void for each");
    (dead, next.ended().to_vec())
}

#[test]
fn only_an_exclusive_client_ends_others_without_atomic_creation() {
    let (dead, next) = ended(Fault::None, Writer::begin);
    assert_eq!(next, [dead], "a good storage");
    for fault in [Fault::Overwrites, Fault::Races] {
        assert_eq!(ended(fault, Writer::begin).1, [], "{fault:?}");
        let (dead, next) = ended(fault, Writer::begin_alone);
        assert_eq!(next, [dead], "{fault:?}: alone");
    }
}

/// The result of the probe is part of the settings, and can be taken back.
#[test]
fn probe_result_is_kept_in_the_settings() {
    let (storage, mut repository) = start(Fault::Races);
    let reopen = || {
        let environment = open(storage.clone(), 1).expect("it opens").environment().clone();
        Repository::open(storage.clone(), environment, &unlock()).expect("it opens")
    };
    assert!(!reopen().config().creates_atomically(), "it is read back");
    assert!(reopen().config().check_features(true).is_ok(), "this version may write there");
    let mut config = repository.config().clone();
    config.set_creates_atomically(true);
    assert!(config.features_write.is_empty(), "{:?}", config.features_write);
    repository.set_config(config).expect("it takes settings");
    assert!(reopen().config().creates_atomically(), "it moved to a better place");
}
