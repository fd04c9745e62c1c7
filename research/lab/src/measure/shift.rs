//! The cost of an edit: the chunks that did not exist before, and their bytes.
//!
//! For SeqCDC the edits are made in five kinds of places, by the action of the rule there
//! (Udayashankar et al., "SeqCDC", section 4). For other rules they are made anywhere.

use std::collections::HashSet;

use cutpoint_chunking::{Chunker, Spec, cuts};
use cutpoint_fingerprint::{Blake3, Digest};
use cutpoint_testing::SplitMix64;

use super::{Task, absent, ask};
use crate::algorithm::{ParameterChoice, choose};
use crate::{LabError, Row};

/// The length of the edited stream in targets.
const TARGETS: usize = 192;
/// The sizes of an edit in bytes.
const EDIT_SIZES: [usize; 2] = [1, 16];
/// The seed of the generator that chooses the places.
const SEED: u64 = 41;

/// The action of SeqCDC at a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Case {
    /// The byte is before the minimum size, and was not read.
    Minimum,
    /// The byte was skipped because of the content before it.
    Skipped,
    /// The byte is in the run that ended the chunk.
    Sequence,
    /// The byte was read, and decided nothing.
    Between,
    /// The byte was read in a chunk that ended at the maximum size.
    Forced,
}

impl Case {
    /// All cases, in the order of the paper.
    pub const ALL: [Case; 5] =
        [Case::Minimum, Case::Skipped, Case::Sequence, Case::Between, Case::Forced];

    /// Returns the name of the case in rows.
    pub fn name(self) -> &'static str {
        match self {
            Case::Minimum => "minimum",
            Case::Skipped => "skipped",
            Case::Sequence => "sequence",
            Case::Between => "between",
            Case::Forced => "forced",
        }
    }
}

/// The released rule of SeqCDC, implemented again to classify each byte.
#[derive(Clone, Copy, Debug)]
pub struct Places {
    is_increasing: bool,
    equal_breaks: bool,
    length: usize,
    trigger: usize,
    skip: usize,
    min: usize,
    max: usize,
}

impl Places {
    /// Reads the parameters of `spec`. Returns `None` unless it is SeqCDC by the released rule, with
    /// the skips of the released code.
    pub fn new(spec: &Spec) -> Option<Places> {
        let text = spec.to_string();
        let list = text.strip_prefix("seqcdc:")?;
        let given = |key: &str| {
            list.split(',')
                .filter_map(|item| item.split_once('='))
                .find(|(each, _)| *each == key)
                .map(|(_, value)| value)
        };
        let number = |key: &str| given(key)?.parse().ok();
        if ["rule", "reach", "skipped", "opposing"].into_iter().any(|key| given(key).is_some()) {
            return None;
        }
        Some(Places {
            is_increasing: given("mode") == Some("inc"),
            equal_breaks: given("equal") == Some("break"),
            length: number("length")?,
            trigger: number("trigger")?,
            skip: number("skip")?,
            min: number("min")?,
            max: number("max")?,
        })
    }

    /// Cuts the first chunk of `data`, and returns the case of each of its bytes.
    pub fn first_chunk(&self, data: &[u8]) -> Vec<Case> {
        let n = data.len().min(self.max);
        if data.len() < self.min {
            return vec![Case::Minimum; data.len()];
        }
        let mut cases = vec![Case::Skipped; n];
        // The pair at `min` includes the byte before it.
        cases[..self.min - 1].fill(Case::Minimum);
        let (mut i, mut run, mut opposing) = (self.min, 0, 0);
        // The start of the run, which may include equal pairs.
        let mut run_start = i - 1;
        while i < n {
            let (a, b) = (data[i - 1], data[i]);
            cases[i - 1] = Case::Between;
            cases[i] = Case::Between;
            if a == b {
                if self.equal_breaks {
                    run = 0;
                }
                i += 1;
                continue;
            }
            if (b > a) == self.is_increasing {
                if run == 0 {
                    run_start = i - 1;
                }
                run += 1;
                if run == self.length {
                    // The last byte of the run begins the next chunk.
                    cases.truncate(i);
                    cases[run_start..].fill(Case::Sequence);
                    return cases;
                }
                i += 1;
            } else {
                run = 0;
                opposing += 1;
                i += 1;
                if opposing == self.trigger {
                    opposing = 0;
                    i += self.skip;
                }
            }
        }
        if n == self.max && data.len() >= self.max {
            cases
                .iter_mut()
                .filter(|case| **case == Case::Between)
                .for_each(|case| *case = Case::Forced);
        }
        cases
    }
}

