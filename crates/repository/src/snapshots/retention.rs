//! Retention: rules that decide which snapshots are kept.
//!
//! Snapshots are divided into groups, by default by host and paths, and each group is judged alone.
//! A count rule keeps, for each of the newest N hours (days, weeks ...) that have a snapshot, the
//! newest one in it. Rules are independent of each other, and a snapshot is kept if any rule keeps
//! it. A rule that has places left also keeps the oldest snapshot of the group, so that a history
//! can grow to the requested length. restic has the same rules.
//!
//! Held snapshots and snapshots dated in the future are set aside: they are kept, fill no place,
//! and never count as the newest of a period, so that a clock that was wrong once costs no
//! snapshot.
//!
//! A *partial* snapshot, left by a run that was cut off, does not displace a finished one either:
//! finished snapshots are judged as if no partial ones existed. A partial snapshot is kept if its
//! period has no finished one and is among those that the rule covers. It is also kept if it is
//! newer than all finished ones, because the next run continues from it.
//!
//! An *incomplete* snapshot, of which a source was absent or could not be opened, displaces no
//! complete one: while a rule covers complete snapshots, these are kept as if no incomplete ones
//! existed, however many of those are newer. Unlike a partial snapshot, an incomplete one is not
//! completed by any later run, and the data of its other sources may exist in no other snapshot. An
//! incomplete snapshot is therefore kept in addition if it is among the newest N of all (or the
//! newest of such a period that has no complete one), or within the time span measured from the
//! newest of all. In a group without complete snapshots, incomplete ones are judged as complete
//! ones are.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt;

use cutpoint_storage::{Error, Result};

use crate::format::commit::Snapshot;
use crate::format::names::TicketId;
use crate::repo::view::View;
use crate::snapshots::calendar::{DAY_S, civil, months_before, week};

const SECOND_NS: i64 = 1_000_000_000;
const HOUR_NS: i64 = 3600 * SECOND_NS;

/// The period of which a rule keeps one snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Period {
    /// Every snapshot is a period of its own.
    Each,
    /// An hour of the clock.
    Hour,
    /// A day of the calendar.
    Day,
    /// A week, beginning on Monday (ISO 8601).
    Week,
    /// A month of the calendar.
    Month,
    /// A year of the calendar.
    Year,
}

impl Period {
    /// Every period, shortest first.
    pub const ALL: [Period; 6] =
        [Period::Each, Period::Hour, Period::Day, Period::Week, Period::Month, Period::Year];

    /// Returns the number of the period that contains `local_s`, in seconds since 1970 of local
    /// time. Meaningless for [`Period::Each`].
    fn number(self, local_s: i64) -> i64 {
        let day = local_s.div_euclid(DAY_S);
        let (year, month, _) = civil(day);
        match self {
            Period::Each => local_s,
            Period::Hour => local_s.div_euclid(3600),
            Period::Day => day,
            Period::Week => week(day),
            Period::Month => year * 12 + month,
            Period::Year => year,
        }
    }

    fn adverb(self) -> &'static str {
        match self {
            Period::Each => "each",
            Period::Hour => "hourly",
            Period::Day => "daily",
            Period::Week => "weekly",
            Period::Month => "monthly",
            Period::Year => "yearly",
        }
    }
}

/// A length of time: calendar months, and hours. A day is 24 hours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// Months; a year has twelve. More than 12 million count as 12 million.
    pub months: u32,
    /// Hours.
    pub hours: u32,
}

impl Span {
    /// Returns the time that lies this span before `ns`, in nanoseconds since 1970.
    fn before(self, ns: i64) -> i64 {
        let (day, rest) = (ns.div_euclid(DAY_S * SECOND_NS), ns.rem_euclid(DAY_S * SECOND_NS));
        let day = months_before(day, i64::from(self.months.min(12_000_000)));
        let begin = day.saturating_mul(DAY_S * SECOND_NS).saturating_add(rest);
        begin.saturating_sub(i64::from(self.hours).saturating_mul(HOUR_NS))
    }
}

