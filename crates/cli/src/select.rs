//! The selection of snapshots and of paths in them.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use anyhow::{Context, Result};
use cutpoint_repository::{
    Content, Entry, EntryKind, ObjectName, Reader, Snapshot, TicketId, View,
};

use crate::args::{Filter, Selection};
use crate::defaults::ID_DIGITS_MIN;
use crate::exit::{Exit, Failure};
use crate::report::Report;
use crate::{escape, units};

/// The name of the newest snapshot.
const LATEST: &str = "latest";

/// A parsed argument `SNAPSHOT` or `SNAPSHOT:PATH`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'a> {
    /// An id, the beginning of one, or `latest`.
    pub(crate) snapshot: &'a OsStr,
    /// The path; `None` if there is no colon.
    pub(crate) path: Option<&'a [u8]>,
}

impl<'a> Place<'a> {
    /// Splits `text` at its first colon.
    pub(crate) fn parse(text: &'a OsStr) -> Place<'a> {
        let bytes = text.as_bytes();
        match bytes.iter().position(|&byte| byte == b':') {
            Some(at) => {
                Place { snapshot: OsStr::from_bytes(&bytes[..at]), path: Some(&bytes[at + 1..]) }
            }
            None => Place { snapshot: text, path: None },
        }
    }
}

/// Returns `true` if the snapshot passes `filter`.
pub(crate) fn passes(filter: &Filter, view: &View, id: TicketId, snapshot: &Snapshot) -> bool {
    let has = view.tags(id, snapshot);
    filter.host.as_ref().is_none_or(|host| *host == snapshot.host)
        && filter.tags.iter().all(|tag| has.contains(tag))
}

/// Sorts snapshots by time, oldest first, then by id. Those without a readable commit come first.
pub(crate) fn oldest_first(view: &View, ids: impl IntoIterator<Item = TicketId>) -> Vec<TicketId> {
    let time = |id: &TicketId| Some(view.commits.get(id)?.snapshot()?.started_ns);
    let mut ids: Vec<TicketId> = ids.into_iter().collect();
    ids.sort_by_key(|id| (time(id), *id));
    ids
}

/// Formats paths for a message, separated by commas.
pub(crate) fn listed<'a>(paths: impl Iterator<Item = &'a [u8]>) -> String {
    paths.map(escape::for_terminal).collect::<Vec<_>>().join(", ")
}

/// Warns of a snapshot that was made with problems, by a run that was cut off, or without some of
/// its sources.
pub(crate) fn warn_of_lack(id: TicketId, snapshot: &Snapshot, report: &Report) {
    let id = id.short();
    let problem_count = snapshot.statistics.problem_count;
    if problem_count > 0 {
        report.warn(&format!(
            "snapshot {id} was created with {}: the affected files are missing or differ from the \
             source",
            units::count(problem_count, "problem")
        ));
    }
    if snapshot.partial {
        report.warn(&format!(
            "snapshot {id} is from an interrupted run: files are missing, and one file may be \
             truncated"
        ));
    }
    if !snapshot.missing.is_empty() {
        let missing = listed(snapshot.missing_sources());
        report.warn(&format!(
            "snapshot {id} has nothing of {missing}, which could not be opened during the backup; \
             `cutpoint snapshots` lists earlier snapshots"
        ));
    }
}

/// Returns `true` if the snapshot passes `selection`.
///
/// # Errors
///
/// Returns an error if a path cannot be made absolute.
pub(crate) fn selects(
    selection: &Selection,
    view: &View,
    id: TicketId,
    snapshot: &Snapshot,
) -> Result<bool> {
    let has_path = |path: &PathBuf| -> Result<bool> {
        let path = std::path::absolute(path).with_context(|| path.display().to_string())?;
        Ok(snapshot.sources.iter().any(|source| source == path.as_os_str().as_bytes()))
    };
    for path in &selection.paths {
        if !has_path(path)? {
            return Ok(false);
        }
    }
    Ok(passes(&selection.filter, view, id, snapshot))
}

/// Finds the listed snapshot that `text` denotes.
///
/// # Errors
///
/// Fails if no snapshot matches, or if several match; these are named.
pub(crate) fn snapshot<'a>(
    view: &'a View,
    text: &OsStr,
    filter: &Filter,
) -> Result<(TicketId, &'a Snapshot)> {
    let candidates = view.snapshots();
    if text == LATEST {
        // A snapshot of a run that was cut off must be named by its id.
        return candidates
            .into_iter()
            .rfind(|(id, snapshot)| !snapshot.partial && passes(filter, view, *id, snapshot))
            .ok_or_else(|| no_snapshot(&format!("no snapshot{}", filtered(filter))));
    }
    let wanted = digits(text)?;
    match by_digits(view, candidates, &wanted, filter)? {
        Some(found) => Ok(found),
        None => Err(absent(view, &wanted)),
    }
}

