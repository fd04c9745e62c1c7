//! Commits: the outcomes of writers. Nothing comes to exist except by a commit.

use cutpoint_storage::{Error, Result};
use minicbor::Decoder;

use super::config::read_texts;
use super::map::{Extra, MapWriter, at_end, malformed, read_array, read_fixed, read_map, required};
use super::origin::read_ids_of_origin;
pub use super::origin::{CopyCoverage, Origin, OriginId, OriginKey, Tool};
use super::recipe::Content;
use crate::format::fingerprint::{Class, Fingerprint};
use crate::format::names::{PartName, TicketId};
use crate::format::segment::Segment;

/// The body of `commits/<t>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// The outcome of the writer.
    pub outcome: Outcome,
    /// The index segments that this commit publishes.
    pub segments: Vec<PartName>,
    /// The body of the last of `segments`, if no object has it. Only a snapshot may have one.
    pub embedded: Option<Box<Segment>>,
    /// The view of the writer.
    pub view: ViewRecord,
    /// The time of the commit, in nanoseconds since 1970 by the writer's clock.
    pub time_ns: i64,
    /// Entries that a newer version wrote.
    pub extra: Extra,
}

/// The outcome of a writer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A snapshot.
    Snapshot(Box<Snapshot>),
    /// No result; the chunks that its segments name stay.
    Void {
        /// Set if the writer of the ticket itself put the void, and had put no other commit before.
        /// Otherwise a commit of that writer may still arrive.
        is_own: bool,
    },
    /// The removal of snapshots from the lists.
    Forget(Vec<TicketId>),
    /// Tags and a description for a snapshot.
    Note(Note),
    /// The chunks that a check found broken.
    Damage(Vec<Damage>),
    /// Copies of chunks that late snapshots need.
    Rescue,
    /// The deletion of the containers that this prune had condemned.
    Swept(u64),
}

/// A compact record of a writer's view.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ViewRecord {
    /// The highest number under `prunes/`, or 0 if there was none.
    pub prune: u64,
    /// The commits in the view that no other commit of the view names.
    pub new: Vec<TicketId>,
    /// BLAKE3 of the sorted ids of all commits in the view.
    pub digest: [u8; 32],
}

/// The state of a tree at one time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The content of the root folder.
    pub root: Content,
    /// The paths that were saved, as arbitrary bytes.
    pub sources: Vec<Vec<u8>>,
    /// The name of the machine.
    pub host: String,
    /// The user that ran the backup.
    pub user: String,
    /// The time at which the backup began, in nanoseconds since 1970. Rule W3 compares with it,
    /// unless `read_since_ns` is set.
    pub started_ns: i64,
    /// The time at which the backup ended, in nanoseconds since 1970.
    pub finished_ns: i64,
    /// Words by which to find the snapshot.
    pub tags: Vec<String>,
    /// Free text.
    pub description: String,
    /// The specification of the cutting algorithm, with all parameters written out.
    pub cut: String,
    /// The snapshot with which this one was compared.
    pub parent: Option<TicketId>,
    /// Set if the run was cut off, so that a part of the sources is absent.
    pub partial: bool,
    /// The amount of data in the snapshot, and the amount that it added.
    pub statistics: Statistics,
    /// The version of the program.
    pub program: String,
    /// The positions in `sources` of those that were absent or could not be opened, in rising
    /// order. The tree has nothing of them. Such a snapshot is *incomplete*.
    pub missing: Vec<u32>,
    /// The file systems of the sources, by the numbers in [`Entry::device`]: for each one a text
    /// that distinguishes it from others, or an empty text if none is known. Rule W3 compares them.
    ///
    /// [`Entry::device`]: super::tree::Entry::device
    pub file_systems: Vec<String>,
    /// The start of the run, in nanoseconds since 1970, if the run continued from a checkpoint
    /// (rule W8). No file was read before it. `None` if it is `started_ns`.
    pub read_since_ns: Option<i64>,
    /// The snapshot of another repository, of this or another program, of which this one is a copy.
    pub origin: Option<Box<Origin>>,
}