/// The rules of retention. A snapshot is kept if any rule keeps it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// Keep one snapshot of each of the newest N periods that have any; for [`Period::Each`], the
    /// last N.
    pub counts: Vec<(Period, u32)>,
    /// Keep one snapshot of each period within this time before the newest of the group; for
    /// [`Period::Each`], all.
    pub spans: Vec<(Period, Span)>,
    /// Keep every snapshot that has one of these tags.
    pub tags: Vec<String>,
}

impl Policy {
    /// Returns `true` if the policy has no rule and would keep nothing.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty() && self.spans.is_empty() && self.tags.is_empty()
    }
}

/// The properties in which the snapshots of a group agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grouping {
    /// Set if snapshots of a group have the same host.
    pub by_host: bool,
    /// Set if snapshots of a group have the same saved paths, in any order.
    pub by_paths: bool,
    /// Set if snapshots of a group have the same tags, in any order.
    pub by_tags: bool,
}

impl Default for Grouping {
    fn default() -> Grouping {
        Grouping { by_host: true, by_paths: true, by_tags: false }
    }
}

/// A snapshot to be judged.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    /// The id of the snapshot.
    pub id: TicketId,
    /// The time at which the backup began, in nanoseconds since 1970. Rules use this time.
    pub started_ns: i64,
    /// Set if the snapshot was left by a run that was cut off, and lacks a part of its sources.
    pub is_partial: bool,
    /// Set if one of the sources was absent or could not be opened.
    pub is_incomplete: bool,
    /// Set if the snapshot is held.
    pub is_held: bool,
    /// The host of the snapshot.
    pub host: &'a str,
    /// The saved paths of the snapshot.
    pub paths: &'a [Vec<u8>],
    /// The current tags of the snapshot.
    pub tags: &'a [String],
}

impl<'a> Candidate<'a> {
    /// Creates the candidate for the snapshot `id` of `view`, in which the snapshots `held` are
    /// held.
    pub fn new(
        view: &'a View,
        held: &HashSet<TicketId>,
        id: TicketId,
        snapshot: &'a Snapshot,
    ) -> Candidate<'a> {
        Candidate {
            id,
            started_ns: snapshot.started_ns,
            is_partial: snapshot.partial,
            is_incomplete: !snapshot.missing.is_empty(),
            is_held: held.contains(&id),
            host: &snapshot.host,
            paths: &snapshot.sources,
            tags: view.tags(id, snapshot),
        }
    }
}

/// The reason for which a snapshot is kept.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    /// The snapshot is held.
    Held,
    /// The snapshot is dated in the future.
    Future,
    /// The snapshot is the newest of a period that a rule covers; with the place of the period,
    /// from 1.
    Count(Period, u32),
    /// The snapshot is the oldest of its group, and the rule has places left.
    Oldest(Period),
    /// The snapshot is the newest of its period, and within the time span of the rule.
    Span(Period),
    /// The snapshot has this tag.
    Tag(String),
    /// The snapshot is partial, and newer than all finished ones: the next run continues from it.
    Unfinished,
}

impl Reason {
    /// Returns the name of the rule as options spell it: `last`, `daily`, `within-daily`.
    pub fn rule(&self) -> String {
        match self {
            Reason::Held => "held".to_owned(),
            Reason::Future => "future".to_owned(),
            Reason::Count(Period::Each, _) | Reason::Oldest(Period::Each) => "last".to_owned(),
            Reason::Count(period, _) | Reason::Oldest(period) => period.adverb().to_owned(),
            Reason::Span(Period::Each) => "within".to_owned(),
            Reason::Span(period) => format!("within-{}", period.adverb()),
            Reason::Tag(_) => "tag".to_owned(),
            Reason::Unfinished => "unfinished".to_owned(),
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rule = self.rule();
        match self {
            Reason::Count(_, place) => write!(f, "{rule} {place}"),
            Reason::Oldest(_) => write!(f, "{rule} (oldest)"),
            Reason::Tag(tag) => write!(f, "{rule} {tag}"),
            Reason::Future => f.write_str("dated in the future"),
            Reason::Held | Reason::Span(_) | Reason::Unfinished => f.write_str(&rule),
        }
    }
}

/// The decision about a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The id of the snapshot.
    pub id: TicketId,
    /// The reasons for which the snapshot is kept; empty if it is to be forgotten.
    pub reasons: Vec<Reason>,
}

