//! The folders at the top, which lead to the snapshots.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use cutpoint_repository::{Content, TicketId, Time};

use super::snapshots::ListedSnapshot;

/// The maximum length of a name at the top, in bytes, which is that of most file systems.
const NAME_LEN_MAX: usize = 255;
/// The name of the link to the newest snapshot.
const LATEST: &[u8] = b"latest";

/// The root folder of a snapshot.
#[derive(Debug)]
pub(super) struct SnapshotRoot {
    pub(super) id: TicketId,
    pub(super) content: Content,
    pub(super) time: Time,
}

/// An entry of a folder at the top.
#[derive(Clone, Debug)]
pub(super) enum TopEntry {
    Folder(Arc<TopFolder>),
    /// A symbolic link with this target, to a snapshot of this time.
    Link(Vec<u8>, Time),
    Snapshot(Arc<SnapshotRoot>),
}

/// A folder at the top.
#[derive(Debug, Default)]
pub(super) struct TopFolder {
    pub(super) entries: BTreeMap<Vec<u8>, TopEntry>,
    /// The time of the newest snapshot in the folder.
    pub(super) time: Time,
}

impl TopFolder {
    /// Creates the root folder for `snapshots`, oldest first.
    pub(super) fn root(snapshots: &[ListedSnapshot]) -> TopFolder {
        let mut ids = TopFolder::default();
        let (mut by_time, mut complete) = (Vec::new(), Vec::new());
        let mut hosts: BTreeMap<Vec<u8>, Vec<Target<'_>>> = BTreeMap::new();
        let mut tags: BTreeMap<Vec<u8>, Vec<Target<'_>>> = BTreeMap::new();
        let mut short_counts: HashMap<String, u32> = HashMap::new();
        for snapshot in snapshots {
            *short_counts.entry(snapshot.id.short()).or_default() += 1;
        }
        for snapshot in snapshots {
            let short = snapshot.id.short();
            let name = if short_counts[&short] > 1 { snapshot.id.to_string() } else { short };
            let ListedSnapshot { id, time, .. } = *snapshot;
            let root = SnapshotRoot { id, time, content: snapshot.root.clone() };
            ids.add(name.clone().into_bytes(), TopEntry::Snapshot(Arc::new(root)), time);
            let target = Target { snapshot, name };
            hosts.entry(escaped(&snapshot.host)).or_default().push(target.clone());
            for tag in &snapshot.tags {
                tags.entry(escaped(tag)).or_default().push(target.clone());
            }
            complete.extend((!snapshot.is_partial).then(|| target.clone()));
            by_time.push(target);
        }
        let mut root = TopFolder::default();
        root.add_latest(&complete, "");
        root.add_folder("by-time", TopFolder::of_times(&by_time, "../"));
        root.add_folder("hosts", TopFolder::of_groups(&hosts));
        root.add_folder("ids", ids);
        root.add_folder("tags", TopFolder::of_groups(&tags));
        root
    }

    fn of_groups(groups: &BTreeMap<Vec<u8>, Vec<Target<'_>>>) -> TopFolder {
        let mut folder = TopFolder::default();
        for (name, targets) in groups {
            let mut group = TopFolder::of_times(targets, "../../");
            let complete = targets.iter().filter(|target| !target.snapshot.is_partial);
            group.add_latest(&complete.cloned().collect::<Vec<_>>(), "../../");
            let time = group.time;
            folder.add(name.clone(), TopEntry::Folder(Arc::new(group)), time);
        }
        folder
    }

    /// Creates a folder of links by time. `up` leads from the folder to the root.
    fn of_times(targets: &[Target<'_>], up: &str) -> TopFolder {
        let mut folder = TopFolder::default();
        for target in targets {
            let mut name = escaped(&target.snapshot.time_name);
            if folder.entries.contains_key(&name) {
                name.extend_from_slice(format!("-{}", target.name).as_bytes());
            }
            folder.add(name, target.link(up), target.snapshot.time);
        }
        folder
    }

    fn add_latest(&mut self, targets: &[Target<'_>], up: &str) {
        if let Some(newest) = targets.last() {
            self.add(LATEST.to_vec(), newest.link(up), newest.snapshot.time);
        }
    }

    fn add_folder(&mut self, name: &str, folder: TopFolder) {
        let time = folder.time;
        self.add(name.as_bytes().to_vec(), TopEntry::Folder(Arc::new(folder)), time);
    }

    fn add(&mut self, name: Vec<u8>, entry: TopEntry, time: Time) {
        self.entries.insert(name, entry);
        self.time = self.time.max(time);
    }
}

/// A snapshot with its name in `ids`.
#[derive(Clone)]
struct Target<'a> {
    snapshot: &'a ListedSnapshot,
    name: String,
}

impl Target<'_> {
    fn link(&self, up: &str) -> TopEntry {
        TopEntry::Link(format!("{up}ids/{}", self.name).into_bytes(), self.snapshot.time)
    }
}

