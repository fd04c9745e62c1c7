//! Verdicts: comparison of the values of rows with the numbers and orders of a claim.

use serde::Serialize;

use super::{Claim, Piece, Test, Verdict};
use crate::Row;

/// The maximum distance from a number to count as reproduced, as a share of the number.
const TOLERANCE: f64 = 0.1;
/// The maximum factor between our number and the paper's to count as the same shape.
const SHAPE_FACTOR: f64 = 1.5;
/// The unit of absolute speeds, which are not compared with those of other machines.
const SPEED_UNIT: &str = "GB/s";

/// A value with its spread, and the row that it is from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Point<'a> {
    pub(crate) row: &'a Row,
    pub(crate) value: f64,
    lower: f64,
    upper: f64,
}

/// A number that answers a claim, with its spread.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// The value.
    pub value: f64,
    /// The lower end of its spread.
    pub lower: f64,
    /// The upper end of its spread.
    pub upper: f64,
}

/// A number of a table beside ours.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cell {
    /// The metric of our row.
    pub metric: String,
    /// The target of our row.
    pub target: u64,
    /// The printed number.
    pub number: f64,
    /// Our number.
    pub ours: f64,
    /// The verdict on this number alone.
    pub verdict: Verdict,
}

/// The result of a comparison, before circumstances limit the verdict.
#[derive(Debug)]
pub(crate) struct Judgement {
    pub(crate) verdict: Verdict,
    pub(crate) ours: String,
    pub(crate) figure: Option<Figure>,
    pub(crate) cells: Vec<Cell>,
}

impl<'a> Point<'a> {
    /// Returns the value of a row, or its sample of this index.
    pub(crate) fn of(row: &'a Row, sample: Option<usize>) -> Option<Point<'a>> {
        let Some(index) = sample else {
            let (lower, upper) = (row.lower_quartile, row.upper_quartile);
            return Some(Point { row, value: row.value, lower, upper });
        };
        let value = *row.numbers().get(index)?;
        Some(Point { row, value, lower: value, upper: value })
    }

    fn figure(self) -> Figure {
        Figure { value: self.value, lower: self.lower, upper: self.upper }
    }

    /// Formats the value with its quartiles, if there are any.
    fn text(self) -> String {
        let unit =
            if self.row.unit.is_empty() { String::new() } else { format!(" {}", self.row.unit) };
        if self.lower == self.upper {
            return format!("{}{unit}", short(self.value));
        }
        format!("{}{unit} [{} to {}]", short(self.value), short(self.lower), short(self.upper))
    }

    /// Returns the names that distinguish the row from others.
    fn name(self) -> String {
        let row = self.row;
        let parts = [row.algorithm.as_str(), &row.level, &row.variant, &row.data];
        let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        parts.join(", ")
    }
}

impl Figure {
    fn quotient(one: Figure, other: Figure) -> Figure {
        Figure {
            value: one.value / other.value,
            lower: one.lower / other.upper,
            upper: one.upper / other.lower,
        }
    }

    fn difference(one: Figure, other: Figure) -> Figure {
        Figure {
            value: one.value - other.value,
            lower: one.lower - other.upper,
            upper: one.upper - other.lower,
        }
    }

    fn mean(figures: &[Figure]) -> Figure {
        let of =
            |part: fn(&Figure) -> f64| figures.iter().map(part).sum::<f64>() / figures.len() as f64;
        Figure {
            value: of(|figure| figure.value),
            lower: of(|figure| figure.lower),
            upper: of(|figure| figure.upper),
        }
    }

    fn overlaps(self, other: Figure) -> bool {
        self.lower <= other.upper && other.lower <= self.upper
    }

    /// Returns `true` if the values differ by no more than `resolution`.
    fn equals(self, other: Figure, resolution: f64) -> bool {
        (self.value - other.value).abs() <= resolution
    }

    /// Returns `true` if the spreads overlap, or the values differ by no more than `resolution`.
    fn ties(self, other: Figure, resolution: f64) -> bool {
        self.overlaps(other) || self.equals(other, resolution)
    }

