//! Access to a repository: keys are added and removed, epochs begin. Whatever is interrupted or
//! done at the same time, a client that had the right to can still open the repository.

mod changes;
mod damage;
mod epochs;
mod interrupted;

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use cutpoint_repository::crypto::{HEADER_LEN, Opener, Sealer, WRAP_LEN, seal_object};
use cutpoint_repository::repo::keys::{KeyEntry, OtherKeysPolicy};
use cutpoint_repository::{
    CipherSuite, CommitResult, KeyMethod, Keyring, Keys, ObjectName, Purpose, Reader, Repository,
    RepositoryId, Secret, Unlock, View, Writer,
};
use cutpoint_storage::{Kind, Memory, ObjectKind, Result, Storage};

use crate::support::backup::{back_up, init, restore_all, unlock};
use crate::support::failing_reads::FailingReads;
use crate::support::machine::Machine;

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
    assert_eq!(done, CommitResult::Done, "no other client ends it");
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
    repository
        .begin_epoch(&[unlock(), key_file(8)], OtherKeysPolicy::Refuse)
        .expect("it is replaced");
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
