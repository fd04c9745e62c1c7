//! Access to a repository: keys are added and removed, epochs begin. Whatever is interrupted or
//! done at the same time, a client that had the right to can still open the repository.

use crate::support::backup;
use std::fmt;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::support::backup::{back_up, init, restore_all, unlock};
use crate::support::failing_reads::FailingReads;
use crate::support::machine::Machine;
use crate::support::overtaken::{Overtaken, When};
use bytes::Bytes;
use cutpoint_repository::crypto::{HEADER_LEN, Header, Opener, Sealer, WRAP_LEN, seal_object};
use cutpoint_repository::format::commit::Outcome;
use cutpoint_repository::repo::keys::{KeyEntry, Others, key_name};
use cutpoint_repository::verify::check::{CheckMonitor, CheckOptions, Finding, Remedy, check};
use cutpoint_repository::verify::repair::{ObjectsOptions, repair_objects};
use cutpoint_repository::write::Inline;
use cutpoint_repository::{
    CipherSuite, Committed, KeyMethod, Keyring, Keys, ObjectName, Purpose, Reader, Repository,
    RepositoryId, Secret, Snapshot, Unlock, Verify, View, Writer,
};
use cutpoint_storage::{Error, Fault, Faulty, Kind, Memory, ObjectKind, Result, Storage};

fn key_file(number: u8) -> Unlock {
    Unlock::KeyFile(Secret([number; 32]))
}

fn open_by(storage: &Arc<dyn Storage>, process: u32, unlock: &Unlock) -> Result<Repository> {
    Repository::open(storage.clone(), Machine::new(process), unlock)
}

/// Creates a repository with one snapshot that `unlock()` and key file 8 open.
fn start() -> Arc<dyn Storage> {
    let storage: Arc<dyn Storage> = Arc::new(Memory::new());
    let first = init(storage.clone()).expect("an empty memory takes a repository");
    first.add_key(&key_file(8), "the other").expect("memory takes a key");
    let done = back_up(&Arc::new(first), &[1], false).expect("it works");
    assert_eq!(done, Committed::Done, "nobody ends it");
    storage
}

fn key_names(storage: &dyn Storage) -> Vec<String> {
    let listed = storage.list(ObjectKind::Key.folder()).expect("memory lists");
    listed.into_iter().map(|(name, _)| name).collect()
}

fn entries(repository: &Repository) -> Vec<KeyEntry> {
    repository.list_keys().expect("memory lists")
}

fn labels(repository: &Repository) -> Vec<String> {
    let label = |entry: KeyEntry| entry.about.expect("it says what it is").label;
    let mut labels: Vec<_> = entries(repository).into_iter().map(label).collect();
    labels.sort();
    labels
}

fn kind_of<T: fmt::Debug>(result: Result<T>) -> Kind {
    result.expect_err("this must fail").kind()
}

