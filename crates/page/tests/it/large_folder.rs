//! A folder of 100,000 entries.

use std::time::{Duration, Instant};

use cutpoint_page::server::PageOptions;
use cutpoint_repository::format::commit::Outcome;
use cutpoint_repository::write::{Inline, TreeWriter};
use cutpoint_repository::{Entry, EntryKind, Purpose, Snapshot, Verify, View, Writer};

use crate::scene::Scene;

const COUNT: usize = 100_000;
/// The maximum time of the first slice. In a release build, it is 0.5 s.
const TIME_MAX: Duration = Duration::from_secs(if cfg!(debug_assertions) { 5 } else { 1 });

/// Commits a snapshot whose root has many entries.
pub(crate) fn forge(scene: &Scene, count: usize) -> String {
    scene.write("file", "text");
    let id = scene.back_up("host", -1);
    let view = View::list(&scene.repository).unwrap();
    let previous = view.commits[&id].snapshot().unwrap();
    let writer = Writer::begin_again(scene.repository.clone(), Purpose::Backup).unwrap();
    let mut inline = Inline::new(writer, Verify::Some).unwrap();
    let mut tree = TreeWriter::new();
    for number in 0..count {
        let mut entry = Entry::new(format!("entry-{number:06}.txt"), EntryKind::File);
        entry.mode = 0o644;
        entry.inode = number as u64 + 1;
        entry.mtime.seconds = 1_700_000_000 + number as i64;
        tree.push(&entry, scene.repository.keys(), &mut inline).unwrap();
    }
    let root = tree.finish(&mut inline).unwrap();
    let snapshot = Snapshot { root, started_ns: previous.started_ns + 1, ..previous.clone() };
    inline.commit(Outcome::Snapshot(Box::new(snapshot))).unwrap();
    let view = View::list(&scene.repository).unwrap();
    let newest = view.snapshots().into_iter().max_by_key(|(_, it)| it.started_ns).unwrap();
    newest.0.to_string()
}

#[test]
fn large_folder_opens_at_once() {
    let scene = Scene::new();
    let id = forge(&scene, COUNT);
    let served = scene.serve(PageOptions::default());
    let slice = |options: &str| {
        let since = Instant::now();
        let found = served.get(&format!("/api/folder?snapshot={id}&path=&{options}")).json();
        assert_eq!(found["total"], COUNT, "{options}");
        let name = found["rows"][0]["name"].as_str().unwrap().to_owned();
        (name, since.elapsed())
    };
    let (name, first) = slice("count=200");
    println!("the first slice of {COUNT} entries took {first:?}");
    assert_eq!(name, "entry-000000.txt", "the first");
    assert!(first < TIME_MAX, "the first slice took {first:?}");
    let (name, next) = slice("from=99800&count=200");
    assert_eq!(name, "entry-099800.txt", "far behind");
    assert!(next < first.max(Duration::from_millis(200)), "it was read already: {next:?}");
    assert_eq!(slice("sort=time&descending=1").0, "entry-099999.txt", "another order");
    served.page.stop().unwrap();
}
