//! Nodes of trees, which become entries.

use chrono::DateTime;
use cutpoint_repository::format::recipe::{RAW_LEN_MAX, Segment};
use cutpoint_repository::format::tree::{Defect, check_name};
use cutpoint_repository::{Content, Entry, EntryKind, Fingerprint, Time};
use cutpoint_storage::{Error, Result};
use serde::Deserialize;

use super::json::{Base64, Id, decode};

/// A tree.
#[derive(Deserialize)]
struct Tree {
    nodes: Option<Vec<Node>>,
}

#[derive(Deserialize)]
struct Node {
    name: String,
    #[serde(rename = "type")]
    kind: String,
    /// The permissions as Go's `os.FileMode` has them.
    #[serde(default)]
    mode: u32,
    #[serde(default)]
    mtime: Option<String>,
    #[serde(default)]
    ctime: Option<String>,
    #[serde(default)]
    uid: u32,
    #[serde(default)]
    gid: u32,
    #[serde(default)]
    user: String,
    #[serde(default)]
    group: String,
    #[serde(default)]
    inode: u64,
    #[serde(default)]
    device_id: u64,
    #[serde(default)]
    size: u64,
    #[serde(default)]
    links: u64,
    #[serde(default)]
    linktarget: String,
    /// The target of a link that is not UTF-8.
    #[serde(default)]
    linktarget_raw: Option<Base64>,
    #[serde(default)]
    extended_attributes: Option<Vec<Attribute>>,
    /// The number of a device.
    #[serde(default)]
    device: u64,
    #[serde(default)]
    content: Option<Vec<Id>>,
    #[serde(default)]
    subtree: Option<Id>,
}

#[derive(Deserialize)]
struct Attribute {
    name: String,
    #[serde(default)]
    value: Base64,
}

/// Decodes a tree. `size_of` returns the size of a blob; `None` if the repository lacks it.
///
/// # Errors
///
/// Returns `Corrupt` if the tree is malformed, or has a name that no folder can hold.
pub(super) fn entries(text: &[u8], size_of: impl Fn(&Id) -> Option<u64>) -> Result<Vec<Entry>> {
    let tree: Tree = decode(text)?;
    let nodes = tree.nodes.unwrap_or_default();
    let mut entries = Vec::with_capacity(nodes.len());
    for node in nodes {
        entries.extend(entry(node, &size_of)?);
    }
    // Restic sorts by the escaped names.
    entries.sort_by(|a: &Entry, b: &Entry| a.name.cmp(&b.name));
    if let Some(pair) = entries.windows(2).find(|pair| pair[0].name == pair[1].name) {
        let name = String::from_utf8_lossy(&pair[0].name).into_owned();
        return Err(Error::corrupt("", format!("malformed: two nodes are named {name:?}")));
    }
    Ok(entries)
}

