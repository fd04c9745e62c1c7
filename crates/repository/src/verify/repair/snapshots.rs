//! Repair of snapshots: writes copies of damaged snapshots without the lost data.
//!
//! A snapshot that has lost data gets a second one beside it, with everything that is left and
//! nothing that was not saved. A file that has lost a part has another name there, so that it
//! cannot be mistaken for a complete one; holes stand for the lost parts. The old snapshot stays.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::Range;
use std::sync::Arc;

use cutpoint_storage::{Error, Kind, Result};

use super::{IndexOptions, is_lost, persist, repair_index, restart_if_ended};
use crate::format::commit::{Outcome, Snapshot};
use crate::format::fingerprint::{Class, Fingerprint};
use crate::format::names::{ObjectName, TicketId};
use crate::format::recipe::{Content, Segment};
use crate::format::ticket::Purpose;
use crate::format::tree::{Entry, EntryKind};
use crate::gc::locate::list_containers;
use crate::index::Loaded;
use crate::read::Reader;
use crate::repo::repository::Repository;
use crate::repo::view::View;
use crate::snapshots::mark::{Inside, Node, decode_recipe};
use crate::util::cache::{self, Key, TwoGenerationCache};
use crate::verify::check::original::is_newer;
use crate::verify::check::{CheckMonitor, CheckOptions, Lost, Portion, find_lost, record};
use crate::write::{ChunkSink, Committed, Inline, RecipeWriter, TreeWriter, Verify, Writer};

/// The suffix of the name of a file that has lost parts.
const MARK: &[u8] = b".cutpoint-damaged";

/// Number of losses of a snapshot that are always reported one by one. After that, losses in a
/// folder that equals an earlier one are only counted, because a small snapshot can have very many
/// paths.
const LOSSES_NAMED_MAX: u64 = 10_000;

/// Maximum number of pieces of a damaged file; nothing is kept of a file with more. 2^30 pieces of
/// 16 KiB are 16 TiB, and a small recipe can name very many.
const PIECES_MAX: u64 = 1 << 30;

/// Maximum number of ranges that are listed for a file: 16 MB.
const RANGES_MAX: usize = 1 << 20;

/// The options of a repair of snapshots.
#[derive(Clone, Copy, Debug, Default)]
pub struct SnapshotOptions {
    /// Set to write nothing, and only report the losses.
    pub dry_run: bool,
    /// Set to forget the snapshots that have lost data, and to give up lost commits.
    pub forget: bool,
    /// The portion of the containers that is read to find losses; `None` to use only the chunks
    /// that `damage` commits name, and those in containers that are gone.
    pub read_data: Option<Portion>,
    /// Number of threads that read containers; 0 for one per processor.
    pub threads: usize,
}

/// A loss in one place of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Loss {
    /// Some or all entries of a folder. Their names are unknown.
    Entries,
    /// A whole file.
    File {
        /// The size of the file in bytes.
        size: u64,
    },
    /// Parts of a file.
    Parts {
        /// The lost bytes of the file; the first 1,048,576 ranges.
        ranges: Vec<Range<u64>>,
        /// The size of the file in bytes.
        size: u64,
        /// The name, in the same folder, under which the rest is kept.
        kept_as: Vec<u8>,
    },
}

/// Receives the losses that a repair finds.
pub trait RepairMonitor: CheckMonitor {
    /// Reports a loss at `path` of a snapshot. The path begins with `/`, and ends with `/` if it is
    /// a folder.
    fn loss(&self, snapshot: TicketId, path: &[u8], loss: &Loss) {
        let _ = (snapshot, path, loss);
    }
}

/// A monitor that ignores everything.
impl RepairMonitor for () {}

/// The outcome for a snapshot that has lost data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The rest of the snapshot was written as this snapshot.
    Repaired(TicketId),
    /// An earlier repair has written this snapshot.
    RepairedBefore(TicketId),
    /// The snapshot would be repaired, but nothing was to be written.
    WouldBeRepaired,
    /// Nothing is left of the snapshot.
    NothingLeft,
    /// A prune has taken the snapshot meanwhile.
    Taken,
}

/// A snapshot that has lost data.
#[derive(Clone, Debug)]
pub struct SnapshotRepair {
    /// The id of the snapshot.
    pub snapshot: TicketId,
    /// The outcome for the snapshot.
    pub fate: Fate,
    /// Number of places with a loss; the maximum of the type means that number or more.
    pub loss_count: u64,
    /// Number of losses that were not passed to [`RepairMonitor::loss`], because they are in
    /// folders that equal others whose losses were reported.
    pub unnamed_count: u64,
    /// Set if some of the lost data may come back, because the storage has refused it, or because
    /// only a container has it that no index names. Such a snapshot is not forgotten.
    pub is_refused: bool,
}

