//! Forged snapshots: copies of a snapshot in which a test changes the files.

use std::sync::Arc;

use cutpoint_repository::format::commit::Outcome;
use cutpoint_repository::format::recipe::Segment;
use cutpoint_repository::write::{Inline, RecipeWriter, TreeWriter};
use cutpoint_repository::{
    CommitResult, Content, Entry, EntryKind, Purpose, Reader, Repository, Snapshot, Verify, Writer,
};

/// Commits a copy of `previous`, begun a nanosecond later, with the entry of each file changed by
/// `change`.
pub(crate) fn forge(
    repository: &Arc<Repository>,
    previous: &Snapshot,
    change: &dyn Fn(&mut Entry, &mut Inline),
) {
    let writer = Writer::begin_again(repository.clone(), Purpose::Backup).expect("it begins");
    let reader = Reader::open(repository.clone(), writer.view().clone()).expect("a reader");
    let mut inline = Inline::new(writer, Verify::Some).expect("it goes on");
    let root = tree(&mut inline, &reader, &previous.root, change);
    let started_ns = previous.started_ns + 1;
    let snapshot = Snapshot { root, started_ns, ..previous.clone() };
    let committed = inline.commit(Outcome::Snapshot(Box::new(snapshot))).expect("it commits");
    assert_eq!(committed, CommitResult::Done, "the forged snapshot is there");
}

fn tree(
    inline: &mut Inline,
    reader: &Reader,
    content: &Content,
    change: &dyn Fn(&mut Entry, &mut Inline),
) -> Content {
    let mut copy = TreeWriter::new();
    for entry in reader.tree(content) {
        let mut entry = entry.expect("an entry");
        match entry.kind {
            EntryKind::Folder => entry.content = tree(inline, reader, &entry.content, change),
            _ => change(&mut entry, inline),
        }
        copy.push(&entry, reader.repository().keys(), inline).expect("memory takes it");
    }
    copy.finish(inline).expect("memory takes it")
}

/// Gives a file other bytes of the same length.
pub(crate) fn with_other_bytes(entry: &mut Entry, inline: &mut Inline) {
    let bytes = vec![b'!'; usize::try_from(entry.size).expect("it is small")];
    let fingerprint = inline.store_data(&bytes).expect("memory takes it");
    let mut recipe = RecipeWriter::new("fixed");
    let segment = Segment::Chunk { fingerprint, offset: 0, length: entry.size };
    recipe.push(segment, inline).expect("memory takes it");
    entry.content = recipe.finish(inline).expect("memory takes it");
}
