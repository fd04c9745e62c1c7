//! The records of PAX headers.

use cutpoint_repository::Time;

use super::acl::acl_text;

/// The beginning of the keywords of extended attributes.
const XATTR: &str = "SCHILY.xattr.";
/// The extended attributes that hold ACLs, and the keywords of ACLs as text. GNU tar with `--acls`
/// heeds these keywords alone.
const ACLS: [(&[u8], &str); 2] = [
    (b"system.posix_acl_access", "SCHILY.acl.access"),
    (b"system.posix_acl_default", "SCHILY.acl.default"),
];

/// The records of one member, each a keyword and a value.
#[derive(Debug, Default)]
pub(super) struct Records(Vec<(String, Vec<u8>)>);

impl Records {
    pub(super) fn add(&mut self, keyword: &str, value: impl Into<Vec<u8>>) {
        self.0.push((keyword.to_owned(), value.into()));
    }

    /// Adds an extended attribute, an ACL also as text. Returns `false` if its name cannot be a
    /// keyword.
    pub(super) fn add_xattr(&mut self, name: &[u8], value: &[u8]) -> bool {
        if let Some((_, keyword)) = ACLS.iter().find(|(attribute, _)| *attribute == name)
            && let Some(text) = acl_text(value)
        {
            self.add(keyword, text);
        }
        let Ok(name) = std::str::from_utf8(name) else { return false };
        // As GNU tar does, because the keyword ends at the first `=`.
        let name = name.replace('%', "%25").replace('=', "%3D");
        self.add(&format!("{XATTR}{name}"), value);
        true
    }

    /// Returns keywords and values.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.0.iter().map(|(keyword, value)| (keyword.as_str(), value.as_slice()))
    }
}

/// Formats a time as a decimal number of seconds.
pub(super) fn decimal(time: Time) -> String {
    let Time { seconds, nanoseconds } = time;
    match (seconds, nanoseconds) {
        (_, 0) => seconds.to_string(),
        (0.., _) => format!("{seconds}.{nanoseconds:09}"),
        // The nanoseconds count forward, and the digits of a negative number backward.
        _ => {
            format!("-{}.{:09}", (seconds + 1).unsigned_abs(), 1_000_000_000_u32 - nanoseconds)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_decimal_numbers() {
        for (seconds, nanoseconds, expected) in [
            (0, 0, "0"),
            (1, 5, "1.000000005"),
            (0, 999_999_999, "0.999999999"),
            (-1, 0, "-1"),
            (-1, 500_000_000, "-0.500000000"),
            (-2, 999_999_999, "-1.000000001"),
            (i64::MIN, 1, "-9223372036854775807.999999999"),
        ] {
            assert_eq!(decimal(Time { seconds, nanoseconds }), expected, "{expected}");
        }
    }

    #[test]
    fn keywords_of_attributes_have_no_equals_sign() {
        let mut records = Records::default();
        assert!(records.add_xattr(b"user.a=b%", b"\0="), "UTF-8");
        assert!(!records.add_xattr(b"user.\xff", b""), "not UTF-8");
        let records: Vec<_> = records.iter().collect();
        assert_eq!(records, [("SCHILY.xattr.user.a%3Db%25", &b"\0="[..])], "encoded");
    }
}
