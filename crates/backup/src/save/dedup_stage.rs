//! The dedup stage: decides, batch by batch and in order, which chunks are new, and builds recipes
//! and trees.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use cutpoint_repository::format::recipe::Segment;
use cutpoint_repository::format::tree::Defect;
use cutpoint_repository::write::{
    Deduplicator, DeltaStrategy, RecentRegions, RecipeWriter, StrategyRecord, TreeWriter,
};
use cutpoint_repository::{Class, Content, Entry, EntryKind, Keys, Reader, Statistics};
use cutpoint_storage::Error;

use super::batch::{Batch, Cut, Event, SourceLinkKey};
use super::channels::{DedupEnds, RegionEnds, SaveJob, ToContainers, ToDedup};
use super::chunk_rebuilder::{ChunkRebuilder, DamagedPart};
use super::in_order::InOrder;
use super::member_stage::MemberStage;
use super::run_state::RunState;
use super::shutdown::{Result, Shutdown};
use crate::tar_input::MemberStep;

/// A folder with entries still to come.
struct OpenFolder {
    /// The entry of the folder; `None` for the root.
    entry: Option<Box<Entry>>,
    tree: TreeWriter,
}

/// The data that all names of a file share.
struct LinkedFile {
    content: Content,
    size: u64,
    xattrs: Vec<(Vec<u8>, Vec<u8>)>,
    defect: Option<Defect>,
}

/// The stage that processes batches in order and stores their chunks in the deduplicator.
pub(super) struct DedupStage<'a> {
    keys: Keys,
    pub(super) dedup: Deduplicator,
    /// The strategy by which new chunks are compared with old ones, if the settings ask for one.
    pub(super) strategy: Option<Box<dyn DeltaStrategy + 'a>>,
    cut: String,
    /// The repository from which chunks are copied as they are.
    pub(super) source: Option<&'a Reader>,
    /// The members so far, if the source is an archive.
    pub(super) members: Option<MemberStage<'a>>,
    folders: Vec<OpenFolder>,
    file: Option<RecipeWriter>,
    /// The chunk that small files share at present.
    bundle: Option<Cut>,
    rebuilder: ChunkRebuilder,
    /// The contents of files that have several names.
    links: HashMap<SourceLinkKey, LinkedFile>,
    pub(super) statistics: Statistics,
    /// The number of further names of files whose first name could not be read.
    links_without_content: u64,
    /// The number of members of an archive that are not saved.
    refused_members: u64,
}