/// The results of a repair of snapshots.
#[derive(Clone, Debug, Default)]
pub struct SnapshotsRepair {
    /// The snapshots that have lost data, oldest first.
    pub snapshots: Vec<SnapshotRepair>,
    /// Snapshots that an earlier repair has written from these while the storage refused to read
    /// some data. The new ones have more, so that the old ones are forgotten with the others.
    pub makeshift: Vec<TicketId>,
    /// Commits that are gone or cannot be read, and whose contents are unknown.
    pub lost_commits: BTreeSet<TicketId>,
    /// Snapshots that were forgotten.
    pub forgotten: Vec<TicketId>,
    /// Snapshots that were not forgotten, because they are held.
    pub held: Vec<TicketId>,
    /// The number of the record by which lost commits were given up.
    pub record: Option<u64>,
}

/// Writes a second snapshot for each listed one that has lost data. The damage is recorded first,
/// so that backups store the data again if they can: a snapshot that such a backup has healed needs
/// no repair.
///
/// # Errors
///
/// Returns any error of [`check`](crate::verify::check::check), [`Writer::begin`] and [`Inline`]. Returns
/// `Storage` if the storage returns a snapshot that it refused at first.
pub fn repair_snapshots(
    repository: &Arc<Repository>,
    options: &SnapshotOptions,
    monitor: &dyn RepairMonitor,
) -> Result<SnapshotsRepair> {
    let check_options = CheckOptions {
        read_data: options.read_data,
        threads: options.threads,
        ..CheckOptions::default()
    };
    let (report, mut lost) = find_lost(repository, &check_options, &Quiet(monitor))?;
    if !options.dry_run {
        record(repository, &report.damages, |_, _| {})?;
    }
    let view = View::list(repository)?;
    let reader = Reader::open(repository.clone(), view.clone())?;
    look_beside_index(&reader, &view, &mut lost)?;
    let suspects: HashSet<Fingerprint> =
        view.damaged().iter().map(|damage| damage.fingerprint).collect();
    let mut survey = Rewriter::new(&reader, &lost, &suspects, monitor);
    let mut done = SnapshotsRepair {
        lost_commits: lost_commits(repository, &lost, &view),
        ..SnapshotsRepair::default()
    };
    for (id, snapshot) in view.snapshots() {
        if lost.unread.contains(&id) {
            let message = "unreadable at first, and readable now; try again";
            return Err(Error::new(Kind::Storage, ObjectName::Commit(id), message));
        }
        if !lost.walked.contains(&id) {
            // The snapshot was put after the check.
            continue;
        }
        survey.begin(id, snapshot);
        survey.rewrite(&snapshot.root, None)?;
        let counts = survey.counts;
        if counts.loss == 0 {
            continue;
        }
        let twins = |is_makeshift| {
            let snapshots = view.snapshots().into_iter();
            snapshots
                .filter(move |(_, twin)| is_repair_of(twin, id, snapshot, is_makeshift))
                .map(|(twin, _)| twin)
        };
        let may_be_makeshift = twins(true).filter(|_| survey.is_refused);
        let fate = match twins(false).chain(may_be_makeshift).next() {
            _ if counts.kept == 0 => Fate::NothingLeft,
            Some(twin) => Fate::RepairedBefore(twin),
            None if options.dry_run => Fate::WouldBeRepaired,
            None => persist("the repaired snapshot", || write(id, &survey))?,
        };
        if !survey.is_refused && matches!(fate, Fate::Repaired(_) | Fate::RepairedBefore(_)) {
            done.makeshift.extend(twins(true));
        }
        done.snapshots.push(SnapshotRepair {
            snapshot: id,
            fate,
            loss_count: counts.loss,
            unnamed_count: survey.unnamed_count,
            is_refused: survey.is_refused,
        });
    }
    if options.forget && !options.dry_run {
        forget(repository, &view, monitor, &mut done)?;
    }
    Ok(done)
}

/// Marks lost chunks as refused if the index has no place of them, but a container that no index
/// names has them, or the storage refuses to read such a container. A repair of the index adds such
/// containers.
fn look_beside_index(reader: &Reader, view: &View, lost: &mut Lost) -> Result<()> {
    let index = reader.index();
    let mut nowhere = HashSet::new();
    for (class, fingerprint) in &lost.chunks {
        if index.hinted_containers(*class, fingerprint)?.is_empty() {
            nowhere.insert((*class, *fingerprint));
        }
    }
    if nowhere.is_empty() {
        return Ok(());
    }
    let mut passed_over = view.condemned();
    passed_over.extend(index.containers().iter().map(|each| (each.class, each.name)));
    for ((class, part), stored_len) in list_containers(reader.repository())? {
        if passed_over.contains(&(class, part)) {
            continue;
        }
        let found: HashSet<Fingerprint> =
            match Loaded::read(reader.repository(), class, part, stored_len) {
                Ok(loaded) => loaded.toc.chunks.iter().map(|it| it.fingerprint).collect(),
                Err(error) if error.kind() == Kind::Storage => {
                    nowhere.iter().filter(|(of, _)| *of == class).map(|(_, it)| *it).collect()
                }
                Err(_) => continue,
            };
        lost.refused.extend(found.into_iter().filter(|it| nowhere.contains(&(class, *it))));
    }
    Ok(())
}

