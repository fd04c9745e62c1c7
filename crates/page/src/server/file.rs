//! Details and previews of entries. Text is sent as text, pictures only if their first bytes are those
//! of a format that holds no script.

use std::fmt::Write as _;
use std::sync::Arc;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use cutpoint_repository::{Content, Entry, EntryKind};
use http::{HeaderMap, header};
use serde_json::{Value, json};

use super::failure::Failure;
use super::listing::{kind_name, time_of};
use super::query::Query;
use super::shared::Shared;
use super::text::shown;

/// The maximum length of a text that is shown, in bytes.
const TEXT_LEN_MAX: usize = 256 << 10;
/// The number of bytes that are shown of a file that is no text.
const DUMP_LEN: usize = 512;
/// The maximum size of a picture that is shown, in bytes.
const PICTURE_SIZE_MAX: u64 = 32 << 20;
/// The number of first bytes that tell the format of a picture.
const HEAD_LEN: usize = 32;

/// Returns the details of an entry and, of a file, a preview.
pub(super) fn preview(shared: &Shared, query: &Query) -> Result<Value, Failure> {
    let named = shared.named(query)?;
    let entry = &named.entry;
    let mut value = json!({
        "name": shown(&entry.name),
        "kind": kind_name(entry.kind),
        "mode": format!("{:04o}", entry.mode),
        "user": owner(&entry.user, entry.user_id),
        "group": owner(&entry.group, entry.group_id),
        "time": time_of(entry),
        "links": entry.links,
        "xattrs": entry.xattrs.iter().map(|(name, _)| shown(name)).collect::<Vec<_>>(),
        "defect": entry.defect.map(|defect| defect.message()),
    });
    match (entry.kind, &entry.content) {
        (EntryKind::Symlink, Content::Raw(target)) => value["target"] = shown(target).into(),
        (EntryKind::File, _) => {
            value["size"] = entry.size.into();
            value["preview"] =
                match shared.contents.read(shared.new_reading(), entry, 0, TEXT_LEN_MAX) {
                    Ok(bytes) => preview_of(entry, &bytes),
                    Err(error) => json!({ "kind": "damaged", "message": error.to_string() }),
                };
        }
        _ => {}
    }
    Ok(value)
}

fn owner(name: &str, id: u32) -> String {
    if name.is_empty() { id.to_string() } else { shown(name.as_bytes()) }
}

/// Returns the preview of a file that begins with `bytes`.
fn preview_of(entry: &Entry, bytes: &[u8]) -> Value {
    if entry.size == 0 {
        return json!({ "kind": "empty" });
    }
    if picture_type(bytes).is_some() && entry.size <= PICTURE_SIZE_MAX {
        return json!({ "kind": "picture" });
    }
    let is_cut = (bytes.len() as u64) < entry.size;
    match text_of(bytes, is_cut) {
        Some(text) => json!({ "kind": "text", "text": text, "cut": is_cut }),
        None => {
            json!({ "kind": "bytes", "text": dump(&bytes[..bytes.len().min(DUMP_LEN)]) })
        }
    }
}

/// Returns bytes as text, if they are text in UTF-8. The last character may be cut off.
pub(super) fn text_of(bytes: &[u8], is_cut: bool) -> Option<&str> {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) if is_cut && error.error_len().is_none() => {
            std::str::from_utf8(&bytes[..error.valid_up_to()]).ok()?
        }
        Err(_) => return None,
    };
    let is_control =
        |it: char| it.is_control() && !matches!(it, '\n' | '\r' | '\t' | '\x0c' | '\x1b');
    (!text.contains(is_control)).then_some(text)
}

/// Returns bytes in hexadecimal and as ASCII, 16 in a line.
fn dump(bytes: &[u8]) -> String {
    let mut text = String::new();
    for (number, line) in bytes.chunks(16).enumerate() {
        write!(text, "{:08x} ", number * 16).ok();
        for at in 0..16 {
            match line.get(at) {
                Some(byte) => write!(text, " {byte:02x}").ok(),
                None => write!(text, "   ").ok(),
            };
        }
        text.push_str("  ");
        let plain = |byte: &u8| if matches!(byte, 0x20..0x7f) { char::from(*byte) } else { '.' };
        text.extend(line.iter().map(plain));
        text.push('\n');
    }
    text
}

/// Returns the type of a picture by its first bytes. SVG is none of them: it may have scripts.
fn picture_type(head: &[u8]) -> Option<&'static str> {
    let begins = |bytes: &[u8]| head.starts_with(bytes);
    let has_at = |at: usize, bytes: &[u8]| head.get(at..).is_some_and(|it| it.starts_with(bytes));
    if begins(b"\x89PNG\r\n\x1a\n") {
        Some("image/png")
    } else if begins(b"\xff\xd8\xff") {
        Some("image/jpeg")
    } else if begins(b"GIF87a") || begins(b"GIF89a") {
        Some("image/gif")
    } else if begins(b"RIFF") && has_at(8, b"WEBP") {
        Some("image/webp")
    } else if has_at(4, b"ftypavif") {
        Some("image/avif")
    } else {
        None
    }
}

/// Returns a picture, with the type of its first bytes.
pub(super) fn picture(
    shared: &Arc<Shared>,
    query: &Query,
    _: &HeaderMap,
) -> Result<Response, Failure> {
    let named = shared.named(query)?;
    if named.entry.kind != EntryKind::File || named.entry.size > PICTURE_SIZE_MAX {
        return Err(Failure::refused("this is no picture that is shown"));
    }
    let len = usize::try_from(named.entry.size).unwrap_or(usize::MAX);
    let bytes = shared.contents.read(shared.new_reading(), &named.entry, 0, len)?;
    let kind = picture_type(&bytes[..bytes.len().min(HEAD_LEN)]);
    let kind = kind.ok_or_else(|| Failure::refused("this is no picture that is shown"))?;
    Ok(([(header::CONTENT_TYPE, kind)], Body::from(bytes)).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_formats_without_scripts_are_pictures() {
        let pictures: [&[u8]; 5] = [
            b"\x89PNG\r\n\x1a\n...",
            b"\xff\xd8\xff\xe0",
            b"GIF89a",
            b"RIFF\0\0\0\0WEBPVP8 ",
            b"\0\0\0\x20ftypavif",
        ];
        assert!(pictures.iter().all(|it| picture_type(it).is_some()), "formats");
        let others: [&[u8]; 4] = [b"<svg xmlns=", b"<html>", b"", b"RIFF\0\0\0\0WAVE"];
        assert!(others.iter().all(|it| picture_type(it).is_none()), "no formats");
    }

    #[test]
    fn text_may_be_cut_inside_a_character() {
        let bytes = "a\u{e9}".as_bytes();
        assert_eq!(text_of(bytes, false), Some("a\u{e9}"), "complete");
        assert_eq!(text_of(&bytes[..2], true), Some("a"), "cut");
        assert_eq!(text_of(&bytes[..2], false), None, "no text");
        assert_eq!(text_of(b"a\0b", false), None, "a zero byte");
        assert_eq!(dump(b"A\0").trim_end(), format!("00000000  41 00{}  A.", "   ".repeat(14)));
    }
}
