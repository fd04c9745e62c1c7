//! Archives: the snapshots of Borg.

use chrono::NaiveDateTime;
use cutpoint_backup::copy::ForeignSnapshot;
use cutpoint_repository::format::commit::{OriginId, OriginKey, Tool};
use cutpoint_repository::{Content, Fingerprint, Snapshot, Statistics};
use cutpoint_storage::{Error, Kind, Result};
use rmpv::Value;

use super::item::id_of;
use super::message::{bytes, get, get_number, get_text, malformed};

/// An archive in the manifest.
#[derive(Clone, Debug)]
pub(super) struct Listed {
    pub(super) name: String,
    pub(super) id: [u8; 32],
}

/// An archive.
#[derive(Clone, Debug)]
pub(super) struct Archive {
    /// The objects that have the items, in order.
    pub(super) items: Vec<[u8; 32]>,
    pub(super) snapshot: ForeignSnapshot,
}

/// Returns the archives of a manifest.
///
/// # Errors
///
/// Returns `Corrupt` if the manifest is malformed, and `Unsupported` if its version is not known.
pub(super) fn listed(manifest: &Value) -> Result<Vec<Listed>> {
    require_version(manifest, "manifest")?;
    let archives = get(manifest, "archives").and_then(Value::as_map);
    let archives = archives.ok_or_else(|| malformed("a manifest without archives"))?;
    let listed = archives.iter().map(|(name, about)| {
        let name = bytes(name).map(|name| String::from_utf8_lossy(name).into_owned());
        let id = get(about, "id").and_then(id_of);
        let (name, id) = name.zip(id).ok_or_else(|| malformed("an archive in the manifest"))?;
        Ok(Listed { name, id })
    });
    listed.collect()
}

fn require_version(value: &Value, object: &str) -> Result<()> {
    match get_number(value, "version") {
        Some(1) => Ok(()),
        version => {
            let version = version.map_or("none".to_owned(), |version| version.to_string());
            let message = format!("version {version} (expected 1, that of Borg 1)");
            Err(Error::new(Kind::Unsupported, object, message))
        }
    }
}

/// Returns the archive `listed` of `repository`, which has these properties.
///
/// # Errors
///
/// Returns `Corrupt` if they are malformed.
pub(super) fn archive(repository: OriginId, listed: &Listed, about: &Value) -> Result<Archive> {
    require_version(about, "archive")?;
    let items = get(about, "items").and_then(Value::as_array);
    let items = items.ok_or_else(|| malformed("an archive without items"))?;
    let items: Option<Vec<_>> = items.iter().map(id_of).collect();
    let items = items.ok_or_else(|| malformed("the items of an archive"))?;
    let started_ns = get_text(about, "time").as_deref().and_then(nanoseconds);
    let started_ns = started_ns.ok_or_else(|| malformed("the time of an archive"))?;
    let finished_ns = get_text(about, "time_end").as_deref().and_then(nanoseconds);
    let number = |key: &str| get_number(about, key).and_then(|it| u64::try_from(it).ok());
    let statistics = Statistics {
        file_count: number("nfiles").unwrap_or(0),
        size: number("size").unwrap_or(0),
        ..Statistics::default()
    };
    let comment = get_text(about, "comment").unwrap_or_default();
    let description = match &*comment {
        "" => listed.name.clone(),
        comment => format!("{}: {comment}", listed.name),
    };
    let snapshot = OriginId::new(&listed.id).ok_or_else(|| malformed("no identifier"))?;
    let program = "borg".to_owned();
    Ok(Archive {
        items,
        snapshot: ForeignSnapshot {
            key: OriginKey { tool: Tool::Borg, repository, snapshot },
            snapshot: Snapshot {
                root: Content::Recipe(Fingerprint(listed.id)),
                sources: sources(about),
                host: get_text(about, "hostname").unwrap_or_default(),
                user: get_text(about, "username").unwrap_or_default(),
                started_ns,
                finished_ns: finished_ns.unwrap_or(started_ns),
                description,
                statistics,
                program,
                partial: is_checkpoint(&listed.name),
                ..Snapshot::empty()
            },
            name: listed.name.clone(),
        },
    })
}

/// Returns `true` if an archive is what an interrupted run has left.
fn is_checkpoint(name: &str) -> bool {
    let behind = name.rsplit_once(".checkpoint").map(|(_, behind)| behind);
    behind.is_some_and(|behind| {
        let number = behind.strip_prefix('.');
        behind.is_empty() || number.is_some_and(|it| it.bytes().all(|byte| byte.is_ascii_digit()))
    })
}

/// Returns a time of Borg, which is in UTC, in nanoseconds since 1970.
fn nanoseconds(text: &str) -> Option<i64> {
    if let Ok(time) = chrono::DateTime::parse_from_rfc3339(text) {
        return time.timestamp_nanos_opt();
    }
    let time = NaiveDateTime::parse_from_str(text, "%Y-%m-%dT%H:%M:%S%.f").ok()?;
    time.and_utc().timestamp_nanos_opt()
}

