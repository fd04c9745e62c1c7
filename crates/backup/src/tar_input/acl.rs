//! POSIX ACLs in the form of text, as GNU tar and libarchive write them.

use crate::source::OwnerIds;

/// The version of the binary form in extended attributes.
const VERSION: u32 = 2;
/// The id of entries that have none.
const NO_ID: u32 = u32::MAX;

/// Converts the text of an ACL to the value of the extended attribute `system.posix_acl_access` or
/// `system.posix_acl_default`. Entries are `TAG:NAME:PERMISSIONS`, optionally followed by `:ID`,
/// and end with a comma or a line feed. A name that is no number is looked up on this system if
/// there is no id. Returns `None` if the text is no such ACL, or if a name is unknown.
pub(super) fn binary_acl(text: &[u8], owners: &mut OwnerIds) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(text).ok()?;
    let mut entries = Vec::new();
    for line in text.split([',', '\n']) {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let fields: Vec<&str> = line.split(':').map(str::trim).collect();
        // `mask` and `other` may lack the empty name.
        let (tag, name, permissions, id) = match fields[..] {
            [tag @ ("mask" | "m" | "other" | "o"), permissions] => (tag, "", permissions, None),
            [tag, name, permissions] => (tag, name, permissions, None),
            [tag, name, permissions, id] => (tag, name, permissions, Some(id)),
            _ => return None,
        };
        let mut number = |is_user: bool| {
            if let Some(id) = id.or(Some(name)).and_then(|id| id.parse().ok()) {
                return Some(id);
            }
            if is_user { owners.user(name) } else { owners.group(name) }
        };
        let (code, id) = match (tag, name) {
            ("user" | "u", "") => (0x01_u16, NO_ID),
            ("user" | "u", _) => (0x02, number(true)?),
            ("group" | "g", "") => (0x04, NO_ID),
            ("group" | "g", _) => (0x08, number(false)?),
            ("mask" | "m", _) => (0x10, NO_ID),
            ("other" | "o", _) => (0x20, NO_ID),
            _ => return None,
        };
        entries.push((code, id, bits(permissions)?));
    }
    if entries.is_empty() {
        return None;
    }
    // The kernel requires this order.
    entries.sort_unstable();
    let mut value = VERSION.to_le_bytes().to_vec();
    for (code, id, permissions) in entries {
        value.extend_from_slice(&code.to_le_bytes());
        value.extend_from_slice(&permissions.to_le_bytes());
        value.extend_from_slice(&id.to_le_bytes());
    }
    Some(value)
}

/// Returns the permission bits of a text such as `rw-`.
fn bits(text: &str) -> Option<u16> {
    let mut bits = 0;
    for character in text.chars() {
        bits |= match character {
            'r' => 4,
            'w' => 2,
            'x' => 1,
            '-' => 0,
            _ => return None,
        };
    }
    (!text.is_empty()).then_some(bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_becomes_the_attribute_of_the_kernel() {
        let mut owners = OwnerIds::default();
        let text = b"user::rw-\ngroup::r--\nmask::rw-\nuser:1000:rw-\nother::---\n";
        let mut expected = 2_u32.to_le_bytes().to_vec();
        for (tag, permissions, id) in
            [(1_u16, 6_u16, NO_ID), (2, 6, 1000), (4, 4, NO_ID), (16, 6, NO_ID), (32, 0, NO_ID)]
        {
            expected.extend([tag.to_le_bytes(), permissions.to_le_bytes()].concat());
            expected.extend(id.to_le_bytes());
        }
        assert_eq!(binary_acl(text, &mut owners), Some(expected.clone()), "GNU tar");
        let text = b"user::rw-,user:no such user:rw-:1000,group::r--,mask::rw-,other::---";
        assert_eq!(binary_acl(text, &mut owners), Some(expected), "libarchive");
        for text in ["", "user::rwz", "user:no such user:r--", "king::rwx", "user"] {
            assert_eq!(binary_acl(text.as_bytes(), &mut owners), None, "{text:?}");
        }
    }
}
