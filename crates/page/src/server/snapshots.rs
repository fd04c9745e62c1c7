//! The list of snapshots, newest first.

use cutpoint_repository::{Snapshot, TicketId, View};
use serde_json::{Value, json};

use super::failure::Failure;
use super::query::{Query, encoded, names};
use super::shared::Shared;
use super::text::{milliseconds, shown};

/// Returns all snapshots.
pub(super) fn list(shared: &Shared, _: &Query) -> Result<Value, Failure> {
    let view = shared.view();
    let held = view.held();
    let mut snapshots = view.snapshots();
    snapshots.sort_by_key(|(id, snapshot)| (std::cmp::Reverse(snapshot.started_ns), *id));
    let rows: Vec<Value> = snapshots
        .iter()
        .map(|(id, snapshot)| described(&view, *id, snapshot, held.contains(id)))
        .collect();
    Ok(json!({ "snapshots": rows }))
}

/// Returns what the page shows of a snapshot.
fn described(view: &View, id: TicketId, snapshot: &Snapshot, is_held: bool) -> Value {
    let statistics = &snapshot.statistics;
    let path = |source: &Vec<u8>| {
        let link: String = names(source).map(|name| format!("/{}", encoded(name))).collect();
        json!({ "text": shown(source), "link": link })
    };
    let missing = snapshot.missing.iter().filter_map(|at| snapshot.sources.get(*at as usize));
    let missing: Vec<String> = missing.map(|source| shown(source)).collect();
    json!({
        "id": id.to_string(),
        "short": id.short(),
        "host": shown(snapshot.host.as_bytes()),
        "user": shown(snapshot.user.as_bytes()),
        "started": milliseconds(snapshot.started_ns),
        "seconds": (snapshot.finished_ns - snapshot.started_ns).max(0) / 1_000_000_000,
        "size": statistics.size,
        "files": statistics.file_count,
        "folders": statistics.folder_count,
        "read": statistics.read_bytes,
        "new": statistics.new_bytes,
        "stored": statistics.stored_bytes,
        "problems": statistics.problem_count,
        "tags": view.tags(id, snapshot).iter().map(|tag| shown(tag.as_bytes())).collect::<Vec<_>>(),
        "description": shown(view.description(id, snapshot).as_bytes()),
        "paths": snapshot.sources.iter().map(path).collect::<Vec<_>>(),
        "missing": missing,
        "partial": snapshot.partial,
        "held": is_held,
        "program": shown(snapshot.program.as_bytes()),
    })
}
