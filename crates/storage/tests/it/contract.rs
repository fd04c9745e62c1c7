//! The contract of every storage, as one suite. It runs with memory, a folder, a faulty storage
//! without faults, and S3 (a server that is built and started here), and must reject storages that
//! break the contract.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use cutpoint_storage::{
    Deletion, Environment, Fault, Faulty, Kind, Local, Memory, ObjectKind, ObjectRange, Put,
    Result as StoreResult, S3, S3Settings, Stamped, Storage, System,
};
use cutpoint_testing::{S3Server, SplitMix64};

use crate::liar::{Liar, Lie};

pub(crate) type Outcome = std::result::Result<(), String>;

fn ensure(is_so: bool, what: &str) -> Outcome {
    if is_so { Ok(()) } else { Err(what.to_owned()) }
}

fn text(error: cutpoint_storage::Error) -> String {
    error.to_string()
}

/// Returns names of every kind, as a repository has them.
pub(crate) fn names() -> Vec<String> {
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
        format!("views/{:08x}-{:08x}", 0, 0x12ab),
        parity,
    ];
    for class in ["data", "meta"] {
        names.extend((0..20).map(|count| format!("{class}/{:02x}/{ticket}{count:08x}", count * 7)));
    }
    names
}

/// Checks the contract of `storage::Storage`.
pub(crate) fn keeps_the_contract(storage: &dyn Storage) -> Outcome {
    storage.prepare().map_err(text)?;
    once(storage)?;
    in_pieces(storage)?;
    reads(storage)?;
    sizes(storage)?;
    lists(storage)?;
    lists_by_folder(storage)?;
    lists_many(storage)?;
    locks_nothing(storage)?;
    one_creator_wins(storage)
}

