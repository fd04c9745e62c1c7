//! Which snapshot is meant, and which path in it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use anyhow::{Context, Result};
use cutpoint_store::format::commit::Snapshot;
use cutpoint_store::format::recipe::Content;
use cutpoint_store::format::tree::{Entry, EntryKind};
use cutpoint_store::name::{ObjectName, TicketId};
use cutpoint_store::reader::Reader;
use cutpoint_store::view::View;

use crate::args::{Filter, Selection};
use crate::defaults::ID_DIGITS_MIN;
use crate::escape;
use crate::exit::{Exit, Failure};
use crate::report::Report;
use crate::units;

/// The word for the newest snapshot.
const LATEST: &str = "latest";

/// `SNAPSHOT` or `SNAPSHOT:PATH`, taken apart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'a> {
    /// An id, its beginning, or `latest`.
    pub(crate) snapshot: &'a OsStr,
    /// The path; `None` where there is no colon.
    pub(crate) path: Option<&'a [u8]>,
}

impl<'a> Place<'a> {
    /// Takes `text` apart at its first colon.
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

/// Whether `filter` lets a snapshot through.
pub(crate) fn passes(filter: &Filter, view: &View, id: TicketId, snapshot: &Snapshot) -> bool {
    let has = view.tags(id, snapshot);
    filter.host.as_ref().is_none_or(|host| *host == snapshot.host)
        && filter.tags.iter().all(|tag| has.contains(tag))
}

/// Paths for a message, parted by commas.
pub(crate) fn listed<'a>(paths: impl Iterator<Item = &'a [u8]>) -> String {
    paths.map(escape::for_terminal).collect::<Vec<_>>().join(", ")
}

/// Warns of a snapshot that is what a run has left that was not at its end, or that was made with
/// problems.
pub(crate) fn warn_of_lack(id: TicketId, snapshot: &Snapshot, report: &Report) {
    let id = id.short();
    let problem_count = snapshot.statistics.problem_count;
    if problem_count > 0 {
        report.warn(&format!(
            "the snapshot {id} was made with {}: what they named is missing from it, or is not as \
             it was at the source",
            units::count(problem_count, "problem")
        ));
    }
    if snapshot.partial {
        report.warn(&format!(
            "the snapshot {id} is of a run that was not at its end: files are missing, and one of \
             them may be cut short"
        ));
    }
    if !snapshot.missing.is_empty() {
        let missing = listed(snapshot.missing_sources());
        report.warn(&format!(
            "the snapshot {id} has nothing of {missing}, which could not be opened when it was made; \
             `cutpoint snapshots` lists those before"
        ));
    }
}

/// Whether `selection` lets a snapshot through.
///
/// # Errors
///
/// Where a path cannot be made absolute.
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

/// Finds the snapshot that `text` means, among those that are listed.
///
/// # Errors
///
/// Where it means none or several; these are listed.
pub(crate) fn snapshot<'a>(
    view: &'a View,
    text: &OsStr,
    filter: &Filter,
) -> Result<(TicketId, &'a Snapshot)> {
    let candidates = view.snapshots();
    if text == LATEST {
        // What a run that was cut off has left is asked for by its id.
        return candidates
            .into_iter()
            .rfind(|(id, snapshot)| !snapshot.partial && passes(filter, view, *id, snapshot))
            .ok_or_else(|| no_snapshot("there is no snapshot yet that fits"));
    }
    let wanted = digits(text)?;
    match by_digits(view, candidates, &wanted, filter)? {
        Some(found) => Ok(found),
        None => Err(absent(view, &wanted)),
    }
}

/// Finds the snapshot that `text` means, among those that are listed, forgotten, or taken by a prune
/// and not gone yet. `latest` is the newest that is listed.
///
/// # Errors
///
/// As [`snapshot`].
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

/// The beginning of an id, in lower case.
fn digits(text: &OsStr) -> Result<String> {
    let shown = escape::for_terminal(text.as_bytes());
    let wanted = shown.to_ascii_lowercase();
    if !wanted.bytes().all(|byte| byte.is_ascii_hexdigit()) || wanted.is_empty() {
        return Err(no_snapshot(&format!("`{shown}` is neither an id nor `{LATEST}`")));
    }
    if wanted.len() < ID_DIGITS_MIN {
        return Err(no_snapshot(&format!(
            "`{shown}` is too short: at least {ID_DIGITS_MIN} digits of an id are needed"
        )));
    }
    Ok(wanted)
}