impl<'a> DedupStage<'a> {
    pub(super) fn new(
        keys: Keys,
        dedup: Deduplicator,
        strategy: Option<Box<dyn DeltaStrategy + 'a>>,
        cut: String,
    ) -> DedupStage<'a> {
        DedupStage {
            keys,
            dedup,
            strategy,
            cut,
            source: None,
            members: None,
            folders: vec![OpenFolder { entry: None, tree: TreeWriter::new() }],
            file: None,
            bundle: None,
            rebuilder: ChunkRebuilder::default(),
            links: HashMap::new(),
            statistics: Statistics::default(),
            links_without_content: 0,
            refused_members: 0,
        }
    }

    /// Returns the place of encoded regions, if chunks are compared with those of the same run.
    pub(super) fn recent_regions(&self) -> Option<Arc<RecentRegions>> {
        self.strategy.as_ref()?.recent_regions()
    }

    /// The number of entries that are not saved, except those that the source stage has counted.
    pub(super) fn problem_count(&self) -> u64 {
        self.links_without_content + self.refused_members
    }

    /// Processes all batches. Returns the stage, and the content of the root folder if the source
    /// ended well.
    pub(super) fn run(
        mut self,
        ends: DedupEnds,
        state: &RunState,
    ) -> Result<(DedupStage<'a>, Option<Content>)> {
        let shutdown = &state.shutdown;
        let mut batches = InOrder::new();
        let recent = self.recent_regions();
        let mut sender = RegionSender { ends: ends.regions, shutdown, recent, region_count: 0 };
        let mut source_ok = false;
        while !batches.is_complete() {
            match shutdown.expect(&ends.batches)? {
                ToDedup::Batch(batch) => batches.insert(batch.number, batch),
                ToDedup::End { batch_count, source_ok: is_ok } => {
                    batches.end_at(batch_count);
                    source_ok = is_ok;
                }
            }
            while let Some(mut batch) = batches.next() {
                for regions in ends.published.try_iter() {
                    self.dedup.forget_published(|region| regions.contains(&region));
                }
                let processed = self.process(&mut batch, &mut |dedup| sender.forward(dedup));
                if processed.is_err() && sender.recent.as_ref().is_some_and(|it| it.is_ended()) {
                    // The failure of the other stage is the cause, and may not be recorded yet.
                    return Err(shutdown.wait_until_over().into());
                }
                processed?;
                state.set_statistics(Statistics {
                    new_chunk_count: self.dedup.new_chunk_count(Class::Data),
                    new_bytes: self.dedup.new_bytes(Class::Data),
                    ..self.statistics
                });
                shutdown.offer(&ends.free_batches, batch)?;
                sender.forward(&mut self.dedup)?;
            }
        }
        self.rebuilder.finish(&self.keys, &mut self.dedup)?;
        let root = if source_ok {
            self.save_members(state, &mut |dedup| sender.forward(dedup))?;
            Some(self.finish()?)
        } else {
            // The chunks stored so far are published all the same, so that the next run finds them.
            self.dedup.flush();
            None
        };
        sender.forward(&mut self.dedup)?;
        let record = self.strategy.as_ref().map(|strategy| strategy.record()).unwrap_or_default();
        sender.end(record)?;
        Ok((self, root))
    }

    /// Processes one batch. `forward` sends the regions of the deduplicator that are full.
    fn process(
        &mut self,
        batch: &mut Batch,
        forward: &mut dyn FnMut(&mut Deduplicator) -> Result<()>,
    ) -> Result<()> {
        let bytes = &batch.bytes;
        for event in batch.events.drain(..) {
            match event {
                Event::Enter(entry) => {
                    self.folders.push(OpenFolder { entry: Some(entry), tree: TreeWriter::new() });
                }
                Event::Leave => self.leave()?,
                Event::Entry(entry) => {
                    let key = SourceLinkKey::of(&entry);
                    self.add(*entry, key)?;
                }
                Event::Link(mut entry) => {
                    match self.links.get(&SourceLinkKey::of(&entry)) {
                        Some(linked) => {
                            entry.content = linked.content.clone();
                            entry.size = linked.size;
                            entry.xattrs.clone_from(&linked.xattrs);
                            entry.defect = linked.defect;
                            self.push(&entry)?;
                            self.statistics.file_count += 1;
                        }
                        // The first name of the file could not be read, and was reported as a
                        // problem then.
                        None => {
                            self.links_without_content += 1;
                            self.lack();
                        }
                    }
                }
                Event::Member(path) => self.members()?.begin(path),
                Event::MemberLink { path, target } => self.members()?.link(&path, &target)?,
                Event::Begin(previous) => self.compare_with(previous.as_deref()),
                Event::Chunk(cut) => {
                    self.store(&cut, bytes, forward)?;
                    self.push_segment(cut.segment(0, cut.len as u64))?;
                }
                Event::Damaged { part, start } => {
                    self.rebuild(&part, &bytes[start..])?;
                    self.forward(forward)?;
                }
                Event::Bundle(cut, previous) => {
                    self.compare_with(previous.as_deref());
                    self.store(&cut, bytes, forward)?;
                    self.compare_with(None);
                    self.bundle = Some(cut);
                }
                Event::Part { offset, length } => {
                    let bundle = self.bundle.ok_or_else(misordered)?;
                    self.push_segment(bundle.segment(offset, length))?;
                }
                Event::Segment(segment) => self.push_segment(segment)?,
                Event::Known(segment) => {
                    self.refer(&segment)?;
                    self.forward(forward)?;
                    self.push_segment(segment)?;
                }
                Event::File(mut entry) => {
                    self.compare_with(None);
                    let recipe = self.file.take();
                    let recipe = recipe.unwrap_or_else(|| RecipeWriter::new(self.cut.clone()));
                    let key = SourceLinkKey::of(&entry);
                    // The size that was read counts, in case the file has changed meanwhile.
                    entry.size = recipe.size();
                    entry.content = recipe.finish(&mut self.dedup)?;
                    self.add(*entry, key)?;
                }
                Event::Dropped => {
                    self.compare_with(None);
                    self.file = None;
                }
                Event::Lacking => self.lack(),
            }
        }
        Ok(())
    }

    fn members(&mut self) -> Result<&mut MemberStage<'a>> {
        Ok(self.members.as_mut().ok_or_else(misordered)?)
    }

    /// Builds the trees of the members of an archive, if the source is one. `forward` sends the
    /// regions of the deduplicator that are full.
    fn save_members(
        &mut self,
        state: &RunState,
        forward: &mut dyn FnMut(&mut Deduplicator) -> Result<()>,
    ) -> Result<()> {
        let Some(mut members) = self.members.take() else { return Ok(()) };
        let monitor = members.monitor();
        let mut steps = members.finish(&self.keys)?;
        while let Some(step) = steps.next_step()? {
            state.shutdown.check()?;
            match step {
                MemberStep::Enter(entry) => {
                    self.folders.push(OpenFolder { entry: Some(entry), tree: TreeWriter::new() });
                }
                MemberStep::Leave => self.leave()?,
                MemberStep::Entry(entry) => {
                    let key = SourceLinkKey::of(&entry);
                    self.add(*entry, key)?;
                }
                MemberStep::Link(entry) => {
                    self.push(&entry)?;
                    self.statistics.file_count += 1;
                }
                MemberStep::Problem(path, reason) => {
                    self.refused_members += 1;
                    let path = Path::new(OsStr::from_bytes(&path));
                    monitor.problem(path, &format!("not saved: {reason}"));
                    self.lack();
                }
            }
            if self.dedup.has_regions() {
                forward(&mut self.dedup)?;
            }
        }
        Ok(())
    }

    /// Stores a chunk, unless it is known or consists of zeros.
    fn store(
        &mut self,
        cut: &Cut,
        batch: &[u8],
        forward: &mut dyn FnMut(&mut Deduplicator) -> Result<()>,
    ) -> Result<()> {
        if cut.zeros {
            return Ok(());
        }
        let chunk = cut.bytes(batch);
        match &mut self.strategy {
            None => self.dedup.store(Class::Data, cut.fingerprint, chunk)?,
            Some(strategy) => self.dedup.store_similar(cut.fingerprint, chunk, &mut **strategy)?,
        };
        self.forward(forward)
    }

    /// Sends the regions that are full. Called after each chunk, because a comparison may wait for a
    /// region that an earlier chunk has filled.
    fn forward(&mut self, forward: &mut dyn FnMut(&mut Deduplicator) -> Result<()>) -> Result<()> {
        if self.dedup.has_regions() { forward(&mut self.dedup) } else { Ok(()) }
    }

    /// Adds the part of a damaged chunk that `bytes` begins with.
    fn rebuild(&mut self, part: &DamagedPart, bytes: &[u8]) -> Result<()> {
        let len = usize::try_from(part.length).unwrap_or(usize::MAX);
        let target = (&self.keys, &mut self.dedup);
        Ok(self.rebuilder.add(part.fingerprint, part.offset, &bytes[..len], target)?)
    }

    /// Refers to the chunk of a segment by rule W2. Stores the chunk if it does not count.
    fn refer(&mut self, segment: &Segment) -> Result<()> {
        let Segment::Chunk { fingerprint, .. } = segment else { return Ok(()) };
        if self.dedup.refer(Class::Data, fingerprint)? {
            return Ok(());
        }
        let source = self.source.ok_or_else(misordered)?;
        let chunk = source.chunk(Class::Data, fingerprint)?;
        self.dedup.store(Class::Data, *fingerprint, &chunk)?;
        Ok(())
    }

    fn compare_with(&mut self, previous: Option<&Content>) {
        if let Some(strategy) = &mut self.strategy {
            strategy.begin(previous);
        }
    }

    fn push_segment(&mut self, segment: Segment) -> Result<()> {
        let recipe = self.file.get_or_insert_with(|| RecipeWriter::new(self.cut.clone()));
        Ok(recipe.push(segment, &mut self.dedup)?)
    }

    fn push(&mut self, entry: &Entry) -> Result<()> {
        let folder = self.folders.last_mut().ok_or_else(misordered)?;
        Ok(folder.tree.push(entry, &self.keys, &mut self.dedup)?)
    }

    /// Marks the innermost open folder as lacking something.
    fn lack(&mut self) {
        if let Some(entry) = self.folders.last_mut().and_then(|folder| folder.entry.as_mut()) {
            entry.defect = Some(Defect::Lacking);
        }
    }

    /// Adds an entry; that of a member of an archive later. If it is a file with several names, further names find it by `key`.
    fn add(&mut self, entry: Entry, key: SourceLinkKey) -> Result<()> {
        if let Some(members) = &mut self.members {
            return Ok(members.push(&entry)?);
        }
        self.push(&entry)?;
        if entry.kind == EntryKind::File {
            self.statistics.file_count += 1;
            self.statistics.size += entry.size;
        } else {
            self.statistics.other_count += 1;
        }
        if entry.is_hard_link() {
            let Entry { content, size, xattrs, defect, .. } = entry;
            self.links.insert(key, LinkedFile { content, size, xattrs, defect });
        }
        Ok(())
    }

    fn leave(&mut self) -> Result<()> {
        let folder = self.folders.pop().ok_or_else(misordered)?;
        let mut entry = folder.entry.ok_or_else(misordered)?;
        entry.content = folder.tree.finish_below(&mut self.dedup)?;
        self.statistics.folder_count += 1;
        self.push(&entry)
    }

    /// Ends the root folder and closes the open regions. Returns the content of the root folder.
    fn finish(&mut self) -> Result<Content> {
        let root = self.folders.pop().ok_or_else(misordered)?;
        let content = root.tree.finish(&mut self.dedup)?;
        self.dedup.flush();
        Ok(content)
    }
}

