//! The output of `--json`: one event per line, defined by `schema/json-lines-v1.schema.json`.

use std::path::PathBuf;

use cutpoint_chunking::About;
use cutpoint_lab::trace::TraceSavings;
use cutpoint_terminal::scan::{Figures, ScanTotals};
use serde::Serialize;

/// An event.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum Event<'a> {
    /// The result of a command, the last line of a run that did not fail.
    Summary(Summary<'a>),
    /// A chunking algorithm.
    Algorithm(Algorithm),
    /// A measured speed.
    Speed(Speed<'a>),
    /// The cost of an instruction.
    Instruction(InstructionCost<'a>),
    /// The savings computed from chunk traces.
    Trace(Trace),
    /// The result of a specification on a sample.
    Tuned(Box<TuneRow>),
}

/// The result of a command.
#[derive(Serialize)]
#[serde(tag = "command", rename_all = "snake_case")]
pub(crate) enum Summary<'a> {
    /// Speeds were measured.
    Bench {
        processor: &'a str,
        levels: &'a [&'static str],
        data: &'a str,
        size_bytes: u64,
        large_page_bytes: Option<u64>,
        plain_read: &'a str,
        round_count: u64,
        elapsed_ns: u64,
    },
    /// Chunks were written to a trace.
    Trace {
        #[serde(flatten)]
        counts: ScanTotals,
        algorithm: String,
        row_count: u64,
        elapsed_ns: u64,
    },
    /// Shards of a trace were joined.
    TraceJoin {
        traces: Vec<String>,
        algorithm: String,
        row_count: u64,
        broken_seam_count: u64,
        broken_file_count: u64,
        dropped_row_count: u64,
        new_row_count: u64,
        new_bytes: u64,
        elapsed_ns: u64,
    },
    /// Parameters were searched for.
    Tune {
        target_size: u64,
        sample_bytes: u64,
        file_count: u64,
        random_bytes: u64,
        simulated_count: u64,
        candidate_count: u64,
        unreached_algorithms: &'a [String],
        partial: bool,
        elapsed_ns: u64,
    },
    /// The cells of a definition were measured.
    Run {
        results: &'a str,
        cell_count: u64,
        row_count: u64,
        new_row_count: u64,
        left_out: &'a [String],
        elapsed_ns: u64,
    },
    /// A page of results was written.
    Report {
        html: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        markdown: Option<&'a str>,
        row_count: u64,
        reproduced_count: u64,
        same_shape_count: u64,
        tied_count: u64,
        contradicted_count: u64,
        contradicted_by_paper_count: u64,
        not_counted_count: u64,
        not_testable_count: u64,
    },
}

/// A measured speed. The schema describes the fields.
#[derive(Serialize)]
pub(crate) struct Speed<'a> {
    pub(crate) work: &'a str,
    pub(crate) spec: &'a str,
    pub(crate) kind: &'a str,
    pub(crate) name: &'a str,
    pub(crate) bytes_per_second: f64,
    pub(crate) lower_quartile_bytes_per_second: f64,
    pub(crate) upper_quartile_bytes_per_second: f64,
    pub(crate) round_count: u64,
    pub(crate) read_bytes_per_second: f64,
    pub(crate) read_ratio: f64,
    pub(crate) scalar_ratio: Option<f64>,
    pub(crate) agrees: bool,
    pub(crate) chunk_count: u64,
    pub(crate) chunk_size_mean: f64,
    pub(crate) chunk_size_deviation: f64,
}

/// The cost of an instruction.
#[derive(Serialize)]
pub(crate) struct InstructionCost<'a> {
    pub(crate) name: &'a str,
    pub(crate) latency_ns: f64,
    pub(crate) throughput_ns: f64,
    pub(crate) round_count: u64,
}

/// The description of an algorithm. The fields are those of `About` in the chunking crate.
#[derive(Serialize)]
pub(crate) struct Algorithm {
    name: &'static str,
    title: &'static str,
    rule: &'static str,
    source: &'static str,
    differences: &'static str,
    good_at: &'static str,
    bad_at: &'static str,
    key: &'static str,
    parameters: Vec<Parameter>,
    short_forms: Vec<ShortForm>,
    dialects: Vec<Dialect>,
}