/// The amount of data in a snapshot, and the amount that it added. Sizes are in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Number of regular files; each name of a file counts.
    pub file_count: u64,
    /// Number of folders.
    pub folder_count: u64,
    /// Number of all other entries.
    pub other_count: u64,
    /// Number of files that were new, or changed and read.
    pub read_file_count: u64,
    /// The total size of all files.
    pub size: u64,
    /// Number of bytes read.
    pub read_bytes: u64,
    /// Number of new chunks of file data.
    pub new_chunk_count: u64,
    /// The total size of the new chunks before compression.
    pub new_bytes: u64,
    /// Number of bytes written for this snapshot, without ticket and commit.
    pub stored_bytes: u64,
    /// Number of problems in saving the sources.
    pub problem_count: u64,
    /// Number of new chunks that are stored as delta chunks.
    pub delta_chunk_count: u64,
    /// The total size of these delta chunks.
    pub delta_chunk_bytes: u64,
    /// The size of the new bytes in these delta chunks, before compression.
    pub literal_bytes: u64,
}

/// Tags and a description that replace those of a snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Note {
    /// The snapshot that the note is about.
    pub snapshot: Option<TicketId>,
    /// Earlier notes that this one replaces.
    pub replaces: Vec<TicketId>,
    /// The new tags of the snapshot.
    pub tags: Vec<String>,
    /// The new description of the snapshot.
    pub description: String,
}

/// A chunk that cannot be read from the place that its container records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Damage {
    /// The class of the container.
    pub class: Class,
    /// The container; all zeros if the chunk was not found anywhere.
    pub container: PartName,
    /// The fingerprint of the chunk.
    pub fingerprint: Fingerprint,
}

/// The maximum length of the body of an embedded segment, in bytes. Every client reads all commits.
pub const EMBEDDED_LEN_MAX: usize = 2048;

const DAMAGE_LEN: usize = 1 + 16 + 32;

impl Commit {
    /// Returns the snapshot, if the outcome is one.
    pub fn snapshot(&self) -> Option<&Snapshot> {
        match &self.outcome {
            Outcome::Snapshot(snapshot) => Some(snapshot),
            _ => None,
        }
    }

    /// Returns the body of the index segment `part`, if it lies in this commit.
    pub fn embedded_segment(&self, part: &PartName) -> Option<&Segment> {
        self.embedded.as_deref().filter(|_| self.segments.last() == Some(part))
    }

    /// Encodes the body of the object.
    pub fn encode(&self) -> Vec<u8> {
        let mut map = MapWriter::new();
        let kind = match &self.outcome {
            Outcome::Snapshot(_) => 0,
            Outcome::Void { .. } => 1,
            Outcome::Forget(_) => 2,
            Outcome::Note(_) => 3,
            Outcome::Damage(_) => 4,
            Outcome::Rescue => 5,
            Outcome::Swept(_) => 6,
        };
        map.uint(0, kind);
        let segments: Vec<_> = self.segments.iter().map(|segment| segment.to_bytes()).collect();
        map.array_of_bytes(1, &segments).uint(2, self.view.prune);
        map.array_of_bytes(3, &ids(&self.view.new)).bytes(4, &self.view.digest);
        map.int(5, self.time_ns);
        match &self.outcome {
            Outcome::Snapshot(snapshot) => {
                snapshot.encode(&mut map);
                if let Some(segment) = &self.embedded {
                    map.bytes(25, &segment.encode());
                }
                // The keys of the origin follow that of an embedded segment.
                if let Some(origin) = &snapshot.origin {
                    origin.encode(&mut map);
                }
            }
            Outcome::Void { is_own: false } | Outcome::Rescue => {}
            Outcome::Void { is_own: true } => {
                map.bool(10, true);
            }
            Outcome::Forget(snapshots) => {
                map.array_of_bytes(10, &ids(snapshots));
            }
            Outcome::Note(note) => {
                if let Some(snapshot) = note.snapshot {
                    map.bytes(10, &snapshot.0);
                }
                map.array_of_bytes(11, &ids(&note.replaces)).array_of_texts(12, &note.tags);
                map.text(13, &note.description);
            }
            Outcome::Damage(damages) => {
                let packed: Vec<_> = damages.iter().map(pack_damage).collect();
                map.array_of_bytes(10, &packed);
            }
            Outcome::Swept(prune) => {
                map.uint(10, *prune);
            }
        }
        map.extra(&self.extra);
        map.finish()
    }