impl Verdict {
    /// Returns `true` if the snapshot is kept.
    pub fn is_kept(&self) -> bool {
        !self.reasons.is_empty()
    }
}

/// The properties that the snapshots of a group share; `None` for each one that is not grouped by.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupKey<'a> {
    /// The shared host.
    pub host: Option<&'a str>,
    /// The shared paths, sorted.
    pub paths: Option<Vec<&'a [u8]>>,
    /// The shared tags, sorted.
    pub tags: Option<Vec<&'a str>>,
}

/// A group of snapshots that were judged together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group<'a> {
    /// The shared properties of the group.
    pub key: GroupKey<'a>,
    /// The decisions about the snapshots, oldest first.
    pub verdicts: Vec<Verdict>,
}

impl Group<'_> {
    /// Returns `true` if no snapshot of the group is kept.
    pub fn is_emptied(&self) -> bool {
        !self.verdicts.iter().any(Verdict::is_kept)
    }
}

/// Judges `candidates` by `policy`. `now_ns` is the current time, in nanoseconds since 1970.
/// `offset_s` returns the offset of local time from UTC in seconds, at a time in seconds since
/// 1970; hours, days and longer periods begin by local time. Groups are sorted by their keys.
///
/// # Errors
///
/// Returns an `Invalid` error if the policy has no rule.
pub fn judge<'a>(
    policy: &Policy,
    grouping: Grouping,
    candidates: &[Candidate<'a>],
    now_ns: i64,
    offset_s: &dyn Fn(i64) -> i64,
) -> Result<Vec<Group<'a>>> {
    if policy.is_empty() {
        return Err(Error::invalid("retention policy", "no rule given, so nothing would be kept"));
    }
    let mut groups: BTreeMap<GroupKey<'a>, Vec<Candidate<'a>>> = BTreeMap::new();
    for candidate in candidates {
        groups.entry(key(grouping, candidate)).or_default().push(*candidate);
    }
    let judged = groups.into_iter().map(|(key, mut members)| {
        members.sort_by_key(|each| (each.started_ns, each.id));
        Group { key, verdicts: judge_group(policy, &members, now_ns, offset_s) }
    });
    Ok(judged.collect())
}

fn key<'a>(grouping: Grouping, candidate: &Candidate<'a>) -> GroupKey<'a> {
    GroupKey {
        host: grouping.by_host.then_some(candidate.host),
        paths: grouping.by_paths.then(|| sorted(candidate.paths.iter().map(Vec::as_slice))),
        tags: grouping.by_tags.then(|| sorted(candidate.tags.iter().map(String::as_str))),
    }
}

fn sorted<T: Ord>(items: impl Iterator<Item = T>) -> Vec<T> {
    items.collect::<BTreeSet<T>>().into_iter().collect()
}

/// The snapshots of a group to which rules are applied, newest first.
struct Members<'a> {
    all: Vec<&'a Candidate<'a>>,
    /// Set if any snapshot is neither partial nor incomplete.
    has_complete: bool,
    offset_s: &'a dyn Fn(i64) -> i64,
}

fn judge_group(
    policy: &Policy,
    members: &[Candidate<'_>],
    now_ns: i64,
    offset_s: &dyn Fn(i64) -> i64,
) -> Vec<Verdict> {
    let mut reasons: HashMap<TicketId, Vec<Reason>> = HashMap::new();
    let mut keep = |id, reason| reasons.entry(id).or_default().push(reason);
    let mut all = Vec::new();
    for each in members.iter().rev() {
        if each.is_held {
            keep(each.id, Reason::Held);
        }
        if each.started_ns > now_ns {
            keep(each.id, Reason::Future);
        }
        if !each.is_held && each.started_ns <= now_ns {
            all.push(each);
        }
    }
    let has_complete = all.iter().any(|each| !each.is_partial && !each.is_incomplete);
    let members_judged = Members { all, has_complete, offset_s };
    for (period, count) in &policy.counts {
        members_judged.count(*period, *count, &mut keep);
    }
    for (period, span) in &policy.spans {
        members_judged.span(*period, *span, &mut keep);
    }
    for each in &members_judged.all {
        if let Some(tag) = policy.tags.iter().find(|tag| each.tags.contains(tag)) {
            keep(each.id, Reason::Tag(tag.clone()));
        }
    }
    if let Some(newest) = members_judged.all.first().filter(|each| each.is_partial) {
        keep(newest.id, Reason::Unfinished);
    }
    let verdict = |each: &Candidate<'_>| {
        let reasons = reasons.remove(&each.id).unwrap_or_default();
        Verdict { id: each.id, reasons }
    };
    members.iter().map(verdict).collect()
}