    /// Returns `true` if the spread comes at least halfway from `none`, which is no difference, to
    /// the range from `number` to `upper`.
    fn is_halfway(self, none: f64, number: f64, upper: f64) -> bool {
        if number > none {
            self.upper >= f64::midpoint(none, number)
        } else {
            self.lower <= f64::midpoint(none, upper)
        }
    }
}

impl Claim {
    /// Compares the values with the claim.
    pub(crate) fn judge(&self, points: &[Point<'_>]) -> Judgement {
        match (self.test, points) {
            (Test::Value, [point, ..]) => self.value(*point),
            (Test::Ratio, points) => self.ratio(points.as_chunks().0),
            (Test::Quotients, [one, of, other, of_other]) => {
                self.quotients([*one, *of], [*other, *of_other])
            }
            (Test::Difference, [one, other, ..]) => self.difference(*one, *other),
            (Test::Within, [one, others @ ..]) if !others.is_empty() => self.within(*one, others),
            (Test::Spread, points) => self.spread(points),
            (Test::Order, points) => {
                let figures: Vec<Figure> = points.iter().map(|point| point.figure()).collect();
                Judgement::of(self.order(&figures), listed(points))
            }
            (Test::Factors, points) => self.factors(points),
            (Test::Cells, points) => self.cells(points),
            (Test::Curve, points) => self.curve(points),
            (_, points) => Judgement::of(Verdict::Contradicts, listed(points)),
        }
    }

    fn value(&self, point: Point<'_>) -> Judgement {
        if point.row.unit == SPEED_UNIT {
            return Judgement::of(Verdict::NotTestable, point.text());
        }
        let verdict = self.number.map_or(Verdict::NotTestable, |number| {
            self.near(point.value, number, self.upper.unwrap_or(number))
        });
        Judgement { figure: Some(point.figure()), ..Judgement::of(verdict, point.text()) }
    }

    fn ratio(&self, pairs: &[[Point<'_>; 2]]) -> Judgement {
        let figures: Vec<[Figure; 2]> =
            pairs.iter().map(|pair| pair.map(|point| point.figure())).collect();
        let quotients: Vec<Figure> =
            figures.iter().map(|[one, other]| Figure::quotient(*one, *other)).collect();
        let texts: Vec<String> = pairs
            .iter()
            .zip(&quotients)
            .map(|([one, other], quotient)| {
                format!("{} ({} / {})", short(quotient.value), one.text(), other.text())
            })
            .collect();
        let figure = Figure::mean(&quotients);
        let ours = match &*texts {
            [text] => text.clone(),
            _ => format!("{}, the mean of {}", short(figure.value), texts.join(", ")),
        };
        self.compared(figure, &figures, ours)
    }

    fn quotients(&self, one: [Point<'_>; 2], other: [Point<'_>; 2]) -> Judgement {
        let quotient = |[one, of]: [Point<'_>; 2]| Figure::quotient(one.figure(), of.figure());
        let text = |[one, of]: [Point<'_>; 2]| format!("{} / {}", one.text(), of.text());
        let operands = [quotient(one), quotient(other)];
        let figure = Figure::quotient(operands[0], operands[1]);
        let ours = format!("{} ({} : {})", short(figure.value), text(one), text(other));
        self.compared(figure, &[operands], ours)
    }

    /// Compares `figure`, a quotient of the operands or a mean of such, with the number.
    fn compared(&self, figure: Figure, operands: &[[Figure; 2]], ours: String) -> Judgement {
        let Some(number) = self.number else { return Judgement::of(Verdict::NotTestable, ours) };
        let upper = self.upper.unwrap_or(number);
        let claims_difference = number > 1.0 || upper < 1.0;
        let is_tie = operands.iter().all(|[one, other]| one.equals(*other, self.resolution))
            || (operands.iter().all(|[one, other]| one.overlaps(*other))
                && figure.is_halfway(1.0, number, upper));
        let verdict = if claims_difference && is_tie {
            Verdict::Tie
        } else if claims_difference {
            self.factor(figure.value, number, upper)
        } else {
            self.near(figure.value, number, upper)
        };
        Judgement { figure: Some(figure), ..Judgement::of(verdict, ours) }
    }

    /// Compares a factor that the paper has on one side of 1. If one of both is near 1, they are
    /// compared by their distance from 1, because all factors near 1 are within 1.5 times of each
    /// other.
    fn factor(&self, ours: f64, number: f64, upper: f64) -> Verdict {
        let middle = f64::midpoint(number, upper);
        let is_same_side = (middle > 1.0) == (ours > 1.0) && ours != 1.0;
        let is_within = (number..=upper).contains(&ours);
        let is_near_one = |factor: f64| factor.ln().abs() <= SHAPE_FACTOR.ln();
        let is_alike = if is_near_one(middle) || is_near_one(ours) {
            is_within_factor(ours - 1.0, middle - 1.0)
        } else {
            is_within_factor(ours, middle)
        };
        let is_near = (ours / middle - 1.0).abs() <= self.tolerance();
        match is_same_side {
            true if is_within || (is_near && is_alike) => Verdict::Reproduced,
            true if is_alike => Verdict::SameShape,
            _ => Verdict::Contradicts,
        }
    }

    fn difference(&self, one: Point<'_>, other: Point<'_>) -> Judgement {
        let figure = Figure::difference(one.figure(), other.figure());
        let ours = format!("{} ({} - {})", short(figure.value), one.text(), other.text());
        let Some(number) = self.number else { return Judgement::of(Verdict::NotTestable, ours) };
        let upper = self.upper.unwrap_or(number);
        let middle = f64::midpoint(number, upper);
        let (value, resolution) = (figure.value, self.resolution);
        let claims_difference = number > resolution || upper < -resolution;
        let is_near = (number - resolution..=upper + resolution).contains(&value)
            || (value - middle).abs() <= self.tolerance() * middle.abs();
        let (one, other) = (one.figure(), other.figure());
        let is_tie = one.equals(other, resolution)
            || (one.overlaps(other) && figure.is_halfway(0.0, number, upper));
        let verdict = if claims_difference && is_tie {
            Verdict::Tie
        } else if is_near {
            Verdict::Reproduced
        } else if is_within_factor(value, middle)
            || (!claims_difference && value.abs() <= SHAPE_FACTOR * resolution)
        {
            Verdict::SameShape
        } else {
            Verdict::Contradicts
        };
        Judgement { figure: Some(figure), ..Judgement::of(verdict, ours) }
    }

    /// Compares the distance of the first value below the greatest of the others with its bound.
    fn within(&self, one: Point<'_>, others: &[Point<'_>]) -> Judgement {
        let best = others.iter().max_by(|one, other| one.value.total_cmp(&other.value));
        let (Some(best), Some(bound)) = (best, self.number) else {
            return Judgement::of(Verdict::NotTestable, listed(others));
        };
        let figure = Figure::difference(best.figure(), one.figure());
        let ours = format!(
            "{} below the best ({} {}; {} {})",
            short(figure.value),
            best.name(),
            best.text(),
            one.name(),
            one.text()
        );
        let verdict = match figure.value {
            value if value <= bound => Verdict::Reproduced,
            value if value <= SHAPE_FACTOR * bound => Verdict::SameShape,
            _ => Verdict::Contradicts,
        };
        Judgement { figure: Some(figure), ..Judgement::of(verdict, ours) }
    }

    /// Compares the distance of the least value below the greatest with its bound, at the target
    /// where it is the largest.
    fn spread(&self, points: &[Point<'_>]) -> Judgement {
        let mut sorted = points.to_vec();
        sorted.sort_by(|one, other| {
            let by_target = one.row.target.cmp(&other.row.target);
            by_target.then(one.value.total_cmp(&other.value))
        });
        let widest = sorted
            .chunk_by(|one, other| one.row.target == other.row.target)
            .filter_map(|group| group.split_first())
            .filter(|(_, others)| !others.is_empty())
            .max_by(|one, other| distance(*one).total_cmp(&distance(*other)));
        let Some((least, others)) = widest else {
            return Judgement::of(Verdict::NotTestable, listed(points));
        };
        let judgement = self.within(*least, others);
        Judgement { ours: format!("at {}: {}", least.row.target, judgement.ours), ..judgement }
    }

    fn factors(&self, points: &[Point<'_>]) -> Judgement {
        let pairs = points.as_chunks::<2>().0;
        let figures: Vec<Figure> = pairs
            .iter()
            .map(|[one, other]| Figure::quotient(one.figure(), other.figure()))
            .collect();
        let texts: Vec<String> = pairs
            .iter()
            .zip(&figures)
            .map(|([one, other], figure)| {
                let value = short(figure.value);
                format!("{} {value} ({} / {})", one.name(), one.text(), other.text())
            })
            .collect();
        Judgement::of(self.order(&figures), texts.join("; "))
    }

    /// Returns [`Verdict::SameShape`] if each figure is clearly above the next,
    /// [`Verdict::Contradicts`] if one is clearly below, and otherwise [`Verdict::Tie`].
    fn order(&self, figures: &[Figure]) -> Verdict {
        let pairs = || figures.windows(2).map(|pair| (pair[0], pair[1]));
        let is_tie = |(one, other): (Figure, Figure)| one.ties(other, self.resolution);
        if pairs().any(|(one, other)| one.value < other.value && !is_tie((one, other))) {
            Verdict::Contradicts
        } else if pairs().any(is_tie) {
            Verdict::Tie
        } else {
            Verdict::SameShape
        }
    }

    /// Compares each row with its number. The verdict is that of the worst.
    fn cells(&self, points: &[Point<'_>]) -> Judgement {
        let cells: Vec<Cell> = points
            .iter()
            .zip(&self.numbers)
            .map(|(point, number)| Cell {
                metric: point.row.metric.clone(),
                target: point.row.target,
                number: *number,
                ours: point.value,
                verdict: self.near(point.value, *number, *number),
            })
            .collect();
        let count = |verdict| cells.iter().filter(|cell| cell.verdict == verdict).count();
        let [reproduced, alike] = [Verdict::Reproduced, Verdict::SameShape].map(count);
        let verdict = match cells.len() {
            0 => Verdict::NotTestable,
            all if reproduced == all => Verdict::Reproduced,
            all if reproduced + alike == all => Verdict::SameShape,
            _ => Verdict::Contradicts,
        };
        let off = |cell: &Cell| (cell.ours / cell.number).ln().abs();
        let worst = cells.iter().max_by(|one, other| off(one).total_cmp(&off(other)));
        let worst = worst.map_or_else(String::new, |cell| {
            format!(
                "; the farthest: {} at {}, {} against {}",
                cell.metric,
                cell.target,
                short(cell.ours),
                short(cell.number)
            )
        });
        let ours = format!(
            "{reproduced} of {} numbers within {}, {alike} within a factor of {SHAPE_FACTOR}{worst}",
            cells.len(),
            percent(self.tolerance()),
        );
        Judgement { cells, ..Judgement::of(verdict, ours) }
    }

    /// Compares the monotone pieces of the values of the rows, or of the samples of the only row.
    fn curve(&self, points: &[Point<'_>]) -> Judgement {
        let values: Vec<f64> = match points {
            [point] => point.row.numbers(),
            _ => points.iter().map(|point| point.value).collect(),
        };
        let steps = values.windows(2).map(|pair| match pair[1] - pair[0] {
            step if step.abs() <= self.resolution => Piece::Flat,
            step if step > 0.0 => Piece::Rises,
            _ => Piece::Falls,
        });
        let mut pieces: Vec<Piece> = steps.collect();
        pieces.dedup();
        let verdict = match pieces == self.pieces {
            true => Verdict::SameShape,
            false if pieces == [Piece::Flat] => Verdict::Tie,
            false => Verdict::Contradicts,
        };
        let names: Vec<String> =
            pieces.iter().map(|piece| format!("{piece:?}").to_lowercase()).collect();
        let list: Vec<String> = values.iter().map(|value| short(*value)).collect();
        Judgement::of(verdict, format!("{}: {}", names.join(", "), list.join(" ")))
    }

    /// Compares a value with the number, or with the range that the paper prints.
    fn near(&self, ours: f64, number: f64, upper: f64) -> Verdict {
        let middle = f64::midpoint(number, upper);
        // A share of 0 is not defined.
        let off = if middle == 0.0 { ours.abs() } else { (ours / middle - 1.0).abs() };
        let is_equality = middle == 0.0 || middle == 1.0 || (number < 1.0 && upper > 1.0);
        let is_alike = if is_equality {
            off <= SHAPE_FACTOR * self.tolerance()
        } else {
            is_within_factor(ours, middle)
        };
        if off <= self.tolerance() || (number..=upper).contains(&ours) {
            Verdict::Reproduced
        } else if is_alike && !self.exact {
            Verdict::SameShape
        } else {
            Verdict::Contradicts
        }
    }

    fn tolerance(&self) -> f64 {
        self.tolerance.unwrap_or(TOLERANCE)
    }
}

impl Judgement {
    fn of(verdict: Verdict, ours: String) -> Judgement {
        Judgement { verdict, ours, figure: None, cells: Vec::new() }
    }
}

/// Returns the distance from the least of sorted values to the last of the others.
fn distance((least, others): (&Point<'_>, &[Point<'_>])) -> f64 {
    others.last().map_or(0.0, |greatest| greatest.value - least.value)
}

/// Returns `true` if the values have the same sign, and neither is more than [`SHAPE_FACTOR`] times
/// the other.
fn is_within_factor(one: f64, other: f64) -> bool {
    let factor = one / other;
    factor > 0.0 && factor.max(1.0 / factor) <= SHAPE_FACTOR
}

fn listed(points: &[Point<'_>]) -> String {
    let texts: Vec<String> =
        points.iter().map(|point| format!("{} {}", point.name(), point.text())).collect();
    texts.join("; ")
}

/// Formats a value with about four digits, which suffice for a comparison.
fn short(value: f64) -> String {
    let size = value.abs();
    match size {
        _ if size >= 1000.0 || value == value.trunc() => format!("{value:.0}"),
        _ if size >= 100.0 => format!("{value:.1}"),
        _ if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

fn percent(share: f64) -> String {
    format!("{} %", short(100.0 * share))
}
