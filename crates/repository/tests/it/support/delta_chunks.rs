//! Later versions of files, stored as delta chunks over earlier ones.

use std::collections::BTreeMap;
use std::sync::Arc;

use cutpoint_repository::format::commit::Outcome;
use cutpoint_repository::format::recipe::Segment as Piece;
use cutpoint_repository::format::segment::ContainerRecord;
use cutpoint_repository::format::toc::{ChunkRecord, Form};
use cutpoint_repository::index::load_toc;
use cutpoint_repository::write::{DeltaEncoder, Inline, RecipeWriter, TreeWriter};
use cutpoint_repository::{
    Class, CommitResult, Entry, EntryKind, Fingerprint, Index, PartName, Purpose, Reader,
    Repository, Snapshot, Verify, View, Writer,
};
use cutpoint_storage::Result;

use super::backup::{CHUNK_LEN, file};

/// Backs up `files`. Later versions are compared with the earlier ones in any snapshot.
pub(crate) fn back_up_similar(repository: &Arc<Repository>, files: &[u64]) -> Result<CommitResult> {
    let writer = Writer::begin(repository.clone(), Purpose::Backup)?;
    let view = writer.view().clone();
    let reader = Reader::open(repository.clone(), view.clone())?;
    let index = Index::open(repository.clone(), &view)?;
    let mut encoder = DeltaEncoder::new(&reader, &index, writer.ticket()).with_recent();
    let mut previous = BTreeMap::new();
    for snapshot in view.commits.values().filter_map(|commit| commit.snapshot()) {
        let entries = reader.tree(&snapshot.root).filter_map(Result::ok);
        previous.extend(entries.map(|entry| (entry.name, entry.content)));
    }
    let mut inline = Inline::new(writer, Verify::All)?;
    let mut tree = TreeWriter::new();
    for number in files {
        let name = |number| format!("file {number:04}");
        encoder.begin(previous.get(name(*number / 1000).as_bytes()));
        let mut recipe = RecipeWriter::new("fixed");
        for chunk in file(*number).chunks(CHUNK_LEN) {
            let (fingerprint, _) = inline.store_similar(chunk, &mut encoder)?;
            let length = chunk.len() as u64;
            recipe.push(Piece::Chunk { fingerprint, offset: 0, length }, &mut inline)?;
        }
        let mut entry = Entry::new(name(*number), EntryKind::File);
        entry.size = recipe.size();
        entry.content = recipe.finish(&mut inline)?;
        tree.push(&entry, repository.keys(), &mut inline)?;
    }
    let root = tree.finish(&mut inline)?;
    inline.commit(Outcome::Snapshot(Box::new(Snapshot { root, ..Snapshot::empty() })))
}

/// A record, its container, the offset of its region there, and the references of the region.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) container: PartName,
    pub(crate) chunk: ChunkRecord,
    pub(crate) region_offset: u32,
    pub(crate) references: Vec<Fingerprint>,
}

/// Returns every record of a data chunk, except for those in condemned containers.
pub(crate) fn records(repository: &Arc<Repository>) -> Vec<Record> {
    let view = View::list(repository).expect("it lists");
    let index = Index::open(repository.clone(), &view).expect("it opens");
    let mut records = Vec::new();
    let condemned = view.condemned();
    let is_live = |each: &ContainerRecord| !condemned.contains(&(each.class, each.name));
    let containers = index.containers().into_iter().filter(is_live);
    for container in containers.filter(|each| each.class == Class::Data) {
        let toc = load_toc(repository, &container).expect("it is well");
        for chunk in toc.chunks {
            let region = &toc.regions[usize::from(chunk.region)];
            let (region_offset, references) = (region.offset, region.references.clone());
            records.push(Record { container: container.name, chunk, region_offset, references });
        }
    }
    records
}

/// Returns the records of one form.
pub(crate) fn of_form(repository: &Arc<Repository>, form: Form) -> Vec<Record> {
    records(repository).into_iter().filter(|record| record.chunk.form == form).collect()
}
