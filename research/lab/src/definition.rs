//! The definition of a run, a file in TOML.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::ops::Range;
use std::path::Path;

use serde::Deserialize;
use toml::Spanned;

use crate::LabError;
use crate::kind::{Hash, Kind};
use crate::made::Made;
use crate::size::size;
use crate::template::check_template;

/// A text, with its position in the file.
pub type Text = Spanned<String>;

/// The data sets, algorithms and measurements of a run. `docs/lab.md` has every key.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Definition {
    /// A short name.
    pub name: String,
    /// The question of the run, with which the report begins.
    pub question: String,
    /// The number of repeats of everything that is timed, after a warm-up.
    #[serde(default = "default_repeats")]
    pub repeats: Spanned<u32>,
    /// The data sets.
    #[serde(rename = "dataset")]
    pub data: Vec<DataPart>,
    /// The algorithms.
    #[serde(rename = "algorithm", default)]
    pub algorithms: Vec<AlgorithmPart>,
    /// The measurements.
    #[serde(rename = "measure")]
    pub measures: Vec<MeasurePart>,
    /// The text of the file.
    #[serde(skip)]
    text: String,
}

fn default_repeats() -> Spanned<u32> {
    Spanned::new(0..0, 10)
}

/// A data set: files, or generated data.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataPart {
    /// The name of the data set in all rows.
    pub name: Text,
    /// A description in one sentence.
    #[serde(default)]
    pub about: String,
    /// The file or folder of the data set, below the folder of data sets. Its folders `v01`, `v02`
    /// and so on are versions.
    pub path: Option<Text>,
    /// The kind of generated data: `random`, `text`, `zeros`, `backup-artificial`, `low-entropy`.
    pub made: Option<Text>,
    /// The seed of the random generator.
    #[serde(default = "one")]
    pub seed: u64,
    /// The maximum number of versions, from the first on.
    pub versions: Option<Spanned<u32>>,
    /// The maximum size of each version, such as `64M`, or the size of generated data.
    pub size: Option<Text>,
    /// Set if the data set may be absent, in which case it is skipped and named.
    #[serde(default)]
    pub optional: bool,
    /// Set to join the files of a version into one stream, sorted by name, before they are cut.
    #[serde(default)]
    pub join: bool,
}

fn one() -> u64 {
    1
}

/// An algorithm, with the specs for a target.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AlgorithmPart {
    /// The name of the algorithm in all rows.
    pub name: Text,
    /// A description in one sentence.
    #[serde(default)]
    pub about: String,
    /// The spec of the papers for a target, with `{target}` for its size in bytes, and `{target*2}`
    /// or `{target/8}` for a multiple or a part: `seqcdc:paper={target}`. `bfbc` and `bfbc*` learn
    /// from the data.
    pub paper: Option<Text>,
    /// The specs of single targets, by their size, for which the papers deviate from the template.
    #[serde(default)]
    pub specs: BTreeMap<String, Text>,
    /// The spec with a mean of `{target}`, which the search for an equal mean varies. `{size}` is
    /// the size in bytes that the search does not vary.
    pub equal: Option<Text>,
    /// The spec whose mean on the data set `equal` has, in place of the target.
    pub mean_of: Option<Text>,
    /// Set to exclude the last chunk of each stream from the figures about sizes, as in paper 002.
    #[serde(default)]
    pub drop_last: bool,
    /// Set if a build may lack the algorithm, in which case its rows say so.
    #[serde(default)]
    pub optional: bool,
}

/// A measurement over some data sets, algorithms and targets.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeasurePart {
    /// The kind: `cut`, `throughput`, `fingerprint`, `pipeline`, `low-entropy`, `shift`, `burst`,
    /// `growth`, `bursts`, `search`.
    pub kind: Spanned<Kind>,
    /// The names of the data sets.
    pub datasets: Vec<Text>,
    /// The names of the algorithms.
    #[serde(default)]
    pub algorithms: Vec<Text>,
    /// The target sizes. For the kinds about BURST the sizes of blocks, and for fingerprints the
    /// sizes of chunks.
    #[serde(default)]
    pub targets: Vec<Text>,
    /// The selections of parameters: `paper`, `equal`, or both.
    #[serde(default = "both")]
    pub selections: Vec<Text>,
    /// The levels of instructions.
    #[serde(default)]
    pub levels: Levels,
    /// Set to measure the vectorized forms of the papers as well.
    #[serde(default)]
    pub papers: bool,
    /// The names of fingerprints, for `pipeline`: `blake3`, `sha256`, `sha1`.
    #[serde(default = "blake3")]
    pub fingerprints: Vec<Text>,
    /// The maximum number of bytes of a data set that are measured.
    pub size: Option<Text>,
    /// The size of the buffer into which the bytes are copied piece by piece before they are cut,
    /// such as `1M`, for `throughput`. If absent, they are cut where they are.
    pub fresh: Option<Text>,
    /// The number of edits of each kind, for `shift`.
    pub edits: Option<u32>,
    /// The data set on which parameters are chosen for all others, for `search`.
    pub tuned_on: Option<Text>,
}

