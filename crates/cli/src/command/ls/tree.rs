//! A folder of a snapshot as an indented tree.

use anyhow::Result;
use cutpoint_repository::{Content, EntryKind, Reader};

use crate::report::Report;
use crate::{escape, units};

/// Prints the folder `path` with the tree `content`, and everything below it, each name with its
/// size. The size of a folder is that of all files below it; a file counts with each of its names.
pub(super) fn print(
    reader: &Reader,
    content: &Content,
    path: &[u8],
    report: &Report,
) -> Result<()> {
    // A size is printed before the entries that it counts, so the trees are read twice.
    let mut sizes = folder_sizes(reader, content)?.into_iter();
    line(report, sizes.next(), 0, path, true)?;
    let mut levels = vec![reader.tree(content)];
    while let Some(entries) = levels.last_mut() {
        let Some(entry) = entries.next().transpose()? else {
            levels.pop();
            continue;
        };
        let depth = levels.len();
        match entry.kind {
            EntryKind::Folder => {
                line(report, sizes.next(), depth, &entry.name, true)?;
                levels.push(reader.tree(&entry.content));
            }
            EntryKind::File => line(report, Some(entry.size), depth, &entry.name, false)?,
            _ => line(report, None, depth, &entry.name, false)?,
        }
    }
    Ok(())
}

/// Returns the total sizes of the files below `content` and below each folder in it, in the order
/// of the tree.
fn folder_sizes(reader: &Reader, content: &Content) -> Result<Vec<u64>> {
    let mut sizes = vec![0_u64];
    let mut levels = vec![(reader.tree(content), 0)];
    while let Some((entries, index)) = levels.last_mut() {
        let index = *index;
        let Some(entry) = entries.next().transpose()? else {
            levels.pop();
            if let Some((_, parent)) = levels.last() {
                sizes[*parent] = sizes[*parent].saturating_add(sizes[index]);
            }
            continue;
        };
        match entry.kind {
            EntryKind::Folder => {
                levels.push((reader.tree(&entry.content), sizes.len()));
                sizes.push(0);
            }
            EntryKind::File => sizes[index] = sizes[index].saturating_add(entry.size),
            _ => {}
        }
    }
    Ok(sizes)
}

/// Prints an entry `depth` levels below the root of the tree; without a size if it has none.
fn line(
    report: &Report,
    size: Option<u64>,
    depth: usize,
    name: &[u8],
    is_folder: bool,
) -> Result<()> {
    let size = size.map(units::size).unwrap_or_default();
    let mut line = format!("{size:>10}  {:indent$}", "", indent = 2 * depth).into_bytes();
    line.extend_from_slice(escape::for_terminal(name).as_bytes());
    if is_folder {
        line.push(b'/');
    }
    line.push(b'\n');
    report.write(&line)
}
