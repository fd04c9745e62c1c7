//! What is to be measured: a file in TOML.

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

/// Text, and where in the file it stands.
pub type Text = Spanned<String>;

/// Data sets, algorithms, and which measurements of them are wanted. `docs/lab.md` has every key.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Definition {
    /// A short name.
    pub name: String,
    /// What is asked: the report begins with it.
    pub question: String,
    /// How many repeats of everything that is timed count, after one to get warm.
    #[serde(default = "default_repeats")]
    pub repeats: Spanned<u32>,
    /// What is cut.
    #[serde(rename = "dataset")]
    pub data: Vec<DataPart>,
    /// By what.
    #[serde(rename = "algorithm", default)]
    pub algorithms: Vec<AlgorithmPart>,
    /// What is measured.
    #[serde(rename = "measure")]
    pub measures: Vec<MeasurePart>,
    /// The file as it was.
    #[serde(skip)]
    text: String,
}

fn default_repeats() -> Spanned<u32> {
    Spanned::new(0..0, 10)
}

/// A data set: files, or data that is made.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataPart {
    /// Its name in all rows.
    pub name: Text,
    /// What it is, in a sentence.
    #[serde(default)]
    pub about: String,
    /// A file or folder below the folder of data sets; its folders `v01`, `v02` and so on are versions.
    pub path: Option<Text>,
    /// What is made: `random`, `text`, `zeros`, `backup-artificial`, `low-entropy`.
    pub made: Option<Text>,
    /// What a random generator begins with.
    #[serde(default = "one")]
    pub seed: u64,
    /// At most so many versions, from the first on.
    pub versions: Option<Spanned<u32>>,
    /// At most so many bytes of each version, such as `64M`; of data that is made, all of them.
    pub size: Option<Text>,
    /// Whether it is left out, and named, where it is not there.
    #[serde(default)]
    pub optional: bool,
    /// Whether the files of a version are joined into one stream, sorted by name, before they are cut.
    #[serde(default)]
    pub join: bool,
}

fn one() -> u64 {
    1
}

/// An algorithm, with a way from a target to its parameters.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AlgorithmPart {
    /// Its name in all rows.
    pub name: Text,
    /// What it is, in a sentence.
    #[serde(default)]
    pub about: String,
    /// The spec that the papers set for a target, with `{target}` for its bytes, and `{target*2}` or
    /// `{target/8}` for a multiple or a part: `seqcdc:paper={target}`. `bfbc` and `bfbc*` learn from the
    /// data.
    pub paper: Option<Text>,
    /// Specs for single targets, by their size, where the papers set another one than the template says.
    #[serde(default)]
    pub specs: BTreeMap<String, Text>,
    /// The spec with a mean of `{target}`: what the search for an equal mean changes.
    pub equal: Option<Text>,
    /// Whether the last chunk of each stream is left out of the figures about sizes, as in paper 002.
    #[serde(default)]
    pub drop_last: bool,
}

/// A measurement over some data sets, algorithms and targets.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeasurePart {
    /// Which kind: `cut`, `throughput`, `fingerprint`, `pipeline`, `low-entropy`, `shift`, `burst`,
    /// `growth`, `bursts`.
    pub kind: Spanned<Kind>,
    /// Names of data sets.
    pub datasets: Vec<Text>,
    /// Names of algorithms.
    #[serde(default)]
    pub algorithms: Vec<Text>,
    /// Target sizes; for kinds about BURST the sizes of blocks; for fingerprints those of chunks.
    #[serde(default)]
    pub targets: Vec<Text>,
    /// `paper`, `equal`, or both.
    #[serde(default = "both")]
    pub selections: Vec<Text>,
    /// On which levels of instructions.
    #[serde(default)]
    pub levels: Levels,
    /// Whether the papers' own vectorized forms are measured as well.
    #[serde(default)]
    pub papers: bool,
    /// Names of fingerprints, for `pipeline`: `blake3`, `sha256`, `sha1`.
    #[serde(default = "blake3")]
    pub fingerprints: Vec<Text>,
    /// At most so many bytes of a data set are measured.
    pub size: Option<Text>,
    /// How many edits of each kind are made, for `shift`.
    pub edits: Option<u32>,
}

fn both() -> Vec<Text> {
    ["paper", "equal"].map(|name| Spanned::new(0..0, name.to_owned())).to_vec()
}

fn blake3() -> Vec<Text> {
    vec![Spanned::new(0..0, "blake3".to_owned())]
}

/// Which levels of instructions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Levels {
    /// The best of this CPU.
    #[default]
    Best,
    /// All of this CPU that the algorithm has code for, and the rule as its paper states it.
    All,
}