/// The options of `borg create` with a value that follows as a word of its own.
const OPTIONS_WITH_VALUE: [&str; 33] = [
    "--exclude",
    "-e",
    "--exclude-from",
    "--pattern",
    "--patterns-from",
    "--exclude-if-present",
    "--comment",
    "--timestamp",
    "--checkpoint-interval",
    "-c",
    "--chunker-params",
    "--compression",
    "-C",
    "--files-cache",
    "--stdin-name",
    "--stdin-user",
    "--stdin-group",
    "--stdin-mode",
    "--filter",
    "--paths-delimiter",
    "--lock-wait",
    "--umask",
    "--remote-path",
    "--remote-ratelimit",
    "--upload-ratelimit",
    "--remote-buffer",
    "--upload-buffer",
    "--rsh",
    "--debug-topic",
    "--debug-profile",
    "--log-json-file",
    "--show-rc-file",
    "--files-changed",
];

/// Returns the paths that were saved, as far as the command line of `borg create` shows them.
fn sources(about: &Value) -> Vec<Vec<u8>> {
    let line = get(about, "cmdline").or_else(|| get(about, "command_line"));
    let words = line.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let words: Vec<&[u8]> = words.iter().filter_map(bytes).collect();
    let is_archive = |word: &&[u8]| word.windows(2).any(|pair| pair == b"::");
    let behind = words.iter().position(is_archive).map_or(words.len(), |at| at + 1);
    let mut sources = Vec::new();
    let mut rest = words[behind..].iter();
    let mut are_options = true;
    while let Some(word) = rest.next() {
        match *word {
            b"--" if are_options => are_options = false,
            word if are_options && word.starts_with(b"-") && word.len() > 1 => {
                if OPTIONS_WITH_VALUE.iter().any(|option| option.as_bytes() == word) {
                    rest.next();
                }
            }
            word => sources.push(word.to_vec()),
        }
    }
    sources
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(fields: Vec<(&str, Value)>) -> Value {
        Value::Map(fields.into_iter().map(|(key, value)| (key.into(), value)).collect())
    }

    #[test]
    fn sources_follow_the_archive_on_the_command_line() {
        let of = |line: &str| {
            let words = line.split(' ').map(Value::from).collect();
            let sources = sources(&map(vec![("cmdline", Value::Array(words))]));
            let sources = sources.iter().map(|it| String::from_utf8_lossy(it).into_owned());
            sources.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(of("borg create repo::a /home /etc"), "/home /etc");
        assert_eq!(of("borg create --exclude /x repo::a -C zstd --stats /home -e *.o"), "/home");
        assert_eq!(of("borg create ::a --exclude=/x -- -odd"), "-odd");
        assert_eq!(of("borg create ::a -"), "-");
        assert_eq!(of("borg import-tar"), "");
    }

    #[test]
    fn checkpoints_are_told_from_archives() {
        for name in ["a.checkpoint", "a.checkpoint.2"] {
            assert!(is_checkpoint(name), "{name}");
        }
        for name in ["a", "checkpoint", "a.checkpoints", "a.checkpoint.x", "a.checkpoint.1.b"] {
            assert!(!is_checkpoint(name), "{name}");
        }
    }

    #[test]
    fn hostile_manifests_and_archives_are_refused() {
        let repository = OriginId::new(&[1; 32]).expect("an id");
        let one = Listed { name: "one".to_owned(), id: [2; 32] };
        let id = Value::Binary(vec![3; 32]);
        let about = |version: i64, time: &str, items: Value| {
            let fields = vec![("version", version.into()), ("time", time.into()), ("items", items)];
            archive(repository, &one, &map(fields))
        };
        let time = "2024-01-02T03:04:05.000006";
        let made = about(1, time, Value::Array(vec![id.clone()])).expect("a valid archive");
        assert_eq!(made.snapshot.snapshot.started_ns, 1_704_164_645_000_006_000);
        assert_eq!(made.items, [[3; 32]]);
        about(2, time, Value::Array(vec![])).expect_err("the version of Borg 2");
        about(1, "yesterday", Value::Array(vec![])).expect_err("no time");
        about(1, time, Value::Array(vec![7.into()])).expect_err("no identifiers");
        about(1, time, Value::Nil).expect_err("no items");
        listed(&map(vec![("version", 1.into())])).expect_err("no archives");
        let archives = map(vec![("one", map(vec![("id", Value::Binary(vec![1]))]))]);
        listed(&map(vec![("version", 1.into()), ("archives", archives)])).expect_err("a short id");
        listed(&Value::Nil).expect_err("no map");
    }
}
