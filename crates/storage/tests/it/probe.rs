//! The probe of a storage: it accepts the good ones, names each fault of the others, and finds
//! nothing in those that are only slow, interrupted or shared.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use cutpoint_storage::{
    Environment, Fault, Faulty, Kind, Layer, Local, Memory, Probed, Process, Put, Result, Storage,
    System, probe,
};

use crate::contract::{keeps_the_contract, once, one_creator_wins, s3, s3_server};
use crate::liar::{Liar, Lie};

/// Storages that let several creators win are rejected by the suite and by the probe.
#[test]
fn media_with_several_winners_are_rejected() {
    for fault in [Fault::Overwrites, Fault::Races] {
        let storage = Faulty::new(Arc::new(Memory::new()), fault);
        let found = keeps_the_contract(&storage);
        assert!(found.is_err(), "{fault:?} passes for a storage");
        assert!(one_creator_wins(&storage).is_err(), "{fault:?}: several win");
        let probed = try_out(&storage);
        println!("{fault:?}: {found:?}; {probed}");
        assert!(!probed.creates_atomically() && !probed.may_be_shared(), "{fault:?}: {probed}");
        assert!(probed.several_winners_count > 10, "{fault:?}: {probed}");
    }
    // Two puts in sequence show nothing.
    let races = Faulty::new(Arc::new(Memory::new()), Fault::Races);
    once(&races).expect("one after the other it does well");
}

/// Probes a storage, and expects that no leftovers stay.
fn try_out(storage: &dyn Storage) -> Probed {
    let before = storage.list("tmp").expect("it lists");
    let probed = probe(storage, &System).expect("it answers");
    assert_eq!(storage.list("tmp").expect("it lists"), before, "the probe leaves something");
    probed
}

#[test]
fn probe_accepts_good_storages() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let local = Local::open(folder.path()).expect("it is there");
    let s3 = s3_server().map(|server| s3(server, "probe"));
    let mut storage: Vec<&dyn Storage> = vec![&local];
    storage.extend(s3.as_ref().map(|s3| s3 as &dyn Storage));
    let memory = Memory::new();
    storage.push(&memory);
    for storage in storage {
        let probed = try_out(storage);
        let name = storage.describe();
        assert!(probed.may_be_shared(), "{name}: {probed}");
        assert!(probed.to_string().contains("in each of 20 rounds"), "{name}: {probed}");
    }
}

/// The probe distinguishes each way in which a storage may fail.
#[test]
fn probe_reports_each_kind_of_fault() {
    let of = |lie| try_out(&Liar { inner: Memory::new(), lie });
    let told = of(Lie::SaysCreated);
    assert_eq!(told.several_winners_count, told.round_count, "{told}");
    assert!(told.to_string().contains("several of 8"), "{told}");
    let told = of(Lie::SaysExists);
    assert_eq!(told.no_winner_count, told.round_count, "{told}");
    assert!(!told.creates_atomically() && told.to_string().contains("no put"), "{told}");
    let told = of(Lie::SaysExistsOnce);
    assert!(told.may_be_shared(), "a lost answer is no finding: {told}");
    let told = of(Lie::LastWins);
    assert!(told.wrong_content_count > 10 && !told.creates_atomically(), "{told}");
    assert!(told.to_string().contains("differed from what its creator had put"), "{told}");
    let told = of(Lie::ForgetsOne);
    assert!(told.creates_atomically(), "{told}");
    assert!(!told.lists_at_once() && !told.may_be_shared(), "{told}");
    assert!(told.to_string().contains("a listing did not show"), "{told}");
}

/// A killed probe leaves objects behind, which a later one removes. Their age is by the stamps of
/// the storage, whatever clock made their names.
#[test]
fn probe_removes_leftovers_of_another() {
    const HOUR_NS: i64 = 3600 * 1_000_000_000;
    let storage = Memory::new();
    let now_s = System.now_ns() / 1_000_000_000;
    let put = |name: &str| {
        storage.put_new(name, Bytes::from_static(b"x")).expect("it is put");
    };
    // Of clients whose clocks are ahead.
    put(&format!("tmp/probe-{}-0-00", now_s + 3_000_000));
    put("tmp/reserve");
    storage.shift_clock(24 * HOUR_NS);
    // Another client with a slow clock may still be using it.
    let new = format!("tmp/probe-{}-0-00", now_s - 3_000_000);
    put(&new);
    storage.shift_clock(HOUR_NS);
    probe(&storage, &System).expect("it answers");
    let left: Vec<_> = storage.list("tmp").expect("it lists").into_iter().map(|(n, _)| n).collect();
    assert_eq!(left, [new.as_str(), "tmp/reserve"], "by its stamp it is an hour old");
}

