//! All present and earlier objects, decoded, and the invariants that must hold among them.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;
use cutpoint_repository::crypto::{HEADER_LEN, Opener, PartKind, Trailer, open_object};
use cutpoint_repository::format::commit::{Commit, Outcome};
use cutpoint_repository::format::extents;
use cutpoint_repository::format::prune::Prune;
use cutpoint_repository::format::recipe::{RecipeChunk, Segment as Piece};
use cutpoint_repository::format::segment::Segment;
use cutpoint_repository::format::toc::{Codec, Form, Toc};
use cutpoint_repository::{
    Class, Content, Entry, Fingerprint, Keys, ObjectName, PartName, TicketId,
};
use cutpoint_storage::{Error, Result};
use minicbor::Decoder;

pub(crate) type ChunkName = (Class, Fingerprint);

pub(crate) type ContainerName = (Class, PartName);

/// The present and all earlier objects, decoded.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    pub(super) keys: Option<Keys>,
    /// Every name that ever existed, with its bytes (I1, I3).
    ever: HashMap<String, Bytes>,
    /// The bytes that were sealed under each key, by the header that determines the key (I1).
    sealed: HashMap<[u8; 48], Bytes>,
    pub(super) present: BTreeSet<String>,
    pub(super) commits: BTreeMap<TicketId, Arc<Commit>>,
    pub(super) prunes: BTreeMap<u64, Arc<Prune>>,
    segments: HashMap<PartName, Arc<Segment>>,
    containers: HashMap<ContainerName, Arc<Held>>,
    chunks: HashMap<ChunkName, Arc<Vec<u8>>>,
    /// Chunks that have ever been stored as a full chunk.
    pub(super) full_chunks: HashSet<ChunkName>,
    pub(super) needs: HashMap<TicketId, Arc<BTreeSet<ChunkName>>>,
    pub(super) deletions: u64,
    pub(super) delta_chunks: u64,
    pub(super) delta_chunk_hits: u64,
    pub(super) delta_chunks_deleted: u64,
    /// Number of delta chunks that refer to a chunk of the same writer.
    pub(super) delta_chunks_of_run: u64,
    /// The writers that stored a full chunk first, literals left out.
    writers: HashMap<ChunkName, TicketId>,
    /// Number of records of writers that had ended before.
    pub(super) ended_records: u64,
}

/// The content of a container.
#[derive(Debug, Default)]
struct Held {
    full_chunks: Vec<Fingerprint>,
    /// Each delta chunk with the references of its region.
    delta_chunks: Vec<(Fingerprint, Arc<Vec<Fingerprint>>)>,
}

impl Ledger {
    /// I1: no name is put twice with different bytes, and nothing is sealed twice under one key.
    pub(super) fn attempt(&mut self, name: &str, bytes: &Bytes) -> Result<(), String> {
        // Several clients may put these, by design, and the first one wins.
        let is_contended = name.starts_with("commits/") || name.starts_with("prunes/");
        if let Some(first) = self.ever.get(name)
            && first != bytes
            && !is_contended
        {
            return Err(format!("I1: {name} is put with other bytes than before"));
        }
        let Some(header) = bytes.first_chunk::<48>().filter(|_| !name.starts_with("tmp/")) else {
            return Ok(());
        };
        let sealed = self.sealed.entry(*header).or_insert_with(|| bytes.clone());
        if sealed != bytes {
            return Err(format!("I1: {name} is sealed twice under one key and nonce"));
        }
        Ok(())
    }

    pub(super) fn created(&mut self, name: &str, bytes: &Bytes) -> Result<(), String> {
        let is_first = self.ever.entry(name.to_owned()).or_insert_with(|| bytes.clone()) == bytes;
        // After a taken commit was deleted, the request of another client may arrive that had lost.
        let is_taken = |name: &str| match ObjectName::parse(name) {
            Ok(ObjectName::Commit(ticket)) => self.taken().contains(&ticket),
            _ => false,
        };
        if !is_first && !is_taken(name) {
            return Err(format!("I3: {name} has two values"));
        }
        self.present.insert(name.to_owned());
        let (Some(keys), Ok(name)) = (self.keys.clone(), ObjectName::parse(name)) else {
            return Ok(());
        };
        let is_new = self.decode(&keys, name, bytes).map_err(|error| error.to_string())?;
        if is_new { self.check() } else { Ok(()) }
    }