/// Returns the commits that others have seen and that are gone, and those that are damaged.
fn lost_commits(repository: &Repository, lost: &Lost, view: &View) -> BTreeSet<TicketId> {
    let taken = view.taken();
    let unreadable = view.unresolved().filter_map(|(name, error)| match name {
        ObjectName::Commit(ticket) if is_lost(error) && !is_newer(repository, *name) => {
            Some(*ticket)
        }
        _ => None,
    });
    let all = lost.commits.iter().copied().chain(unreadable);
    all.filter(|ticket| !taken.contains(ticket) && !view.commits.contains_key(ticket)).collect()
}

/// Returns the start time of a repaired snapshot: a nanosecond after that of the original, so that
/// the repaired one follows it in every list and differs from all backups. If the storage refused
/// some data during the repair, it is two nanoseconds, because a later repair may find more.
fn started_ns(snapshot: &Snapshot, is_makeshift: bool) -> i64 {
    snapshot.started_ns.saturating_add(1 + i64::from(is_makeshift))
}

fn is_repair_of(twin: &Snapshot, id: TicketId, snapshot: &Snapshot, is_makeshift: bool) -> bool {
    twin.parent == Some(id) && twin.started_ns == started_ns(snapshot, is_makeshift)
}

/// Returns the snapshot that a repair has written from the rest of `id`, if `view` has one that no
/// prune has taken.
pub fn repaired_as(view: &View, id: TicketId) -> Option<TicketId> {
    let snapshot = view.commits.get(&id)?.snapshot()?;
    let is_made_of = |twin: &Snapshot| {
        [false, true].into_iter().any(|makeshift| is_repair_of(twin, id, snapshot, makeshift))
    };
    let all = view.snapshots().into_iter().chain(view.forgotten_snapshots());
    all.filter(|(_, twin)| is_made_of(twin)).map(|(twin, _)| twin).next()
}

/// Writes the rest of a snapshot that `survey` has just traversed. Returns `None` if another client
/// had ended the ticket.
fn write(id: TicketId, survey: &Rewriter<'_>) -> Result<Option<Fate>> {
    let repository = survey.reader.repository();
    let mut writer = Writer::begin(repository.clone(), Purpose::Backup)?;
    // W3: the contents of the snapshot can be reused as long as no prune has taken it.
    let view = writer.view();
    let old = view.commits.get(&id).filter(|_| view.may_take_over(id));
    let Some(old) = old.and_then(|commit| commit.snapshot()).cloned() else {
        writer.void(Vec::new())?;
        return Ok(Some(Fate::Taken));
    };
    let note = writer.view().note(id).cloned();
    let ticket = writer.ticket();
    let reader = Reader::open(repository.clone(), writer.view().clone())?;
    let mut inline = Inline::new(writer, Verify::All)?;
    let mut rewriter = Rewriter::new(&reader, survey.lost, survey.suspects, &());
    rewriter.whole.clone_from(&survey.whole);
    // The survey has reported the losses.
    rewriter.named_max = 0;
    rewriter.begin(id, &old);
    let rewritten = rewriter.rewrite(&old.root, Some(&mut inline));
    let root = match rewritten.and_then(|root| inline.publish().map(|()| root)) {
        Ok(root) => root,
        Err(error) => return restart_if_ended(inline.writer().fail(error)),
    };
    let mut statistics = old.statistics;
    let counts = rewriter.counts;
    statistics.file_count = statistics.file_count.saturating_sub(counts.left_out);
    statistics.size = statistics.size.saturating_sub(counts.left_out_bytes);
    statistics.problem_count = counts.loss;
    let read = [&mut statistics.read_file_count, &mut statistics.read_bytes];
    let new = [&mut statistics.new_chunk_count, &mut statistics.new_bytes];
    read.into_iter().chain(new).for_each(|count| *count = 0);
    statistics.stored_bytes = 0;
    let (tags, description) = note.map_or_else(
        || (old.tags.clone(), old.description.clone()),
        |note| (note.tags, note.description),
    );
    let snapshot = Snapshot {
        root,
        started_ns: started_ns(&old, survey.is_refused),
        parent: Some(id),
        tags,
        description: match description.as_str() {
            "" => format!("what is left of {}", id.short()),
            description => format!("{description} (what is left of {})", id.short()),
        },
        statistics,
        ..old
    };
    let committed = inline.commit(Outcome::Snapshot(Box::new(snapshot)))?;
    Ok((committed == Committed::Done).then_some(Fate::Repaired(ticket)))
}