#[test]
fn keys_can_be_added_and_removed() {
    let storage = start();
    let repository = open_by(&storage, 1, &unlock()).expect("it opens");
    let passphrase = Unlock::Passphrase(b"correct horse".to_vec().into());
    let third = repository.add_key(&passphrase, "desk").expect("memory takes a key");
    assert_eq!(labels(&repository), ["", "desk", "the other"], "each says what it is");
    let mut all = entries(&repository);
    assert!(all.is_sorted_by_key(|entry| entry.about.clone().map(|about| about.made_ns)), "times");
    all.sort_by_key(|entry| (entry.id == third, !entry.is_in_use));
    let methods = [KeyMethod::KeyFile, KeyMethod::KeyFile, KeyMethod::Passphrase];
    for (entry, method) in all.iter().zip(methods) {
        assert_eq!(entry.method, Some(method), "{entry:?}");
        assert!(entry.copy_count == 2 && entry.opens(), "{entry:?}");
        assert_eq!(entry.is_in_use, repository.key_id() == Some(entry.id), "{entry:?}");
    }
    assert!(all[0].is_in_use && !all[1].is_in_use && all[2].id == third, "{all:?}");

    // Each key opens the repository, and is identified as the one in use.
    let by_passphrase = open_by(&storage, 2, &passphrase).expect("the passphrase opens it");
    assert_eq!(by_passphrase.key_id(), Some(third), "the passphrase's key");
    let by_file = open_by(&storage, 2, &key_file(8)).expect("the key file opens it");
    assert_eq!(by_file.key_id(), Some(all[1].id), "the key file's key");

    // The key in use is removed only if that is intended. An unknown key is named in the error.
    assert_eq!(kind_of(by_file.remove_key(all[1].id, false)), Kind::Invalid);
    by_file.remove_key(all[1].id, true).expect("it is meant");
    assert_eq!(kind_of(open_by(&storage, 3, &key_file(8))), Kind::WrongKey);
    assert_eq!(kind_of(repository.remove_key(all[1].id, false)), Kind::Invalid);
    repository.remove_key(third, false).expect("another one is left");
    assert_eq!(key_names(&*storage).len(), 2, "both copies of the others are gone");

    // The last key cannot be removed, and the record of a recovery kit does not count.
    let kit = Unlock::Keyring(repository.keys().keyring().clone());
    let record = repository.add_key(&kit, "in the safe").expect("memory takes a record");
    let error = repository.remove_key(all[0].id, true).expect_err("it is the last one");
    assert!(error.to_string().contains("the last key"), "{error}");
    let by_kit = open_by(&storage, 4, &kit).expect("the kit opens it");
    assert_eq!(by_kit.key_id(), Some(record), "the kit's record");
    repository.remove_key(record, false).expect("records may go");
    assert_eq!(open_by(&storage, 4, &kit).expect("the kit opens it still").key_id(), None);

    let long = "x".repeat(201);
    assert_eq!(kind_of(repository.add_key(&key_file(9), &long)), Kind::Invalid);
    assert_eq!(kind_of(repository.add_key(&Unlock::Nothing, "")), Kind::Invalid);
    assert_eq!(key_names(&*storage).len(), 2, "what was refused has left nothing");
}

/// The new key has the old one's label, and the old secret opens nothing any more.
#[test]
fn key_can_be_replaced() {
    let storage = start();
    let mut repository = open_by(&storage, 1, &unlock()).expect("it opens");
    let own = repository.key_id().expect("it was opened with one");
    assert_eq!(kind_of(repository.replace_key([0; 16], &key_file(9))), Kind::Invalid);
    let other = entries(&repository).into_iter().find(|entry| entry.id != own);
    let other = other.expect("there are two").id;
    let new = repository.replace_key(other, &key_file(9)).expect("memory takes a key");
    assert_eq!(
        (labels(&repository), repository.key_id()),
        (vec![String::new(), "the other".into()], Some(own))
    );
    assert_eq!(kind_of(open_by(&storage, 2, &key_file(8))), Kind::WrongKey);
    let by_new = open_by(&storage, 2, &key_file(9)).expect("the new one opens it");
    assert_eq!(by_new.key_id(), Some(new));
    let new = repository.replace_key(own, &key_file(10)).expect("memory takes a key");
    assert_eq!(repository.key_id(), Some(new), "it is the one in use from now on");
    assert_eq!(kind_of(open_by(&storage, 3, &unlock())), Kind::WrongKey);
    assert_eq!(key_names(&*storage).len(), 4, "both copies of two");
}

/// A key that disappears while keys are listed is skipped. If the storage fails, the listing fails.
#[test]
fn key_removed_during_listing_is_skipped() {
    let storage = start();
    let failing = |kind, count| {
        let failing = FailingReads::new(&storage, ObjectKind::Key.folder(), kind, 0);
        let storage: Arc<dyn Storage> = failing.clone();
        let repository = open_by(&storage, 2, &unlock()).expect("it opens");
        failing.arm(count);
        repository.list_keys()
    };
    for (count, copies) in [(1, vec![1, 2]), (2, vec![2]), (4, vec![])] {
        let mut found: Vec<_> = failing(Kind::Missing, count)
            .expect("that may be")
            .iter()
            .map(|entry| entry.copy_count)
            .collect();
        found.sort_unstable();
        assert_eq!(found, copies, "{count} are gone");
    }
    assert_eq!(kind_of(failing(Kind::Storage, 1)), Kind::Storage);
    // With both copies damaged, this key does not open the repository.
    for name in key_names(&*storage).iter().take(2) {
        storage.delete(name).expect("memory deletes");
        storage.put_new(name, Bytes::from_static(b"nothing")).expect("memory takes it");
    }
    let repository =
        open_by(&storage, 3, &unlock()).or_else(|_| open_by(&storage, 3, &key_file(8)));
    let entries = entries(&repository.expect("one is left"));
    let damaged: Vec<_> = entries.iter().filter(|entry| entry.copy_count == 0).collect();
    assert!(damaged.len() == 1 && !damaged[0].opens(), "{entries:?}");
}