fn both() -> Vec<Text> {
    ["paper", "equal"].map(|name| Spanned::new(0..0, name.to_owned())).to_vec()
}

fn blake3() -> Vec<Text> {
    vec![Spanned::new(0..0, "blake3".to_owned())]
}

/// The levels of instructions to measure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Levels {
    /// The best level of this CPU.
    #[default]
    Best,
    /// All levels of this CPU for which the algorithm has code, and the rule as its paper states
    /// it.
    All,
}

impl Definition {
    /// Reads and checks the file at `path`.
    ///
    /// # Errors
    ///
    /// Returns [`LabError::File`] if the file cannot be read, and [`LabError::Definition`] with the
    /// line if it is invalid.
    pub fn read(path: &Path) -> Result<Definition, LabError> {
        let text = fs::read_to_string(path).map_err(LabError::of(path))?;
        Definition::parse(&text, &path.display().to_string())
    }

    /// Parses and checks `text`. Errors name it by `path`.
    ///
    /// # Errors
    ///
    /// Returns [`LabError::Definition`] with the line if the text is invalid.
    pub fn parse(text: &str, path: &str) -> Result<Definition, LabError> {
        let at = |span: Range<usize>, message: String| {
            let start = text.len().min(span.start);
            let line = 1 + text.as_bytes()[..start].iter().filter(|byte| **byte == b'\n').count();
            LabError::Definition { path: path.to_owned(), line, message }
        };
        let mut definition: Definition = toml::from_str(text).map_err(|error| {
            at(
                error.span().unwrap_or(0..0),
                format!("{}{}", error.message(), remedy(error.message())),
            )
        })?;
        text.clone_into(&mut definition.text);
        definition.check(&at)?;
        Ok(definition)
    }

    /// Returns the file as it was read.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns `true` if the speed of plain code is measured.
    pub fn measures_plain_code(&self) -> bool {
        self.measures
            .iter()
            .any(|part| part.levels == Levels::All || *part.kind.get_ref() == Kind::Pipeline)
    }

    fn check(&self, at: &dyn Fn(Range<usize>, String) -> LabError) -> Result<(), LabError> {
        if *self.repeats.get_ref() == 0 {
            return Err(at(
                self.repeats.span(),
                "repeats: 0 measures nothing (expected 1 or more)".to_owned(),
            ));
        }
        if self.data.is_empty() || self.measures.is_empty() {
            return Err(at(
                0..0,
                "nothing to measure: at least one [[dataset]] and one [[measure]] are required"
                    .to_owned(),
            ));
        }
        let mut names = HashSet::new();
        for part in &self.data {
            if !names.insert(part.name.get_ref()) {
                return Err(at(
                    part.name.span(),
                    format!("duplicate data set {:?}: rename one", part.name.get_ref()),
                ));
            }
            part.check(at)?;
        }
        let mut names = HashSet::new();
        for part in &self.algorithms {
            if !names.insert(part.name.get_ref()) {
                return Err(at(
                    part.name.span(),
                    format!("duplicate algorithm {:?}: rename one", part.name.get_ref()),
                ));
            }
            part.check(at)?;
        }
        for part in &self.measures {
            self.check_measure(part, at)?;
        }
        Ok(())
    }

