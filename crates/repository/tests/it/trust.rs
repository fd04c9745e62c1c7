//! An untrusted storage: junk under valid names, claims without proof, keys of a past epoch. An
//! object that does not open decides nothing, and every refusal offers a way on.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::support::backup::{back_up, init, unlock};
use crate::support::machine::Machine;
use bytes::Bytes;
use cutpoint_repository::crypto::{HEADER_LEN, Header};
use cutpoint_repository::format::commit::Outcome;
use cutpoint_repository::format::newer::NewerClaim;
use cutpoint_repository::repo::KDF_TRIALS_MAX;
use cutpoint_repository::repo::keys::OtherKeysPolicy;
use cutpoint_repository::rules::{self, Mutant};
use cutpoint_repository::write::Inline;
use cutpoint_repository::{
    CipherSuite, CommitResult, KdfLimits, ObjectName, OpenOptions, Purpose, Repository, Snapshot,
    TicketId, Unlock, Verify, View, Writer,
};
use cutpoint_storage::{Error, Kind, Local, Memory, ObjectKind, Storage};
use cutpoint_testing::SplitMix64;

/// Opens the repository as a process of its own, with its own random numbers.
fn open_with(
    storage: &Arc<dyn Storage>,
    unlock: &Unlock,
    options: OpenOptions,
) -> Result<Repository, Error> {
    static PROCESSES: AtomicU32 = AtomicU32::new(1);
    let process = PROCESSES.fetch_add(1, Ordering::Relaxed);
    Repository::open_with(storage.clone(), Machine::new(process), unlock, options)
}

fn open(storage: &Arc<dyn Storage>) -> Result<Repository, Error> {
    open_with(storage, &unlock(), OpenOptions::default())
}

fn ignoring() -> OpenOptions {
    OpenOptions { ignores_newer: true, ..OpenOptions::default() }
}

/// Creates a repository with one snapshot.
fn start() -> Arc<dyn Storage> {
    let storage: Arc<dyn Storage> = Arc::new(Memory::new());
    let first = init(storage.clone()).expect("an empty memory takes a repository");
    assert_eq!(
        back_up(&Arc::new(first), &[1], false).expect("it works"),
        CommitResult::Done,
        "the first is made"
    );
    storage
}

fn plant(storage: &Arc<dyn Storage>, name: ObjectName, bytes: &[u8]) {
    let bytes = Bytes::copy_from_slice(bytes);
    storage.put_new(&name.to_string(), bytes).expect("memory takes it");
}

fn config(number: u64) -> ObjectName {
    ObjectName::Config { number, copy: false }
}

/// Returns random bytes behind a header that claims `epoch`.
fn claiming(name: ObjectName, epoch: u32) -> Vec<u8> {
    let header = Header {
        kind: name.kind().code(),
        suite: CipherSuite::Aes256Gcm,
        epoch,
        name: name.header_bytes(),
        salt: [1; 16],
        commitment: [2; 16],
    };
    let mut bytes = [header.encode().to_vec(), SplitMix64::bytes(1, 176)].concat();
    // Every client can compute the checksum in the trailer, but an accident does not.
    let checksum = xxhash_rust::xxh3::xxh3_128(&bytes);
    bytes.extend_from_slice(&checksum.to_le_bytes());
    bytes
}

#[test]
fn junk_settings_are_skipped_and_new_ones_find_a_number() {
    let storage = start();
    for number in [1, 2, u64::MAX] {
        plant(&storage, config(number), &SplitMix64::bytes(number, 256));
    }
    plant(&storage, ObjectName::Config { number: 4, copy: true }, b"");
    let mut repository = open(&storage).expect("settings 0 open");
    let unopened: Vec<u64> = repository
        .unopened()
        .iter()
        .map(|(name, _)| match name {
            ObjectName::Config { number, .. } => *number,
            _ => panic!("{name} is no settings"),
        })
        .collect();
    assert_eq!((repository.config_number(), unopened), (0, vec![u64::MAX, 4, 2, 1]));
    let mut changed = repository.config().clone();
    changed.compression_level = 7;
    repository.set_config(changed).expect("there is a number left");
    assert_eq!(repository.config_number(), 3, "the first at which nothing lies");
    let config = repository.config().clone();
    repository.set_config(config).expect("there is a number left");
    assert_eq!(repository.config_number(), 5, "a copy alone takes a number");
    let again = open(&storage).expect("the newest that open count");
    assert_eq!((again.config_number(), again.config().compression_level), (5, 7));
    assert_eq!(again.unopened().len(), 1, "only what lies above");
}