/// Sends full regions to the workers or, if they need no encoding, to the container stage. A dry run
/// drops them.
struct RegionSender<'a> {
    ends: Option<RegionEnds>,
    shutdown: &'a Shutdown,
    recent: Option<Arc<RecentRegions>>,
    /// The number of regions sent so far, which is the number of the next one.
    region_count: u64,
}

impl RegionSender<'_> {
    /// Sends the full regions of `dedup`.
    fn forward(&mut self, dedup: &mut Deduplicator) -> Result<()> {
        for region in dedup.take_regions() {
            let Some(ends) = &self.ends else { continue };
            let buffers = self.shutdown.expect(&ends.free_buffers)?;
            if buffers.raw.capacity() > 0 {
                dedup.recycle(buffers.raw);
            }
            // A region that does not shrink needs no worker.
            match region.stored(buffers.encoded) {
                Ok(region) => {
                    if let Some(recent) = &self.recent {
                        recent.put(&region);
                    }
                    let region = ToContainers::Region(self.region_count, region);
                    self.shutdown.send(&ends.containers, region)?;
                }
                Err((region, buffer)) => {
                    let job = SaveJob::Encode(self.region_count, region, buffer);
                    self.shutdown.send(&ends.jobs, job)?;
                }
            }
            self.region_count += 1;
        }
        Ok(())
    }

    /// Sends the end of the regions.
    fn end(self, record: StrategyRecord) -> Result<()> {
        let Some(ends) = &self.ends else { return Ok(()) };
        let end = ToContainers::End { region_count: self.region_count, record };
        Ok(self.shutdown.send(&ends.containers, end)?)
    }
}

fn misordered() -> Error {
    Error::invalid("backup", "folders end that did not begin")
}