/// A kit is sufficient, whatever happened to `keys/`.
#[test]
fn recovery_kit_opens_without_keys() {
    let storage = start();
    let repository = open_by(&storage, 1, &unlock()).expect("it opens");
    let kit = Unlock::Keyring(repository.keys().keyring().clone());
    for name in key_names(&*storage) {
        storage.delete(&name).expect("memory deletes");
    }
    assert_eq!(kind_of(open_by(&storage, 2, &unlock())), Kind::WrongKey);
    let repository = Arc::new(open_by(&storage, 2, &kit).expect("the kit opens it"));
    assert_eq!(restore_all(&repository).expect("it restores"), 1);
    repository.add_key(&key_file(9), "new").expect("memory takes a key");
    open_by(&storage, 3, &key_file(9)).expect("there is a key again");
}

/// A key object of the first versions has no description: no part precedes the keyring.
#[test]
fn key_of_the_first_versions_counts() {
    let storage = start();
    let repository = open_by(&storage, 1, &unlock()).expect("it opens");
    let in_use = repository.key_id().expect("a key has opened it");
    for copy in [false, true] {
        let name = ObjectName::Key { id: in_use, copy }.to_string();
        let bytes = storage.get(&name).expect("it is there");
        storage.delete(&name).expect("memory deletes");
        storage.put_new(&name, without_about(&bytes)).expect("memory takes it");
    }
    let repository = open_by(&storage, 2, &unlock()).expect("it opens");
    let entry = entries(&repository).into_iter().find(|entry| entry.is_in_use);
    let entry = entry.expect("the key is there");
    assert!(entry.about.is_none() && entry.opens() && entry.copy_count == 2, "{entry:?}");
    let mut repository = repository;
    repository.begin_epoch(&[unlock(), key_file(8)], Others::Refuse).expect("it is replaced");
    open_by(&storage, 3, &unlock()).expect("it opens");
}

/// Returns the object as the first versions wrote it, with the keyring right behind the clear
/// bytes.
fn without_about(bytes: &[u8]) -> Bytes {
    let trailer = &bytes[bytes.len() - 32..];
    let number = |at: usize| {
        let mut number = [0; 4];
        number.copy_from_slice(&trailer[at..at + 4]);
        u32::from_le_bytes(number) as usize
    };
    let (length, offset, clear) = (number(0), number(8), HEADER_LEN + WRAP_LEN);
    assert!(offset > clear, "there is nothing to leave out");
    let mut old = bytes[..clear].to_vec();
    old.extend_from_slice(&bytes[offset..offset + length]);
    old.resize((old.len() + 32).next_multiple_of(256) - 32, 0);
    old.extend_from_slice(&trailer[..8]);
    old.extend_from_slice(&(clear as u64).to_le_bytes());
    let checksum = xxhash_rust::xxh3::xxh3_128(&old);
    old.extend_from_slice(&checksum.to_le_bytes());
    Bytes::from(old)
}

