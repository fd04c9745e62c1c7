//! The parameters of an algorithm for a target.

use cutpoint_chunking::algorithm::bfbc::PairCounts;
use cutpoint_chunking::{Spec, cuts};

use crate::data::DataSet;
use crate::row::ABSENT;
use crate::searched::SearchKey;
use crate::template::{LEARNED, sized, spec};
use crate::{AlgorithmPart, Row};

/// The way in which the parameters for a target are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selection {
    /// The parameters that the papers print, with any measured mean.
    Paper,
    /// The parameters with which the mean measured on the data set is the target.
    Equal,
}

impl Selection {
    /// Returns the selection of this name.
    pub fn named(name: &str) -> Option<Selection> {
        [Selection::Paper, Selection::Equal].into_iter().find(|each| each.name() == name)
    }

    /// Returns `true` if the definition has such parameters for `part`.
    pub(crate) fn is_of(self, part: &AlgorithmPart) -> bool {
        match self {
            Selection::Paper => part.paper.is_some() || !part.specs.is_empty(),
            Selection::Equal => part.equal.is_some(),
        }
    }

    /// Returns `paper` or `equal`.
    pub fn name(self) -> &'static str {
        match self {
            Selection::Paper => "paper",
            Selection::Equal => "equal",
        }
    }
}

/// The parameters for a target, or the reason why there are none.
#[derive(Clone, Debug, PartialEq)]
pub enum ParameterChoice {
    /// The parameters.
    Spec(Box<Spec>),
    /// The reason why the algorithm has no parameters for the target, or cannot reach the mean on
    /// the data set.
    None(String),
}

/// The minimum chunk size of BFBC\* in bytes, as in paper 002.
const BFBC_SIZE_MIN: usize = 2;

/// The maximum relative difference at which the measured mean counts as the target.
pub const EQUAL_TOLERANCE: f64 = 0.02;

/// The relative difference between mean and target at which the search ends.
const NEAR: f64 = 0.005;

/// The maximum number of times that the search cuts the data set.
const SEARCH_MAX: usize = 10;

/// Finds parameters of `part` for `target` on `set`. `goes_on` is called before every cut of the
/// data set, and ends the search by returning `false`.
pub fn choose(
    part: &AlgorithmPart,
    selection: Selection,
    target: usize,
    set: &DataSet,
    goes_on: &dyn Fn() -> bool,
) -> ParameterChoice {
    let of_target = part.specs.iter().find(|(size, _)| crate::size::size(size) == Some(target));
    let template = match selection {
        Selection::Paper => of_target.map(|(_, spec)| spec).or(part.paper.as_ref()),
        Selection::Equal => part.equal.as_ref(),
    };
    let Some(template) = template else {
        return ParameterChoice::None(format!(
            "the definition has no {} form of this algorithm",
            selection.name()
        ));
    };
    let template = template.get_ref().as_str();
    if LEARNED.contains(&template) {
        return learned(template, target, set);
    }
    match selection {
        Selection::Paper => match spec(template, target) {
            Ok(spec) => ParameterChoice::Spec(spec.into()),
            Err(message) => ParameterChoice::None(message),
        },
        Selection::Equal => {
            let drop_last = part.drop_last;
            let searched = sized(template, target).and_then(|template| {
                let target = wanted(part, target, set)?;
                let key = SearchKey { template: template.clone(), target, drop_last };
                let search = || equal(&template, target, set, drop_last, goes_on);
                set.searched.get_or_search(key, search)
            });
            match searched {
                Ok(spec) => ParameterChoice::Spec(spec),
                Err(reason) => ParameterChoice::None(reason),
            }
        }
    }
}

/// Returns the mean that `part` has to reach on the data set: the target, or the mean of another
/// rule.
fn wanted(part: &AlgorithmPart, target: usize, set: &DataSet) -> Result<usize, String> {
    let Some(template) = &part.mean_of else { return Ok(target) };
    let other = spec(template.get_ref(), target)?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a mean is a size")]
    let mean = mean(&other, set, part.drop_last).round() as usize;
    Ok(mean)
}

/// Returns BFBC with the pairs of the data set itself, as in paper 002.
fn learned(template: &str, target: usize, set: &DataSet) -> ParameterChoice {
    let counts = count_pairs(set.streams());
    let params = if template == LEARNED[0] {
        counts.paper(target)
    } else {
        Ok(counts.for_average(target, BFBC_SIZE_MIN))
    };
    match params.and_then(Spec::try_from) {
        Ok(spec) => ParameterChoice::Spec(spec.into()),
        Err(error) => ParameterChoice::None(error.to_string()),
    }
}

