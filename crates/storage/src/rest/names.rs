//! The names of objects in the protocol.
//!
//! The protocol has folders of files. A listing of a folder shows the last part of each path only,
//! with the folders below left out, so that the last part has to tell the whole name. For the names
//! that a repository has, it does: containers lie in the sub-folder that follows from their name
//! (`docs/format.md`, section 2), and all other objects in no sub-folder. The paths are those of a
//! local folder then, and the same repository can be used in both ways. Any other name is escaped:
//! `=` and two hexadecimal digits replace a byte.

use crate::kind::ObjectKind;

/// The mark of an escape, which no name of a repository has.
const MARK: char = '=';
/// The length of a container's name in hexadecimal digits.
const CONTAINER_DIGITS: usize = 32;
/// The length of a ticket in hexadecimal digits.
const TICKET_DIGITS: usize = 24;
/// The maximum length of the last part of a path, in bytes.
const PART_LEN_MAX: usize = 255;

/// Returns the path of the object `name` in requests; `None` if it is not the name of an object.
pub(super) fn path_of(name: &str) -> Option<String> {
    let (folder, rest) = name.split_once('/')?;
    let is_part = |part: &str| !matches!(part, "" | "." | "..");
    if !name.split('/').all(is_part) || !folder.bytes().all(is_plain) {
        return None;
    }
    let last = rest.rsplit('/').next().unwrap_or(rest);
    let is_simple = rest.bytes().all(|byte| is_plain(byte) || byte == b'/');
    if is_simple && name_of(folder, last).as_deref() == Some(name) {
        return Some(name.to_owned());
    }
    let escaped = escape(rest);
    (escaped.len() <= PART_LEN_MAX).then(|| format!("{folder}/{escaped}"))
}

/// Returns the name of the object that a listing of `folder` shows as `part`; `None` for a file that
/// is no object.
pub(super) fn name_of(folder: &str, part: &str) -> Option<String> {
    if part.contains(MARK) {
        let rest = unescape(part)?;
        let name = format!("{folder}/{rest}");
        // Two paths never lead to one name.
        let is_own = path_of(&name).is_some_and(|path| path[folder.len() + 1..] == *part);
        return is_own.then_some(name);
    }
    match container_of(folder, part) {
        Some(container) => Some(format!("{folder}/{:02x}/{part}", spread(container))),
        None => Some(format!("{folder}/{part}")),
    }
}

/// Returns `true` if `part` can be the last part of a path, so that a server may list it.
pub(super) fn is_file_name(part: &str) -> bool {
    let is_clean = !part.chars().any(|c| c == '/' || c.is_control());
    is_clean && !matches!(part, "" | "." | "..") && part.len() <= PART_LEN_MAX
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-')
}

/// Escapes a path as one part. The result has at least one escape.
fn escape(rest: &str) -> String {
    let is_kept = |(at, byte): (usize, u8)| is_plain(byte) && at > 0;
    let one = |(at, byte): (usize, u8)| match is_kept((at, byte)) {
        true => char::from(byte).to_string(),
        false => format!("{MARK}{byte:02X}"),
    };
    rest.bytes().enumerate().map(one).collect()
}

fn unescape(part: &str) -> Option<String> {
    let mut pieces = part.split(MARK);
    let mut bytes = pieces.next()?.as_bytes().to_vec();
    for piece in pieces {
        let digits = piece.get(..2).filter(|text| text.bytes().all(|b| b.is_ascii_hexdigit()))?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        bytes.extend_from_slice(&piece.as_bytes()[2..]);
    }
    String::from_utf8(bytes).ok()
}

/// Returns the digits of the container that the object `part` of `folder` is or belongs to.
fn container_of<'a>(folder: &str, part: &'a str) -> Option<&'a str> {
    let digits = if folder == ObjectKind::Parity.folder() {
        let (container, writer) = part.rsplit_once('-')?;
        let (class, digits) = container.split_once('-')?;
        let is_class =
            [ObjectKind::Data, ObjectKind::Meta].iter().any(|kind| kind.folder() == class);
        (is_class && is_digits(writer, TICKET_DIGITS)).then_some(digits)?
    } else if [ObjectKind::Data, ObjectKind::Meta].iter().any(|kind| kind.folder() == folder) {
        part
    } else {
        return None;
    };
    is_digits(digits, CONTAINER_DIGITS).then_some(digits)
}

