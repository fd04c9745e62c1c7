//! Sizes as definitions write them.

/// Parses a size in bytes: digits with an optional suffix k, M or G (powers of 1024), in either
/// case.
pub(crate) fn size(text: &str) -> Option<usize> {
    let (digits, shift) = match text.as_bytes().last()?.to_ascii_lowercase() {
        b'k' => (&text[..text.len() - 1], 10),
        b'm' => (&text[..text.len() - 1], 20),
        b'g' => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.parse::<usize>().ok()?.checked_mul(1 << shift))?
}
