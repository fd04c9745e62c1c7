//! The search of names. Matches are sent while the trees are read, and the search ends when the browser
//! does not listen any more.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Bytes;
use axum::response::{IntoResponse, Response};
use cutpoint_repository::{Content, Entry, EntryKind, TicketId};
use http::{HeaderMap, header};
use serde_json::{Value, json};
use tokio::sync::mpsc::Sender;

use super::download::{Piece, stream};
use super::failure::Failure;
use super::listing::{kind_name, time_of};
use super::query::{Query, encoded};
use super::shared::Shared;

/// The maximum number of matches.
const MATCHES_MAX: usize = 1000;
/// The interval of reports of progress.
const REPORT_EVERY: Duration = Duration::from_millis(300);
/// The number of names between two looks at the clock.
const NAMES_PER_LOOK: u64 = 1000;

/// A pattern of names.
#[derive(Debug)]
enum Pattern {
    /// A part of the name, in lower case.
    Part(String),
    /// The parts between the stars of a pattern, in lower case.
    Stars(Vec<String>),
}

impl Pattern {
    fn new(text: &str) -> Pattern {
        let text = text.to_lowercase();
        match text.contains('*') {
            true => Pattern::Stars(text.split('*').map(str::to_owned).collect()),
            false => Pattern::Part(text),
        }
    }

    /// Returns `true` if a name matches.
    fn matches(&self, name: &[u8]) -> bool {
        let name = String::from_utf8_lossy(name).to_lowercase();
        let parts = match self {
            Pattern::Part(part) => return name.contains(part.as_str()),
            Pattern::Stars(parts) => parts,
        };
        let (Some(first), Some(last)) = (parts.first(), parts.last()) else { return false };
        let Some(mut rest) = name.strip_prefix(first.as_str()) else { return false };
        for part in &parts[1..parts.len() - 1] {
            match rest.split_once(part.as_str()) {
                Some((_, behind)) => rest = behind,
                None => return false,
            }
        }
        rest.ends_with(last.as_str())
    }
}

/// Searches the snapshot that the parameter `snapshot` names, or all of them, newest first. The answer
/// is a JSON object in each line: a match, or the progress.
pub(super) fn search(
    shared: &Arc<Shared>,
    query: &Query,
    _: &HeaderMap,
) -> Result<Response, Failure> {
    let text = query.required("text")?;
    if text.is_empty() {
        return Err(Failure::refused("there is nothing to search for"));
    }
    let view = shared.view();
    let mut snapshots: Vec<(TicketId, Content)> = match query.text("snapshot") {
        Some(name) => {
            let (view, id) = shared.snapshot(name)?;
            let snapshot = view.commits.get(&id).and_then(|commit| commit.snapshot());
            snapshot.map(|it| (id, it.root.clone())).into_iter().collect()
        }
        None => {
            let mut all = view.snapshots();
            all.sort_by_key(|(id, snapshot)| (std::cmp::Reverse(snapshot.started_ns), *id));
            all.into_iter().map(|(id, snapshot)| (id, snapshot.root.clone())).collect()
        }
    };
    let (sender, body) = stream();
    let (shared, pattern) = (Arc::clone(shared), Pattern::new(text));
    tokio::task::spawn_blocking(move || {
        let mut search = Search {
            shared: &shared,
            pattern,
            sender,
            met: HashSet::new(),
            searched_count: 0,
            match_count: 0,
            told: Instant::now(),
        };
        // Without a receiver, the browser has gone.
        let ended = snapshots.drain(..).try_for_each(|(id, root)| search.snapshot(id, root));
        search.finish(ended.err().and_then(|end| end.0)).ok();
    });
    Ok(([(header::CONTENT_TYPE, "application/x-ndjson")], body).into_response())
}

struct Search<'a> {
    shared: &'a Shared,
    pattern: Pattern,
    sender: Sender<Piece>,
    /// Hashes of paths, and of paths with the folders there.
    met: HashSet<u64>,
    searched_count: u64,
    match_count: usize,
    told: Instant,
}

/// The end of a search: a message, or enough matches, or nobody who listens.
struct End(Option<String>);

impl Search<'_> {
    /// Searches a snapshot, except folders that another one has at the same path.
    fn snapshot(&mut self, id: TicketId, root: Content) -> Result<(), End> {
        let reader = Arc::clone(self.shared.contents.reader());
        let mut folders = vec![(String::new(), root)];
        while let Some((path, content)) = folders.pop() {
            if !self.met.insert(hash(&(&path, &content))) {
                continue;
            }
            let mut below = Vec::new();
            for entry in reader.tree(&content) {
                let entry = entry.map_err(|error| End(Some(format!("{path}: {error}"))));
                let entry = match entry {
                    Ok(entry) => entry,
                    Err(End(message)) => {
                        self.line(&json!({ "searched": self.searched_count, "error": message }))?;
                        break;
                    }
                };
                self.searched_count += 1;
                if self.searched_count % NAMES_PER_LOOK == 0 && self.told.elapsed() > REPORT_EVERY {
                    self.told = Instant::now();
                    self.line(&json!({ "searched": self.searched_count }))?;
                }
                let link = format!("{path}/{}", encoded(&entry.name));
                if self.pattern.matches(&entry.name) && self.met.insert(hash(&link)) {
                    self.found(id, &link, &entry)?;
                }
                if entry.kind == EntryKind::Folder {
                    below.push((link, entry.content));
                }
            }
            folders.extend(below.into_iter().rev());
        }
        Ok(())
    }

    fn found(&mut self, id: TicketId, link: &str, entry: &Entry) -> Result<(), End> {
        let mut value = json!({
            "snapshot": id.to_string(),
            "link": link,
            "kind": kind_name(entry.kind),
            "time": time_of(entry),
        });
        if entry.kind == EntryKind::File {
            value["size"] = entry.size.into();
        }
        self.line(&value)?;
        self.match_count += 1;
        if self.match_count >= MATCHES_MAX { Err(End(None)) } else { Ok(()) }
    }

    fn line(&self, value: &Value) -> Result<(), End> {
        let line = Bytes::from(format!("{value}\n"));
        self.sender.blocking_send(Ok(line)).map_err(|_| End(None))
    }

    fn finish(&self, message: Option<String>) -> Result<(), End> {
        self.line(&json!({
            "searched": self.searched_count,
            "done": true,
            "more": self.match_count >= MATCHES_MAX,
            "error": message,
        }))
    }
}

fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pattern_is_a_part_or_has_stars() {
        let matches = |pattern: &str, name: &str| Pattern::new(pattern).matches(name.as_bytes());
        assert!(matches("REPORT", "annual-report.txt"), "a part, in any case");
        assert!(!matches("report.pdf", "annual-report.txt"), "no part");
        assert!(matches("*.txt", "a.txt") && !matches("*.txt", "a.txt.gz"), "an ending");
        assert!(matches("a*b*c", "a-b-c") && !matches("a*b*c", "a-c-b"), "parts in order");
        assert!(matches("*", "anything") && matches("a*", "a"), "any");
    }
}
