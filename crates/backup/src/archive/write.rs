//! The walk through a tree, whose entries become the members of an archive.

use std::ffi::OsStr;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use cutpoint_repository::{Content, Entry, EntryKind, Time};
use cutpoint_storage::Error;

use super::content::FileStream;
use super::format::{Body, Format};
use super::links::Links;
use super::options::{ArchiveFormat, ArchiveOptions, ArchiveReport};
use super::tar::Tar;
use super::zip::Zip;
use crate::restore::{Lookahead, RestoreMonitor, RestoreOptions, SnapshotReader};

/// Writes an archive of a snapshot with the root folder `root`, or of one entry of the snapshot, to
/// `output`.
///
/// # Errors
///
/// Returns an error if `output` cannot be written; the archive is cut off then. What cannot be read
/// is reported to `monitor`.
pub fn write_archive(
    reader: &dyn SnapshotReader,
    root: &Content,
    options: &ArchiveOptions<'_>,
    output: &mut dyn Write,
    monitor: &dyn RestoreMonitor,
) -> io::Result<ArchiveReport> {
    let format: Box<dyn Format + '_> = match options.format {
        ArchiveFormat::Tar => Box::new(Tar::new(output)),
        ArchiveFormat::Zip => Box::new(Zip::new(output)),
    };
    let mut walk = ArchiveWalk {
        reader,
        monitor,
        format,
        links: Links::default(),
        default_time: options.default_time,
        report: ArchiveReport::default(),
    };
    match options.entry {
        None => walk.folder(root)?,
        Some(entry) if entry.kind == EntryKind::Folder => {
            walk.entry(b"", entry)?;
            walk.folder(&entry.content)?;
        }
        Some(entry) => {
            if entry.kind == EntryKind::File && monitor.looks_ahead() {
                monitor.expected(1, entry.size);
            }
            walk.entry(&entry.name, entry)?;
        }
    }
    walk.format.finish()?;
    Ok(walk.report)
}

struct ArchiveWalk<'a> {
    reader: &'a dyn SnapshotReader,
    monitor: &'a dyn RestoreMonitor,
    format: Box<dyn Format + 'a>,
    links: Links,
    default_time: Time,
    report: ArchiveReport,
}

impl ArchiveWalk<'_> {
    /// Writes everything below a folder.
    fn folder(&mut self, content: &Content) -> io::Result<()> {
        let (reader, monitor) = (self.reader, self.monitor);
        let options = &RestoreOptions::default();
        let lookahead = Lookahead { reader, options, root: content, monitor };
        lookahead.beside(|| self.entries(content))
    }

    /// Writes the entries of a folder, and everything below them.
    fn entries(&mut self, content: &Content) -> io::Result<()> {
        let reader = self.reader;
        let mut path = Vec::new();
        // There is one iterator per level, with the length of the path of its folder.
        let mut levels = Vec::new();
        match reader.tree(content) {
            Ok(entries) => levels.push((entries, 0)),
            Err(error) => self.fail(&path, &error),
        }
        while let Some((entries, len)) = levels.last_mut() {
            path.truncate(*len);
            let entry = match entries.next() {
                Some(Ok(entry)) => entry,
                None => {
                    levels.pop();
                    continue;
                }
                Some(Err(error)) => {
                    self.fail(&path, &error);
                    levels.pop();
                    continue;
                }
            };
            if !path.is_empty() {
                path.push(b'/');
            }
            path.extend_from_slice(&entry.name);
            self.entry(&path, &entry)?;
            if entry.kind == EntryKind::Folder {
                match reader.tree(&entry.content) {
                    Ok(entries) => levels.push((entries, path.len())),
                    Err(error) => self.fail(&path, &error),
                }
            }
        }
        Ok(())
    }

    /// Writes one entry, without what is below it.
    fn entry(&mut self, path: &[u8], entry: &Entry) -> io::Result<()> {
        if let Some(refusal) = self.format.refusal(path, entry) {
            self.monitor.warning(shown(path), &format!("left out: {refusal}"));
            return Ok(());
        }
        if let Some(defect) = entry.defect {
            self.monitor.warning(shown(path), defect.message());
        }
        if self.format.has_hard_links()
            && let Some(first) = self.links.first_name(entry)
        {
            self.append(path, entry, Body::HardLink(&first))?;
            match entry.kind {
                EntryKind::File => {
                    self.report.linked_names += 1;
                    self.monitor.progress(1, entry.size);
                }
                EntryKind::Symlink => self.report.symlinks += 1,
                _ => self.report.specials += 1,
            }
            return Ok(());
        }
        match entry.kind {
            EntryKind::File => return self.file(path, entry),
            EntryKind::Folder if entry.is_above_sources() => {
                let entry = Entry { mtime: self.default_time, ..entry.clone() };
                self.append(path, &entry, Body::Nothing)?;
                self.report.folders += 1;
            }
            EntryKind::Folder => {
                self.append(path, entry, Body::Nothing)?;
                self.report.folders += 1;
            }
            EntryKind::Symlink => {
                let Content::Raw(target) = &entry.content else {
                    self.fail(path, &Error::corrupt("", "a symbolic link without a target"));
                    return Ok(());
                };
                self.append(path, entry, Body::Symlink(target))?;
                self.report.symlinks += 1;
            }
            _ => {
                self.append(path, entry, Body::Nothing)?;
                self.report.specials += 1;
            }
        }
        self.links.add(entry, path);
        Ok(())
    }

    fn file(&mut self, path: &[u8], entry: &Entry) -> io::Result<()> {
        self.monitor.writing(shown(path));
        let mut stream = match FileStream::open(self.reader, entry, self.monitor) {
            Ok(stream) => stream,
            Err(error) => {
                self.report.failed_entries += 1;
                self.monitor.problem(shown(path), &format!("left out: {error}"));
                return Ok(());
            }
        };
        self.append(path, entry, Body::File(&mut stream))?;
        self.links.add(entry, path);
        self.report.files += 1;
        self.report.bytes = self.report.bytes.saturating_add(entry.size);
        self.monitor.progress(1, stream.unreported_len);
        if let Some(error) = &stream.error {
            let lost_len = stream.lost_len;
            self.report.failed_entries += 1;
            self.monitor.problem(
                shown(path),
                &format!("damaged in the archive: {lost_len} bytes are zeros instead: {error}"),
            );
        }
        Ok(())
    }

    fn append(&mut self, path: &[u8], entry: &Entry, body: Body<'_>) -> io::Result<()> {
        let monitor = self.monitor;
        let mut warn = |message: String| monitor.warning(shown(path), &message);
        self.format.append(path, entry, body, &mut warn)
    }

    /// Reports an entry that cannot be read, or a folder whose entries cannot be.
    fn fail(&mut self, path: &[u8], error: &Error) {
        self.report.failed_entries += 1;
        self.monitor.problem(shown(path), &format!("not completely in the archive: {error}"));
    }
}

/// Returns the path of a member for a message.
fn shown(path: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(if path.is_empty() { b"." } else { path }))
}
