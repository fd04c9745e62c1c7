//! The contract of every storage, as one suite. It runs with memory, a folder, a faulty storage
//! without faults, and S3 (a server that is built and started here), and must reject storages that
//! break the contract.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use cutpoint_storage::{
    Environment, Fault, Faulty, Kind, Layer, Local, Memory, ObjectKind, Probed, Process, Put,
    Result as StoreResult, S3, S3Settings, Storage, System, probe,
};
use cutpoint_testing::{S3Server, SplitMix64};

type Outcome = std::result::Result<(), String>;

fn ensure(is_so: bool, what: &str) -> Outcome {
    if is_so { Ok(()) } else { Err(what.to_owned()) }
}

fn text(error: cutpoint_storage::Error) -> String {
    error.to_string()
}

/// Returns names of every kind, as a repository has them.
fn names() -> Vec<String> {
    let ticket = "3c".repeat(12);
    let (key, part) = ("01".repeat(16), format!("{ticket}-00000001"));
    let parity = format!("parity/7d/data-{ticket}00000001-{}", "c3".repeat(12));
    let mut names = vec![
        format!("config/{:020}", 0),
        format!("config/{:020}.copy", 0),
        format!("config/{}.copy", u64::MAX),
        format!("keys/{key}"),
        format!("keys/{key}.copy"),
        format!("tickets/{ticket}"),
        format!("tickets/{ticket}.1"),
        format!("tickets/{ticket}.{}", u32::MAX),
        format!("commits/{ticket}"),
        format!("prunes/{:020}", 1),
        format!("index/{part}"),
        format!("{}/{part}", ObjectKind::Similarity.folder()),
        parity,
    ];
    for class in ["data", "meta"] {
        names.extend((0..20).map(|count| format!("{class}/{:02x}/{ticket}{count:08x}", count * 7)));
    }
    names
}

/// Checks the contract of `storage::Storage`.
fn keeps_the_contract(storage: &dyn Storage) -> Outcome {
    storage.prepare().map_err(text)?;
    once(storage)?;
    in_pieces(storage)?;
    reads(storage)?;
    sizes(storage)?;
    lists(storage)?;
    lists_by_folder(storage)?;
    lists_many(storage)?;
    one_creator_wins(storage)
}

fn once(storage: &dyn Storage) -> Outcome {
    let name = "commits/aaaaaaaaaaaaaaaaaaaaaaaa";
    let put = |bytes: &'static [u8]| storage.put_new(name, Bytes::from_static(bytes)).map_err(text);
    ensure(storage.head(name).map_err(text)?.is_none(), "something is there before the put")?;
    ensure(put(b"first")? == Put::Created, "the first put creates")?;
    ensure(put(b"second")? == Put::Exists, "the second put finds the first")?;
    ensure(put(b"first")? == Put::Exists, "the same bytes again are a second put as well")?;
    ensure(storage.get(name).map_err(text)? == "first", "the first bytes stay")?;
    storage.sync(name).map_err(text)?;
    storage.delete(name).map_err(text)?;
    ensure(storage.delete(name).is_ok(), "deleting twice is harmless")?;
    ensure(storage.head(name).map_err(text)?.is_none(), "what was deleted is gone")?;
    let missing = |result: StoreResult<Bytes>| result.is_err_and(|e| e.kind() == Kind::Missing);
    ensure(missing(storage.get(name)), "getting what is gone is `Missing`")?;
    let synced = storage.sync(name).map(|()| Bytes::new());
    ensure(missing(synced), "syncing what is gone is `Missing`")?;
    ensure(missing(storage.get_range(name, 0, 1)), "a range of what is gone is `Missing`")
}

