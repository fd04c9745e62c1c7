//! What every medium must do, as one suite; and a medium that lies, which must fail it.

use std::sync::Arc;

use bytes::Bytes;
use cutpoint_store::error::{Kind, Result as StoreResult};
use cutpoint_store::fingerprint::Class;
use cutpoint_store::media::{Fault, Faulty, Local, Media, Memory, Put};
use cutpoint_store::name::{ObjectKind, ObjectName, PartName, TicketId};

type Outcome = std::result::Result<(), String>;

fn ensure(is_so: bool, what: &str) -> Outcome {
    if is_so { Ok(()) } else { Err(what.to_owned()) }
}

fn text(error: cutpoint_store::error::Error) -> String {
    error.to_string()
}

/// Names of every kind.
fn names() -> Vec<String> {
    let ticket = TicketId([0x3c; 12]);
    let part = PartName { ticket, count: 1 };
    let mut names = vec![
        ObjectName::Config { number: 0, copy: false },
        ObjectName::Config { number: 0, copy: true },
        ObjectName::Key { id: [1; 16], copy: false },
        ObjectName::Key { id: [1; 16], copy: true },
        ObjectName::Ticket { ticket, renewal: 0 },
        ObjectName::Ticket { ticket, renewal: 1 },
        ObjectName::Commit(ticket),
        ObjectName::Prune(1),
        ObjectName::Segment(part),
        ObjectName::Hints(part),
    ];
    for class in [Class::Data, Class::Meta] {
        names.extend((0..20).map(|count| ObjectName::Container(class, PartName { ticket, count })));
    }
    names.iter().map(ToString::to_string).collect()
}

/// The contract of `media::Media`.
fn keeps_the_contract(media: &dyn Media) -> Outcome {
    media.prepare().map_err(text)?;
    once(media)?;
    in_pieces(media)?;
    reads(media)?;
    lists(media)?;
    one_creator_wins(media)
}

fn once(media: &dyn Media) -> Outcome {
    let name = "commits/aaaaaaaaaaaaaaaaaaaaaaaa";
    let put = |bytes: &'static [u8]| media.put_new(name, Bytes::from_static(bytes)).map_err(text);
    ensure(media.head(name).map_err(text)?.is_none(), "something is there before the put")?;
    ensure(put(b"first")? == Put::Created, "the first put creates")?;
    ensure(put(b"second")? == Put::Exists, "the second put finds the first")?;
    ensure(put(b"first")? == Put::Exists, "the same bytes again are a second put as well")?;
    ensure(media.get(name).map_err(text)? == "first", "the first bytes stay")?;
    media.sync(name).map_err(text)?;
    media.delete(name).map_err(text)?;
    ensure(media.delete(name).is_ok(), "deleting twice is harmless")?;
    ensure(media.head(name).map_err(text)?.is_none(), "what was deleted is gone")?;
    let missing = |result: StoreResult<Bytes>| result.is_err_and(|e| e.kind() == Kind::Missing);
    ensure(missing(media.get(name)), "getting what is gone is `Missing`")?;
    let synced = media.sync(name).map(|()| Bytes::new());
    ensure(missing(synced), "syncing what is gone is `Missing`")?;
    ensure(missing(media.get_range(name, 0, 1)), "a range of what is gone is `Missing`")
}

/// Where it takes objects in pieces: nothing is seen before the end, the first one stays, and what
/// is dropped was never there.
fn in_pieces(media: &dyn Media) -> Outcome {
    let name = "data/a0/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    let stage = || media.stage(name).map_err(text);
    let (Some(mut first), Some(mut second), Some(third)) = (stage()?, stage()?, stage()?) else {
        return Ok(());
    };
    for piece in [b"on".as_slice(), b"", b"e"] {
        first.write(piece).map_err(text)?;
        second.write(b"two").map_err(text)?;
    }
    drop(third);
    ensure(media.head(name).map_err(text)?.is_none(), "something is there before the end")?;
    ensure(media.list("data").map_err(text)?.is_empty(), "something is listed before the end")?;
    ensure(first.finish().map_err(text)? == Put::Created, "the first end creates")?;
    ensure(second.finish().map_err(text)? == Put::Exists, "the second end finds the first")?;
    ensure(media.get(name).map_err(text)? == "one", "the first pieces stay")?;
    media.delete(name).map_err(text)?;
    ensure(media.clean(&|_, _| true).map_err(text)? == 0, "nothing is left behind")
}

fn reads(media: &dyn Media) -> Outcome {
    let name = "prunes/00000000000000000007";
    let bytes: Vec<u8> = (0..=255).collect();
    media.put_new(name, Bytes::from(bytes.clone())).map_err(text)?;
    ensure(media.head(name).map_err(text)? == Some(256), "head gives the length")?;
    ensure(media.get(name).map_err(text)? == bytes, "get gives all bytes")?;
    for (offset, len) in [(0, 256), (0, 1), (255, 1), (17, 100), (0, 0), (256, 0)] {
        let range = media.get_range(name, offset, len).map_err(text)?;
        let start = usize::try_from(offset).expect("it is small");
        ensure(range == bytes[start..start + len], "a range gives its bytes")?;
    }
    for (offset, len) in [(0, 257), (255, 2), (256, 1), (1000, 1), (u64::MAX, 1)] {
        let range = media.get_range(name, offset, len);
        let is_corrupt = range.is_err_and(|error| error.kind() == Kind::Corrupt);
        ensure(is_corrupt, "a range past the end is `Corrupt`, never short")?;
    }
    media.delete(name).map_err(text)
}

