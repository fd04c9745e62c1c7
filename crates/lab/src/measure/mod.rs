//! The kinds of measurement, a file for each.

pub(crate) mod burst;
pub(crate) mod cut;
mod low_entropy;
mod pipeline;
mod shift;
mod throughput;

pub use low_entropy::Found;
pub use pipeline::Hash;
pub use shift::{Case, Places};

use serde::Deserialize;

use crate::algorithm::Selection;
use crate::data::DataSet;
use crate::{AlgorithmPart, LabError, Levels, MeasurePart, Row};

/// A kind of measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Sizes of chunks, and what deduplication saves.
    Cut,
    /// How fast chunking is, in memory.
    Throughput,
    /// How fast fingerprints of chunks are.
    Fingerprint,
    /// Chunking, fingerprinting, indexing and writing to nowhere, a thread each.
    Pipeline,
    /// How much of the input is in chunks of one repeated byte, or of a short pattern.
    LowEntropy,
    /// How many chunks an edit changes.
    Shift,
    /// BURST: ratios and tables, by variant.
    Burst,
    /// BURST: the ratio after each version.
    Growth,
    /// BURST: the shortest burst to any other chunk.
    Bursts,
}

impl Kind {
    /// Returns the name in definitions and rows.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Cut => "cut",
            Kind::Throughput => "throughput",
            Kind::Fingerprint => "fingerprint",
            Kind::Pipeline => "pipeline",
            Kind::LowEntropy => "low-entropy",
            Kind::Shift => "shift",
            Kind::Burst => "burst",
            Kind::Growth => "growth",
            Kind::Bursts => "bursts",
        }
    }

    pub(crate) fn needs_algorithms(self) -> bool {
        !matches!(self, Kind::Fingerprint | Kind::Burst | Kind::Growth | Kind::Bursts)
    }

    /// Whether machine and repeats have a say in the rows that matter.
    pub(crate) fn is_timed(self) -> bool {
        matches!(self, Kind::Throughput | Kind::Fingerprint | Kind::Pipeline)
    }

    /// Whether all algorithms of a measure are one cell, since they take turns.
    pub(crate) fn is_race(self) -> bool {
        matches!(self, Kind::Throughput | Kind::Pipeline)
    }
}

/// What a measurement is given.
pub(crate) struct Task<'a> {
    pub(crate) kind: Kind,
    pub(crate) set: &'a DataSet,
    /// One algorithm, or all that take turns; none for BURST and fingerprints.
    pub(crate) algorithms: Vec<&'a AlgorithmPart>,
    pub(crate) selection: Selection,
    pub(crate) target: usize,
    pub(crate) levels: Levels,
    pub(crate) papers: bool,
    pub(crate) hashes: Vec<Hash>,
    /// At most so many bytes of the data set, where one buffer is measured.
    pub(crate) size_max: usize,
    pub(crate) edit_count: usize,
    pub(crate) repeat_count: usize,
}

impl<'a> Task<'a> {
    pub(crate) fn new(
        part: &MeasurePart,
        set: &'a DataSet,
        algorithms: Vec<&'a AlgorithmPart>,
        selection: Selection,
        target: usize,
        repeat_count: usize,
    ) -> Task<'a> {
        Task {
            kind: *part.kind.get_ref(),
            set,
            algorithms,
            selection,
            target,
            levels: part.levels,
            papers: part.papers,
            hashes: part
                .fingerprints
                .iter()
                .filter_map(|name| Hash::named(name.get_ref()))
                .collect(),
            size_max: part
                .size
                .as_ref()
                .and_then(|text| crate::definition::size(text.get_ref()))
                .unwrap_or(usize::MAX),
            edit_count: part.edits.unwrap_or(100) as usize,
            repeat_count,
        }
    }

    /// Does it. `goes_on` is asked often, and ends it by answering no.
    ///
    /// # Errors
    ///
    /// [`LabError::Interrupted`] where it was ended, and where memory is refused.
    pub(crate) fn rows(&self, goes_on: &dyn Fn() -> bool) -> Result<Vec<Row>, LabError> {
        match self.kind {
            Kind::Cut => cut::rows(self, goes_on),
            Kind::Throughput => throughput::rows(self, goes_on),
            Kind::Fingerprint => throughput::fingerprint_rows(self, goes_on),
            Kind::Pipeline => pipeline::rows(self, goes_on),
            Kind::LowEntropy => low_entropy::rows(self, goes_on),
            Kind::Shift => shift::rows(self, goes_on),
            Kind::Burst => burst::ratio_rows(self, goes_on),
            Kind::Growth => burst::growth_rows(self, goes_on),
            Kind::Bursts => burst::burst_rows(self, goes_on),
        }
    }
}

/// A row that says why there is no figure.
pub(crate) fn absent(algorithm: &AlgorithmPart, reason: String) -> Row {
    let algorithm = algorithm.name.get_ref().clone();
    Row { algorithm, ..Row::new("absent", 1.0, "").note(reason) }
}

/// An error unless it goes on.
pub(crate) fn ask(goes_on: &dyn Fn() -> bool) -> Result<(), LabError> {
    if goes_on() { Ok(()) } else { Err(LabError::Interrupted) }
}