/// Forgets snapshots that were repaired or of which nothing is left, and gives up lost commits.
fn forget(
    repository: &Arc<Repository>,
    view: &View,
    monitor: &dyn CheckMonitor,
    done: &mut SnapshotsRepair,
) -> Result<()> {
    let held = view.held();
    let ids = done.snapshots.iter().filter(|each| !each.is_refused && each.fate != Fate::Taken);
    let makeshift = done.makeshift.iter().copied();
    let (held, ids): (Vec<_>, Vec<_>) =
        ids.map(|each| each.snapshot).chain(makeshift).partition(|id| held.contains(id));
    done.held = held;
    if !ids.is_empty() {
        persist("record of forgotten snapshots", || {
            let mut writer = Writer::begin(repository.clone(), Purpose::Other)?;
            let outcome = Outcome::Forget(ids.clone());
            let committed = writer.commit(outcome, Vec::new(), &BTreeSet::new())?;
            Ok((committed == Committed::Done).then_some(()))
        })?;
        done.forgotten = ids;
    }
    if !done.lost_commits.is_empty() {
        // The index segments that these commits named are given up with them.
        let given_up = done.lost_commits.clone();
        let options = IndexOptions { given_up, ..IndexOptions::default() };
        done.record = repair_index(repository, &options, monitor)?.record;
    }
    Ok(())
}

/// Forwards progress and the request to stop, but no findings.
struct Quiet<'a>(&'a dyn RepairMonitor);

impl CheckMonitor for Quiet<'_> {
    fn expected(&self, containers: u64, bytes: u64) {
        self.0.expected(containers, bytes);
    }

    fn progress(&self, containers: u64, bytes: u64) {
        self.0.progress(containers, bytes);
    }

    fn cancelled(&self) -> bool {
        self.0.cancelled()
    }
}

/// Traverses a snapshot and, if it has a sink, writes the rest of the snapshot.
struct Rewriter<'a> {
    reader: &'a Reader,
    lost: &'a Lost,
    /// Chunks that are recorded as damaged. Those that can be read all the same are stored again,
    /// because backups that compare with the new snapshot rely on them.
    suspects: &'a HashSet<Fingerprint>,
    monitor: &'a dyn RepairMonitor,
    /// Folders in which nothing is lost or suspect.
    whole: TwoGenerationCache<()>,
    /// Number of losses after which those of folders that were traversed before are only counted.
    named_max: u64,
    // State of the current snapshot:
    id: TicketId,
    cut: String,
    /// The other folders.
    remade: TwoGenerationCache<Remade>,
    /// The streams below recipes.
    streams: TwoGenerationCache<Stream>,
    counts: Counts,
    unnamed_count: u64,
    is_refused: bool,
}

/// The losses and the remains of a snapshot, or of a folder in it. All numbers saturate.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    loss: u64,
    kept: u64,
    left_out: u64,
    left_out_bytes: u64,
}

impl Counts {
    fn add(&mut self, other: Counts) {
        self.loss = self.loss.saturating_add(other.loss);
        self.kept = self.kept.saturating_add(other.kept);
        self.left_out = self.left_out.saturating_add(other.left_out);
        self.left_out_bytes = self.left_out_bytes.saturating_add(other.left_out_bytes);
    }

    /// Returns the increase since these counts were `before`.
    fn since(self, before: Counts) -> Counts {
        Counts {
            loss: self.loss.saturating_sub(before.loss),
            kept: self.kept.saturating_sub(before.kept),
            left_out: self.left_out.saturating_sub(before.left_out),
            left_out_bytes: self.left_out_bytes.saturating_sub(before.left_out_bytes),
        }
    }
}

/// A folder that has been traversed, and differs from the original.
struct Remade {
    content: Content,
    counts: Counts,
}

/// The state of a stream, or of a part of it.
#[derive(Clone, Copy, Debug)]
struct Stream {
    /// Set if no part of the stream is lost or suspect.
    is_well: bool,
    piece_count: u64,
}

/// A piece of a stream.
enum Piece {
    Here(Segment),
    /// Lost bytes, with their number if it is known.
    Lost(Option<u64>),
}

/// An iterator over the pieces of a stream, in order.
struct Pieces {
    class: Class,
    stack: Vec<(u32, std::vec::IntoIter<Segment>)>,
    /// The next recipe chunk, with its level and its length if the one above records them.
    next: Option<(Fingerprint, Option<(u32, u64)>)>,
    /// Set if a chunk was suspect.
    is_suspect: bool,
    /// The cutting algorithm of the stream, if a recipe records it.
    cut: Option<String>,
}

