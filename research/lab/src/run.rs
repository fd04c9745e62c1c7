//! A run, which measures one cell after another and skips cells with results.

use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::algorithm::{Selection, remember};
use crate::data::DataSet;
use crate::kind::Kind;
use crate::measure::Task;
use crate::row::ELAPSED;
use crate::size::size;
use crate::{AlgorithmPart, DataPart, Definition, LabError, MeasurePart, Results, Row};

/// The progress of a run.
#[derive(Clone, Debug)]
pub struct Progress<'a> {
    /// The number of cells done, including those of earlier runs.
    pub done: usize,
    /// The total number of cells.
    pub total: usize,
    /// The title of the next cell, or of another step of the run.
    pub cell: &'a str,
    /// The estimated remaining time, from the cells of this run; `None` before the first cell.
    pub remaining: Option<Duration>,
}

/// The machine and the program of a run.
#[derive(Clone, Debug, Default)]
pub struct Setting {
    /// The processor, the number of processors, and the system.
    pub machine: String,
    /// The commit at which the program was built.
    pub commit: String,
}

impl Setting {
    /// Returns the setting of this machine and program.
    pub fn here() -> Setting {
        let count = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let machine = format!(
            "{}, {count} processors, {} {}",
            cutpoint_bench::processor(),
            std::env::consts::OS,
            std::env::consts::ARCH
        );
        Setting { machine, commit: option_env!("CUTPOINT_COMMIT").unwrap_or("unknown").to_owned() }
    }
}

/// A definition that is being run.
#[derive(Debug)]
pub struct Run<'a> {
    definition: &'a Definition,
    folder: &'a Path,
    setting: Setting,
}

/// A cell: the unit of measurement, whose rows are stored together.
struct Cell<'a> {
    part: &'a MeasurePart,
    algorithms: Vec<&'a AlgorithmPart>,
    selection: Selection,
    target: usize,
}

