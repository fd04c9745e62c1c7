//! Access control lists, which Borg keeps as text, and entries as extended attributes of Linux.

/// The version of the attribute.
const VERSION: u32 = 2;

/// The names of the attributes.
pub(super) const ACCESS: &[u8] = b"system.posix_acl_access";
pub(super) const DEFAULT: &[u8] = b"system.posix_acl_default";

/// The identifier in an entry that has none.
const UNDEFINED: u32 = u32::MAX;

/// A list is malformed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed;

/// Returns the attribute for the text of a list, such as `user::rwx`, one entry a line; `None` if it
/// has no entry. The number at the end of an entry counts, not the name.
///
/// # Errors
///
/// Fails if an entry is malformed.
pub(super) fn attribute(text: &[u8]) -> Result<Option<Vec<u8>>, Malformed> {
    let text = std::str::from_utf8(text).map_err(|_| Malformed)?;
    let mut entries = Vec::new();
    for line in text.split(['\n', ',']) {
        // Rights that the mask limits have a comment, of which Borg leaves the tabs before it.
        let line = line.split('#').next().unwrap_or_default().trim();
        if !line.is_empty() {
            entries.push(entry(line).ok_or(Malformed)?);
        }
    }
    if entries.is_empty() {
        return Ok(None);
    }
    entries.sort_unstable();
    let mut attribute = VERSION.to_le_bytes().to_vec();
    for (tag, id, permissions) in entries {
        attribute.extend(tag.to_le_bytes());
        attribute.extend(permissions.to_le_bytes());
        attribute.extend(id.to_le_bytes());
    }
    Ok(Some(attribute))
}

/// Returns the tag, the identifier and the permissions of an entry; `None` if it is malformed.
fn entry(line: &str) -> Option<(u16, u32, u16)> {
    let mut fields = line.split(':');
    let kind = fields.next()?;
    let name = fields.next()?;
    let permissions = fields.next()?;
    let number = fields.next();
    let mut bits = 0;
    for letter in permissions.trim().chars() {
        bits |= match letter {
            'r' => 4,
            'w' => 2,
            'x' => 1,
            '-' => 0,
            _ => return None,
        };
    }
    let tag = match (kind, name.is_empty()) {
        ("user", true) => 0x01,
        ("user", false) => 0x02,
        ("group", true) => 0x04,
        ("group", false) => 0x08,
        ("mask", _) => 0x10,
        ("other", _) => 0x20,
        _ => return None,
    };
    let id = match tag {
        0x02 | 0x08 => number.unwrap_or(name).parse().ok()?,
        _ => UNDEFINED,
    };
    Some((tag, id, bits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_on_effective_rights_are_left_out() {
        let plain = attribute(b"user::---\nuser:me:rw-:7\ngroup::r--\nmask::---\nother::---\n");
        assert!(matches!(plain, Ok(Some(_))), "a list");
        let tabs =
            "user::---\nuser:me:rw-\t\t\t:7\ngroup::r--\t\t\t#effective:---\nmask::---\nother::---";
        assert_eq!(attribute(tabs.as_bytes()), plain, "what Borg keeps");
    }

    #[test]
    fn text_becomes_the_attribute_of_linux() {
        let text = b"user::rwx\nuser:me:r--:1000\ngroup::r-x\nmask::r-x\nother::---\n";
        let expected = [
            &[2, 0, 0, 0][..],
            &[1, 0, 7, 0, 255, 255, 255, 255],
            &[2, 0, 4, 0, 0xe8, 3, 0, 0],
            &[4, 0, 5, 0, 255, 255, 255, 255],
            &[0x10, 0, 5, 0, 255, 255, 255, 255],
            &[0x20, 0, 0, 0, 255, 255, 255, 255],
        ];
        assert_eq!(attribute(text), Ok(Some(expected.concat())));
        for empty in ["", "\n"] {
            assert_eq!(attribute(empty.as_bytes()), Ok(None), "{empty:?}");
        }
        for malformed in ["user", "user::rwq", "door::rwx", "user:me:rwx", "user:1:r:x"] {
            assert_eq!(attribute(malformed.as_bytes()), Err(Malformed), "{malformed}");
        }
        assert_eq!(attribute(b"\xff"), Err(Malformed), "not UTF-8");
        assert!(matches!(attribute(b"user:7:rwx"), Ok(Some(_))), "a number as a name");
    }
}