/// Counts the occurrences of each pair of bytes, from which BFBC learns.
pub(crate) fn count_pairs<'a>(streams: impl Iterator<Item = &'a [u8]>) -> PairCounts {
    let mut counts = PairCounts::new();
    for stream in streams {
        counts.add(stream);
        counts.end_stream();
    }
    counts
}

/// Returns `true` if the parameters are learned from the data set.
pub(crate) fn is_learned(part: &AlgorithmPart) -> bool {
    part.paper.as_ref().is_some_and(|template| LEARNED.contains(&template.get_ref().as_str()))
}

/// Enters the answer of an earlier search on `set`, which `rows` of a cut with an equal mean have.
pub(crate) fn remember(part: &AlgorithmPart, target: usize, set: &DataSet, rows: &[&Row]) {
    let (Some(template), None) = (&part.equal, &part.mean_of) else { return };
    let Ok(template) = sized(template.get_ref(), target) else { return };
    let found = rows.iter().find_map(|row| row.spec.parse::<Spec>().ok());
    let reason = || rows.iter().find(|row| row.metric == ABSENT).map(|row| row.note.clone());
    let answer = match (found, reason()) {
        (Some(spec), _) => Ok(spec.into()),
        (None, Some(reason)) => Err(reason),
        (None, None) => return,
    };
    set.searched.put(SearchKey { template, target, drop_last: part.drop_last }, answer);
}

/// Searches the requested mean with which the measured mean is the target.
///
/// The measured mean mostly grows in proportion to the requested mean. Otherwise bisection between
/// the nearest values below and above finds the requested mean.
fn equal(
    template: &str,
    target: usize,
    set: &DataSet,
    drop_last: bool,
    goes_on: &dyn Fn() -> bool,
) -> Result<Box<Spec>, String> {
    let wanted = target as f64;
    let (mut below, mut above): (Option<f64>, Option<f64>) = (None, None);
    let mut best: Option<(f64, Spec)> = None;
    let mut asked = wanted;
    let mut refused = String::new();
    for _ in 0..SEARCH_MAX {
        if !goes_on() {
            break;
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it is near a size"
        )]
        let parsed = spec(template, asked.round() as usize);
        let spec = match parsed {
            Ok(spec) => spec,
            Err(message) => {
                refused = message;
                break;
            }
        };
        let measured = mean(&spec, set, drop_last);
        let off = measured / wanted - 1.0;
        if best.as_ref().is_none_or(|(best, _)| off.abs() < best.abs()) {
            best = Some((off, spec));
        }
        if off.abs() < NEAR {
            break;
        }
        if off > 0.0 {
            above = Some(asked)
        } else {
            below = Some(asked)
        }
        let next = match (below, above) {
            (Some(below), Some(above)) if above - below < 1.5 => break,
            (Some(below), Some(above)) => {
                let proportional = asked / (1.0 + off);
                if proportional > below && proportional < above {
                    proportional
                } else {
                    (below + above) / 2.0
                }
            }
            _ => asked / (1.0 + off),
        };
        if next.round() == asked.round() || !(32.0..1e8).contains(&next) {
            break;
        }
        asked = next;
    }
    match best {
        Some((off, spec)) if off.abs() <= EQUAL_TOLERANCE => Ok(spec.into()),
        Some((off, _)) => Err(format!(
            "the nearest reachable mean is {:.1} % off the target{}{refused}",
            off * 100.0,
            if refused.is_empty() { "" } else { "; then: " }
        )),
        None => Err(refused),
    }
}

/// Returns the mean chunk size on a data set in bytes.
pub fn mean(spec: &Spec, set: &DataSet, drop_last: bool) -> f64 {
    let chunker = spec.chunker();
    let (mut count, mut bytes) = (0_u64, 0_u64);
    for stream in set.streams() {
        let mut last = 0;
        for end in cuts(&*chunker, stream) {
            if !(drop_last && end == stream.len()) {
                count += 1;
                bytes += (end - last) as u64;
            }
            last = end;
        }
    }
    if count == 0 { f64::NAN } else { bytes as f64 / count as f64 }
}
