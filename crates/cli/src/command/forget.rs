//! `forget`: takes snapshots off the lists, by rules or by name, and puts them back.

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;

use anyhow::Result;
use cutpoint_repository::format::commit::{Commit, Outcome};
use cutpoint_repository::format::recipe::Segment;
use cutpoint_repository::snapshots;
use cutpoint_repository::snapshots::retention::{Candidate, Group, GroupKey, Reason, judge};
use cutpoint_repository::verify::repair::repaired_as;
use cutpoint_repository::{Class, Content, EntryKind, Reader, Snapshot, TicketId, View};

use super::alone::require_alone;
use super::waiting::announce_lag;
use crate::args::{Forget, Global, GroupBy};
use crate::event::{self, Event, PathText, Summary};
use crate::exit::{Exit, Failure};
use crate::report::Report;
use crate::session::Session;
use crate::units::DATE_TIME_WIDTH;
use crate::{escape, select, time_zone, units};

/// The maximum number of entries that are examined before a snapshot counts as lost. It also bounds
/// the depth of folders.
const LOOKS_MAX: u32 = 256;

pub(crate) fn run(args: &Forget, global: &Global, report: &Report) -> Result<Exit> {
    refuse_nonsense(args)?;
    let mut session = Session::open(global, report)?;
    let view = session.view(report)?;
    if !args.dry_run {
        announce_lag(&session)?;
    }
    if args.undo {
        undo(args, &session, &view, report)?;
    } else if !args.snapshots.is_empty() {
        forget_named(args, &session, &view, report)?;
    } else {
        forget_by_rules(args, &session, view, report)?;
    }
    Ok(Exit::of_problems(report.problem_count()))
}

/// Refuses contradictory options before a passphrase is asked for.
fn refuse_nonsense(args: &Forget) -> Result<()> {
    let refuse =
        |message: &str, remedy: &str| Err(Failure::failed(message).with_remedy(remedy).into());
    let has_rules = !args.keep.policy().is_empty();
    let is_named = !args.snapshots.is_empty();
    let is_of_rules = (!args.selection.paths.is_empty() && !is_named)
        || !args.group_by.is_empty()
        || args.allow_empty;
    if args.undo && !is_named && !args.last {
        let remedy = "name snapshots or use --last; `cutpoint snapshots --forgotten` lists \
             forgotten snapshots";
        return refuse("--undo: no snapshot given", remedy);
    }
    if args.alone.exclusive && !args.undo {
        return refuse("--exclusive: only --undo needs it", "remove this option");
    }
    if args.undo && has_rules {
        return refuse("--undo: cannot be combined with rules", "name snapshots, or use --last");
    }
    if is_named && has_rules {
        let remedy = "name the snapshots to forget, or give rules by --keep-... options";
        return refuse("named snapshots cannot be combined with rules", remedy);
    }
    if !args.undo && !is_named && !has_rules {
        let remedy = "use --keep-last N or another rule, or name the snapshots to forget";
        return refuse("no rule and no snapshot given", remedy);
    }
    if is_of_rules && !has_rules {
        let message = "--path, --group-by and --allow-empty require rules";
        return refuse(message, "remove these options");
    }
    Ok(())
}

// ---------------------------------------------------------------------------------------------
// By name.

fn forget_named(args: &Forget, session: &Session, view: &View, report: &Report) -> Result<()> {
    let held = view.held();
    let mut ids: BTreeSet<TicketId> = BTreeSet::new();
    for text in &args.snapshots {
        let (id, _) = select::snapshot(view, text, &args.selection, report)?;
        if held.contains(&id) {
            let id = id.short();
            return Err(Failure::failed(format!("snapshot {id}: held"))
                .with_remedy(format!("`cutpoint hold --release {id}` releases it"))
                .into());
        }
        ids.insert(id);
    }
    let ids: Vec<TicketId> = ids.into_iter().collect();
    if !args.dry_run {
        snapshots::forget(&session.repository, |_| Ok::<_, anyhow::Error>(ids.clone()))?;
    }
    let kept_count = view.snapshots().len() - ids.len();
    summarize(args, kept_count as u64, ids.len() as u64, report)
}

// ---------------------------------------------------------------------------------------------
// By rules.