/// Describes a filter, after a noun.
fn filtered(filter: &Filter) -> String {
    let mut text = String::new();
    if let Some(host) = &filter.host {
        text.push_str(&format!(" of host {}", escape::for_terminal(host.as_bytes())));
    }
    if !filter.tags.is_empty() {
        let tags = escape::for_terminal(filter.tags.join(", ").as_bytes());
        let noun = if filter.tags.len() == 1 { "tag" } else { "tags" };
        text.push_str(&format!(" with the {noun} {tags}"));
    }
    text
}

/// Finds the snapshot that `text` denotes, among those that are listed, forgotten, or taken by a
/// prune but not deleted yet. `latest` is the newest listed one.
///
/// # Errors
///
/// Returns any error of [`snapshot`].
pub(crate) fn any_snapshot(view: &View, text: &OsStr, filter: &Filter) -> Result<TicketId> {
    if text == LATEST {
        return snapshot(view, text, filter).map(|(id, _)| id);
    }
    let wanted = digits(text)?;
    let all = view.commits.iter().filter_map(|(id, commit)| Some((*id, commit.snapshot()?)));
    match by_digits(view, all.collect(), &wanted, filter)? {
        Some((id, _)) => Ok(id),
        None => Err(absent(view, &wanted)),
    }
}

/// Parses the beginning of an id, into lower case.
fn digits(text: &OsStr) -> Result<String> {
    let shown = escape::for_terminal(text.as_bytes());
    let wanted = shown.to_ascii_lowercase();
    if !wanted.bytes().all(|byte| byte.is_ascii_hexdigit()) || wanted.is_empty() {
        return Err(no_snapshot(&format!(
            "`{shown}`: not a snapshot (expected an ID or `{LATEST}`)"
        )));
    }
    if wanted.len() < ID_DIGITS_MIN {
        return Err(no_snapshot(&format!(
            "`{shown}`: too short (expected at least {ID_DIGITS_MIN} digits of an ID)"
        )));
    }
    Ok(wanted)
}

/// Returns the one of `candidates` whose id begins with `wanted`, if there is any.
fn by_digits<'a>(
    view: &View,
    mut candidates: Vec<(TicketId, &'a Snapshot)>,
    wanted: &str,
    filter: &Filter,
) -> Result<Option<(TicketId, &'a Snapshot)>> {
    candidates.retain(|(id, snapshot)| {
        id.to_string().starts_with(wanted) && passes(filter, view, *id, snapshot)
    });
    match candidates[..] {
        [] => Ok(None),
        [found] => Ok(Some(found)),
        _ => {
            let list: Vec<String> = candidates
                .iter()
                .map(|(id, snapshot)| {
                    let seconds = snapshot.started_ns.div_euclid(1_000_000_000);
                    format!("{id} ({}, {})", units::date_time(seconds), snapshot.host)
                })
                .collect();
            let message = format!("`{wanted}`: ambiguous (found {})", list.join(", "));
            Err(Failure::failed(message).with_remedy("give more digits").into())
        }
    }
}

/// Returns the reason why no listed snapshot has an id that begins with `wanted`.
fn absent(view: &View, wanted: &str) -> anyhow::Error {
    let is_wanted = |id: &TicketId| id.to_string().starts_with(wanted);
    let unreadable =
        view.unresolved().find(|(name, _)| matches!(name, ObjectName::Commit(id) if is_wanted(id)));
    if let Some((_, error)) = unreadable {
        return Failure::new(Exit::Damaged, error.to_string()).into();
    }
    if let Some((id, _)) = view.forgotten_snapshots().iter().find(|(id, _)| is_wanted(id)) {
        let id = id.short();
        return Failure::failed(format!("snapshot {id}: forgotten"))
            .with_remedy(format!("`cutpoint forget --undo {id}` lists it again"))
            .into();
    }
    if let Some(id) = view.taken().iter().find(|id| is_wanted(id)) {
        let id = id.short();
        return no_snapshot(&format!(
            "snapshot {id}: removed for good, by a prune after it was forgotten, or by `cutpoint \
             repair snapshots --forget`"
        ));
    }
    no_snapshot(&format!("snapshot `{wanted}`: not found"))
}

fn no_snapshot(message: &str) -> anyhow::Error {
    Failure::failed(message).with_remedy("`cutpoint snapshots` lists all snapshots").into()
}

/// Returns the names in a path of a snapshot, which begins at the root, with or without a `/`.
pub(crate) fn names(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|&byte| byte == b'/').filter(|&name| !matches!(name, b"" | b"."))
}

/// The result of following a path in a snapshot.
#[derive(Debug)]
pub(crate) enum Found {
    /// The root of the snapshot, which has no entry.
    Root,
    /// Any other entry.
    Entry {
        /// The entry.
        entry: Box<Entry>,
        /// The tree of the folder that contains the entry.
        parent: Content,
    },
}

