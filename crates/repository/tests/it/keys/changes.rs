//! The changes of keys: how each is made, and what must hold afterwards.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use cutpoint_repository::repo::keys::OtherKeysPolicy;
use cutpoint_repository::{CommitResult, Repository};
use cutpoint_storage::{Error, Fault, Faulty, Kind, Result, Storage};

use super::{key_file, open_by, start};
use crate::support::backup::{back_up, restore_all, unlock};

/// Changes the keys of a repository that `unlock()` opens.
type Change = fn(&mut Repository) -> Result<()>;

pub(super) const CHANGES: [(&str, Change); 6] = [
    ("add", |repository| repository.add_key(&key_file(9), "").map(drop)),
    ("remove the other", |repository| {
        let all = repository.list_keys()?;
        let other = all.iter().find(|entry| !entry.is_in_use);
        repository.remove_key(other.ok_or_else(|| Error::missing("", "no other"))?.id, false)
    }),
    ("replace", |repository| {
        let id = repository.key_id().ok_or_else(|| Error::missing("", "no key"))?;
        repository.replace_key(id, &key_file(9)).map(drop)
    }),
    ("begin an epoch for both", |repository| {
        repository.begin_epoch(&[unlock(), key_file(8)], OtherKeysPolicy::Refuse).map(drop)
    }),
    ("begin an epoch for one", |repository| {
        repository.begin_epoch(&[unlock()], OtherKeysPolicy::Remove).map(drop)
    }),
    ("change the settings", |repository| repository.set_config(repository.config().clone())),
];

/// Returns the number of the three secrets that open the repository. With each of these, everything
/// that exists is restored and a backup can be made.
pub(super) fn check_all(storage: &Arc<dyn Storage>, about: &str) -> usize {
    // A process of its own each time, because its number determines its random numbers.
    static PROCESS: AtomicU32 = AtomicU32::new(50);
    let mut count = 0;
    for unlock in [unlock(), key_file(8), key_file(9)] {
        let process = PROCESS.fetch_add(1, Ordering::SeqCst);
        let repository = match open_by(storage, process, &unlock) {
            Ok(repository) => Arc::new(repository),
            Err(error) => {
                assert_eq!(error.kind(), Kind::WrongKey, "{about}: {error}");
                continue;
            }
        };
        count += 1;
        let snapshots = restore_all(&repository).unwrap_or_else(|e| panic!("{about}: {e}"));
        assert!(snapshots >= 1, "{about}: the snapshot is gone");
        let done = back_up(&repository, &[2], false).unwrap_or_else(|e| panic!("{about}: {e}"));
        assert_eq!(done, CommitResult::Done, "{about}");
    }
    count
}

pub(super) fn calls_of(change: Change) -> u64 {
    let faulty = Arc::new(Faulty::new(start(), Fault::None));
    let storage: Arc<dyn Storage> = faulty.clone();
    let mut repository = open_by(&storage, 1, &unlock()).expect("it opens");
    change(&mut repository).expect("nothing fails here");
    faulty.calls()
}
