//! Retention: which snapshots rules keep, and which they do not.
//!
//! Snapshots are parted into groups, by default those of one host and the same paths, and each
//! group is judged alone. A rule of a count keeps, of each of the newest N hours (days, weeks ...)
//! that have a snapshot, the newest one; rules do not know of each other, and what any of them keeps
//! is kept. While a rule has places left, it keeps the oldest snapshot of the group as well, so that
//! a history can grow to the length that was asked for. restic has the same rules.
//!
//! Set aside are snapshots that are held, and those that are dated in the future: they are kept,
//! fill no place and are the newest of nothing, so that a clock that was wrong once costs no
//! snapshot.
//!
//! A partial snapshot, which a run that was cut off has left, does not displace a whole one either:
//! the whole ones are judged as if there were no other. A partial one is kept where its period has
//! no whole one and is among those that the rule covers; and where it is newer than all whole ones,
//! for the next run goes on from there.
//!
//! Neither does an *incomplete* one, of which a source was not there or could not be opened: while a rule
//! covers complete ones, these are kept as if there were no others, however many incomplete ones are
//! newer. Unlike what a cut-off run has left, no later run has completed an incomplete one, and what it
//! has of its other sources nothing else has: it is kept in addition where it is among the newest N of
//! all (or, of a period, the newest of it, and the period has no complete one), or young enough beside
//! the newest of all. Where a group has no complete one, incomplete ones are judged as complete ones are.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt;

use crate::calendar::{DAY_S, civil, months_before, week};
use crate::error::{Error, Result};
use crate::format::commit::Snapshot;
use crate::name::TicketId;
use crate::view::View;

const SECOND_NS: i64 = 1_000_000_000;
const HOUR_NS: i64 = 3600 * SECOND_NS;

/// What a rule keeps one snapshot of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Period {
    /// Every snapshot is a period of its own.
    Each,
    /// An hour of the clock.
    Hour,
    /// A day of the calendar.
    Day,
    /// A week, from Monday on (ISO 8601).
    Week,
    /// A month of the calendar.
    Month,
    /// A year of the calendar.
    Year,
}

impl Period {
    /// Every one, from the shortest on.
    pub const ALL: [Period; 6] =
        [Period::Each, Period::Hour, Period::Day, Period::Week, Period::Month, Period::Year];

    /// The number of the period that `local_s`, seconds since 1970 by the clock on the wall, is in.
    /// Not for [`Period::Each`].
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

/// A length of time: months of the calendar, and hours. A day is 24 hours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// Months; a year has twelve. At most 12 million count.
    pub months: u32,
    /// Hours.
    pub hours: u32,
}

impl Span {
    /// The time so long before `ns`, in nanoseconds since 1970.
    fn before(self, ns: i64) -> i64 {
        let (day, rest) = (ns.div_euclid(DAY_S * SECOND_NS), ns.rem_euclid(DAY_S * SECOND_NS));
        let day = months_before(day, i64::from(self.months.min(12_000_000)));
        let begin = day.saturating_mul(DAY_S * SECOND_NS).saturating_add(rest);
        begin.saturating_sub(i64::from(self.hours).saturating_mul(HOUR_NS))
    }
}

/// What is to be kept. A snapshot is kept if any of these keeps it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// One snapshot of each of the newest N periods that have any; [`Period::Each`]: the last N.
    pub counts: Vec<(Period, u32)>,
    /// One snapshot of each period within this time before the newest of the group;
    /// [`Period::Each`]: all.
    pub spans: Vec<(Period, Span)>,
    /// Whatever has one of these tags.
    pub tags: Vec<String>,
}

impl Policy {
    /// Whether there is no rule at all: it would keep nothing.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty() && self.spans.is_empty() && self.tags.is_empty()
    }
}

/// In what snapshots have to agree to be of one group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grouping {
    /// In their host.
    pub by_host: bool,
    /// In the paths that were saved, in any order.
    pub by_paths: bool,
    /// In all of their tags, in any order.
    pub by_tags: bool,
}

impl Default for Grouping {
    fn default() -> Grouping {
        Grouping { by_host: true, by_paths: true, by_tags: false }
    }
}

/// A snapshot that is to be judged.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    /// Which.
    pub id: TicketId,
    /// When it began, in nanoseconds since 1970: the time that rules go by.
    pub started_ns: i64,
    /// Whether a run that was cut off has left it: not all of its sources is in it.
    pub is_partial: bool,
    /// Whether one of its sources was not there or could not be opened.
    pub is_incomplete: bool,
    /// Whether it is held.
    pub is_held: bool,
    /// Its host.
    pub host: &'a str,
    /// Its paths.
    pub paths: &'a [Vec<u8>],
    /// Its tags, as they are now.
    pub tags: &'a [String],
}

impl<'a> Candidate<'a> {
    /// A snapshot of `view`, of which `held` are held.
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

/// Why a snapshot is kept.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    /// It is held.
    Held,
    /// It is dated in the future.
    Future,
    /// It is the newest of a period that counts: the how-manieth, from 1.
    Count(Period, u32),
    /// It is the oldest of its group, and the rule has places left.
    Oldest(Period),
    /// It is young enough, and the newest of its period.
    Span(Period),
    /// It has this tag.
    Tag(String),
    /// It is partial, and newer than all that are whole: the next run goes on from there.
    Unfinished,
}