/// The one of `candidates` whose id begins with `wanted`, if there is any.
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
            let message = format!("`{wanted}` can mean {}", list.join(", "));
            Err(Failure::failed(message).with_remedy("give more digits").into())
        }
    }
}

/// Why no listed snapshot has an id that begins with `wanted`.
fn absent(view: &View, wanted: &str) -> anyhow::Error {
    let is_wanted = |id: &TicketId| id.to_string().starts_with(wanted);
    let unreadable =
        view.unresolved().find(|(name, _)| matches!(name, ObjectName::Commit(id) if is_wanted(id)));
    if let Some((_, error)) = unreadable {
        return Failure::new(Exit::Damaged, error.to_string()).into();
    }
    if let Some((id, _)) = view.forgotten_snapshots().iter().find(|(id, _)| is_wanted(id)) {
        let id = id.short();
        return Failure::failed(format!("the snapshot {id} is forgotten"))
            .with_remedy(format!("`cutpoint forget --undo {id}` brings it back"))
            .into();
    }
    if let Some(id) = view.taken().iter().find(|id| is_wanted(id)) {
        let id = id.short();
        return no_snapshot(&format!(
            "the snapshot {id} is gone for good: a prune has taken it, after it was forgotten, or \
             `cutpoint repair snapshots --forget` gave it up"
        ));
    }
    no_snapshot(&format!("there is no snapshot `{wanted}`"))
}

fn no_snapshot(message: &str) -> anyhow::Error {
    Failure::failed(message).with_remedy("`cutpoint snapshots` lists those that exist").into()
}

/// The names in a path of a snapshot, which begins at the root with or without a `/`.
pub(crate) fn names(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|&byte| byte == b'/').filter(|&name| !matches!(name, b"" | b"."))
}

/// What a path of a snapshot leads to.
#[derive(Debug)]
pub(crate) enum Found {
    /// The root of the snapshot, which has no entry.
    Root,
    /// Anything else, and what the folder that it is in holds.
    Entry {
        /// The entry.
        entry: Box<Entry>,
        /// The tree of its folder.
        parent: Content,
    },
}

/// Follows `path` from the root of a snapshot. No symbolic link is followed.
///
/// # Errors
///
/// Where there is nothing, saying how far the path led.
pub(crate) fn find(reader: &Reader, root: &Content, path: &[u8]) -> Result<Found> {
    let mut found = Found::Root;
    let mut walked = Vec::new();
    for name in names(path) {
        if name == b".." {
            return Err(Failure::failed("a path in a snapshot cannot have `..`").into());
        }
        let tree = match found {
            Found::Root => root.clone(),
            Found::Entry { entry, .. } if entry.kind == EntryKind::Folder => entry.content,
            Found::Entry { .. } => {
                let shown = escape::for_terminal(&walked);
                return Err(Failure::failed(format!("`{shown}` is no folder")).into());
            }
        };
        walked.push(b'/');
        walked.extend_from_slice(name);
        let mut entries = reader.tree(&tree);
        let entry = loop {
            match entries.next().transpose()? {
                Some(entry) if entry.name == name => break entry,
                // Names rise: it will not come any more.
                Some(entry) if entry.name.as_slice() < name => {}
                _ => {
                    let shown = escape::for_terminal(&walked);
                    return Err(Failure::failed(format!("`{shown}` is not in the snapshot"))
                        .with_remedy(
                            "`cutpoint ls SNAPSHOT` shows what is; paths begin at the root",
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

    use cutpoint_store::format::commit::{Commit, Note, Outcome, ViewRecord};

    use super::*;

    fn id(digits: &str) -> TicketId {
        TicketId::parse(&format!("{digits:0<24}")).expect("an id")
    }

    fn commit(outcome: Outcome) -> Arc<Commit> {
        let (segments, view, extra) = (Vec::new(), ViewRecord::default(), Default::default());
        Arc::new(Commit { outcome, segments, view, time_ns: 0, extra })
    }

    /// Snapshots in this order; the last is partial. The first has got the tag `noted`.
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
    fn the_first_digits_must_mean_one() {
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
    fn latest_is_the_newest_that_is_whole_and_fits() {
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
    fn a_colon_parts_snapshot_and_path() {
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