#[derive(Serialize)]
struct Parameter {
    key: &'static str,
    meaning: &'static str,
    unit: &'static str,
    allowed: &'static str,
    default: Option<&'static str>,
}

#[derive(Serialize)]
struct ShortForm {
    key: &'static str,
    beside: &'static [&'static str],
    allowed: &'static str,
    meaning: &'static str,
}

#[derive(Serialize)]
struct Dialect {
    keys: &'static str,
    meaning: &'static str,
}

impl From<&About> for Algorithm {
    fn from(about: &About) -> Algorithm {
        let parameters = about.parameters.iter().map(|each| Parameter {
            key: each.key,
            meaning: each.meaning,
            unit: each.unit,
            allowed: each.allowed,
            default: each.default,
        });
        let short_forms = about.short_forms.iter().map(|each| ShortForm {
            key: each.key,
            beside: each.beside,
            allowed: each.allowed,
            meaning: each.meaning,
        });
        let dialects =
            about.dialects.iter().map(|each| Dialect { keys: each.keys, meaning: each.meaning });
        Algorithm {
            name: about.name,
            title: about.title,
            rule: about.rule,
            source: about.source,
            differences: about.differences,
            good_at: about.good_at,
            bad_at: about.bad_at,
            key: about.key.name(),
            parameters: parameters.collect(),
            short_forms: short_forms.collect(),
            dialects: dialects.collect(),
        }
    }
}

/// Returns the names of trace files.
pub(crate) fn names(traces: &[PathBuf]) -> Vec<String> {
    traces.iter().map(|path| path.to_string_lossy().into_owned()).collect()
}

/// The savings computed from all traces together.
#[derive(Serialize)]
pub(crate) struct Trace {
    traces: Vec<String>,
    file_count: u64,
    read_bytes: u64,
    zero_bytes: u64,
    chunk_count: u64,
    unique_chunk_count: u64,
    chunk_size_mean: Option<f64>,
    unique_bytes: u64,
    #[serde(flatten)]
    figures: Figures,
    broken_seam_count: u64,
}

impl Trace {
    /// Creates the event of these files.
    pub(crate) fn of(traces: &[PathBuf], found: &TraceSavings) -> Trace {
        let savings = found.savings();
        Trace {
            traces: names(traces),
            file_count: found.file_count(),
            read_bytes: savings.read_bytes,
            zero_bytes: found.zero_bytes(),
            chunk_count: savings.chunk_count,
            unique_chunk_count: savings.unique_chunk_count,
            chunk_size_mean: savings.chunk_size_mean(),
            unique_bytes: savings.stored_bytes,
            figures: Figures::of(&savings),
            broken_seam_count: found.broken_seam_count(),
        }
    }
}

/// The result of a specification on a sample.
#[derive(Serialize)]
pub(crate) struct TuneRow {
    spec: String,
    origin: &'static str,
    random_chunk_size_mean: Option<f64>,
    chunk_count: u64,
    unique_chunk_count: u64,
    chunk_size_mean: Option<f64>,
    unique_bytes: u64,
    #[serde(flatten)]
    figures: Figures,
    metadata_bytes: u64,
    net_space_savings: Option<f64>,
    bytes_per_second: Option<f64>,
    is_best: bool,
    is_best_of_algorithm: bool,
}

impl TuneRow {
    /// Creates the event of a specification.
    pub(crate) fn of(tuned: &cutpoint_lab::tune::TuneResult) -> TuneRow {
        let savings = &tuned.savings;
        TuneRow {
            spec: tuned.spec.to_string(),
            origin: tuned.origin.name(),
            random_chunk_size_mean: tuned.random_mean,
            chunk_count: savings.chunk_count,
            unique_chunk_count: savings.unique_chunk_count,
            chunk_size_mean: savings.chunk_size_mean(),
            unique_bytes: savings.stored_bytes,
            figures: Figures::of(savings),
            metadata_bytes: tuned.metadata_bytes,
            net_space_savings: tuned.net.space_savings(),
            bytes_per_second: (tuned.bytes_per_second > 0.0).then_some(tuned.bytes_per_second),
            is_best: tuned.is_best,
            is_best_of_algorithm: tuned.is_best_of_algorithm,
        }
    }
}
