//! The selection of snapshots and of paths in them. `args/help.rs` explains it to users.

#[cfg(feature = "import")]
mod foreign;
mod name;
mod nearest;
mod path;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use anyhow::{Context, Result};
use cutpoint_repository::format::commit::Origin;
use cutpoint_repository::{
    Content, Entry, EntryKind, ObjectName, Reader, Snapshot, TicketId, View,
};

#[cfg(feature = "import")]
pub(crate) use self::foreign::{foreign_snapshot, foreign_snapshots};
pub(crate) use self::name::Place;
use self::name::SnapshotName;
use self::path::Found;
pub(crate) use self::path::names;
use crate::args::Selection;
use crate::exit::{Exit, Failure};
use crate::report::Report;
use crate::{escape, units};

/// The maximum number of sources that a message names.
const SOURCES_SHOWN_MAX: usize = 3;

/// Sorts snapshots by time, oldest first, then by id. Those without a readable commit come first.
pub(crate) fn oldest_first(view: &View, ids: impl IntoIterator<Item = TicketId>) -> Vec<TicketId> {
    let time = |id: &TicketId| Some(view.commits.get(id)?.snapshot()?.started_ns);
    let mut ids: Vec<TicketId> = ids.into_iter().collect();
    ids.sort_by_key(|id| (time(id), *id));
    ids
}

/// The maximum number of sources that a line of a list has.
const SOURCES_LISTED_MAX: usize = 10;

/// Formats paths for a message, separated by commas: the first ones, and the number of the others.
pub(crate) fn listed<'a>(paths: impl Iterator<Item = &'a [u8]>) -> String {
    first_of(paths, SOURCES_SHOWN_MAX, ", ")
}

/// Formats the sources of a snapshot for a line of a list: the first ones, and the number of the
/// others.
pub(crate) fn sources<'a>(paths: impl Iterator<Item = &'a [u8]>) -> String {
    first_of(paths, SOURCES_LISTED_MAX, " ")
}