/// The clock of another client, which is a month ahead.
#[derive(Debug)]
struct Ahead;

impl Environment for Ahead {
    fn now_ns(&self) -> i64 {
        System.now_ns() + 30 * 24 * 3600 * 1_000_000_000
    }

    fn elapsed_ns(&self) -> u64 {
        System.elapsed_ns()
    }

    fn random(&self, bytes: &mut [u8]) -> Result<()> {
        System.random(bytes)
    }

    fn process(&self) -> Process {
        System.process()
    }

    fn may_be_alive(&self, _: &Process) -> bool {
        true
    }
}

/// A storage whose client is suspended for a day before one call, while another client probes, or
/// is not suspended and only the other's clock is ahead.
#[derive(Debug)]
struct Suspended {
    inner: Arc<Memory>,
    at: u64,
    hours: i64,
    calls: AtomicU64,
}

impl Suspended {
    fn call(&self) {
        if self.calls.fetch_add(1, Ordering::SeqCst) == self.at {
            self.inner.shift_clock(self.hours * 3600 * 1_000_000_000);
            probe(&*self.inner, &Ahead).expect("it answers");
        }
    }
}

impl Layer for Suspended {
    fn below(&self) -> &dyn Storage {
        &*self.inner
    }

    fn put_new(&self, name: &str, bytes: Bytes) -> Result<Put> {
        self.call();
        self.inner.put_new(name, bytes)
    }

    fn get_at_most(&self, name: &str, len_max: u64) -> Result<Bytes> {
        self.call();
        self.inner.get_at_most(name, len_max)
    }

    fn head(&self, name: &str) -> Result<Option<u64>> {
        self.call();
        self.inner.head(name)
    }

    fn stamp_ns(&self, name: &str) -> Result<Option<i64>> {
        self.call();
        self.inner.stamp_ns(name)
    }

    fn list(&self, prefix: &str) -> Result<Vec<(String, u64)>> {
        self.call();
        self.inner.list(prefix)
    }

    fn delete(&self, name: &str) -> Result<()> {
        self.call();
        self.inner.delete(name)
    }
}

#[test]
fn suspended_probe_finds_nothing() {
    let suspended = |at, hours| {
        let (inner, calls) = (Arc::new(Memory::new()), AtomicU64::new(0));
        let storage = Suspended { inner, at, hours, calls };
        let probed = probe(&storage, &System);
        (probed, storage.calls.load(Ordering::SeqCst))
    };
    let (_, calls) = suspended(u64::MAX, 0);
    // The rounds are alike.
    for at in (0..60).chain(calls - 30..calls) {
        for hours in [25, 0] {
            let (probed, _) = suspended(at, hours);
            let probed = probed.unwrap_or_else(|error| panic!("call {at} of {calls}: {error}"));
            assert!(probed.may_be_shared(), "call {at} of {calls}, {hours} h: {probed}");
        }
    }
}

/// A fault at any call is not a finding.
#[test]
fn probe_with_a_fault_finds_nothing() {
    let with = |fault| {
        let storage = Faulty::new(Arc::new(Memory::new()), fault);
        (probe(&storage, &System), storage.calls())
    };
    let (_, calls) = with(Fault::None);
    for at in (0..60).chain(calls - 30..calls) {
        for fault in [Fault::FailsAt(at), Fault::UnsyncedAt(at)] {
            let probed = with(fault).0.unwrap_or_else(|error| panic!("{fault:?}: {error}"));
            assert!(probed.may_be_shared(), "{fault:?}: {probed}");
        }
        for fault in [Fault::DeadBefore(at), Fault::DeadAfter(at)] {
            // The deletions after the last four rounds, which end together, need not work.
            match with(fault).0 {
                Ok(probed) => assert!(at >= calls - 6 && probed.may_be_shared(), "{fault:?}"),
                Err(error) => assert_eq!(error.kind(), Kind::Storage, "{fault:?}: {error}"),
            }
        }
    }
    // If the outcome of a put is never known, nothing is known.
    let probed = with(Fault::UnsyncedFrom(1)).0;
    assert!(probed.is_err(), "{probed:?}");
}