/// Checks staged puts, if there are any: nothing is visible before the end, the first object stays,
/// and a dropped one never existed.
fn in_pieces(storage: &dyn Storage) -> Outcome {
    let name = "data/a0/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    let stage = || storage.stage(name).map_err(text);
    let (Some(mut first), Some(mut second), Some(third)) = (stage()?, stage()?, stage()?) else {
        return Ok(());
    };
    for piece in [b"on".as_slice(), b"", b"e"] {
        first.write(piece).map_err(text)?;
        second.write(b"two").map_err(text)?;
    }
    drop(third);
    ensure(storage.head(name).map_err(text)?.is_none(), "something is there before the end")?;
    ensure(storage.list("data").map_err(text)?.is_empty(), "something is listed before the end")?;
    ensure(first.finish().map_err(text)? == Put::Created, "the first end creates")?;
    ensure(second.finish().map_err(text)? == Put::Exists, "the second end finds the first")?;
    ensure(storage.get(name).map_err(text)? == "one", "the first pieces stay")?;
    storage.delete(name).map_err(text)?;
    ensure(storage.clean(&|_, _| true).map_err(text)? == 0, "nothing is left behind")
}

fn reads(storage: &dyn Storage) -> Outcome {
    let name = "prunes/00000000000000000007";
    let bytes: Vec<u8> = (0..=255).collect();
    storage.put_new(name, Bytes::from(bytes.clone())).map_err(text)?;
    ensure(storage.head(name).map_err(text)? == Some(256), "head gives the length")?;
    ensure(storage.get(name).map_err(text)? == bytes, "get gives all bytes")?;
    for (offset, len) in [(0, 256), (0, 1), (255, 1), (17, 100), (0, 0), (256, 0)] {
        let range = storage.get_range(name, offset, len).map_err(text)?;
        let start = usize::try_from(offset).expect("it is small");
        ensure(range == bytes[start..start + len], "a range gives its bytes")?;
    }
    for (offset, len) in [(0, 257), (255, 2), (256, 1), (1000, 1), (u64::MAX, 1)] {
        let range = storage.get_range(name, offset, len);
        let is_corrupt = range.is_err_and(|error| error.kind() == Kind::Corrupt);
        ensure(is_corrupt, "a range past the end is `Corrupt`, never short")?;
    }
    storage.delete(name).map_err(text)
}

/// Checks objects without bytes, and larger than a container.
fn sizes(storage: &dyn Storage) -> Outcome {
    let name = "data/00/bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";
    ensure(storage.put_new(name, Bytes::new()).map_err(text)? == Put::Created, "an empty object")?;
    ensure(storage.head(name).map_err(text)? == Some(0), "it is there, and empty")?;
    ensure(storage.get(name).map_err(text)?.is_empty(), "so are its bytes")?;
    ensure(storage.get_range(name, 0, 0).map_err(text)?.is_empty(), "and its only range")?;
    let listed = storage.list("data").map_err(text)?;
    ensure(listed == [(name.to_owned(), 0)], "it is listed")?;
    let again = storage.put_new(name, Bytes::from_static(b"x")).map_err(text)?;
    ensure(again == Put::Exists, "an empty object is one")?;
    storage.delete(name).map_err(text)?;

    let bytes = Bytes::from(SplitMix64::bytes(17, 17 << 20));
    let put = storage.put_new(name, bytes.clone()).map_err(text)?;
    ensure(put == Put::Created, "a large object")?;
    ensure(storage.head(name).map_err(text)? == Some(bytes.len() as u64), "it is as long")?;
    ensure(storage.get(name).map_err(text)? == bytes, "it comes back")?;
    for (start, end) in [(0, 1 << 20), ((5 << 20) + 1, 11 << 20), (16 << 20, 17 << 20)] {
        let range = storage.get_range(name, start as u64, end - start).map_err(text)?;
        ensure(range == bytes[start..end], "so does a part")?;
    }
    storage.delete(name).map_err(text)
}

