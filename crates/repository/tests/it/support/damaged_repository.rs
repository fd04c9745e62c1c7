//! A small repository to be damaged, and the findings of a check.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use cutpoint_repository::format::commit::Outcome;
use cutpoint_repository::format::recipe::Segment as Piece;
use cutpoint_repository::verify::check::{
    CheckMonitor, CheckOptions, CheckReport, Finding, FindingKind, Portion, check,
};
use cutpoint_repository::write::{Inline, RecipeWriter, TreeWriter};
use cutpoint_repository::{
    Class, CommitResult, Content, Entry, EntryKind, Purpose, Reader, Repository, Secret, Snapshot,
    TicketId, Unlock, Verify, View, Writer,
};
use cutpoint_storage::{Memory, ObjectKind, Put, Result, Storage};

use super::backup::{CHUNK_LEN, back_up, file, init, open, restore_all};

/// A repository on a storage of its own, opened before anything was damaged.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) repository: Arc<Repository>,
}

/// Creates every object of a repository with two settings, two keys, two snapshots of files, one of
/// a folder in a folder, a writer that ended without a result, and an interrupted one.
pub(crate) fn build() -> BTreeMap<String, Bytes> {
    let storage: Arc<dyn Storage> = Arc::new(Memory::new());
    let mut first = init(storage.clone()).expect("an empty memory takes a repository");
    first.add_key(&Unlock::KeyFile(Secret([8; 32])), "").expect("memory takes a key");
    let mut config = first.config().clone();
    config.compression_level = 2;
    first.set_config(config).expect("memory takes settings");
    let repository = open(storage.clone(), 1).expect("it opens");
    for files in [&[1, 2, 3][..], &[1, 2, 4, 5]] {
        let committed = back_up(&repository, files, true).expect("nothing fails here");
        assert_eq!(committed, CommitResult::Done, "no other client ends it");
    }
    back_up_nested(&repository).expect("nothing fails here");
    assert_eq!(restore_all_but_nested(&repository), 2, "snapshots that restore");
    let mut nothing = Writer::begin(repository.clone(), Purpose::Other).expect("it begins");
    nothing.void(Vec::new()).expect("no other client ends it");
    let writer = Writer::begin(repository.clone(), Purpose::Backup).expect("it begins");
    let mut inline = Inline::new(writer, Verify::All).expect("the index opens");
    inline.store_data(&file(9)).expect("memory takes a container");
    inline.publish().expect("memory takes a segment");
    everything(&*storage)
}

fn restore_all_but_nested(repository: &Arc<Repository>) -> usize {
    let view = View::list(repository).expect("it lists");
    let nested = view
        .commits
        .iter()
        .filter(|(_, c)| c.snapshot().is_some_and(|snapshot| snapshot.description == "nested"));
    let hidden: Vec<_> = nested.map(|(id, _)| *id).collect();
    let mut writer = Writer::begin(repository.clone(), Purpose::Other).expect("it begins");
    writer
        .commit(Outcome::Forget(hidden), Vec::new(), &BTreeSet::new())
        .expect("memory takes a commit");
    restore_all(repository).expect("everything restores")
}

