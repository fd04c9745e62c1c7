//! Creating a repository: leftovers of another `init`, two at the same moment, and repositories whose
//! chunks are comparable.

use std::sync::Arc;

use crate::support::backup::{back_up, init, init_by, open, unlock};
use crate::support::machine::Machine;
use crate::support::overtaken::{OvertakenStorage, When};
use cutpoint_repository::crypto::{open_object, seal_object};
use cutpoint_repository::repo::keys::OtherKeysPolicy;
use cutpoint_repository::{Class, Keyring, Keys, ObjectName, Repository};
use cutpoint_storage::{Memory, ObjectKind, Storage};

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
        let never = When::BeforeCall(u64::MAX);
        let counting = OvertakenStorage::new(Arc::new(Memory::new()), never, || ());
        init(counting.clone()).expect("an empty memory takes a repository");
        counting.calls()
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

/// Repositories with one chunk secret cut and fingerprint alike, before and after a new key epoch,
/// and share no key that seals.
#[test]
fn comparable_repositories_share_fingerprints_and_no_sealing_key() {
    let (first, second) = (Arc::new(Memory::new()), Arc::new(Memory::new()));
    let first = init(first).expect("memory takes it");
    let options = first.comparable_options().expect("it has a chunk secret");
    let machine = Machine::new(40);
    let second = Repository::init(second, machine, &unlock(), &options).expect("memory takes it");
    let chunk = b"a chunk of both repositories";
    let of_chunks = |repository: &Repository| {
        let keys = repository.keys();
        let fingerprints = [Class::Data, Class::Meta].map(|class| keys.fingerprint(class, chunk));
        let edges = keys.edges(&[7; 1000]);
        (fingerprints, keys.cut_material::<64>(), keys.name_hash(b"name"), edges)
    };
    assert_eq!(of_chunks(&first), of_chunks(&second));
    assert_eq!(first.config().cut, second.config().cut);
    assert_ne!(first.keys().repository(), second.keys().repository());
    let (own, shared) = (first.keys().keyring(), second.keys().keyring());
    let common: Vec<u32> = own
        .epochs
        .iter()
        .filter(|(_, secret)| shared.epochs.iter().any(|(_, other)| other == secret))
        .map(|(epoch, _)| *epoch)
        .collect();
    assert_eq!(common, [0], "the secret that seals nothing");

    // Neither opens an object of the other, nor one that claims the epoch of the shared secret.
    let name = ObjectName::Prune(1);
    let sealed = seal_object(first.keys(), name, [1; 16], b"body");
    open_object(second.keys(), name, &sealed).expect_err("it has another key");
    let only_shared = Keyring { epochs: shared.epochs[..1].to_vec(), ..shared.clone() };
    Keyring::decode(&only_shared.encode()).expect_err("nothing could be sealed");
    let claims_it = Keyring { epochs: vec![(1, own.epochs[0].1.clone())], ..shared.clone() };
    let claimed = seal_object(&Keys::derive(&claims_it, options.suite), name, [1; 16], b"body");
    let mut claimed = claimed.to_vec();
    claimed[8..12].fill(0);
    open_object(second.keys(), name, &claimed).expect_err("no object is of epoch 0");

    let before = of_chunks(&second);
    let mut second = second;
    second.begin_epoch(&[unlock()], OtherKeysPolicy::Refuse).expect("memory takes it");
    assert_eq!(of_chunks(&second), before, "a new epoch does not change them");
    let other = init_by(Arc::new(Memory::new()), 41).expect("memory takes it");
    assert_ne!(of_chunks(&other), before, "a repository that is not like it");
}
