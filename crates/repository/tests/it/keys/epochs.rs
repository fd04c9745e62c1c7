//! Key epochs: the objects that they seal, and the clients that only have an older one.

use std::sync::Arc;

use bytes::Bytes;
use cutpoint_repository::crypto::Header;
use cutpoint_repository::format::commit::Outcome;
use cutpoint_repository::repo::keys::OtherKeysPolicy;
use cutpoint_repository::write::Inline;
use cutpoint_repository::{
    CommitResult, ObjectName, Purpose, Reader, Snapshot, Unlock, Verify, View, Writer,
};
use cutpoint_storage::{Fault, Faulty, Kind, Memory, ObjectKind, Storage};

use super::changes::{CHANGES, calls_of, check_all};
use super::{key_file, key_names, kind_of, labels, open_by, start};
use crate::support::backup;
use crate::support::backup::{back_up, restore_all, unlock};
use crate::support::overtaken::{OvertakenStorage, When};

/// Returns the number of objects, other than keys, that were sealed with the keys of an epoch.
fn count_sealed(storage: &dyn Storage, epoch: u32) -> u32 {
    let mut count = 0;
    for kind in ObjectKind::ALL.into_iter().filter(|kind| *kind != ObjectKind::Key) {
        for (name, _) in storage.list(kind.folder()).expect("memory lists") {
            let Ok(parsed) = ObjectName::parse(&name) else { continue };
            let bytes = storage.get(&name).expect("it is there");
            let header = Header::decode(&parsed, &bytes).expect("a header");
            count += u32::from(header.epoch == epoch);
        }
    }
    count
}

/// New objects are sealed with the new epoch, old ones can be read, and duplicates are found.
#[test]
fn new_objects_are_sealed_with_the_new_epoch() {
    let storage = start();
    let mut repository = open_by(&storage, 1, &unlock()).expect("it opens");
    let before = repository.keys().clone();
    let old_kit = Unlock::Keyring(repository.keys().keyring().clone());
    let error =
        repository.begin_epoch(&[unlock()], OtherKeysPolicy::Refuse).expect_err("8 is not told");
    assert!(error.kind() == Kind::Invalid && error.to_string().contains("(the other)"), "{error}");
    assert_eq!(
        kind_of(repository.begin_epoch(&[key_file(99)], OtherKeysPolicy::Remove)),
        Kind::WrongKey
    );
    assert_eq!(kind_of(repository.begin_epoch(&[], OtherKeysPolicy::Remove)), Kind::Invalid);
    assert_eq!(key_names(&*storage).len(), 4, "what was refused has left nothing");

    // A writer and a reader that are open meanwhile.
    let writing = Arc::new(open_by(&storage, 2, &unlock()).expect("it opens"));
    let writer = Writer::begin(writing.clone(), Purpose::Backup).expect("it begins");
    let reading = Arc::new(open_by(&storage, 3, &key_file(8)).expect("it opens"));

    let made = repository
        .begin_epoch(&[unlock(), key_file(8)], OtherKeysPolicy::Refuse)
        .expect("it begins");
    assert_eq!(repository.key_id(), made.first().copied(), "the key in use is the new one");
    assert_eq!(labels(&repository), ["", "the other"], "labels stay");
    assert_eq!((repository.keys().epoch(), repository.config_number()), (2, 1));
    let chunk = backup::file(1);
    let fingerprint = |keys: &cutpoint_repository::Keys| {
        keys.fingerprint(cutpoint_repository::Class::Data, &chunk)
    };
    assert_eq!(fingerprint(&before), fingerprint(repository.keys()), "fingerprints stay");
    assert_eq!(before.cut_material::<64>(), repository.keys().cut_material::<64>(), "cuts stay");

    // The writer ends in its own epoch, and every client can read the result.
    let root = writer.view().snapshots()[0].1.root.clone();
    let inline = Inline::new(writer, Verify::Some).expect("it goes on");
    let outcome = Outcome::Snapshot(Box::new(Snapshot { root, ..Snapshot::empty() }));
    assert_eq!(inline.commit(outcome).expect("it commits"), CommitResult::Done);
    let repository = Arc::new(open_by(&storage, 4, &key_file(8)).expect("it opens"));
    assert_eq!(restore_all(&repository).expect("both epochs are read"), 2);
    let data = |storage: &dyn Storage| storage.list("data").expect("memory lists").len();
    let containers = data(&*storage);
    assert_eq!(back_up(&repository, &[1], false).expect("it works"), CommitResult::Done);
    assert_eq!(data(&*storage), containers, "duplicates are found");
    let ended = restore_all(&repository).expect("both epochs are read");
    assert_eq!(ended, 3, "the old writer's, and the new one's");
    assert_eq!(count_sealed(&*storage, 2), 4, "both copies of the settings, a ticket, a commit");

    // A client with only the old epoch can read old objects, and names new ones.
    let view = View::list(&reading).expect("it lists");
    assert_eq!((view.snapshots().len(), view.unreadable.len()), (2, 1), "one is new");
    let error = view.unreadable.values().next().expect("one").to_string();
    assert!(error.contains("key of epoch 2") && error.contains("up to epoch 1"), "{error}");
    let error = open_by(&storage, 5, &old_kit).expect_err("the kit is old");
    let told = "is at key epoch 2 (expected at most 1, the newest epoch of this key)";
    assert!(error.kind() == Kind::WrongKey && error.to_string().contains(told), "{error}");
    // Such a client cannot change the settings, and a key that it adds would open nothing.
    let config = reading.config().clone();
    let mut reading = Arc::into_inner(reading).expect("it has one owner");
    assert_eq!(kind_of(reading.set_config(config)), Kind::Conflict);
    assert_eq!(kind_of(reading.add_key(&key_file(9), "")), Kind::Conflict);
    assert_eq!(key_names(&*storage).len(), 4, "the key that it could not add is gone");
    // Nor can it remove a key, because it does not know which keys are left.
    assert_eq!(kind_of(reading.remove_key(made[0], false)), Kind::Invalid);
    assert_eq!(kind_of(reading.remove_key(made[0], true)), Kind::Conflict);
    assert_eq!(key_names(&*storage).len(), 4, "the key that it could not remove is there");

    // Another epoch, without the other key: that key is removed, and nothing else.
    let mut repository = Arc::into_inner(repository).expect("it has one owner");
    let kit = Unlock::Keyring(repository.keys().keyring().clone());
    repository.add_key(&kit, "kit").expect("memory takes a record");
    repository.begin_epoch(&[key_file(8)], OtherKeysPolicy::Remove).expect("it begins");
    assert_eq!(labels(&repository), ["the other"], "one is left");
    assert_eq!(kind_of(open_by(&storage, 6, &unlock())), Kind::WrongKey);
    assert_eq!(kind_of(open_by(&storage, 6, &kit)), Kind::WrongKey);
    let repository = Arc::new(open_by(&storage, 6, &key_file(8)).expect("it opens"));
    assert_eq!(repository.keys().epoch(), 3);
    assert_eq!(restore_all(&repository).expect("three epochs are read"), 3);
}

