//! A file of a snapshot as the source of an import.

use std::ffi::OsStr;

use anyhow::Result;
use cutpoint_repository::format::recipe::{Segment, range_in_chunk};
use cutpoint_repository::read::Segments;
use cutpoint_repository::{Class, Content, Entry, EntryKind, Reader};

use super::{DiskReader, Extent};
use crate::args::{Global, VolumeImport};
use crate::exit::{Exit, Failure};
use crate::report::Report;
use crate::select::{self, Lookup, Place};
use crate::session::Session;

/// Opens the file at `place`, and calls `import` with it.
pub(super) fn open(
    args: &VolumeImport,
    place: &OsStr,
    global: &Global,
    report: &Report,
    import: impl FnOnce(&mut dyn DiskReader) -> Result<Exit>,
) -> Result<Exit> {
    let place = Place::parse(place);
    let mut session = Session::open(global, report)?;
    let view = session.view(report)?;
    let (id, snapshot) = select::snapshot(&view, place.snapshot, &args.selection, report)?;
    select::warn_of_lack(id, snapshot, report);
    let reader = session.reader(view.clone(), report)?;
    let entry = match place.path {
        Some(path) => {
            let usage = |_| "volume import DIR --from-snapshot {}";
            let lookup = Lookup { reader: &reader, view: &view, id, snapshot, usage };
            lookup.find(path)?.entry.map(|(entry, _)| *entry)
        }
        None => only_file(&reader, &snapshot.root)?,
    };
    let remedy = || format!("`cutpoint ls {}` lists the files; give SNAPSHOT:PATH", id.short());
    let entry = entry.filter(|entry| entry.kind == EntryKind::File && entry.size > 0);
    let entry = entry.ok_or_else(|| {
        let problem = format!("snapshot {}: no single file with a disk found", id.short());
        Failure::failed(problem).with_remedy(remedy())
    })?;
    if let Some(defect) = entry.defect {
        let problem = format!("snapshot {}: {}", id.short(), defect.message());
        return Err(Failure::new(Exit::Damaged, problem)
            .with_remedy("import the file from another snapshot")
            .into());
    }
    import(&mut SnapshotFile::new(&reader, &entry))
}

/// Returns the file of the tree `root`, if it has only one.
fn only_file(reader: &Reader, root: &Content) -> Result<Option<Entry>> {
    let mut content = root.clone();
    loop {
        let mut entries = reader.tree(&content);
        let first = entries.next().transpose()?;
        let Some(entry) = first.filter(|_| entries.next().is_none()) else { return Ok(None) };
        if entry.kind != EntryKind::Folder {
            return Ok(Some(entry));
        }
        content = entry.content;
    }
}

/// The segment at which a reading is.
struct Current {
    start: u64,
    segment: Segment,
    /// The bytes of the segment, once they were read.
    bytes: Option<Vec<u8>>,
}

/// A file of a snapshot.
struct SnapshotFile<'a> {
    reader: &'a Reader,
    size: u64,
    segments: Segments<'a>,
    current: Option<Current>,
    /// The bytes of a file that has no segments.
    raw: Option<Vec<u8>>,
}

impl<'a> SnapshotFile<'a> {
    fn new(reader: &'a Reader, entry: &Entry) -> SnapshotFile<'a> {
        let raw = match &entry.content {
            Content::Raw(bytes) => Some(bytes.clone()),
            _ => None,
        };
        let segments = reader.segments(&entry.content);
        SnapshotFile { reader, size: entry.size, segments, current: None, raw }
    }

    /// Returns the segment at `offset`.
    fn find(&mut self, offset: u64) -> Result<&mut Current> {
        loop {
            let end = self.current.as_ref().map_or(0, |it| it.start + it.segment.length());
            if offset < end {
                break;
            }
            let segment = self.segments.next().transpose()?;
            let segment = segment.filter(|it| end.checked_add(it.length()).is_some());
            let segment = segment.ok_or_else(|| damaged("the recipe is shorter than the file"))?;
            self.current = Some(Current { start: end, segment, bytes: None });
        }
        let current = self.current.as_mut().filter(|it| it.start <= offset);
        current.ok_or_else(|| damaged("the recipe is read backwards"))
    }
}

impl DiskReader for SnapshotFile<'_> {
    fn size(&self) -> u64 {
        self.size
    }

    fn extent(&mut self, offset: u64) -> Result<Extent> {
        let left = self.size - offset;
        if self.raw.is_some() {
            return Ok(Extent { len: left, is_zero: false });
        }
        let current = self.find(offset)?;
        let len = (current.start + current.segment.length() - offset).min(left);
        Ok(Extent { len, is_zero: !matches!(current.segment, Segment::Chunk { .. }) })
    }

    fn read(&mut self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let reader = self.reader;
        let (bytes, start) = match &self.raw {
            Some(bytes) => (bytes.as_slice(), 0),
            None => {
                let current = self.find(offset)?;
                let Segment::Chunk { fingerprint, offset, length } = current.segment else {
                    buffer.fill(0);
                    return Ok(());
                };
                if current.bytes.is_none() {
                    let chunk = reader.chunk(Class::Data, &fingerprint)?;
                    let range = range_in_chunk(&fingerprint, chunk.len() as u64, offset, length)?;
                    let bytes = chunk.get(range.start as usize..range.end as usize);
                    let short = || damaged("a chunk is shorter than its segment");
                    current.bytes = Some(bytes.ok_or_else(short)?.to_vec());
                }
                (current.bytes.as_deref().unwrap_or_default(), current.start)
            }
        };
        let from = usize::try_from(offset - start).unwrap_or(usize::MAX);
        let piece = bytes.get(from..).and_then(|rest| rest.get(..buffer.len()));
        buffer
            .copy_from_slice(piece.ok_or_else(|| damaged("a chunk is shorter than its segment"))?);
        Ok(())
    }
}

fn damaged(problem: &str) -> anyhow::Error {
    Failure::new(Exit::Damaged, format!("file of the snapshot: {problem}"))
        .with_remedy("`cutpoint check` shows the damage of the repository")
        .into()
}