#[test]
fn settings_changed_by_another_client_are_not_junk() {
    let storage = start();
    let mut first = open(&storage).expect("it opens");
    let mut second = open(&storage).expect("it opens");
    first.set_config(first.config().clone()).expect("it is the first");
    let error = second.set_config(second.config().clone()).expect_err("the other was faster");
    assert_eq!(error.kind(), Kind::Conflict, "{error}");
}

#[test]
fn settings_that_claim_a_newer_epoch_are_refused_unless_ignored() {
    let storage = start();
    plant(&storage, config(u64::MAX), &claiming(config(u64::MAX), 9));
    let error = open(&storage).expect_err("it may be a new epoch");
    let text = error.to_string();
    let remedy = error.remedy().unwrap_or_default();
    assert!(error.kind() == Kind::WrongKey && remedy.contains("--ignore-newer"), "{text}");
    assert!(text.contains("18446744073709551615"), "{text}");
    let repository = open_with(&storage, &unlock(), ignoring()).expect("it is junk");
    assert_eq!((repository.config_number(), repository.unopened().len()), (0, 1));
}

#[test]
fn writer_that_sees_a_newer_epoch_is_refused_unless_it_is_ignored() {
    let storage = start();
    let junk = ObjectName::Commit(TicketId([9; 12]));
    plant(&storage, junk, &claiming(junk, 2));
    let begin = |options| {
        let repository = open_with(&storage, &unlock(), options).expect("it opens");
        Writer::begin(Arc::new(repository), Purpose::Backup)
    };
    let commits = || storage.list("commits").expect("memory lists").len();
    let before = commits();
    let error = begin(OpenOptions::default()).map(drop).expect_err("something is newer");
    let text = error.to_string();
    assert!(error.kind() == Kind::WrongKey && NewerClaim::is_epoch_of(&error), "{text}");
    assert!(text.contains(&junk.to_string()) && text.contains("--ignore-newer"), "{text}");
    assert_eq!(commits(), before + 1, "its ticket is ended");
    begin(ignoring()).expect("it is junk").void(Vec::new()).expect("it ends");
    // A flipped bit in the epoch is damage, not a claim.
    let damaged = ObjectName::Commit(TicketId([8; 12]));
    let mut bytes = claiming(damaged, 2);
    bytes[255] ^= 1;
    let other = start();
    plant(&other, damaged, &bytes);
    let repository = Arc::new(open(&other).expect("it opens"));
    Writer::begin(repository, Purpose::Backup).expect("it is damage, which stops no backup");
    // A reader is told, and continues.
    let view = View::list(&open(&storage).expect("it opens")).expect("it lists");
    assert_eq!((view.snapshots().len(), view.unreadable.len()), (1, 1));
    // A client that deletes, or forgets by rules, is told that it may be an epoch, not damage.
    let error = view.complete(&open(&storage).expect("it opens")).expect_err("something is newer");
    assert!(NewerClaim::is_epoch_of(&error), "{error}");
    rules::activate(Some(Mutant::WritesBelowEpoch));
    let broken = begin(OpenOptions::default()).map(drop);
    rules::activate(None);
    assert!(broken.is_ok(), "without the rule it writes with a key that was given up");
}

