//! Retention: tables of what each rule keeps, and properties of all policies.

use cutpoint_repository::TicketId;
use cutpoint_repository::snapshots::calendar::{DAY_S, days};
use cutpoint_repository::snapshots::retention::{
    Candidate, Group, Grouping, Period, Policy, Reason, Span, judge,
};
use cutpoint_storage::Kind;
use proptest::prelude::*;

const SECOND_NS: i64 = 1_000_000_000;
const HOUR_NS: i64 = 3600 * SECOND_NS;

/// Parses `2026-11-21 10:00`, with an optional `partial` or `held` behind it, into nanoseconds
/// since 1970.
fn time_ns(text: &str) -> i64 {
    let part = |range: std::ops::Range<usize>| text[range].parse::<i64>().expect("a number");
    let day = days(part(0..4), part(5..7), part(8..10));
    (day * DAY_S + part(11..13) * 3600 + part(14..16) * 60) * SECOND_NS
}

fn id(number: usize) -> TicketId {
    let mut id = [0; 12];
    id[4..].copy_from_slice(&(number as u64).to_be_bytes());
    TicketId(id)
}

fn candidate(number: usize, text: &str) -> Candidate<'static> {
    Candidate {
        id: id(number),
        started_ns: time_ns(text),
        is_partial: text.ends_with("partial"),
        is_incomplete: text.ends_with("without one"),
        is_held: text.ends_with("held"),
        host: "host",
        paths: &[],
        tags: &[],
    }
}

fn by_count(period: Period, count: u32) -> Policy {
    Policy { counts: vec![(period, count)], ..Policy::default() }
}

fn by_span(period: Period, months: u32, hours: u32) -> Policy {
    Policy { spans: vec![(period, Span { months, hours })], ..Policy::default() }
}

fn utc(_: i64) -> i64 {
    0
}

/// Judges `snapshots` as one group. Returns the reasons that keep each.
#[track_caller]
fn table(policy: &Policy, offset_s: &dyn Fn(i64) -> i64, now: &str, rows: &[(&str, &str)]) {
    let candidates: Vec<_> = rows.iter().enumerate().map(|(n, row)| candidate(n, row.0)).collect();
    let groups = judge(policy, Grouping::default(), &candidates, time_ns(now), offset_s)
        .expect("there are rules");
    let [group] = &groups[..] else { panic!("one group: {groups:?}") };
    for (number, (row, expected)) in rows.iter().enumerate() {
        let verdict = group.verdicts.iter().find(|each| each.id == id(number)).expect("a verdict");
        let reasons: Vec<String> = verdict.reasons.iter().map(ToString::to_string).collect();
        assert_eq!(reasons.join(", "), *expected, "{row} by {policy:?}");
    }
}

const NOW: &str = "2026-11-21 12:00";

#[test]
fn each_period_keeps_its_newest() {
    let rows = |expected: [&'static str; 8]| {
        let snapshots = [
            "2024-12-31 23:00",
            "2025-12-31 23:00",
            "2026-10-31 08:00",
            "2026-11-15 08:00", // a Sunday
            "2026-11-16 08:00",
            "2026-11-20 08:00",
            "2026-11-21 08:10",
            "2026-11-21 08:50",
        ];
        snapshots.into_iter().zip(expected).collect::<Vec<_>>()
    };
    for (policy, expected) in [
        (by_count(Period::Each, 2), ["", "", "", "", "", "", "last 2", "last 1"]),
        (by_count(Period::Hour, 2), ["", "", "", "", "", "hourly 2", "", "hourly 1"]),
        (by_count(Period::Day, 3), ["", "", "", "", "daily 3", "daily 2", "", "daily 1"]),
        (by_count(Period::Week, 2), ["", "", "", "weekly 2", "", "", "", "weekly 1"]),
        (by_count(Period::Month, 2), ["", "", "monthly 2", "", "", "", "", "monthly 1"]),
        (by_count(Period::Year, 2), ["", "yearly 2", "", "", "", "", "", "yearly 1"]),
        (by_span(Period::Each, 0, 24), ["", "", "", "", "", "", "within", "within"]),
        (by_span(Period::Day, 0, 48), ["", "", "", "", "", "within-daily", "", "within-daily"]),
        (
            by_span(Period::Month, 1, 0),
            ["", "", "within-monthly", "", "", "", "", "within-monthly"],
        ),
        (
            by_span(Period::Each, 12, 0),
            ["", "within", "within", "within", "within", "within", "within", "within"],
        ),
    ] {
        table(&policy, &utc, NOW, &rows(expected));
    }
}

