//! Names of files as text.

use std::fmt::Write as _;

/// Returns `name` as text, in which bytes that are not UTF-8 are escaped as in C (`\xff`). A
/// backslash is escaped if anything else is.
pub fn name_text(name: &[u8]) -> String {
    if let Ok(text) = std::str::from_utf8(name) {
        return text.to_owned();
    }
    let mut text = String::with_capacity(name.len() + 8);
    for chunk in name.utf8_chunks() {
        text.push_str(&chunk.valid().replace('\\', "\\\\"));
        for byte in chunk.invalid() {
            // Writing to a string does not fail.
            write!(text, "\\x{byte:02x}").ok();
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_not_utf_8_are_escaped() {
        assert_eq!(name_text(b"inv\xff"), "inv\\xff", "a byte");
        assert_eq!(name_text(b"a\\\xff"), "a\\\\\\xff", "a backslash beside it");
        assert_eq!(name_text("\u{fc}\\".as_bytes()), "\u{fc}\\", "UTF-8");
    }
}