/// Backs up a folder of 2000 empty files, whose tree has several chunks, in folders whose trees lie in
/// their entries. One of these also has a file.
fn back_up_nested(repository: &Arc<Repository>) -> Result<()> {
    let writer = Writer::begin(repository.clone(), Purpose::Backup)?;
    let mut inline = Inline::new(writer, Verify::All)?;
    let keys = repository.keys();
    let mut inner = TreeWriter::new();
    for number in 0..2000 {
        inner.push(&Entry::new(format!("{number:05}"), EntryKind::File), keys, &mut inline)?;
    }
    let mut folder = Entry::new("folder", EntryKind::Folder);
    folder.content = inner.finish_below(&mut inline)?;
    let mut recipe = RecipeWriter::new("fixed");
    for chunk in file(7).chunks(CHUNK_LEN) {
        let fingerprint = inline.store_data(chunk)?;
        let length = chunk.len() as u64;
        recipe.push(Piece::Chunk { fingerprint, offset: 0, length }, &mut inline)?;
    }
    let mut stored = Entry::new("file 0007", EntryKind::File);
    stored.size = recipe.size();
    stored.content = recipe.finish(&mut inline)?;
    let mut short = TreeWriter::new();
    short.push(&stored, keys, &mut inline)?;
    short.push(&folder, keys, &mut inline)?;
    let mut above = Entry::new("above", EntryKind::Folder);
    above.content = short.finish_below(&mut inline)?;
    let mut top = TreeWriter::new();
    top.push(&above, keys, &mut inline)?;
    let mut entry = Entry::new("top", EntryKind::Folder);
    entry.content = top.finish_below(&mut inline)?;
    assert!(matches!(entry.content, Content::Raw(_)), "two short trees");
    let mut root = TreeWriter::new();
    root.push(&entry, keys, &mut inline)?;
    let root = root.finish(&mut inline)?;
    let description = "nested".to_owned();
    let snapshot = Snapshot { root, description, ..Snapshot::empty() };
    inline.commit(Outcome::Snapshot(Box::new(snapshot))).map(drop)
}

/// Returns every object with its bytes.
pub(crate) fn everything(storage: &dyn Storage) -> BTreeMap<String, Bytes> {
    let mut all = BTreeMap::new();
    for kind in ObjectKind::ALL {
        for (name, _) in storage.list(kind.folder()).expect("memory lists") {
            let bytes = storage.get(&name).expect("what is listed can be read");
            all.insert(name, bytes);
        }
    }
    all
}

impl Store {
    pub(crate) fn new(objects: &BTreeMap<String, Bytes>) -> Store {
        let storage: Arc<dyn Storage> = Arc::new(Memory::new());
        for (name, bytes) in objects {
            storage.put_new(name, bytes.clone()).expect("memory takes it");
        }
        Store { repository: open(storage.clone(), 1).expect("it opens"), storage }
    }

    /// Replaces the bytes of the object `name`, or deletes it.
    pub(crate) fn replace(&self, name: &str, bytes: Option<Bytes>) {
        self.storage.delete(name).expect("memory deletes");
        if let Some(bytes) = bytes {
            let put = self.storage.put_new(name, bytes).expect("memory takes it");
            assert_eq!(put, Put::Created, "{name} was deleted");
        }
    }

    pub(crate) fn check(&self, read_data: bool) -> Findings {
        check_on(&self.repository, read_data, 1)
    }

    /// Returns a reader of what can still be read.
    pub(crate) fn reader(&self) -> Reader {
        let view = View::list(&self.repository).expect("memory lists");
        Reader::open(self.repository.clone(), view).expect("what cannot be read stops nothing")
    }

    /// Restores what is left: each path is either unchanged, or one of those that the check has
    /// named. The named ones must not be restored.
    pub(crate) fn compare(&self, findings: &Findings, case: &str) {
        self.compare_by(findings, case, &|_, path| {
            let number = path.rsplit_once(' ').and_then(|(_, number)| number.parse().ok());
            file(number.expect("names of files end in a number"))
        });
    }