impl Pieces {
    fn new(class: Class, content: &Content) -> Pieces {
        let (mut stack, mut next) = (Vec::new(), None);
        match content {
            Content::Empty | Content::Raw(_) => {}
            Content::Segments(segments) => stack.push((0, segments.clone().into_iter())),
            Content::Recipe(fingerprint) => next = Some((*fingerprint, None)),
        }
        Pieces { class, stack, next, is_suspect: false, cut: None }
    }

    /// Returns the next piece. Suspect recipes are stored again.
    fn next(
        &mut self,
        rewriter: &mut Rewriter<'_>,
        sink: Option<&mut Inline>,
    ) -> Result<Option<Piece>> {
        let mut sink = sink;
        loop {
            if let Some((fingerprint, expected)) = self.next.take() {
                if rewriter.is_lost(Class::Meta, fingerprint) {
                    return Ok(Some(Piece::Lost(expected.map(|(_, length)| length))));
                }
                let bytes = rewriter.reader.chunk(Class::Meta, &fingerprint)?;
                // Levels fall by one at each step, so that every walk ends, whatever a chunk
                // contains.
                let recipe = decode_recipe(fingerprint, expected, &bytes)?;
                if rewriter.suspects.contains(&fingerprint) {
                    self.is_suspect = true;
                    sink.as_mut().map_or(Ok(fingerprint), |sink| sink.store_meta(&bytes))?;
                }
                self.cut.get_or_insert(recipe.cut);
                self.stack.push((recipe.level, recipe.segments.into_iter()));
            }
            let Some((level, segments)) = self.stack.last_mut() else { return Ok(None) };
            match (segments.next(), *level) {
                (None, _) => {
                    self.stack.pop();
                }
                (Some(Segment::Chunk { fingerprint, length, .. }), level) if level > 0 => {
                    self.next = Some((fingerprint, Some((level - 1, length))));
                }
                (Some(Segment::Chunk { fingerprint, length, .. }), _)
                    if rewriter.is_lost(self.class, fingerprint) =>
                {
                    return Ok(Some(Piece::Lost(Some(length))));
                }
                (Some(segment), _) => return Ok(Some(Piece::Here(segment))),
            }
        }
    }
}

/// A folder that is being traversed.
struct Frame {
    /// The folder's entry in the folder above; `None` for the root.
    entry: Option<Entry>,
    /// The path of the folder: empty, or with a `/` before each name.
    path: Vec<u8>,
    pieces: Pieces,
    entries: std::vec::IntoIter<Entry>,
    /// The last name that was read; names must rise.
    name_last: Vec<u8>,
    /// Set if some entries are lost.
    has_lost: bool,
    /// The counts before the folder was entered.
    before: Counts,
    tree: TreeWriter,
    /// Files that are kept under another name, and their losses.
    renamed: BTreeMap<Vec<u8>, Renamed>,
    is_full: bool,
}

struct Renamed {
    entry: Entry,
    path: Vec<u8>,
    ranges: Vec<Range<u64>>,
}

/// The remains of a file.
enum Left {
    Whole,
    /// The whole file, of which suspect chunks were stored again.
    Suspect,
    Nothing,
    Parts(Content, Vec<Range<u64>>),
}

