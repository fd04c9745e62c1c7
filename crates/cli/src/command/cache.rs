//! `cache`: shows the local copies of indexes, and bounds their size.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use cutpoint_repository::RepositoryId;
use cutpoint_repository::repo::remembered::StateFolder;

use crate::args::Cache;
use crate::event::{CachedRepository, Event, Summary};
use crate::exit::{Exit, Failure};
use crate::report::Report;
use crate::units::{self, DATE_TIME_WIDTH};
use crate::{escape, session, state};

pub(crate) fn run(args: &Cache, report: &Report) -> Result<Exit> {
    let folder = session::cache_folder().ok_or_else(|| {
        Failure::failed("no folder for the cache").with_remedy("set HOME or XDG_CACHE_HOME")
    })?;
    let states = state::folder();
    let mut copies = find(&folder, states.as_ref())?;
    let total: u64 = copies.iter().map(|copy| copy.size).sum();
    let mut kept = total;
    let mut removed_count = 0;
    if let Some(size_max) = args.max_size {
        for copy in &mut copies {
            if kept <= size_max {
                break;
            }
            remove(&copy.folder)?;
            copy.is_removed = true;
            kept -= copy.size;
            removed_count += 1;
        }
    }
    show(&copies, report)?;
    if report.is_json() {
        report.event(&Event::Summary(Summary::Cache {
            folder: folder.display().to_string(),
            size_bytes: kept,
            removed_count,
            removed_bytes: total - kept,
        }))?;
    } else {
        report.note(&format!("{} in {}.", units::size(kept), folder.display()));
        if removed_count > 0 {
            let copies = match removed_count {
                1 => "1 copy".to_owned(),
                count => format!("{count} copies"),
            };
            report.note(&format!("Removed {copies}, {}.", units::size(total - kept)));
        }
    }
    Ok(Exit::Well)
}

/// The local copy of the index of a repository.
struct Copy {
    repository: String,
    folder: PathBuf,
    size: u64,
    /// The time of the last change, in seconds since 1970.
    changed_s: i64,
    location: Option<String>,
    is_removed: bool,
}

/// Returns all copies in `folder`, the one that was changed least recently first.
fn find(folder: &Path, states: Option<&StateFolder>) -> Result<Vec<Copy>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.with_context(|| folder.display().to_string())?,
    };
    let mut copies = Vec::new();
    for entry in entries {
        let entry = entry.with_context(|| folder.display().to_string())?;
        // The folder belongs to this program. Anything else in it stays.
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(id) = RepositoryId::parse(&name) else { continue };
        let path = entry.path();
        let (size, changed) = measure(&path).with_context(|| path.display().to_string())?;
        let since_1970 = changed.duration_since(UNIX_EPOCH).unwrap_or_default();
        copies.push(Copy {
            repository: name,
            folder: path,
            size,
            changed_s: i64::try_from(since_1970.as_secs()).unwrap_or(i64::MAX),
            location: states.and_then(|states| states.location_of(id)),
            is_removed: false,
        });
    }
    copies.sort_by(|a, b| (a.changed_s, &a.repository).cmp(&(b.changed_s, &b.repository)));
    Ok(copies)
}

/// Returns the total size of everything in `folder`, and the time of its last change. What another
/// process removes meanwhile does not count.
fn measure(folder: &Path) -> io::Result<(u64, SystemTime)> {
    let mut changed = fs::symlink_metadata(folder)?.modified()?;
    let mut size = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let measured = entry.metadata().and_then(|metadata| match metadata.is_dir() {
            true => measure(&entry.path()),
            false => Ok((metadata.len(), metadata.modified()?)),
        });
        match measured {
            Ok((len, time)) => {
                size += len;
                changed = changed.max(time);
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok((size, changed))
}

/// Removes a copy. A process that uses it reads the storage instead.
fn remove(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| folder.display().to_string())
        }
        _ => Ok(()),
    }
}

fn show(copies: &[Copy], report: &Report) -> Result<()> {
    if report.is_json() {
        return copies.iter().try_for_each(|copy| {
            report.event(&Event::CachedRepository(CachedRepository {
                repository: &copy.repository,
                location: copy.location.as_deref(),
                size_bytes: copy.size,
                changed: units::rfc3339(copy.changed_s, 0),
                removed: copy.is_removed,
            }))
        });
    }
    if copies.is_empty() {
        return Ok(());
    }
    report.line(&format!(
        "{:<32}  {:>10}  {:<DATE_TIME_WIDTH$}  location",
        "repository", "size", "last change"
    ))?;
    for copy in copies {
        let location = copy.location.as_deref().unwrap_or("unknown");
        report.line(&format!(
            "{:<32}  {:>10}  {}  {}{}",
            copy.repository,
            units::size(copy.size),
            units::date_time(copy.changed_s),
            escape::for_terminal(location.as_bytes()),
            if copy.is_removed { "  (removed)" } else { "" }
        ))?;
    }
    Ok(())
}
