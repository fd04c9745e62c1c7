//! Lists of cut-points that third-party programs made, and the spec of each list.
//!
//! A list is a file with one integer per line: the exclusive end of each chunk. The path of a list
//! gives its family, parameters and input, in one of these forms, at any depth below the folder
//! that is read:
//!
//! | place | family | parameters |
//! | --- | --- | --- |
//! | `FAMILY/PARAMETERS__INPUT.csv` | `FAMILY` | `PARAMETERS`, separated by `__` |
//! | `go/FAMILY__PARAMETERS__INPUT.csv`, `other/...` | `FAMILY` | `PARAMETERS`, if any |
//! | `INPUT/PARAMETERS.csv`, with the first line `end_offset` | `dedup-bench` | `PARAMETERS` |
//! | `edge_prefixes.csv`, a list per line | `dedup-bench` | the first column; only a prefix of the input is cut |
//!
//! Each family parses its parameters in a file of its own, for all values. Lists with unknown
//! parameters have no spec.

mod buildbarn;
mod dedup_bench;
mod desync;
mod fastcdc;
mod gearhash;
mod mincdc;
mod paper;
mod plakar;
mod restic;
mod seq_chunking;
mod xet_core;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, io, iter};

use cutpoint_testing::input;

/// A family, which returns the spec of a list.
type Family = fn(&Name, &mut Inputs) -> Option<String>;

/// The families by the prefix of their name, one line each.
const FAMILIES: &[(&str, Family)] = &[
    ("buildbarn_", buildbarn::spec),
    ("dedup-bench", dedup_bench::spec),
    ("desync_buzhash48", desync::spec),
    ("fastcdc-", fastcdc::spec),
    ("gearhash-", gearhash::spec),
    ("mincdc", mincdc::spec),
    ("paper", paper::spec),
    ("plakar_", plakar::spec),
    ("restic-chunker_", restic::spec),
    ("seq_chunking-", seq_chunking::spec),
    ("xet-core", xet_core::spec),
];

/// The names of files that are no lists.
const OTHER_FILES: [&str; 2] = ["simd_vs_native.csv", "bfbc_divisors.csv"];
/// The names of folders without lists.
const OTHER_FOLDERS: [&str; 1] = ["tables"];

/// The family, parameters and input of a list, from its path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    /// The family, with its version if it has one.
    pub family: String,
    /// The parameters, which are separated by `__` in the file name.
    pub parameters: Vec<String>,
    /// The name of the input, empty if none is given.
    pub input: String,
    /// The folder of the file, for other files next to it.
    pub folder: PathBuf,
}

/// A list of cut-points.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct List {
    /// The path of the list, relative to the folder that was read.
    pub place: String,
    /// The family, parameters and input from the path.
    pub name: Name,
    /// The number of bytes of the input that are cut, or `None` for all.
    pub prefix_size: Option<usize>,
    /// The exclusive end of each chunk, in bytes from the start of the input.
    pub ends: Vec<usize>,
}

impl List {
    /// Returns the spec of the list, or `None` if the name is unknown.
    pub fn spec(&self, inputs: &mut Inputs) -> Option<String> {
        let family = &self.name.family;
        let (_, spec) = FAMILIES.iter().find(|(begin, _)| family.starts_with(begin))?;
        inputs.get(&self.name.input)?;
        spec(&self.name, inputs)
    }

    /// Returns the expected ends of the list, given the cut-points `ends` of `data` by its spec.
    /// The expected ends are the cut-points, unless the list has segments, which are runs of equal
    /// chunks.
    pub fn ends_by(&self, data: &[u8], ends: Vec<usize>) -> Vec<usize> {
        match self.name.parameters.first().map(String::as_str) {
            Some("moth_segments") => joined(data, &ends),
            _ => ends,
        }
    }
}