/// Returns the entry of a node; `None` for a node that stands for nothing that can be restored.
fn entry(node: Node, size_of: impl Fn(&Id) -> Option<u64>) -> Result<Option<Entry>> {
    let kind = match &*node.kind {
        "file" => EntryKind::File,
        "dir" => EntryKind::Folder,
        "symlink" => EntryKind::Symlink,
        "dev" => EntryKind::BlockDevice,
        "chardev" => EntryKind::CharDevice,
        "fifo" => EntryKind::Fifo,
        "socket" => EntryKind::Socket,
        // A name of which restic could not tell the type, and no newer type.
        "irregular" | "" => return Ok(None),
        other => {
            let message = format!("node of the unknown type `{}`", other.escape_debug());
            return Err(Error::corrupt("", message));
        }
    };
    let mut entry = Entry::new(unquote(&node.name), kind);
    check_name(&entry.name)?;
    entry.mode = mode(node.mode);
    (entry.user_id, entry.group_id) = (node.uid, node.gid);
    (entry.user, entry.group) = (node.user, node.group);
    entry.mtime = time(node.mtime.as_deref());
    entry.ctime = time(node.ctime.as_deref());
    entry.inode = node.inode;
    entry.device = node.device_id;
    if kind != EntryKind::Folder {
        entry.links = node.links.max(1);
    }
    if matches!(kind, EntryKind::BlockDevice | EntryKind::CharDevice) {
        entry.device_number = device_number(node.device);
    }
    let attributes = node.extended_attributes.unwrap_or_default();
    entry.xattrs = attributes.into_iter().map(|it| (it.name.into_bytes(), it.value.0)).collect();
    entry.xattrs.sort();
    entry.xattrs.dedup_by(|a, b| a.0 == b.0);
    match kind {
        EntryKind::File => {
            entry.content = content(&node.content.unwrap_or_default(), node.size, size_of);
            entry.size = match &entry.content {
                Content::Segments(segments) => segments.iter().map(Segment::length).sum(),
                _ => 0,
            };
            // The bytes that restic has read count, in case the file changed meanwhile.
            if entry.size < node.size {
                entry.defect = Some(Defect::Short);
            }
        }
        EntryKind::Folder => {
            let subtree =
                node.subtree.ok_or_else(|| Error::corrupt("", "folder without a tree"))?;
            entry.content = Content::Recipe(Fingerprint(subtree.0));
        }
        EntryKind::Symlink => {
            let target = node.linktarget_raw.map(|raw| raw.0).filter(|raw| !raw.is_empty());
            let target = target.unwrap_or_else(|| node.linktarget.into_bytes());
            if target.len() > RAW_LEN_MAX {
                let message =
                    format!("link of {} B (expected at most {RAW_LEN_MAX})", target.len());
                return Err(Error::corrupt("", message));
            }
            entry.size = target.len() as u64;
            entry.content = Content::Raw(target);
        }
        _ => {}
    }
    Ok(Some(entry))
}

/// Returns the content of a file of `size` bytes that consists of `blobs`.
fn content(blobs: &[Id], size: u64, size_of: impl Fn(&Id) -> Option<u64>) -> Content {
    let sizes: Vec<Option<u64>> = blobs.iter().map(size_of).collect();
    let known: u64 = sizes.iter().flatten().fold(0, |sum, size| sum.saturating_add(*size));
    let absent_count = sizes.iter().filter(|size| size.is_none()).count() as u64;
    // Absent blobs share the rest of the file. Reading them fails.
    let absent_size = size.saturating_sub(known).checked_div(absent_count).unwrap_or(1).max(1);
    let segments = blobs.iter().zip(sizes).map(|(id, size)| Segment::Chunk {
        fingerprint: Fingerprint(id.0),
        offset: 0,
        length: size.unwrap_or(absent_size),
    });
    let segments: Vec<_> = segments.filter(|segment| segment.length() > 0).collect();
    match segments.is_empty() {
        true => Content::Empty,
        false => Content::Segments(segments),
    }
}

/// Returns the permission bits of Go's `os.FileMode`.
fn mode(mode: u32) -> u32 {
    let special = [(1 << 23, 0o4000), (1 << 22, 0o2000), (1 << 20, 0o1000)];
    let special = special.into_iter().filter(|(bit, _)| mode & bit != 0).map(|(_, bit)| bit);
    mode & 0o777 | special.sum::<u32>()
}

/// Returns the parts of a device number of Linux.
fn device_number(device: u64) -> u64 {
    let major = device >> 8 & 0xfff | device >> 32 & 0xffff_f000;
    let minor = device & 0xff | device >> 12 & 0xffff_ff00;
    major << 32 | minor & 0xffff_ffff
}

/// Returns a time in RFC 3339. A time that cannot be read, or that a node lacks, is 1970.
fn time(text: Option<&str>) -> Time {
    let parsed = text.and_then(|text| DateTime::parse_from_rfc3339(text).ok());
    parsed.map_or_else(Time::default, |time| Time {
        seconds: time.timestamp(),
        // A leap second counts as the next one.
        nanoseconds: time.timestamp_subsec_nanos().min(999_999_999),
    })
}

/// Returns the bytes of a name as Go's `strconv.Quote` has escaped it, without the quotes. An
/// invalid escape stands for itself.
fn unquote(name: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(name.len());
    let mut rest = name;
    while let Some(at) = rest.find('\\') {
        bytes.extend_from_slice(&rest.as_bytes()[..at]);
        rest = &rest[at..];
        match escape(rest) {
            Some((value, len)) => {
                bytes.extend(value);
                rest = &rest[len..];
            }
            None => {
                bytes.push(b'\\');
                rest = &rest[1..];
            }
        }
    }
    bytes.extend_from_slice(rest.as_bytes());
    bytes
}