#[test]
fn oldest_stays_while_places_are_left() {
    let rows = [
        ("2026-11-20 08:00", "daily (oldest)"),
        ("2026-11-20 09:00", ""),
        ("2026-11-20 10:00", "daily 2"),
        ("2026-11-21 08:00", "daily 1"),
    ];
    table(&by_count(Period::Day, 3), &utc, NOW, &rows);
    let rows = rows.map(|(row, kept)| (row, if kept.contains("oldest") { "" } else { kept }));
    table(&by_count(Period::Day, 2), &utc, NOW, &rows);
}

#[test]
fn periods_begin_by_local_time() {
    let rows = [("2026-11-20 22:30", ""), ("2026-11-20 23:30", "daily 1")];
    table(&by_count(Period::Day, 1), &utc, NOW, &rows);
    let rows = [("2026-11-20 22:30", "daily 2"), ("2026-11-20 23:30", "daily 1")];
    table(&by_count(Period::Day, 2), &|_| 3600, NOW, &rows);
    // At half past midnight clocks go back by an hour: both days have their last hour twice.
    let change = time_ns("2026-11-20 22:30") / SECOND_NS;
    let offset_s = |at: i64| if at < change { 2 * 3600 } else { 3600 };
    let rows = [
        ("2026-11-19 10:00", "daily 3"),
        ("2026-11-20 21:30", ""),        // 23:30
        ("2026-11-20 22:15", ""),        // 00:15
        ("2026-11-20 22:45", "daily 2"), // 23:45
        ("2026-11-20 23:15", "daily 1"), // 00:15
    ];
    table(&by_count(Period::Day, 3), &offset_s, NOW, &rows);
}

#[test]
fn held_and_future_snapshots_fill_no_place() {
    let rows = [
        ("2026-11-18 08:00", ""),
        ("2026-11-19 08:00", "last 2"),
        ("2026-11-20 08:00 held", "held"),
        ("2026-11-21 12:00", "last 1"), // now
        ("2026-11-21 12:01", "dated in the future"),
        ("2200-01-01 00:00", "dated in the future"),
    ];
    table(&by_count(Period::Each, 2), &utc, NOW, &rows);
    let rows = [
        ("2026-11-18 08:00", ""),
        ("2026-11-20 09:00", "within"),
        ("2026-11-21 08:00", "within"),
        ("2026-11-22 08:00", "dated in the future"),
        ("2026-11-23 08:00 held", "held, dated in the future"),
    ];
    table(&by_span(Period::Each, 0, 24), &utc, NOW, &rows);
}

#[test]
fn partial_snapshots_displace_no_full_one() {
    let rows = [
        ("2026-11-17 08:00", ""),
        ("2026-11-18 08:00", "daily 3"),
        ("2026-11-19 08:00 partial", ""),
        ("2026-11-19 09:00 partial", "daily 3"),
        ("2026-11-20 08:00", "daily 2"),
        ("2026-11-20 09:00 partial", ""),
        ("2026-11-21 08:00", "daily 1"),
        ("2026-11-21 09:00 partial", ""),
        ("2026-11-21 10:00 partial", "unfinished"),
    ];
    table(&by_count(Period::Day, 3), &utc, NOW, &rows);
    let last = |kept| {
        [
            ("2026-11-20 08:00 partial", ""),
            ("2026-11-21 08:00", "last 1"),
            ("2026-11-21 09:00 partial", kept),
        ]
    };
    table(&by_count(Period::Each, 2), &utc, NOW, &last("unfinished"));
    let rows = [
        ("2026-11-20 08:00 partial", ""),
        ("2026-11-21 08:00 partial", "last 2"),
        ("2026-11-21 09:00 partial", "last 1, unfinished"),
    ];
    table(&by_count(Period::Each, 2), &utc, NOW, &rows);
}