fn forget_by_rules(args: &Forget, session: &Session, view: View, report: &Report) -> Result<()> {
    let view = &view.complete(&session.repository)?;
    let groups = judged(args, session, view)?;
    let planned = forgotten(&groups);
    let total = groups.iter().map(|group| group.verdicts.len()).sum::<usize>();
    let mut done = planned.clone();
    // Without the dry run, there would be a snapshot of the backup before.
    let follows_no_backup = args.dry_run && args.follows_backup;
    if total == 0 && !view.snapshots().is_empty() && !follows_no_backup {
        report.warn("no snapshot is selected: check --host, --tag and --path");
    }
    if args.dry_run {
        show(view, &groups, report)?;
        refuse_emptied(args, &groups)?;
    } else {
        refuse_emptied(args, &groups)?;
        if !planned.is_empty() {
            done = forget_planned(args, session, &planned)?;
        }
        show(view, &groups, report)?;
        for id in planned.difference(&done) {
            let id = id.short();
            report.warn(&format!(
                "snapshot {id}: kept, because another client has changed its state meanwhile",
            ));
        }
    }
    summarize(args, (total - done.len()) as u64, done.len() as u64, report)
}

/// Forgets the planned snapshots, as far as the view of the writer agrees, because other clients
/// may have held or forgotten some meanwhile. Returns the snapshots that were forgotten.
fn forget_planned(
    args: &Forget,
    session: &Session,
    planned: &BTreeSet<TicketId>,
) -> Result<BTreeSet<TicketId>> {
    let mut done = BTreeSet::new();
    snapshots::forget(&session.repository, |newer| {
        let newer = newer.clone().complete(&session.repository)?;
        let groups = judged(args, session, &newer)?;
        refuse_emptied(args, &groups)?;
        done = forgotten(&groups).intersection(planned).copied().collect();
        Ok::<_, anyhow::Error>(done.iter().copied().collect())
    })?;
    Ok(done)
}

/// Returns the snapshots that no rule keeps.
fn forgotten(groups: &[Group<'_>]) -> BTreeSet<TicketId> {
    let verdicts = groups.iter().flat_map(|group| &group.verdicts);
    verdicts.filter(|each| !each.is_kept()).map(|each| each.id).collect()
}

fn judged<'a>(args: &Forget, session: &Session, view: &'a View) -> Result<Vec<Group<'a>>> {
    let held = view.held();
    let mut candidates = Vec::new();
    for (id, snapshot) in view.snapshots() {
        if select::selects(&args.selection, view, id, snapshot)? {
            candidates.push(Candidate::new(view, &held, id, snapshot));
        }
    }
    let now_ns = session.repository.environment().now_ns();
    let grouping = GroupBy::grouping(&args.group_by);
    Ok(judge(&args.keep.policy(), grouping, &candidates, now_ns, &time_zone::offset_s)?)
}