    /// Decodes the body of the object.
    pub fn decode(bytes: &[u8]) -> Result<Commit> {
        let d = &mut Decoder::new(bytes);
        let mut kind = None;
        let mut segments = Vec::new();
        let mut view = ViewRecord::default();
        let mut time_ns = 0;
        let mut snapshot = Snapshot::empty();
        let mut root = None;
        let mut note = Note::default();
        let mut forget = Vec::new();
        let mut damages = Vec::new();
        let mut swept = None;
        let mut is_own = false;
        let mut embedded = None;
        let mut origin = None;
        let mut tool = Tool::Cutpoint;
        let mut coverage = CopyCoverage::Complete;
        let extra = read_map(d, |key, d| {
            // The meaning of the keys from 10 depends on the kind, which comes first.
            match (key, kind) {
                (0, _) => kind = Some(d.u32().map_err(malformed)?),
                (1, _) => {
                    segments = read_array(d, |d| Ok(PartName::from_bytes(read_fixed(d)?)))?;
                }
                (2, _) => view.prune = d.u64().map_err(malformed)?,
                (3, _) => view.new = read_ids(d)?,
                (4, _) => view.digest = read_fixed(d)?,
                (5, _) => time_ns = d.i64().map_err(malformed)?,
                (10, Some(0)) => root = Some(Content::decode(d)?),
                (11..=24, Some(0)) => snapshot.decode_field(key, d)?,
                (25, Some(0)) => embedded = Some(Box::new(read_embedded(d)?)),
                (26, Some(0)) => origin = Some(read_ids_of_origin(d)?),
                (27, Some(0)) => coverage = CopyCoverage::decode(d)?,
                (28, Some(0)) => tool = Tool::from_code(d.u64().map_err(malformed)?),
                (10, Some(1)) => is_own = d.bool().map_err(malformed)?,
                (10, Some(2)) => forget = read_ids(d)?,
                (10, Some(3)) => note.snapshot = Some(TicketId(read_fixed(d)?)),
                (11, Some(3)) => note.replaces = read_ids(d)?,
                (12, Some(3)) => note.tags = read_texts(d)?,
                (13, Some(3)) => note.description = d.str().map_err(malformed)?.to_owned(),
                (10, Some(4)) => damages = read_array(d, unpack_damage)?,
                (10, Some(6)) => swept = Some(d.u64().map_err(malformed)?),
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        at_end(d)?;
        if let Some(segment) = &embedded {
            check_embedded(segment, &segments)?;
        }
        let outcome = match required(kind, "kind of a commit")? {
            0 => {
                snapshot.root = required(root, "root of a snapshot")?;
                snapshot.check_missing()?;
                snapshot.origin = origin.map(|(repository, snapshot)| {
                    let key = OriginKey { tool, repository, snapshot };
                    Box::new(Origin { key, coverage })
                });
                Outcome::Snapshot(Box::new(snapshot))
            }
            1 => Outcome::Void { is_own },
            2 => Outcome::Forget(forget),
            3 => Outcome::Note(note),
            4 => Outcome::Damage(damages),
            5 => Outcome::Rescue,
            6 => Outcome::Swept(required(swept, "number of the swept prune")?),
            kind => {
                return Err(Error::new(
                    cutpoint_storage::Kind::Unsupported,
                    "",
                    format!("a commit of kind {kind} requires a newer cutpoint"),
                ));
            }
        };
        Ok(Commit { outcome, segments, embedded, view, time_ns, extra })
    }
}

fn read_embedded(d: &mut Decoder<'_>) -> Result<Segment> {
    let body = d.bytes().map_err(malformed)?;
    if body.len() > EMBEDDED_LEN_MAX {
        let len = body.len();
        let message = format!(
            "malformed commit: too long an index segment (expected at most {EMBEDDED_LEN_MAX} \
             bytes, found {len})"
        );
        return Err(Error::corrupt("", message));
    }
    Segment::decode(body)
}

/// Validates an embedded segment, which is the last of `segments`: it names containers of its own
/// writer only.
fn check_embedded(embedded: &Segment, segments: &[PartName]) -> Result<()> {
    let bad = |what| Error::corrupt("", format!("malformed commit: {what}"));
    let name = segments.last().ok_or_else(|| bad("an index segment without a name"))?;
    if embedded.containers.iter().any(|container| container.name.ticket != name.ticket) {
        return Err(bad("an index segment that names a container of another writer"));
    }
    Ok(())
}

impl Snapshot {
    /// Returns the sources of which the tree has nothing, because they were absent or could not be
    /// opened.
    pub fn missing_sources(&self) -> impl Iterator<Item = &[u8]> {
        let at = |position: &u32| self.sources.get(usize::try_from(*position).ok()?);
        self.missing.iter().filter_map(at).map(Vec::as_slice)
    }

    /// Returns an empty snapshot.
    pub fn empty() -> Snapshot {
        Snapshot {
            root: Content::Empty,
            sources: Vec::new(),
            host: String::new(),
            user: String::new(),
            started_ns: 0,
            finished_ns: 0,
            tags: Vec::new(),
            description: String::new(),
            cut: String::new(),
            parent: None,
            partial: false,
            statistics: Statistics::default(),
            program: String::new(),
            missing: Vec::new(),
            file_systems: Vec::new(),
            read_since_ns: None,
            origin: None,
        }
    }

    /// Returns the origin, if this is a copy of a snapshot of another repository, and no
    /// checkpoint.
    pub fn original(&self) -> Option<Origin> {
        let origin = self.origin.as_deref().copied();
        origin.filter(|origin| origin.coverage != CopyCoverage::Begun)
    }

    /// Returns the origin, if this is a complete copy of a snapshot of another repository.
    pub fn copied_from(&self) -> Option<Origin> {
        self.original().filter(|origin| origin.coverage == CopyCoverage::Complete)
    }

    fn encode(&self, map: &mut MapWriter) {
        map.item(10, |e| self.root.encode(e)).array_of_bytes(11, &self.sources);
        map.text(12, &self.host).text(13, &self.user);
        map.item(14, |e| {
            e.array(2)
                .and_then(|e| e.i64(self.started_ns))
                .and_then(|e| e.i64(self.finished_ns))
                .ok();
        });
        map.array_of_texts(15, &self.tags).text(16, &self.description).text(17, &self.cut);
        if let Some(parent) = self.parent {
            map.bytes(18, &parent.0);
        }
        map.bool(19, self.partial);
        map.item(20, |e| {
            let numbers = self.statistics.to_array();
            e.array(numbers.len() as u64).ok();
            for number in numbers {
                e.u64(number).ok();
            }
        });
        map.text(21, &self.program);
        if !self.missing.is_empty() {
            map.item(22, |e| {
                e.array(self.missing.len() as u64).ok();
                for position in &self.missing {
                    e.u32(*position).ok();
                }
            });
        }
        if !self.file_systems.is_empty() {
            map.array_of_texts(23, &self.file_systems);
        }
        if let Some(read_since_ns) = self.read_since_ns {
            map.int(24, read_since_ns);
        }
    }

    fn decode_field(&mut self, key: u32, d: &mut Decoder<'_>) -> Result<()> {
        match key {
            11 => self.sources = read_array(d, |d| Ok(d.bytes().map_err(malformed)?.to_vec()))?,
            12 => self.host = d.str().map_err(malformed)?.to_owned(),
            13 => self.user = d.str().map_err(malformed)?.to_owned(),
            14 => {
                let times = read_array(d, |d| d.i64().map_err(malformed))?;
                let [started_ns, finished_ns] = times[..] else {
                    return Err(Error::corrupt(
                        "",
                        "malformed snapshot: only one of a pair of times",
                    ));
                };
                (self.started_ns, self.finished_ns) = (started_ns, finished_ns);
            }
            15 => self.tags = read_texts(d)?,
            16 => self.description = d.str().map_err(malformed)?.to_owned(),
            17 => self.cut = d.str().map_err(malformed)?.to_owned(),
            18 => self.parent = Some(TicketId(read_fixed(d)?)),
            19 => self.partial = d.bool().map_err(malformed)?,
            20 => {
                let numbers = read_array(d, |d| d.u64().map_err(malformed))?;
                self.statistics = Statistics::from_slice(&numbers);
            }
            21 => self.program = d.str().map_err(malformed)?.to_owned(),
            22 => self.missing = read_array(d, |d| d.u32().map_err(malformed))?,
            23 => self.file_systems = read_texts(d)?,
            _ => self.read_since_ns = Some(d.i64().map_err(malformed)?),
        }
        Ok(())
    }

    /// Validates the positions of missing sources.
    ///
    /// # Errors
    ///
    /// Returns a `Corrupt` error if the positions do not rise, or do not refer to sources.
    fn check_missing(&self) -> Result<()> {
        let is_rising = self.missing.is_sorted_by(|a, b| a < b);
        let is_source =
            self.missing.last().is_none_or(|&last| (last as usize) < self.sources.len());
        if is_rising && is_source {
            return Ok(());
        }
        Err(Error::corrupt(
            "",
            "malformed snapshot: the missing sources are not ascending positions of its sources",
        ))
    }
}

impl Statistics {
    fn to_array(self) -> [u64; 13] {
        [
            self.file_count,
            self.folder_count,
            self.other_count,
            self.read_file_count,
            self.size,
            self.read_bytes,
            self.new_chunk_count,
            self.new_bytes,
            self.stored_bytes,
            self.problem_count,
            self.delta_chunk_count,
            self.delta_chunk_bytes,
            self.literal_bytes,
        ]
    }

    /// Decodes the numbers. Those that an older version did not write are 0; additional ones of a
    /// newer version are ignored.
    fn from_slice(numbers: &[u64]) -> Statistics {
        let at = |index: usize| numbers.get(index).copied().unwrap_or(0);
        Statistics {
            file_count: at(0),
            folder_count: at(1),
            other_count: at(2),
            read_file_count: at(3),
            size: at(4),
            read_bytes: at(5),
            new_chunk_count: at(6),
            new_bytes: at(7),
            stored_bytes: at(8),
            problem_count: at(9),
            delta_chunk_count: at(10),
            delta_chunk_bytes: at(11),
            literal_bytes: at(12),
        }
    }
}

fn ids(tickets: &[TicketId]) -> Vec<[u8; 12]> {
    tickets.iter().map(|ticket| ticket.0).collect()
}

/// Decodes an array of ticket ids.
pub(crate) fn read_ids(d: &mut Decoder<'_>) -> Result<Vec<TicketId>> {
    read_array(d, |d| Ok(TicketId(read_fixed(d)?)))
}

fn pack_damage(damage: &Damage) -> [u8; DAMAGE_LEN] {
    let mut bytes = [0; DAMAGE_LEN];
    bytes[0] = u8::from(damage.class == Class::Meta);
    bytes[1..17].copy_from_slice(&damage.container.to_bytes());
    bytes[17..].copy_from_slice(&damage.fingerprint.0);
    bytes
}

fn unpack_damage(d: &mut Decoder<'_>) -> Result<Damage> {
    let bytes: [u8; DAMAGE_LEN] = read_fixed(d)?;
    let mut container = [0; 16];
    container.copy_from_slice(&bytes[1..17]);
    let mut fingerprint = [0; 32];
    fingerprint.copy_from_slice(&bytes[17..]);
    Ok(Damage {
        class: if bytes[0] == 1 { Class::Meta } else { Class::Data },
        container: PartName::from_bytes(container),
        fingerprint: Fingerprint(fingerprint),
    })
}
