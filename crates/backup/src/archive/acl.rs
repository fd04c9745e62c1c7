//! POSIX ACLs in the form of text, which GNU tar and libarchive extract.

/// The version of the binary form in extended attributes.
const VERSION: u32 = 2;

/// Converts the value of the extended attribute `system.posix_acl_access` or
/// `system.posix_acl_default` to text: lines `TAG:ID:PERMISSIONS`. Users and groups stand by their
/// number, as in the value. Returns `None` if the value is no such ACL.
pub(super) fn acl_text(value: &[u8]) -> Option<String> {
    let (version, entries) = value.split_first_chunk()?;
    if u32::from_le_bytes(*version) != VERSION || entries.is_empty() || entries.len() % 8 != 0 {
        return None;
    }
    let mut text = String::new();
    for entry in entries.chunks_exact(8) {
        let &[tag_low, tag_high, low, high, ref id @ ..] = entry else { return None };
        let id = u32::from_le_bytes(id.try_into().ok()?);
        let (tag, name) = match u16::from_le_bytes([tag_low, tag_high]) {
            0x01 => ("user", String::new()),
            0x02 => ("user", id.to_string()),
            0x04 => ("group", String::new()),
            0x08 => ("group", id.to_string()),
            0x10 => ("mask", String::new()),
            0x20 => ("other", String::new()),
            _ => return None,
        };
        let bits = u16::from_le_bytes([low, high]);
        if bits > 7 {
            return None;
        }
        let [r, w, x] = [(4, 'r'), (2, 'w'), (1, 'x')]
            .map(|(bit, letter)| if bits & bit != 0 { letter } else { '-' });
        text.push_str(&format!("{tag}:{name}:{r}{w}{x}\n"));
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the value of an ACL with these entries: tag, permissions and id.
    fn value(entries: &[(u16, u16, u32)]) -> Vec<u8> {
        let mut value = VERSION.to_le_bytes().to_vec();
        for (tag, permissions, id) in entries {
            value.extend([tag.to_le_bytes(), permissions.to_le_bytes()].concat());
            value.extend(id.to_le_bytes());
        }
        value
    }

    #[test]
    fn value_becomes_lines_of_text() {
        let none = u32::MAX;
        let entries = [
            (0x01, 7, none),
            (0x02, 4, 1000),
            (0x04, 5, none),
            (0x08, 2, 4_294_967_294),
            (0x10, 1, none),
            (0x20, 0, none),
        ];
        let text =
            "user::rwx\nuser:1000:r--\ngroup::r-x\ngroup:4294967294:-w-\nmask::--x\nother::---\n";
        assert_eq!(acl_text(&value(&entries)).as_deref(), Some(text), "all tags");
    }

    #[test]
    fn other_values_have_no_text() {
        let mut torn = value(&[(0x01, 7, 0)]);
        torn.pop();
        let version = [&3_u32.to_le_bytes()[..], &value(&[(0x01, 7, 0)])[4..]].concat();
        for value in
            [vec![], value(&[]), torn, version, value(&[(0x40, 7, 0)]), value(&[(0x01, 8, 0)])]
        {
            assert_eq!(acl_text(&value), None, "{value:?}");
        }
    }
}
