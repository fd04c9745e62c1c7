//! The kinds of measurement, one file for each.

pub(crate) mod burst;
pub(crate) mod cut;
mod low_entropy;
mod pipeline;
mod search;
mod shift;
mod throughput;

use crate::algorithm::Selection;
use crate::data::DataSet;
use crate::row::ABSENT;
use crate::{AlgorithmPart, LabError, Levels, MeasurePart, Row};

pub use low_entropy::Found;
pub use shift::{Case, Places};

pub use crate::kind::{Hash, Kind};

/// The input of a measurement.
pub(crate) struct Task<'a> {
    pub(crate) kind: Kind,
    pub(crate) set: &'a DataSet,
    /// One algorithm, or all algorithms that take turns. Empty for BURST and fingerprints.
    pub(crate) algorithms: Vec<&'a AlgorithmPart>,
    pub(crate) selection: Selection,
    pub(crate) target: usize,
    pub(crate) levels: Levels,
    pub(crate) papers: bool,
    pub(crate) hashes: Vec<Hash>,
    /// The maximum number of bytes of the data set, for kinds that measure one buffer.
    pub(crate) size_max: usize,
    /// The size of the buffer for fresh data in bytes, 0 to cut the data where it is.
    pub(crate) fresh_size: usize,
    /// The data set on which a search chooses parameters for all others.
    pub(crate) tuned_on: Option<&'a DataSet>,
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
                .and_then(|text| crate::size::size(text.get_ref()))
                .unwrap_or(usize::MAX),
            fresh_size: part
                .fresh
                .as_ref()
                .and_then(|text| crate::size::size(text.get_ref()))
                .unwrap_or(0),
            tuned_on: None,
            edit_count: part.edits.unwrap_or(100) as usize,
            repeat_count,
        }
    }

    /// Measures the task, and returns its rows. `goes_on` is called often, and ends the measurement
    /// by returning `false`.
    ///
    /// # Errors
    ///
    /// Returns [`LabError::Interrupted`] if the measurement was ended, and an error if the system
    /// refuses memory.
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
            Kind::Search => search::rows(self, goes_on),
        }
    }
}

/// Returns a row with the reason why there is no figure.
pub(crate) fn absent(algorithm: &AlgorithmPart, reason: String) -> Row {
    let algorithm = algorithm.name.get_ref().clone();
    Row { algorithm, ..Row::new(ABSENT, 1.0, "").note(reason) }
}

/// Returns [`LabError::Interrupted`] if `goes_on` returns `false`.
pub(crate) fn ask(goes_on: &dyn Fn() -> bool) -> Result<(), LabError> {
    if goes_on() { Ok(()) } else { Err(LabError::Interrupted) }
}
