//! The frontier: stored bytes against speed of all algorithms and targets that were measured at an
//! equal mean on the same data sets, with physical limits, and the advice that follows.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::Row;
use crate::row::LEARNING;

/// The algorithm that reads nothing, so that it has no speed.
const FIXED: &str = "Fixed";
/// The variant of rows of data that was copied into a buffer just before it was cut.
const FRESH: &str = "fresh";
/// The excess of stored bytes that counts as no loss, in percent.
const NEAR: f64 = 1.0;

/// The points of all algorithms, the limits, and the sentences about them.
#[derive(Debug, Default, Serialize)]
pub(super) struct Frontier {
    /// The data sets over which each point is a geometric mean.
    sets: Vec<String>,
    points: Vec<Point>,
    limits: Vec<Limit>,
    /// The algorithms and targets that lack a data set, with the number of those that they have.
    incomplete: Vec<(String, u64, usize)>,
    /// The data sets of which a fixed size stores less than every algorithm that reads its input.
    #[serde(skip)]
    fixed_best: Vec<String>,
    /// The advice, computed from the points and limits.
    sentences: Vec<String>,
}

/// An algorithm at one target.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Point {
    algorithm: String,
    target: u64,
    /// The speed in GB per second of CPU time, with quartiles; `None` if the algorithm reads
    /// nothing.
    speed: Option<[f64; 3]>,
    /// The excess of stored bytes with metadata over the best algorithm and target of each data
    /// set, in percent.
    excess: f64,
    /// The same over the best algorithm of this target.
    target_excess: f64,
    /// Set if no other point stores less at the same or a higher speed.
    is_front: bool,
}

/// A speed that bounds others in GB per second of CPU time.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Limit {
    name: String,
    speed: f64,
}

/// The figures of one algorithm and target on one data set.
#[derive(Clone, Copy, Default)]
struct Cell {
    stored: Option<f64>,
    speed: Option<[f64; 3]>,
}

impl Cell {
    fn is_complete(&self) -> bool {
        self.stored.is_some() && self.speed.is_some()
    }
}

impl Frontier {
    /// Returns the frontier by the rows at an equal mean. It has no points if there are no such
    /// rows.
    pub(super) fn of(rows: &[Row]) -> Frontier {
        let mut cells = cells(rows);
        // Algorithms that were cut at an equal mean for other reasons, and never timed.
        let timed: BTreeSet<String> = cells
            .iter()
            .filter(|(_, cell)| cell.is_complete())
            .map(|((_, algorithm, _), _)| (*algorithm).to_owned())
            .collect();
        cells.retain(|(_, algorithm, _), _| timed.contains(*algorithm));
        let sets = sets(&cells);
        let mut frontier = Frontier {
            sets: sets.iter().map(|&data| data.to_owned()).collect(),
            limits: limits(rows),
            ..Frontier::default()
        };
        let least = |data: &str, counts: &dyn Fn(&str, u64) -> bool| {
            let of_set = cells
                .iter()
                .filter(|((set, algorithm, target), _)| *set == data && counts(algorithm, *target));
            of_set.filter_map(|(_, cell)| cell.stored).fold(f64::INFINITY, f64::min)
        };
        let is_fixed_best = |data: &&&str| {
            least(data, &|algorithm, _| algorithm == FIXED)
                < least(data, &|algorithm, _| algorithm != FIXED)
        };
        frontier.fixed_best =
            sets.iter().filter(is_fixed_best).map(|&data| data.to_owned()).collect();
        let keys: BTreeSet<(&str, u64)> =
            cells.keys().map(|(_, algorithm, target)| (*algorithm, *target)).collect();
        let best = |data: &str, only: Option<u64>| {
            least(data, &|_, target| only.is_none_or(|only| only == target))
        };
        for (algorithm, target) in keys {
            let of_sets: Vec<(&str, Cell)> = sets
                .iter()
                .filter_map(|data| Some((*data, *cells.get(&(*data, algorithm, target))?)))
                .filter(|(_, cell)| cell.is_complete())
                .collect();
            if of_sets.len() < sets.len() {
                frontier.incomplete.push((algorithm.to_owned(), target, of_sets.len()));
                continue;
            }
            let excess = |only: Option<u64>| {
                let ratios =
                    of_sets.iter().filter_map(|(data, cell)| Some(cell.stored? / best(data, only)));
                100.0 * (geometric_mean(ratios) - 1.0)
            };
            let speed = |index: usize| {
                geometric_mean(of_sets.iter().filter_map(|(_, cell)| Some(cell.speed?[index])))
            };
            frontier.points.push(Point {
                algorithm: algorithm.to_owned(),
                target,
                speed: (algorithm != FIXED).then(|| [speed(0), speed(1), speed(2)]),
                excess: excess(None),
                target_excess: excess(Some(target)),
                is_front: false,
            });
        }
        frontier.mark_front();
        frontier.sentences = frontier.advice();
        frontier
    }

