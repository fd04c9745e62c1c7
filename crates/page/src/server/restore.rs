//! Restores to this machine, one at a time, if the command allows them.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use cutpoint_backup::{RestoreOptions, restore};
use cutpoint_repository::{Content, EntryKind};
use serde_json::{Value, json};

use super::failure::Failure;
use super::lock;
use super::query::{Query, names};
use super::restore_run::Run;
use super::shared::{Shared, root};
use super::text::shown;

/// Starts the restore that the body of a request asks for.
///
/// # Errors
///
/// Fails if restores are not allowed, if one is running, or if snapshot, path or target are invalid.
pub(super) fn start(shared: &Arc<Shared>, body: &[u8]) -> Result<Value, Failure> {
    if !shared.options.may_restore {
        return Err(Failure::forbidden(
            "this page can only read; `cutpoint serve --allow-restore` lets it restore",
        ));
    }
    let asked: Value = serde_json::from_slice(body)
        .map_err(|_| Failure::refused("the request is no valid JSON"))?;
    let text = |name: &str| asked[name].as_str().unwrap_or_default();
    let target = PathBuf::from(text("target"));
    if !target.is_absolute() {
        return Err(Failure::refused(
            "name a folder by its complete path, such as /home/me/restored",
        ));
    }
    let path: Vec<u8> = percent_encoding::percent_decode_str(text("path")).collect();
    let (view, id) = shared.snapshot(text("snapshot"))?;
    let (root, options) = request(shared, root(&view, id), names(&path).collect())?;
    let mut last = lock(&shared.restores.0);
    if last.as_ref().is_some_and(|run| lock(&run.end).is_none()) {
        return Err(Failure::refused("another restore is running"));
    }
    let run = Arc::new(Run::new(target));
    *last = Some(Arc::clone(&run));
    drop(last);
    let shared = Arc::clone(shared);
    let work = move || {
        let reader = shared.contents.reader();
        let done = restore(&**reader, &root, &run.target, &options, &*run);
        *lock(&run.end) = Some(done.map(|_| ()).map_err(|error| error.to_string()));
    };
    std::thread::Builder::new()
        .name("restore".into())
        .spawn(work)
        .map_err(|error| Failure::internal(format!("no thread can be started: {error}")))?;
    Ok(json!({ "state": "running" }))
}

/// Returns the root and the options of a restore of a path.
fn request(
    shared: &Shared,
    root: Content,
    mut path: Vec<&[u8]>,
) -> Result<(Content, RestoreOptions), Failure> {
    let mut options = RestoreOptions::default();
    let entry = shared.contents.find(&root, &path)?;
    let entry = entry.ok_or_else(|| Failure::missing("the snapshot has no such path"))?;
    let is_folder = entry.kind == EntryKind::Folder;
    if path.is_empty() {
        return Ok((root, options));
    }
    let content = if is_folder {
        let content = entry.content.clone();
        options.folder = Some(entry);
        content
    } else {
        path.pop();
        options.selection = vec![PathBuf::from(OsStr::from_bytes(&entry.name))];
        let parent = shared.contents.find(&root, &path)?;
        parent.ok_or_else(|| Failure::missing("the snapshot has no such path"))?.content
    };
    options.root_path = path.iter().map(|name| OsStr::from_bytes(name)).collect();
    Ok((content, options))
}

/// Returns the state of the last restore.
pub(super) fn state(shared: &Shared, _: &Query) -> Result<Value, Failure> {
    let Some(run) = lock(&shared.restores.0).clone() else { return Ok(json!({ "state": "none" })) };
    let end = lock(&run.end).clone();
    let message = end.as_ref().and_then(|end| end.as_ref().err().cloned());
    Ok(json!({
        "state": if end.is_some() { "done" } else { "running" },
        "message": message,
        "target": shown(run.target.as_os_str().as_bytes()),
        "files": run.files.load(Ordering::Relaxed),
        "bytes": run.bytes.load(Ordering::Relaxed),
        "problem_count": run.problem_count.load(Ordering::Relaxed),
        "problems": *lock(&run.problems),
    }))
}
