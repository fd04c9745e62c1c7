//! The runs of traces: consecutive chunks of one file, and the seams between them.

use std::collections::BTreeMap;

use cutpoint_chunking::Seams;

use super::Row;

/// The place of a run: the number of its trace, and its number in the trace.
pub(super) type RunId = (usize, u64);

/// Consecutive rows of a trace in which each chunk starts where the previous one ends, within one
/// stream: a file, or the part of a file between two holes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) id: RunId,
    pub(super) path_id: u64,
    pub(super) start: u64,
    pub(super) end: u64,
    /// Set if the first chunk begins a stream.
    pub(super) is_first: bool,
    /// Set if the last chunk ends a stream.
    pub(super) is_last: bool,
}

/// The division of traces into runs.
#[derive(Debug, Default)]
pub(super) struct RunReader {
    trace: usize,
    open: Option<Run>,
    run_count: u64,
}

impl RunReader {
    /// Takes the next row. Returns its run as known so far, and the run before if it is complete.
    pub(super) fn take(&mut self, row: &Row) -> (Run, Option<Run>) {
        let is_last = row.flags & Row::LAST != 0;
        let is_first = row.flags & Row::FIRST != 0;
        let continued = self.open.filter(|open| {
            open.path_id == row.path_id && open.end == row.offset && !open.is_last && !is_first
        });
        if let Some(open) = continued {
            let open = Run { end: row.end(), is_last, ..open };
            self.open = Some(open);
            return (open, None);
        }
        let id = (self.trace, self.run_count);
        self.run_count += 1;
        let (path_id, start, end) = (row.path_id, row.offset, row.end());
        let run = Run { id, path_id, start, end, is_first, is_last };
        (run, self.open.replace(run))
    }

    /// Ends the trace. Returns its last run. The next row begins another trace.
    pub(super) fn end_trace(&mut self) -> Option<Run> {
        (self.trace, self.run_count) = (self.trace + 1, 0);
        self.open.take()
    }
}

/// The runs of traces that are not whole streams. Their number is that of the ranges into which
/// large files were divided, not that of chunks or files.
#[derive(Debug, Default)]
pub(super) struct Runs {
    reader: RunReader,
    incomplete: Vec<Run>,
}

impl Runs {
    /// Takes the next row of a trace.
    pub(super) fn take(&mut self, row: &Row) {
        let (_, ended) = self.reader.take(row);
        self.keep(ended);
    }

    /// Ends the trace.
    pub(super) fn end_trace(&mut self) {
        let ended = self.reader.end_trace();
        self.keep(ended);
    }

    fn keep(&mut self, run: Option<Run>) {
        self.incomplete.extend(run.filter(|run| !(run.is_first && run.is_last)));
    }

    /// Returns the number of broken seams of each file that has any.
    pub(super) fn broken(&self) -> BTreeMap<u64, u64> {
        let mut files: BTreeMap<u64, Vec<Run>> = BTreeMap::new();
        for run in &self.incomplete {
            files.entry(run.path_id).or_default().push(*run);
        }
        let counts = files.into_iter().map(|(path_id, mut runs)| {
            runs.sort_by_key(|run| run.start);
            (path_id, broken_seam_count(&runs))
        });
        counts.filter(|(_, count)| *count > 0).collect()
    }
}

/// Returns the number of broken seams between the runs of a file, which are in ascending order.
fn broken_seam_count(runs: &[Run]) -> u64 {
    // The stream that has begun and not ended.
    let mut open: Option<Seams> = None;
    let mut count = 0;
    for run in runs {
        let holds = match &mut open {
            None => run.is_first,
            // Another stream begins before this one has ended.
            Some(_) if run.is_first => false,
            Some(seams) => seams.holds(&(run.start..run.end), Some(run.start..run.end)),
        };
        count += u64::from(!holds);
        open = (!run.is_last).then(|| Seams::at(run.end));
    }
    count + u64::from(open.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(path_id: u64, offset: u64, length: u64, flags: u32) -> Row {
        Row { path_id, offset, length, flags, ..Row::default() }
    }

    fn broken(traces: &[&[Row]]) -> Vec<(u64, u64)> {
        let mut runs = Runs::default();
        for trace in traces {
            trace.iter().for_each(|row| runs.take(row));
            runs.end_trace();
        }
        runs.broken().into_iter().collect()
    }

    const FIRST: u32 = Row::FIRST;
    const LAST: u32 = Row::LAST;

    #[test]
    fn whole_streams_are_not_kept() {
        let trace = [
            row(1, 0, 10, FIRST),
            row(1, 10, 5, LAST),
            row(1, 100, 5, FIRST | LAST),
            row(2, 7, 5, FIRST | Row::ZEROS),
            row(2, 12, 5, LAST),
        ];
        let mut runs = Runs::default();
        trace.iter().for_each(|row| runs.take(row));
        runs.end_trace();
        assert_eq!(runs.incomplete, [], "no run has a seam");
        assert_eq!(broken(&[&trace]), []);
    }

    #[test]
    fn runs_that_meet_are_whole() {
        let one = [row(1, 0, 10, FIRST), row(1, 10, 5, 0), row(1, 30, 10, LAST)];
        let two = [row(1, 15, 15, 0)];
        assert_eq!(broken(&[&one, &two]), []);
        assert_eq!(broken(&[&two, &one]), [], "in any order");
        assert_eq!(broken(&[&one]), [(1, 1)], "a gap");
        assert_eq!(broken(&[&two]), [(1, 2)], "neither a beginning nor an end");
    }

    #[test]
    fn broken_seams_are_counted() {
        let whole = [row(3, 0, 10, FIRST | LAST)];
        let before = [row(1, 0, 10, FIRST)];
        for (offset, flags, expected) in [
            (9, LAST, 1),
            (10, LAST, 0),
            (11, LAST, 1),
            (10, 0, 1),
            // A stream that begins where another has not ended.
            (10, FIRST | LAST, 1),
            (20, FIRST | LAST, 1),
        ] {
            let after = [row(1, offset, 10, flags)];
            let found = broken(&[&before, &whole, &after]);
            let counts: Vec<u64> = found.iter().map(|(_, count)| *count).collect();
            let expected: &[u64] = if expected == 0 { &[] } else { &[expected] };
            assert_eq!(counts, expected, "at {offset}, flags {flags}");
        }
        // The same shard twice.
        let after = [row(1, 10, 10, LAST)];
        assert_eq!(broken(&[&before, &after, &after]), [(1, 1)]);
    }

    /// Within a trace, chunks that do not fit are a broken seam as well.
    #[test]
    fn rows_of_one_trace_that_do_not_meet_are_two_runs() {
        let trace = [row(1, 0, 10, FIRST), row(1, 11, 10, LAST)];
        assert_eq!(broken(&[&trace]), [(1, 1)]);
        let trace = [row(1, 0, 10, FIRST), row(2, 10, 10, LAST)];
        assert_eq!(broken(&[&trace]), [(1, 1), (2, 1)]);
    }
}
