//! Joining the shards of a trace to one trace, and repairing the seams between them.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use cutpoint_chunking::{Chunker, Ranges, Seams};
use cutpoint_estimate::EstimateError;
use cutpoint_estimate::scan::{Chunk, FileExtent, Monitor, SourceFile, open_files};
use cutpoint_fingerprint::Blake3;

use super::runs::{Run, RunId, RunReader, Runs};
use super::{Row, TraceOptions, WriteRows, path_id, read_trace};

/// The number of rows after which it is asked whether to stop.
const CANCEL_ROW_COUNT: u64 = 1 << 16;

/// The counts of a joining.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JoinCounts {
    /// The number of rows of the joined trace.
    pub row_count: u64,
    /// The number of seams that were broken.
    pub broken_seam_count: u64,
    /// The number of files with broken seams.
    pub broken_file_count: u64,
    /// The number of rows that were replaced, because their chunks start at no cut-point.
    pub dropped_row_count: u64,
    /// The number of rows that were cut again.
    pub new_row_count: u64,
    /// The number of bytes in these rows.
    pub new_bytes: u64,
}

/// Writes the rows of `traces`, the shards of one trace, to `output` as one trace. Where the chunks
/// of a file do not fit together, the file is cut again from the last true cut-point until the
/// cut-points meet those of the traces. The result has the rows of a single pass, in another order.
///
/// Without broken seams, no file is read. Of each file with broken seams, the memory holds 8 bytes
/// for each chunk.
///
/// # Errors
///
/// Returns any error of [`read_trace`], `NotFound` if a file with broken seams is not below the
/// paths of the scan, and `InvalidData` if its chunks are not those of the traces: the file has
/// changed, or the specification or the key are others. Returns the error of the system if a file
/// cannot be read or writing fails, `Interrupted` if the monitor cancels, and an error if the
/// specification has no maximum chunk size.
pub fn join(
    options: &TraceOptions,
    traces: &[PathBuf],
    output: File,
    monitor: &dyn Monitor,
) -> Result<JoinCounts, EstimateError> {
    let chunker = options.spec.clone().bounded()?.chunker();
    let mut runs = Runs::default();
    each_row(
        traces,
        monitor,
        &mut runs,
        |runs, row| {
            runs.take(row);
            Ok(())
        },
        |runs| {
            runs.end_trace();
        },
    )?;
    let broken = runs.broken();
    let mut repair = Repair {
        ranges: Ranges::new(chunker),
        hash: options.hash(),
        rows: options.rows(output)?,
        files: lists_of(traces, &broken, monitor)?,
        kept: HashMap::new(),
        counts: JoinCounts {
            broken_seam_count: broken.values().sum(),
            broken_file_count: broken.len() as u64,
            ..JoinCounts::default()
        },
    };
    repair.repair(options, monitor)?;
    repair.copy(traces, &broken, monitor)?;
    repair.rows.finish()?;
    Ok(repair.counts)
}

/// A run with its cut-points: the start of its first chunk and the ends of all its chunks.
#[derive(Debug)]
struct List {
    run: Run,
    first: Row,
    cut_points: Vec<u64>,
}

/// Reads rows of several traces with a state.
fn each_row<S>(
    traces: &[PathBuf],
    monitor: &dyn Monitor,
    state: &mut S,
    mut on_row: impl FnMut(&mut S, &Row) -> io::Result<()>,
    mut on_end: impl FnMut(&mut S),
) -> io::Result<()> {
    let mut row_count = 0_u64;
    for trace in traces {
        let read = read_trace(trace, &mut |row| {
            row_count += 1;
            if row_count.is_multiple_of(CANCEL_ROW_COUNT) && monitor.cancelled() {
                return Err(io::ErrorKind::Interrupted.into());
            }
            on_row(state, &row)
        });
        read.map_err(|error| about(trace, &error))?;
        on_end(state);
    }
    Ok(())
}

