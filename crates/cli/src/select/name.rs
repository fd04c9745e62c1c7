//! The forms in which an argument names a snapshot, and a path in it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use anyhow::Result;

use crate::defaults::ID_DIGITS_MIN;
use crate::exit::Failure;
use crate::{escape, units};

/// The name of the newest snapshot.
const LATEST: &str = "latest";

/// A parsed argument `SNAPSHOT` or `SNAPSHOT:PATH`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'a> {
    /// The name of a snapshot, in one of the forms of [`SnapshotName`].
    pub(crate) snapshot: &'a OsStr,
    /// The path; `None` if there is no colon.
    pub(crate) path: Option<&'a [u8]>,
}

impl<'a> Place<'a> {
    /// Splits `text` at its first colon that does not belong to a time.
    pub(crate) fn parse(text: &'a OsStr) -> Place<'a> {
        let bytes = text.as_bytes();
        let date_len = units::date_len(bytes).unwrap_or(0);
        match bytes[date_len..].iter().position(|&byte| byte == b':') {
            Some(at) => {
                let (snapshot, path) = bytes.split_at(date_len + at);
                Place { snapshot: OsStr::from_bytes(snapshot), path: path.get(1..) }
            }
            None => Place { snapshot: text, path: None },
        }
    }
}

/// A name of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SnapshotName {
    /// The snapshot with this number of newer ones: `latest` or `latest~N`.
    Latest(usize),
    /// The newest snapshot before this time, in seconds since 1970: the end of a given day, minute
    /// or second.
    Before(i64),
    /// The beginning of an id, in lower case.
    Id(String),
}

impl SnapshotName {
    /// Parses `text`.
    ///
    /// # Errors
    ///
    /// Fails if `text` has none of the forms.
    pub(crate) fn parse(text: &OsStr) -> Result<SnapshotName> {
        let shown = escape::for_terminal(text.as_bytes());
        let refuse = |problem: &str| {
            Err(Failure::failed(format!("`{shown}`: {problem}"))
                .with_remedy(
                    "`cutpoint help selection` explains the names of snapshots; `cutpoint \
                     snapshots` lists all snapshots",
                )
                .into())
        };
        if let Some(rest) = shown.strip_prefix(LATEST) {
            let is_number = |digits: &&str| digits.bytes().all(|byte| byte.is_ascii_digit());
            let digits = rest.strip_prefix('~').filter(is_number);
            return match digits.and_then(|digits| digits.parse().ok()) {
                _ if rest.is_empty() => Ok(SnapshotName::Latest(0)),
                Some(newer_count) => Ok(SnapshotName::Latest(newer_count)),
                None => refuse(&format!("not a snapshot (expected `{LATEST}` or `{LATEST}~1`)")),
            };
        }
        if shown.as_bytes().get(4) == Some(&b'-') {
            return match units::parse_period(&shown) {
                Ok(period) => Ok(SnapshotName::Before(period.end)),
                Err(problem) => refuse(&format!("not a snapshot: {problem}")),
            };
        }
        let wanted = shown.to_ascii_lowercase();
        if wanted.is_empty() || !wanted.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return refuse(&format!("not a snapshot (expected an ID, `{LATEST}` or a date)"));
        }
        if wanted.len() < ID_DIGITS_MIN {
            return refuse(&format!(
                "too short (expected at least {ID_DIGITS_MIN} digits of an ID)"
            ));
        }
        Ok(SnapshotName::Id(wanted))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colon_separates_snapshot_and_path() {
        for (text, snapshot, path) in [
            ("latest", "latest", None),
            ("latest:", "latest", Some("")),
            ("1234:/a:b", "1234", Some("/a:b")),
            ("2026-11-20:/a:b", "2026-11-20", Some("/a:b")),
            ("2026-11-20T14:30", "2026-11-20T14:30", None),
            ("2026-11-20T14:30:/a", "2026-11-20T14:30", Some("/a")),
            ("2026-11-20 14:30:59Z:a", "2026-11-20 14:30:59Z", Some("a")),
        ] {
            let place = Place::parse(OsStr::new(text));
            assert_eq!(place.snapshot, snapshot, "{text}");
            assert_eq!(place.path, path.map(str::as_bytes), "{text}");
        }
    }

    #[test]
    fn names_have_one_of_three_forms() {
        let id = |digits: &str| SnapshotName::Id(digits.to_owned());
        for (text, expected) in [
            ("latest", SnapshotName::Latest(0)),
            ("latest~0", SnapshotName::Latest(0)),
            ("latest~12", SnapshotName::Latest(12)),
            ("2026-11-20Z", SnapshotName::Before(1_795_219_200)),
            ("2026-11-20T14:30Z", SnapshotName::Before(1_795_185_060)),
            ("ABCD", id("abcd")),
            ("2026", id("2026")),
        ] {
            let parsed = SnapshotName::parse(OsStr::new(text));
            assert_eq!(parsed.expect(text), expected, "{text}");
        }
        for text in [
            "",
            "abc",
            "latest~",
            "latest~x",
            "latest~-1",
            "latest~+1",
            "latest1",
            "abcd~1",
            "2026-11",
            "2026-13-01",
            "newest",
        ] {
            assert!(
                SnapshotName::parse(OsStr::new(text)).is_err(),
                "{text:?} was taken for a name"
            );
        }
    }
}
