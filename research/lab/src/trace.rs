//! Chunk traces: writing a row for each chunk for use by other programs, and reading such traces.
//!
//! | column | type | |
//! | --- | --- | --- |
//! | `path_id` | 64 bits | the first 63 bits of BLAKE3 of the file's path: the same in every shard |
//! | `offset` | 64 bits | the offset of the chunk in the file, in bytes |
//! | `length` | 64 bits | the length of the chunk in bytes |
//! | `fingerprint` | 16 bytes | the beginning of the BLAKE3 hash of the chunk |
//! | `flags` | 32 bits | 1: all bytes are zero; 2: the last chunk before a hole or the end of the file; 4: the first chunk of the file or behind a hole |
//!
//! The fingerprint is 32 hexadecimal digits in CSV, and a fixed-length array of 16 bytes in
//! Parquet.
//!
//! The chunks of a large file are in several shards. The rows themselves tell if they fit together:
//! each chunk without the flag 4 starts where one without the flag 2 ends. [`TraceSavings`] counts
//! the seams at which this does not hold, and [`join`] repairs them.

mod csv;
mod fs_hasher;
mod join;
mod parquet_file;
mod runs;

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use cutpoint_chunking::Spec;
use cutpoint_estimate::scan::{
    Chunk, Cutter, Job, Lane, Monitor, ScanCounts, ScanOptions, Sink, run,
};
use cutpoint_estimate::{Counter, EstimateError, FINGERPRINT_LEN, Fingerprint, Savings};
use cutpoint_fingerprint::Blake3;

use crate::until::Until;

pub use join::{JoinCounts, join};

use runs::Runs;

/// A chunk in a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// The id of the file, of 63 bits.
    pub path_id: u64,
    /// The offset of the chunk in the file, in bytes.
    pub offset: u64,
    /// The length of the chunk in bytes.
    pub length: u64,
    /// The beginning of the hash of the chunk. Shorter hashes are padded with zeros.
    pub fingerprint: Fingerprint,
    /// The flags [`Row::ZEROS`], [`Row::LAST`] and [`Row::FIRST`].
    pub flags: u32,
}

impl Row {
    /// Set if all bytes of the chunk are zero. The store does not keep such chunks.
    pub const ZEROS: u32 = 1;
    /// Set if the file ends or a hole begins after the chunk.
    pub const LAST: u32 = 2;
    /// Set if the file begins or a hole ends before the chunk.
    pub const FIRST: u32 = 4;

    /// Creates the row of a chunk of the file `path_id`.
    fn of(path_id: u64, chunk: &Chunk<'_>) -> Row {
        let mut fingerprint = [0; FINGERPRINT_LEN];
        if !chunk.is_zeros {
            fingerprint.copy_from_slice(&chunk.digest[..FINGERPRINT_LEN]);
        }
        let flag = |is_set, flag| if is_set { flag } else { 0 };
        Row {
            path_id,
            offset: chunk.offset,
            length: chunk.bytes.len() as u64,
            fingerprint,
            flags: flag(chunk.is_zeros, Row::ZEROS)
                | flag(chunk.is_last, Row::LAST)
                | flag(chunk.is_first, Row::FIRST),
        }
    }

    /// Returns the end of the chunk in the file, in bytes.
    fn end(&self) -> u64 {
        self.offset.saturating_add(self.length)
    }
}

/// The format of a trace that is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Comma-separated values, with a line for each chunk.
    Csv,
    /// Apache Parquet.
    Parquet,
}

impl Format {
    /// Returns the format that the extension of the file name selects: `.csv` or `.parquet`.
    pub fn of(path: &Path) -> Option<Format> {
        match path.extension()?.as_bytes() {
            b"csv" => Some(Format::Csv),
            b"parquet" => Some(Format::Parquet),
            _ => None,
        }
    }
}

/// A writer of rows.
trait WriteRows: Send {
    fn push(&mut self, row: &Row) -> io::Result<()>;
    fn finish(&mut self) -> io::Result<()>;
}

