//! The measurement of the space, in the background, and its drawings.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::response::{IntoResponse, Response};
use cutpoint_repository::{TicketId, View};
use http::{HeaderMap, header};
use serde_json::{Value, json};

use super::failure::Failure;
use super::lock;
use super::measurement::{Progress, State};
use super::query::{Query, encoded};
use super::shared::Shared;
use super::text::shown;
use crate::chart::{self, Frame};
use crate::space::{self, Node, Sizes, Space};

/// The maximum number of rows of the table below the map.
const ROWS_MAX: usize = 200;

/// Returns the snapshots that a measurement has looked at.
fn measured(view: &View) -> Vec<TicketId> {
    view.snapshots().into_iter().map(|(id, _)| id).collect()
}

/// Starts a measurement, unless there is one of these snapshots, and returns its state.
pub(super) fn state(shared: &Arc<Shared>, query: &Query) -> Result<Value, Failure> {
    let view = shared.view();
    let snapshots = measured(&view);
    let mut state = lock(&shared.space.0);
    let is_wanted = match &*state {
        State::None => true,
        State::Running(_) => false,
        State::Done(_, known) => query.text("again") == Some("1") && *known != snapshots,
        State::Failed(_) => query.text("again") == Some("1"),
    };
    if is_wanted {
        let progress = Arc::new(Progress::default());
        *state = State::Running(Arc::clone(&progress));
        let shared = Arc::clone(shared);
        let run = move || {
            let found = space::measure(shared.contents.reader(), &progress);
            *lock(&shared.space.0) = match found {
                Ok(space) => State::Done(Arc::new(space), snapshots),
                Err(error) => State::Failed(error.to_string()),
            };
        };
        std::thread::Builder::new()
            .name("space".into())
            .spawn(run)
            .map_err(|error| Failure::internal(format!("no thread can be started: {error}")))?;
    }
    Ok(match &*state {
        State::None => json!({ "state": "none" }),
        State::Running(progress) => json!({
            "state": "running",
            "done": progress.done.load(Ordering::Relaxed),
            "total": progress.total.load(Ordering::Relaxed),
        }),
        State::Failed(message) => json!({ "state": "failed", "message": message }),
        State::Done(space, known) => json!({
            "state": "done",
            "is_old": *known != measured(&view),
            "sample_rate": space.sample_rate,
            "unreadable": space.unreadable_count,
            "stored": space.totals.stored_bytes,
            "logical": space.totals.logical_bytes,
            "snapshots": space.snapshots.len(),
        }),
    })
}

/// Returns what is below a path, largest first.
pub(super) fn rows(shared: &Shared, query: &Query) -> Result<Value, Failure> {
    let space = measured_space(shared)?;
    let node = found(&space.root, query)?;
    let (children, rest) = node.largest();
    let row = |(name, child): &(&[u8], &Node)| {
        let mut row = sizes(&child.sizes);
        row["name"] = shown(name).into();
        row["link"] = encoded(name).into();
        row["folder"] = child.is_folder.into();
        row
    };
    Ok(json!({
        "sizes": sizes(&node.sizes),
        "rows": children.iter().take(ROWS_MAX).map(row).collect::<Vec<_>>(),
        "more": children.len().saturating_sub(ROWS_MAX),
        "rest": sizes(&rest),
    }))
}

fn measured_space(shared: &Shared) -> Result<Arc<Space>, Failure> {
    shared.space.done().ok_or_else(|| Failure::missing("the space was not measured yet"))
}

fn found<'a>(root: &'a Node, query: &Query) -> Result<&'a Node, Failure> {
    let node = root.find(&query.path());
    node.ok_or_else(|| Failure::missing("this path takes no space of its own"))
}

fn sizes(sizes: &Sizes) -> Value {
    json!({
        "files": sizes.files,
        "logical": sizes.logical,
        "unique": sizes.unique,
        "current": sizes.current,
        "older": sizes.older,
        "stored": sizes.stored(),
    })
}

/// Returns a drawing: `map`, `growth` or `steps`.
pub(super) fn drawing(
    shared: &Arc<Shared>,
    query: &Query,
    _: &HeaderMap,
) -> Result<Response, Failure> {
    let space = measured_space(shared)?;
    let width = query.number("width", 960)?.clamp(200, 4000);
    let frame = Frame::of_width(width);
    let svg = match query.required("kind")? {
        "map" => {
            let path = query.path();
            let link: String = path.iter().map(|name| format!("/{}", encoded(name))).collect();
            chart::treemap(found(&space.root, query)?, frame, Some(&format!("#/space{link}")))
        }
        "growth" => chart::growth(&space.snapshots, frame),
        "steps" => chart::steps(&space.totals, frame),
        _ => return Err(Failure::refused("there is no such drawing")),
    };
    Ok(([(header::CONTENT_TYPE, "image/svg+xml")], svg).into_response())
}
