//! Stores again what has to move, in an order that compresses and reads well ([`super::optimize`]).
//!
//! The first part is what the newest snapshots need, in the order of their streams, with each full chunk
//! where it is first needed. The second part is the rest, with similar chunks side by side, or as
//! delta chunks of one of them.
//!
//! Nothing relies on this order. At the end each container is checked: everything that stays of the
//! container must have been stored and published in the needed form, or is copied in the way of a
//! prune, or the container itself stays. So P4 holds whatever happens before.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use cutpoint_delta::super_features;
use cutpoint_storage::{Error, Result};

use super::monitor::{Phase, PruneMonitor, stop_if_cancelled};
use super::plan::Chosen;
use super::rewrite::rewrite;
use super::source::{Failure, Sources, object, readable};
use super::survey::Survey;
use crate::format::commit::Damage;
use crate::format::fingerprint::{Class, Fingerprint};
use crate::format::names::{PartName, TicketId};
use crate::format::recipe::Content;
use crate::format::tree::EntryKind;
use crate::gc::locate::{LiveChunks, staying_numbers};
use crate::index::{Loaded, Location};
use crate::rules;
use crate::snapshots::mark::{Inside, Node, enter, enter_recipe};
use crate::util::cache::TwoGenerationCache;
use crate::util::extsort::ExternalSort;
use crate::write::Inline;

/// Maximum number of full chunks that are remembered by their super-features, which takes 60 MB. Half of
/// them may come from the newest snapshots.
const BASES_MAX: usize = 400_000;
/// Minimum length of a chunk that is stored as a delta chunk, in bytes. A shorter one is not worth a
/// reference.
const RESEMBLING_LEN_MIN: usize = 1024;
/// Memory of the sorter of the order, in bytes.
const SORTER_BYTES: usize = 24 * 1024 * 1024;
/// Number of chunks in cached tables of contents above which the cache is emptied.
const LOADED_CHUNKS_MAX: usize = 400_000;
/// Length of a sort key in bytes: class, form, group, container, number, and the flag for a chunk
/// that is needed whole.
const PLACE_LEN: usize = 1 + 1 + 8 + 4 + 4 + 1;

/// The result of regrouping.
pub(super) struct Regrouped {
    /// Chunks of containers that stay because the chunks could not be stored again.
    pub(super) broken: HashSet<Fingerprint>,
    /// Number of full chunks that became delta chunks, and their total size in bytes.
    pub(super) reencoded_count: u64,
    pub(super) reencoded_bytes: u64,
}

/// Stores again what stays of the rewritten containers. A container is added to `condemned` once
/// all of it was stored again.
pub(super) fn regroup(
    inline: &mut Inline,
    survey: &Survey,
    chosen: &Chosen,
    monitor: &dyn PruneMonitor,
    condemned: &mut Vec<(Class, PartName)>,
) -> Result<Regrouped> {
    let repository = inline.writer().repository().clone();
    let mut regrouping = Regrouping {
        inline,
        survey,
        sources: Sources::new(&repository, &survey.reader),
        chosen,
        monitor,
        moves: fates(survey, chosen),
        damaged: survey.view.damaged(),
        has_delta_chunks: repository.config().uses_delta_chunks(),
        bases: Bases::default(),
        loaded: LoadedLately::default(),
        done_bytes: 0,
        reencoded_count: 0,
        reencoded_bytes: 0,
    };
    regrouping.newest()?;
    regrouping.inline.flush()?;
    regrouping.others()?;
    regrouping.inline.publish()?;
    let broken = regrouping.complete(condemned)?;
    let Regrouping { reencoded_count, reencoded_bytes, .. } = regrouping;
    Ok(Regrouped { broken, reencoded_count, reencoded_bytes })
}

/// Returns the containers that count, each with `true` if it is rewritten and `false` if it stays.
/// Dead and condemned containers are not included.
fn fates(survey: &Survey, chosen: &Chosen) -> HashMap<(Class, PartName), bool> {
    let dead: HashSet<u32> = chosen.dead.iter().copied().collect();
    let containers = (0..).zip(&survey.placement.containers);
    containers
        .filter(|(number, container)| container.is_usable() && !dead.contains(number))
        .map(|(number, container)| (container.name(), chosen.rewritten.contains(&number)))
        .collect()
}

/// Full chunks, indexed by their super-features.
#[derive(Default)]
struct Bases {
    /// Maps a super-feature to the number of the first whole that has it.
    by_feature: HashMap<u64, u32>,
    full_chunks: Vec<(Class, Fingerprint)>,
}

