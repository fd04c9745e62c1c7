//! `ls`: lists the entries of a snapshot.

mod tree;

use anyhow::Result;
use cutpoint_repository::{Content, Entry, EntryKind, Reader};

use crate::args::{Global, Ls};
use crate::event::{self, Event, PathText};
use crate::exit::{Exit, Failure};
use crate::report::Report;
use crate::select::{self, Lookup, Place};
use crate::session::Session;
use crate::units::DATE_TIME_WIDTH;
use crate::{escape, units};

pub(crate) fn run(args: &Ls, global: &Global, report: &Report) -> Result<Exit> {
    if args.tree && report.is_json() {
        return Err(Failure::failed("`ls --tree` has no --json")
            .with_remedy("`cutpoint ls --recursive --json` lists the same entries")
            .into());
    }
    let mut session = Session::open(global, report)?;
    let view = session.view(report)?;
    let place = Place::parse(&args.snapshot);
    let (id, snapshot) = select::snapshot(&view, place.snapshot, &args.selection, report)?;
    let reader = session.reader(view.clone(), report)?;
    let list = List { reader: &reader, args, report };
    let lookup = Lookup { reader: &reader, view: &view, id, snapshot, usage: |_| "ls {}" };
    let mut located = lookup.find(place.path.unwrap_or_default())?;
    let path = &mut located.path;
    let folder = match &located.entry {
        None => Some(&snapshot.root),
        Some((entry, _)) => (entry.kind == EntryKind::Folder).then_some(&entry.content),
    };
    match (folder, &located.entry) {
        (Some(folder), _) if args.tree => tree::print(&reader, folder, path, report)?,
        (Some(folder), _) => list.folder(folder, path)?,
        (None, Some((entry, _))) => list.entry(entry, path, path)?,
        (None, None) => {}
    }
    Ok(Exit::of_problems(report.problem_count()))
}

struct List<'a> {
    reader: &'a Reader,
    args: &'a Ls,
    report: &'a Report,
}

impl List<'_> {
    /// Lists the folder at `path` with the tree `content`, in the order of the snapshot.
    fn folder(&self, content: &Content, path: &mut Vec<u8>) -> Result<()> {
        let parent_len = path.len();
        // There is one iterator per level. Folders can be nested as deeply as paths, and each level
        // needs little memory.
        let mut levels = vec![(self.reader.tree(content), parent_len)];
        while let Some((entries, len)) = levels.last_mut() {
            path.truncate(*len);
            let Some(entry) = entries.next().transpose()? else {
                levels.pop();
                continue;
            };
            path.push(b'/');
            path.extend_from_slice(&entry.name);
            if self.args.recursive {
                self.entry(&entry, path, path)?;
                if entry.kind == EntryKind::Folder {
                    levels.push((self.reader.tree(&entry.content), path.len()));
                }
            } else {
                self.entry(&entry, path, &entry.name)?;
            }
        }
        path.truncate(parent_len);
        Ok(())
    }

    fn entry(&self, entry: &Entry, path: &[u8], shown: &[u8]) -> Result<()> {
        let report = self.report;
        let target = match (&entry.content, entry.kind) {
            (Content::Raw(target), EntryKind::Symlink) => Some(target.as_slice()),
            _ => None,
        };
        if report.is_json() {
            return report.event(&Event::Entry(Box::new(as_event(entry, path, target))));
        }
        let mut line = Vec::new();
        if self.args.long {
            line.extend_from_slice(long(entry).as_bytes());
        }
        if self.args.null {
            line.extend_from_slice(shown);
            line.push(0);
            return report.write(&line);
        }
        line.extend_from_slice(escape::for_terminal(shown).as_bytes());
        if self.args.long
            && let Some(target) = target
        {
            line.extend_from_slice(b" -> ");
            line.extend_from_slice(escape::for_terminal(target).as_bytes());
        } else if entry.kind == EntryKind::Folder {
            line.push(b'/');
        }
        line.push(b'\n');
        report.write(&line)
    }
}

fn long(entry: &Entry) -> String {
    let owner = |name: &str, id: u32| {
        if name.is_empty() { id.to_string() } else { escape::for_terminal(name.as_bytes()) }
    };
    format!(
        "{} {:>3} {:<8} {:<8} {:>12} {} ",
        mode(entry),
        entry.links,
        owner(&entry.user, entry.user_id),
        owner(&entry.group, entry.group_id),
        entry.size,
        if entry.is_above_sources() {
            format!("{:<DATE_TIME_WIDTH$}", "-")
        } else {
            units::date_time(entry.mtime.seconds)
        },
    )
}

/// Formats kind and permissions like other `ls` programs: `drwxr-xr-x`.
fn mode(entry: &Entry) -> String {
    let mut text = String::with_capacity(10);
    text.push(match entry.kind {
        EntryKind::File => '-',
        EntryKind::Folder => 'd',
        EntryKind::Symlink => 'l',
        EntryKind::CharDevice => 'c',
        EntryKind::BlockDevice => 'b',
        EntryKind::Fifo => 'p',
        EntryKind::Socket => 's',
    });
    let special = [(0o4000, 's'), (0o2000, 's'), (0o1000, 't')];
    for (class, (bit, letter)) in special.into_iter().enumerate() {
        let bits = entry.mode >> (6 - 3 * class);
        text.push(if bits & 4 != 0 { 'r' } else { '-' });
        text.push(if bits & 2 != 0 { 'w' } else { '-' });
        text.push(match (entry.mode & bit != 0, bits & 1 != 0) {
            (false, false) => '-',
            (false, true) => 'x',
            (true, false) => letter.to_ascii_uppercase(),
            (true, true) => letter,
        });
    }
    text
}

/// Returns the name of a kind of entry, for JSON.
pub(super) fn kind_name(kind: EntryKind) -> &'static str {
    match kind {
        EntryKind::File => "file",
        EntryKind::Folder => "folder",
        EntryKind::Symlink => "symlink",
        EntryKind::CharDevice => "char_device",
        EntryKind::BlockDevice => "block_device",
        EntryKind::Fifo => "fifo",
        EntryKind::Socket => "socket",
    }
}

fn as_event<'a>(entry: &'a Entry, path: &[u8], target: Option<&[u8]>) -> event::Entry<'a> {
    event::Entry {
        path: PathText::new(path),
        kind: kind_name(entry.kind),
        mode: format!("{:04o}", entry.mode),
        user_id: entry.user_id,
        group_id: entry.group_id,
        user: &entry.user,
        group: &entry.group,
        size: entry.size,
        modified: (!entry.is_above_sources())
            .then(|| units::rfc3339(entry.mtime.seconds, entry.mtime.nanoseconds)),
        links: entry.links,
        inode: entry.inode,
        xattr_count: entry.xattrs.len() as u64,
        target: target.map(|target| String::from_utf8_lossy(target).into_owned()),
        target_bytes: target.filter(|target| std::str::from_utf8(target).is_err()).map(escape::hex),
        device_number: matches!(entry.kind, EntryKind::CharDevice | EntryKind::BlockDevice)
            .then_some(entry.device_number),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_formatted_like_ls() {
        for (kind, bits, expected) in [
            (EntryKind::Folder, 0o1777, "drwxrwxrwt"),
            (EntryKind::File, 0o4755, "-rwsr-xr-x"),
            (EntryKind::File, 0o2640, "-rw-r-S---"),
            (EntryKind::Symlink, 0o777, "lrwxrwxrwx"),
        ] {
            let mut entry = Entry::new("x", kind);
            entry.mode = bits;
            assert_eq!(mode(&entry), expected, "{bits:o}");
        }
    }
}
