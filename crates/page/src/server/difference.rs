//! The difference between two versions of a file.

use std::time::Duration;

use cutpoint_repository::{Content, Entry, EntryKind};
use serde_json::{Value, json};
use similar::{ChangeTag, TextDiff};

use super::failure::Failure;
use super::file::text_of;
use super::listing::time_of;
use super::query::Query;
use super::shared::{Shared, root};

/// The maximum size of a file that is compared line by line, in bytes.
const SIZE_MAX: u64 = 4 << 20;
/// The message about versions without a difference.
const SAME: &str = "Both versions have the same bytes.";
/// The number of lines around a change.
const CONTEXT: usize = 3;
/// The maximum number of lines that are shown.
const LINES_MAX: usize = 20_000;
/// The time after which a coarser difference is good enough.
const TIME_MAX: Duration = Duration::from_secs(2);

/// Compares the path in the snapshots `old` and `new`.
pub(super) fn difference(shared: &Shared, query: &Query) -> Result<Value, Failure> {
    let path = query.path();
    let find = |name: &str| -> Result<Option<Entry>, Failure> {
        let (view, id) = shared.snapshot(query.required(name)?)?;
        let entry = shared.contents.find(&root(&view, id), &path)?;
        Ok(entry.filter(|entry| entry.kind == EntryKind::File))
    };
    let (old, new) = (find("old")?, find("new")?);
    if old.is_none() && new.is_none() {
        return Err(Failure::missing("neither snapshot has this file"));
    }
    let side = |entry: &Option<Entry>| {
        entry.as_ref().map(|entry| json!({ "size": entry.size, "time": time_of(entry) }))
    };
    let mut value = json!({ "old": side(&old), "new": side(&new) });
    let content =
        |entry: &Option<Entry>| entry.as_ref().map_or(Content::Empty, |it| it.content.clone());
    if content(&old) == content(&new) {
        value["message"] = SAME.into();
        return Ok(value);
    }
    let text = |entry: &Option<Entry>| -> Result<Option<Vec<u8>>, Failure> {
        let Some(entry) = entry else { return Ok(Some(Vec::new())) };
        if entry.size > SIZE_MAX {
            return Ok(None);
        }
        let len = usize::try_from(entry.size).unwrap_or(usize::MAX);
        Ok(Some(shared.contents.read(shared.new_reading(), entry, 0, len)?))
    };
    let (old, new) = match (text(&old)?, text(&new)?) {
        (Some(old), Some(new)) => (old, new),
        _ => {
            value["message"] = "The file is too large to be compared line by line.".into();
            return Ok(value);
        }
    };
    if old == new {
        value["message"] = SAME.into();
        return Ok(value);
    }
    match (text_of(&old, false), text_of(&new, false)) {
        (Some(old), Some(new)) => lines(&mut value, old, new),
        _ => value["message"] = binary(&old, &new).into(),
    }
    Ok(value)
}

/// Adds the lines that differ, and those around them.
fn lines(value: &mut Value, old: &str, new: &str) {
    let diff = TextDiff::configure().timeout(TIME_MAX).diff_lines(old, new);
    let (mut added, mut removed, mut count) = (0_u64, 0_u64, 0);
    let mut hunks = Vec::new();
    for group in diff.grouped_ops(CONTEXT) {
        let mut hunk = Vec::new();
        for change in group.iter().flat_map(|operation| diff.iter_changes(operation)) {
            let sign = match change.tag() {
                ChangeTag::Insert => {
                    added += 1;
                    "+"
                }
                ChangeTag::Delete => {
                    removed += 1;
                    "-"
                }
                ChangeTag::Equal => " ",
            };
            count += 1;
            if count <= LINES_MAX {
                let number = |at: Option<usize>| at.map(|at| at + 1);
                let text = change.value().trim_end_matches(['\n', '\r']);
                let (old, new) = (number(change.old_index()), number(change.new_index()));
                hunk.push(json!([sign, old, new, text]));
            }
        }
        if !hunk.is_empty() {
            hunks.push(hunk);
        }
    }
    value["added"] = added.into();
    value["removed"] = removed.into();
    value["hunks"] = hunks.into();
    if count > LINES_MAX {
        value["message"] =
            format!("The first {LINES_MAX} lines of the difference are shown.").into();
    }
}

/// Describes the difference between files that are no text.
fn binary(old: &[u8], new: &[u8]) -> String {
    let same = old.iter().zip(new).take_while(|(old, new)| old == new).count();
    let count = old.iter().zip(new).filter(|(old, new)| old != new).count();
    format!(
        "The file is no text. The versions differ from byte {same} on; {count} bytes at the same place \
         are different."
    )
}