pub(super) fn rows(task: &Task<'_>, goes_on: &dyn Fn() -> bool) -> Result<Vec<Row>, LabError> {
    let size = (task.target * TARGETS).min(task.size_max);
    let data = task.set.joined(size);
    let mut rows = Vec::new();
    for part in &task.algorithms {
        let spec = match choose(part, task.selection, task.target, task.set, goes_on) {
            ParameterChoice::Spec(spec) => spec,
            ParameterChoice::None(reason) => {
                rows.push(absent(part, reason));
                continue;
            }
        };
        let found = edit_rows(&spec, &data, task.edit_count, goes_on)?;
        rows.extend(found.into_iter().map(|row| Row {
            algorithm: part.name.get_ref().clone(),
            spec: spec.to_string(),
            ..row
        }));
    }
    Ok(rows)
}

/// Returns the places of the edits of each case. No place is near the end, where the rule could not
/// resynchronize.
fn places(spec: &Spec, data: &[u8]) -> Vec<(&'static str, Vec<usize>)> {
    let end = data.len() / 2;
    let mut all = vec![("anywhere", (0..end).collect())];
    let Some(rule) = Places::new(spec) else { return all };
    let mut by_case = Case::ALL.map(|case| (case.name(), Vec::new()));
    let mut start = 0;
    while start < end {
        let cases = rule.first_chunk(&data[start..]);
        for (offset, case) in cases.iter().enumerate() {
            if let Some(place) = Case::ALL.iter().position(|each| each == case) {
                by_case[place].1.push(start + offset);
            }
        }
        start += cases.len().max(1);
    }
    all.extend(by_case);
    all
}

fn edit_rows(
    spec: &Spec,
    data: &[u8],
    count: usize,
    goes_on: &dyn Fn() -> bool,
) -> Result<Vec<Row>, LabError> {
    let chunker = spec.chunker();
    let known: HashSet<Digest> =
        chunks(&*chunker, data).into_iter().map(|(digest, _)| digest).collect();
    let mut rows = Vec::new();
    let mut numbers = SplitMix64::new(SEED);
    for (case, places) in places(spec, data) {
        if places.is_empty() {
            rows.push(
                Row::new("chunks_changed", f64::NAN, "chunks")
                    .variant(case)
                    .note("no byte of the data is in that case"),
            );
            continue;
        }
        for edit in ["insertion", "deletion", "replacement"] {
            let sizes = if edit == "replacement" { &EDIT_SIZES[..1] } else { &EDIT_SIZES };
            for size in sizes {
                let (mut changed, mut sent) = (Vec::new(), Vec::new());
                for _ in 0..count {
                    ask(goes_on)?;
                    let at = places[numbers.below(places.len())];
                    let edited = edited(data, edit, at, *size, &mut numbers);
                    let new: Vec<usize> = chunks(&*chunker, &edited)
                        .into_iter()
                        .filter(|(digest, _)| !known.contains(digest))
                        .map(|(_, size)| size)
                        .collect();
                    changed.push(new.len() as f64);
                    sent.push(new.iter().sum::<usize>() as f64);
                }
                let variant = format!("{edit} of {size}, {case}");
                let mean =
                    |samples: &[f64]| samples.iter().sum::<f64>() / samples.len().max(1) as f64;
                // The mean reflects the rare edit that changes many chunks, and the median does
                // not.
                rows.push(
                    Row { value: mean(&changed), ..Row::of("chunks_changed", &changed, "chunks") }
                        .variant(&variant)
                        .note("the mean of the edits, with their quartiles"),
                );
                rows.push(
                    Row {
                        value: mean(&sent),
                        samples: String::new(),
                        ..Row::of("bytes_to_send", &sent, "bytes")
                    }
                    .variant(&variant)
                    .note("the mean of the edits, with their quartiles"),
                );
                rows.push(
                    Row::new(
                        "chunks_changed_max",
                        changed.iter().copied().fold(0.0, f64::max),
                        "chunks",
                    )
                    .variant(&variant),
                );
            }
        }
    }
    Ok(rows)
}

