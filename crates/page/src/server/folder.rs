//! Slices of folders.

use cutpoint_repository::EntryKind;
use serde_json::{Value, json};

use super::failure::Failure;
use super::listing::{By, Order};
use super::query::Query;
use super::shared::Shared;

/// The maximum number of rows of a slice.
const SLICE_MAX: usize = 1000;

/// Returns the entries `from..from + count` of a folder, and how many there are.
pub(super) fn slice(shared: &Shared, query: &Query) -> Result<Value, Failure> {
    let named = shared.named(query)?;
    if named.entry.kind != EntryKind::Folder {
        return Err(Failure::refused("the path is no folder"));
    }
    let by = match query.text("sort") {
        Some("size") => By::Size,
        Some("time") => By::Time,
        _ => By::Name,
    };
    let order = Order { by, is_descending: query.text("descending") == Some("1") };
    let from = query.number("from", 0)?;
    let count = query.number("count", 200)?.min(SLICE_MAX);
    let listing = shared.folders.get(shared.contents.reader(), &named.entry.content);
    Ok(json!({
        "total": listing.len(),
        "cut": listing.cut_count,
        "error": listing.error,
        "from": from,
        "rows": listing.slice(order, from, count),
    }))
}