    fn check_measure(
        &self,
        part: &MeasurePart,
        at: &dyn Fn(Range<usize>, String) -> LabError,
    ) -> Result<(), LabError> {
        let fail = |text: &Text, message: String| Err(at(text.span(), message));
        let kind = part.kind.get_ref();
        if part.datasets.is_empty() {
            return Err(at(part.kind.span(), "datasets: at least one is required".to_owned()));
        }
        for name in part.datasets.iter().chain(&part.tuned_on) {
            if !self.data.iter().any(|each| each.name.get_ref() == name.get_ref()) {
                return fail(
                    name,
                    format!(
                        "data set {:?}: not found (expected one of {})",
                        name.get_ref(),
                        listed(self.data.iter().map(|each| &each.name))
                    ),
                );
            }
        }
        for name in &part.algorithms {
            if !self.algorithms.iter().any(|each| each.name.get_ref() == name.get_ref()) {
                return fail(
                    name,
                    format!(
                        "algorithm {:?}: not found (expected one of {})",
                        name.get_ref(),
                        listed(self.algorithms.iter().map(|each| &each.name))
                    ),
                );
            }
        }
        if kind.needs_algorithms() && (part.algorithms.is_empty() || part.targets.is_empty()) {
            return Err(at(
                part.kind.span(),
                format!("kind {:?} requires algorithms and targets", kind.name()),
            ));
        }
        if !kind.needs_algorithms() && part.targets.is_empty() {
            return Err(at(
                part.kind.span(),
                format!("kind {:?} requires targets: the sizes of chunks", kind.name()),
            ));
        }
        if *kind == Kind::Search && part.tuned_on.is_none() {
            let message = "kind \"search\" requires tuned_on: the name of a data set".to_owned();
            return Err(at(part.kind.span(), message));
        }
        for size in part.targets.iter().chain(&part.size).chain(&part.fresh) {
            checked_size(size, at)?;
        }
        for name in &part.selections {
            if !["paper", "equal"].contains(&name.get_ref().as_str()) {
                return fail(
                    name,
                    format!(
                        "selections: unknown value {:?} (expected paper, equal or both)",
                        name.get_ref()
                    ),
                );
            }
        }
        for name in &part.fingerprints {
            if Hash::named(name.get_ref()).is_none() {
                return fail(
                    name,
                    format!(
                        "fingerprints: unknown value {:?} (expected blake3, sha256 or sha1)",
                        name.get_ref()
                    ),
                );
            }
        }
        Ok(())
    }
}

impl DataPart {
    /// Checks what the format alone does not.
    fn check(&self, at: &dyn Fn(Range<usize>, String) -> LabError) -> Result<(), LabError> {
        let fail = |text: &Text, message: String| Err(at(text.span(), message));
        match (&self.path, &self.made) {
            (Some(_), None) => {}
            (None, Some(made)) => {
                if Made::named(made.get_ref()).is_none() {
                    let names = Made::NAMES.join(", ");
                    return fail(
                        made,
                        format!(
                            "made: unknown kind {:?} (expected one of {names})",
                            made.get_ref()
                        ),
                    );
                }
                if self.size.is_none() {
                    return fail(
                        made,
                        "made: size missing (expected a form such as size = \"16M\")".to_owned(),
                    );
                }
            }
            _ => {
                return fail(
                    &self.name,
                    format!("data set {:?}: either path or made is required", self.name.get_ref()),
                );
            }
        }
        if self.versions.as_ref().is_some_and(|count| *count.get_ref() == 0) {
            return fail(&self.name, "versions: 0 leaves nothing (expected 1 or more)".to_owned());
        }
        self.size.as_ref().map_or(Ok(()), |size| checked_size(size, at))
    }
}

impl AlgorithmPart {
    /// Checks what the format alone does not.
    fn check(&self, at: &dyn Fn(Range<usize>, String) -> LabError) -> Result<(), LabError> {
        let fail = |text: &Text, message: String| Err(at(text.span(), message));
        if self.paper.is_none() && self.equal.is_none() && self.specs.is_empty() {
            return fail(
                &self.name,
                format!("algorithm {:?}: paper, equal or both are required", self.name.get_ref()),
            );
        }
        // A template is tried with several targets, because an algorithm may lack parameters
        // for some.
        for (target, spec) in &self.specs {
            if size(target).is_none() {
                return fail(
                    spec,
                    format!(
                        "specs: {target:?} is not a target size (expected a form such as \
                         \"8k\")",
                    ),
                );
            }
        }
        if self.optional {
            return Ok(());
        }
        let templates = [&self.paper, &self.equal, &self.mean_of].into_iter().flatten();
        for template in templates.chain(self.specs.values()) {
            check_template(template.get_ref()).or_else(|message| fail(template, message))?;
        }
        Ok(())
    }
}

/// Returns the remedy for an error of the parser, which only names the problem.
fn remedy(message: &str) -> &'static str {
    if message.starts_with("unknown field") {
        ": remove it, or use one of those"
    } else if message.starts_with("missing field") {
        ": add it"
    } else {
        ""
    }
}

fn listed<'a>(names: impl Iterator<Item = &'a Text>) -> String {
    let names: Vec<&str> = names.map(|name| name.get_ref().as_str()).collect();
    if names.is_empty() { "none, as the file has none".to_owned() } else { names.join(", ") }
}

fn checked_size(
    text: &Text,
    at: &dyn Fn(Range<usize>, String) -> LabError,
) -> Result<(), LabError> {
    if size(text.get_ref()).is_some_and(|size| size > 0) {
        return Ok(());
    }
    Err(at(
        text.span(),
        format!(
            "{:?} is not a size (expected a number of bytes, or of k, M or G, such as \"64M\")",
            text.get_ref()
        ),
    ))
}