    /// Reads what was put. Returns `true` if it can change what resolves.
    fn decode(&mut self, keys: &Keys, name: ObjectName, bytes: &Bytes) -> Result<bool> {
        match name {
            ObjectName::Commit(ticket) => {
                let commit = Commit::decode(&open_object(keys, name, bytes)?)?;
                if let Some(snapshot) = commit.snapshot() {
                    self.was_not_taken_before(ticket)?;
                    let mut needs = BTreeSet::new();
                    self.walk(&snapshot.root, true, &mut needs, &mut Vec::new())
                        .map_err(|error| error.of(format!("I2: snapshot {ticket}")))?;
                    self.needs.insert(ticket, Arc::new(needs));
                }
                if let (Some(embedded), Some(part)) = (&commit.embedded, commit.segments.last()) {
                    self.segments.insert(*part, Arc::new((**embedded).clone()));
                }
                self.commits.insert(ticket, Arc::new(commit));
                Ok(true)
            }
            ObjectName::Prune(number) => {
                let prune = Prune::decode(&open_object(keys, name, bytes)?)?;
                self.no_held_is_taken(number, &prune)?;
                let has_ended = prune.ticket.is_some_and(|id| self.commits.contains_key(&id));
                self.ended_records += u64::from(has_ended);
                self.prunes.insert(number, Arc::new(prune));
                Ok(true)
            }
            ObjectName::Segment(part) => {
                let segment = Segment::decode(&open_object(keys, name, bytes)?)?;
                self.segments.insert(part, Arc::new(segment));
                Ok(false)
            }
            ObjectName::Container(class, part) => {
                let held = self.decode_container(keys, (class, part), bytes)?;
                self.delta_chunks += held.delta_chunks.len() as u64;
                self.containers.insert((class, part), Arc::new(held));
                Ok(false)
            }
            _ => Ok(false),
        }
    }

    /// I7: the first commit of a snapshot does not come after a record that took its ticket, because
    /// it would be acknowledged and not count. A snapshot that was deleted may come back.
    fn was_not_taken_before(&self, ticket: TicketId) -> Result<()> {
        match self.needs.contains_key(&ticket) || !self.taken().contains(&ticket) {
            true => Ok(()),
            false => Err(Error::invalid(format!("I7: snapshot {ticket}"), "was taken before")),
        }
    }

    /// P5: snapshots that were held before a prune are not in its F.
    fn no_held_is_taken(&self, number: u64, prune: &Prune) -> Result<()> {
        let mut held = BTreeSet::new();
        for (_, before) in self.prunes.range(..number) {
            held.retain(|id| !before.released.contains(id));
            held.extend(before.held.iter().copied());
        }
        match prune.taken.iter().find(|id| held.contains(id)) {
            None => Ok(()),
            Some(id) => Err(Error::invalid(id, "P5: is held, and taken")),
        }
    }

    fn decode_container(
        &mut self,
        keys: &Keys,
        (class, part): ContainerName,
        bytes: &Bytes,
    ) -> Result<Held> {
        let (name, writer) = (ObjectName::Container(class, part), part.ticket);
        let opener = Opener::new(keys, name, &bytes[..HEADER_LEN])?;
        let trailer = Trailer::decode(&name, bytes, bytes.len() as u64)?;
        let open = |kind, offset: u64, len: u32| {
            let start = usize::try_from(offset).expect("it fits");
            let mut part = bytes[start..start + len as usize].to_vec();
            opener.open(kind, &mut part).map(|()| part)
        };
        let toc = open(PartKind::Toc, trailer.offset, trailer.length)?;
        let toc = Toc::decode(&toc, trailer.offset)?;
        let mut regions = Vec::new();
        for (number, region) in (0..).zip(&toc.regions) {
            let kind = PartKind::Region(number);
            let part = open(kind, u64::from(region.offset), region.stored_len)?;
            regions.push(match region.codec {
                Codec::Store => part,
                Codec::Zstd => zstd::bulk::decompress(&part, region.raw_len as usize)
                    .map_err(|error| Error::corrupt(name, error))?,
            });
        }
        let mut held = Held::default();
        let references = toc.regions.iter().map(|region| Arc::new(region.references.clone()));
        let references: Vec<_> = references.collect();
        for chunk in &toc.chunks {
            let start = chunk.offset as usize;
            let region = &regions[usize::from(chunk.region)];
            let payload = &region[start..start + chunk.payload_len as usize];
            let references = &references[usize::from(chunk.region)];
            let bytes = if chunk.form == Form::Delta {
                let own = references.iter().map(|it| self.writers.get(&(class, *it)));
                self.delta_chunks_of_run += u64::from(own.flatten().any(|it| *it == writer));
                held.delta_chunks.push((chunk.fingerprint, references.clone()));
                self.rebuild(class, payload, chunk.chunk_len, references)?
            } else {
                held.full_chunks.push(chunk.fingerprint);
                self.full_chunks.insert((class, chunk.fingerprint));
                if chunk.form == Form::Full {
                    self.writers.entry((class, chunk.fingerprint)).or_insert(writer);
                }
                payload.to_vec()
            };
            if keys.fingerprint(class, &bytes) != chunk.fingerprint {
                return Err(Error::corrupt(name, "R4: a chunk is not what its record says"));
            }
            self.chunks.entry((class, chunk.fingerprint)).or_insert_with(|| Arc::new(bytes));
        }
        Ok(held)
    }