/// Refuses rules that would keep nothing of a group, because they are most likely a mistake.
fn refuse_emptied(args: &Forget, groups: &[Group<'_>]) -> Result<()> {
    let emptied = groups.iter().find(|group| group.is_emptied());
    let Some(emptied) = emptied.filter(|_| !args.allow_empty) else { return Ok(()) };
    let count = units::count(emptied.verdicts.len() as u64, "snapshot");
    let message = format!("the rules keep none of the {count} of {}", described(&emptied.key));
    Err(Failure::failed(message)
        .with_remedy("add a rule, or use --allow-empty to forget all of them; --dry-run lists them")
        .into())
}

/// Describes a group.
fn described(key: &GroupKey<'_>) -> String {
    let mut parts = Vec::new();
    if let Some(host) = key.host {
        parts.push(format!("host {}", escape::for_terminal(host.as_bytes())));
    }
    if let Some(paths) = &key.paths {
        let noun = if paths.len() == 1 { "path" } else { "paths" };
        parts.push(format!("{noun} {}", select::sources(paths.iter().copied())));
    }
    if let Some(tags) = &key.tags {
        let tags = escape::for_terminal(tags.join(", ").as_bytes());
        parts.push(if tags.is_empty() { "no tags".to_owned() } else { format!("tags {tags}") });
    }
    if parts.is_empty() { "all".to_owned() } else { parts.join(", ") }
}

/// Prints each snapshot, and the reasons for keeping it, if it is kept.
fn show(view: &View, groups: &[Group<'_>], report: &Report) -> Result<()> {
    for group in groups {
        let rows = group.verdicts.iter().filter_map(|verdict| {
            let snapshot = view.commits.get(&verdict.id)?.snapshot()?;
            Some((verdict, snapshot))
        });
        if report.is_json() {
            for (verdict, snapshot) in rows {
                report.event(&Event::Verdict(as_event(
                    view,
                    verdict.id,
                    snapshot,
                    &verdict.reasons,
                )))?;
            }
            continue;
        }
        report.line(&format!("{}:", described(&group.key)))?;
        let why = |reasons: &[Reason]| {
            let why: Vec<String> = reasons.iter().map(ToString::to_string).collect();
            escape::for_terminal(why.join(", ").as_bytes())
        };
        let width = group.verdicts.iter().map(|each| why(&each.reasons).chars().count()).max();
        let width = width.unwrap_or(0).clamp(3, 60);
        let head = format!(
            "  {:<8}  {:<DATE_TIME_WIDTH$}          {:<width$}  about",
            "ID", "time", "why"
        );
        report.line(head.trim_end())?;
        for (verdict, snapshot) in rows {
            let row = format!(
                "  {:<8}  {:<DATE_TIME_WIDTH$}  {:<6}  {:<width$}  {}",
                verdict.id.short(),
                units::date_time(snapshot.started_ns.div_euclid(1_000_000_000)),
                if verdict.is_kept() { "keep" } else { "forget" },
                why(&verdict.reasons),
                about(view, verdict.id, snapshot, &group.key),
            );
            report.line(row.trim_end())?;
        }
    }
    // The summary follows on standard error.
    report.flush()
}

/// Describes the properties of a snapshot that the head of its group does not show.
fn about(view: &View, id: TicketId, snapshot: &Snapshot, key: &GroupKey<'_>) -> String {
    let mut parts = Vec::new();
    if key.host.is_none() {
        parts.push(escape::for_terminal(snapshot.host.as_bytes()));
    }
    if key.paths.is_none() {
        parts.extend(snapshot.sources.iter().map(|source| escape::for_terminal(source)));
    }
    let tags = view.tags(id, snapshot);
    if key.tags.is_none() && !tags.is_empty() {
        parts.push(format!("[{}]", escape::for_terminal(tags.join(", ").as_bytes())));
    }
    if snapshot.partial {
        parts.push("(interrupted, incomplete)".to_owned());
    }
    if !snapshot.missing.is_empty() {
        parts.push(format!("(incomplete: without {})", select::listed(snapshot.missing_sources())));
    }
    parts.join(" ")
}

fn as_event<'a>(
    view: &'a View,
    id: TicketId,
    snapshot: &'a Snapshot,
    reasons: &[Reason],
) -> event::Verdict<'a> {
    event::Verdict {
        id: id.to_string(),
        started: units::rfc3339_ns(snapshot.started_ns),
        host: &snapshot.host,
        tags: view.tags(id, snapshot),
        sources: snapshot.sources.iter().map(|source| PathText::new(source)).collect(),
        missing_sources: snapshot.missing_sources().map(PathText::new).collect(),
        partial: snapshot.partial,
        kept: !reasons.is_empty(),
        rules: reasons.iter().map(ToString::to_string).collect(),
    }
}

fn summarize(args: &Forget, kept_count: u64, forgotten_count: u64, report: &Report) -> Result<()> {
    report.summary(&Event::Summary(Summary::Forget {
        dry_run: args.dry_run,
        kept_count,
        forgotten_count,
        restored_count: 0,
        restored: Vec::new(),
    }))?;
    let (forgot, kept) = if args.dry_run { ("Would forget", "keep") } else { ("Forgot", "kept") };
    let count = units::count(forgotten_count, "snapshot");
    report.note(&format!("{forgot} {count}, {kept} {kept_count}."));
    if forgotten_count > 0 && !args.dry_run {
        report.note(
            "No data is deleted yet; `cutpoint forget --undo --last` brings the snapshots back.",
        );
    }
    Ok(())
}

// ---------------------------------------------------------------------------------------------
// Undo.

fn undo(args: &Forget, session: &Session, view: &View, report: &Report) -> Result<()> {
    let ids = if args.last { of_the_last(view, report)? } else { named(args, view, report)? };
    require_alone(args.alone, session)?;
    snapshots::unforget(&session.repository, &ids)?;
    warn_of_losses(session, view, &ids, report)?;
    if report.is_json() {
        let restored: Vec<String> = ids.iter().map(ToString::to_string).collect();
        return report.event(&Event::Summary(Summary::Forget {
            dry_run: false,
            kept_count: view.snapshots().len() as u64 + restored.len() as u64,
            forgotten_count: 0,
            restored_count: restored.len() as u64,
            restored,
        }));
    }
    let list: Vec<String> = ids.iter().map(TicketId::short).collect();
    let count = units::count(ids.len() as u64, "snapshot");
    report.note(&format!("Brought back {count}: {}.", list.join(" ")));
    Ok(())
}