/// Formats at most `max` paths and the number of the others.
fn first_of<'a>(paths: impl Iterator<Item = &'a [u8]>, max: usize, separator: &str) -> String {
    let mut paths = paths.fuse();
    let shown: Vec<String> = paths.by_ref().take(max).map(escape::for_terminal).collect();
    let shown = shown.join(separator);
    match paths.count() {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// Describes a snapshot for a message: id, time, host and sources.
pub(crate) fn described(id: TicketId, snapshot: &Snapshot) -> String {
    let time = units::date_time(snapshot.started_ns.div_euclid(1_000_000_000));
    let host = escape::for_terminal(snapshot.host.as_bytes());
    let shown = listed(snapshot.sources.iter().map(Vec::as_slice));
    format!("snapshot {} ({time}, host {host}, {shown})", id.short())
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

// ---------------------------------------------------------------------------------------------
// Filters.

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
    is_selected(selection, snapshot, view.tags(id, snapshot))
}

/// Returns `true` if the snapshot with these tags passes `selection`.
///
/// # Errors
///
/// Returns any error of [`selects`].
fn is_selected(selection: &Selection, snapshot: &Snapshot, has: &[String]) -> Result<bool> {
    let mut is_selected = vec![false; snapshot.sources.len()];
    for path in &selection.paths {
        let absolute = absolute(path)?;
        let mut has_path = false;
        for (source, is_selected) in snapshot.sources.iter().zip(&mut is_selected) {
            let is_same = is_same_source(source, path, &absolute);
            *is_selected |= is_same;
            has_path |= is_same;
        }
        if !has_path {
            return Ok(false);
        }
    }
    if selection.has_all_paths && is_selected.contains(&false) {
        return Ok(false);
    }
    Ok(selection.host.as_ref().is_none_or(|host| *host == snapshot.host)
        && selection.tags.iter().all(|tag| has.contains(tag)))
}

/// Returns the normalized form of a path that a user gives.
fn absolute(path: &Path) -> Result<Vec<u8>> {
    let absolute = std::path::absolute(path).with_context(|| path.display().to_string())?;
    Ok(path::normal(absolute.as_os_str().as_bytes()))
}

/// Returns `true` if `source` is the path `given`, or the stream of that name. `absolute` is the
/// normalized form of `given`.
fn is_same_source(source: &[u8], given: &Path, absolute: &[u8]) -> bool {
    let is_path = source.first() == Some(&b'/');
    source == given.as_os_str().as_bytes() || (is_path && path::normal(source) == absolute)
}

/// Describes a selection, after a noun.
fn selected(selection: &Selection) -> String {
    let mut text = String::new();
    if let Some(host) = &selection.host {
        text.push_str(&format!(" of host {}", escape::for_terminal(host.as_bytes())));
    }
    if !selection.paths.is_empty() {
        let paths = selection.paths.iter().map(|path| path.as_os_str().as_bytes());
        let noun = if selection.paths.len() == 1 { "path" } else { "paths" };
        text.push_str(&format!(" of the {noun} {}", listed(paths)));
    }
    if !selection.tags.is_empty() {
        let tags = escape::for_terminal(selection.tags.join(", ").as_bytes());
        let noun = if selection.tags.len() == 1 { "tag" } else { "tags" };
        text.push_str(&format!(" with the {noun} {tags}"));
    }
    text
}

// ---------------------------------------------------------------------------------------------
// Snapshots.

/// Finds the listed snapshot that `text` denotes. If it is a date or `latest~N`, a note says which
/// snapshot was taken.
///
/// # Errors
///
/// Fails if no snapshot matches, or if several match; these are named.
pub(crate) fn snapshot<'a>(
    view: &'a View,
    text: &OsStr,
    selection: &Selection,
    report: &Report,
) -> Result<(TicketId, &'a Snapshot)> {
    let name = SnapshotName::parse(text)?;
    let (id, snapshot) = match &name {
        SnapshotName::Id(wanted) => by_digits(view, view.snapshots(), wanted, selection)?
            .ok_or_else(|| absent(view, wanted))?,
        _ => by_order(view, text, &name, selection)?,
    };
    if !matches!(name, SnapshotName::Id(_) | SnapshotName::Latest(0)) {
        let shown = escape::for_terminal(text.as_bytes());
        report.note(&format!("{shown}: {}.", described(id, snapshot)));
    }
    Ok((id, snapshot))
}

/// Finds the snapshot that `text` denotes, among those that are listed, forgotten, or taken by a
/// prune but not deleted yet. Only IDs denote snapshots that are not listed.
///
/// # Errors
///
/// Returns any error of [`snapshot`].
pub(crate) fn any_snapshot(
    view: &View,
    text: &OsStr,
    selection: &Selection,
    report: &Report,
) -> Result<TicketId> {
    let SnapshotName::Id(wanted) = SnapshotName::parse(text)? else {
        return snapshot(view, text, selection, report).map(|(id, _)| id);
    };
    let all = view.commits.iter().filter_map(|(id, commit)| Some((*id, commit.snapshot()?)));
    match by_digits(view, all.collect(), &wanted, selection)? {
        Some((id, _)) => Ok(id),
        None => Err(absent(view, &wanted)),
    }
}

/// Returns `true` if `text` can denote only snapshots that are listed.
pub(crate) fn names_listed(text: &OsStr) -> Result<bool> {
    Ok(!matches!(SnapshotName::parse(text)?, SnapshotName::Id(_)))
}

/// Returns the snapshot that `name` denotes by its place among the selected ones. `text` is the
/// name as it was given.
fn by_order<'a>(
    view: &'a View,
    text: &OsStr,
    name: &SnapshotName,
    selection: &Selection,
) -> Result<(TicketId, &'a Snapshot)> {
    let mut snapshots = Vec::new();
    for (id, snapshot) in view.snapshots() {
        // A snapshot of a run that was cut off must be named by its id.
        if !snapshot.partial && selects(selection, view, id, snapshot)? {
            snapshots.push((id, snapshot));
        }
    }
    let found = match name {
        SnapshotName::Latest(newer_count) => {
            snapshots.len().checked_sub(newer_count.saturating_add(1))
        }
        SnapshotName::Before(seconds) => snapshots
            .partition_point(|(_, snapshot)| {
                snapshot.started_ns.div_euclid(1_000_000_000) < *seconds
            })
            .checked_sub(1),
        SnapshotName::Id(_) => None,
    };
    if let Some(at) = found {
        return Ok(snapshots[at]);
    }
    let selected = selected(selection);
    let Some((oldest, snapshot)) = snapshots.first() else {
        return Err(match source_above(view, selection)? {
            Some((given, source)) => Failure::failed(format!("no snapshot{selected}"))
                .with_remedy(format!(
                    "--path names a source of a backup; {given} is below the source {0}: use \
                     --path {0}",
                    escape::for_terminal(&source)
                ))
                .into(),
            None => no_snapshot(&format!("no snapshot{selected}")),
        });
    };
    let shown = escape::for_terminal(text.as_bytes());
    Err(no_snapshot(&match name {
        SnapshotName::Before(_) => format!(
            "no snapshot{selected} from {shown} or before (the oldest is {})",
            described(*oldest, snapshot)
        ),
        _ => {
            let count = units::count(snapshots.len() as u64, "snapshot");
            format!("`{shown}`: there {} only {count}{selected}", are(snapshots.len()))
        }
    }))
}