impl<'a> Rewriter<'a> {
    fn new(
        reader: &'a Reader,
        lost: &'a Lost,
        suspects: &'a HashSet<Fingerprint>,
        monitor: &'a dyn RepairMonitor,
    ) -> Rewriter<'a> {
        Rewriter {
            reader,
            lost,
            suspects,
            monitor,
            whole: TwoGenerationCache::default(),
            named_max: LOSSES_NAMED_MAX,
            id: TicketId([0; 12]),
            cut: String::new(),
            remade: TwoGenerationCache::default(),
            streams: TwoGenerationCache::default(),
            counts: Counts::default(),
            unnamed_count: 0,
            is_refused: false,
        }
    }

    fn begin(&mut self, id: TicketId, snapshot: &Snapshot) {
        (self.id, self.cut) = (id, snapshot.cut.clone());
        self.remade.clear();
        self.streams.clear();
        (self.counts, self.unnamed_count) = (Counts::default(), 0);
        self.is_refused = false;
    }

    fn is_lost(&mut self, class: Class, fingerprint: Fingerprint) -> bool {
        let is_lost = self.lost.chunks.contains(&(class, fingerprint));
        self.is_refused |= is_lost && self.lost.refused.contains(&fingerprint);
        is_lost
    }

    fn loss(&mut self, path: &[u8], loss: &Loss) {
        self.counts.add(Counts { loss: 1, ..Counts::default() });
        self.monitor.loss(self.id, path, loss);
    }

    fn stop_if_cancelled(&self) -> Result<()> {
        if self.monitor.cancelled() {
            return Err(Error::new(Kind::Interrupted, "repair", "interrupted"));
        }
        Ok(())
    }

    /// Traverses the tree of a snapshot. Returns the root's new content if there is a sink.
    fn rewrite(&mut self, root: &Content, mut sink: Option<&mut Inline>) -> Result<Content> {
        // An explicit stack, because folders can be nested deeper than a thread's stack allows.
        let mut stack = vec![self.frame(None, Vec::new(), root)?];
        loop {
            self.stop_if_cancelled()?;
            let Some(mut frame) = stack.pop() else { return Ok(Content::Empty) };
            match self.step(&mut frame, sink.as_deref_mut())? {
                Step::Stay => stack.push(frame),
                Step::Down(below) => {
                    stack.push(frame);
                    stack.push(*below);
                }
                Step::Done => {
                    let (entry, content) = self.finish(frame, sink.as_deref_mut())?;
                    let Some((above, entry)) = stack.last_mut().zip(entry) else {
                        return Ok(content);
                    };
                    let is_full = self.whole.get(&key(&entry.content)).is_some();
                    above.is_full &= is_full;
                    let content = if is_full { entry.content } else { content };
                    above.push(Entry { content, ..entry }, self, sink.as_deref_mut())?;
                }
            }
        }
    }

    fn step(&mut self, frame: &mut Frame, sink: Option<&mut Inline>) -> Result<Step> {
        if let Some(entry) = frame.entries.next() {
            let path = [&frame.path[..], b"/", &entry.name].concat();
            match entry.kind {
                EntryKind::Folder => return self.folder(frame, entry, path, sink),
                EntryKind::File => self.file(frame, entry, path, sink)?,
                _ => frame.push(entry, self, sink)?,
            }
            return Ok(Step::Stay);
        }
        match frame.pieces.next(self, sink)? {
            None => return Ok(Step::Done),
            Some(Piece::Lost(_)) => self.lose_entries(frame),
            Some(Piece::Here(Segment::Chunk { fingerprint, length, .. })) => {
                let bytes = self.reader.chunk(Class::Meta, &fingerprint)?;
                match (Node::Tree { fingerprint, length }).decode(&bytes)? {
                    Inside::Tree(entries) if frame.rises_to(&entries) => {
                        frame.is_full &= !self.suspects.contains(&fingerprint);
                        frame.entries = entries.into_iter();
                    }
                    _ => self.lose_entries(frame),
                }
            }
            Some(Piece::Here(_)) => return Err(Error::corrupt("tree", "has holes")),
        }
        Ok(Step::Stay)
    }

    /// Reuses a folder that is known, or descends into it.
    fn folder(
        &mut self,
        frame: &mut Frame,
        entry: Entry,
        path: Vec<u8>,
        sink: Option<&mut Inline>,
    ) -> Result<Step> {
        let key = key(&entry.content);
        let may_name = self.counts.loss < self.named_max;
        let remade = self.remade.get(&key).filter(|it| it.counts.loss == 0 || !may_name);
        if let Some(Remade { content, counts }) = remade {
            let entry = Entry { content: content.clone(), ..entry };
            let counts = *counts;
            self.counts.add(counts);
            self.unnamed_count = self.unnamed_count.saturating_add(counts.loss);
            frame.is_full = false;
            frame.push(entry, self, sink)?;
        } else if self.whole.get(&key).is_some() {
            frame.push(entry, self, sink)?;
        } else {
            let content = entry.content.clone();
            return Ok(Step::Down(Box::new(self.frame(Some(entry), path, &content)?)));
        }
        Ok(Step::Stay)
    }

    /// Creates the frame of a folder that is to be traversed.
    fn frame(&mut self, entry: Option<Entry>, path: Vec<u8>, content: &Content) -> Result<Frame> {
        let is_too_long = self.stream(Class::Meta, content)?.piece_count > PIECES_MAX;
        let content = if is_too_long { &Content::Empty } else { content };
        let mut frame = Frame::new(entry, path, content);
        frame.before = self.counts;
        if is_too_long {
            self.lose_entries(&mut frame);
        }
        Ok(frame)
    }

    fn lose_entries(&mut self, frame: &mut Frame) {
        frame.is_full = false;
        if !std::mem::replace(&mut frame.has_lost, true) {
            self.loss(&[&frame.path[..], b"/"].concat(), &Loss::Entries);
        }
    }

    /// Examines each recipe of a stream once.
    fn stream(&mut self, class: Class, content: &Content) -> Result<Stream> {
        match content {
            Content::Empty | Content::Raw(_) => Ok(Stream { is_well: true, piece_count: 0 }),
            Content::Segments(segments) => self.stream_of(class, 0, segments),
            Content::Recipe(fingerprint) => self.stream_below(class, *fingerprint, None),
        }
    }

    fn stream_of(&mut self, class: Class, level: u32, segments: &[Segment]) -> Result<Stream> {
        let mut stream = Stream { is_well: true, piece_count: 0 };
        for segment in segments {
            let part = match *segment {
                Segment::Chunk { fingerprint, length, .. } if level > 0 => {
                    self.stream_below(class, fingerprint, Some((level - 1, length)))?
                }
                Segment::Chunk { fingerprint, .. } => {
                    let is_suspect = self.suspects.contains(&fingerprint);
                    let is_well = !self.is_lost(class, fingerprint) && !is_suspect;
                    Stream { is_well, piece_count: 1 }
                }
                Segment::Hole { .. } | Segment::Zeros { .. } => {
                    Stream { is_well: true, piece_count: 1 }
                }
            };
            stream.is_well &= part.is_well;
            stream.piece_count = stream.piece_count.saturating_add(part.piece_count);
        }
        Ok(stream)
    }

    /// Examines the stream below a recipe. Levels fall, so that the recursion is shallow.
    fn stream_below(
        &mut self,
        class: Class,
        fingerprint: Fingerprint,
        expected: Option<(u32, u64)>,
    ) -> Result<Stream> {
        let key = cache::key(&fingerprint, u8::from(class == Class::Meta));
        if let Some(stream) = self.streams.get(&key) {
            return Ok(*stream);
        }
        let stream = if self.is_lost(Class::Meta, fingerprint) {
            Stream { is_well: false, piece_count: 1 }
        } else {
            let bytes = self.reader.chunk(Class::Meta, &fingerprint)?;
            let recipe = decode_recipe(fingerprint, expected, &bytes)?;
            let mut stream = self.stream_of(class, recipe.level, &recipe.segments)?;
            stream.is_well &= !self.suspects.contains(&fingerprint);
            stream
        };
        self.streams.put(key, stream);
        Ok(stream)
    }

    /// Adds a file, or the remains of it.
    fn file(
        &mut self,
        frame: &mut Frame,
        entry: Entry,
        path: Vec<u8>,
        mut sink: Option<&mut Inline>,
    ) -> Result<()> {
        match self.left(&entry, sink.as_deref_mut())? {
            Left::Whole => frame.push(entry, self, sink),
            Left::Suspect => {
                frame.is_full = false;
                frame.push(entry, self, sink)
            }
            Left::Nothing => {
                frame.is_full = false;
                let left_out_bytes = entry.size;
                self.counts.add(Counts { left_out: 1, left_out_bytes, ..Counts::default() });
                self.loss(&path, &Loss::File { size: entry.size });
                Ok(())
            }
            Left::Parts(content, ranges) => {
                frame.is_full = false;
                // A file that has the suffix from an earlier repair keeps its name.
                let mark = if entry.name.ends_with(MARK) { &[] } else { MARK };
                let name = [&entry.name[..], mark].concat();
                frame.rename(name, Renamed { entry: Entry { content, ..entry }, path, ranges });
                Ok(())
            }
        }
    }

    fn left(&mut self, entry: &Entry, mut sink: Option<&mut Inline>) -> Result<Left> {
        let stream = self.stream(Class::Data, &entry.content)?;
        if stream.is_well {
            return Ok(Left::Whole);
        }
        if stream.piece_count > PIECES_MAX {
            return Ok(Left::Nothing);
        }
        let mut pieces = Pieces::new(Class::Data, &entry.content);
        let mut ranges: Vec<Range<u64>> = Vec::new();
        let (mut offset, mut lost) = (0_u64, 0_u64);
        while let Some(piece) = pieces.next(self, sink.as_deref_mut())? {
            self.stop_if_cancelled()?;
            let start = offset;
            match piece {
                Piece::Here(segment) => {
                    offset = offset.saturating_add(segment.length());
                    let Segment::Chunk { fingerprint, .. } = segment else { continue };
                    if self.suspects.contains(&fingerprint) {
                        pieces.is_suspect = true;
                        if let Some(sink) = sink.as_deref_mut() {
                            sink.store_data(&self.reader.chunk(Class::Data, &fingerprint)?)?;
                        }
                    }
                }
                Piece::Lost(length) => {
                    offset = offset.saturating_add(length.unwrap_or(entry.size));
                    lost = lost.saturating_add(offset - start);
                    let has_room = ranges.len() < RANGES_MAX;
                    match ranges.last_mut() {
                        Some(last) if last.end == start => last.end = offset,
                        _ if has_room => ranges.push(start..offset),
                        _ => {}
                    }
                }
            }
        }
        if ranges.is_empty() {
            return Ok(if pieces.is_suspect { Left::Suspect } else { Left::Whole });
        }
        if lost >= entry.size {
            return Ok(Left::Nothing);
        }
        let Some(sink) = sink else { return Ok(Left::Parts(Content::Empty, ranges)) };
        let mut recipe = RecipeWriter::new(pieces.cut.unwrap_or_else(|| self.cut.clone()));
        let mut pieces = Pieces::new(Class::Data, &entry.content);
        while let Some(piece) = pieces.next(self, None)? {
            let segment = match piece {
                Piece::Here(segment) => segment,
                Piece::Lost(length) => Segment::Hole { length: length.unwrap_or(entry.size) },
            };
            recipe.push(segment, sink)?;
        }
        Ok(Left::Parts(recipe.finish(sink)?, ranges))
    }

    /// Ends a folder. Returns its entry and, if there is a sink, its new content.
    fn finish(
        &mut self,
        mut frame: Frame,
        mut sink: Option<&mut Inline>,
    ) -> Result<(Option<Entry>, Content)> {
        while let Some((name, renamed)) = frame.renamed.pop_first() {
            frame.push_renamed(name, renamed, self, sink.as_deref_mut())?;
        }
        let is_full = frame.is_full && !frame.pieces.is_suspect;
        let content = sink.map_or(Ok(Content::Empty), |sink| frame.tree.finish(sink))?;
        match &frame.entry {
            Some(entry) if is_full => self.whole.put(key(&entry.content), ()),
            Some(entry) => {
                let (content, counts) = (content.clone(), self.counts.since(frame.before));
                self.remade.put(key(&entry.content), Remade { content, counts });
            }
            None => {}
        }
        Ok((frame.entry, content))
    }
}