/// Returns the bytes of the escape at the beginning of `text`, and its length.
fn escape(text: &str) -> Option<(Vec<u8>, usize)> {
    let kind = *text.as_bytes().get(1)?;
    let digits = |count: usize| {
        let digits = text.get(2..2 + count)?;
        let is_plain = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        u32::from_str_radix(digits, 16).ok().filter(|_| is_plain)
    };
    let of_char = |count: usize| {
        let text = char::from_u32(digits(count)?)?.to_string();
        Some((text.into_bytes(), 2 + count))
    };
    let simple = |byte: u8| Some((vec![byte], 2));
    match kind {
        b'a' => simple(7),
        b'b' => simple(8),
        b'f' => simple(12),
        b'n' => simple(b'\n'),
        b'r' => simple(b'\r'),
        b't' => simple(b'\t'),
        b'v' => simple(11),
        b'\\' | b'"' | b'\'' => simple(kind),
        b'x' => Some((vec![u8::try_from(digits(2)?).ok()?], 4)),
        b'u' => of_char(4),
        b'U' => of_char(8),
        b'0'..=b'7' => {
            let digits = text.get(1..4)?;
            let value = u8::from_str_radix(digits, 8).ok()?;
            Some((vec![value], 4))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unquoted() {
        for (quoted, bytes) in [
            ("plain", &b"plain"[..]),
            ("\u{e4}", "\u{e4}".as_bytes()),
            (r"a\nb\t\\\x22", b"a\nb\t\\\x22"),
            (r#"\"q\""#, b"\"q\""),
            (r"\xff\xfe", b"\xff\xfe"),
            (r"\u00a0\U0001f600", "\u{a0}\u{1f600}".as_bytes()),
            (r"\101\377", b"A\xff"),
            (r"\a\b\f\r\v", b"\x07\x08\x0c\r\x0b"),
            // Invalid escapes.
            (r"\", b"\\"),
            (r"\x", b"\\x"),
            (r"\xg1", b"\\xg1"),
            (r"\ud800", b"\\ud800"),
            ("\\\u{e4}", "\\\u{e4}".as_bytes()),
            (r"\x+1", b"\\x+1"),
            ("\\x\u{e4}", "\\x\u{e4}".as_bytes()),
        ] {
            assert_eq!(unquote(quoted), bytes, "{quoted}");
        }
    }

    #[test]
    fn modes_and_devices_are_converted() {
        assert_eq!(mode(0o755), 0o755);
        assert_eq!(mode(1 << 31 | 0o700), 0o700, "a folder");
        assert_eq!(mode(1 << 23 | 1 << 22 | 1 << 20 | 0o123), 0o7123);
        assert_eq!(device_number(0x0103), 1 << 32 | 3);
        assert_eq!(device_number(0x0000_1234_5678_9abc), {
            let (major, minor) = (rustix_major(0x1234_5678_9abc), rustix_minor(0x1234_5678_9abc));
            major << 32 | minor
        });
    }

    /// The definitions of glibc.
    fn rustix_major(device: u64) -> u64 {
        (device & 0x0000_0000_000f_ff00) >> 8 | (device & 0xffff_f000_0000_0000) >> 32
    }

    fn rustix_minor(device: u64) -> u64 {
        device & 0x0000_0000_0000_00ff | (device & 0x0000_0fff_fff0_0000) >> 12
    }

    fn decoded(nodes: &str) -> Result<Vec<Entry>> {
        let size = |id: &Id| (id.0[0] != 0xff).then_some(u64::from(id.0[0]));
        entries(format!(r#"{{"nodes":[{nodes}]}}"#).as_bytes(), size)
    }

    #[test]
    fn nodes_become_entries_in_the_order_of_their_bytes() {
        let id = |digits: &str| digits.repeat(32);
        let nodes = format!(
            r#"{{"name":"b","type":"file","mode":420,"mtime":"2024-02-29T12:00:00.123456789+01:00",
                "ctime":"1969-12-31T23:59:59.5Z","uid":1,"gid":2,"user":"u","group":"g","inode":7,
                "device_id":66306,"size":5,"links":2,"content":["{0}","{1}"],
                "extended_attributes":[{{"name":"user.b","value":"AAE="}},
                    {{"name":"user.a","value":null}}]}},
            {{"name":"\\xff","type":"symlink","linktarget":"?","linktarget_raw":"/w=="}},
            {{"name":"a","type":"dir","mode":2147484141,"subtree":"{0}"}},
            {{"name":"irregular","type":"irregular"}},
            {{"name":"empty","type":"file","content":null}},
            {{"name":"null","type":"chardev","device":259}}"#,
            id("02"),
            id("03")
        );
        let entries = decoded(&nodes).expect("a valid tree");
        let names: Vec<_> = entries.iter().map(|entry| &entry.name[..]).collect();
        assert_eq!(names, [&b"a"[..], b"b", b"empty", b"null", b"\xff"]);
        let file = &entries[1];
        assert_eq!((file.mode, file.user_id, file.group_id, file.links), (0o644, 1, 2, 2));
        assert_eq!((&*file.user, &*file.group, file.inode, file.device), ("u", "g", 7, 66306));
        let (mtime, ctime) = (file.mtime, file.ctime);
        assert_eq!((mtime.seconds, mtime.nanoseconds), (1_709_204_400, 123_456_789));
        assert_eq!((ctime.seconds, ctime.nanoseconds), (-1, 500_000_000));
        let attributes = [(b"user.a".to_vec(), vec![]), (b"user.b".to_vec(), vec![0, 1])];
        assert_eq!(file.xattrs, attributes);
        assert_eq!((file.size, file.defect), (5, None));
        assert_eq!(entries[2].content, Content::Empty);
        assert_eq!(entries[3].device_number, 1 << 32 | 3);
        assert_eq!(entries[4].content, Content::Raw(vec![0xff]));
    }

    #[test]
    fn absent_blobs_keep_their_place() {
        let id = |digits: &str| digits.repeat(32);
        let node = |size: u64| {
            let (known, absent) = (id("05"), id("ff"));
            let content = format!(r#""content":["{known}","{absent}"]"#);
            let entries =
                decoded(&format!(r#"{{"name":"f","type":"file","size":{size},{content}}}"#));
            entries.expect("a valid tree").remove(0)
        };
        for (size, expected) in [(12, 12), (0, 6), (5, 6)] {
            let entry = node(size);
            assert_eq!(entry.size, expected, "{size}");
            let Content::Segments(segments) = entry.content else { panic!("it has a content") };
            assert_eq!(segments.len(), 2);
        }
    }

    #[test]
    fn hostile_nodes_are_refused() {
        for nodes in [
            r#"{"name":"","type":"file"}"#,
            r#"{"name":"..","type":"file"}"#,
            r#"{"name":"a/b","type":"file"}"#,
            r#"{"name":"\\x2e\\x2e","type":"file"}"#,
            r#"{"name":"a\u0000","type":"file"}"#,
            r#"{"name":"a","type":"dir"}"#,
            r#"{"name":"a","type":"door"}"#,
            r#"{"name":"a","type":"file","mode":-1}"#,
            r#"{"name":"a","type":"file","content":["00"]}"#,
            r#"{"name":"a","type":"fifo"},{"name":"a","type":"fifo"}"#,
            r#"{"name":"a","type":"fifo"},{"name":"\\x61","type":"fifo"}"#,
            r#"{"name":"a"}"#,
            "7",
        ] {
            assert!(decoded(nodes).expect_err(nodes).is_loss(), "{nodes}");
        }
        let long =
            format!(r#"{{"name":"a","type":"symlink","linktarget":"{}"}}"#, "x".repeat(5000));
        assert!(decoded(&long).expect_err("a long link").is_loss());
        // Times that do not exist are no reason to lose a file.
        let odd = r#"{"name":"a","type":"fifo","mtime":"0000-99-99T00:00:00Z"}"#;
        assert_eq!(decoded(odd).expect("a valid tree")[0].mtime, Time::default());
    }
}
