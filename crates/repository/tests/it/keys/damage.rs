//! Keys that are damaged in part.

use std::sync::{Arc, Mutex};

use super::changes::check_all;
use cutpoint_repository::crypto::{HEADER_LEN, WRAP_LEN};
use cutpoint_repository::repo::keys::key_name;
use cutpoint_repository::verify::check::{CheckMonitor, CheckOptions, Finding, Remedy, check};
use cutpoint_repository::{ObjectName, Unlock};
use cutpoint_storage::{Kind, Storage};

use super::{entries, key_file, open_by, start};

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
        let intact = storage.get(name).expect("it is there");
        for place in 0..HEADER_LEN + WRAP_LEN {
            for bit in [1, 0x80] {
                change_object(&*storage, name, |bytes| bytes[place] ^= bit);
                let opened = open_by(&storage, 1, &key_file(8));
                assert!(opened.is_ok(), "{name}, byte {place}, {bit:#x}: {opened:?}");
                storage.replace(name, intact.clone()).expect("memory takes it");
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
    let named = findings.0.into_inner().expect("no panics");
    assert_eq!(named, [Remedy::ReplaceKey]);
    repository.replace_key(id, &key_file(8)).expect("a new one is put first");
    assert_eq!(check_all(&storage, "replaced"), 1, "everything opens");
}

/// Collects the remedies that a check names.
#[derive(Default)]
struct Remedies(Mutex<Vec<Remedy>>);

impl CheckMonitor for Remedies {
    fn finding(&self, finding: &Finding) {
        let mut named = self.0.lock().expect("no panics");
        named.extend(&finding.remedies);
        named.dedup();
    }
}