#[test]
fn incomplete_snapshots_displace_no_complete_one() {
    // A source is gone for good: the others keep their history beside the last complete snapshots.
    let rows = |kept: [&'static str; 6]| {
        let snapshots = [
            "2026-11-10 08:00",
            "2026-11-11 08:00",
            "2026-11-18 08:00 without one",
            "2026-11-19 08:00 without one",
            "2026-11-20 08:00 without one",
            "2026-11-21 08:00 without one",
        ];
        snapshots.into_iter().zip(kept).collect::<Vec<_>>()
    };
    let kept = ["last 2", "last 1", "", "", "last 2", "last 1"];
    table(&by_count(Period::Each, 2), &utc, NOW, &rows(kept));
    let kept = ["", "daily 1", "", "", "", "daily 1"];
    table(&by_count(Period::Day, 1), &utc, NOW, &rows(kept));
    let kept = ["within", "within", "", "", "within", "within"];
    table(&by_span(Period::Each, 0, 30), &utc, NOW, &rows(kept));
    // In a period a complete snapshot stands for all, and one of an interrupted run stands for
    // none.
    let rows = [
        ("2026-11-20 08:00", "daily 1"),
        ("2026-11-20 09:00 without one", ""),
        ("2026-11-21 08:00 without one", "daily 1"),
        ("2026-11-21 09:00 partial", "unfinished"),
    ];
    table(&by_count(Period::Day, 1), &utc, NOW, &rows);
    // A source that never existed, in a group of its own.
    let rows = [
        ("2026-11-20 07:00 without one", "daily (oldest)"),
        ("2026-11-20 08:00 without one", ""),
        ("2026-11-20 09:00 without one", "daily 2"),
        ("2026-11-21 08:00 without one", "daily 1"),
    ];
    table(&by_count(Period::Day, 3), &utc, NOW, &rows);
}

#[test]
fn months_follow_the_calendar() {
    let rows =
        [("2026-02-28 07:59", ""), ("2026-02-28 08:00", "within"), ("2026-03-31 08:00", "within")];
    table(&by_span(Period::Each, 1, 0), &utc, NOW, &rows);
    // A month of the previous year is older, whatever its number.
    let rows = [("2025-12-10 08:00", "monthly 2"), ("2026-02-10 08:00", "monthly 1")];
    table(&by_count(Period::Month, 2), &utc, NOW, &rows);
}

#[test]
fn policy_without_rules_is_refused() {
    let error = judge(&Policy::default(), Grouping::default(), &[candidate(0, NOW)], 0, &utc);
    assert_eq!(error.map_err(|error| error.kind()), Err(Kind::Invalid), "it keeps nothing");
}