fn lists(media: &dyn Media) -> Outcome {
    let mut expected = names();
    for name in &expected {
        media.put_new(name, Bytes::from(name.clone())).map_err(text)?;
    }
    expected.sort();
    for kind in ObjectKind::ALL {
        let folder = format!("{}/", kind.folder());
        let wanted: Vec<(String, u64)> = expected
            .iter()
            .filter(|name| name.starts_with(&folder))
            .map(|name| (name.clone(), name.len() as u64))
            .collect();
        let found = media.list(kind.folder()).map_err(text)?;
        ensure(!wanted.is_empty(), "every kind has a name here")?;
        ensure(found == wanted, &format!("{folder} lists {found:?}, not {wanted:?}"))?;
    }
    ensure(media.list("nothing").map_err(text)?.is_empty(), "a prefix of nothing lists nothing")?;
    // A prefix is a folder, not the beginning of a name.
    ensure(media.list("confi").map_err(text)?.is_empty(), "half a folder lists nothing")?;
    for name in &expected {
        media.delete(name).map_err(text)?;
    }
    Ok(())
}

/// Of eight that put one name at once, one is told that it created it, and its bytes are there.
fn one_creator_wins(media: &dyn Media) -> Outcome {
    for round in 0..20 {
        let name = ObjectName::Prune(100 + round).to_string();
        let start = std::sync::Barrier::new(8);
        let put = |creator: u8| {
            start.wait();
            media.put_new(&name, Bytes::from(vec![creator; 5000]))
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
        let bytes = media.get(name).map_err(text)?;
        ensure(bytes == vec![winner; 5000], "the winner's bytes are there, whole")?;
        media.delete(name).map_err(text)?;
    }
    Ok(())
}

#[test]
fn memory_keeps_the_contract() {
    keeps_the_contract(&Memory::new()).expect("memory");
}

#[test]
fn a_local_folder_keeps_the_contract() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    keeps_the_contract(&Local::open(folder.path()).expect("it is there")).expect("local");
    let created = Local::create(&folder.path().join("deep").join("er")).expect("it can be made");
    keeps_the_contract(&created).expect("a folder that was made");
}

/// A name of any bytes; what it answers where an object exists included.
#[cfg(target_os = "linux")]
#[test]
fn the_folder_may_have_any_name() {
    use std::os::unix::ffi::OsStrExt;

    let folder = tempfile::tempdir().expect("a temporary folder");
    let name = std::ffi::OsStr::from_bytes(b"re\xffpo # 1%20\n");
    let created = Local::create(&folder.path().join(name)).expect("it can be made");
    keeps_the_contract(&created).expect("a folder with an odd name");
}

#[test]
fn a_faulty_medium_without_faults_keeps_the_contract() {
    keeps_the_contract(&Faulty::new(Arc::new(Memory::new()), Fault::None)).expect("faulty");
}

/// What was left behind by a put that was cut off is no object, and can be removed.
#[test]
fn staging_files_are_hidden_and_cleaned() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let media = Local::open(folder.path()).expect("it is there");
    media.prepare().expect("it is empty");
    let names = names();
    for name in &names {
        media.put_new(name, Bytes::from_static(b"whole")).expect("it is put");
        std::fs::write(folder.path().join(format!("{name}#1")), "half").expect("it is written");
    }
    let listed = || {
        let each = ObjectKind::ALL.map(|kind| media.list(kind.folder()).expect("it lists"));
        each.iter().map(Vec::len).sum::<usize>()
    };
    assert_eq!(listed(), names.len(), "staging files are no objects");
    let spared = media.clean(&|_, age_s| age_s > 3600).expect("it cleans");
    assert_eq!(spared, 0, "nothing is that old");
    let removed = media.clean(&|name, _| name.starts_with("data/")).expect("it cleans");
    assert_eq!(removed, 20, "those of containers only");
    let removed = media.clean(&|name, _| names.iter().any(|n| n == name)).expect("it cleans");
    assert_eq!(removed, names.len() - 20, "the rest");
    assert_eq!(listed(), names.len(), "objects stay");
    for name in &names {
        let staged = folder.path().join(format!("{name}#1"));
        assert!(!staged.exists(), "{} is still there", staged.display());
    }
}

/// How a medium may be broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lie {
    /// The second put replaces the first.
    Overwrites,
    /// The second put changes nothing, but is told that it did.
    SaysCreated,
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

impl Media for Liar {
    fn put_new(&self, name: &str, bytes: Bytes) -> StoreResult<Put> {
        if self.lie == Lie::Overwrites {
            self.inner.delete(name)?;
        }
        let put = self.inner.put_new(name, bytes)?;
        Ok(if self.lie == Lie::SaysCreated { Put::Created } else { put })
    }

    fn sync(&self, name: &str) -> StoreResult<()> {
        self.inner.sync(name)
    }

    fn get(&self, name: &str) -> StoreResult<Bytes> {
        self.inner.get(name)
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

    fn head(&self, name: &str) -> StoreResult<Option<u64>> {
        self.inner.head(name)
    }

    fn list(&self, prefix: &str) -> StoreResult<Vec<(String, u64)>> {
        let mut found = self.inner.list(prefix)?;
        if self.lie == Lie::ForgetsOne {
            found.pop();
        }
        Ok(found)
    }

    fn delete(&self, name: &str) -> StoreResult<()> {
        self.inner.delete(name)
    }

    fn describe(&self) -> String {
        format!("a liar: {:?}", self.lie)
    }
}

#[test]
fn liars_are_found_out() {
    for lie in [Lie::Overwrites, Lie::SaysCreated, Lie::ShortRange, Lie::ForgetsOne] {
        let found = keeps_the_contract(&Liar { inner: Memory::new(), lie });
        println!("{lie:?}: {found:?}");
        assert!(found.is_err(), "{lie:?} passes for a medium");
    }
}