    /// Returns the advice, one sentence each; none without points.
    pub(super) fn sentences(&self) -> &[String] {
        &self.sentences
    }

    fn mark_front(&mut self) {
        let all = self.points.clone();
        for point in &mut self.points {
            let Some([speed, ..]) = point.speed else { continue };
            point.is_front = !all.iter().any(|other| {
                other.speed.is_some_and(|[faster, ..]| {
                    (other.excess < point.excess && faster >= speed)
                        || (other.excess <= point.excess && faster > speed)
                })
            });
        }
    }

    /// Returns the points that have a speed.
    fn timed(&self) -> impl Iterator<Item = &Point> {
        self.points.iter().filter(|point| point.speed.is_some())
    }

    /// Returns the names of the algorithms of the frontier.
    fn front(&self) -> BTreeSet<&str> {
        let front = self.timed().filter(|point| point.is_front);
        front.map(|point| point.algorithm.as_str()).collect()
    }

    fn limit(&self, name: &str) -> Option<f64> {
        self.limits.iter().find(|limit| limit.name == name).map(|limit| limit.speed)
    }

    /// Returns the fastest of the algorithms that store at most [`NEAR`] percent more at this target
    /// than the one that stores least over all data sets. No algorithm needs to be near the best of
    /// each set, which is another one on each.
    fn fastest_without_loss(&self, target: u64) -> Option<&Point> {
        let of_target = || self.timed().filter(|point| point.target == target);
        let least = of_target().map(|point| point.target_excess).min_by(f64::total_cmp)?;
        let near = of_target()
            .filter(|point| 100.0 + point.target_excess <= (1.0 + NEAR / 100.0) * (100.0 + least));
        near.max_by(Point::by_speed)
    }

    /// Returns the advice that the points and limits prove, one sentence each.
    fn advice(&self) -> Vec<String> {
        let mut sentences = Vec::new();
        let least = self.timed().min_by(|one, other| one.excess.total_cmp(&other.excess));
        let Some(least) = least else { return sentences };
        let targets: BTreeSet<u64> = self.points.iter().map(|point| point.target).collect();
        let sizes: Vec<String> = targets.iter().map(|target| size(*target)).collect();
        sentences.push(format!(
            "By the geometric mean over {}, at equal means of {}, with metadata. To store as little as possible: {} at {}, {} GB/s.",
            listed(&self.sets),
            listed(&sizes),
            least.algorithm,
            size(least.target),
            short(least.gb_per_s())
        ));
        let near: Vec<String> = self
            .whole_targets()
            .iter()
            .filter_map(|target| {
                let fastest = self.fastest_without_loss(*target)?;
                Some(format!(
                    "at {} {} ({} GB/s)",
                    size(*target),
                    fastest.algorithm,
                    short(fastest.gb_per_s())
                ))
            })
            .collect();
        if !near.is_empty() {
            sentences.push(format!(
                "To be fast without a loss, which is the fastest of those that store at most {NEAR} % more than the least of their size: {}.{}",
                listed(&near),
                self.not_whole()
            ));
        }
        sentences.extend(self.fingerprint_advice());
        sentences.extend(self.fixed_advice());
        sentences.extend(self.frontier_advice());
        sentences.extend(self.left_out());
        sentences
    }

    /// Returns the sentence about the algorithms that no frontier needs.
    fn frontier_advice(&self) -> Option<String> {
        let front = self.front();
        let lost: BTreeSet<&str> = self
            .timed()
            .map(|point| point.algorithm.as_str())
            .filter(|name| !front.contains(name))
            .collect();
        let (front, lost): (Vec<&str>, Vec<&str>) =
            (front.into_iter().collect(), lost.into_iter().collect());
        (!lost.is_empty()).then(|| {
            format!(
                "On the frontier are {}; for {} there is always another rule that stores less on average over these sets and is as fast, which can differ on a single set.",
                listed(&front),
                listed(&lost)
            )
        })
    }