/// Runs in progress continue with the previous epoch, even if they need another ticket.
#[test]
fn run_in_progress_keeps_its_epoch() {
    let storage = start();
    let working = Arc::new(open(&storage).expect("it opens"));
    let mut writer = Writer::begin(working.clone(), Purpose::Backup).expect("it begins");
    let mut rotating = open(&storage).expect("it opens");
    rotating.begin_epoch(&[unlock()], OtherKeysPolicy::Refuse).expect("it begins");
    assert_eq!(back_up(&Arc::new(rotating), &[2], false).expect("it works"), CommitResult::Done);
    writer.void(Vec::new()).expect("it ends");
    let mut again = Writer::begin_again(working.clone(), Purpose::Backup).expect("it goes on");
    again.void(Vec::new()).expect("it ends");
    let error = Writer::begin(working, Purpose::Backup).map(drop).expect_err("it would be new");
    assert!(NewerClaim::is_epoch_of(&error), "{error}");
}

/// A previous member writes a snapshot with the previous keys: no backup compares with it.
#[test]
fn snapshot_of_an_old_epoch_is_no_parent() {
    let storage = start();
    let previous = Arc::new(open(&storage).expect("it opens"));
    let forge = |parent: Option<TicketId>, repository: &Arc<Repository>| {
        let writer = Writer::begin_again(repository.clone(), Purpose::Backup).expect("it begins");
        let (id, view) = (writer.ticket(), writer.view().clone());
        let root = view.snapshots()[0].1.root.clone();
        let inline = Inline::new(writer, Verify::Some).expect("it goes on");
        let snapshot = Snapshot { root, parent, ..Snapshot::empty() };
        let outcome = Outcome::Snapshot(Box::new(snapshot));
        assert_eq!(inline.commit(outcome).expect("it commits"), CommitResult::Done);
        id
    };
    let mut honest = open(&storage).expect("it opens");
    honest.begin_epoch(&[unlock()], OtherKeysPolicy::Refuse).expect("it begins");
    let honest = Arc::new(honest);
    let forged = forge(None, &previous);
    let laundered = forge(Some(forged), &honest);
    let own = forge(None, &honest);
    let child = forge(Some(own), &honest);
    let view = View::list(&honest).expect("it lists");
    assert_eq!((view.epoch, view.epoch_of(forged), view.epoch_of(own)), (2, 1, 2));
    let may = |id| (view.may_take_over(id), view.may_be_parent(id));
    assert_eq!(may(forged), (true, false), "a forged snapshot");
    assert_eq!(may(laundered), (true, false), "one that took it over");
    assert_eq!((may(own), may(child)), ((true, true), (true, true)), "honest ones");
    rules::activate(Some(Mutant::ComparesWithOldEpoch));
    let broken = view.may_be_parent(forged);
    rules::activate(None);
    assert!(broken, "without the rule it is taken over unread");
}

/// Puts `count` keys that sort before all others and ask for little work: each costs a trial.
fn plant_keys(storage: &Arc<dyn Storage>, count: u8, wrap: [u32; 3]) {
    for number in 0..count {
        let name = ObjectName::Key {
            id: [&[0; 15][..], &[number]].concat().try_into().expect("16"),
            copy: false,
        };
        let mut bytes = claiming(name, 0);
        bytes[HEADER_LEN..HEADER_LEN + 32].fill(0);
        bytes[HEADER_LEN] = 1;
        for (at, field) in (HEADER_LEN + 4..).step_by(4).zip(wrap) {
            bytes[at..at + 4].copy_from_slice(&u32::to_le_bytes(field));
        }
        let end = bytes.len() - 16;
        let checksum = xxhash_rust::xxh3::xxh3_128(&bytes[..end]);
        bytes[end..].copy_from_slice(&checksum.to_le_bytes());
        storage.put_new(&name.to_string(), Bytes::from(bytes)).expect("memory takes it");
    }
}