enum Step {
    /// The folder has more entries.
    Stay,
    /// A subfolder has to be traversed first.
    Down(Box<Frame>),
    Done,
}

impl Frame {
    fn new(entry: Option<Entry>, path: Vec<u8>, content: &Content) -> Frame {
        Frame {
            entry,
            path,
            pieces: Pieces::new(Class::Meta, content),
            entries: Vec::new().into_iter(),
            name_last: Vec::new(),
            has_lost: false,
            before: Counts::default(),
            tree: TreeWriter::new(),
            renamed: BTreeMap::new(),
            is_full: true,
        }
    }

    /// Returns `true` if these entries can come next. The chunks of a folder form one tree, in
    /// which names rise.
    fn rises_to(&mut self, entries: &[Entry]) -> bool {
        let (Some(first), Some(last)) = (entries.first(), entries.last()) else { return true };
        let rises = first.name > self.name_last;
        if rises {
            self.name_last.clone_from(&last.name);
        }
        rises
    }

    /// Adds the next entry, preceded by renamed ones that sort before it.
    fn push(
        &mut self,
        entry: Entry,
        rewriter: &mut Rewriter<'_>,
        mut sink: Option<&mut Inline>,
    ) -> Result<()> {
        while let Some(first) = self.renamed.first_entry() {
            if *first.key() > entry.name {
                break;
            }
            let (name, renamed) = first.remove_entry();
            if name == entry.name {
                // The name is taken, so a character is appended, and the entry comes later.
                self.rename([&name[..], b"+"].concat(), renamed);
            } else {
                self.push_renamed(name, renamed, rewriter, sink.as_deref_mut())?;
            }
        }
        self.write(&entry, rewriter, sink)
    }