/// The options of a trace.
#[derive(Clone, Debug)]
pub struct TraceOptions {
    /// The files to read.
    pub scan: ScanOptions,
    /// The way to cut.
    pub spec: Spec,
    /// The key of the fingerprints, so that the chunks of a trace cannot be recognized by their
    /// public hashes.
    pub key: Option<[u8; 32]>,
    /// The format of the trace.
    pub format: Format,
}

impl TraceOptions {
    /// Returns the hash of the fingerprints.
    fn hash(&self) -> Blake3 {
        self.key.as_ref().map_or_else(Blake3::plain, Blake3::keyed)
    }

    /// Returns a writer of rows to `output`.
    fn rows(&self, output: File) -> io::Result<Box<dyn WriteRows>> {
        let output = BufWriter::with_capacity(1 << 20, output);
        Ok(match self.format {
            Format::Csv => Box::new(csv::Writer::new(output)?),
            Format::Parquet => Box::new(parquet_file::Writer::new(output)?),
        })
    }
}

/// The counts of a trace.
#[derive(Clone, Copy, Debug)]
pub struct TraceCounts {
    /// The counts of the scan.
    pub counts: ScanCounts,
    /// The number of chunks in the trace.
    pub row_count: u64,
}

/// Cuts files and writes a row for each chunk to `output`. If `paths` is given, writes a line for
/// each file to it, with the id and the path as CSV.
///
/// # Errors
///
/// Returns any error of [`estimate`](cutpoint_estimate::estimate()), and the error of the system if writing
/// fails.
pub fn trace(
    options: &TraceOptions,
    output: File,
    paths: Option<File>,
    monitor: &dyn Monitor,
) -> Result<TraceCounts, EstimateError> {
    let cutter = Cutter::new(&options.spec, options.hash())?;
    let rows = options.rows(output)?;
    let paths = match paths {
        Some(file) => {
            let mut writer = BufWriter::new(file);
            writer.write_all(b"path_id,path\n")?;
            Some(writer)
        }
        None => None,
    };
    let broken = Arc::new(AtomicBool::new(false));
    let row_count = Arc::new(AtomicU64::new(0));
    let sink = Writing {
        rows,
        paths,
        path_id: 0,
        row_count: row_count.clone(),
        error: None,
        broken: broken.clone(),
    };
    // If writing fails, the scan stops.
    let monitor = Until { monitor, broken };
    let (counts, lanes) = run(&options.scan, vec![Lane { cutter, sink }], 1, &monitor)?;
    for lane in lanes {
        lane.sink.error.map_or(Ok(()), Err)?;
    }
    Ok(TraceCounts { counts, row_count: row_count.load(Relaxed) })
}

/// Writes chunks as rows, until writing fails.
struct Writing {
    rows: Box<dyn WriteRows>,
    paths: Option<BufWriter<File>>,
    path_id: u64,
    row_count: Arc<AtomicU64>,
    error: Option<io::Error>,
    broken: Arc<AtomicBool>,
}

impl Writing {
    fn check(&mut self, result: io::Result<()>) {
        if let Err(error) = result {
            self.broken.store(true, Relaxed);
            self.error.get_or_insert(error);
        }
    }
}

impl Sink for Writing {
    fn begin(&mut self, path: &Arc<Path>) {
        self.path_id = path_id(path);
        if let Some(paths) = &mut self.paths {
            let name = path.to_string_lossy().replace('"', "\"\"");
            let written = writeln!(paths, "{},\"{name}\"", self.path_id);
            self.check(written);
        }
    }

    fn chunk(&mut self, chunk: &Chunk<'_>, _: &mut Vec<Job>) {
        if self.error.is_some() {
            return;
        }
        let row = Row::of(self.path_id, chunk);
        self.row_count.fetch_add(1, Relaxed);
        let written = self.rows.push(&row);
        self.check(written);
    }

    fn finish(&mut self, _: &mut Vec<Job>) {
        if self.error.is_none() {
            let finished = self.rows.finish();
            self.check(finished);
            let flushed = self.paths.as_mut().map_or(Ok(()), BufWriter::flush);
            self.check(flushed);
        }
    }
}