#[test]
fn planted_keys_cost_a_bounded_number_of_trials() {
    let storage = start();
    let repository = open(&storage).expect("it opens");
    let passphrase = Unlock::Passphrase(b"long and secret".to_vec().into());
    let own = repository.add_key(&passphrase, "").expect("memory takes a key");
    plant_keys(&storage, 200, [8, 1, 1]);
    let error = open_with(&storage, &passphrase, OpenOptions::default()).expect_err("too many");
    let text = error.to_string();
    assert!(error.kind() == Kind::WrongKey && text.contains("--key-id"), "{text}");
    assert!(text.contains(&format!("({KDF_TRIALS_MAX} keys tried")), "{text}");
    let named = OpenOptions { only_key: Some(own), ..OpenOptions::default() };
    let opened = open_with(&storage, &passphrase, named).expect("it is named");
    assert_eq!(opened.key_id(), Some(own));
    let known = OpenOptions { first_keys: vec![own], ..OpenOptions::default() };
    open_with(&storage, &passphrase, known).expect("the one of the last time comes first");
    let wrong = OpenOptions { only_key: Some([0; 16]), ..OpenOptions::default() };
    open_with(&storage, &passphrase, wrong).expect_err("another key is not tried");
    let absent = OpenOptions { only_key: Some([7; 16]), ..OpenOptions::default() };
    let error = open_with(&storage, &passphrase, absent).expect_err("not found");
    assert!(error.to_string().contains("not found"), "{error}");
}

#[test]
fn key_that_asks_for_more_than_the_ceiling_is_refused_by_name() {
    let storage = start();
    let limits = KdfLimits::default();
    assert_eq!(
        (limits.memory_kib_max, limits.passes_max),
        (262_144, 12),
        "4 times what is written"
    );
    let too_much = [
        [limits.memory_kib_max + 1, 1, 1],
        [8, limits.passes_max + 1, 1],
        [8 * (limits.lanes_max + 1), 1, limits.lanes_max + 1],
    ];
    let passphrase = Unlock::Passphrase(b"p".to_vec().into());
    for wrap in too_much {
        let storage = start();
        plant_keys(&storage, 1, wrap);
        let error = open_with(&storage, &passphrase, OpenOptions::default()).expect_err("too much");
        let text = error.to_string();
        assert!(text.contains("keys/00000000") && text.contains("--kdf-limit"), "{wrap:?}: {text}");
    }
    plant_keys(&storage, 1, too_much[0]);
    // It does not affect other keys: nothing was stretched, and no trial was spent.
    let repository = open(&storage).expect("the key file opens it");
    let own = Unlock::Passphrase(b"long and secret".to_vec().into());
    repository.add_key(&own, "").expect("memory takes a key");
    plant_keys(&storage, 200, too_much[1]);
    open_with(&storage, &own, OpenOptions::default()).expect("the passphrase opens it");
}

/// A change of keys stretches no more, and no more often, than opening the repository.
#[test]
fn change_of_keys_keeps_to_the_limits_of_the_client() {
    let storage = start();
    let passphrase = Unlock::Passphrase(b"long and secret".to_vec().into());
    let first = open(&storage).expect("it opens");
    let own = first.add_key(&passphrase, "").expect("memory takes a key");
    let options = OpenOptions { kdf_limits: KdfLimits::times(0), ..OpenOptions::default() };
    let mut strict = open_with(&storage, &unlock(), options).expect("a key file is not stretched");
    let secrets = [unlock(), passphrase];
    let before = strict.list_keys().expect("memory lists").len();
    let is_refused = |error: &Error| {
        error.kind() == Kind::Unsupported && error.to_string().contains("--kdf-limit")
    };
    let error = strict.add_key(&secrets[1], "").expect_err("it is stretched to try it");
    assert!(is_refused(&error), "{error}");
    let error = strict.begin_epoch(&secrets, OtherKeysPolicy::Refuse).expect_err("it is stretched");
    let name = ObjectName::Key { id: own, copy: false }.to_string();
    assert!(is_refused(&error) && error.to_string().contains(&name), "the first: {error}");
    assert_eq!(strict.list_keys().expect("memory lists").len(), before, "no key is left");
    plant_keys(&storage, 64, [8, 1, 1]);
    let mut opened = open(&storage).expect("it opens");
    let error = opened.begin_epoch(&secrets, OtherKeysPolicy::Remove).expect_err("there are 65");
    let text = error.to_string();
    assert!(error.kind() == Kind::Unsupported && text.contains("at most 64 are tried"), "{text}");
}