fn are(count: usize) -> &'static str {
    if count == 1 { "is" } else { "are" }
}

/// Returns the first path of the selection that is below a source of a listed snapshot, and that
/// source.
fn source_above(view: &View, selection: &Selection) -> Result<Option<(String, Vec<u8>)>> {
    for given in &selection.paths {
        let absolute = absolute(given)?;
        let is_above = |source: &&Vec<u8>| {
            source.first() == Some(&b'/')
                && absolute
                    .strip_prefix(path::normal(source).as_slice())
                    .is_some_and(|rest| rest.first() == Some(&b'/'))
        };
        let newest_first = view.snapshots().into_iter().rev();
        let above = newest_first.flat_map(|(_, snapshot)| &snapshot.sources).find(is_above);
        if let Some(above) = above {
            let given = escape::for_terminal(given.as_os_str().as_bytes());
            return Ok(Some((given, above.clone())));
        }
    }
    Ok(None)
}

/// Returns the one of `candidates` whose id begins with `wanted`, if there is any.
fn by_digits<'a>(
    view: &View,
    mut candidates: Vec<(TicketId, &'a Snapshot)>,
    wanted: &str,
    selection: &Selection,
) -> Result<Option<(TicketId, &'a Snapshot)>> {
    let is_own = |id: TicketId| id.to_string().starts_with(wanted);
    let is_copy = |origin: Option<Origin>| {
        origin.is_some_and(|origin| origin.key.snapshot.to_string().starts_with(wanted))
    };
    // A copy is also found by the id of its original, unless a snapshot of that id is here. One
    // that lacks files is found if there is no complete one.
    let has_own = candidates.iter().any(|(id, _)| is_own(*id));
    let has_copy = candidates.iter().any(|(_, snapshot)| is_copy(snapshot.copied_from()));
    candidates.retain(|(id, snapshot)| match (has_own, has_copy) {
        (true, _) => is_own(*id),
        (false, true) => is_copy(snapshot.copied_from()),
        (false, false) => is_copy(snapshot.original()),
    });
    let mut selected = Vec::new();
    for (id, snapshot) in &candidates {
        if selects(selection, view, *id, snapshot)? {
            selected.push((*id, *snapshot));
        }
    }
    match (&selected[..], &candidates[..]) {
        ([], []) => Ok(None),
        ([], [(id, snapshot), ..]) => {
            let described = described(*id, snapshot);
            let message = format!("{described}: not selected by --host, --tag and --path");
            Err(Failure::failed(message).with_remedy("omit these options").into())
        }
        ([found], _) => Ok(Some(*found)),
        _ => {
            let list: Vec<String> = selected
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

// ---------------------------------------------------------------------------------------------
// Paths.

/// The search for paths in a snapshot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lookup<'a> {
    pub(crate) reader: &'a Reader,
    pub(crate) view: &'a View,
    /// The snapshot that was named.
    pub(crate) id: TicketId,
    pub(crate) snapshot: &'a Snapshot,
    /// Returns the command that an error suggests for an entry of this kind in another snapshot,
    /// with `{}` for snapshot and path.
    pub(crate) usage: fn(EntryKind) -> &'static str,
}

/// An existing path of a snapshot.
#[derive(Debug)]
pub(crate) struct Located {
    /// The path, with one `/` before each name. The root is empty.
    pub(crate) path: Vec<u8>,
    /// The entry, and the tree of the folder that contains it; `None` for the root.
    pub(crate) entry: Option<(Box<Entry>, Content)>,
}

impl Lookup<'_> {
    /// Finds the path that a user gives, in one of the forms of `cutpoint help selection`.
    ///
    /// # Errors
    ///
    /// Fails if the path does not exist. The remedy is the nearest snapshot that has it, if there
    /// is one.
    pub(crate) fn find(&self, given: &[u8]) -> Result<Located> {
        let current = std::env::current_dir();
        let known = current.as_ref().ok().map(|folder| folder.as_os_str().as_bytes());
        let candidates = path::candidates(given, known);
        if let (Err(error), []) = (current, &candidates[..]) {
            return Err(error).context("current folder");
        }
        let mut file = None;
        for path in &candidates {
            let entry = match path::follow(self.reader, &self.snapshot.root, path)? {
                Found::Root => None,
                Found::Entry { entry, parent } => Some((entry, parent)),
                Found::Nothing => continue,
                Found::NoFolder(path) => {
                    file = file.or(Some(path));
                    continue;
                }
            };
            return Ok(Located { path: path.clone(), entry });
        }
        Err(self.missing(&candidates, file))
    }

    /// Returns the failure for paths that do not exist. `file` is a beginning of one of them that is
    /// not a folder.
    fn missing(&self, paths: &[Vec<u8>], file: Option<Vec<u8>>) -> anyhow::Error {
        let described = described(self.id, self.snapshot);
        let message = match file {
            Some(file) => {
                let file = escape::for_terminal(&file);
                format!("{described}: {file} is not a folder")
            }
            None => {
                let paths: Vec<String> =
                    paths.iter().map(|path| escape::for_terminal(path)).collect();
                format!("{described} has no {}", paths.join(" and no "))
            }
        };
        let name = paths.first().and_then(|path| path::names(path).last()).unwrap_or_default();
        let taken = (self.id, self.snapshot);
        let remedy = match nearest::nearest(self.reader, self.view, taken, paths) {
            Some(nearest::Nearest { id, snapshot, path, kind }) => {
                let command = (self.usage)(kind).replace("{}", &quoted_place(id, &path));
                format!("{} has it: `cutpoint {command}`", self::described(id, snapshot))
            }
            None => format!(
                "`cutpoint ls {}` lists the entries; `cutpoint find {}` searches all snapshots",
                self.id.short(),
                quoted(name),
            ),
        };
        Failure::failed(message).with_remedy(remedy).into()
    }
}

/// Formats a path of a snapshot for a shell, for a message.
pub(crate) fn quoted_place(id: TicketId, path: &[u8]) -> String {
    let path = if path.is_empty() { b"/" } else { path };
    quoted(&[id.short().as_bytes(), b":", path].concat())
}

/// Formats an argument for a shell, for a message.
fn quoted(bytes: &[u8]) -> String {
    let text = escape::for_terminal(bytes);
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+:,@%=".contains(&byte);
    match text.bytes().all(|byte| is_plain(byte) || !byte.is_ascii()) {
        true => text,
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use cutpoint_repository::format::commit::{Commit, Note, Outcome, ViewRecord};

    use super::*;

    const SECOND_NS: i64 = 1_000_000_000;

    fn id(digits: &str) -> TicketId {
        TicketId::parse(&format!("{digits:0<24}")).expect("an id")
    }

    fn commit(outcome: Outcome) -> Arc<Commit> {
        let (segments, view, extra) = (Vec::new(), ViewRecord::default(), Default::default());
        Arc::new(Commit { outcome, segments, embedded: None, view, time_ns: 0, extra })
    }

    /// Returns a view of snapshots in this order, a second apart. The last one is partial, and the
    /// first one was tagged `noted` later.
    fn view() -> View {
        let mut view = View::default();
        let all = ["abcd1", "abcd2", "1234", "4321"];
        for (seconds, digits) in (1..).zip(all) {
            let snapshot = Snapshot {
                started_ns: seconds * SECOND_NS,
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

    fn find(text: &str, selection: &Selection) -> Result<TicketId, String> {
        let view = view();
        let found = match SnapshotName::parse(OsStr::new(text)) {
            Ok(SnapshotName::Id(wanted)) => by_digits(&view, view.snapshots(), &wanted, selection)
                .map(|found| found.map(|(id, _)| id))
                .and_then(|id| id.ok_or_else(|| absent(&view, &wanted))),
            Ok(name) => by_order(&view, OsStr::new(text), &name, selection).map(|(id, _)| id),
            Err(error) => Err(error),
        };
        found.map_err(|error| error.to_string())
    }

    #[test]
    fn first_digits_must_be_unambiguous() {
        let any = Selection::default();
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
        let of = |host: Option<&str>, tags: &[&str]| Selection {
            host: host.map(str::to_owned),
            tags: tags.iter().map(|&tag| tag.to_owned()).collect(),
            ..Selection::default()
        };
        assert_eq!(find("latest", &of(None, &[])), Ok(id("1234")), "not the partial one");
        assert_eq!(find("latest~2", &of(None, &[])), Ok(id("abcd1")), "the second before");
        assert_eq!(find("latest", &of(Some("a"), &[])), Ok(id("abcd2")), "of a host");
        assert_eq!(find("latest", &of(None, &["noted"])), Ok(id("abcd1")), "by a later tag");
        assert_eq!(find("latest", &of(Some("a"), &["tag"])), Ok(id("abcd2")), "both");
        assert_eq!(find("latest~1", &of(Some("a"), &[])), Ok(id("abcd1")), "before it");
        assert!(find("latest", &of(Some("4"), &[])).is_err(), "only a partial one");
        assert!(find("latest~3", &of(None, &[])).is_err(), "more than there are");
        let most = format!("latest~{}", usize::MAX);
        assert!(find(&most, &of(None, &[])).is_err(), "more than can be counted");
    }

    #[test]
    fn dates_include_their_last_moment() {
        let any = Selection::default();
        for (text, digits) in [
            ("1970-01-01T00:00:01Z", "abcd1"),
            ("1970-01-01T00:00:02Z", "abcd2"),
            ("1970-01-01T00:00:09Z", "1234"),
            ("1970-01-01T00:00Z", "1234"),
            ("1970-01-01Z", "1234"),
        ] {
            assert_eq!(find(text, &any), Ok(id(digits)), "{text}");
        }
        let error = find("1970-01-01T00:00:00Z", &any).expect_err("before the oldest");
        assert!(error.contains("the oldest is snapshot abcd1"), "{error}");
    }

    #[test]
    fn arguments_are_quoted_for_a_shell() {
        for (bytes, expected) in [
            (&b"5f3a:/home/x"[..], "5f3a:/home/x"),
            ("/home/\u{fc}".as_bytes(), "/home/\u{fc}"),
            (b"/a b", "'/a b'"),
            (b"it's", r"'it'\''s'"),
            (b"$HOME", "'$HOME'"),
        ] {
            assert_eq!(quoted(bytes), expected, "{expected}");
        }
    }
}
