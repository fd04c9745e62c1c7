//! The versions of a file in the snapshots of a host.

use cutpoint_repository::{Content, Entry, EntryKind};
use serde_json::{Value, json};

use super::failure::Failure;
use super::listing::time_of;
use super::query::Query;
use super::shared::Shared;

/// The maximum size of files whose bytes are compared, in bytes. Larger ones share no chunks with others
/// by chance.
const COMPARED_SIZE_MAX: u64 = 1 << 20;
/// The maximum number of snapshots that are looked at, the newest ones.
const SNAPSHOTS_MAX: usize = 2000;

/// Returns the different contents that a path has had, newest first, each with its snapshots.
pub(super) fn versions(shared: &Shared, query: &Query) -> Result<Value, Failure> {
    let (view, id) = shared.snapshot(query.required("snapshot")?)?;
    let path = query.path();
    let all = view.snapshots();
    let host = all.iter().find(|(known, _)| *known == id).map(|(_, snapshot)| &snapshot.host);
    let mut same: Vec<_> = all.iter().filter(|(_, it)| Some(&it.host) == host).collect();
    same.sort_by_key(|(id, snapshot)| (std::cmp::Reverse(snapshot.started_ns), *id));
    let mut versions: Vec<Version> = Vec::new();
    for (id, snapshot) in same.into_iter().take(SNAPSHOTS_MAX) {
        // A snapshot in which the path cannot be read has no version of it.
        let Ok(Some(entry)) = shared.contents.find(&snapshot.root, &path) else { continue };
        if entry.kind != EntryKind::File {
            continue;
        }
        let known = versions.iter().position(|it| it.contents.contains(&entry.content));
        let known = known.or_else(|| {
            let is_same = |it: &Version| has_same_bytes(shared, &it.entry, &entry);
            versions.iter().position(is_same)
        });
        let version = match known {
            Some(at) => &mut versions[at],
            None => {
                versions.push(Version {
                    entry: entry.clone(),
                    contents: Vec::new(),
                    snapshots: Vec::new(),
                });
                let last = versions.len() - 1;
                &mut versions[last]
            }
        };
        version.snapshots.push(id.to_string());
        if !version.contents.contains(&entry.content) {
            version.contents.push(entry.content);
        }
    }
    let described = versions.into_iter().map(|version| {
        json!({
            "size": version.entry.size,
            "time": time_of(&version.entry),
            "snapshots": version.snapshots,
        })
    });
    Ok(json!({ "versions": described.collect::<Vec<_>>() }))
}

/// A version of a file.
struct Version {
    /// The file in the newest snapshot that has the version.
    entry: Entry,
    /// The places in which its bytes are stored. Small files share chunks, so that equal bytes can lie
    /// in several.
    contents: Vec<Content>,
    snapshots: Vec<String>,
}

/// Returns `true` if two small files have the same bytes.
fn has_same_bytes(shared: &Shared, one: &Entry, other: &Entry) -> bool {
    if one.size != other.size || one.size > COMPARED_SIZE_MAX {
        return false;
    }
    let len = usize::try_from(one.size).unwrap_or(usize::MAX);
    let bytes = |entry: &Entry| shared.contents.read(shared.new_reading(), entry, 0, len).ok();
    matches!((bytes(one), bytes(other)), (Some(one), Some(other)) if one == other)
}