/// An older state of the settings under a newer key: an epoch was begun, and its settings are gone.
#[test]
fn settings_of_an_older_epoch_are_refused() {
    let storage = start();
    let mut repository = open_by(&storage, 1, &unlock()).expect("it opens");
    repository.begin_epoch(&[unlock()], OtherKeysPolicy::Remove).expect("it begins");
    for copy in [false, true] {
        let name = ObjectName::Config { number: 1, copy };
        storage.delete(&name.to_string()).expect("memory deletes");
    }
    let error = open_by(&storage, 2, &unlock()).expect_err("the newest settings are gone");
    assert!(error.to_string().contains("this key has epoch 2"), "{error}");
}

/// Settings of the new epoch are put, a copy of other settings stands in the place of their copy,
/// and the storage does not answer whether they exist: the keys that open them stay.
#[test]
fn overtaken_epoch_with_a_failed_call_locks_no_client_out() {
    let begin = CHANGES[3].1;
    let (mut runs, mut lost) = (0, 0);
    for call in 0..calls_of(begin) {
        for fails in call + 1..call + 8 {
            let about = format!("overtaken at {call}, failure at {fails}");
            let storage = start();
            let planted = storage.clone();
            let plant = move || {
                let copy = ObjectName::Config { number: 1, copy: true }.to_string();
                planted.put_new(&copy, Bytes::from_static(b"junk")).expect("memory takes it");
            };
            let overtaken = OvertakenStorage::new(storage.clone(), When::BeforeCall(call), plant);
            let faulty: Arc<dyn Storage> = Arc::new(Faulty::new(overtaken, Fault::FailsAt(fails)));
            let begun = open_by(&faulty, 1, &unlock()).and_then(|mut opened| begin(&mut opened));
            runs += 1;
            lost += u64::from(begun.is_err());
            assert_eq!(check_all(&storage, &about), 2, "{about}: both secrets open it");
        }
    }
    println!("{runs} runs, {lost} lost");
    assert!(lost > 10, "{lost} of {runs} lost");
}

/// The settings of a new epoch are put, the answer is lost, and the client that put them is gone. A
/// client with only the old keyring must not open the repository with it.
#[test]
fn old_keyring_is_skipped() {
    let storage = start();
    let mut epochs = Vec::new();
    for call in 0..calls_of(CHANGES[3].1) {
        let storage = {
            let copy: Arc<dyn Storage> = Arc::new(Memory::new());
            for kind in ObjectKind::ALL {
                for (name, _) in storage.list(kind.folder()).expect("memory lists") {
                    let bytes = storage.get(&name).expect("it is there");
                    copy.put_new(&name, bytes).expect("memory takes it");
                }
            }
            copy
        };
        let faulty: Arc<dyn Storage> =
            Arc::new(Faulty::new(storage.clone(), Fault::DeadAfter(call)));
        let done = open_by(&faulty, 1, &unlock()).and_then(|mut opened| CHANGES[3].1(&mut opened));
        assert!(done.is_err(), "it was cut off");
        let repository = Arc::new(open_by(&storage, 2, &unlock()).expect("it opens"));
        let configs = storage.list("config").expect("memory lists").len();
        epochs.push((repository.keys().epoch(), repository.config_number()));
        let is_begun = configs > 2;
        assert_eq!(repository.keys().epoch(), if is_begun { 2 } else { 1 }, "{call}");
        Reader::open(repository.clone(), View::list(&repository).expect("it lists"))
            .expect("it reads");
    }
    assert!(epochs.contains(&(1, 0)) && epochs.contains(&(2, 1)), "{epochs:?}");
}