#[test]
fn groups_are_judged_separately() {
    let paths = |path: &str| vec![path.as_bytes().to_vec()];
    let (home, both, reversed) = (
        paths("/home"),
        [paths("/etc"), paths("/home")].concat(),
        [paths("/home"), paths("/etc")].concat(),
    );
    let tags = vec!["a".to_owned()];
    let of = |number, host, paths, tags| Candidate {
        host,
        paths,
        tags,
        ..candidate(number, "2026-11-21 08:00")
    };
    let candidates = [
        of(0, "one", &home[..], &tags[..]),
        of(1, "one", &home[..], &[]),
        of(2, "two", &home[..], &[]),
        of(3, "two", &both[..], &[]),
        of(4, "two", &reversed[..], &tags[..]),
    ];
    let last = by_count(Period::Each, 1);
    let groups = |by_host, by_paths, by_tags| -> Vec<Vec<TicketId>> {
        let grouping = Grouping { by_host, by_paths, by_tags };
        let groups = judge(&last, grouping, &candidates, time_ns(NOW), &utc).expect("a rule");
        for group in &groups {
            let kept = group.verdicts.iter().filter(|each| each.is_kept()).count();
            assert_eq!(kept, 1, "each group keeps its last: {group:?}");
        }
        groups.iter().map(|group| group.verdicts.iter().map(|each| each.id).collect()).collect()
    };
    let ids = |numbers: &[&[usize]]| -> Vec<Vec<TicketId>> {
        numbers.iter().map(|group| group.iter().map(|number| id(*number)).collect()).collect()
    };
    assert_eq!(groups(true, true, false), ids(&[&[0, 1], &[3, 4], &[2]]), "host and paths");
    assert_eq!(groups(true, false, false), ids(&[&[0, 1], &[2, 3, 4]]), "host");
    assert_eq!(groups(false, true, false), ids(&[&[3, 4], &[0, 1, 2]]), "paths");
    assert_eq!(groups(false, false, true), ids(&[&[1, 2, 3], &[0, 4]]), "tags");
    assert_eq!(groups(false, false, false), ids(&[&[0, 1, 2, 3, 4]]), "none");
    let tagged = Policy { tags: tags.clone(), ..Policy::default() };
    let judged = judge(&tagged, Grouping::default(), &candidates, time_ns(NOW), &utc);
    let judged = judged.expect("a rule");
    let emptied: Vec<_> = judged.iter().map(Group::is_emptied).collect();
    assert_eq!(emptied, [false, false, true], "a group without a snapshot with the tag loses all");
    assert_eq!(judged[0].verdicts[0].reasons, [Reason::Tag("a".to_owned())], "by its tag");
}

/// A random history and policy.
#[derive(Clone, Debug)]
struct Case {
    /// Hours before now, and flags for partial, incomplete and held.
    snapshots: Vec<(i64, bool, bool, bool)>,
    policy: Policy,
}

fn case() -> impl Strategy<Value = Case> {
    let hours = prop_oneof![-50..0_i64, 0..100_i64, 0..3000_i64, 0..50_000_i64];
    let weights = [0.2, 0.3, 0.1].map(prop::bool::weighted);
    let snapshot = (hours, weights[0], weights[1], weights[2]);
    let period = (0..Period::ALL.len()).prop_map(|number| Period::ALL[number]);
    let counts = prop::collection::vec((period.clone(), 1..12_u32), 0..3);
    let span = (0..4_u32, 1..200_u32).prop_map(|(months, hours)| Span { months, hours });
    let spans = prop::collection::vec((period, span), 0..2);
    let policy = (counts, spans)
        .prop_map(|(counts, spans)| Policy { counts, spans, tags: Vec::new() })
        .prop_filter("a rule", |policy| !policy.is_empty());
    (prop::collection::vec(snapshot, 0..40), policy)
        .prop_map(|(snapshots, policy)| Case { snapshots, policy })
}

impl Case {
    fn candidates(&self) -> Vec<Candidate<'static>> {
        let each = self.snapshots.iter().enumerate();
        each.map(|(number, (hours, is_partial, is_incomplete, is_held))| Candidate {
            started_ns: time_ns(NOW) - hours * HOUR_NS,
            is_partial: *is_partial,
            is_incomplete: *is_incomplete,
            is_held: *is_held,
            ..candidate(number, NOW)
        })
        .collect()
    }

    /// Returns the reasons that keep each snapshot, with its id.
    fn judge(&self, candidates: &[Candidate<'static>]) -> Vec<(TicketId, Vec<Reason>)> {
        let offset_s = |at: i64| if (at / (DAY_S * 180)) % 2 == 0 { 3600 } else { 7200 };
        let now_ns = time_ns(NOW);
        let groups = judge(&self.policy, Grouping::default(), candidates, now_ns, &offset_s);
        let verdicts = groups.expect("a rule").into_iter().flat_map(|group| group.verdicts);
        let mut verdicts: Vec<_> = verdicts.map(|each| (each.id, each.reasons)).collect();
        verdicts.sort();
        verdicts
    }
}