fn lists(storage: &dyn Storage) -> Outcome {
    let mut expected = names();
    for name in &expected {
        storage.put_new(name, Bytes::from(name.clone())).map_err(text)?;
    }
    expected.sort();
    for kind in ObjectKind::ALL {
        let folder = format!("{}/", kind.folder());
        let wanted: Vec<(String, u64)> = expected
            .iter()
            .filter(|name| name.starts_with(&folder))
            .map(|name| (name.clone(), name.len() as u64))
            .collect();
        let found = storage.list(kind.folder()).map_err(text)?;
        ensure(!wanted.is_empty(), "every kind has a name here")?;
        ensure(found == wanted, &format!("{folder} lists {found:?}, not {wanted:?}"))?;
    }
    ensure(storage.list("nothing").map_err(text)?.is_empty(), "a prefix of nothing lists nothing")?;
    // A prefix is a folder, not the beginning of a name.
    ensure(storage.list("confi").map_err(text)?.is_empty(), "half a folder lists nothing")?;
    for name in &expected {
        storage.delete(name).map_err(text)?;
    }
    Ok(())
}

/// Checks that a prefix ends where a folder ends.
fn lists_by_folder(storage: &dyn Storage) -> Outcome {
    let names = ["tmp/a", "tmp/a.copy", "tmp/ab/one", "tmp/a-b/two", "tmp/abc"];
    for name in names {
        storage.put_new(name, Bytes::from_static(b"x")).map_err(text)?;
    }
    let list = |prefix: &str| -> Result<Vec<String>, String> {
        Ok(storage.list(prefix).map_err(text)?.into_iter().map(|(name, _)| name).collect())
    };
    let found = list("tmp/ab")?;
    ensure(found == ["tmp/ab/one"], &format!("tmp/ab lists {found:?}"))?;
    let found = list("tmp/a")?;
    ensure(found.is_empty(), &format!("tmp/a lists {found:?}"))?;
    let mut all = names.map(str::to_owned);
    all.sort();
    let found = list("tmp")?;
    ensure(found == all, &format!("tmp lists {found:?}"))?;
    for name in names {
        storage.delete(name).map_err(text)?;
    }
    ensure(list("tmp")?.is_empty(), "nothing is left")
}

/// Checks a long listing: storages list a thousand names at a time.
fn lists_many(storage: &dyn Storage) -> Outcome {
    let name = |number: usize| format!("tickets/{number:024x}");
    let each = |act: &(dyn Fn(usize) -> StoreResult<()> + Sync)| -> Outcome {
        std::thread::scope(|scope| {
            let threads = (0..8).map(|thread| {
                scope.spawn(move || (thread..MANY).step_by(8).try_for_each(act).map_err(text))
            });
            let threads: Vec<_> = threads.collect();
            threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
        })
    };
    each(&|number| storage.put_new(&name(number), Bytes::from(vec![7; number % 5])).map(drop))?;
    let wanted: Vec<(String, u64)> =
        (0..MANY).map(|number| (name(number), (number % 5) as u64)).collect();
    let found = storage.list("tickets").map_err(text)?;
    ensure(found == wanted, &format!("{} of {MANY} are listed", found.len()))?;
    each(&|number| storage.delete(&name(number)))?;
    ensure(storage.list("tickets").map_err(text)?.is_empty(), "all are deleted")
}

const MANY: usize = 2500;

/// Checks that one of eight concurrent puts of a name is told that it created the object, and that
/// the object has its bytes.
fn one_creator_wins(storage: &dyn Storage) -> Outcome {
    for round in 0..20 {
        let name = format!("prunes/{:020}", 100 + round);
        let start = std::sync::Barrier::new(8);
        let put = |creator: u8| {
            start.wait();
            storage.put_new(&name, Bytes::from(vec![creator; 5000]))
        };
        let (put, name) = (&put, &name);
        let answers: Vec<_> = std::thread::scope(|scope| {
            let creators: Vec<_> =
                (0..8).map(|creator| scope.spawn(move || put(creator))).collect();
            creators.into_iter().map(|creator| creator.join().expect("no panic")).collect()
        });
        let winners: Vec<u8> = (0..)
            .zip(&answers)
            .filter(|(_, answer)| matches!(answer, Ok(Put::Created)))
            .map(|(creator, _)| creator)
            .collect();
        let [winner] = winners[..] else {
            return Err(format!(
                "round {round}: {} creators were told that they won",
                winners.len()
            ));
        };
        ensure(answers.iter().all(Result::is_ok), "the losers get an answer, not an error")?;
        let bytes = storage.get(name).map_err(text)?;
        ensure(bytes == vec![winner; 5000], "the winner's bytes are there, whole")?;
        storage.delete(name).map_err(text)?;
    }
    Ok(())
}