    /// Returns the bytes of a delta chunk from its full chunks, wherever they were once stored.
    fn rebuild(
        &self,
        class: Class,
        payload: &[u8],
        chunk_len: u32,
        references: &[Fingerprint],
    ) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        for extent in extents::decode(payload, chunk_len, references.len())? {
            let reference = references[usize::from(extent.reference)];
            let full_chunk = self.chunks.get(&(class, reference));
            let start = extent.offset as usize;
            let extent = full_chunk
                .and_then(|full_chunk| full_chunk.get(start..start + extent.len as usize));
            let extent = extent.ok_or_else(|| Error::missing(reference, "was never stored"))?;
            bytes.extend_from_slice(extent);
        }
        Ok(bytes)
    }

    /// Collects the chunks of a stream, and for a folder those below it.
    pub(super) fn walk(
        &self,
        content: &Content,
        is_tree: bool,
        needs: &mut BTreeSet<ChunkName>,
        entries: &mut Vec<Entry>,
    ) -> Result<()> {
        let meta = |fingerprint: &Fingerprint| {
            self.chunks
                .get(&(Class::Meta, *fingerprint))
                .ok_or_else(|| Error::missing(fingerprint, "was never stored"))
        };
        match content {
            Content::Empty | Content::Raw(_) => Ok(()),
            Content::Recipe(fingerprint) => {
                needs.insert((Class::Meta, *fingerprint));
                let recipe = RecipeChunk::decode(meta(fingerprint)?)?;
                if recipe.level == 0 {
                    return self.walk(&Content::Segments(recipe.segments), is_tree, needs, entries);
                }
                for piece in &recipe.segments {
                    if let Piece::Chunk { fingerprint, .. } = piece {
                        let below = Content::Recipe(*fingerprint);
                        self.walk(&below, is_tree, needs, entries)?;
                    }
                }
                Ok(())
            }
            Content::Segments(pieces) => {
                for piece in pieces {
                    let Piece::Chunk { fingerprint, .. } = piece else { continue };
                    if !is_tree {
                        needs.insert((Class::Data, *fingerprint));
                        continue;
                    }
                    needs.insert((Class::Meta, *fingerprint));
                    let bytes = meta(fingerprint)?;
                    let d = &mut Decoder::new(bytes);
                    while d.position() < bytes.len() {
                        let entry = Entry::decode(d)?;
                        let is_folder = entry.kind == cutpoint_repository::EntryKind::Folder;
                        self.walk(&entry.content, is_folder, needs, &mut Vec::new())?;
                        entries.push(entry);
                    }
                }
                Ok(())
            }
        }
    }

    pub(super) fn taken(&self) -> HashSet<TicketId> {
        self.prunes.values().flat_map(|prune| prune.taken.iter().copied()).collect()
    }

    /// Returns `true` if the writer of the ticket has ended.
    fn has_ended(&self, ticket: TicketId) -> bool {
        self.commits.contains_key(&ticket) || self.taken().contains(&ticket)
    }

    /// I4: nothing is deleted except what a prune has condemned or superseded, tickets and
    /// similarity objects of ended writers, and commits of snapshots whose prune was swept.
    pub(super) fn may_delete(&self, name: &str) -> Result<(), String> {
        let is_fine = match ObjectName::parse(name) {
            // The commit of a taken ticket may be deleted, and a renewal may come late.
            Ok(ObjectName::Ticket { ticket, .. }) => self.has_ended(ticket),
            // Nothing relies on them, so that a late container may come without one.
            Ok(ObjectName::Similarity(part)) => self.has_ended(part.ticket),
            Ok(ObjectName::Segment(part)) => {
                self.prunes.values().any(|prune| prune.superseded.contains(&part))
            }
            Ok(
                ObjectName::Container(class, part)
                | ObjectName::Parity { class, container: part, .. },
            ) => self.prunes.values().any(|prune| prune.condemned.contains(&(class, part))),
            // A record says from then on what the `swept` commits said that it takes (P6), so that a
            // sweep whose view still has such a commit may delete once more what is gone. No snapshot
            // loses anything by that, because what a record has taken never counts again, even if a
            // late request brings it back.
            Ok(ObjectName::Commit(ticket)) => {
                let said = self.commits.values().filter_map(|commit| match commit.outcome {
                    Outcome::Swept(number) => Some(number),
                    _ => None,
                });
                let recorded = self.prunes.values().flat_map(|prune| prune.swept.iter().copied());
                said.chain(recorded).any(|number| {
                    self.prunes.get(&number).is_some_and(|prune| prune.taken.contains(&ticket))
                })
            }
            Ok(_) => false,
            Err(_) => name.starts_with("tmp/"),
        };
        if is_fine { Ok(()) } else { Err(format!("I4: {name} is deleted")) }
    }

    pub(super) fn deleted(&mut self, name: &str) -> Result<(), String> {
        if self.present.remove(name) {
            self.deletions += 1;
            if let Ok(ObjectName::Container(class, part)) = ObjectName::parse(name)
                && let Some(held) = self.containers.get(&(class, part))
            {
                self.delta_chunks_deleted += held.delta_chunks.len() as u64;
            }
        }
        if let Ok(ObjectName::Commit(ticket)) = ObjectName::parse(name) {
            self.commits.remove(&ticket);
        }
        if name.starts_with("tickets/") { Ok(()) } else { self.check() }
    }

    /// I2: each snapshot that no prune has taken resolves to existing, named records. I5: all
    /// references of a delta chunk's region resolve to full chunks.
    fn check(&self) -> Result<(), String> {
        let mut named: BTreeSet<PartName> = BTreeSet::new();
        named.extend(self.commits.values().flat_map(|commit| &commit.segments));
        named.extend(self.prunes.values().flat_map(|prune| &prune.published));
        for superseded in self.prunes.values().flat_map(|prune| &prune.superseded) {
            named.remove(superseded);
        }
        let mut full_chunks: HashSet<ChunkName> = HashSet::new();
        let mut delta_chunks: HashMap<ChunkName, Vec<&[Fingerprint]>> = HashMap::new();
        for part in named {
            let path = ObjectName::Segment(part).to_string();
            let commit = self.commits.get(&part.ticket);
            let is_embedded = commit.is_some_and(|it| it.embedded_segment(&part).is_some());
            let exists = is_embedded || self.present.contains(&path);
            let segment = self.segments.get(&part).filter(|_| exists);
            let Some(segment) = segment else {
                return Err(format!("I2: {path} is named, but does not exist"));
            };
            for container in &segment.containers {
                let path = ObjectName::Container(container.class, container.name).to_string();
                if !self.present.contains(&path) {
                    continue;
                }
                if let Some(held) = self.containers.get(&(container.class, container.name)) {
                    full_chunks
                        .extend(held.full_chunks.iter().map(|chunk| (container.class, *chunk)));
                    for (chunk, references) in &held.delta_chunks {
                        let known = delta_chunks.entry((container.class, *chunk)).or_default();
                        known.push(references);
                    }
                }
            }
        }
        let taken = self.taken();
        for ticket in self.commits.keys().filter(|ticket| !taken.contains(ticket)) {
            let Some(needs) = self.needs.get(ticket) else { continue };
            for need @ (class, chunk) in needs.iter().filter(|need| !full_chunks.contains(need)) {
                let Some(delta_chunks) = delta_chunks.get(need) else {
                    return Err(format!(
                        "I2: snapshot {ticket} has lost the {class} chunk {chunk}"
                    ));
                };
                let is_met = |references: &&[Fingerprint]| {
                    references.iter().all(|reference| full_chunks.contains(&(*class, *reference)))
                };
                if !delta_chunks.iter().any(is_met) {
                    return Err(format!(
                        "I5: snapshot {ticket} has lost what the {class} chunk {chunk} refers to"
                    ));
                }
            }
        }
        Ok(())
    }
}