/// New objects are sealed with the new epoch, old ones can be read, and duplicates are found.
#[test]
fn new_objects_are_sealed_with_the_new_epoch() {
    let storage = start();
    let mut repository = open_by(&storage, 1, &unlock()).expect("it opens");
    let before = repository.keys().clone();
    let old_kit = Unlock::Keyring(repository.keys().keyring().clone());
    let error = repository.begin_epoch(&[unlock()], Others::Refuse).expect_err("8 is not told");
    assert!(error.kind() == Kind::Invalid && error.to_string().contains("(the other)"), "{error}");
    assert_eq!(kind_of(repository.begin_epoch(&[key_file(99)], Others::Remove)), Kind::WrongKey);
    assert_eq!(kind_of(repository.begin_epoch(&[], Others::Remove)), Kind::Invalid);
    assert_eq!(key_names(&*storage).len(), 4, "what was refused has left nothing");

    // A writer and a reader that are open meanwhile.
    let writing = Arc::new(open_by(&storage, 2, &unlock()).expect("it opens"));
    let writer = Writer::begin(writing.clone(), Purpose::Backup).expect("it begins");
    let reading = Arc::new(open_by(&storage, 3, &key_file(8)).expect("it opens"));

    let made = repository.begin_epoch(&[unlock(), key_file(8)], Others::Refuse).expect("it begins");
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
    assert_eq!(inline.commit(outcome).expect("it commits"), Committed::Done);
    let repository = Arc::new(open_by(&storage, 4, &key_file(8)).expect("it opens"));
    assert_eq!(restore_all(&repository).expect("both epochs are read"), 2);
    let data = |storage: &dyn Storage| storage.list("data").expect("memory lists").len();
    let containers = data(&*storage);
    assert_eq!(back_up(&repository, &[1], false).expect("it works"), Committed::Done);
    assert_eq!(data(&*storage), containers, "duplicates are found");
    let ended = restore_all(&repository).expect("both epochs are read");
    assert_eq!(ended, 3, "the old writer's, and the new one's");
    let mut newest = 0;
    for kind in ObjectKind::ALL.into_iter().filter(|kind| *kind != ObjectKind::Key) {
        for (name, _) in storage.list(kind.folder()).expect("memory lists") {
            let Ok(parsed) = ObjectName::parse(&name) else { continue };
            let bytes = storage.get(&name).expect("it is there");
            let header = Header::decode(&parsed, &bytes).expect("a header");
            newest += u32::from(header.epoch == 2);
        }
    }
    assert_eq!(newest, 4, "both copies of the settings, a ticket, a commit");

    // A client with only the old epoch can read old objects, and names new ones.
    let view = View::list(&reading).expect("it lists");
    assert_eq!((view.snapshots().len(), view.unreadable.len()), (2, 1), "one is new");
    let error = view.unreadable.values().next().expect("one").to_string();
    assert!(error.contains("key of epoch 2") && error.contains("up to epoch 1"), "{error}");
    let error = open_by(&storage, 5, &old_kit).expect_err("the kit is old");
    let told = "is at key epoch 2, but this key only has epochs up to 1";
    assert!(error.kind() == Kind::WrongKey && error.to_string().contains(told), "{error}");
    // Such a client cannot change the settings, and a key that it adds would open nothing.
    let config = reading.config().clone();
    let mut reading = Arc::into_inner(reading).expect("nobody else has it");
    assert_eq!(kind_of(reading.set_config(config)), Kind::Conflict);
    assert_eq!(kind_of(reading.add_key(&key_file(9), "")), Kind::Conflict);
    assert_eq!(key_names(&*storage).len(), 4, "the key that it could not add is gone");
    // Nor can it remove a key, because it does not know which keys are left.
    assert_eq!(kind_of(reading.remove_key(made[0], false)), Kind::Invalid);
    assert_eq!(kind_of(reading.remove_key(made[0], true)), Kind::Conflict);
    assert_eq!(key_names(&*storage).len(), 4, "the key that it could not remove is there");

    // Another epoch, without the other key: that key is removed, and nothing else.
    let mut repository = Arc::into_inner(repository).expect("nobody else has it");
    let kit = Unlock::Keyring(repository.keys().keyring().clone());
    repository.add_key(&kit, "kit").expect("memory takes a record");
    repository.begin_epoch(&[key_file(8)], Others::Remove).expect("it begins");
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
    repository.begin_epoch(&[unlock()], Others::Remove).expect("it begins");
    for copy in [false, true] {
        let name = ObjectName::Config { number: 1, copy };
        storage.delete(&name.to_string()).expect("memory deletes");
    }
    let error = open_by(&storage, 2, &unlock()).expect_err("the newest settings are gone");
    assert!(error.to_string().contains("this key has epoch 2"), "{error}");
}

