//! A folder of results: rows in a growing file, and in Parquet.

use std::collections::HashSet;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::row::ELAPSED;
use crate::{LabError, Row, parquet_file};

/// The rows of one or more runs of a definition.
#[derive(Clone, Debug)]
pub struct Results {
    folder: PathBuf,
    rows: Vec<Row>,
    complete: HashSet<String>,
}

/// The name of the file of rows.
const CSV: &str = "results.csv";
/// The name of the file of rows in Parquet, which is written at the end of a run.
const PARQUET: &str = "results.parquet";
/// The name of the file of the definition.
const DEFINITION: &str = "definition.toml";

impl Results {
    /// Opens the folder to resume a run, and creates the folder if there is none. Rows of an
    /// unfinished cell are removed.
    ///
    /// # Errors
    ///
    /// Returns [`LabError::File`] if the folder or its files cannot be read or written, and
    /// [`LabError::Content`] if the file is no file of rows.
    pub fn open(folder: &Path) -> Result<Results, LabError> {
        fs::create_dir_all(folder).map_err(LabError::of(folder))?;
        let path = folder.join(CSV);
        if !path.exists() {
            let results =
                Results { folder: folder.to_owned(), rows: Vec::new(), complete: HashSet::new() };
            // A folder that cannot be written is detected now instead of after an hour.
            results.write_all()?;
            return Ok(results);
        }
        let text = fs::read(&path).map_err(LabError::of(&path))?;
        let mut results = Results::parse(folder, &path, &text)?;
        let count = results.rows.len();
        results.rows.retain(|row| results.complete.contains(&row.cell));
        if results.rows.len() < count || !text.ends_with(b"\n") {
            results.write_all()?;
        }
        Ok(results)
    }

    /// Reads a folder of results, or a file of rows alone.
    ///
    /// # Errors
    ///
    /// Returns any error of [`Results::open`], and an error if there is no such file or the file
    /// has no row.
    pub fn read(path: &Path) -> Result<Results, LabError> {
        let file = if path.is_dir() { path.join(CSV) } else { path.to_owned() };
        let text = fs::read(&file).map_err(LabError::of(&file))?;
        let folder = file.parent().unwrap_or(Path::new("")).to_owned();
        let results = Results::parse(&folder, &file, &text)?;
        if results.rows.is_empty() {
            let message = "has no rows yet; run `cutpoint-lab run` first".to_owned();
            return Err(LabError::Content { path: file, message });
        }
        Ok(results)
    }

    /// Reads several folders of results, or files of rows, as one. The definition is that of the first.
    ///
    /// # Errors
    ///
    /// Returns any error of [`Results::read`].
    ///
    /// # Panics
    ///
    /// Panics if there are no paths.
    pub fn read_all(paths: &[PathBuf]) -> Result<Results, LabError> {
        let (first, others) = paths.split_first().expect("at least one path");
        let mut results = Results::read(first)?;
        for path in others {
            results.rows.extend(Results::read(path)?.rows);
        }
        Ok(results)
    }

    fn parse(folder: &Path, path: &Path, text: &[u8]) -> Result<Results, LabError> {
        // An incomplete last line was being written when the machine stopped.
        let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let mut reader = csv::Reader::from_reader(&text[..whole]);
        let mut rows: Vec<Row> = Vec::new();
        for row in reader.deserialize() {
            rows.push(row.map_err(|error| LabError::Content {
                path: path.to_owned(),
                message: format!(
                    "not a file of rows ({error}); move it away, or give another folder"
                ),
            })?);
        }
        let complete =
            rows.iter().filter(|row| row.metric == ELAPSED).map(|row| row.cell.clone()).collect();
        Ok(Results { folder: folder.to_owned(), rows, complete })
    }

    /// Returns the rows, in the order in which they were measured.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Returns the text of the definition that was run last, if there is any.
    pub fn definition(&self) -> Option<String> {
        fs::read_to_string(self.folder.join(DEFINITION)).ok()
    }

    /// Returns `true` if the cell was already measured.
    pub fn has(&self, cell: &str) -> bool {
        self.complete.contains(cell)
    }

    /// Appends all rows of a cell at once, and syncs them to the disk.
    pub(crate) fn append(&mut self, cell: &str, rows: Vec<Row>) -> Result<(), LabError> {
        let path = self.folder.join(CSV);
        let mut file = OpenOptions::new().append(true).open(&path).map_err(LabError::of(&path))?;
        let text = to_csv(&rows, false, &path)?;
        file.write_all(&text).and_then(|()| file.sync_data()).map_err(LabError::of(&path))?;
        self.complete.insert(cell.to_owned());
        self.rows.extend(rows);
        Ok(())
    }

    /// Stores the definition next to the rows.
    pub(crate) fn keep_definition(&self, text: &str) -> Result<(), LabError> {
        replace(&self.folder.join(DEFINITION), text.as_bytes())
    }

    /// Writes all rows in Parquet.
    ///
    /// # Errors
    ///
    /// Returns [`LabError::File`] if the file cannot be written, and [`LabError::Content`] if it
    /// cannot be encoded.
    pub fn write_parquet(&self) -> Result<(), LabError> {
        let path = self.folder.join(PARQUET);
        let bytes = parquet_file::bytes(&self.rows).map_err(|error| LabError::Content {
            path: path.clone(),
            message: format!("cannot be created: {error}"),
        })?;
        replace(&path, &bytes)
    }

    fn write_all(&self) -> Result<(), LabError> {
        let path = self.folder.join(CSV);
        replace(&path, &to_csv(&self.rows, true, &path)?)
    }
}

fn to_csv(rows: &[Row], has_header: bool, path: &Path) -> Result<Vec<u8>, LabError> {
    let failed = |error: csv::Error| LabError::Content {
        path: path.to_owned(),
        message: format!("cannot be created: {error}"),
    };
    let mut writer = csv::WriterBuilder::new().has_headers(false).from_writer(Vec::new());
    if has_header {
        writer.write_record(parquet_file::COLUMNS).map_err(failed)?;
    }
    for row in rows {
        writer.serialize(row).map_err(failed)?;
    }
    writer.into_inner().map_err(|error| LabError::of(path)(error.into_error()))
}

/// Replaces a file atomically. If that fails, the old file stays as it is.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> Result<(), LabError> {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    let new = PathBuf::from(name);
    let written = fs::File::create(&new).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_data()
    });
    let renamed = written.and_then(|()| fs::rename(&new, path));
    if renamed.is_err() {
        // An incomplete new file is of no use.
        fs::remove_file(&new).ok();
    }
    renamed.map_err(LabError::of(path))
}