impl Bases {
    /// Returns the first whole that shares a super-feature with `bytes`. If there is none, `chunk`
    /// itself is added and returned, as long as there are fewer than `count_max`.
    fn find_or_add(
        &mut self,
        chunk: (Class, Fingerprint),
        bytes: &[u8],
        count_max: usize,
    ) -> Option<u32> {
        let kind = u64::from(chunk.0 == Class::Meta);
        let features = super_features(bytes)?.map(|feature| feature ^ kind);
        let found = features.iter().find_map(|feature| self.by_feature.get(feature)).copied();
        if found.is_none() && self.full_chunks.len() < count_max {
            let number = u32::try_from(self.full_chunks.len()).ok()?;
            self.full_chunks.push(chunk);
            self.by_feature.extend(features.map(|feature| (feature, number)));
            return Some(number);
        }
        found
    }
}

/// A host and the sources of its snapshot.
type Origin<'a> = (&'a str, &'a [Vec<u8>]);

/// Recently used tables of contents.
#[derive(Default)]
struct LoadedLately {
    loaded: HashMap<u32, Arc<Loaded>>,
    chunk_count: usize,
}

struct Regrouping<'a> {
    inline: &'a mut Inline,
    survey: &'a Survey,
    sources: Sources<'a>,
    chosen: &'a Chosen,
    monitor: &'a dyn PruneMonitor,
    /// The containers that count, with `true` if they are rewritten.
    moves: HashMap<(Class, PartName), bool>,
    damaged: HashSet<Damage>,
    has_delta_chunks: bool,
    bases: Bases,
    loaded: LoadedLately,
    done_bytes: u64,
    reencoded_count: u64,
    reencoded_bytes: u64,
}

