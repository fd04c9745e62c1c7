//! Actors that back up.

use std::collections::BTreeMap;
use std::sync::Arc;

use cutpoint_repository::format::commit::Outcome;
use cutpoint_repository::format::recipe::Segment as Piece;
use cutpoint_repository::write::{DeltaEncoder, Inline, RecipeWriter, TreeWriter};
use cutpoint_repository::{
    Class, CommitResult, Content, Entry, EntryKind, Index, Purpose, Reader, Snapshot, TicketId,
    Verify, Writer,
};
use cutpoint_storage::Result;

use super::actor::{Actor, UNIVERSE, chunk};

/// The sources of a writer's comparisons: the reader of its view, and its own index.
pub(super) struct Old {
    reader: Reader,
    index: Arc<Index>,
    ticket: TicketId,
}

impl Old {
    pub(super) fn new(actor: &Actor, inline: &mut Inline) -> Old {
        let index = inline.index().clone();
        let (view, ticket) = (inline.writer().view().clone(), inline.writer().ticket());
        let reader = Reader::new(actor.repository.clone(), Arc::new(index.fork()), view);
        Old { reader, index, ticket }
    }

    pub(super) fn encoder(&self) -> DeltaEncoder<'_> {
        DeltaEncoder::new(&self.reader, &self.index, self.ticket)
    }
}

/// Stores a file of the given chunks, as a new version of `old`. A file of more than four chunks
/// gets a recipe.
pub(super) fn store_file(
    actor: &Actor,
    inline: &mut Inline,
    chunks: &[usize],
    old: Option<&Content>,
    encoder: &mut DeltaEncoder<'_>,
) -> Result<Content> {
    encoder.begin(old);
    let mut recipe = RecipeWriter::new("fixed");
    for number in chunks {
        let bytes = chunk(*number);
        let (fingerprint, is_new) = inline.store_similar(&bytes, encoder)?;
        if !is_new {
            actor.world.was_hit((Class::Data, fingerprint));
        }
        let length = bytes.len() as u64;
        recipe.push(Piece::Chunk { fingerprint, offset: 0, length }, inline)?;
    }
    recipe.finish(inline)
}

pub(super) fn store_tree(actor: &Actor, inline: &mut Inline, entries: &[Entry]) -> Result<Content> {
    let mut tree = TreeWriter::new();
    for entry in entries {
        tree.push(entry, actor.repository.keys(), inline)?;
    }
    tree.finish(inline)
}

/// Returns the name of a file, which contains its chunk numbers, so that a reader knows the
/// expected bytes.
pub(super) fn file_name(place: usize, chunks: &[usize]) -> String {
    let chunks: Vec<String> = chunks.iter().map(ToString::to_string).collect();
    format!("{place} {}", chunks.join(" "))
}

fn size(chunks: &[usize]) -> u64 {
    chunks.iter().map(|number| chunk(*number).len() as u64).sum()
}

/// Makes one backup: files of few chunks, some of them taken over unread from a snapshot of the
/// view (W3).
pub(super) fn back_up(actor: &mut Actor) -> Result<()> {
    let writer = Writer::begin(actor.repository.clone(), Purpose::Backup)?;
    let ticket = writer.ticket();
    let view = writer.view().clone();
    let parents: Vec<TicketId> =
        view.commits.keys().copied().filter(|id| view.may_take_over(*id)).collect();
    let mut entries: BTreeMap<Vec<u8>, Entry> = BTreeMap::new();
    let mut old: Vec<Content> = Vec::new();
    if !parents.is_empty() && !actor.chance(3) {
        let parent = parents[actor.random.below(parents.len())];
        if let Some(snapshot) = view.commits[&parent].snapshot() {
            for entry in actor.world.entries(&snapshot.root) {
                if entry.kind == EntryKind::File {
                    old.push(entry.content.clone());
                }
                if !actor.chance(3) {
                    entries.insert(entry.name.clone(), entry);
                }
            }
        }
    }
    let mut inline = Inline::new(writer, Verify::Some)?;
    let before = Old::new(actor, &mut inline);
    let mut encoder = before.encoder();
    let compares_with_run = actor.chance(4);
    if compares_with_run {
        encoder = encoder.with_recent();
    }
    for place in 0..1 + actor.random.below(2) {
        let count = if actor.chance(8) { 6 } else { 1 + actor.random.below(2) };
        let mut chunks: Vec<usize> = (0..count).map(|_| actor.random.below(UNIVERSE)).collect();
        if compares_with_run {
            // Chunks of the run can be referred to once their region is full.
            chunks.insert(1, UNIVERSE + actor.random.below(1000));
            chunks.push(actor.random.below(UNIVERSE));
        }
        let mut entry = Entry::new(file_name(place, &chunks), EntryKind::File);
        entry.size = size(&chunks);
        entry.content =
            store_file(actor, &mut inline, &chunks, old.get(place).or(old.last()), &mut encoder)?;
        if actor.chance(4) {
            // In a folder of its own, to be taken over as a full chunk.
            let mut folder = Entry::new(format!("folder {place}"), EntryKind::Folder);
            folder.content = store_tree(actor, &mut inline, &[entry])?;
            entry = folder;
        }
        entries.insert(entry.name.clone(), entry);
        if actor.chance(4) {
            inline.publish()?;
        }
        if actor.chance(6) {
            actor.pause(150)?;
        }
    }
    let entries: Vec<Entry> = entries.into_values().collect();
    let root = store_tree(actor, &mut inline, &entries)?;
    let snapshot = Snapshot { root, ..Snapshot::empty() };
    if actor.chance(2) {
        inline.publish()?;
        // Waits past the next record, if one comes soon, because the record may condemn the chunks
        // that were found.
        let before = actor.world.tally().prunes;
        for _ in 0..8 {
            if actor.world.tally().prunes > before {
                break;
            }
            actor.pause(80)?;
        }
    }
    // By the ticket, so that further choices do not depend on this one.
    let committed = match ticket.0[0].is_multiple_of(2) {
        true => inline.commit_embedding(snapshot)?,
        false => inline.commit(Outcome::Snapshot(Box::new(snapshot)))?,
    };
    if committed == CommitResult::Done && !actor.world.was_snapshot(ticket) {
        actor.world.fail(format!("promise 1: {ticket} was acknowledged, and is no snapshot"));
    }
    Ok(())
}