pub(crate) fn once(storage: &dyn Storage) -> Outcome {
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
        let mut visited = Vec::new();
        let mut visit = |name: &str, len| visited.push((name.to_owned(), len));
        storage.for_each(kind.folder(), &mut visit).map_err(text)?;
        visited.sort();
        ensure(visited == wanted, &format!("{folder} visits {visited:?}, not {wanted:?}"))?;
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

/// Checks long listings: storages list a thousand names at a time, and containers by their first
/// digits. All objects are then read and deleted at once.
fn lists_many(storage: &dyn Storage) -> Outcome {
    many(storage, "tickets", &|number| format!("tickets/{number:024x}"))?;
    many(storage, "data", &|number| format!("data/{:02x}/{number:032x}", number * 7 % 256))
}

fn many(storage: &dyn Storage, folder: &str, name: &(dyn Fn(usize) -> String + Sync)) -> Outcome {
    std::thread::scope(|scope| {
        let put = |number| storage.put_new(&name(number), Bytes::from(vec![7; number % 5]));
        let put_some = move |thread| {
            (thread..MANY).step_by(8).try_for_each(|number| put(number).map(drop)).map_err(text)
        };
        let threads: Vec<_> = (0..8).map(|thread| scope.spawn(move || put_some(thread))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
    })?;
    let mut wanted: Vec<(String, u64)> =
        (0..MANY).map(|number| (name(number), (number % 5) as u64)).collect();
    wanted.sort();
    let found = storage.list(folder).map_err(text)?;
    ensure(found == wanted, &format!("{} of {MANY} are listed", found.len()))?;

    let absent = (format!("{folder}/00/absent"), 5);
    wanted.insert(MANY / 2, absent.clone());
    for (result, (name, len)) in storage.get_many(&wanted).into_iter().zip(&wanted) {
        if *name == absent.0 {
            let is_missing = result.is_err_and(|error| error.kind() == Kind::Missing);
            ensure(is_missing, "an absent object is `Missing`")?;
        } else {
            ensure(result.map_err(text)?.len() as u64 == *len, "each object comes in its place")?;
        }
    }
    let (longer, _) = wanted.iter().find(|(_, len)| *len == 4).expect("there are some");
    let result = storage.get_many(&[(longer.clone(), 3)]).pop().expect("a result");
    ensure(result.is_err_and(|error| error.kind() == Kind::Corrupt), "a longer one is `Corrupt`")?;

    let range = |(name, len): &(String, u64)| {
        let len = usize::try_from(*len).expect("it is small");
        ObjectRange { name: name.clone(), offset: (len / 2) as u64, len: len - len / 2 }
    };
    let ranges: Vec<ObjectRange> = wanted.iter().map(range).collect();
    for (result, range) in storage.get_ranges(&ranges).into_iter().zip(&ranges) {
        if range.name == absent.0 {
            let is_missing = result.is_err_and(|error| error.kind() == Kind::Missing);
            ensure(is_missing, "a range of an absent object is `Missing`")?;
        } else {
            ensure(result.map_err(text)? == vec![7; range.len], "each range comes in its place")?;
        }
    }
    for (offset, len) in [(3, 2), (4, 1), (9, 1), (u64::MAX, 1)] {
        let range = ObjectRange { name: longer.clone(), offset, len };
        let result = storage.get_ranges(&[range]).pop().expect("a result");
        let is_corrupt = result.is_err_and(|error| error.kind() == Kind::Corrupt);
        ensure(is_corrupt, "a range past the end is `Corrupt`")?;
    }

    let stamped = storage.list_stamped(folder).map_err(text)?;
    let is_listed =
        stamped.iter().map(|object| &object.name).eq(found.iter().map(|(name, _)| name));
    ensure(is_listed, "the same objects are listed with stamps")?;
    for Stamped { name, stamp_ns } in stamped.iter().step_by(500) {
        let Some(listed_ns) = *stamp_ns else { continue };
        let stamp_ns = storage.stamp_ns(name).map_err(text)?.expect("it has a stamp");
        ensure((listed_ns - stamp_ns).abs() <= 2_000_000_000, "a listing has the same stamps")?;
    }

    let names: Vec<String> = wanted.into_iter().map(|(name, _)| name).collect();
    let there: Vec<String> = names.iter().filter(|name| **name != absent.0).cloned().collect();
    for count in [0, 1, 10, 100, there.len()] {
        // From both ends, so that listings are needed that begin anywhere.
        let mut some = there[..count / 2].to_vec();
        some.extend_from_slice(&there[there.len() - (count - count / 2)..]);
        ensure(storage.all_exist(&some).map_err(text)?, "all of them exist")?;
        for place in [0, some.len() / 2, some.len()] {
            let mut with_absent = some.clone();
            with_absent.insert(place, absent.0.clone());
            let all_exist = storage.all_exist(&with_absent).map_err(text)?;
            ensure(!all_exist, "one of them does not exist")?;
        }
    }

    let deleted = storage.delete_many(&names);
    ensure(deleted.len() == names.len(), "each name has a result")?;
    deleted.into_iter().try_for_each(|deleted| deleted.map_err(text))?;
    ensure(storage.list(folder).map_err(text)?.is_empty(), "all are deleted")
}

/// Checks that a storage which locks nothing says so, whether the objects exist or not.
fn locks_nothing(storage: &dyn Storage) -> Outcome {
    ensure(storage.deletion().map_err(text)? == Deletion::default(), "objects are removed")?;
    ensure(storage.locks(&[]).map_err(text)?.is_empty(), "no object has no lock")?;
    let name = "prunes/00000000000000000009";
    storage.put_new(name, Bytes::from_static(b"x")).map_err(text)?;
    let names = [name, "prunes/00000000000000000010"].map(str::to_owned);
    ensure(storage.locks(&names).map_err(text)? == [None, None], "nothing is locked")?;
    storage.delete(name).map_err(text)
}

const MANY: usize = 2500;

/// Checks that one of eight concurrent puts of a name is told that it created the object, and that
/// the object has its bytes.
pub(crate) fn one_creator_wins(storage: &dyn Storage) -> Outcome {
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

#[test]
fn faulty_storage_without_faults_keeps_the_contract() {
    keeps_the_contract(&Faulty::new(Arc::new(Memory::new()), Fault::None)).expect("faulty");
}

/// Returns a place of its own in the bucket of the server.
pub(crate) fn s3(server: &S3Server, prefix: &str) -> S3 {
    s3_as(server, &format!("s3://{}/{prefix}", server.bucket), server.variables())
}

/// Returns the place at `address` with these credentials.
pub(crate) fn s3_as(
    server: &S3Server,
    address: &str,
    variables: [(&'static str, String); 4],
) -> S3 {
    let mut settings = S3Settings::parse(address).expect("an address");
    settings.endpoint = Some(server.endpoint.clone());
    settings.variables = variables.map(|(k, v)| (k.to_owned(), v)).to_vec();
    S3::open(&settings, Arc::new(System)).expect("it opens")
}

pub(crate) fn s3_server() -> Option<&'static S3Server> {
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
    assert!((System.now_ns() - stamp_ns).abs() < 600_000_000_000, "{stamp_ns}");
    assert_eq!(inner.stamp_ns("data/y").expect("it answers"), None, "there is no such object");
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