/// Objects in a folder that claim more than their kind may have: nothing of them is read.
#[test]
fn objects_above_their_maximum_are_not_read() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let storage: Arc<dyn Storage> = Arc::new(Local::create(folder.path()).expect("a folder"));
    init(storage.clone()).expect("an empty folder takes a repository");
    let huge = |name: &str| {
        let file = fs::File::create(folder.path().join(name)).expect("a file is made");
        file.set_len(1 << 40).expect("it is sparse");
    };
    huge("keys/00000000000000000000000000000000");
    huge("config/18446744073709551615");
    huge("commits/000000000000000000000000");
    let repository = open(&storage).expect("the others open");
    assert_eq!(repository.unopened().len(), 1, "it is damage");
    let view = View::list(&repository).expect("it lists");
    let error = view.unreadable.values().next().expect("one is too long");
    assert!(error.kind() == Kind::Corrupt && error.to_string().contains("too long"), "{error}");
    assert_eq!(repository.list_keys().expect("it lists").len(), 2, "the key is in the list");
    let error = storage.get_at_most("keys/00000000000000000000000000000000", 10);
    assert_eq!(error.map_err(|error| error.kind()).err(), Some(Kind::Corrupt));
}

#[test]
fn pipe_in_the_place_of_an_object_is_damage_and_is_not_waited_for() {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    let folder = tempfile::tempdir().expect("a temporary folder");
    let storage = Local::create(folder.path()).expect("a folder");
    storage.prepare().expect("it makes its folders");
    let name = "keys/00000000000000000000000000000000";
    let path = folder.path().join(name);
    mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a pipe is made");
    for read in [storage.get(name), storage.get_range(name, 0, 1)] {
        let error = read.expect_err("it is no object");
        assert_eq!(error.kind(), Kind::Corrupt, "{error}");
    }
}

/// A storage whose listings never end.
#[test]
fn listing_above_the_maximum_of_its_kind_is_an_error_of_the_storage() {
    let storage = Memory::new();
    let count_max = ObjectKind::Key.count_max();
    let put = |number: usize| {
        storage.put_new(&format!("keys/{number:032x}"), Bytes::new()).expect("memory takes it");
    };
    (0..count_max).for_each(put);
    assert_eq!(storage.list("keys").expect("as many as may be").len(), count_max);
    put(count_max);
    let error = storage.list("keys").expect_err("one more");
    let text = error.to_string();
    assert!(error.kind() == Kind::Storage && text.contains("more than 10000 objects"), "{text}");
}

#[test]
fn object_is_read_up_to_the_length_that_was_listed() {
    let storage = start();
    for (name, len) in storage.list(ObjectKind::Commit.folder()).expect("memory lists") {
        assert!(storage.get_at_most(&name, len).is_ok(), "{name} has {len} bytes");
        let error = storage.get_at_most(&name, len - 1).expect_err("it is longer");
        assert_eq!(error.kind(), Kind::Corrupt, "{error}");
    }
}

#[test]
fn object_above_its_maximum_is_not_written() {
    let storage = start();
    let repository = open(&storage).expect("it opens");
    let name = ObjectName::Ticket { ticket: TicketId([1; 12]), renewal: 0 };
    let body = vec![0; usize::try_from(ObjectKind::Ticket.len_max()).expect("it is small")];
    let error = repository.seal_and_put(name, &body).expect_err("it is too long");
    assert_eq!(error.kind(), Kind::Invalid, "{error}");
    assert_eq!(storage.head(&name.to_string()).expect("memory answers"), None, "nothing was put");
}