#[test]
fn memory_keeps_the_contract() {
    keeps_the_contract(&Memory::new()).expect("memory");
}

#[test]
fn local_folder_keeps_the_contract() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    keeps_the_contract(&Local::open(folder.path()).expect("it is there")).expect("local");
    let created = Local::create(&folder.path().join("deep").join("er")).expect("it can be made");
    keeps_the_contract(&created).expect("a folder that was made");
}

/// A name of any bytes, including the answer if an object exists.
#[cfg(target_os = "linux")]
#[test]
fn folder_may_have_any_name() {
    use std::os::unix::ffi::OsStrExt;

    let folder = tempfile::tempdir().expect("a temporary folder");
    let name = std::ffi::OsStr::from_bytes(b"re\xffpo # 1%20\n");
    let created = Local::create(&folder.path().join(name)).expect("it can be made");
    keeps_the_contract(&created).expect("a folder with an odd name");
}

#[test]
fn faulty_storage_without_faults_keeps_the_contract() {
    keeps_the_contract(&Faulty::new(Arc::new(Memory::new()), Fault::None)).expect("faulty");
}

/// Returns a place of its own in the bucket of the server.
fn s3(server: &S3Server, prefix: &str) -> S3 {
    let address = format!("s3://{}/{prefix}", server.bucket);
    let mut settings = S3Settings::parse(&address).expect("an address");
    settings.endpoint = Some(server.endpoint.clone());
    settings.variables = server.variables().map(|(k, v)| (k.to_owned(), v)).to_vec();
    S3::open(&settings, Arc::new(System)).expect("it opens")
}

fn s3_server() -> Option<&'static S3Server> {
    S3Server::shared(Path::new(env!("CARGO_TARGET_TMPDIR")))
}

#[test]
fn s3_keeps_the_contract() {
    let Some(server) = s3_server() else { return };
    // One place below another: each sees only names under its own prefix, unless it asks for a name
    // below.
    let outer = s3(server, "contract");
    let inner = s3(server, "contract/data2/in er");
    keeps_the_contract(&inner).expect("S3");
    inner.put_new("data/x", Bytes::from_static(b"x")).expect("it is put");
    keeps_the_contract(&outer).expect("S3, beside another repository");
    assert_eq!(inner.list("data").expect("it lists"), [("data/x".to_owned(), 1)], "it stays");
    let stamp_ns = inner.stamp_ns("data/x").expect("it answers").expect("objects have times");
    assert!((System.now_ns() - stamp_ns).abs() < 60_000_000_000, "{stamp_ns}");
    assert_eq!(inner.stamp_ns("data/y").expect("it answers"), None, "there is no such object");
}

/// A put never reports that its object is missing, because readers take that for a loss of stored
/// data. The staged file or the folder is removed before each step.
#[test]
fn failed_put_is_an_error_of_the_storage() {
    type Harm = fn(&Path);
    let harms: [(&str, Harm); 2] = [
        ("the staged file is removed", |root| {
            for entry in std::fs::read_dir(root.join("data/ab")).expect("a folder") {
                std::fs::remove_file(entry.expect("an entry").path()).expect("it goes");
            }
        }),
        ("its folder is removed", |root| {
            std::fs::remove_dir_all(root.join("data")).expect("it goes");
        }),
    ];
    for (what, harm) in harms {
        let folder = tempfile::tempdir().expect("a folder");
        let local = Local::create(folder.path()).expect("it is made");
        let mut staged = local.stage("data/ab/cd").expect("it begins").expect("folders stage");
        staged.write(b"some").expect("it is written");
        harm(folder.path());
        let error = staged.finish().expect_err(what);
        assert_eq!(error.kind(), Kind::Storage, "{what}: {error}");
    }
    // The repository itself is gone, or a file stands in the place of its folder.
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().join("repository");
    let local = Local::create(&root).expect("it is made");
    std::fs::remove_dir(&root).expect("it is empty");
    std::fs::write(&root, b"no folder").expect("it is written");
    for (what, error) in [
        ("put", local.put_new("data/ab/cd", Bytes::from_static(b"some")).map(drop)),
        ("stage", local.stage("data/ab/cd").map(drop)),
    ] {
        let error = error.expect_err(what);
        assert_eq!(error.kind(), Kind::Storage, "{what}: {error}");
    }
}