/// Returns the id of a path.
fn path_id(path: &Path) -> u64 {
    let hash = blake3::hash(path.as_os_str().as_bytes());
    let mut first = [0; 8];
    first.copy_from_slice(&hash.as_bytes()[..8]);
    u64::from_be_bytes(first) >> 1
}

/// Reads a trace row by row: Parquet or CSV as [`trace`] writes them, or a trace of `fs-hasher`
/// (versions 1 to 7; `hf-stat` prints them). The first bytes decide the format.
///
/// In traces of `fs-hasher`, the ids of files are their numbers, counted from 0.
///
/// # Errors
///
/// Returns the error of the system if reading fails, `InvalidData` with place and reason if the
/// file is no trace or is damaged, and any error of `on_row`.
pub fn read_trace(path: &Path, on_row: &mut dyn FnMut(Row) -> io::Result<()>) -> io::Result<()> {
    let file = File::open(path)?;
    let mut reader = BufReader::with_capacity(1 << 20, file.try_clone()?);
    let first = reader.fill_buf()?;
    if first.starts_with(parquet_file::MAGIC) {
        return parquet_file::read(file, on_row);
    }
    if first.starts_with(&fs_hasher::MAGIC) {
        return fs_hasher::read(&mut reader, on_row);
    }
    csv::read(reader, on_row)
}

/// The combined savings of several traces.
#[derive(Debug, Default)]
pub struct TraceSavings {
    counter: Counter,
    zero_bytes: u64,
    zero_count: u64,
    files: HashSet<(u64, u64)>,
    trace_count: u64,
    runs: Runs,
}

impl TraceSavings {
    /// Creates savings without traces.
    pub fn new() -> TraceSavings {
        TraceSavings::default()
    }

    /// Counts the chunks of another trace. A file with chunks in several traces counts once. Files
    /// of `fs-hasher` count in each trace.
    ///
    /// # Errors
    ///
    /// Returns any error of [`read_trace`], and `Interrupted` if `is_cancelled` returns `true`.
    pub fn add(&mut self, path: &Path, is_cancelled: &dyn Fn() -> bool) -> io::Result<()> {
        self.trace_count += 1;
        let is_foreign = {
            let mut first = [0; 4];
            io::Read::read(&mut File::open(path)?, &mut first)?;
            first == fs_hasher::MAGIC
        };
        let trace = if is_foreign { self.trace_count } else { 0 };
        let mut row_count: u64 = 0;
        read_trace(path, &mut |row| {
            row_count += 1;
            if row_count.is_multiple_of(65_536) && is_cancelled() {
                return Err(io::ErrorKind::Interrupted.into());
            }
            self.files.insert((trace, row.path_id));
            if !is_foreign {
                self.runs.take(&row);
            }
            if row.flags & Row::ZEROS != 0 {
                self.zero_bytes += row.length;
                self.zero_count += 1;
            } else {
                self.counter.add(&row.fingerprint, row.length);
            }
            Ok(())
        })?;
        self.runs.end_trace();
        Ok(())
    }

    /// Returns the number of seams at which the chunks of a file do not fit together: bytes are
    /// counted twice there, or missing. Traces of `fs-hasher` have no such seams.
    pub fn broken_seam_count(&self) -> u64 {
        self.runs.broken().values().sum()
    }

    /// Returns the savings so far. Chunks of zeros count as read and not as stored.
    pub fn savings(&self) -> Savings {
        let savings = self.counter.savings();
        Savings {
            read_bytes: savings.read_bytes + self.zero_bytes,
            chunk_count: savings.chunk_count + self.zero_count,
            ..savings
        }
    }

    /// Returns the number of bytes in chunks of zeros.
    pub fn zero_bytes(&self) -> u64 {
        self.zero_bytes
    }

    /// Returns the number of files.
    pub fn file_count(&self) -> u64 {
        self.files.len() as u64
    }
}

/// Returns an `InvalidData` error about a trace.
fn malformed(message: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message.into())
}