/// Joins runs of equal chunks of `data`, and returns the ends of the runs.
fn joined(data: &[u8], ends: &[usize]) -> Vec<usize> {
    let starts = iter::once(0).chain(ends.iter().copied());
    let chunks: Vec<&[u8]> = starts.zip(ends).map(|(start, &end)| &data[start..end]).collect();
    let mut offset = 0;
    let runs = chunks.chunk_by(|one, next| one == next).map(<[&[u8]]>::concat);
    runs.map(|run| {
        offset += run.len();
        offset
    })
    .collect()
}

/// The inputs by name, each of which is made once.
#[derive(Debug, Default)]
pub struct Inputs(BTreeMap<String, Option<Vec<u8>>>);

impl Inputs {
    /// Returns the input, or `None` if there is no recipe for it.
    pub fn get(&mut self, name: &str) -> Option<&[u8]> {
        self.0.entry(name.to_owned()).or_insert_with(|| input::by_name(name)).as_deref()
    }
}

/// Reads all lists below `folder`, in the order of their paths.
///
/// # Errors
///
/// Returns any error of reading, and [`io::ErrorKind::InvalidData`] with the file for a line that
/// is no integer.
pub fn lists(folder: &Path) -> io::Result<Vec<List>> {
    // The path is canonical, so that the name of the folder itself may be that of a family.
    let root = fs::canonicalize(folder)?;
    let mut lists = Vec::new();
    for path in files(&root)? {
        let text = fs::read_to_string(&path)?;
        let place = path.strip_prefix(&root).unwrap_or(&path).display().to_string();
        let invalid = |line: &str| {
            io::Error::new(io::ErrorKind::InvalidData, format!("{}: {line:?}", path.display()))
        };
        let numbers = |line: &str| -> io::Result<Vec<usize>> {
            let words = line.split_whitespace();
            words.map(|word| word.parse().map_err(|_| invalid(line))).collect()
        };
        let parent = path.parent().unwrap_or(Path::new(""));
        let file_name = |path: &Path| -> String {
            path.file_name().unwrap_or_default().to_string_lossy().into_owned()
        };
        let folder = file_name(parent);
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let of_dedup_bench = |parameters: &str, input: &str| Name {
            family: "dedup-bench".to_owned(),
            parameters: vec![parameters.to_owned()],
            input: input.to_owned(),
            folder: parent.to_owned(),
        };
        if stem == "edge_prefixes" {
            for line in text.lines().skip(1) {
                let columns: Vec<&str> = line.split(',').collect();
                let [parameters, input, prefix_size, ends] = columns[..] else {
                    return Err(invalid(line));
                };
                lists.push(List {
                    place: format!("{place}: {parameters},{input},{prefix_size}"),
                    name: of_dedup_bench(parameters, input),
                    prefix_size: Some(prefix_size.parse().map_err(|_| invalid(line))?),
                    ends: numbers(ends)?,
                });
            }
            continue;
        }
        let (name, text) = if let Some(text) = text.strip_prefix("end_offset\n") {
            (of_dedup_bench(&stem, &folder), text)
        } else {
            let mut words: Vec<String> = stem.split("__").map(str::to_owned).collect();
            let family = match folder.as_str() {
                "go" | "other" => words.remove(0),
                _ => folder,
            };
            let input = words.pop().unwrap_or_default();
            let name = Name { family, parameters: words, input, folder: parent.to_owned() };
            (name, text.as_str())
        };
        lists.push(List { place, name, prefix_size: None, ends: numbers(text)? });
    }
    Ok(lists)
}

/// Returns all files below `folder` that are lists, sorted.
fn files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut entries: Vec<PathBuf> =
        fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
    entries.sort();
    for path in entries {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() {
            if !OTHER_FOLDERS.contains(&&*name) {
                files.extend(self::files(&path)?);
            }
        } else if name.ends_with(".csv") && !OTHER_FILES.contains(&&*name) {
            files.push(path);
        }
    }
    Ok(files)
}

/// Returns the number after `word` in `text`, if `text` has nothing else: `number("min64", "min")`.
fn number(text: &str, word: &str) -> Option<u64> {
    let digits = text.strip_prefix(word)?;
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { digits.parse().ok() } else { None }
}
