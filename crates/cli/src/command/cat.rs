//! `cat`: writes a file of a snapshot to standard output.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use anyhow::Result;
use cutpoint_repository::format::recipe::{Segment, range_in_chunk};
use cutpoint_repository::{Class, Content, EntryKind, Reader};

use crate::args::{Cat, Global};
use crate::escape;
use crate::exit::{Exit, Failure};
use crate::report::Report;
use crate::select::{self, Lookup, Place};
use crate::session::Session;

/// The source of the zeros that are written for holes and runs of zeros.
static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];

pub(crate) fn run(args: &Cat, global: &Global, report: &Report) -> Result<Exit> {
    if report.is_json() {
        return Err(
            Failure::failed("`cat` has no --json, because the file itself is the output").into()
        );
    }
    let place = Place::parse(&args.snapshot);
    let path = match (place.path, &args.path) {
        (Some(path), None) => path,
        (None, Some(path)) => path.as_os_str().as_bytes(),
        _ => {
            return Err(Failure::failed(
                "no file given (expected SNAPSHOT:PATH, or SNAPSHOT PATH)",
            )
            .with_remedy("`cutpoint ls SNAPSHOT` lists the files")
            .into());
        }
    };
    let mut session = Session::open(global, report)?;
    let view = session.view(report)?;
    let (id, snapshot) = select::snapshot(&view, place.snapshot, &args.selection, report)?;
    select::warn_of_lack(id, snapshot, report);
    let reader = session.reader(view.clone(), report)?;
    let usage = |kind: EntryKind| if kind == EntryKind::File { "cat {}" } else { "ls {}" };
    let lookup = Lookup { reader: &reader, view: &view, id, snapshot, usage };
    let located = lookup.find(path)?;
    match located.entry {
        Some((entry, _)) if entry.kind == EntryKind::File => {
            if let Some(defect) = entry.defect {
                report.warning(Path::new(OsStr::from_bytes(path)), defect.message());
            }
            write(&reader, &entry.content, report)?;
        }
        found => {
            let shown = escape::for_terminal(path);
            let place = select::quoted_place(id, &located.path);
            let lists = |place: &str| format!("`cutpoint ls {place}` lists the files");
            let (kind, remedy) = match found.map(|(entry, _)| (entry.kind, entry.content)) {
                Some((EntryKind::Symlink, Content::Raw(target))) => {
                    let target = escape::for_terminal(&target);
                    (format!("symbolic link to {target}"), lists(&id.short()))
                }
                Some((EntryKind::Folder, _)) | None => {
                    let lists = lists(&place);
                    let remedy = format!(
                        "{lists}; `cutpoint restore {place} --to TARGET` restores the folder, and \
                         `cutpoint dump {place} > FILE.tar` makes an archive of it"
                    );
                    ("folder".to_owned(), remedy)
                }
                Some(_) => ("special file".to_owned(), lists(&id.short())),
            };
            return Err(Failure::failed(format!("{shown}: {kind} (expected a file)"))
                .with_remedy(remedy)
                .into());
        }
    }
    Ok(Exit::of_problems(report.problem_count()))
}

fn write(reader: &Reader, content: &Content, report: &Report) -> Result<()> {
    if let Content::Raw(bytes) = content {
        return report.write(bytes);
    }
    for segment in reader.segments(content) {
        match segment? {
            Segment::Chunk { fingerprint, offset, length } => {
                let chunk = reader.chunk(Class::Data, &fingerprint)?;
                let range = range_in_chunk(&fingerprint, chunk.len() as u64, offset, length)?;
                report.write(&chunk[range])?;
            }
            Segment::Hole { length } | Segment::Zeros { length } => {
                let mut left = length;
                while left > 0 {
                    let len = left.min(ZEROS.len() as u64);
                    report.write(&ZEROS[..usize::try_from(len).unwrap_or(ZEROS.len())])?;
                    left -= len;
                }
            }
        }
    }
    Ok(())
}
