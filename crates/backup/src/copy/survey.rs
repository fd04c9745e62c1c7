//! The work that a copy will be.

use cutpoint_repository::{Content, EntryKind};
use cutpoint_storage::{Error, Kind, Result};

use super::monitor::CopyMonitor;
use crate::save::copy_steps::{CopyComparison, CopyStep, CopySteps};
use crate::save::source_reader::SourceReader;

/// The counts of the tree of a snapshot.
#[derive(Clone, Debug, Default)]
pub(super) struct Survey {
    /// The number of files outside of the folders that are taken over.
    pub(super) file_count: u64,
    /// The total size of these files in bytes.
    pub(super) size: u64,
    /// The number of files that have to be copied.
    pub(super) read_file_count: u64,
    /// The total size of these files in bytes.
    pub(super) read_bytes: u64,
    /// The number of entries that patterns exclude.
    pub(super) excluded_count: u64,
    /// The patterns that match nothing.
    pub(super) unmatched: Vec<String>,
}

/// Walks through the tree `root`, compared with the tree `earlier`, without what the patterns
/// `exclude` match. `name` is that of the operation.
pub(super) fn survey(
    name: &str,
    reader: SourceReader<'_>,
    root: &Content,
    earlier: Option<&Content>,
    exclude: &[String],
    monitor: &dyn CopyMonitor,
) -> Result<Survey> {
    let comparison = earlier.cloned().map(CopyComparison::of_source);
    let mut steps = CopySteps::new(reader, root, comparison, exclude)?;
    let mut survey = Survey::default();
    while let Some(step) = steps.next()? {
        if monitor.cancelled() {
            return Err(Error::new(Kind::Interrupted, name, "interrupted"));
        }
        match step {
            CopyStep::Entry(entry) if entry.kind == EntryKind::File => {
                survey.file_count += 1;
                survey.size = survey.size.saturating_add(entry.size);
            }
            CopyStep::File(entry, _) => {
                survey.file_count += 1;
                survey.size = survey.size.saturating_add(entry.size);
                survey.read_file_count += 1;
                survey.read_bytes = survey.read_bytes.saturating_add(entry.size);
            }
            // The bytes of the file count with its first name.
            CopyStep::Link(_) => survey.file_count += 1,
            // The copy will report these.
            CopyStep::Damaged(_) | CopyStep::Warning(..) => {}
            CopyStep::Entry(_) | CopyStep::Folder(_) | CopyStep::Enter(_) | CopyStep::Leave => {}
        }
    }
    survey.excluded_count = steps.excluded_count;
    survey.unmatched = steps.unmatched_patterns().map(str::to_owned).collect();
    Ok(survey)
}