/// Leftovers of an interrupted put are not objects, and can be removed.
#[test]
fn staging_files_are_hidden_and_cleaned() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let storage = Local::open(folder.path()).expect("it is there");
    storage.prepare().expect("it is empty");
    let names = names();
    for name in &names {
        storage.put_new(name, Bytes::from_static(b"whole")).expect("it is put");
        std::fs::write(folder.path().join(format!("{name}#1")), "half").expect("it is written");
    }
    let listed = || {
        let each = ObjectKind::ALL.map(|kind| storage.list(kind.folder()).expect("it lists"));
        each.iter().map(Vec::len).sum::<usize>()
    };
    assert_eq!(listed(), names.len(), "staging files are no objects");
    let spared = storage.clean(&|_, age_s| age_s > 3600).expect("it cleans");
    assert_eq!(spared, 0, "nothing is that old");
    let removed = storage.clean(&|name, _| name.starts_with("data/")).expect("it cleans");
    assert_eq!(removed, 20, "those of containers only");
    let removed = storage.clean(&|name, _| names.iter().any(|n| n == name)).expect("it cleans");
    assert_eq!(removed, names.len() - 20, "the rest");
    assert_eq!(listed(), names.len(), "objects stay");
    for name in &names {
        let staged = folder.path().join(format!("{name}#1"));
        assert!(!staged.exists(), "{} is still there", staged.display());
    }
}

/// A way in which a storage may be broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lie {
    /// The second put replaces the first.
    Overwrites,
    /// The second put changes nothing, but is told that it created the object.
    SaysCreated,
    /// The first put is told that another object was there.
    SaysExists,
    /// The first put is told that another object was there, once: the answer to the creating put
    /// was lost, and the second attempt found the object.
    SaysExistsOnce,
    /// The first put is told that it created the object, and the last one's bytes stay.
    LastWins,
    /// A range that ends too late comes back short.
    ShortRange,
    /// The last name is missing from listings.
    ForgetsOne,
}

#[derive(Debug)]
struct Liar {
    inner: Memory,
    lie: Lie,
}

impl Layer for Liar {
    fn below(&self) -> &dyn Storage {
        &self.inner
    }

    fn put_new(&self, name: &str, bytes: Bytes) -> StoreResult<Put> {
        let put = self.inner.put_new(name, bytes.clone())?;
        match self.lie {
            Lie::Overwrites | Lie::LastWins => {
                while self.inner.put_new(name, bytes.clone())? == Put::Exists {
                    self.inner.delete(name)?;
                }
                Ok(if self.lie == Lie::Overwrites { Put::Created } else { put })
            }
            Lie::SaysCreated => Ok(Put::Created),
            Lie::SaysExists => Ok(Put::Exists),
            // The first puts of the probe, before its rounds, are shorter.
            Lie::SaysExistsOnce if put == Put::Created && bytes.len() > 5 => {
                let is_first = self.inner.put_new("told", Bytes::new())? == Put::Created;
                Ok(if is_first { Put::Exists } else { put })
            }
            Lie::SaysExistsOnce => Ok(put),
            Lie::ShortRange | Lie::ForgetsOne => Ok(put),
        }
    }

