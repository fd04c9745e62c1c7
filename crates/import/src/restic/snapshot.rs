//! Snapshot objects.

use chrono::DateTime;
use cutpoint_backup::copy::ForeignSnapshot;
use cutpoint_repository::format::commit::{OriginId, OriginKey, Tool};
use cutpoint_repository::{Content, Fingerprint, Snapshot, Statistics};
use cutpoint_storage::{Error, Result};
use serde::Deserialize;

use super::json::{Id, decode};

/// The fields of a snapshot object that an import uses.
#[derive(Deserialize)]
struct SnapshotFile {
    time: String,
    tree: Id,
    #[serde(default)]
    paths: Option<Vec<String>>,
    #[serde(default)]
    hostname: String,
    #[serde(default)]
    username: String,
    #[serde(default)]
    tags: Option<Vec<String>>,
    #[serde(default)]
    program_version: String,
    /// A field of rustic.
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    summary: Option<Summary>,
}

#[derive(Deserialize)]
struct Summary {
    #[serde(default)]
    backup_end: Option<String>,
    #[serde(default)]
    total_files_processed: u64,
    #[serde(default)]
    total_bytes_processed: u64,
}

/// Decodes the snapshot object `id` of `repository`.
///
/// # Errors
///
/// Returns `Corrupt` if the object is malformed.
pub(super) fn snapshot(repository: OriginId, id: Id, text: &[u8]) -> Result<ForeignSnapshot> {
    let file: SnapshotFile = decode(text)?;
    let started_ns = nanoseconds(&file.time).ok_or_else(|| {
        Error::corrupt("", format!("malformed: invalid time `{}`", file.time.escape_debug()))
    })?;
    let end = file.summary.as_ref().and_then(|it| it.backup_end.as_deref());
    let statistics = file.summary.as_ref().map_or_else(Statistics::default, |it| Statistics {
        file_count: it.total_files_processed,
        size: it.total_bytes_processed,
        ..Statistics::default()
    });
    let program = match &*file.program_version {
        "" => "restic".to_owned(),
        program => program.to_owned(),
    };
    let snapshot = OriginId::new(&id.0).ok_or_else(|| Error::corrupt("", "no identifier"))?;
    Ok(ForeignSnapshot {
        key: OriginKey { tool: Tool::Restic, repository, snapshot },
        snapshot: Snapshot {
            root: Content::Recipe(Fingerprint(file.tree.0)),
            sources: file.paths.unwrap_or_default().into_iter().map(String::into_bytes).collect(),
            host: file.hostname,
            user: file.username,
            started_ns,
            finished_ns: end.and_then(nanoseconds).unwrap_or(started_ns),
            tags: file.tags.unwrap_or_default(),
            description: file.description.unwrap_or_default(),
            statistics,
            program,
            ..Snapshot::empty()
        },
        name: String::new(),
    })
}

/// Returns a time in RFC 3339 in nanoseconds since 1970.
fn nanoseconds(text: &str) -> Option<i64> {
    DateTime::parse_from_rfc3339(text).ok()?.timestamp_nanos_opt()
}