    /// Returns the sentence about the algorithms without a point.
    fn left_out(&self) -> Option<String> {
        let left_out: BTreeSet<&str> =
            self.incomplete.iter().map(|(algorithm, ..)| algorithm.as_str()).collect();
        let left_out: Vec<&str> = left_out
            .into_iter()
            .filter(|name| !self.points.iter().any(|point| point.algorithm == *name))
            .collect();
        (!left_out.is_empty()).then(|| {
            format!(
                "Left out, because they lack a set at each size, mostly as the mean is out of reach: {}.",
                listed(&left_out)
            )
        })
    }

    /// Returns the sentence about the targets at which algorithms of the frontier lack a point, after
    /// a space; nothing if there are none.
    fn not_whole(&self) -> String {
        let whole = self.whole_targets();
        let all: BTreeSet<u64> = self.timed().map(|point| point.target).collect();
        let others: Vec<String> = all.difference(&whole).map(|target| size(*target)).collect();
        if others.is_empty() {
            return String::new();
        }
        format!(" At {} an algorithm of the frontier lacks a set.", listed(&others))
    }

    /// Returns the targets at which each algorithm of the frontier has a point. At another one, the
    /// best of those that have one says nothing about the others.
    fn whole_targets(&self) -> BTreeSet<u64> {
        let front = self.front();
        let has_point = |name: &str, target: u64| {
            self.timed().any(|point| point.algorithm == name && point.target == target)
        };
        let targets = self.timed().map(|point| point.target);
        targets.filter(|target| front.iter().all(|name| has_point(name, *target))).collect()
    }

    /// Returns the sentence about the fastest algorithm, the one that stores least, and the time of
    /// a fingerprint, at the greatest target at which each algorithm of the frontier has a point.
    fn fingerprint_advice(&self) -> Option<String> {
        let hash = self.limit("BLAKE3")?;
        let target = *self.whole_targets().last()?;
        let of_target = self.timed().filter(|point| point.target == target);
        let fastest = of_target.max_by(Point::by_speed)?;
        let rival = self.fastest_without_loss(target)?;
        let both = |point: &Point| 1.0 / (1.0 / point.gb_per_s() + 1.0 / hash);
        if rival.algorithm == fastest.algorithm {
            return Some(format!(
                "Behind BLAKE3, at {} GB/s in the same thread, {} at {} makes {} GB/s in all, and no rule is faster.",
                short(hash),
                fastest.algorithm,
                size(fastest.target),
                short(both(fastest))
            ));
        }
        Some(format!(
            "Behind BLAKE3, at {} GB/s in the same thread, the fastest rule at {}, {}, makes {} GB/s in all and {} {}: \
             {} % more speed for {} % more stored bytes; without a fingerprint it is {} times as fast.",
            short(hash),
            size(target),
            fastest.algorithm,
            short(both(fastest)),
            rival.algorithm,
            short(both(rival)),
            short(100.0 * (both(fastest) / both(rival) - 1.0)),
            short(100.0 * ((100.0 + fastest.excess) / (100.0 + rival.excess) - 1.0)),
            short(fastest.gb_per_s() / rival.gb_per_s())
        ))
    }

    /// Returns the sentence about chunks of a fixed size.
    fn fixed_advice(&self) -> Option<String> {
        let fixed = self.points.iter().filter(|point| point.algorithm == FIXED);
        let least = fixed.min_by(|one, other| one.excess.total_cmp(&other.excess))?;
        Some(format!(
            "A fixed size costs no time and stores {} % more at best ({}){}.",
            short(least.excess),
            size(least.target),
            if self.fixed_best.is_empty() {
                ", and on no set least".to_owned()
            } else {
                format!(", but least of all on {}", listed(&self.fixed_best))
            }
        ))
    }
}

impl Point {
    /// Compares the speeds of two points.
    fn by_speed(one: &&Point, other: &&Point) -> Ordering {
        one.gb_per_s().total_cmp(&other.gb_per_s())
    }

    fn gb_per_s(&self) -> f64 {
        self.speed.map_or(0.0, |[median, ..]| median)
    }
}