/// Whatever is printed of the values that hold secrets, no secret is in it.
#[test]
fn secrets_are_not_printed() {
    let secret = [0xa7; 32];
    let told = |text: &str| {
        let text = text.to_lowercase();
        ["167, 167", "a7, a7", "a7a7", "a7 a7"].iter().any(|form| text.contains(form))
    };
    assert!(told(&format!("{secret:?}")) && told(&format!("{secret:x?}")), "the test would see it");
    let keyring = Keyring { repository: RepositoryId([1; 16]), epochs: vec![(1, Secret(secret))] };
    let storage: Arc<dyn Storage> = Arc::new(Memory::new());
    let repository = init(storage).expect("an empty memory takes a repository");
    let mut texts = Vec::new();
    for suite in [CipherSuite::None, CipherSuite::Aes256Gcm, CipherSuite::ChaCha20Poly1305] {
        // The key itself, so that derived keys are searched for as well.
        let keys = Keys::derive(&keyring, suite);
        let name = ObjectName::Prune(1);
        let sealed = seal_object(&keys, name, [2; 16], b"body");
        let sealer = Sealer::new(&keys, name, [2; 16]);
        let opener = Opener::new(&keys, name, &sealed).expect("it opens");
        texts.extend([format!("{keys:?}{keys:#?}"), format!("{sealer:?}{opener:?}")]);
    }
    let unlocks = [
        Unlock::Nothing,
        Unlock::Passphrase(secret.to_vec().into()),
        Unlock::KeyFile(Secret(secret)),
        Unlock::Keyring(keyring.clone()),
    ];
    texts.extend(unlocks.iter().map(|unlock| format!("{unlock:?}{unlock:#?}{unlock:x?}")));
    texts.push(format!("{:?}{:x?}{keyring:?}{keyring:#x?}", Secret(secret), Secret(secret)));
    for text in &texts {
        assert!(!told(text), "{text}");
        assert!(text.len() < 1000, "{text}");
    }
    // Every value that holds a repository holds its keys.
    let repository = Arc::new(repository);
    let view = View::list(&repository).expect("it lists");
    let reader = Reader::open(repository.clone(), view).expect("it reads");
    let writer = Writer::begin(repository.clone(), Purpose::Backup).expect("it begins");
    let (_, own) = &repository.keys().keyring().epochs[0];
    let own = format!("{:?}", &own.0[..4]);
    let own = own.trim_matches(['[', ']']).to_owned();
    for text in [format!("{repository:?}"), format!("{reader:?}"), format!("{writer:?}")] {
        assert!(!text.contains(&own), "{text}");
    }
}

/// Changes the keys of a repository that `unlock()` opens.
type Change = fn(&mut Repository) -> Result<()>;

const CHANGES: [(&str, Change); 6] = [
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
        repository.begin_epoch(&[unlock(), key_file(8)], Others::Refuse).map(drop)
    }),
    ("begin an epoch for one", |repository| {
        repository.begin_epoch(&[unlock()], Others::Remove).map(drop)
    }),
    ("change the settings", |repository| repository.set_config(repository.config().clone())),
];

/// Returns the number of the three secrets that open the repository. With each of these, everything
/// that exists is restored and a backup can be made.
fn check_all(storage: &Arc<dyn Storage>, about: &str) -> usize {
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
        assert_eq!(done, Committed::Done, "{about}");
    }
    count
}

fn calls_of(change: Change) -> u64 {
    let faulty = Arc::new(Faulty::new(start(), Fault::None));
    let storage: Arc<dyn Storage> = faulty.clone();
    let mut repository = open_by(&storage, 1, &unlock()).expect("it opens");
    change(&mut repository).expect("nothing fails here");
    faulty.calls()
}