fn edited(data: &[u8], edit: &str, at: usize, size: usize, numbers: &mut SplitMix64) -> Vec<u8> {
    let (before, after) = data.split_at(at);
    match edit {
        "insertion" => [before, &numbers.take(size), after].concat(),
        "deletion" => [before, &after[size.min(after.len())..]].concat(),
        _ => {
            let mut edited = data.to_vec();
            edited[at] ^= numbers.byte() | 1;
            edited
        }
    }
}

fn chunks(chunker: &dyn Chunker, data: &[u8]) -> Vec<(Digest, usize)> {
    let mut start = 0;
    let chunks: Vec<&[u8]> = cuts(chunker, data)
        .map(|end| {
            let chunk = &data[start..end];
            start = end;
            chunk
        })
        .collect();
    let mut digests = Vec::new();
    Blake3::plain().digests(&chunks, &mut digests);
    digests.into_iter().zip(chunks.iter().map(|chunk| chunk.len())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_end_at_the_cut_points_of_the_chunker() {
        let data = [
            SplitMix64::bytes(7, 400_000),
            vec![9; 30_000],
            cutpoint_testing::input::text(200_000),
        ]
        .concat();
        for text in [
            "seqcdc:paper=4k",
            "seqcdc:paper=8k,mode=dec",
            "seqcdc:paper=8k,equal=break",
            "seqcdc:mode=inc,length=5,trigger=65535,skip=0,min=1,max=9000",
        ] {
            let spec: Spec = text.parse().expect("a spec");
            let places = Places::new(&spec).expect("SeqCDC");
            let mut start = 0;
            let mut ends = Vec::new();
            let mut met = HashSet::new();
            while start < data.len() {
                let cases = places.first_chunk(&data[start..]);
                start += cases.len();
                ends.push(start);
                met.extend(cases);
            }
            let expected: Vec<usize> = cuts(&*spec.chunker(), &data).collect();
            assert_eq!(ends, expected, "{text}");
            assert!(
                met.contains(&Case::Sequence) && met.contains(&Case::Forced),
                "{text}: {met:?}"
            );
        }
        assert!(Places::new(&"ae:avg=8k".parse().expect("a spec")).is_none(), "another rule");
    }

    #[test]
    fn edit_matches_its_name() {
        let mut numbers = SplitMix64::new(1);
        let data = b"abcdef";
        assert_eq!(edited(data, "deletion", 2, 2, &mut numbers), b"abef", "deletion");
        let inserted = edited(data, "insertion", 2, 3, &mut numbers);
        assert_eq!(
            (inserted.len(), &inserted[..2], &inserted[5..]),
            (9, &b"ab"[..], &b"cdef"[..]),
            "insertion"
        );
        let replaced = edited(data, "replacement", 0, 1, &mut numbers);
        assert!(
            replaced.len() == 6 && replaced[0] != b'a' && replaced[1..] == data[1..],
            "replacement"
        );
    }

    /// With chunks of fixed size, a replacement changes one chunk, and an insertion all chunks
    /// after it.
    #[test]
    fn changes_are_counted() {
        let spec: Spec = "fixed:size=100".parse().expect("a spec");
        let data = SplitMix64::bytes(3, 20_000);
        let rows = edit_rows(&spec, &data, 5, &|| true).expect("it goes on");
        let value = |variant: &str| {
            rows.iter()
                .find(|row| row.metric == "chunks_changed" && row.variant == variant)
                .expect("a row")
                .value
        };
        assert_eq!(value("replacement of 1, anywhere"), 1.0, "one chunk");
        assert!(value("insertion of 1, anywhere") > 100.0, "all behind it");
    }
}