/// Follows `path` from the root of a snapshot, without following symbolic links.
///
/// # Errors
///
/// Fails if the path does not exist, with the part of the path that was followed.
pub(crate) fn find(reader: &Reader, root: &Content, path: &[u8]) -> Result<Found> {
    let mut found = Found::Root;
    let mut walked = Vec::new();
    for name in names(path) {
        if name == b".." {
            return Err(Failure::failed("a path in a snapshot cannot contain `..`").into());
        }
        let tree = match found {
            Found::Root => root.clone(),
            Found::Entry { entry, .. } if entry.kind == EntryKind::Folder => entry.content,
            Found::Entry { .. } => {
                let shown = escape::for_terminal(&walked);
                return Err(Failure::failed(format!("`{shown}`: not a folder")).into());
            }
        };
        walked.push(b'/');
        walked.extend_from_slice(name);
        let mut entries = reader.tree(&tree);
        let entry = loop {
            match entries.next().transpose()? {
                Some(entry) if entry.name == name => break entry,
                // The names ascend, so the name cannot follow.
                Some(entry) if entry.name.as_slice() < name => {}
                _ => {
                    let shown = escape::for_terminal(&walked);
                    return Err(Failure::failed(format!("`{shown}`: not in the snapshot"))
                        .with_remedy(
                            "`cutpoint ls SNAPSHOT` lists the entries; paths start at the root",
                        )
                        .into());
                }
            }
        };
        found = Found::Entry { entry: Box::new(entry), parent: tree };
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use cutpoint_repository::format::commit::{Commit, Note, Outcome, ViewRecord};

    use super::*;

    fn id(digits: &str) -> TicketId {
        TicketId::parse(&format!("{digits:0<24}")).expect("an id")
    }

    fn commit(outcome: Outcome) -> Arc<Commit> {
        let (segments, view, extra) = (Vec::new(), ViewRecord::default(), Default::default());
        Arc::new(Commit { outcome, segments, embedded: None, view, time_ns: 0, extra })
    }

    /// Returns a view of snapshots in this order. The last one is partial, and the first one was
    /// tagged `noted` later.
    fn view() -> View {
        let mut view = View::default();
        let all = ["abcd1", "abcd2", "1234", "4321"];
        for (started_ns, digits) in (1..).zip(all) {
            let snapshot = Snapshot {
                started_ns,
                host: digits[..1].to_owned(),
                tags: vec!["tag".to_owned()],
                partial: digits == "4321",
                ..Snapshot::empty()
            };
            view.commits.insert(id(digits), commit(Outcome::Snapshot(Box::new(snapshot))));
        }
        let note =
            Note { snapshot: Some(id("abcd1")), tags: vec!["noted".to_owned()], ..Note::default() };
        view.commits.insert(id("ffff"), commit(Outcome::Note(note)));
        view
    }

    fn find(text: &str, filter: &Filter) -> Result<TicketId, String> {
        let found = snapshot(&view(), OsStr::new(text), filter).map(|(id, _)| id);
        found.map_err(|error| error.to_string())
    }

    #[test]
    fn first_digits_must_be_unambiguous() {
        let any = Filter::default();
        assert_eq!(find("abcd2", &any), Ok(id("abcd2")), "enough digits");
        assert_eq!(find("4321", &any), Ok(id("4321")), "a partial one by its id");
        let error = find("abcd", &any).expect_err("two are meant");
        for each in ["abcd1", "abcd2"] {
            let each = id(each).to_string();
            assert!(error.contains(&each), "{each} is not listed: {error}");
        }
        assert!(find("ffff", &any).is_err(), "no snapshot, but a note");
    }

    #[test]
    fn latest_is_the_newest_complete_match() {
        let filter = |host: Option<&str>, tags: &[&str]| Filter {
            host: host.map(str::to_owned),
            tags: tags.iter().map(|&tag| tag.to_owned()).collect(),
        };
        assert_eq!(find(LATEST, &Filter::default()), Ok(id("1234")), "not the partial one");
        assert_eq!(find(LATEST, &filter(Some("a"), &[])), Ok(id("abcd2")), "of a host");
        assert_eq!(find(LATEST, &filter(None, &["noted"])), Ok(id("abcd1")), "by a later tag");
        assert_eq!(find(LATEST, &filter(Some("a"), &["tag"])), Ok(id("abcd2")), "both");
        assert!(find(LATEST, &filter(Some("4"), &[])).is_err(), "only a partial one");
    }

    #[test]
    fn colon_separates_snapshot_and_path() {
        for (text, snapshot, path) in [
            ("latest", "latest", None),
            ("latest:", "latest", Some("")),
            ("1234:/a:b", "1234", Some("/a:b")),
        ] {
            let place = Place::parse(OsStr::new(text));
            assert_eq!(place.snapshot, snapshot, "{text}");
            assert_eq!(place.path, path.map(str::as_bytes), "{text}");
        }
    }
}