/// Every change is interrupted before and after every single call, and by a full disk. The old
/// state or the new one opens, and a client that opens it can read everything. An interrupted
/// change can be repeated.
#[test]
fn key_change_killed_at_any_call_can_be_repeated() {
    let mut states = 0;
    for (name, change) in CHANGES {
        let calls = calls_of(change);
        assert!(calls > 4, "{name}: {calls} calls are too few to mean anything");
        let faults = (0..=calls).flat_map(|call| {
            [Fault::DeadBefore(call), Fault::DeadAfter(call), Fault::FullFrom(call)]
        });
        for fault in faults {
            let about = format!("{name}, {fault:?}");
            let storage = start();
            let faulty: Arc<dyn Storage> = Arc::new(Faulty::new(storage.clone(), fault));
            let done = open_by(&faulty, 1, &unlock()).and_then(|mut opened| change(&mut opened));
            states += 1;
            let count = check_all(&storage, &about);
            assert!(count >= 1, "{about}: nobody can open it");
            // Of the secrets that opened it before, only those that the change itself removes may
            // fail.
            let opens = |secret| open_by(&storage, 4, &secret).is_ok();
            assert!(opens(unlock()) || opens(key_file(9)), "{about}: neither old nor new opens it");
            let may_go = ["replace", "remove the other", "begin an epoch for one"];
            assert!(count >= 2 || may_go.contains(&name), "{about}: {count} can open it");
            if done.is_ok() {
                continue;
            }
            // A client that opens it can repeat the change, or finds it done.
            let Ok(mut repository) = open_by(&storage, 2, &unlock()) else {
                assert_eq!(name, "replace", "{about}: the secret in use is gone");
                continue;
            };
            match change(&mut repository) {
                Ok(()) => {}
                Err(error) => {
                    let is_done = name == "remove the other" && error.kind() == Kind::Missing
                        || name == "begin an epoch for both" && error.kind() == Kind::WrongKey;
                    assert!(is_done, "{about}: {error}");
                }
            }
            assert!(check_all(&storage, &about) >= 1, "{about}: again");
            let repository =
                open_by(&storage, 3, &unlock()).or_else(|_| open_by(&storage, 3, &key_file(9)));
            let repository = repository.unwrap_or_else(|error| panic!("{about}: {error}"));
            let all = entries(&repository);
            let is_whole = |entry: &KeyEntry| entry.is_in_use && entry.copy_count == 2;
            assert!(all.iter().any(is_whole), "{about}: {all:?}");
        }
    }
    println!("{states} states");
    assert!(states > 200, "{states} states are too few to mean anything");
}

/// Every change, with another one by another machine before each of its calls, with the same key
/// and with another one.
#[test]
fn concurrent_key_changes_leave_a_key_that_opens() {
    let (mut runs, mut lost) = (0, 0);
    for (name, change) in CHANGES {
        for (other_name, other_change) in CHANGES {
            for other_unlock in [unlock(), key_file(8)] {
                for call in 0..calls_of(change) {
                    let about = format!("{name}, overtaken at {call} by {other_name}");
                    let storage = start();
                    let opened = open_by(&storage, 7, &other_unlock).expect("it opens");
                    let other = move || {
                        let mut opened = opened;
                        other_change(&mut opened).ok();
                    };
                    let overtaken: Arc<dyn Storage> =
                        Overtaken::new(storage.clone(), When::BeforeCall(call), other);
                    let mine = open_by(&overtaken, 1, &unlock())
                        .and_then(|mut opened| change(&mut opened));
                    runs += 1;
                    lost += u64::from(mine.is_err());
                    assert!(check_all(&storage, &about) >= 1, "{about}: nobody can open it");
                }
            }
        }
    }
    println!("{runs} runs, {lost} lost");
    assert!(lost > 10 && lost < runs, "{lost} of {runs} lost");
}

