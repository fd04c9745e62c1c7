//! The selection of snapshots of another program.

use std::ffi::OsStr;

use anyhow::Result;
use cutpoint_backup::copy::ForeignSnapshot;

use super::name::SnapshotName;
use super::{is_selected, selected};
use crate::args::Selection;
use crate::escape;
use crate::exit::Failure;

/// Returns the snapshots that are selected, in the order of `snapshots`.
pub(crate) fn foreign_snapshots<'a>(
    snapshots: &'a [ForeignSnapshot],
    selection: &Selection,
) -> Result<Vec<&'a ForeignSnapshot>> {
    let mut found = Vec::new();
    for each in snapshots {
        if is_selected(selection, &each.snapshot, &each.snapshot.tags)? {
            found.push(each);
        }
    }
    Ok(found)
}

/// Finds the snapshot that `text` denotes among `snapshots`, which are sorted by time.
///
/// # Errors
///
/// Fails if no snapshot matches, or if several match; these are named.
pub(crate) fn foreign_snapshot<'a>(
    snapshots: &'a [ForeignSnapshot],
    text: &OsStr,
    selection: &Selection,
) -> Result<&'a ForeignSnapshot> {
    let shown = escape::for_terminal(text.as_encoded_bytes());
    if let Some(named) = snapshots.iter().find(|each| each.has_name(text.as_encoded_bytes())) {
        return Ok(named);
    }
    let of_selection = foreign_snapshots(snapshots, selection)?;
    let complete = || of_selection.iter().filter(|each| !each.snapshot.partial);
    let found = match SnapshotName::parse(text)? {
        SnapshotName::Latest(newer_count) => complete().rev().nth(newer_count).copied(),
        SnapshotName::Before(seconds) => {
            let is_before = |each: &&&ForeignSnapshot| {
                each.snapshot.started_ns.div_euclid(1_000_000_000) < seconds
            };
            complete().take_while(is_before).last().copied()
        }
        SnapshotName::Id(wanted) => {
            let is_wanted =
                |each: &&&ForeignSnapshot| each.key.snapshot.to_string().starts_with(&wanted);
            let found: Vec<_> = of_selection.iter().filter(is_wanted).copied().collect();
            if found.len() > 1 {
                let ids: Vec<_> = found.iter().map(|each| each.key.snapshot.to_string()).collect();
                let message = format!("`{shown}`: ambiguous (found {})", ids.join(", "));
                return Err(Failure::failed(message).with_remedy("give more digits").into());
            }
            found.first().copied()
        }
    };
    found.ok_or_else(|| {
        let message = format!("snapshot `{shown}`{}: not found", selected(selection));
        Failure::failed(message).with_remedy("--dry-run lists what would be imported").into()
    })
}