/// Returns a name that a folder can hold: `%` and two hexadecimal digits stand for a byte that a
/// name cannot have, and for `%`. An empty name is a single `%`. Names that are too long are cut
/// off, so that several of them can become one.
fn escaped(text: &str) -> Vec<u8> {
    let mut name = Vec::with_capacity(text.len());
    let is_dots = matches!(text, "." | "..");
    for byte in text.bytes() {
        if is_dots || matches!(byte, b'/' | b'%' | 0..32 | 127) {
            name.extend_from_slice(format!("%{byte:02X}").as_bytes());
        } else {
            name.push(byte);
        }
    }
    if name.is_empty() {
        name.push(b'%');
    }
    name.truncate(NAME_LEN_MAX);
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(id: u8, host: &str, tags: &[&str]) -> ListedSnapshot {
        ListedSnapshot {
            id: TicketId([id; 12]),
            root: Content::Empty,
            time: Time { seconds: id.into(), nanoseconds: 0 },
            time_name: format!("1970-01-01T00:00:{:02}Z", id / 10),
            host: host.to_owned(),
            tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
            is_partial: id == 99,
        }
    }

    /// Lists everything below `folder`.
    fn listed(folder: &TopFolder, path: &str) -> Vec<String> {
        let mut lines = Vec::new();
        for (name, entry) in &folder.entries {
            let path = format!("{path}/{}", String::from_utf8_lossy(name));
            match entry {
                TopEntry::Folder(folder) => lines.extend(listed(folder, &path)),
                TopEntry::Link(target, _) => {
                    lines.push(format!("{path} -> {}", String::from_utf8_lossy(target)));
                }
                TopEntry::Snapshot(_) => lines.push(path),
            }
        }
        lines
    }

    #[test]
    fn links_lead_to_snapshots() {
        let snapshots = [snapshot(17, "a", &["x"]), snapshot(18, "b", &[]), snapshot(99, "b", &[])];
        let root = TopFolder::root(&snapshots);
        let expected = [
            "/by-time/1970-01-01T00:00:01Z -> ../ids/11111111",
            "/by-time/1970-01-01T00:00:01Z-12121212 -> ../ids/12121212",
            "/by-time/1970-01-01T00:00:09Z -> ../ids/63636363",
            "/hosts/a/1970-01-01T00:00:01Z -> ../../ids/11111111",
            "/hosts/a/latest -> ../../ids/11111111",
            "/hosts/b/1970-01-01T00:00:01Z -> ../../ids/12121212",
            "/hosts/b/1970-01-01T00:00:09Z -> ../../ids/63636363",
            "/hosts/b/latest -> ../../ids/12121212",
            "/ids/11111111",
            "/ids/12121212",
            "/ids/63636363",
            "/latest -> ids/12121212",
            "/tags/x/1970-01-01T00:00:01Z -> ../../ids/11111111",
            "/tags/x/latest -> ../../ids/11111111",
        ];
        assert_eq!(listed(&root, ""), expected, "the partial snapshot is not the latest");
        assert_eq!(root.time.seconds, 99, "the newest");
    }

    #[test]
    fn equal_beginnings_of_ids_are_shown_in_full() {
        let mut other = snapshot(17, "a", &[]);
        other.id.0[11] = 0;
        let root = TopFolder::root(&[snapshot(17, "a", &[]), other]);
        let listed = listed(&root, "");
        assert!(listed.contains(&"/ids/111111111111111111111100".to_owned()), "{listed:?}");
        assert!(listed.contains(&"/ids/111111111111111111111111".to_owned()), "{listed:?}");
    }

    #[test]
    fn names_of_hosts_and_tags_stay_in_their_folder() {
        for (text, expected) in [
            ("", "%"),
            (".", "%2E"),
            ("..", "%2E%2E"),
            ("...", "..."),
            ("a/b", "a%2Fb"),
            ("a\0\n", "a%00%0A"),
            ("100%", "100%25"),
        ] {
            assert_eq!(escaped(text), expected.as_bytes(), "{text:?}");
        }
        assert_eq!(escaped(&"/".repeat(1000)).len(), 255, "a long name");
    }
}