/// A repair that runs beside the removal of a key never puts a copy of that key again, neither if
/// it finds one copy damaged or gone, nor if it sees the removal half done.
#[test]
fn key_that_is_removed_stays_removed_beside_a_repair() {
    fn repair(storage: &Arc<dyn Storage>) -> Vec<ObjectName> {
        let repository = Arc::new(open_by(storage, 5, &unlock()).expect("it opens"));
        let done =
            repair_objects(&repository, &ObjectsOptions::default(), &()).expect("it repairs");
        done.mended
    }
    fn remove(storage: &Arc<dyn Storage>) {
        let mut opened = open_by(storage, 6, &unlock()).expect("it opens");
        CHANGES[1].1(&mut opened).expect("nothing is in its way");
    }
    /// Creates a repository, with the two copies of the key that is removed, one of which may be
    /// damaged.
    fn begin(damaged: Option<(bool, bool)>) -> (Arc<dyn Storage>, [String; 2]) {
        let storage = start();
        let repository = open_by(&storage, 4, &unlock()).expect("it opens");
        let other = entries(&repository).into_iter().find(|entry| !entry.is_in_use);
        let id = other.expect("two keys").id;
        let names = [false, true].map(|copy| ObjectName::Key { id, copy }.to_string());
        if let Some((copy, is_gone)) = damaged {
            let name = &names[usize::from(copy)];
            let mut bytes = storage.get(name).expect("it is there").to_vec();
            bytes[100] ^= 1;
            storage.delete(name).expect("memory deletes");
            if !is_gone {
                storage.put_new(name, Bytes::from(bytes)).expect("memory takes it");
            }
        }
        (storage, names)
    }
    let (mut runs, mut mended) = (0, 0);
    for damaged in
        [None, Some((false, false)), Some((false, true)), Some((true, false)), Some((true, true))]
    {
        for is_repair_overtaken in [false, true] {
            for call in 0.. {
                let (storage, names) = begin(damaged);
                let beside = storage.clone();
                let count = Arc::new(AtomicUsize::new(0));
                let act = {
                    let count = count.clone();
                    move || match is_repair_overtaken {
                        true => remove(&beside),
                        false => count.store(repair(&beside).len(), Ordering::SeqCst),
                    }
                };
                let overtaken = Overtaken::new(storage.clone(), When::BeforeCall(call), act);
                let own: Arc<dyn Storage> = overtaken.clone();
                if is_repair_overtaken {
                    count.store(repair(&own).len(), Ordering::SeqCst);
                } else {
                    remove(&own);
                }
                if !overtaken.has_acted() {
                    break;
                }
                runs += 1;
                mended += count.load(Ordering::SeqCst);
                let about = format!("damage {damaged:?}, {is_repair_overtaken}, call {call}");
                let left = key_names(&*storage);
                let is_left = names.iter().any(|name| left.contains(name));
                assert!(!is_left, "{about}: the key is there again");
                assert_eq!(left.len(), 2, "{about}: the key in use is whole");
            }
        }
    }
    println!("{runs} runs, {mended} copies were put again meanwhile");
    assert!(runs > 50 && mended > 10, "{runs} runs, {mended} put again: too few to mean anything");
}