/// Returns the figures of all cells at an equal mean; the last row of several counts.
fn cells(rows: &[Row]) -> BTreeMap<(&str, &str, u64), Cell> {
    let mut cells: BTreeMap<(&str, &str, u64), Cell> = BTreeMap::new();
    let equal = rows.iter().filter(|row| row.selection == "equal" && row.value.is_finite());
    for row in equal.filter(|row| !row.algorithm.is_empty()) {
        let key = (row.data.as_str(), row.algorithm.as_str(), row.target);
        match (row.measure.as_str(), row.metric.as_str()) {
            ("cut", "stored_bytes_with_metadata") => {
                cells.entry(key).or_default().stored = Some(row.value);
            }
            ("throughput", "cpu_throughput") if row.level != LEARNING && row.variant == FRESH => {
                let speed = [row.value, row.lower_quartile, row.upper_quartile];
                let cell = cells.entry(key).or_default();
                // Of several levels, the fastest is that of the product.
                if cell.speed.is_none_or(|[known, ..]| known <= row.value) {
                    cell.speed = Some(speed);
                }
            }
            _ => {}
        }
    }
    cells.retain(|_, cell| cell.stored.is_some());
    cells
}

/// Returns the data sets with at least two complete cells, and at least half as many as the data set
/// with most. One that a run has only begun would leave no algorithm with all of them.
fn sets<'a>(cells: &BTreeMap<(&'a str, &str, u64), Cell>) -> Vec<&'a str> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for ((data, ..), cell) in cells {
        *counts.entry(*data).or_default() += usize::from(cell.is_complete());
    }
    let most = counts.values().copied().max().unwrap_or(0);
    let enough = counts.into_iter().filter(|(_, count)| *count >= 2 && 2 * count >= most);
    enough.map(|(data, _)| data).collect()
}

/// Returns the speeds of fingerprints at the best level, and those of a plain read.
fn limits(rows: &[Row]) -> Vec<Limit> {
    let speeds =
        || rows.iter().filter(|row| row.metric == "cpu_throughput" && row.value.is_finite());
    let fingerprint = |name: &str| {
        let of_hash = speeds().filter(|row| row.measure == "fingerprint" && row.algorithm == name);
        of_hash.map(|row| row.value).max_by(f64::total_cmp)
    };
    let read = |variant: &str| {
        let reads = speeds().filter(|row| row.level == "plain read" && row.variant == variant);
        median(reads.map(|row| row.value).collect())
    };
    let found = [
        ("SHA-256", fingerprint("SHA-256")),
        ("BLAKE3", fingerprint("BLAKE3")),
        ("read from memory", read("")),
        ("read from the cache", read(FRESH)),
    ];
    let found = found.into_iter().filter_map(|(name, speed)| Some((name, speed?)));
    found.map(|(name, speed)| Limit { name: name.to_owned(), speed }).collect()
}

fn geometric_mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) =
        values.fold((0.0, 0.0), |(sum, count), value| (sum + value.ln(), count + 1.0));
    if count > 0.0 { f64::exp(sum / count) } else { f64::NAN }
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

fn size(target: u64) -> String {
    match target % 1024 {
        0 => format!("{} KiB", target / 1024),
        _ => format!("{target} B"),
    }
}

/// Returns the number with three significant digits.
fn short(number: f64) -> String {
    // Rounded before its digits are counted, because 9.999 is 10.0.
    let number: f64 = format!("{number:.2e}").parse().unwrap_or(number);
    let digits = match number.abs() {
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        _ => 2,
    };
    format!("{number:.digits$}")
}

