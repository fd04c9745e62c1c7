//! Changes of keys that are interrupted at any call, or overtaken by another change.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::changes::{CHANGES, calls_of, check_all};
use bytes::Bytes;
use cutpoint_repository::ObjectName;
use cutpoint_repository::repo::keys::KeyEntry;
use cutpoint_repository::verify::repair::{ObjectsOptions, repair_objects};
use cutpoint_storage::{Fault, Faulty, Kind, Storage};

use super::{entries, key_file, key_names, open_by, start};
use crate::support::backup::unlock;
use crate::support::overtaken::{OvertakenStorage, When};

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
            assert!(count >= 1, "{about}: no secret opens it");
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
                        OvertakenStorage::new(storage.clone(), When::BeforeCall(call), other);
                    let mine = open_by(&overtaken, 1, &unlock())
                        .and_then(|mut opened| change(&mut opened));
                    runs += 1;
                    lost += u64::from(mine.is_err());
                    assert!(check_all(&storage, &about) >= 1, "{about}: no secret opens it");
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
                let overtaken = OvertakenStorage::new(storage.clone(), When::BeforeCall(call), act);
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
                assert_eq!(left.len(), 2, "{about}: the key in use is intact");
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
            let other = move || change(&mut opened).expect("no other client is in its way");
            let overtaken: Arc<dyn Storage> =
                OvertakenStorage::new(storage.clone(), When::BeforeCall(call), other);
            open_by(&overtaken, 1, &unlock())
                .unwrap_or_else(|error| panic!("{name}, before call {call}: {error}"));
        }
    }
}