/// Warns of each of the snapshots `ids` that a repair has forgotten because of a loss.
fn warn_of_losses(session: &Session, view: &View, ids: &[TicketId], report: &Report) -> Result<()> {
    let reader = Reader::open(session.repository.clone(), view.clone())?;
    for id in ids {
        let short = id.short();
        if let Some(twin) = repaired_as(view, *id) {
            let twin = twin.short();
            report.warn(&format!(
                "snapshot {short} is damaged and was replaced: {twin} has the intact part; `cutpoint \
                 check` reports the damage again until {short} is forgotten"
            ));
            continue;
        }
        let root = view.commits.get(id).and_then(|commit| commit.snapshot());
        let mut looks = LOOKS_MAX;
        if root.is_some_and(|snapshot| !has_something(&reader, &snapshot.root, &mut looks)) {
            report.warn(&format!(
                "snapshot {short} is lost: no readable data was found; `cutpoint check` reports the \
                 loss again until {short} is forgotten"
            ));
        }
    }
    Ok(())
}

/// Returns `true` if an entry can be read among the first ones of a tree: a file with its first
/// chunk, or any entry without data. A tree without entries has lost nothing.
fn has_something(reader: &Reader, tree: &Content, looks: &mut u32) -> bool {
    let mut is_empty = true;
    for entry in reader.tree(tree) {
        is_empty = false;
        let Some(left) = looks.checked_sub(1) else { return false };
        *looks = left;
        let is_there = entry.is_ok_and(|entry| match entry.kind {
            EntryKind::Folder => has_something(reader, &entry.content, looks),
            EntryKind::File => match reader.segments(&entry.content).next() {
                Some(Ok(Segment::Chunk { fingerprint, .. })) => {
                    reader.chunk(Class::Data, &fingerprint).is_ok()
                }
                Some(Err(_)) => false,
                Some(Ok(_)) | None => true,
            },
            _ => true,
        });
        if is_there {
            return true;
        }
    }
    is_empty
}

/// Returns the forgotten snapshots that the user names, oldest first.
fn named(args: &Forget, view: &View, report: &Report) -> Result<Vec<TicketId>> {
    let mut ids = BTreeSet::new();
    for text in &args.snapshots {
        if select::names_listed(text)? {
            let shown = escape::for_terminal(text.as_bytes());
            return Err(Failure::failed(format!("`{shown}` is never a forgotten snapshot"))
                .with_remedy(
                    "`--undo --last` undoes the last forget; `cutpoint snapshots --forgotten` lists \
                     forgotten snapshots",
                )
                .into());
        }
        ids.insert(select::any_snapshot(view, text, &args.selection, report)?);
    }
    Ok(select::oldest_first(view, ids))
}

/// Returns the snapshots of the newest forget, oldest first, except those that a prune has taken.
fn of_the_last(view: &View, report: &Report) -> Result<Vec<TicketId>> {
    let time = |id: &TicketId| (view.commits.get(id).map(|commit| commit.time_ns), *id);
    let last = view.forgets().into_iter().max_by_key(|(id, _)| time(id));
    let Some((last, snapshots)) = last else {
        return Err(Failure::failed("--undo --last: no snapshot is forgotten")
            .with_remedy("`cutpoint snapshots` lists all snapshots")
            .into());
    };
    let back: BTreeSet<TicketId> =
        view.forgotten_snapshots().into_iter().map(|(id, _)| id).collect();
    let taken = view.taken();
    let snapshots = select::oldest_first(view, snapshots.iter().copied());
    let gone: Vec<TicketId> = snapshots.iter().copied().filter(|id| taken.contains(id)).collect();
    let is_forgotten = |id: &TicketId| back.contains(id) && !taken.contains(id);
    let back: Vec<TicketId> = snapshots.iter().copied().filter(is_forgotten).collect();
    if back.is_empty() {
        let is_forget = |commit: &Commit| matches!(commit.outcome, Outcome::Forget(_));
        let mut forgets = view.commits.iter().filter(|(_, commit)| is_forget(commit));
        // A newer forget is undone already and does not count any more.
        let is_newer_undone = forgets.any(|(id, _)| time(id) > time(&last));
        let message = match gone.len() {
            count if count == snapshots.len() && is_newer_undone => {
                "the last forget is already undone, and a prune has removed all snapshots of the \
                 one before"
            }
            0 => "all snapshots of the last forget are already listed again",
            count if count == snapshots.len() => {
                "a prune has removed all snapshots of the last forget"
            }
            _ => {
                "the snapshots of the last forget are already listed again, except those removed \
                 by a prune"
            }
        };
        return Err(Failure::failed(message)
            .with_remedy("`cutpoint snapshots --forgotten` lists forgotten snapshots")
            .into());
    }
    for id in gone {
        let path = format!("snapshot {}", id.short());
        report.problem(path.as_ref(), "cannot be brought back: removed by a prune");
    }
    Ok(back)
}