impl Reason {
    /// The rule's name, as options have it: `last`, `daily`, `within-daily`.
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

/// What becomes of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Which.
    pub id: TicketId,
    /// Why it is kept; nothing where it is to be forgotten.
    pub reasons: Vec<Reason>,
}

impl Verdict {
    /// Whether it is kept.
    pub fn is_kept(&self) -> bool {
        !self.reasons.is_empty()
    }
}

/// In what the snapshots of a group agree; `None` where that was not asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupKey<'a> {
    /// Their host.
    pub host: Option<&'a str>,
    /// Their paths, sorted.
    pub paths: Option<Vec<&'a [u8]>>,
    /// Their tags, sorted.
    pub tags: Option<Vec<&'a str>>,
}

/// Snapshots that were judged together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group<'a> {
    /// In what they agree.
    pub key: GroupKey<'a>,
    /// What becomes of each, oldest first.
    pub verdicts: Vec<Verdict>,
}

impl Group<'_> {
    /// Whether nothing of it is kept.
    pub fn is_lost(&self) -> bool {
        !self.verdicts.iter().any(Verdict::is_kept)
    }
}

/// Judges `candidates` by `policy`. `now_ns` is the time, in nanoseconds since 1970; `offset_s` tells
/// how many seconds clocks on the wall are ahead of UTC at a time, in seconds since 1970: by these
/// clocks hours, days and so on begin. Groups are sorted by what they agree in.
///
/// # Errors
///
/// `Invalid` where the policy has no rule.
pub fn judge<'a>(
    policy: &Policy,
    grouping: Grouping,
    candidates: &[Candidate<'a>],
    now_ns: i64,
    offset_s: &dyn Fn(i64) -> i64,
) -> Result<Vec<Group<'a>>> {
    if policy.is_empty() {
        return Err(Error::invalid("the policy", "has no rule: it would keep nothing"));
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

/// The snapshots of a group that rules are applied to, newest first.
struct Members<'a> {
    all: Vec<&'a Candidate<'a>>,
    /// Whether any of them is neither partial nor incomplete.
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
    fn whole(&self) -> impl Iterator<Item = &Candidate<'_>> {
        self.all.iter().copied().filter(|each| self.is_whole(each))
    }

    /// Whether `of` fills places.
    fn is_whole(&self, of: &Candidate<'_>) -> bool {
        !of.is_partial && (!of.is_incomplete || !self.has_complete)
    }

    /// The one of a higher rank stands for a period.
    fn rank(&self, of: &Candidate<'_>) -> u8 {
        if self.is_whole(of) { 2 } else { u8::from(!of.is_partial) }
    }

    fn number(&self, period: Period, of: &Candidate<'_>) -> i64 {
        let seconds = of.started_ns.div_euclid(SECOND_NS);
        period.number(seconds.saturating_add((self.offset_s)(seconds)))
    }

    /// The newest of each period, the newest period first, of those that `passes` lets through: of a
    /// period a whole one goes before an incomplete one, and that before a partial one.
    fn newest_of_each(
        &self,
        period: Period,
        passes: impl Fn(&Candidate<'_>) -> bool,
    ) -> Vec<&Candidate<'_>> {
        let mut newest: Vec<&Candidate<'_>> = Vec::new();
        let mut last = None;
        for each in self.all.iter().copied().filter(|each| passes(each)) {
            let number = (period != Period::Each).then(|| self.number(period, each));
            // Clocks on the wall go back now and then: that begins no period anew.
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
        let whole = self.newest_of_each(period, |each| self.is_whole(each));
        for (each, place) in whole.iter().zip(1..=count) {
            keep(each.id, Reason::Count(period, place));
        }
        let has_places_left = (count as usize) > whole.len();
        if let Some(oldest) = self.whole().last()
            && has_places_left
            && whole.last().is_some_and(|last| last.id != oldest.id)
        {
            keep(oldest.id, Reason::Oldest(period));
        }
        let done = self.newest_of_each(period, |each| !each.is_partial);
        for (each, place) in done.iter().zip(1..=count).filter(|(each, _)| !self.is_whole(each)) {
            keep(each.id, Reason::Count(period, place));
        }
        let all = self.newest_of_each(period, |_| true);
        for (each, place) in all.iter().zip(1..=count).filter(|(each, _)| each.is_partial) {
            // Of the last N one that a newer run has completed is of no use.
            if period != Period::Each || whole.is_empty() {
                keep(each.id, Reason::Count(period, place));
            }
        }
    }

    fn span(&self, period: Period, span: Span, keep: &mut impl FnMut(TicketId, Reason)) {
        // Measured from the newest, not from now: the history of a machine that is gone stays.
        let newest = self.whole().next().or(self.all.first().copied());
        let Some(newest) = newest else { return };
        let since_ns = span.before(newest.started_ns);
        // A source that never comes back must not let the others' history grow for ever.
        let newest_done = self.all.iter().find(|each| !each.is_partial).unwrap_or(&newest);
        let since_incomplete_ns = span.before(newest_done.started_ns);
        for each in self.newest_of_each(period, |_| true) {
            let is_other = self.is_whole(each) || each.is_partial;
            if each.started_ns >= if is_other { since_ns } else { since_incomplete_ns } {
                keep(each.id, Reason::Span(period));
            }
        }
    }
}
