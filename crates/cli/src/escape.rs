//! Names of any bytes, made fit for a terminal, and for JSON.

use std::fmt::Write as _;

/// The text of `bytes` for a terminal: what would move the cursor, hide or reorder text, or is not
/// UTF-8, becomes an escape sequence as in C; so does a backslash, where there is any other.
pub(crate) fn for_terminal(bytes: &[u8]) -> String {
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

fn is_treacherous(character: char) -> bool {
    character.is_control()
        // Marks and overrides of the writing direction, and what takes no room.
        || matches!(u32::from(character), 0x200b..=0x200f | 0x2028..=0x202e | 0x2060..=0x2069 | 0xfeff)
}

/// `bytes` in hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
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
    fn nothing_reaches_the_terminal_unescaped() {
        assert_eq!(
            for_terminal("plain \u{fc} \\ text".as_bytes()),
            "plain \u{fc} \\ text",
            "plain"
        );
        assert_eq!(for_terminal(b"a\nb\x1b[31m\\"), "a\\nb\\x1b[31m\\\\", "controls");
        assert_eq!(for_terminal(b"\xff\xfea"), "\\xff\\xfea", "not UTF-8");
        assert_eq!(for_terminal("x\u{202e}y".as_bytes()), "x\\u{202e}y", "override");
    }
}