    /// Does the same as [`Store::compare`], where `expected` returns the expected bytes of a file
    /// of a snapshot.
    pub(crate) fn compare_by(
        &self,
        findings: &Findings,
        case: &str,
        expected: &dyn Fn(TicketId, &str) -> Vec<u8>,
    ) {
        let affected: BTreeSet<&str> = findings.of(FindingKind::Affected).collect();
        let mut failed = BTreeSet::new();
        let reader = self.reader();
        let (forgotten, taken) = (reader.view().forgotten(), reader.view().taken());
        for (id, commit) in &reader.view().commits {
            let Some(snapshot) = commit.snapshot().filter(|_| !taken.contains(id)) else {
                continue;
            };
            let mut folders = vec![(format!("snapshot {}: ", id.short()), snapshot.root.clone())];
            while let Some((at, content)) = folders.pop() {
                for entry in reader.tree(&content) {
                    let Ok(entry) = entry else {
                        failed.insert(format!("{at}/"));
                        break;
                    };
                    let path = format!("{at}/{}", String::from_utf8_lossy(&entry.name));
                    if entry.kind == EntryKind::Folder {
                        folders.push((path, entry.content));
                        continue;
                    }
                    let is_affected = affected.contains(path.as_str());
                    match read(&reader, &entry) {
                        Ok(bytes) if entry.size > 0 => {
                            let expected = expected(*id, &path);
                            assert!(bytes == expected, "{case}: {path} comes back as other bytes");
                            assert!(!is_affected, "{case}: {path} comes back, the check says no");
                        }
                        Ok(_) => {}
                        Err(_) => {
                            failed.insert(path);
                        }
                    }
                }
            }
        }
        // Paths of a forgotten snapshot are only counted.
        for id in forgotten.difference(&taken) {
            let snapshot = format!("snapshot {}", id.short());
            let before = failed.len();
            failed.retain(|path| !path.starts_with(&snapshot));
            let is_named = findings.of(FindingKind::Unneeded).any(|object| object == snapshot);
            assert_eq!(is_named, failed.len() < before, "{case}: {snapshot} is forgotten");
        }
        for path in &failed {
            assert!(affected.contains(path.as_str()), "{case}: {path} is lost, and not named");
        }
        for path in affected {
            // Below a folder that cannot be listed completely nothing was tried.
            let is_below =
                failed.iter().any(|folder| folder.ends_with('/') && path.starts_with(folder));
            assert!(is_below || failed.contains(path), "{case}: {path} is named, but not lost");
        }
    }
}

/// Returns the bytes of a file, with zeros for holes.
pub(crate) fn read(reader: &Reader, entry: &Entry) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    for segment in reader.segments(&entry.content) {
        match segment? {
            Piece::Chunk { fingerprint, .. } => {
                bytes.extend_from_slice(&reader.chunk(Class::Data, &fingerprint)?);
            }
            hole => {
                let length = usize::try_from(hole.length()).expect("small");
                bytes.resize(bytes.len() + length, 0);
            }
        }
    }
    Ok(bytes)
}

/// The findings of a check.
#[derive(Debug)]
pub(crate) struct Findings {
    pub(crate) all: Vec<Finding>,
    pub(crate) report: CheckReport,
}

impl Findings {
    pub(crate) fn of(&self, kind: FindingKind) -> impl Iterator<Item = &str> {
        self.all.iter().filter(move |f| f.kind == kind).map(|f| f.object.as_str())
    }

    /// Returns `true` if an object is named by a finding that is an error.
    pub(crate) fn has_error(&self, object: &str) -> bool {
        self.all.iter().any(|finding| finding.is_error() && finding.object == object)
    }

    /// Returns `true` if an object is named by any finding.
    pub(crate) fn names(&self, object: &str) -> bool {
        self.all.iter().any(|finding| finding.object == object)
    }
}

/// Checks with the given number of threads.
pub(crate) fn check_on(repository: &Arc<Repository>, read_data: bool, threads: usize) -> Findings {
    #[derive(Debug, Default)]
    struct Collect(Mutex<Vec<Finding>>);

    impl CheckMonitor for Collect {
        fn finding(&self, finding: &Finding) {
            self.0.lock().expect("no test panics in here").push(finding.clone());
        }
    }

    let collect = Collect::default();
    let read_data = read_data.then_some(Portion::All);
    let options = CheckOptions { read_data, threads, ..CheckOptions::default() };
    let report = check(repository, &options, &collect).expect("the storage works");
    let all = collect.0.into_inner().expect("no test panics in here");
    let errors = all.iter().filter(|finding| finding.is_error()).count() as u64;
    assert_eq!(report.error_count, errors, "errors that were counted");
    assert_eq!(report.note_count, all.len() as u64 - errors, "notes that were counted");
    Findings { all, report }
}