impl Members<'_> {
    /// Returns the snapshots that fill places, newest first.
    fn fillers(&self) -> impl Iterator<Item = &Candidate<'_>> {
        self.all.iter().copied().filter(|each| self.fills_place(each))
    }

    /// Returns `true` if `of` fills a place of a rule.
    fn fills_place(&self, of: &Candidate<'_>) -> bool {
        !of.is_partial && (!of.is_incomplete || !self.has_complete)
    }

    /// Returns the rank of a snapshot within its period; the highest rank represents the period.
    fn rank(&self, of: &Candidate<'_>) -> u8 {
        if self.fills_place(of) { 2 } else { u8::from(!of.is_partial) }
    }

    fn number(&self, period: Period, of: &Candidate<'_>) -> i64 {
        let seconds = of.started_ns.div_euclid(SECOND_NS);
        period.number(seconds.saturating_add((self.offset_s)(seconds)))
    }

    /// Returns the newest snapshot of each period among those that `passes` accepts, newest period
    /// first. Within a period, a finished snapshot precedes an incomplete one, and that precedes a
    /// partial one.
    fn newest_of_each(
        &self,
        period: Period,
        passes: impl Fn(&Candidate<'_>) -> bool,
    ) -> Vec<&Candidate<'_>> {
        let mut newest: Vec<&Candidate<'_>> = Vec::new();
        let mut last = None;
        for each in self.all.iter().copied().filter(|each| passes(each)) {
            let number = (period != Period::Each).then(|| self.number(period, each));
            // Local time goes back now and then, which does not begin a period again.
            if last.is_none() || number < last {
                newest.push(each);
                last = number;
            } else if let Some(newest) = newest.last_mut()
                && self.rank(newest) < self.rank(each)
            {
                *newest = each;
            }
        }
        newest
    }

    fn count(&self, period: Period, count: u32, keep: &mut impl FnMut(TicketId, Reason)) {
        let newest = self.newest_of_each(period, |each| self.fills_place(each));
        for (each, place) in newest.iter().zip(1..=count) {
            keep(each.id, Reason::Count(period, place));
        }
        let has_places_left = (count as usize) > newest.len();
        if let Some(oldest) = self.fillers().last()
            && has_places_left
            && newest.last().is_some_and(|last| last.id != oldest.id)
        {
            keep(oldest.id, Reason::Oldest(period));
        }
        let done = self.newest_of_each(period, |each| !each.is_partial);
        for (each, place) in done.iter().zip(1..=count).filter(|(each, _)| !self.fills_place(each))
        {
            keep(each.id, Reason::Count(period, place));
        }
        let all = self.newest_of_each(period, |_| true);
        for (each, place) in all.iter().zip(1..=count).filter(|(each, _)| each.is_partial) {
            // Among the last N, a partial snapshot that a newer run has completed is of no use.
            if period != Period::Each || newest.is_empty() {
                keep(each.id, Reason::Count(period, place));
            }
        }
    }

    fn span(&self, period: Period, span: Span, keep: &mut impl FnMut(TicketId, Reason)) {
        // Spans are measured from the newest snapshot, not from now, so that the history of a
        // retired machine stays.
        let newest = self.fillers().next().or(self.all.first().copied());
        let Some(newest) = newest else { return };
        let since_ns = span.before(newest.started_ns);
        // A source that never comes back must not make the history of the others grow for ever.
        let newest_done = self.all.iter().find(|each| !each.is_partial).unwrap_or(&newest);
        let since_incomplete_ns = span.before(newest_done.started_ns);
        for each in self.newest_of_each(period, |_| true) {
            let is_other = self.fills_place(each) || each.is_partial;
            if each.started_ns >= if is_other { since_ns } else { since_incomplete_ns } {
                keep(each.id, Reason::Span(period));
            }
        }
    }
}
