//! Creating a repository: leftovers of another `init`, and two at the same moment.

use std::sync::Arc;

use crate::support::backup::{back_up, init, init_by, open};
use crate::support::overtaken::{OvertakenStorage, When};
use cutpoint_storage::{Fault, Faulty, Memory, ObjectKind, Storage};

fn names(storage: &dyn Storage, kind: ObjectKind) -> Vec<String> {
    let listed = storage.list(kind.folder()).expect("memory lists");
    listed.into_iter().map(|(name, _)| name).collect()
}

fn remove_config(storage: &dyn Storage) {
    for name in names(storage, ObjectKind::Config) {
        storage.delete(&name).expect("memory deletes");
    }
}

/// The leftovers of an interrupted init are gone after the next one. If there is more than keys,
/// the settings of a real repository were lost.
#[test]
fn init_removes_keys_of_an_interrupted_init() {
    let storage: Arc<dyn Storage> = Arc::new(Memory::new());
    init(storage.clone()).expect("an empty memory takes a repository");
    remove_config(&*storage);
    let left = names(&*storage, ObjectKind::Key);
    init_by(storage.clone(), 1).expect("keys alone are what an init has left");
    let keys = names(&*storage, ObjectKind::Key);
    assert!(keys.len() == 2 && left.iter().all(|name| !keys.contains(name)), "{left:?} {keys:?}");
    let repository = open(storage.clone(), 2).expect("it opens");
    back_up(&repository, &[1], false).expect("it works");

    remove_config(&*storage);
    let error = init(storage.clone()).expect_err("there is more than keys");
    assert!(error.to_string().contains("no config"), "{error}");
}

/// Of two concurrent inits one wins, and the repository that it has made opens.
#[test]
fn one_of_two_concurrent_inits_makes_the_repository() {
    let calls = {
        let faulty = Arc::new(Faulty::new(Arc::new(Memory::new()), Fault::None));
        init(faulty.clone()).expect("an empty memory takes a repository");
        faulty.calls()
    };
    let mut lost = 0;
    for call in 0..calls {
        let storage: Arc<dyn Storage> = Arc::new(Memory::new());
        let place = storage.clone();
        // The second may find beginnings of the first, but never a config.
        let other = move || drop(init_by(place, 7));
        let first = init(OvertakenStorage::new(storage.clone(), When::BeforeCall(call), other));
        lost += u64::from(first.is_err());
        let repository =
            open(storage.clone(), 1).unwrap_or_else(|error| panic!("overtaken at {call}: {error}"));
        if let Ok(first) = first {
            assert_eq!(first.config().repository, repository.config().repository, "{call}");
        }
        back_up(&repository, &[1], false).expect("it works");
        let keys = names(&*storage, ObjectKind::Key).len();
        assert!(keys == 2, "overtaken at {call}: {keys} keys");
    }
    assert!(0 < lost && lost < calls, "{lost} of {calls} lost");
}