impl Definition {
    /// Reads and checks the file at `path`.
    ///
    /// # Errors
    ///
    /// [`LabError::File`] where it cannot be read, [`LabError::Definition`] where it says something that
    /// cannot be, with the line.
    pub fn read(path: &Path) -> Result<Definition, LabError> {
        let text = fs::read_to_string(path).map_err(LabError::of(path))?;
        Definition::parse(&text, &path.display().to_string())
    }

    /// Parses and checks `text`; `path` is what errors call it.
    ///
    /// # Errors
    ///
    /// [`LabError::Definition`], with the line.
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

    fn check(&self, at: &dyn Fn(Range<usize>, String) -> LabError) -> Result<(), LabError> {
        let fail = |text: &Text, message: String| Err(at(text.span(), message));
        if *self.repeats.get_ref() == 0 {
            return Err(at(
                self.repeats.span(),
                "repeats: 0 measures nothing: give 1 or more".to_owned(),
            ));
        }
        if self.data.is_empty() || self.measures.is_empty() {
            return Err(at(
                0..0,
                "nothing to measure: give at least one [[dataset]] and one [[measure]]".to_owned(),
            ));
        }
        let mut names = HashSet::new();
        for part in &self.data {
            if !names.insert(part.name.get_ref()) {
                return fail(
                    &part.name,
                    format!("there are two data sets {:?}: rename one", part.name.get_ref()),
                );
            }
            match (&part.path, &part.made) {
                (Some(_), None) => {}
                (None, Some(made)) => {
                    if Made::named(made.get_ref()).is_none() {
                        let names = Made::NAMES.join(", ");
                        return fail(
                            made,
                            format!("made: {:?} is not known: take one of {names}", made.get_ref()),
                        );
                    }
                    if part.size.is_none() {
                        return fail(
                            made,
                            "made: how much? Give a size, such as size = \"16M\"".to_owned(),
                        );
                    }
                }
                _ => {
                    return fail(
                        &part.name,
                        format!("data set {:?}: give either path or made", part.name.get_ref()),
                    );
                }
            }
            if part.versions.as_ref().is_some_and(|count| *count.get_ref() == 0) {
                return fail(&part.name, "versions: 0 leaves nothing: give 1 or more".to_owned());
            }
            part.size.as_ref().map_or(Ok(()), |size| checked_size(size, at))?;
        }
        let mut names = HashSet::new();
        for part in &self.algorithms {
            if !names.insert(part.name.get_ref()) {
                return fail(
                    &part.name,
                    format!("there are two algorithms {:?}: rename one", part.name.get_ref()),
                );
            }
            if part.paper.is_none() && part.equal.is_none() && part.specs.is_empty() {
                return fail(
                    &part.name,
                    format!("algorithm {:?}: give paper, equal or both", part.name.get_ref()),
                );
            }
            // What needs a target is tried with one that every algorithm has, where it has any.
            for (target, spec) in &part.specs {
                if size(target).is_none() {
                    return fail(
                        spec,
                        format!("specs: {target:?} is no target size, such as \"8k\""),
                    );
                }
            }
            for template in
                [&part.paper, &part.equal].into_iter().flatten().chain(part.specs.values())
            {
                check_template(template.get_ref()).or_else(|message| fail(template, message))?;
            }
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
            return Err(at(part.kind.span(), "datasets: name at least one".to_owned()));
        }
        for name in &part.datasets {
            if !self.data.iter().any(|each| each.name.get_ref() == name.get_ref()) {
                return fail(
                    name,
                    format!(
                        "there is no data set {:?}: name one of {}",
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
                        "there is no algorithm {:?}: name one of {}",
                        name.get_ref(),
                        listed(self.algorithms.iter().map(|each| &each.name))
                    ),
                );
            }
        }
        if kind.needs_algorithms() && (part.algorithms.is_empty() || part.targets.is_empty()) {
            return Err(at(
                part.kind.span(),
                format!("kind {:?} needs algorithms and targets", kind.name()),
            ));
        }
        if !kind.needs_algorithms() && part.targets.is_empty() {
            return Err(at(
                part.kind.span(),
                format!("kind {:?} needs targets: the sizes of chunks", kind.name()),
            ));
        }
        for size in part.targets.iter().chain(&part.size) {
            checked_size(size, at)?;
        }
        for name in &part.selections {
            if !["paper", "equal"].contains(&name.get_ref().as_str()) {
                return fail(
                    name,
                    format!(
                        "selections: {:?} is not known: take paper, equal or both",
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
                        "fingerprints: {:?} is not known: take blake3, sha256 or sha1",
                        name.get_ref()
                    ),
                );
            }
        }
        Ok(())
    }
}

/// What helps, where the parser only says what is wrong.
fn remedy(message: &str) -> &'static str {
    if message.starts_with("unknown field") {
        ": remove it, or take one of those"
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
            "{:?} is no size: give a number of bytes, or of k, M or G, such as \"64M\"",
            text.get_ref()
        ),
    ))
}