/// Returns those of `verdicts` that are about `candidates`.
fn about(
    verdicts: &[(TicketId, Vec<Reason>)],
    candidates: &[Candidate<'static>],
) -> Vec<(TicketId, Vec<Reason>)> {
    let wanted = |id: &TicketId| candidates.iter().any(|candidate| candidate.id == *id);
    verdicts.iter().filter(|(id, _)| wanted(id)).cloned().collect()
}

proptest! {
    #[test]
    fn snapshots_set_aside_change_nothing(case in case()) {
        let all = case.candidates();
        let verdicts = case.judge(&all);
        let is_aside = |each: &Candidate<'_>| each.is_held || each.started_ns > time_ns(NOW);
        let (aside, others): (Vec<_>, Vec<_>) = all.into_iter().partition(is_aside);
        prop_assert_eq!(about(&verdicts, &others), case.judge(&others));
        prop_assert!(about(&verdicts, &aside).iter().all(|(_, reasons)| !reasons.is_empty()));
    }

    #[test]
    fn partial_snapshots_change_nothing_for_full_ones(case in case()) {
        let all = case.candidates();
        let verdicts = case.judge(&all);
        let full: Vec<_> = all.into_iter().filter(|each| !each.is_partial).collect();
        prop_assert_eq!(about(&verdicts, &full), case.judge(&full));
    }

    #[test]
    fn incomplete_snapshots_change_nothing_for_complete_ones(case in case()) {
        let all = case.candidates();
        let verdicts = case.judge(&all);
        let is_complete = |each: &Candidate<'_>| !each.is_partial && !each.is_incomplete;
        let complete: Vec<_> = all.into_iter().filter(is_complete).collect();
        prop_assert_eq!(about(&verdicts, &complete), case.judge(&complete));
    }

    #[test]
    fn kept_snapshots_are_kept_again(case in case()) {
        let all = case.candidates();
        let verdicts = case.judge(&all);
        let kept: Vec<_> = all
            .into_iter()
            .filter(|each| verdicts.iter().any(|(id, why)| *id == each.id && !why.is_empty()))
            .collect();
        let again = case.judge(&kept);
        prop_assert!(again.iter().all(|(_, why)| !why.is_empty()), "{again:?}");
    }

    #[test]
    fn order_does_not_matter(case in case(), seed in any::<u64>()) {
        let mut candidates = case.candidates();
        let verdicts = case.judge(&candidates);
        candidates.sort_by_key(|each| u64::from(each.id.0[11]).wrapping_mul(seed | 1));
        prop_assert_eq!(case.judge(&candidates), verdicts);
    }

    #[test]
    fn counts_are_maxima_and_monotonic(case in case(), count in 1..20_u32) {
        for period in Period::ALL {
            let of = |count| Case { policy: by_count(period, count), ..case.clone() };
            let candidates = case.candidates();
            let (fewer, more) = (of(count).judge(&candidates), of(count + 1).judge(&candidates));
            let places = |verdicts: &[(TicketId, Vec<Reason>)]| {
                let is_complete = |each: &&Candidate<'_>| !each.is_partial && !each.is_incomplete;
                let complete = candidates.iter().filter(is_complete);
                let complete: Vec<_> = complete.copied().collect();
                let reasons = about(verdicts, &complete).into_iter().flat_map(|(_, why)| why);
                reasons.filter(|why| matches!(why, Reason::Count(..))).count()
            };
            prop_assert!(places(&fewer) <= count as usize);
            for ((id, less), (_, why)) in fewer.iter().zip(&more) {
                prop_assert!(less.is_empty() || !why.is_empty(), "{id} is lost by a larger count");
            }
        }
    }
}