fn about(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// Reads the lists of all runs of the files that have `broken` seams, in ascending order.
fn lists_of(
    traces: &[PathBuf],
    broken: &BTreeMap<u64, u64>,
    monitor: &dyn Monitor,
) -> io::Result<BTreeMap<u64, Vec<List>>> {
    let mut files: BTreeMap<u64, Vec<List>> = BTreeMap::new();
    if broken.is_empty() {
        return Ok(files);
    }
    let mut reader = RunReader::default();
    let mut on_row = |reader: &mut RunReader, row: &Row| {
        let (run, _) = reader.take(row);
        if broken.contains_key(&run.path_id) {
            let lists = files.entry(run.path_id).or_default();
            match lists.last_mut().filter(|last| last.run.id == run.id) {
                Some(list) => {
                    list.run = run;
                    list.cut_points.push(row.end());
                }
                None => {
                    lists.push(List { run, first: *row, cut_points: vec![row.offset, row.end()] });
                }
            }
        }
        Ok(())
    };
    each_row(traces, monitor, &mut reader, &mut on_row, |reader| {
        reader.end_trace();
    })?;
    files.values_mut().for_each(|lists| lists.sort_by_key(|list| list.run.start));
    Ok(files)
}

/// The state of a joining.
struct Repair {
    ranges: Ranges<Box<dyn Chunker>>,
    hash: Blake3,
    rows: Box<dyn WriteRows>,
    /// The lists of the files that have broken seams and were not repaired yet.
    files: BTreeMap<u64, Vec<List>>,
    /// The offset of the first true row of each run of these files. No row of other runs is true.
    kept: HashMap<RunId, u64>,
    counts: JoinCounts,
}

impl Repair {
    /// Repairs all files that have broken seams.
    fn repair(&mut self, options: &TraceOptions, monitor: &dyn Monitor) -> io::Result<()> {
        if self.files.is_empty() {
            return Ok(());
        }
        let wanted: Vec<u64> = self.files.keys().copied().collect();
        let select = |path: &Path| wanted.binary_search(&path_id(path)).is_ok();
        open_files(&options.scan, &select, &mut |path, file| {
            monitor.reading(path);
            let id = path_id(path);
            // Several of the paths may lead to one file.
            let Some(lists) = self.files.remove(&id) else { return Ok(()) };
            self.file(file, id, &lists, monitor).map_err(|error| about(path, &error))
        })?;
        match self.files.keys().next() {
            None => Ok(()),
            Some(id) => Err(io::Error::new(
                io::ErrorKind::NotFound,
                format!("path_id {id}: no such file below the given paths; its seams are broken"),
            )),
        }
    }

    /// Repairs the seams of a file.
    fn file(
        &mut self,
        file: &SourceFile,
        path_id: u64,
        lists: &[List],
        monitor: &dyn Monitor,
    ) -> io::Result<()> {
        for extent in file.extents(0) {
            let FileExtent::Data { offset, len } = extent? else { continue };
            let stream = offset..offset + len;
            let first = lists.partition_point(|list| list.run.start < stream.start);
            let end = lists.partition_point(|list| list.run.start < stream.end);
            self.stream(file, path_id, stream, &lists[first..end], monitor)?;
        }
        Ok(())
    }

    /// Repairs the seams of a stream of a file: its data, or the data between two holes.
    fn stream(
        &mut self,
        file: &SourceFile,
        path_id: u64,
        stream: Range<u64>,
        lists: &[List],
        monitor: &dyn Monitor,
    ) -> io::Result<()> {
        let Repair { ranges, hash, rows, kept, counts, .. } = self;
        let read_at = |buffer: &mut [u8], offset: u64| {
            if monitor.cancelled() {
                // The kind `Interrupted` would be retried.
                return Err(io::Error::other("stopped"));
            }
            let left = usize::try_from(stream.end.saturating_sub(offset)).unwrap_or(usize::MAX);
            let size = buffer.len().min(left);
            file.read_at(&mut buffer[..size], offset)
        };
        let row = |offset: u64, bytes: &[u8]| {
            let mut digests = Vec::new();
            hash.digests(&[bytes], &mut digests);
            let chunk = Chunk {
                bytes,
                digest: digests.pop().unwrap_or_default(),
                offset,
                is_zeros: bytes.iter().all(|&byte| byte == 0),
                is_first: offset == stream.start,
                is_last: offset + bytes.len() as u64 == stream.end,
            };
            Row::of(path_id, &chunk)
        };
        if let Some(list) = lists.first().filter(|list| list.run.start == stream.start) {
            // The first chunk is true without doubt, so it tells whether the file was traced as is.
            let (mut seams, mut found) = (Seams::at(stream.start), Row::default());
            let first_end = stream.start + 1;
            ranges.repair(&mut seams, read_at, first_end, &[], |offset, bytes| {
                found = row(offset, bytes);
            })?;
            if (found.length, found.fingerprint) != (list.first.length, list.first.fingerprint) {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    format!(
                        "the chunk at {} is not that of the trace: the file has changed, or the \
                         algorithm or the key is another",
                        stream.start
                    ),
                ));
            }
        }
        let mut written = Ok(());
        let mut seams = Seams::at(stream.start);
        let mut each = |offset: u64, bytes: &[u8]| {
            counts.new_row_count += 1;
            counts.new_bytes += bytes.len() as u64;
            counts.row_count += 1;
            if written.is_ok() {
                written = rows.push(&row(offset, bytes));
            }
        };
        for List { run, cut_points, .. } in lists {
            let owned = run.start..run.end;
            let mut first_true = 0;
            if !seams.holds(&owned, Some(owned.clone())) {
                first_true = ranges.repair(&mut seams, read_at, run.end, cut_points, &mut each)?;
            }
            kept.extend(cut_points.get(first_true).map(|&offset| (run.id, offset)));
        }
        if seams.end() < stream.end {
            ranges.repair(&mut seams, read_at, stream.end, &[], &mut each)?;
        }
        written
    }

    /// Copies the rows that are true.
    fn copy(
        &mut self,
        traces: &[PathBuf],
        broken: &BTreeMap<u64, u64>,
        monitor: &dyn Monitor,
    ) -> io::Result<()> {
        let Repair { rows, kept, counts, .. } = self;
        let mut reader = RunReader::default();
        let on_row = |reader: &mut RunReader, row: &Row| {
            let (run, _) = reader.take(row);
            let is_true = !broken.contains_key(&run.path_id)
                || kept.get(&run.id).is_some_and(|&first| first <= row.offset);
            if !is_true {
                counts.dropped_row_count += 1;
                return Ok(());
            }
            counts.row_count += 1;
            rows.push(row)
        };
        each_row(traces, monitor, &mut reader, on_row, |reader| {
            reader.end_trace();
        })
    }
}
