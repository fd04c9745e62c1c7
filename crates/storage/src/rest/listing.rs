//! Listings: the answer to the request for a folder, version 2 of restic's REST protocol.

use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error as _, SeqAccess, Visitor};

use super::names::{is_file_name, name_of};
use crate::storage::{count_max, is_staged};

/// A file in a listing.
#[derive(Deserialize)]
struct File {
    name: String,
    size: i64,
}

/// Parses the listing of `folder`. Returns names and lengths of its objects, sorted by name. Files
/// that are no objects are left out.
///
/// # Errors
///
/// Returns a text if the bytes are not a listing, or name something that is no file, or more objects
/// than the kind of the folder allows.
pub(super) fn parse(folder: &str, bytes: &[u8]) -> Result<Vec<(String, u64)>, String> {
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let files = Files { folder, count_max: count_max(folder) };
    let parsed = files.deserialize(&mut json).and_then(|parsed| json.end().map(|()| parsed));
    let mut objects = parsed.map_err(|error| error.to_string())?;
    objects.sort_unstable();
    // Some remotes permit several files of one name.
    objects.dedup_by(|one, other| one.0 == other.0);
    Ok(objects)
}

/// Reads the files of a folder, one at a time.
struct Files<'a> {
    folder: &'a str,
    count_max: usize,
}

impl<'de> DeserializeSeed<'de> for Files<'_> {
    type Value = Vec<(String, u64)>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Files<'_> {
    type Value = Vec<(String, u64)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of files with sizes")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut files: A) -> Result<Self::Value, A::Error> {
        let mut objects = Vec::new();
        while let Some(File { name, size }) = files.next_element()? {
            let shown: String = name.escape_debug().take(80).collect();
            if !is_file_name(&name) {
                return Err(A::Error::custom(format!("\"{shown}\" is not the name of a file")));
            }
            let Some(name) = name_of(self.folder, &name) else { continue };
            if is_staged(&name) {
                continue;
            }
            let len = u64::try_from(size).map_err(|_| {
                A::Error::custom(format!("\"{shown}\" has no known size ({size} bytes)"))
            })?;
            objects.push((name, len));
            if objects.len() > self.count_max {
                let text = format!("more than {} objects, the maximum", self.count_max);
                return Err(A::Error::custom(text));
            }
        }
        Ok(objects)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cutpoint_testing::SplitMix64;

    #[test]
    fn listing_is_sorted_and_complete() {
        let text = br#"[{"name":"b","size":2},{"name":"a","size":1,"more":[{}]},
            {"name":"=62=2Fc","size":3},{"name":"b","size":2},{"name":"x#12","size":9}]"#;
        let expected = [("tmp/a", 1), ("tmp/b", 2), ("tmp/b/c", 3)];
        let expected = expected.map(|(name, len)| (name.to_owned(), len));
        assert_eq!(parse("tmp", text).as_deref(), Ok(&expected[..]));
        assert_eq!(parse("tmp", b"[]\n"), Ok(Vec::new()), "an empty folder");
    }

    #[test]
    fn hostile_listings_are_refused() {
        for (text, problem) in [
            (r#"["a","b"]"#, "invalid type"),
            ("<html>", "expected value"),
            ("", "EOF"),
            ("null", "a list of files with sizes"),
            (r#"[{"name":"a"}]"#, "missing field `size`"),
            (r#"[{"name":"a","size":1}"#, "EOF"),
            (r#"[{"name":"a","size":1}] x"#, "trailing characters"),
            (r#"[{"name":"..","size":1}]"#, "is not the name of a file"),
            (r#"[{"name":"../../etc/passwd","size":1}]"#, "is not the name of a file"),
            (r#"[{"name":"a/b","size":1}]"#, "is not the name of a file"),
            (r#"[{"name":"","size":1}]"#, "is not the name of a file"),
            ("[{\"name\":\"a\\u0000\",\"size\":1}]", "is not the name of a file"),
            (r#"[{"name":"a","size":-1}]"#, "no known size"),
            (r#"[{"name":"a","size":1e300}]"#, "invalid type"),
            (r#"[{"name":"a","size":99999999999999999999999}]"#, ""),
        ] {
            let error = parse("tmp", text.as_bytes()).expect_err(text);
            assert!(error.contains(problem), "{text}: {error}");
        }
        let deep = "[".repeat(100_000);
        assert!(parse("tmp", deep.as_bytes()).is_err(), "lists in lists");
        let huge = format!(r#"[{{"name":"a","size":{}}}]"#, i64::MAX);
        let listed = parse("tmp", huge.as_bytes()).expect("a length decides nothing");
        assert_eq!(listed, [("tmp/a".to_owned(), i64::MAX.unsigned_abs())]);
        let names: Vec<String> =
            (0..=10_000).map(|number| format!(r#"{{"name":"{number}","size":1}}"#)).collect();
        let many = format!("[{}]", names.join(","));
        assert!(parse("keys", many.as_bytes()).expect_err("too many").contains("10000"));
    }

    /// Damaged listings end with an error or with names that have paths.
    #[test]
    fn random_damage_leads_to_no_foreign_name() {
        let text = br#"[{"name":"=62=2Fc","size":3},{"name":"3c3c","size":12}]"#;
        let mut random = SplitMix64::new(3);
        for _ in 0..20_000 {
            let mut bytes = text.to_vec();
            for _ in 0..=random.below(3) {
                let at = random.below(bytes.len());
                bytes[at] = random.byte();
            }
            for (name, _) in parse("tmp", &bytes).unwrap_or_default() {
                assert!(name.starts_with("tmp/") && !name.contains("/../"), "{name:?}");
            }
        }
    }
}