    fn get_range(&self, name: &str, offset: u64, len: usize) -> StoreResult<Bytes> {
        let range = self.inner.get_range(name, offset, len);
        match range {
            Err(error) if self.lie == Lie::ShortRange && error.kind() == Kind::Corrupt => {
                let all = self.inner.get(name)?;
                let start = usize::try_from(offset).unwrap_or(usize::MAX).min(all.len());
                Ok(all.slice(start..))
            }
            other => other,
        }
    }

    fn list(&self, prefix: &str) -> StoreResult<Vec<(String, u64)>> {
        let mut found = self.inner.list(prefix)?;
        if self.lie == Lie::ForgetsOne {
            found.pop();
        }
        Ok(found)
    }
}

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

    fn random(&self, bytes: &mut [u8]) -> StoreResult<()> {
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

    fn put_new(&self, name: &str, bytes: Bytes) -> StoreResult<Put> {
        self.call();
        self.inner.put_new(name, bytes)
    }

    fn get_at_most(&self, name: &str, len_max: u64) -> StoreResult<Bytes> {
        self.call();
        self.inner.get_at_most(name, len_max)
    }

    fn head(&self, name: &str) -> StoreResult<Option<u64>> {
        self.call();
        self.inner.head(name)
    }

    fn stamp_ns(&self, name: &str) -> StoreResult<Option<i64>> {
        self.call();
        self.inner.stamp_ns(name)
    }

    fn list(&self, prefix: &str) -> StoreResult<Vec<(String, u64)>> {
        self.call();
        self.inner.list(prefix)
    }

    fn delete(&self, name: &str) -> StoreResult<()> {
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
            // The calls after the last round need not work.
            match with(fault).0 {
                Ok(probed) => assert!(at >= calls - 3 && probed.may_be_shared(), "{fault:?}"),
                Err(error) => assert_eq!(error.kind(), Kind::Storage, "{fault:?}: {error}"),
            }
        }
    }
    // If the outcome of a put is never known, nothing is known.
    let probed = with(Fault::UnsyncedFrom(1)).0;
    assert!(probed.is_err(), "{probed:?}");
}

/// Leftovers of interrupted puts are removed by the time of the file system.
#[test]
fn age_of_staged_files_is_by_the_file_system() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let storage = Local::open(folder.path()).expect("it is there");
    storage.prepare().expect("it is empty");
    std::fs::write(folder.path().join("commits/x#1"), "half").expect("it is written");
    let ages = Mutex::new(Vec::new());
    let keep = |name: &str, age_s: u64| {
        ages.lock().expect("no panics").push((name.to_owned(), age_s));
        false
    };
    assert_eq!(storage.clean(&keep).expect("it cleans"), 0, "all is kept");
    let ages = ages.into_inner().expect("no panics");
    assert!(ages.iter().any(|(name, age_s)| name == "commits/x" && *age_s < 60), "{ages:?}");
    let left = std::fs::read_dir(folder.path().join("tickets")).expect("a folder").count();
    assert_eq!(left, 0, "nothing is left of the question for the time");
    let stamp = |name: &str| storage.stamp_ns(name).expect("it answers");
    assert_eq!(stamp("commits/y"), None, "there is no such object");
    storage.put_new("commits/y", Bytes::new()).expect("it is put");
    let age_ns = System.now_ns() - stamp("commits/y").expect("files have times");
    assert!(age_ns.abs() < 60_000_000_000, "{age_ns}");
}

#[test]
fn incorrect_storages_are_rejected() {
    let lies = [
        Lie::Overwrites,
        Lie::SaysCreated,
        Lie::SaysExists,
        Lie::LastWins,
        Lie::ShortRange,
        Lie::ForgetsOne,
    ];
    for lie in lies {
        let found = keeps_the_contract(&Liar { inner: Memory::new(), lie });
        println!("{lie:?}: {found:?}");
        assert!(found.is_err(), "{lie:?} passes for a storage");
    }
}
