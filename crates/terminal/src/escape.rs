//! Arbitrary bytes, escaped for a terminal and for JSON.

use std::fmt::Write as _;

/// Returns `bytes` as text for a terminal. Characters that would move the cursor, hide or reorder
/// text, and bytes that are not UTF-8, become escape sequences as in C. A backslash is escaped if
/// anything else is.
pub fn for_terminal(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.chars().any(is_treacherous) => text.to_owned(),
        _ => escaped(bytes),
    }
}

fn escaped(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() + 8);
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '\\' => text.push_str("\\\\"),
                '\n' => text.push_str("\\n"),
                '\r' => text.push_str("\\r"),
                '\t' => text.push_str("\\t"),
                _ if is_treacherous(character) && u32::from(character) < 0x80 => {
                    write!(text, "\\x{:02x}", u32::from(character)).ok();
                }
                _ if is_treacherous(character) => {
                    write!(text, "\\u{{{:x}}}", u32::from(character)).ok();
                }
                _ => text.push(character),
            }
        }
        for byte in chunk.invalid() {
            write!(text, "\\x{byte:02x}").ok();
        }
    }
    text
}

/// Returns `true` if the character moves the cursor, reorders text or is invisible: controls, line
/// and paragraph separators, marks and overrides of the writing direction, characters that a
/// terminal ignores (`Default_Ignorable_Code_Point`: joiners, tags, variation selectors), and
/// annotation marks.
///
/// Source: Unicode 16, `DerivedCoreProperties.txt` and `PropList.txt` (`Bidi_Control`).
fn is_treacherous(character: char) -> bool {
    character.is_control()
        || matches!(
            u32::from(character),
            0xad
                | 0x34f
                | 0x61c
                | 0x115f..=0x1160
                | 0x17b4..=0x17b5
                | 0x180b..=0x180f
                | 0x200b..=0x200f
                | 0x2028..=0x202e
                | 0x2060..=0x206f
                | 0x3164
                | 0xfe00..=0xfe0f
                | 0xfeff
                | 0xffa0
                | 0xfff0..=0xfffb
                | 0x1bca0..=0x1bca3
                | 0x1d173..=0x1d17a
                | 0xe0000..=0xe0fff
        )
}

/// Returns `bytes` in hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        write!(text, "{byte:02x}").ok();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn treacherous_bytes_are_escaped() {
        assert_eq!(
            for_terminal("plain \u{fc} \\ text".as_bytes()),
            "plain \u{fc} \\ text",
            "plain"
        );
        assert_eq!(for_terminal(b"a\nb\x1b[31m\\"), "a\\nb\\x1b[31m\\\\", "controls");
        assert_eq!(for_terminal(b"\xff\xfea"), "\\xff\\xfea", "not UTF-8");
        assert_eq!(for_terminal("x\u{202e}y".as_bytes()), "x\\u{202e}y", "override");
        let invisible = [
            0xad, 0x34f, 0x61c, 0x115f, 0x17b4, 0x180b, 0x180e, 0x200b, 0x2028, 0x2029, 0x202e,
            0x2060, 0x2065, 0x2066, 0x206f, 0x3164, 0xfe00, 0xfe0f, 0xfeff, 0xffa0, 0xfff9, 0xfffb,
            0x1bca0, 0x1d173, 0xe0000, 0xe0001, 0xe0020, 0xe007f, 0xe0100, 0xe0fff,
        ];
        for code in invisible {
            let character = char::from_u32(code).expect("a character");
            let text = for_terminal(format!("a{character}b").as_bytes());
            assert_eq!(text, format!("a\\u{{{code:x}}}b"), "U+{code:04X}");
        }
        for code in
            [0xa0, 0x34e, 0x600, 0x61b, 0x1161, 0x180a, 0x2027, 0x3042, 0xfe10, 0xfffd, 0x1f600]
        {
            let character = char::from_u32(code).expect("a character");
            let text = for_terminal(format!("a{character}b").as_bytes());
            assert_eq!(text, format!("a{character}b"), "U+{code:04X} can be seen");
        }
    }
}