/// A removal could not put back a copy that it could not read, so it removes nothing.
#[test]
fn removal_with_a_failed_call_is_an_error() {
    let remove = CHANGES[1].1;
    let storage = start();
    let faulty = Arc::new(Faulty::new(storage.clone(), Fault::None));
    let mut opened =
        open_by(&(faulty.clone() as Arc<dyn Storage>), 1, &unlock()).expect("it opens");
    let opening = faulty.calls();
    remove(&mut opened).expect("nothing fails here");
    let goes_on = |call: &u64| {
        let storage = start();
        let faulty: Arc<dyn Storage> =
            Arc::new(Faulty::new(storage.clone(), Fault::FailsAt(*call)));
        let mut opened = open_by(&faulty, 1, &unlock()).expect("it opens");
        let removed = remove(&mut opened);
        assert!(check_all(&storage, &format!("call {call}")) >= 1, "call {call}");
        match removed {
            Ok(()) => true,
            Err(error) => {
                assert_eq!(error.kind(), Kind::Storage, "call {call}: {error}");
                false
            }
        }
    };
    let count = (opening..faulty.calls()).filter(goes_on).count();
    assert_eq!(count, 1, "only the settings have a copy that does as well");
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
            let overtaken = Overtaken::new(storage.clone(), When::BeforeCall(call), plant);
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

/// A client that opens the repository while its keys change, with a secret that opens it before and
/// after, is never told that the secret is wrong.
#[test]
fn opening_is_not_disturbed_by_key_changes() {
    for (name, change) in [CHANGES[0], CHANGES[3], CHANGES[5]] {
        let calls = {
            let faulty = Arc::new(Faulty::new(start(), Fault::None));
            let storage: Arc<dyn Storage> = faulty.clone();
            open_by(&storage, 1, &unlock()).expect("it opens");
            faulty.calls()
        };
        assert!(calls >= 4, "{calls} calls are too few to mean anything");
        for call in 0..calls {
            let storage = start();
            let mut opened = open_by(&storage, 7, &key_file(8)).expect("it opens");
            let other = move || change(&mut opened).expect("nobody is in its way");
            let overtaken: Arc<dyn Storage> =
                Overtaken::new(storage.clone(), When::BeforeCall(call), other);
            open_by(&overtaken, 1, &unlock())
                .unwrap_or_else(|error| panic!("{name}, before call {call}: {error}"));
        }
    }
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

fn change_object(storage: &dyn Storage, name: &str, change: impl Fn(&mut Vec<u8>)) {
    let mut bytes = storage.get(name).expect("it is there").to_vec();
    change(&mut bytes);
    storage.replace(name, bytes.into()).expect("memory takes it");
}

fn key_of(storage: &Arc<dyn Storage>, unlock: &Unlock) -> [u8; 16] {
    open_by(storage, 1, unlock).expect("it opens").key_id().expect("a key has opened it")
}

#[test]
fn flipped_bit_in_the_description_of_one_copy_is_harmless() {
    let storage = start();
    let key = key_name(key_of(&storage, &key_file(8))).to_string();
    for name in [key.as_str(), "config/00000000000000000000"] {
        let whole = storage.get(name).expect("it is there");
        for place in 0..HEADER_LEN + WRAP_LEN {
            for bit in [1, 0x80] {
                change_object(&*storage, name, |bytes| bytes[place] ^= bit);
                let opened = open_by(&storage, 1, &key_file(8));
                assert!(opened.is_ok(), "{name}, byte {place}, {bit:#x}: {opened:?}");
                storage.replace(name, whole.clone()).expect("memory takes it");
            }
        }
    }
}

#[test]
fn key_in_use_is_replaced_and_never_removed_as_damaged() {
    let storage = start();
    let id = key_of(&storage, &key_file(8));
    for copy in [false, true] {
        let name = ObjectName::Key { id, copy }.to_string();
        change_object(&*storage, &name, |bytes| *bytes.last_mut().expect("bytes") ^= 1);
    }
    let mut repository = open_by(&storage, 1, &key_file(8)).expect("only its checksum is damaged");
    // The other key is removed first, so that this one is the last.
    let other = entries(&repository).into_iter().find(|entry| entry.id != id).expect("two");
    repository.remove_key(other.id, true).expect("it can go");
    let refused = repository.remove_key(id, true).expect_err("it is the last one that opens");
    assert_eq!(refused.kind(), Kind::Invalid);
    let shared = Arc::new(open_by(&storage, 2, &key_file(8)).expect("it opens"));
    let findings = Remedies::default();
    check(&shared, &CheckOptions::default(), &findings).expect("memory reads");
    let named = findings.0.into_inner().expect("nobody panics");
    assert_eq!(named, [Remedy::ReplaceKey]);
    repository.replace_key(id, &key_file(8)).expect("a new one is put first");
    assert_eq!(check_all(&storage, "replaced"), 1, "everything opens");
}

/// Collects the remedies that a check names.
#[derive(Default)]
struct Remedies(Mutex<Vec<Remedy>>);

impl CheckMonitor for Remedies {
    fn finding(&self, finding: &Finding) {
        let mut named = self.0.lock().expect("nobody panics");
        named.extend(&finding.remedies);
        named.dedup();
    }
}