impl<'a> Run<'a> {
    /// Creates a run of `definition` over the data sets below `folder`.
    pub fn new(definition: &'a Definition, folder: &'a Path, setting: Setting) -> Run<'a> {
        Run { definition, folder, setting }
    }

    /// Measures all cells that `results` does not have, data set by data set. `goes_on` is called
    /// often, and ends the run by returning `false`. `tell` is called before each cell. Returns the
    /// names of optional data sets that are absent.
    ///
    /// # Errors
    ///
    /// Returns [`LabError`] if a data set, a measurement or a write fails, or if the run is
    /// stopped. The cells measured until then are in `results`.
    pub fn measure(
        &self,
        results: &mut Results,
        goes_on: &dyn Fn() -> bool,
        tell: &mut dyn FnMut(&Progress<'_>),
    ) -> Result<Vec<String>, LabError> {
        results.keep_definition(self.definition.text())?;
        let outcome = self.measure_all(results, goes_on, tell);
        // The rows so far are also written if the run ended early.
        let written = results.write_parquet();
        let left_out = outcome?;
        written.map(|()| left_out)
    }

    fn measure_all(
        &self,
        results: &mut Results,
        goes_on: &dyn Fn() -> bool,
        tell: &mut dyn FnMut(&Progress<'_>),
    ) -> Result<Vec<String>, LabError> {
        let mut left_out = Vec::new();
        let cells: Vec<Vec<Cell<'_>>> =
            self.definition.data.iter().map(|data| self.cells(data.name.get_ref())).collect();
        let total = cells.iter().map(Vec::len).sum();
        let (mut done, mut measured, mut spent) = (0, 0_u32, Duration::ZERO);
        for (data, cells) in self.definition.data.iter().zip(cells) {
            if cells.is_empty() {
                continue;
            }
            let name = data.name.get_ref();
            tell(&Progress { done, total, cell: &format!("{name}: reading"), remaining: None });
            let path = data.path.as_ref().map(|path| self.folder.join(path.get_ref()));
            if data.optional && path.is_some_and(|path| !path.exists()) {
                left_out.push(name.clone());
                done += cells.len();
                continue;
            }
            let set = DataSet::load(data, self.folder, goes_on)?;
            self.describe(&set, results)?;
            let repeat_count = *self.definition.repeats.get_ref() as usize;
            for cell in cells {
                let key = self.key(&cell, &set);
                if results.has(&key) {
                    remember_cut(&cell, &set, results, &key);
                    done += 1;
                    continue;
                }
                let Some(tuned_on) = self.tuned_on(cell.part, goes_on)? else {
                    left_out.extend(cell.part.tuned_on.as_ref().map(|name| name.get_ref().clone()));
                    done += 1;
                    continue;
                };
                let left = u32::try_from(total - done).unwrap_or(u32::MAX);
                let remaining = (measured > 0).then(|| spent / measured * left);
                tell(&Progress { done, total, cell: &title(&cell, name), remaining });
                let began = Instant::now();
                let task = Task::new(
                    cell.part,
                    &set,
                    cell.algorithms.clone(),
                    cell.selection,
                    cell.target,
                    repeat_count,
                );
                let task = Task { tuned_on: tuned_on.as_ref(), ..task };
                let mut rows = task.rows(goes_on)?;
                let elapsed = began.elapsed();
                rows.push(Row::new(ELAPSED, elapsed.as_secs_f64(), "s"));
                let rows =
                    rows.into_iter().map(|row| self.complete(row, &cell, &set, &key)).collect();
                results.append(&key, rows)?;
                (done, measured, spent) = (done + 1, measured + 1, spent + elapsed);
            }
        }
        tell(&Progress { done, total, cell: "done", remaining: Some(Duration::ZERO) });
        Ok(left_out)
    }

    /// Returns the other data set that a measure needs, `Some(None)` if it needs none, and `None` if
    /// that data set is absent.
    fn tuned_on(
        &self,
        part: &MeasurePart,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<Option<Option<DataSet>>, LabError> {
        let Some(name) = &part.tuned_on else { return Ok(Some(None)) };
        let named = |data: &&DataPart| data.name.get_ref() == name.get_ref();
        let Some(data) = self.definition.data.iter().find(named) else { return Ok(None) };
        let path = data.path.as_ref().map(|path| self.folder.join(path.get_ref()));
        if data.optional && path.is_some_and(|path| !path.exists()) {
            return Ok(None);
        }
        Ok(Some(Some(DataSet::load(data, self.folder, goes_on)?)))
    }

    /// Adds rows about the data set itself, unless there are any.
    fn describe(&self, set: &DataSet, results: &mut Results) -> Result<(), LabError> {
        let key = format!("data/{}/{}", set.name, set.hash);
        if results.has(&key) {
            return Ok(());
        }
        let rows = [
            Row::new("size", set.size() as f64, "bytes"),
            Row::new("streams", set.stream_count() as f64, "streams"),
            Row::new("versions", set.versions.len() as f64, "versions"),
            Row::new("entropy", set.entropy, "bits a byte"),
            Row::new("gzip_ratio", 100.0 * set.gzip_ratio, "%"),
            Row::new(ELAPSED, 0.0, "s"),
        ];
        let rows = rows
            .into_iter()
            .map(|row| Row { measure: "data".to_owned(), ..self.signed(row, set, &key) });
        results.append(&key, rows.collect())
    }

    /// Returns the cells of a data set, in the order of the definition.
    fn cells(&self, data: &str) -> Vec<Cell<'_>> {
        let mut cells = Vec::new();
        for part in &self.definition.measures {
            if !part.datasets.iter().any(|name| name.get_ref() == data) {
                continue;
            }
            let named = |name: &&str| {
                self.definition.algorithms.iter().find(|part| part.name.get_ref() == name)
            };
            let algorithms: Vec<&AlgorithmPart> = part
                .algorithms
                .iter()
                .map(|name| name.get_ref().as_str())
                .filter_map(|name| named(&name))
                .collect();
            let selections: Vec<Selection> = if part.kind.get_ref().needs_algorithms() {
                part.selections.iter().filter_map(|name| Selection::named(name.get_ref())).collect()
            } else {
                vec![Selection::Paper]
            };
            for target in part.targets.iter().filter_map(|text| size(text.get_ref())) {
                for selection in &selections {
                    // Algorithms without this selection in the definition have no cell.
                    let algorithms: Vec<&AlgorithmPart> =
                        algorithms.iter().copied().filter(|each| selection.is_of(each)).collect();
                    let groups = if !part.kind.get_ref().needs_algorithms() {
                        vec![Vec::new()]
                    } else if part.kind.get_ref().is_race() && !algorithms.is_empty() {
                        vec![algorithms]
                    } else {
                        algorithms.into_iter().map(|algorithm| vec![algorithm]).collect()
                    };
                    cells.extend(groups.into_iter().map(|algorithms| Cell {
                        part,
                        algorithms,
                        selection: *selection,
                        target,
                    }));
                }
            }
        }
        cells
    }

    /// Returns the key of a cell, from everything that affects its rows.
    fn key(&self, cell: &Cell<'_>, set: &DataSet) -> String {
        let Cell { part, algorithms, selection, target } = cell;
        let mut hasher = blake3::Hasher::new();
        for algorithm in algorithms {
            let text =
                |text: &Option<crate::Text>| text.as_ref().map(|text| text.get_ref().clone());
            let specs = algorithm.specs.iter().map(|(size, spec)| (size, spec.get_ref()));
            let (paper, equal) = (text(&algorithm.paper), text(&algorithm.equal));
            let name = algorithm.name.get_ref();
            let AlgorithmPart { drop_last, .. } = algorithm;
            let specs: Vec<_> = specs.collect();
            hasher.update(format!("{name}|{specs:?}|{paper:?}|{equal:?}|{drop_last};").as_bytes());
            if let Some(mean_of) = &algorithm.mean_of {
                hasher.update(format!("{};", mean_of.get_ref()).as_bytes());
            }
        }
        let MeasurePart { levels, papers, edits, .. } = part;
        let named = |text: &Option<crate::Text>| {
            text.as_ref().map_or_else(String::new, |text| text.get_ref().clone())
        };
        let (fresh, tuned_on) = (named(&part.fresh), named(&part.tuned_on));
        let hashes: Vec<&String> = part.fingerprints.iter().map(|name| name.get_ref()).collect();
        let size = part.size.as_ref().map(|size| size.get_ref());
        hasher.update(format!("{levels:?}|{papers}|{edits:?}|{hashes:?}|{size:?}").as_bytes());
        hasher.update(format!("|{fresh}|{tuned_on}").as_bytes());
        if part.kind.get_ref().is_timed() {
            let repeats = self.definition.repeats.get_ref();
            hasher.update(format!("{repeats}|{}", self.setting.machine).as_bytes());
        }
        let name = part.kind.get_ref().name();
        format!(
            "{name}/{}/{}/{target}/{}/{}",
            set.name,
            set.hash,
            selection.name(),
            &hasher.finalize().to_hex()[..16]
        )
    }

    fn complete(&self, row: Row, cell: &Cell<'_>, set: &DataSet, key: &str) -> Row {
        let is_chosen = cell.part.kind.get_ref().needs_algorithms();
        Row {
            measure: cell.part.kind.get_ref().name().to_owned(),
            selection: if is_chosen { cell.selection.name().to_owned() } else { String::new() },
            target: cell.target as u64,
            ..self.signed(row, set, key)
        }
    }

    /// Returns the row with the fields that all rows of a data set and a run share.
    fn signed(&self, row: Row, set: &DataSet, key: &str) -> Row {
        let time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        Row {
            cell: key.to_owned(),
            data: set.name.clone(),
            data_hash: set.hash.clone(),
            entropy: set.entropy,
            input_bytes: set.size() as u64,
            commit: self.setting.commit.clone(),
            machine: self.setting.machine.clone(),
            time_s: time,
            ..row
        }
    }
}

/// Enters the parameters of a cell that was measured before, so that other kinds of measurement do not
/// search for them again.
fn remember_cut(cell: &Cell<'_>, set: &DataSet, results: &Results, key: &str) {
    if let (Kind::Cut, Selection::Equal, [algorithm]) =
        (cell.part.kind.get_ref(), cell.selection, &cell.algorithms[..])
    {
        let rows: Vec<&Row> = results.rows().iter().filter(|row| row.cell == key).collect();
        remember(algorithm, cell.target, set, &rows);
    }
}

fn title(cell: &Cell<'_>, data: &str) -> String {
    let names: Vec<&str> =
        cell.algorithms.iter().map(|part| part.name.get_ref().as_str()).collect();
    let who =
        if names.len() > 3 { format!("{} algorithms", names.len()) } else { names.join(", ") };
    format!(
        "{data}: {} {who} {} {}",
        cell.part.kind.get_ref().name(),
        cell.target,
        cell.selection.name()
    )
}
