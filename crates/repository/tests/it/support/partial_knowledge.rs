//! A writer that knows only a part of the repository, like one that began before others have ended.

use std::sync::Arc;

use cutpoint_repository::format::recipe::Segment;
use cutpoint_repository::write::{Deduplicator, DeltaEncoder, RecipeWriter, TreeWriter};
use cutpoint_repository::{
    Class, Content, Entry, EntryKind, Index, PartName, Reader, Repository, TicketId, Verify, View,
};
use cutpoint_storage::Result;

use super::backup::{CHUNK_LEN, file, previous};
use super::put_packed::put_packed;

/// Stores file `number` by `view` only, for the writer of `ticket`. Returns the segments that name
/// the new chunks, and the root of a tree with that file.
pub(crate) fn store_knowing(
    repository: &Arc<Repository>,
    ticket: TicketId,
    view: View,
    number: u64,
) -> Result<(Vec<PartName>, Content)> {
    let index = Arc::new(Index::open(repository.clone(), &view)?);
    let reader = Reader::new(repository.clone(), Arc::new(index.fork()), view);
    let mut encoder = DeltaEncoder::new(&reader, &index, ticket);
    let old = previous(&reader, number)?;
    encoder.begin(old.as_ref());
    let keys = repository.keys();
    let region_size = repository.config().region_size;
    let mut dedup = Deduplicator::new(keys.clone(), index.clone(), region_size, Verify::All)?;
    let mut recipe = RecipeWriter::new("fixed");
    for chunk in file(number).chunks(CHUNK_LEN) {
        let fingerprint = keys.fingerprint(Class::Data, chunk);
        dedup.store_similar(fingerprint, chunk, &mut encoder)?;
        let length = chunk.len() as u64;
        recipe.push(Segment::Chunk { fingerprint, offset: 0, length }, &mut dedup)?;
    }
    let mut entry = Entry::new(format!("file {number:04}"), EntryKind::File);
    entry.size = recipe.size();
    entry.content = recipe.finish(&mut dedup)?;
    let mut tree = TreeWriter::new();
    tree.push(&entry, keys, &mut dedup)?;
    let root = tree.finish(&mut dedup)?;
    Ok((put_packed(repository, ticket, dedup)?, root))
}