fn listed<T: AsRef<str>>(texts: &[T]) -> String {
    let texts: Vec<&str> = texts.iter().map(AsRef::as_ref).collect();
    match texts.as_slice() {
        [before @ .., one, last] => {
            let before: String = before.iter().map(|text| format!("{text}, ")).collect();
            format!("{before}{one} and {last}")
        }
        texts => texts.concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the rows of one algorithm and target on the data sets of `stored`.
    fn rows_of(algorithm: &str, target: u64, gb_per_s: f64, stored: &[(&str, f64)]) -> Vec<Row> {
        let rows = stored.iter().flat_map(|(data, stored_bytes)| {
            let row = |measure: &str, row: Row| Row {
                measure: measure.to_owned(),
                data: (*data).to_owned(),
                algorithm: algorithm.to_owned(),
                selection: "equal".to_owned(),
                target,
                ..row
            };
            let mut fresh = Row::new("cpu_throughput", gb_per_s, "GB/s").level("avx2");
            fresh.variant = FRESH.to_owned();
            [
                row("cut", Row::new("stored_bytes_with_metadata", *stored_bytes, "bytes")),
                row("throughput", fresh),
            ]
        });
        rows.collect()
    }

    fn limit_row(measure: &str, algorithm: &str, level: &str, gb_per_s: f64) -> Row {
        Row {
            measure: measure.to_owned(),
            algorithm: algorithm.to_owned(),
            ..Row::new("cpu_throughput", gb_per_s, "GB/s").level(level)
        }
    }

    fn rows() -> Vec<Row> {
        let mut rows = rows_of("Gear", 4096, 4.0, &[("A", 100.0), ("B", 200.0)]);
        rows.extend(rows_of("Gear", 8192, 5.0, &[("A", 110.0), ("B", 220.0)]));
        rows.extend(rows_of("SeqCDC", 4096, 8.0, &[("A", 105.0), ("B", 210.0)]));
        rows.extend(rows_of("SeqCDC", 8192, 20.0, &[("A", 121.0), ("B", 242.0)]));
        rows.extend(rows_of("Rabin", 4096, 1.0, &[("A", 101.0), ("B", 202.0)]));
        rows.extend(rows_of("Fixed", 4096, 900.0, &[("A", 180.0), ("B", 360.0)]));
        rows.push(limit_row("fingerprint", "BLAKE3", "blake3 avx2", 5.0));
        rows
    }

    fn point<'a>(frontier: &'a Frontier, algorithm: &str, target: u64) -> &'a Point {
        let is = |point: &&Point| point.algorithm == algorithm && point.target == target;
        frontier.points.iter().find(is).expect("a point")
    }

    fn is_near(value: f64, expected: f64) -> bool {
        (value - expected).abs() < 1e-9
    }

    #[test]
    fn points_are_geometric_means_over_the_best_of_each_set() {
        let frontier = Frontier::of(&rows());
        assert_eq!(frontier.sets, ["A", "B"]);
        assert_eq!(frontier.points.len(), 6);
        assert!(is_near(point(&frontier, "Gear", 4096).excess, 0.0));
        assert!(is_near(point(&frontier, "SeqCDC", 8192).excess, 21.0));
        assert!(is_near(point(&frontier, "SeqCDC", 8192).target_excess, 10.0));
        let mut uneven = rows();
        uneven.extend(rows_of("AE", 4096, 2.0, &[("A", 200.0), ("B", 200.0)]));
        let frontier = Frontier::of(&uneven);
        let expected = 100.0 * (2.0_f64.sqrt() - 1.0);
        assert!(is_near(point(&frontier, "AE", 4096).excess, expected));
    }

    #[test]
    fn dominated_points_are_not_on_the_front() {
        let frontier = Frontier::of(&rows());
        let front = [("Gear", 4096), ("SeqCDC", 4096), ("SeqCDC", 8192)];
        for point in &frontier.points {
            let expected = front.contains(&(point.algorithm.as_str(), point.target));
            assert_eq!(point.is_front, expected, "{point:?}");
        }
        assert_eq!(point(&frontier, "Fixed", 4096).speed, None, "it reads nothing");
    }

    #[test]
    fn point_without_a_set_is_incomplete() {
        let mut rows = rows();
        rows.extend(rows_of("AE", 4096, 2.0, &[("A", 90.0)]));
        let frontier = Frontier::of(&rows);
        assert_eq!(frontier.incomplete, [("AE".to_owned(), 4096, 1)]);
        assert!(frontier.points.iter().all(|point| point.algorithm != "AE"));
        let untimed = rows_of("MAXP", 4096, 2.0, &[("A", 50.0), ("B", 50.0)]);
        rows.extend(untimed.into_iter().filter(|row| row.measure == "cut"));
        let with_untimed = Frontier::of(&rows);
        assert_eq!(with_untimed.points, frontier.points, "an algorithm that was never timed");
        assert_eq!(with_untimed.incomplete, frontier.incomplete);
        let other: Vec<Row> =
            rows.into_iter().map(|row| Row { selection: "paper".to_owned(), ..row }).collect();
        let frontier = Frontier::of(&other);
        assert!(frontier.points.is_empty(), "means of the papers are not equal");
        assert!(frontier.sentences.is_empty());
    }

    #[test]
    fn set_that_was_only_begun_is_left_out() {
        let mut rows = rows();
        rows.extend(rows_of("Gear", 4096, 4.0, &[("C", 100.0)]));
        rows.extend(rows_of("AE", 4096, 4.0, &[("C", 100.0)]));
        assert_eq!(Frontier::of(&rows).sets, ["A", "B"]);
        rows.extend(rows_of("Rabin", 4096, 4.0, &[("C", 100.0)]));
        assert_eq!(Frontier::of(&rows).sets, ["A", "B", "C"], "half of the six");
    }

    #[test]
    fn advice_follows_the_rows() {
        let sentences = Frontier::of(&rows()).sentences;
        assert_eq!(
            sentences,
            [
                "By the geometric mean over A and B, at equal means of 4 KiB and 8 KiB, with metadata. To store as little as \
                 possible: Gear at 4 KiB, 4.00 GB/s.",
                "To be fast without a loss, which is the fastest of those that store at most 1 % more than the least of their \
                 size: at 4 KiB Gear (4.00 GB/s) and at 8 KiB Gear (5.00 GB/s).",
                "Behind BLAKE3, at 5.00 GB/s in the same thread, the fastest rule at 8 KiB, SeqCDC, makes 4.00 GB/s in all \
                 and Gear 2.50: 60.0 % more speed for 10.0 % more stored bytes; without a fingerprint it is 4.00 times as fast.",
                "A fixed size costs no time and stores 80.0 % more at best (4 KiB), and on no set least.",
                "On the frontier are Gear and SeqCDC; for Rabin there is always another rule that stores less on average over \
                 these sets and is as fast, which can differ on a single set.",
            ]
        );
        let mut faster = rows();
        faster.extend(rows_of("FastCDC", 8192, 30.0, &[("A", 110.0), ("B", 220.0)]));
        let sentences = Frontier::of(&faster).sentences;
        assert!(
            sentences[1].ends_with(
                ": at 8 KiB FastCDC (30.0 GB/s). At 4 KiB an algorithm of the frontier lacks a set."
            ),
            "{sentences:?}"
        );
        assert!(sentences[2].contains("FastCDC at 8 KiB makes 4.29 GB/s in all, and no rule"));
        assert!(sentences[4].starts_with("On the frontier are FastCDC, Gear and SeqCDC;"));
        let mut in_place = rows();
        in_place.extend(rows_of("Fixed", 8192, 900.0, &[("A", 180.0), ("B", 90.0)]));
        in_place.extend(rows_of("CRC", 8192, 1.0, &[("A", 100.0)]));
        let sentences = Frontier::of(&in_place).sentences;
        assert!(sentences[3].ends_with("but least of all on B."), "{sentences:?}");
        assert!(sentences[5].starts_with("Left out") && sentences[5].ends_with(": CRC."));
    }

    #[test]
    fn no_loss_is_told_where_each_set_has_another_best() {
        // Each is 10 % from the best of one set, so that none is within 1 % of the best of each.
        let mut rows = rows_of("Gear", 4096, 4.0, &[("A", 100.0), ("B", 110.0)]);
        rows.extend(rows_of("AE", 4096, 8.0, &[("A", 110.5), ("B", 100.0)]));
        rows.extend(rows_of("SeqCDC", 4096, 20.0, &[("A", 120.0), ("B", 120.0)]));
        rows.push(limit_row("fingerprint", "BLAKE3", "blake3 avx2", 5.0));
        let sentences = Frontier::of(&rows).sentences;
        assert!(sentences[1].ends_with("at 4 KiB AE (8.00 GB/s)."), "{sentences:?}");
        assert!(
            sentences[2]
                .contains("the fastest rule at 4 KiB, SeqCDC, makes 4.00 GB/s in all and AE 3.08"),
            "{sentences:?}"
        );
    }

    #[test]
    fn limits_are_the_best_levels() {
        let mut rows = rows();
        rows.push(limit_row("fingerprint", "BLAKE3", "blake3 scalar", 1.0));
        rows.push(limit_row("throughput", "", "plain read", 30.0));
        rows.push(Row {
            variant: FRESH.to_owned(),
            ..limit_row("throughput", "", "plain read", 60.0)
        });
        let named = |name: &str, speed| Limit { name: name.to_owned(), speed };
        let expected = [
            named("BLAKE3", 5.0),
            named("read from memory", 30.0),
            named("read from the cache", 60.0),
        ];
        assert_eq!(Frontier::of(&rows).limits, expected);
    }
}
