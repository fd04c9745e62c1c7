//! `stats SNAPSHOT`: prints the size of a snapshot or of a path in it, and what only it needs.

use std::ffi::OsStr;

use anyhow::Result;
use cutpoint_repository::gc::footprint::{Footprints, Part, footprints};
use cutpoint_repository::{Content, Entry, EntryKind, Reader};
use cutpoint_storage::{Error, Kind, Result as StoreResult};
use cutpoint_terminal::report::INTERRUPTED;

use crate::args::{Global, Selection};
use crate::event::{self, Event, PathText, Summary};
use crate::exit::Exit;
use crate::interrupt::Interrupt;
use crate::report::Report;
use crate::select::{self, Lookup, Place};
use crate::session::Session;
use crate::units;

pub(super) fn run(
    name: &OsStr,
    selection: &Selection,
    global: &Global,
    report: &Report,
) -> Result<Exit> {
    let mut session = Session::open(global, report)?;
    let view = session.view(report)?;
    let place = Place::parse(name);
    let (id, snapshot) = select::snapshot(&view, place.snapshot, selection, report)?;
    let reader = session.reader(view.clone(), report)?;
    let lookup = Lookup { reader: &reader, view: &view, id, snapshot, usage: |_| "stats {}" };
    let located = lookup.find(place.path.unwrap_or_default())?;
    let entry = located.entry.map(|(entry, _)| entry);
    let interrupt = Interrupt::listen();
    let stop = || match interrupt.is_asked() {
        true => Err(Error::new(Kind::Interrupted, "stats", INTERRUPTED)),
        false => Ok(()),
    };
    report.begin_progress();
    report.show(|| "Reading the trees of all snapshots".to_owned());
    let (part, logical) = match &entry {
        None => {
            let statistics = &snapshot.statistics;
            let logical = Logical { file_count: statistics.file_count, size: statistics.size };
            (Part::Folder(snapshot.root.clone()), logical)
        }
        Some(entry) => (part(entry), Logical::of(&reader, entry, &stop)?),
    };
    let found = footprints(&reader, id, &part, &stop);
    report.end_progress();
    let Footprints { all, exclusive } = found?;
    if report.is_json() {
        let path = entry.is_some().then(|| PathText::new(&located.path));
        report.event(&Event::Summary(Summary::SnapshotStats(event::SnapshotStats {
            snapshot: id.to_string(),
            path,
            file_count: logical.file_count,
            logical_bytes: logical.size,
            all: all.into(),
            exclusive: exclusive.into(),
        })))?;
        return Ok(Exit::of_problems(report.problem_count()));
    }
    let stored = all.stored_bytes + all.metadata_stored_bytes;
    let alone = exclusive.stored_bytes + exclusive.metadata_stored_bytes;
    let lines = [
        ("logical", logical.size, units::count(logical.file_count, "file")),
        ("unique", all.data_bytes, units::count(all.data_chunk_count, "chunk")),
        ("stored", stored, format!("metadata {}", units::size(all.metadata_stored_bytes))),
        (
            "only here",
            alone,
            format!(
                "of {} in {}, which no other snapshot has",
                units::size(exclusive.data_bytes),
                units::count(exclusive.data_chunk_count, "chunk"),
            ),
        ),
    ];
    for (name, size, remark) in lines {
        report.line(&format!("{name:<16} {:>12}  {remark}", units::size(size)))?;
    }
    Ok(Exit::of_problems(report.problem_count()))
}

/// The size of the files as they were saved.
#[derive(Clone, Copy, Debug, Default)]
struct Logical {
    file_count: u64,
    size: u64,
}

impl Logical {
    /// Counts the file `entry`, or the files in the folder `entry`.
    fn of(reader: &Reader, entry: &Entry, stop: &dyn Fn() -> StoreResult<()>) -> Result<Logical> {
        let mut logical = Logical::default();
        logical.add(entry);
        let mut folders: Vec<Content> = match entry.kind {
            EntryKind::Folder => vec![entry.content.clone()],
            _ => Vec::new(),
        };
        while let Some(folder) = folders.pop() {
            for entry in reader.tree(&folder) {
                stop()?;
                let entry = entry?;
                logical.add(&entry);
                if entry.kind == EntryKind::Folder {
                    folders.push(entry.content);
                }
            }
        }
        Ok(logical)
    }

    fn add(&mut self, entry: &Entry) {
        if entry.kind == EntryKind::File {
            self.file_count += 1;
            self.size = self.size.saturating_add(entry.size);
        }
    }
}

/// Returns the chunks of an entry. The content of a symbolic link lies in the entry itself.
fn part(entry: &Entry) -> Part {
    match entry.kind {
        EntryKind::Folder => Part::Folder(entry.content.clone()),
        EntryKind::File => Part::File(entry.content.clone()),
        _ => Part::File(Content::Empty),
    }
}