impl Regrouping<'_> {
    /// Stores what the newest snapshot of each host and set of sources needs, in the order of its
    /// streams.
    fn newest(&mut self) -> Result<()> {
        let survey = self.survey;
        let mut newest: BTreeMap<Origin<'_>, (i64, TicketId)> = BTreeMap::new();
        let snapshot = |id| survey.view.commits.get(id).and_then(|commit| commit.snapshot());
        for id in &survey.marked {
            let Some(commit) = survey.view.commits.get(id) else { continue };
            let Some(snapshot) = commit.snapshot() else { continue };
            let age = (commit.time_ns, *id);
            let of_source = newest.entry((&snapshot.host, &snapshot.sources)).or_insert(age);
            *of_source = age.max(*of_source);
        }
        let mut newest: Vec<(i64, TicketId)> = newest.into_values().collect();
        newest.sort_unstable_by_key(|age| std::cmp::Reverse(*age));
        let mut roots = newest.iter().filter_map(|(_, id)| snapshot(id));
        let mut seen = TwoGenerationCache::default();
        roots.try_for_each(|snapshot| self.walk(&snapshot.root, &mut seen))
    }

    fn walk(&mut self, root: &Content, seen: &mut TwoGenerationCache<()>) -> Result<()> {
        let mut nodes: Vec<Node> = Vec::new();
        let mut named: Vec<Fingerprint> = Vec::new();
        let mut data = |fingerprint: &Fingerprint, _, _| {
            named.push(*fingerprint);
            Ok(())
        };
        enter(root, true, &mut nodes, &mut data)?;
        while let Some(node) = nodes.pop() {
            if seen.get(&node.key()).is_some() {
                continue;
            }
            seen.put(node.key(), ());
            let fingerprint = node.fingerprint();
            self.take(Class::Meta, &fingerprint, false)?;
            let bytes = readable(self.sources.chunk(Class::Meta, &fingerprint))?;
            let Some(bytes) = bytes else { continue };
            let first = nodes.len();
            let mut data = |fingerprint: &Fingerprint, _, _| {
                named.push(*fingerprint);
                Ok(())
            };
            match readable(self.sources.decode(&node, &bytes))? {
                Some(Inside::Recipe(recipe)) => {
                    let is_tree = matches!(node, Node::Recipe { is_tree: true, .. });
                    enter_recipe(&recipe, is_tree, &mut nodes, &mut data)?;
                }
                Some(Inside::Tree(entries)) => {
                    for entry in entries {
                        let is_tree = entry.kind == EntryKind::Folder;
                        enter(&entry.content, is_tree, &mut nodes, &mut data)?;
                    }
                }
                None => {}
            }
            // Reversed because the last node on the stack is visited first.
            nodes[first..].reverse();
            for fingerprint in named.drain(..) {
                self.take(Class::Data, &fingerprint, false)?;
            }
        }
        Ok(())
    }

    /// Renews the ticket and checks for cancellation.
    fn breathe(&mut self) -> Result<()> {
        // A renewal that fails is ignored: the next one may succeed, and the end of the prune
        // checks (W5).
        self.inline.writer().renew().ok();
        stop_if_cancelled(self.monitor)
    }

    /// Stores a chunk that has to move, unless that was done before. Returns `true` if the chunk
    /// has a place that stays or has been stored. If `whole` is set, only full chunks count.
    fn take(&mut self, class: Class, fingerprint: &Fingerprint, whole: bool) -> Result<bool> {
        self.breathe()?;
        if self.inline.has(class, fingerprint, whole)? {
            return Ok(true);
        }
        let locations = self.sources.locations(class, fingerprint)?;
        let mut found: Option<Location> = None;
        for location in locations.into_iter().filter(|location| location.is_full() || !whole) {
            let container = location.container.name;
            let damage = Damage { class, container, fingerprint: *fingerprint };
            match self.moves.get(&(class, container)) {
                _ if self.damaged.contains(&damage) => {}
                Some(false) => return Ok(true),
                Some(true) if found.as_ref().is_none_or(|found| !found.is_full()) => {
                    found = Some(location);
                }
                _ => {}
            }
        }
        found.map_or(Ok(false), |location| self.store(class, &location))
    }

    /// Stores a chunk again: a full chunk as a full chunk, a delta chunk in its present form behind the full chunks
    /// that it refers to. Returns `true` if the chunk could be read.
    fn store(&mut self, class: Class, location: &Location) -> Result<bool> {
        let record = location.chunk();
        let name = record.fingerprint;
        let Some(bytes) = readable(self.sources.read(class, location))? else { return Ok(false) };
        if location.is_full() {
            self.inline.store_full_chunk(class, name, &bytes)?;
            if self.has_delta_chunks && class == Class::Data {
                self.bases.find_or_add((class, name), &bytes, BASES_MAX / 2);
            }
        } else {
            let Some(extents) = readable(self.sources.extents(class, location))? else {
                return Ok(false);
            };
            let references = location.references();
            let mut taken = HashSet::new();
            let mut is_met = true;
            for extent in extents.iter().filter(|extent| taken.insert(extent.reference)) {
                // The whole may be nowhere else if this record is not the one that was chosen to
                // stay.
                is_met &= self.take(class, &references[usize::from(extent.reference)], true)?;
            }
            let inline = &mut self.inline;
            if !(is_met && inline.store_delta_chunk((class, name), &bytes, &extents, references)?) {
                inline.store_full_chunk(class, name, &bytes)?;
            }
        }
        self.progress(record.payload_len);
        Ok(true)
    }

    fn progress(&mut self, len: u32) {
        self.done_bytes += u64::from(len);
        let total = self.chosen.plan.raw_bytes.max(self.done_bytes);
        self.monitor.progress(Phase::Rewrite, self.done_bytes, total);
    }

    /// Returns the table of contents of a container, if it can be read.
    fn load(&mut self, number: u32) -> Result<Option<Arc<Loaded>>> {
        if let Some(loaded) = self.loaded.loaded.get(&number) {
            return Ok(Some(loaded.clone()));
        }
        let record = self.survey.placement.containers[number as usize].record;
        let Some(loaded) = readable(self.sources.load(record))? else { return Ok(None) };
        let loaded = Arc::new(loaded);
        if self.loaded.chunk_count > LOADED_CHUNKS_MAX {
            self.loaded = LoadedLately::default();
        }
        self.loaded.chunk_count += loaded.toc.chunks.len();
        self.loaded.loaded.insert(number, loaded.clone());
        Ok(Some(loaded))
    }

    /// Stores the rest of what stays, with similar chunks side by side.
    fn others(&mut self) -> Result<()> {
        let survey = self.survey;
        let folder = self.inline.writer().repository().temporary_folder();
        let mut order: ExternalSort<PLACE_LEN> = ExternalSort::new(folder.as_deref(), SORTER_BYTES);
        let mut kept = survey.placement.kept()?;
        let total = self.chosen.rewritten.len() as u64;
        for (done, number) in (0..).zip(&self.chosen.rewritten) {
            self.monitor.progress(Phase::Compare, done, total);
            let kept = kept.of(*number)?;
            let Some(loaded) = self.load(*number)? else { continue };
            let class = loaded.container.class;
            for chunk in staying_numbers(&loaded.toc, &kept) {
                self.breathe()?;
                let location = Location::new(&loaded, chunk);
                let fingerprint = location.chunk().fingerprint;
                let whole = kept[&fingerprint].is_full;
                if self.inline.has(class, &fingerprint, whole)? {
                    continue;
                }
                let mut group = u64::MAX;
                if location.is_full()
                    && let Some(bytes) = readable(self.sources.payload(class, &location))?
                {
                    let found = self.bases.find_or_add((class, fingerprint), &bytes, BASES_MAX);
                    // A chunk that resembles no other stays beside its neighbours.
                    group = found.map_or(self.bases.full_chunks.len() as u64, u64::from);
                }
                order.push(place(&location, group, *number, whole))?;
            }
        }
        kept.end()?;
        let order = order.finish();
        let mut order = order.iter()?;
        while let Some(place) = order.next()? {
            self.breathe()?;
            let (number, chunk, whole) = unplace(&place);
            let Some(loaded) = self.load(number)? else { continue };
            let class = loaded.container.class;
            let location = Location::new(&loaded, chunk);
            let is_stored = self.inline.has(class, &location.chunk().fingerprint, whole)?;
            if !is_stored && (whole || !self.reencode(class, &location)?) {
                self.store(class, &location)?;
            }
        }
        Ok(())
    }

    /// Stores a full chunk as a delta chunk of a similar chunk that was stored as a full chunk. Returns `true`
    /// if that was possible and worthwhile.
    fn reencode(&mut self, class: Class, location: &Location) -> Result<bool> {
        let record = location.chunk();
        let name = record.fingerprint;
        let is_large = record.chunk_len as usize >= RESEMBLING_LEN_MIN;
        if !(self.has_delta_chunks && class == Class::Data && location.is_full() && is_large) {
            return Ok(false);
        }
        let Some(bytes) = readable(self.sources.read(class, location))? else { return Ok(false) };
        let found = self.bases.find_or_add((class, name), &bytes, 0);
        let Some((_, base)) = found.map(|number| self.bases.full_chunks[number as usize]) else {
            return Ok(false);
        };
        // Rule C1: a chunk must not become a delta chunk of itself, nor of a chunk that is not a
        // whole.
        if base == name || !self.inline.has(class, &base, true)? {
            return Ok(false);
        }
        let Some(base_bytes) = readable(self.sources.chunk(class, &base))? else {
            return Ok(false);
        };
        let stored = self.inline.store_resembling((class, name), &bytes, (base, &base_bytes))?;
        if stored {
            self.reencoded_count += 1;
            self.reencoded_bytes += bytes.len() as u64;
            self.progress(record.payload_len);
        }
        Ok(stored)
    }

    /// Condemns each container of which everything that stays is stored and published. The other
    /// containers stay.
    fn complete(&mut self, condemned: &mut Vec<(Class, PartName)>) -> Result<HashSet<Fingerprint>> {
        let survey = self.survey;
        let mut broken = HashSet::new();
        let mut kept = survey.placement.kept()?;
        for number in &self.chosen.rewritten {
            self.breathe()?;
            let container = &survey.placement.containers[*number as usize];
            let mut missing = kept.of(*number)?;
            self.retain_missing(container.record.class, &mut missing)?;
            if !missing.is_empty() {
                match rewrite(self.inline, survey, container, &missing) {
                    Ok(()) => {}
                    Err(Failure::Source(unreadable)) => {
                        let repository = self.inline.writer().repository().clone();
                        survey.pass_over(&repository, unreadable, self.monitor)?;
                        broken.extend(missing.into_keys());
                        continue;
                    }
                    Err(Failure::Other(_)) if rules::may_tolerate_failed_put() => {
                        broken.extend(missing.into_keys());
                        continue;
                    }
                    Err(Failure::Other(error)) => return Err(error),
                }
                self.inline.publish()?;
                self.retain_missing(container.record.class, &mut missing)?;
                if let Some(chunk) = missing.keys().next() {
                    let message = format!("chunk {chunk} could not be stored again");
                    self.monitor.passed_over(&Error::corrupt(object(container.name()), message));
                    broken.extend(missing.into_keys());
                    continue;
                }
            }
            condemned.push(container.name());
        }
        kept.end()?;
        Ok(broken)
    }

    fn retain_missing(&self, class: Class, chunks: &mut LiveChunks) -> Result<()> {
        let mut missing = LiveChunks::new();
        for (fingerprint, need) in chunks.drain() {
            if !self.inline.has(class, &fingerprint, need.is_full)? {
                missing.insert(fingerprint, need);
            }
        }
        *chunks = missing;
        Ok(())
    }
}

fn place(location: &Location, group: u64, container: u32, whole: bool) -> [u8; PLACE_LEN] {
    let mut place = [0; PLACE_LEN];
    place[0] = u8::from(location.container.class == Class::Meta);
    place[1] = u8::from(!location.is_full());
    place[2..10].copy_from_slice(&group.to_be_bytes());
    place[10..14].copy_from_slice(&container.to_be_bytes());
    let chunk = u32::try_from(location.number).unwrap_or(u32::MAX);
    place[14..18].copy_from_slice(&chunk.to_be_bytes());
    place[18] = u8::from(whole);
    place
}

fn unplace(place: &[u8; PLACE_LEN]) -> (u32, usize, bool) {
    let number =
        |at: usize| place[at..at + 4].iter().fold(0, |sum, byte| sum << 8 | u32::from(*byte));
    (number(10), number(14) as usize, place[18] != 0)
}
