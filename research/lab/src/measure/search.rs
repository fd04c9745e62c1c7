//! A search for the parameters of SeqCDC, as its paper describes it: the combinations whose mean on
//! random data is that of table 1, of which the best on one data set is used on all.
//!
//! Source: Udayashankar et al., "SeqCDC: Hashless Content-Defined Chunking for Data Deduplication"
//! (Middleware 2024), section 5.

use cutpoint_chunking::{Spec, cuts};
use cutpoint_testing::SplitMix64;

use super::cut::count;
use super::{Task, ask};
use crate::data::DataSet;
use crate::row::ABSENT;
use crate::{LabError, Row};

/// The range of the length of a run, by the paper's section 4.
const LENGTHS: std::ops::RangeInclusive<usize> = 3..=7;
/// The trigger values, which include those of table 1.
const TRIGGER_STEP: usize = 5;
const TRIGGER_MAX: usize = 120;
/// The sizes of a skip, by the paper's section 4: between 256 and 512 bytes.
const SKIPS: [usize; 3] = [256, 384, 512];
/// The maximum distance of a mean on random data from that of table 1, as a share.
const MEAN_DISTANCE_MAX: f64 = 0.05;
/// The size of the random data in targets. A mean is known to about 1 %.
const RANDOM_TARGETS: usize = 4096;
/// The seed of the random data.
const SEED: u64 = 5;

/// Measures the savings by the parameters of table 1, by those that save most on this data set, and
/// by those that save most on the data set of the search.
pub(super) fn rows(task: &Task<'_>, goes_on: &dyn Fn() -> bool) -> Result<Vec<Row>, LabError> {
    let table = format!("seqcdc:paper={}", task.target);
    let Ok(table) = table.parse::<Spec>() else {
        let reason = "table 1 has no parameters for this target".to_owned();
        return Ok(vec![Row::new(ABSENT, 1.0, "").note(reason)]);
    };
    let candidates = candidates(&table, task.target, goes_on)?;
    let here = best(&candidates, task.set, goes_on)?;
    let mut chosen = vec![("table 1".to_owned(), table), ("best here".to_owned(), here)];
    if let Some(other) = task.tuned_on {
        chosen.push((format!("best on {}", other.name), best(&candidates, other, goes_on)?));
    }
    let mut rows = vec![Row::new("candidates", candidates.len() as f64, "combinations")];
    for (name, spec) in chosen {
        let (savings, sizes) = count(&spec, task.set, false, goes_on)?;
        let mean = sizes.iter().sum::<usize>() as f64 / sizes.len().max(1) as f64;
        let saved = 100.0 * savings.space_savings().unwrap_or(0.0);
        let found = [Row::new("space_savings", saved, "%"), Row::new("mean", mean, "bytes")];
        rows.extend(found.map(|row| Row { spec: spec.to_string(), ..row.variant(&name) }));
    }
    for row in &mut rows {
        "SeqCDC".clone_into(&mut row.algorithm);
    }
    Ok(rows)
}

/// Returns the combinations whose mean on random data is near that of `table`, with its limits of
/// sizes.
fn candidates(
    table: &Spec,
    target: usize,
    goes_on: &dyn Fn() -> bool,
) -> Result<Vec<Spec>, LabError> {
    let random = SplitMix64::bytes(SEED, RANDOM_TARGETS * target);
    let wanted = mean(table, &random);
    let text = table.to_string();
    let limits: Vec<&str> = text
        .split([':', ','])
        .filter(|part| part.starts_with("min=") || part.starts_with("max="))
        .collect();
    let limits = limits.join(",");
    let mut near = Vec::new();
    for length in LENGTHS {
        for trigger in (2 * TRIGGER_STEP..=TRIGGER_MAX).step_by(TRIGGER_STEP) {
            for skip in SKIPS {
                ask(goes_on)?;
                let text = format!(
                    "seqcdc:mode=inc,length={length},trigger={trigger},skip={skip},{limits}"
                );
                let Ok(spec) = text.parse::<Spec>() else { continue };
                if (mean(&spec, &random) / wanted - 1.0).abs() <= MEAN_DISTANCE_MAX {
                    near.push(spec);
                }
            }
        }
    }
    // The combination of table 1 is one of them, by its own mean.
    Ok(near)
}

fn mean(spec: &Spec, data: &[u8]) -> f64 {
    data.len() as f64 / cuts(&*spec.chunker(), data).count().max(1) as f64
}

/// Returns the candidate that saves most on `set`; the first of several.
fn best(candidates: &[Spec], set: &DataSet, goes_on: &dyn Fn() -> bool) -> Result<Spec, LabError> {
    let mut best: Option<(u64, &Spec)> = None;
    for spec in candidates {
        let (savings, _) = count(spec, set, false, goes_on)?;
        if best.is_none_or(|(stored, _)| savings.stored_bytes < stored) {
            best = Some((savings.stored_bytes, spec));
        }
    }
    let missing = || LabError::Data {
        name: set.name.clone(),
        message: "search: no combination has the mean of table 1".to_owned(),
    };
    best.map(|(_, spec)| spec.clone()).ok_or_else(missing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn combination_of_the_table_is_a_candidate() {
        let table: Spec = "seqcdc:paper=8k".parse().expect("a spec");
        let found = candidates(&table, 8192, &|| true).expect("candidates");
        let texts: Vec<String> = found.iter().map(Spec::to_string).collect();
        assert!(texts.contains(&table.to_string()), "{table} in {texts:?}");
        assert!(found.len() > 5, "{texts:?}");
        let random = SplitMix64::bytes(99, 8 << 20);
        for spec in &found {
            let mean = mean(spec, &random);
            assert!((6500.0..7600.0).contains(&mean), "{spec}: a mean of {mean}");
        }
    }
}