fn is_digits(text: &str, len: usize) -> bool {
    text.len() == len && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Returns the sub-folder of a container: the first byte of the BLAKE3 hash of its name's bytes.
fn spread(digits: &str) -> u8 {
    let pairs = digits.as_bytes().chunks_exact(2);
    let value = |digit: u8| char::from(digit).to_digit(16).unwrap_or(0).to_le_bytes()[0];
    let bytes: Vec<u8> = pairs.map(|pair| (value(pair[0]) << 4) | value(pair[1])).collect();
    blake3::hash(&bytes).as_bytes()[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the name that a listing shows for the path of `name`.
    fn listed(name: &str) -> Option<String> {
        let path = path_of(name)?;
        let (folder, rest) = path.split_once('/')?;
        name_of(folder, rest.rsplit('/').next()?)
    }

    #[test]
    fn names_of_a_repository_are_paths() {
        let ticket = "3c".repeat(12);
        let container = format!("{ticket}00000001");
        let place = spread(&container);
        for name in [
            "config/00000000000000000000".to_owned(),
            "config/00000000000000000000.copy".to_owned(),
            format!("commits/{ticket}"),
            format!("tickets/{ticket}.4294967295"),
            format!("index/{ticket}-00000001"),
            "views/00000000-000012ab".to_owned(),
            // These are from a repository in a folder.
            "data/b5/cab62967b380d0d4af4fd32f00000001".to_owned(),
            "meta/68/187be1f2c18de2b132fb3b7d00000001".to_owned(),
            format!("data/{place:02x}/{container}"),
            format!("meta/{place:02x}/{container}"),
            format!("parity/{place:02x}/data-{container}-{ticket}"),
            "tmp/reserve".to_owned(),
            format!("tmp/probe-1790000000-{0}-{0}", "0123456789abcdef"),
        ] {
            assert_eq!(path_of(&name).as_deref(), Some(&*name), "a path of a local folder");
            assert_eq!(listed(&name).as_deref(), Some(&*name), "a listing tells the name");
        }
    }

    #[test]
    fn any_other_name_is_escaped_and_comes_back() {
        let container = "3c".repeat(16);
        let wrong = !spread(&container);
        let names = [
            format!("data/{wrong:02x}/{container}"),
            format!("data/{container}"),
            format!("commits/aa/{container}"),
            format!("parity/{wrong:02x}/data-{container}-{}", "3c".repeat(12)),
            "tmp/ab/one".to_owned(),
            "tmp/a-b/two".to_owned(),
            "tmp/a=b".to_owned(),
            "tmp/=2F".to_owned(),
            "tmp/a b?#%&\u{fc}\u{1f600}".to_owned(),
        ];
        let mut paths = std::collections::BTreeSet::new();
        for name in &names {
            let path = path_of(name).expect("a name");
            assert!(path.bytes().all(|byte| is_plain(byte) || b"/=".contains(&byte)), "{path}");
            assert_ne!(path, *name, "it is escaped");
            assert_eq!(listed(name).as_deref(), Some(&**name), "{path}");
            assert!(paths.insert(path), "two names have one path");
        }
        for none in ["", "x", "/x", "x/", "x/../y", "x/.", "x//y", "x=/y", "\u{fc}/y"] {
            assert_eq!(path_of(none), None, "{none:?} was taken for a name");
        }
        assert_eq!(path_of(&format!("tmp/{}", "=".repeat(100))), None, "too long");
    }

    /// Paths that no name has are no objects.
    #[test]
    fn foreign_escapes_are_no_objects() {
        for part in ["=2e=2E", "=2Fa", "a=", "a=2", "a=zz", "=ff", "=61b=", "=61", "a=62"] {
            let name = name_of("tmp", part);
            let path = name.as_deref().and_then(path_of);
            let is_own = path.as_deref() == Some(&format!("tmp/{part}"));
            assert_eq!(name.is_some(), is_own, "{part}: {name:?}");
        }
        for part in ["..", ".", "", "a/b", "a\0", "a\n", &"x".repeat(256)] {
            assert!(!is_file_name(part), "{part:?} was taken for a name");
        }
    }

    /// Random names, and random parts, never lead two paths to one name.
    #[test]
    fn mapping_is_injective() {
        let mut random = cutpoint_testing::SplitMix64::new(7);
        let letters = ["a", "0", "=", "/", "2", "F", ".", "-", " ", "=2F", "\u{fc}", "data"];
        let mut names = std::collections::BTreeMap::new();
        for _ in 0..20_000 {
            let mut letter = || letters[usize::try_from(random.next() % 12).expect("small")];
            let rest: String = (0..5).map(|_| letter()).collect();
            let name = format!("data/{rest}");
            if let Some(path) = path_of(&name) {
                assert_eq!(listed(&name).as_deref(), Some(&*name), "{path}");
                let before = names.insert(path, name.clone());
                assert!(before.is_none_or(|before| before == name), "{name}");
            }
        }
        assert!(names.len() > 1000, "{} names", names.len());
    }
}