    fn rename(&mut self, mut name: Vec<u8>, renamed: Renamed) {
        while self.renamed.contains_key(&name) {
            name.push(b'+');
        }
        self.renamed.insert(name, renamed);
    }

    fn push_renamed(
        &mut self,
        name: Vec<u8>,
        renamed: Renamed,
        rewriter: &mut Rewriter<'_>,
        sink: Option<&mut Inline>,
    ) -> Result<()> {
        let Renamed { entry, path, ranges } = renamed;
        let loss = Loss::Parts { ranges, size: entry.size, kept_as: name.clone() };
        rewriter.loss(&path, &loss);
        self.write(&Entry { name, ..entry }, rewriter, sink)
    }

    fn write(
        &mut self,
        entry: &Entry,
        rewriter: &mut Rewriter<'_>,
        sink: Option<&mut Inline>,
    ) -> Result<()> {
        rewriter.counts.add(Counts { kept: 1, ..Counts::default() });
        let Some(sink) = sink else { return Ok(()) };
        self.tree.push(entry, rewriter.reader.repository().keys(), sink)
    }
}

/// Returns a key that identifies the content of a folder.
fn key(content: &Content) -> Key {
    let mut packed = Vec::new();
    match content {
        Content::Recipe(fingerprint) => return cache::key(fingerprint, 0),
        Content::Segments(segments) => {
            segments.iter().for_each(|segment| segment.pack_into(&mut packed));
        }
        Content::Empty | Content::Raw(_) => {}
    }
    cache::key(&Fingerprint(*blake3::hash(&packed).as_bytes()), 1)
}
